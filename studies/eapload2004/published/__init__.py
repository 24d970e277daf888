"""Values, claims and contradictions that the paper printed, in SI units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from analysis.cells import Ids
from analysis.claims.verdict import Claim
from studies.eapload2004.design import PLACES, ids

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class PrintedTimes:
    """The service times of Table 1 (s) by cell, and remarks on contradictions."""

    service_time_s: Mapping[Ids, float]
    inconsistent: tuple[str, ...]


@cache
def load_values() -> PrintedTimes:
    """Return all values that the paper printed, without its claims."""
    raw: Any = yaml.safe_load((_FOLDER / "values.yml").read_text(encoding="utf-8"))
    return PrintedTimes(
        {ids(load=str(load), place=place): seconds for load, row in raw["table_1_s"].items()
         for place, seconds in zip(PLACES, row, strict=True)}, tuple(raw["inconsistent"]))


@cache
def load_claims() -> Mapping[str, Claim]:
    """Return the claims of the paper and of the model, by number."""
    raw: Any = yaml.safe_load((_FOLDER / "claims.yml").read_text(encoding="utf-8"))
    return {entry["id"]: Claim(**entry) for entry in raw}
