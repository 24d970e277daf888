"""Load the values and claims that the 2004 paper on EAP-TLS printed.

`load_values` returns the authentication times of Table 1 (s), and printed values that contradict
each other. `load_claims` returns the paper's conclusions. The report compares both with
measurements. The paper is Kambourakis, Rouskas and Gritzalis (2004).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from analysis.cells import Ids
from analysis.claims import Claim
from documents.yaml_reader import load_own
from studies.eapload2004.cells import PLACES, cell_ids

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class PublishedValues:
    """The authentication times of Table 1 (s) by combination of factors, and contradictions."""

    service_time_s: Mapping[Ids, float]
    inconsistent: tuple[str, ...]


@cache
def load_values() -> PublishedValues:
    """Return all values that the paper printed, without its claims."""
    raw: Any = load_own(_FOLDER / "values.yml")
    return PublishedValues(
        {cell_ids(load=str(load), place=place): seconds for load, row in raw["table_1_s"].items()
         for place, seconds in zip(PLACES, row, strict=True)}, tuple(raw["inconsistent"]))


@cache
def load_claims() -> Mapping[str, Claim]:
    """Return the claims (conclusions) of the paper, and one on the queueing model, by number."""
    raw: Any = load_own(_FOLDER / "claims.yml")
    return {entry["id"]: Claim(**entry) for entry in raw}
