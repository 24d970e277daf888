"""Table of the differences between the 1998 blend and each other heuristic, with paired streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analysis import numbers, statistics
from analysis.cells import Cells
from analysis.statistics import Estimate
from analysis.table import Column, Entry, Table
from studies.authenticast1998.factors import DISTURBANCES, HEURISTICS
from studies.authenticast1998.metrics import RETENTION
from studies.authenticast1998.report import wired

_BLEND = "adaptive-1998"
_VERIFIED = "verified_share"
#: Blocks below which the variation between repetitions is unknown.
_MIN_BLOCKS = 3


def difference_table(cells: Cells, heuristics: Iterable[str], loads: Iterable[str]) -> Table | None:
    """Return a row for each load and heuristic measured with the blend's seeds."""
    others = [name for name in dict.fromkeys(heuristics) if name != _BLEND]
    rows = [row for load in loads for name in others if (row := _difference_row(cells, name, load))]
    if not rows:
        return None
    columns = (Column("load", "Load"), Column("against", "Against"),
               Column("retained_more", "Retains more", "%", 100.0, 1),
               Column("verified_more", "Verified of sent, more", "%", 100.0, 1),
               Column("blend_wins", "The blend of 1998"))
    return Table("blend", "Where the blend of 1998 wins", columns, tuple(rows),
                 "The blend less the other, one client; repetitions of one seed are paired, "
                 "intervals are of 95 %.",
                 ("What is undecided has an interval with zero in it.",))


def _difference_row(cells: Cells, other: str, load: str) -> tuple[Entry, ...] | None:
    estimates = [*_paired_differences(cells, other, load)]
    if not estimates:
        return None
    retained, verified = estimates
    return (Entry(load, note=DISTURBANCES[load].title), Entry(other, note=HEURISTICS[other].title),
            *(numbers.estimate_entry(estimate, ("spans-zero",) if estimate.spans_zero else ())
              for estimate in estimates),
            Entry(
                f"{_verdict_of(retained)} in retention, {_verdict_of(verified)} in what is "
                "verified"))


def _paired_differences(cells: Cells, other: str, load: str) -> Iterator[Estimate]:
    for name in (RETENTION.name, _VERIFIED):
        of_blend, of_other = (cells.values_by_block(name,
                                                    wired.wired_cell(cells, (heuristic, "1", load)))
                              for heuristic in (_BLEND, other))
        if len(of_blend.keys() & of_other.keys()) < _MIN_BLOCKS:
            return
        yield statistics.compare_paired(of_blend, of_other).difference


def _verdict_of(difference: Estimate) -> str:
    if difference.spans_zero:
        return "undecided"
    return "wins" if difference.mean > 0 else "loses"
