"""Load the values and claims that the 1987 paper on ADP printed.

`load_values` returns the numbers of its tables in SI units, by table, metric and combination of
factors. `load_claims` returns its conclusions. The report compares both with measurements. The
paper is the report of Anderson, Ferrari, Rangan and Sartirana (1987) on the Authenticated Datagram
Protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from analysis.cells import Ids, Key
from analysis.claims import Claim
from documents.yaml_reader import load_own
from studies.adp1987.cells import cell_ids
from studies.adp1987.measurements import ADP_BYTES, LATENCY, THROUGHPUT, UTILISATION

_FOLDER = Path(__file__).parent
QUEUES = ("OFF", "ON")
T, L = THROUGHPUT.name, LATENCY.name


@dataclass(frozen=True)
class PublishedValues:
    """The printed values by table, metric and combination of factors.

    - `tables`: values of each table
    - `establishment_s`: time to set up a channel, from the text
    - `figure_7_ms`: values read from Figure 7
    - `inconsistent`: descriptions of printed values that contradict each other
    """

    tables: Mapping[str, Mapping[Key, float]]
    establishment_s: float
    figure_7_ms: Mapping[str, Any]
    inconsistent: tuple[str, ...]

    @property
    def all(self) -> Mapping[Key, float]:
        """Return every printed value. If tables disagree, the first table counts."""
        merged: dict[Key, float] = {}
        for table in self.tables.values():
            merged = {**table, **merged}
        return merged


@cache
def load_values() -> PublishedValues:
    """Return all values that the paper printed, without its claims."""
    raw = load_own(_FOLDER / "values.yml")
    return PublishedValues(
        {"2": dict(_table_2(raw)), "3": dict(_table_of_scopes(raw["table_3"], "ALL")),
         "4": dict(_table_of_scopes(raw["table_4"], "ND")), "5": dict(_table_5(raw)),
         "6": dict(_table_6(raw)), "utilisation": dict(_utilisation_values(raw))},
        raw["establishment_s"], raw["figure_7"], tuple(raw["inconsistent"]))


@cache
def load_claims() -> Mapping[str, Claim]:
    """Return the paper's claims (conclusions) by number."""
    raw = load_own(_FOLDER / "claims.yml")
    return {name: Claim(name, entry["says"], entry["where"]) for name, entry in raw.items()}


def scope_ids(trace: str, scope: str, queue: str) -> Ids:
    """Return the combination of factors behind an entry of Table 3 or 4."""
    return cell_ids(trace, scope=scope, queue=queue)


def _cell_values(cell: Ids, throughput: float, latency: float) -> Iterator[tuple[Key, float]]:
    yield (T, *cell), throughput * 1e3
    yield (L, *cell), latency / 1e3


def _table_2(raw: Any) -> Iterator[tuple[Key, float]]:
    for trace, (size, throughput, latency) in raw["table_2"].items():
        yield (ADP_BYTES.name, *cell_ids(trace)), size
        yield from _cell_values(cell_ids(trace), throughput, latency)


def _table_of_scopes(table: Any, trace: str) -> Iterator[tuple[Key, float]]:
    for scope, row in table.items():
        for queue, throughput, latency in zip(QUEUES, row["T"], row["L"], strict=True):
            yield from _cell_values(scope_ids(trace, scope, queue), throughput, latency)


def _table_5(raw: Any) -> Iterator[tuple[Key, float]]:
    for trace, row in raw["table_5"].items():
        for technology, throughput, latency in zip(("HW", "SW"), row["T"], row["L"], strict=True):
            yield from _cell_values(cell_ids(trace, technology=technology), throughput, latency)


def _table_6(raw: Any) -> Iterator[tuple[Key, float]]:
    for urgency, (throughput, latency) in raw["table_6"].items():
        yield from _cell_values(cell_ids("ALL", urgency=urgency), throughput, latency)


def _utilisation_values(raw: Any) -> Iterator[tuple[Key, float]]:
    for scope, row in raw["utilisation"].items():
        for queue, percent in zip(QUEUES, row, strict=True):
            yield (UTILISATION.name, *scope_ids("ND", scope, queue)), percent / 100
