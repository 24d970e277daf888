"""Advice: limits of applications, and the policies that qualify."""

from __future__ import annotations

from studies.qop2007.report.advice.advise import advise, overview
from studies.qop2007.report.advice.applications import APPLICATIONS, Limits, limits_of

__all__ = ["APPLICATIONS", "Limits", "advise", "limits_of", "overview"]
