"""What the paper printed, as data: its policies, its tables, and its conclusions."""

from __future__ import annotations

from studies.qop2007.published.loader import Published, claims, load, policies

__all__ = ["Published", "claims", "load", "policies"]
