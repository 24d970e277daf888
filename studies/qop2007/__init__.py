"""The 2007 paper's study: what twelve policies cost, at home and roaming."""

from __future__ import annotations

from studies.qop2007.study import STUDY

__all__ = ["STUDY"]
