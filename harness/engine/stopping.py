"""When is enough measured? A stopping rule by the width of 95 % intervals, with bounds.

After the planned repetitions, cells whose interval is still too wide get one more repetition a
block, until it is narrow enough or the maximum of repetitions is reached. A rule that looks at the
data after every block stops a little early now and then; the more repetitions it begins with, the
less.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.engine import recording
from harness.engine.plan import Plan, Step
from harness.errors import UserError
from measure.record import Record
from studies import records as stored
from studies.study import Cell, Study

#: Where a rule gives up on a cell, unless told otherwise.
MAX_REPETITIONS = 30
_PART = re.compile(r"(?:(?P<metric>[a-z][a-z0-9-]*)[:=])?(?P<percent>\d+(?:\.\d+)?)%?")


@dataclass(frozen=True)
class Rule:
    """The widest half intervals to stop at, as shares of the mean by metric, and a maximum."""

    widths: Mapping[str, float]
    max_repetitions: int

    def next_block(self, plan: Plan, records: Path) -> list[Step]:
        """One more repetition of every cell that is not yet known well enough."""
        entries, _ = stored.read_all(records)
        open_cells = []
        numbers = {}
        for cell in plan.cells:
            of_cell = [entry for entry in entries if entry.cell == cell.ids]
            good = [entry for entry in of_cell if entry.status == "ok"]
            numbers[cell.name] = max((entry.repetition for entry in of_cell), default=0) + 1
            if numbers[cell.name] <= self.max_repetitions and self.is_too_wide(plan.study, good):
                open_cells.append(cell)
        return self._block(plan, open_cells, numbers)

    def is_too_wide(self, study: Study, good: Sequence[Record]) -> bool:
        """Whether any interval that the rule looks at is wider than it may be."""
        from analysis import statistics  # numpy takes its time; most runs have no rule

        rows = [recording.shown(study, entry) for entry in good]
        for metric, width in self.widths.items():
            sample = [row[metric] for row in rows if metric in row]
            if len(sample) < 2:
                return True
            estimate = statistics.mean(sample)
            if estimate.half_width is not None and \
                    estimate.half_width > width * abs(estimate.mean):
                return True
        return False

    @staticmethod
    def _block(plan: Plan, cells: Sequence[Cell], numbers: Mapping[str, int]) -> list[Step]:
        if not cells:
            return []
        # Blocks go on being blocks: the hindmost cells first.
        number = min(numbers[cell.name] for cell in cells)
        return plan.block(number, [cell for cell in cells if numbers[cell.name] == number])


def parse(text: str, max_repetitions: int, study: Study) -> Rule:
    """A rule such as `2%` or `NAME:2%,NAME:10%`, by metrics' short names; raises UserError."""
    metrics = {metric.short: metric for metric in study.metrics if metric.short}
    default = [metric.name for metric in study.metrics if metric.stops] or [
        metric.name for metric in study.metrics[:1]]
    widths: dict[str, float] = {}
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        name = match["metric"] if match else None
        if not match or (name and name not in metrics) or float(match["percent"]) <= 0:
            raise UserError(f"--until-ci {text}: not a width; give one such as 2%"
                            + "".join(f", or {short}:2%" for short in metrics))
        chosen = [metrics[name].name] if name else default
        if widths.keys() & set(chosen):
            raise UserError(f"--until-ci {text}: a metric is there twice; give each one width")
        widths |= dict.fromkeys(chosen, float(match["percent"]) / 100)
    return Rule(widths, max_repetitions)
