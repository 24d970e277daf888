"""Load the values and claims that the 2002 paper on Kerberos printed.

`load_values` returns the printed numbers in SI units, those of Table III by combination of factors.
`load_claims` returns the paper's conclusions. The report compares both with measurements. The paper
is Harbitter and Menascé (2002).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from analysis.cells import Key
from analysis.claims import Claim
from documents.yaml_reader import load_own
from studies.kerberos2002.cells import cell_ids
from studies.kerberos2002.measurements import PHASES, RESPONSE

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class PublishedValues:
    """Values that the 2002 paper printed.

    - `table_3`: phases of a login by metric and combination
    - `table_1_s`: times of cryptographic operations
    - `legible`: numbers of operations that are legible in Table II, by protocol and node
    - `counted`: these numbers as counted in the messages of appendix A
    - `figure_10_s`: response times read from Figure 10
    - `stable_below_per_s`: rate of logins (1/s) below which the paper's system is stable
    - `inconsistent`: descriptions of printed values that contradict each other
    """

    table_3: Mapping[Key, float]
    table_1_s: Mapping[str, float]
    legible: Mapping[str, Mapping[str, int]]
    counted: Mapping[str, Mapping[str, int]]
    figure_10_s: Mapping[str, float]
    stable_below_per_s: float
    inconsistent: tuple[str, ...]


@cache
def load_values() -> PublishedValues:
    """Return all values that the paper printed, without its claims."""
    raw = load_own(_FOLDER / "values.yml")
    return PublishedValues(
        _table_3(raw["table_3_ms"]),
        {name: value / 1e3 for name, value in raw["table_1_ms"].items()}, raw["table_2_secret"],
        raw["appendix_a_secret"], raw["figure_10_s"], raw["figure_6"]["stable_below_per_s"],
        tuple(raw["inconsistent"]))


@cache
def load_claims() -> Mapping[str, Claim]:
    """Return the paper's claims (conclusions) by number."""
    raw = load_own(_FOLDER / "claims.yml")
    return {name: Claim(name, entry["says"], entry["where"]) for name, entry in raw.items()}


def _table_3(raw: Any) -> dict[Key, float]:
    names = [metric.name for metric in (*PHASES, RESPONSE)]
    return {(metric, *cell_ids(protocol)): value / 1e3 for protocol, row in raw.items()
            for metric, value in zip(names, row, strict=True)}
