"""Which testbeds the next worker gets, and what becomes of steps whose worker was lost.

Decisions only. A testbed's steps stay together; the longest go first, so that what is left for the
end is short.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from harness.engine.plan import Plan, Step, TestbedKey

#: As many testbeds keep a processor busy: while the air is, one has little to do.
BUSY = 3
#: A step is given up when its worker was lost, or its share broke, this often.
LOSSES = 3


@dataclass
class Shares:
    """The steps that no worker has finished: those that wait, and those that are given out."""

    plan: Plan
    _waiting: dict[str, Step] = field(default_factory=dict)
    _given: dict[str, Step] = field(default_factory=dict)
    _exclusive: set[str] = field(default_factory=set)
    _losses: Counter[str] = field(default_factory=Counter)

    def add(self, steps: Iterable[Step], again: Iterable[Step] = ()) -> None:
        """Steps to measure; `again` are flagged and are measured exclusively."""
        for step in steps:
            self._waiting[step.name] = step
        for step in again:
            self._waiting[step.name] = step
            self._exclusive.add(step.name)

    @property
    def is_finished(self) -> bool:
        """Whether nothing waits and nothing is given out."""
        return not self._waiting and not self._given

    def testbeds(self) -> list[TestbedKey]:
        """Testbeds that steps wait for, those with the most to measure first."""
        lasting_s: dict[TestbedKey, float] = {}
        for step in self._waiting.values():
            key = self.plan.testbed_of(step.cell)
            lasting_s[key] = lasting_s.get(key, 0.0) + self.plan.expected(step.cell).duration_s
        return sorted(lasting_s, key=lambda key: -lasting_s[key])

    def take(self, testbeds: int,
             finished: Collection[str] = ()) -> tuple[list[Step], list[Step]]:
        """Give out so many testbeds: their plain steps, and those that are measured exclusively.

        First those of steps that are `finished` already where this goes.
        """
        there = {self.plan.testbed_of(step.cell) for name, step in self._waiting.items()
                 if name in finished}
        chosen = set(sorted(self.testbeds(), key=lambda key: key not in there)[:testbeds])
        taken = [step for step in self._waiting.values()
                 if self.plan.testbed_of(step.cell) in chosen]
        for step in taken:
            self._given[step.name] = self._waiting.pop(step.name)
        return ([step for step in taken if step.name not in self._exclusive],
                [step for step in taken if step.name in self._exclusive])

    def step(self, name: str) -> Step | None:
        """The step of this name, if it is given out."""
        return self._given.get(name)

    def awaits(self, name: str, *, exclusive: bool) -> bool:
        """Whether a step's record is to come; of one that has a flagged one, the exclusive one."""
        return name in self._given and (exclusive or name not in self._exclusive)

    def finish(self, name: str, *, flagged: bool) -> None:
        """A step has its record; one that is flagged is still to be measured exclusively."""
        if flagged:
            self._exclusive.add(name)
        else:
            self._given.pop(name, None)
            self._exclusive.discard(name)

    def hand_back(self, names: Iterable[str], under_way: Collection[str]) -> list[Step]:
        """Let others measure what a worker did not; steps that have been lost too often are out.

        Only what was being measured counts as lost.
        """
        left = [name for name in names if name in self._given]
        self._losses.update(name for name in left if name in under_way)
        given_up = []
        for name in left:
            step = self._given.pop(name)
            if self._losses[name] < LOSSES:
                self._waiting[name] = step
            elif name in self._exclusive:
                self._exclusive.discard(name)  # its flagged record stays
            else:
                given_up.append(step)
        return given_up


def how_many(testbeds: int, processors: int, all_processors: int) -> int:
    """How many of the waiting testbeds a worker gets: its part, at once or in two goes.

    In two where that leaves it enough to be busy with, so that a slower worker's second go can be
    taken by a faster one; a lone worker gets all, because its own scheduler does the rest.
    """
    part = math.ceil(testbeds * processors / max(processors, all_processors))
    least = BUSY * processors
    if processors >= all_processors or part <= 2 * least:
        return part
    return max(least, math.ceil(part / 2))
