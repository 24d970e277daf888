"""The paper's printed values in SI units, by the ids of our cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from analysis.cells import Key
from analysis.claims.verdict import Claim
from studies.kerberos2002.body import PHASES, RESPONSE
from studies.kerberos2002.design import cell_ids

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class PublishedValues:
    """Printed values: Table III by metric and cell, operation counts and others."""

    table_3: Mapping[Key, float]
    table_1_s: Mapping[str, float]
    legible: Mapping[str, Mapping[str, int]]
    counted: Mapping[str, Mapping[str, int]]
    figure_10_s: Mapping[str, float]
    stable_below_per_s: float
    inconsistent: tuple[str, ...]


@cache
def load() -> PublishedValues:
    """Return all printed values of the paper, except its claims."""
    raw = yaml.safe_load((_FOLDER / "values.yml").read_text(encoding="utf-8"))
    return PublishedValues(
        _table_3(raw["table_3_ms"]),
        {name: value / 1e3 for name, value in raw["table_1_ms"].items()}, raw["table_2_secret"],
        raw["appendix_a_secret"], raw["figure_10_s"], raw["figure_6"]["stable_below_per_s"],
        tuple(raw["inconsistent"]))


@cache
def claims() -> Mapping[str, Claim]:
    """Return the paper's conclusions by their numbers."""
    raw = yaml.safe_load((_FOLDER / "claims.yml").read_text(encoding="utf-8"))
    return {name: Claim(name, entry["says"], entry["where"]) for name, entry in raw.items()}


def _table_3(raw: Any) -> dict[Key, float]:
    names = [metric.name for metric in (*PHASES, RESPONSE)]
    return {(metric, *cell_ids(protocol)): value / 1e3 for protocol, row in raw.items()
            for metric, value in zip(names, row, strict=True)}
