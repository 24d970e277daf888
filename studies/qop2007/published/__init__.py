"""Values printed in the 2007 paper, as data: policies, tables and conclusions.

The paper is Agarwal and Wang (2007).
"""

from __future__ import annotations

from studies.qop2007.published.loader import (
    PublishedValues,
    load_claims,
    load_policies,
    load_values,
)

__all__ = ["PublishedValues", "load_claims", "load_policies", "load_values"]
