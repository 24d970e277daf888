"""What the 2007 paper printed, as data: its tables, and its conclusions."""

from __future__ import annotations

from analysis.published.loader import Claim, Published, claims, load

__all__ = ["Claim", "Published", "claims", "load"]
