"""Tables of the report: the paper's Table 1 from measurements, then the other modules' tables."""

from __future__ import annotations

from collections.abc import Iterator

from scipy import stats

from analysis.cells import Cells
from analysis.table import Column, Entry, Table
from studies.authenticast1998.factors import HEURISTICS
from studies.authenticast1998.report import air, beyond, wired

#: Rows of the paper's Table 1 with its printed entries, then schemes that the paper lacks.
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


def all_tables(cells: Cells) -> Iterator[Table]:
    """Yield the tables whose cells were measured."""
    first = _table_1(cells)
    if first is not None:
        yield first
    of_air = air.air_table(cells)
    if of_air is not None:
        yield of_air
    yield from beyond.all_tables(cells)


def _table_1(cells: Cells) -> Table | None:
    """Build Table 1: loss risk and level, from the fate of altered packets."""
    rows = []
    for heuristic, (name, risk, level) in _TABLE_1.items():
        passed, settled = _count_tampered(cells, heuristic)
        if settled == 0:
            continue
        rows.append((Entry(name, note=HEURISTICS[heuristic].title),
                     Entry("yes" if HEURISTICS[heuristic].has_non_repudiation else "no"),
                     _risk_entry(cells, heuristic), Entry(risk or "-"),
                     _level_entry(passed, settled),
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


def _count_packets(cells: Cells, heuristic: str, name: str) -> float:
    observed = cells.values_by_block(name, wired.wired_cell(cells, (heuristic, "1", "tampered")))
    return sum(observed.values())


def _count_tampered(cells: Cells, heuristic: str) -> tuple[int, int]:
    """Return the counts of altered packets processed, and of altered packets with any verdict."""
    return (int(_count_packets(cells, heuristic, "altered_processed_packets")),
            int(_count_packets(cells, heuristic, "altered_settled_packets")))


def _risk_entry(cells: Cells, heuristic: str) -> Entry:
    refused = _count_packets(cells, heuristic, "failed_packets")
    _, settled = _count_tampered(cells, heuristic)
    return Entry(f"{refused / settled:.2f}")


def _level_entry(passed: int, settled: int) -> Entry:
    interval = stats.binomtest(passed, settled).proportion_ci(0.95, "exact")
    return Entry(f"{100 * (1 - passed / settled):.0f} % ({100 * (1 - interval.high):.0f} to "
                 f"{100 * (1 - interval.low):.0f})")
