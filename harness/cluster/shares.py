"""Shares of a plan for workers, and the backlog of steps that wait for a worker.

Dask could distribute the tasks and retry them, but neither is used here. A run must know which
worker it gave a step to before it accepts results. A worker's own scheduler needs several testbeds
to keep its processors busy. Dask would measure a lost share again from its first repetition. The
steps of a testbed stay together. The longest testbeds go first, so that short ones remain for the
end.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from harness.engine import contention
from harness.engine.plan import Plan, Step, TestbedKey
from measure.record import Record

#: Number of testbeds that keep a processor busy: while the medium is, a testbed computes little.
BUSY = 3
#: A step is given up after its worker was lost or its share broke this often.
LOSSES = 3


@dataclass
class Share:
    """Steps of a plan whose record is expected, by name.

    Steps in `again` have a record that is flagged; they are measured again exclusively. `captures`
    says which captures are kept.
    """

    plan: Plan
    captures: str = "all"
    steps: dict[str, Step] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)

    def add_steps(self, steps: Iterable[Step], flagged_steps: Iterable[Step] = ()) -> None:
        """Expect records of these steps. Steps in `flagged_steps` have a flagged record."""
        flagged = {step.name: step for step in flagged_steps}
        self.steps |= {step.name: step for step in steps} | flagged
        self.again |= flagged.keys()

    def split_steps(self) -> tuple[list[Step], list[Step]]:
        """Return the steps to measure for the first time, and those to measure `again`."""
        return ([step for name, step in self.steps.items() if name not in self.again],
                [step for name, step in self.steps.items() if name in self.again])

    def is_expected(self, entry: Record) -> bool:
        """Return whether this record is expected. For flagged steps it must be an exclusive one."""
        return entry.name in self.steps and (
            entry.name not in self.again or bool(entry.environment.get("alone")))

    def mark_received(self, entry: Record) -> None:
        """Stop expecting a record. If it is flagged, expect an exclusive one instead."""
        if contention.is_due_again(entry.environment):
            self.again.add(entry.name)
        else:
            del self.steps[entry.name]
            self.again.discard(entry.name)


@dataclass
class Backlog(Share):
    """The steps that are not given to a worker."""

    _losses: Counter[str] = field(default_factory=Counter)

    def waiting_testbeds(self, excluded_packages: Collection[str] = (),
                         finished: Collection[str] = ()) -> list[TestbedKey]:
        """Return the testbeds that steps wait for, in the order in which to measure them.

        Testbeds that need one of the packages in `excluded_packages` are left out. Testbeds with
        steps that are `finished` on some machine come first, then those with the longest expected
        duration.
        """
        there = {self.plan.testbed_of(step.cell) for name, step in self.steps.items()
                 if name in finished}
        lasting_s: defaultdict[TestbedKey, float] = defaultdict(float)
        for step in self.steps.values():
            lasting_s[self.plan.testbed_of(step.cell)] += self.plan.expected_cost(
                step.cell).duration_s
        return sorted((key for key in lasting_s
                       if self.plan.testbeds[key].spec.packages not in excluded_packages),
                      key=lambda key: (key not in there, -lasting_s[key]))

    def take_share(self, testbeds: Collection[TestbedKey]) -> Share:
        """Remove the steps of these testbeds from the backlog and return them as a share."""
        share = Share(self.plan, self.captures, {
            name: step for name, step in self.steps.items()
            if self.plan.testbed_of(step.cell) in testbeds})
        share.again = self.again & share.steps.keys()
        self.again -= share.again
        self.steps = {name: self.steps[name] for name in self.steps if name not in share.steps}
        return share

    def hand_back(self, share: Share, under_way: Collection[str]) -> list[Step]:
        """Take back the steps of a share without a record. Return those that are given up.

        Only steps `under_way` count as lost. A step that was lost too often keeps its flagged
        record if it has one.
        """
        self._losses.update(under_way)
        given_up = {name for name in share.steps if self._losses[name] >= LOSSES}
        self.steps |= {name: share.steps[name] for name in share.steps if name not in given_up}
        self.again |= share.again - given_up
        return [share.steps[name] for name in given_up - share.again]


def count_testbeds_per_share(testbeds: int, processors: int, all_processors: int) -> int:
    """Return the number of waiting testbeds for a worker: all of its part, or half.

    Half is used where it still keeps the worker busy. A faster worker can then take the other half
    from a slower one. A single worker gets all testbeds, because its own scheduler does the rest.
    """
    part = math.ceil(testbeds * processors / max(processors, all_processors))
    least = BUSY * processors
    if processors >= all_processors or part <= 2 * least:
        return part
    return max(least, math.ceil(part / 2))
