"""Which policy for whom: limits of applications, and the policies that qualify."""

from __future__ import annotations

from analysis.advice.advise import advise, overview
from analysis.advice.applications import APPLICATIONS, Limits, limits_of

__all__ = ["APPLICATIONS", "Limits", "advise", "limits_of", "overview"]
