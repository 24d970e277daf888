"""Table 1, by what was measured and not by what is said of it; and schemes beyond 1998."""

from __future__ import annotations

from collections.abc import Iterator

from scipy import stats

from analysis.cells import Cells, Observation
from analysis.numbers import of_value
from analysis.table import Column, Entry, Table
from studies.authenticast1998.factors import BESIDE, DISTURBANCES, HEURISTICS
from studies.authenticast1998.metrics import (
    DELAY_P99,
    EXPOSURE,
    LEVEL,
    RETENTION,
)
from studies.authenticast1998.report import air, wired

#: The rows of the paper's Table 1 and what it says; then what it does not have.
_TABLE_1 = {"p20": ("by percentage", "low", "0 to 100 %"),
            "delayed": ("delayed", "varies with bundle", "100 %"),
            "secret-key": ("secret key", "low", "100 %"),
            "tree-16": ("tree", "", ""), "tesla": ("TESLA", "", "")}
_NOTES = (
    ("Non-repudiation: whether a third party can be convinced. Signatures can do that; keys that "
     "both ends know cannot."),
    ("Lost with each altered packet: packets that the receiver gave up because verification "
     "failed, by altered packet that it took up. 1 where one costs itself alone, 0.2 where one in "
     "five is verified."))
_SHOWN = (RETENTION, LEVEL, EXPOSURE, DELAY_P99)


def all_of(cells: Cells) -> Iterator[Table]:
    """The tables whose cells were measured."""
    first = _table_1(cells)
    if first is not None:
        yield first
    of_air = air.table(cells)
    if of_air is not None:
        yield of_air
    for load, disturbance in DISTURBANCES.items():
        if load not in {"tampered", "free"}:
            compared = _compared(cells, load, disturbance.title)
            if compared is not None:
                yield compared


def _table_1(cells: Cells) -> Table | None:
    """Loss risk by what altered packets cost, level by how many of them pass."""
    rows = []
    for heuristic, (name, risk, level) in _TABLE_1.items():
        passed, settled = _tampered(cells, heuristic)
        if settled == 0:
            continue
        rows.append((Entry(name, note=HEURISTICS[heuristic].title),
                     Entry("yes" if HEURISTICS[heuristic].has_non_repudiation else "no"),
                     _risk(cells, heuristic), Entry(risk or "-"), _level(passed, settled),
                     Entry(f"{passed} of {settled}"), Entry(level or "-")))
    if not rows:
        return None
    columns = (Column("heuristic", "Heuristic"), Column("non_repudiation", "Non-repudiation"),
               Column("risk_packets", "Lost with each altered packet"),
               Column("risk_published", "Loss risk, published"),
               Column("level_share", "Level, by altered packets"),
               Column("altered_processed", "Altered packets processed"),
               Column("level_published", "Level, published"))
    return Table("table-1", "Table 1: what each heuristic gives, as its control measured it",
                 columns, tuple(rows), "One packet in 8 was altered on the wire after it was "
                 "signed. Intervals are exact ones of the binomial distribution, 95 %.",
                 _NOTES)


def _counts(cells: Cells, heuristic: str, name: str) -> float:
    observed = cells.blocks(name, wired.cell(cells, (heuristic, "1", "tampered")))
    return sum(observed.values())


def _tampered(cells: Cells, heuristic: str) -> tuple[int, int]:
    """Altered packets that were processed, and all that got as far as a verdict."""
    return (int(_counts(cells, heuristic, "altered_processed_packets")),
            int(_counts(cells, heuristic, "altered_settled_packets")))


def _risk(cells: Cells, heuristic: str) -> Entry:
    refused = _counts(cells, heuristic, "failed_packets")
    _, settled = _tampered(cells, heuristic)
    return Entry(f"{refused / settled:.2f}")


def _level(passed: int, settled: int) -> Entry:
    interval = stats.binomtest(passed, settled).proportion_ci(0.95, "exact")
    return Entry(f"{100 * (1 - passed / settled):.0f} % ({100 * (1 - interval.high):.0f} to "
                 f"{100 * (1 - interval.low):.0f})")


def _compared(cells: Cells, load: str, title: str) -> Table | None:
    rows = []
    for heuristic in BESIDE:
        ids = wired.cell(cells, (heuristic, "1", load))
        if ids in cells.results.cells and isinstance(cells.value(RETENTION.name, ids), Observation):
            rows.append((Entry(heuristic, note=HEURISTICS[heuristic].title),
                         *(of_value(cells.value(metric.name, ids)) for metric in _SHOWN)))
    if len(rows) < 2:
        return None
    columns = (Column("heuristic", "Heuristic"), *(
        Column(metric.name, metric.sentence, metric.unit, metric.scale, metric.digits)
        for metric in _SHOWN))
    return Table(f"beside-{load}", f"One client; {title}", columns, tuple(rows),
                 "Retention never stands alone: a level that was given up is no success.")
