"""Printed values of the paper as data: policies, tables and conclusions."""

from __future__ import annotations

from studies.qop2007.published.loader import Published, claims, load, policies

__all__ = ["Published", "claims", "load", "policies"]
