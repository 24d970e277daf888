"""What is measured by whom: a worker's share of a plan, and the steps that wait for a worker.

Dask could give tasks to workers and try them again. It does neither here: a run must know whom it
has asked before it believes what it hears, a worker's own scheduler needs several testbeds to keep
its processors busy, and dask would measure a lost share once more from its first repetition.
A testbed's steps stay together; the longest go first, so that what is left for the end is short.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.engine import contention
from harness.engine.plan import Plan, Step, TestbedKey
from measure.record import Record

#: As many testbeds keep a processor busy: while the air is, one has little to do.
BUSY = 3
#: A step is given up when its worker was lost, or its share broke, this often.
LOSSES = 3


@dataclass(frozen=True)
class Share:
    """Some testbeds' steps, which one worker measures from the first boot to the last record.

    `again` are steps whose record is there, but flagged: they are measured exclusively. `captures`
    says which captures are to be kept.
    """

    plan: Plan
    steps: Sequence[Step]
    again: Sequence[Step] = ()
    captures: str = "all"

    @property
    def all_steps(self) -> list[Step]:
        """Those of both kinds."""
        return [*self.steps, *self.again]

    @property
    def awaited(self) -> dict[str, bool]:
        """Its steps' names, and whether a record that was measured exclusively is awaited."""
        return {step.name: False for step in self.steps} | {step.name: True for step in self.again}

    def left(self, awaited: Mapping[str, bool]) -> Share:
        """The share of those steps that are awaited still."""
        steps, again = ([step for step in self.all_steps if awaited.get(step.name) is exclusive]
                        for exclusive in (False, True))
        return replace(self, steps=steps, again=again)


def strike(awaited: dict[str, bool], entry: Record) -> None:
    """A record is there; of a flagged one, one that is measured exclusively is awaited."""
    if contention.is_due_again(entry.environment):
        awaited[entry.name] = True
    else:
        del awaited[entry.name]


@dataclass
class Backlog:
    """The steps that are not given out."""

    plan: Plan
    captures: str = "all"
    _steps: dict[str, Step] = field(default_factory=dict)
    _exclusive: set[str] = field(default_factory=set)
    _losses: Counter[str] = field(default_factory=Counter)

    def add(self, steps: Iterable[Step], again: Iterable[Step] = ()) -> None:
        """Steps to measure; `again` are flagged and are measured exclusively."""
        self._steps.update({step.name: step for step in steps})
        for step in again:
            self._steps[step.name] = step
            self._exclusive.add(step.name)

    def testbeds(self) -> list[TestbedKey]:
        """Testbeds that steps wait for, those with the most to measure first."""
        lasting_s: defaultdict[TestbedKey, float] = defaultdict(float)
        for step in self._steps.values():
            lasting_s[self.plan.testbed_of(step.cell)] += self.plan.expected(step.cell).duration_s
        return sorted(lasting_s, key=lambda key: -lasting_s[key])

    def take(self, testbeds: int, finished: Collection[str] = ()) -> Share:
        """Give out so many testbeds, first those of steps that are `finished` where this goes."""
        there = {self.plan.testbed_of(step.cell) for name, step in self._steps.items()
                 if name in finished}
        chosen = sorted(self.testbeds(), key=lambda key: key not in there)[:testbeds]
        taken = [step for step in self._steps.values()
                 if self.plan.testbed_of(step.cell) in chosen]
        share = Share(self.plan, [step for step in taken if step.name not in self._exclusive],
                      [step for step in taken if step.name in self._exclusive], self.captures)
        for step in taken:
            del self._steps[step.name]
            self._exclusive.discard(step.name)
        return share

    def hand_back(self, share: Share, under_way: Collection[str]) -> list[Step]:
        """Let others measure what a worker did not; steps without a record that are given up.

        Only what was being measured counts as lost. Of what was lost too often, a flagged record
        stays.
        """
        self._losses.update(under_way)
        self.add(*([step for step in steps if self._losses[step.name] < LOSSES]
                   for steps in (share.steps, share.again)))
        return [step for step in share.steps if self._losses[step.name] >= LOSSES]


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
