"""The 2007 paper's study: what twelve policies cost, at home and roaming."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from studies.qop2007.study import STUDY

__all__ = ["STUDY"]


def __getattr__(name: str) -> Any:
    # Not before it is asked for: what runs in a machine has no pydantic.
    if name != "STUDY":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("studies.qop2007.study").STUDY
