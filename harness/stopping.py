"""When is enough measured? A stopping rule by the width of 95 % intervals, with bounds.

After the planned repetitions, cells whose interval is still too wide get one more repetition a
block, until it is narrow enough or the most repetitions are reached. A rule that looks at the data
after every block stops a little early now and then; the more repetitions it begins with, the less.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError
from harness.plan import Cell, Plan, Step
from measure import record
from measure.record import Record

#: What may be asked for by name, and what a rule without names looks at.
METRICS = ("tcp", "udp", "auth")
_DEFAULT = ("tcp", "udp")
_PART = re.compile(r"(?:(?P<metric>[a-z]+)[:=])?(?P<percent>\d+(?:\.\d+)?)%?")


@dataclass(frozen=True)
class Rule:
    """The widest half intervals to stop at, as shares of the mean, and the most repetitions."""

    widths: Mapping[str, float]
    most: int

    def next_block(self, plan: Plan, records: Path) -> list[Step]:
        """One more repetition of every cell that is not yet known well enough."""
        found, _ = record.read_all(records)
        open_cells = []
        numbers = {}
        for cell in plan.cells():
            here = cell.policy.id, cell.scenario.id
            mine = [r for r in found if (r.policy, r.scenario) == here]
            good = [r for r in mine if r.status == "ok"]
            numbers[cell.name] = max((r.repetition for r in mine), default=0) + 1
            if numbers[cell.name] <= self.most and self.is_too_wide(good):
                open_cells.append(cell)
        return self._block(plan, open_cells, numbers)

    def is_too_wide(self, good: Sequence[Record]) -> bool:
        """Whether any interval that the rule looks at is wider than it may be."""
        from analysis import statistics  # numpy takes its time; most runs have no rule

        for metric, width in self.widths.items():
            values = [value for value in (_value(r, metric) for r in good) if value is not None]
            if len(values) < 2:
                return True
            found = statistics.mean(values)
            if found.half_width is not None and found.half_width > width * abs(found.mean):
                return True
        return False

    @staticmethod
    def _block(plan: Plan, cells: Sequence[Cell], numbers: Mapping[str, int]) -> list[Step]:
        if not cells:
            return []
        # Blocks go on being blocks: the hindmost cells first.
        number = min(numbers[cell.name] for cell in cells)
        return plan.block(number, [cell for cell in cells if numbers[cell.name] == number])


def parse(text: str, most: int) -> Rule:
    """A rule such as `2%` or `tcp:2%,auth:10%`; raises UserError."""
    widths: dict[str, float] = {}
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        names = (match["metric"],) if match and match["metric"] else _DEFAULT
        if not match or any(name not in METRICS for name in names) or float(match["percent"]) <= 0:
            raise UserError(f"--until-ci {text}: not a width; give one such as 2%, or some of "
                            f"{', '.join(f'{name}:2%' for name in METRICS)}")
        widths |= dict.fromkeys(names, float(match["percent"]) / 100)
    return Rule(widths, most)


def _value(found: Record, metric: str) -> float | None:
    if metric == "auth":
        return found.authentication_time_s
    stream = found.tcp if metric == "tcp" else found.udp
    return stream.goodput_bps if stream else None
