"""What is measured by whom: a worker's share of a plan, and the steps that wait for a worker.

Dask could give tasks to workers and try them again. It does neither here: a run must know whom it
has asked before it believes what it hears, a worker's own scheduler needs several testbeds to keep
its processors busy, and dask would measure a lost share once more from its first repetition.
A testbed's steps stay together; the longest go first, so that what is left for the end is short.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from harness.engine import contention
from harness.engine.plan import Plan, Step, TestbedKey
from measure.record import Record

#: As many testbeds keep a processor busy: while the air is, one has little to do.
BUSY = 3
#: A step is given up when its worker was lost, or its share broke, this often.
LOSSES = 3


@dataclass
class Share:
    """Steps of a plan whose record is awaited, by name.

    A record of those in `again` is there, but flagged: they are measured exclusively. `captures`
    says which captures are to be kept.
    """

    plan: Plan
    captures: str = "all"
    steps: dict[str, Step] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)

    def add(self, steps: Iterable[Step], again: Iterable[Step] = ()) -> None:
        """Await these, too; `again` are flagged."""
        flagged = {step.name: step for step in again}
        self.steps |= {step.name: step for step in steps} | flagged
        self.again |= flagged.keys()

    def split(self) -> tuple[list[Step], list[Step]]:
        """Its steps, those that are measured for the first time and those that are `again`."""
        return ([step for name, step in self.steps.items() if name not in self.again],
                [step for name, step in self.steps.items() if name in self.again])

    def awaits(self, entry: Record) -> bool:
        """Whether this record is awaited; of a flagged one the next must be an exclusive one."""
        return entry.name in self.steps and (
            entry.name not in self.again or bool(entry.environment.get("alone")))

    def strike(self, entry: Record) -> None:
        """Await a record no longer; if it is flagged, one that is measured exclusively."""
        if contention.is_due_again(entry.environment):
            self.again.add(entry.name)
        else:
            del self.steps[entry.name]
            self.again.discard(entry.name)


@dataclass
class Backlog(Share):
    """The steps that are not given out."""

    _losses: Counter[str] = field(default_factory=Counter)

    def testbeds(self, without: Collection[str] = (),
                 finished: Collection[str] = ()) -> list[TestbedKey]:
        """Testbeds that steps wait for, `without` those that need these packages.

        Those of steps that are `finished` somewhere first, then those with the most to measure.
        """
        there = {self.plan.testbed_of(step.cell) for name, step in self.steps.items()
                 if name in finished}
        lasting_s: defaultdict[TestbedKey, float] = defaultdict(float)
        for step in self.steps.values():
            lasting_s[self.plan.testbed_of(step.cell)] += self.plan.expected(step.cell).duration_s
        return sorted((key for key in lasting_s
                       if self.plan.testbeds[key].spec.packages not in without),
                      key=lambda key: (key not in there, -lasting_s[key]))

    def take(self, testbeds: Collection[TestbedKey]) -> Share:
        """Give out the steps of these testbeds."""
        share = Share(self.plan, self.captures, {
            name: step for name, step in self.steps.items()
            if self.plan.testbed_of(step.cell) in testbeds})
        share.again = self.again & share.steps.keys()
        self.again -= share.again
        self.steps = {name: self.steps[name] for name in self.steps if name not in share.steps}
        return share

    def hand_back(self, share: Share, under_way: Collection[str]) -> list[Step]:
        """Let others measure what a worker did not; steps without a record that are given up.

        Only what was being measured counts as lost. Of what was lost too often, a flagged record
        stays.
        """
        self._losses.update(under_way)
        given_up = {name for name in share.steps if self._losses[name] >= LOSSES}
        self.steps |= {name: share.steps[name] for name in share.steps if name not in given_up}
        self.again |= share.again - given_up
        return [share.steps[name] for name in given_up - share.again]


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
