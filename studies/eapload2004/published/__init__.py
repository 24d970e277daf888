"""The paper's printed values in SI units, its claims, and where it contradicts itself."""

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
    """Table 1 by the ids of our cells, in seconds, and remarks on what does not fit together."""

    service_time_s: Mapping[Ids, float]
    inconsistent: tuple[str, ...]


@cache
def load() -> PrintedTimes:
    """Everything that the paper printed, but for its claims."""
    raw: Any = yaml.safe_load((_FOLDER / "values.yml").read_text(encoding="utf-8"))
    return PrintedTimes(
        {ids(load=str(load), place=place): seconds for load, row in raw["table_1_s"].items()
         for place, seconds in zip(PLACES, row, strict=True)}, tuple(raw["inconsistent"]))


@cache
def claims() -> Mapping[str, Claim]:
    """The paper's conclusions by their numbers, and the model's."""
    raw: Any = yaml.safe_load((_FOLDER / "claims.yml").read_text(encoding="utf-8"))
    return {entry["id"]: Claim(**entry) for entry in raw}
