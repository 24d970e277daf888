"""Measure until the confidence intervals (95 %) of the results are narrow enough (`--until-ci`).

`parse_stopping_rule` reads the option's value, such as `2%`. After the planned repetitions, a
`StoppingRule` returns one more repetition of each cell whose interval is still too wide, again and
again. A cell is one combination, such as one policy in one scenario. This ends when the intervals
are narrow enough, or at the maximum of repetitions. A rule that checks the data after every
repetition sometimes stops a little early. More repetitions at the start make that less frequent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.engine import recording
from harness.engine.plan import Plan, Step
from harness.errors import UserError
from measure.records.record import Record
from studies import records as stored
from studies.study import Cell, Study

#: Default maximum of repetitions of a cell.
MAX_REPETITIONS = 30
_PART = re.compile(r"(?:(?P<metric>[a-z][a-z0-9-]*)[:=])?(?P<percent>\d+(?:\.\d+)?)%?")


@dataclass(frozen=True)
class StoppingRule:
    """A rule that asks for more repetitions of cells whose confidence intervals are too wide.

    - `widths`: largest accepted half width of the interval, as a fraction of the mean, by metric
    - `max_repetitions`: number of repetitions of a cell at which the rule stops in any case
    """

    widths: Mapping[str, float]
    max_repetitions: int

    def next_block(self, plan: Plan, records: Path) -> list[Step]:
        """Return one more repetition of every cell whose confidence interval is too wide.

        A cell is a measured combination, such as one policy in one scenario.
        """
        entries, _ = stored.read_all(records)
        open_cells = []
        numbers = {}
        for cell in plan.cells:
            of_cell = [entry for entry in entries if entry.cell == cell.ids]
            good = [entry for entry in of_cell if entry.status == "ok"]
            numbers[cell.name] = max((entry.repetition for entry in of_cell), default=0) + 1
            if numbers[cell.name] <= self.max_repetitions and self.is_too_wide(plan.study, good):
                open_cells.append(cell)
        return self._block_of(plan, open_cells, numbers)

    def is_too_wide(self, study: Study, good: Sequence[Record]) -> bool:
        """Return whether a confidence interval is wider than the rule allows."""
        from analysis import statistics  # numpy loads slowly, and most runs have no rule

        rows = [recording.collect_display_values(study, entry) for entry in good]
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
    def _block_of(plan: Plan, cells: Sequence[Cell], numbers: Mapping[str, int]) -> list[Step]:
        if not cells:
            return []
        # Keep complete blocks: continue with the cells that have the fewest repetitions.
        number = min(numbers[cell.name] for cell in cells)
        return plan.block_steps(number, [cell for cell in cells if numbers[cell.name] == number])


def parse_stopping_rule(text: str, max_repetitions: int, study: Study) -> StoppingRule:
    """Return the stopping rule that a text such as `2%` or `NAME:2%,NAME:10%` describes.

    Args:
        text: Widths in percent, with metrics' short names.
        max_repetitions: Maximum of repetitions of a cell.
        study: The study, whose metrics are named.

    Raises:
        UserError: The text is not a rule for this study.
    """
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
    return StoppingRule(widths, max_repetitions)
