"""Divide the repetitions (measurements) of a run among the workers of a cluster.

A worker is a machine that measures. A `Share` is the part of the repetitions that a worker gets at
a time. The `Backlog` is the queue of repetitions that no worker has: `take_share` removes some for
a worker, and `hand_back` returns those of a lost worker. All repetitions on one testbed (emulated
network) stay together. The longest testbeds go first, so that short ones remain for the end.

Dask could distribute and retry tasks, but is not used for that, for three reasons. A run must know
which worker it gave a repetition to before it accepts the result. A worker needs several testbeds
at a time to keep its processors busy. Dask would measure a lost share again from its first
repetition.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.engine.plan import Plan, Step, TestbedKey
from harness.engine.retries import WORKER_ATTEMPTS, needs_exclusive_retry
from measure.records.record import Record

#: Number of testbeds that keep a processor busy: while the medium is, a testbed computes little.
TESTBEDS_PER_PROCESSOR = 3


@dataclass
class Share:
    """The repetitions that a worker has to measure and send, by name.

    Repetitions in `retries` have a record that is flagged as disturbed; they are measured again
    with nothing else running. `captures` says which captures are kept.
    """

    plan: Plan
    captures: str = "all"
    steps: dict[str, Step] = field(default_factory=dict)
    retries: set[str] = field(default_factory=set)

    def add_steps(self, steps: Iterable[Step], flagged_steps: Iterable[Step] = ()) -> None:
        """Add repetitions. Those in `flagged_steps` have a record that is flagged as disturbed."""
        flagged = {step.name: step for step in flagged_steps}
        self.steps |= {step.name: step for step in steps} | flagged
        self.retries |= flagged.keys()

    def split_steps(self) -> tuple[list[Step], list[Step]]:
        """Return the repetitions to measure for the first time, and those to retry."""
        return ([step for name, step in self.steps.items() if name not in self.retries],
                [step for name, step in self.steps.items() if name in self.retries])

    def is_expected(self, entry: Record) -> bool:
        """Return whether this record is one that the worker has to send.

        A second measurement must have run with nothing else on the worker's machine.
        """
        return entry.name in self.steps and (
            entry.name not in self.retries or bool(entry.environment.get("alone")))

    def mark_received(self, entry: Record) -> None:
        """Remove a received repetition, unless its record is flagged and must be measured again."""
        if needs_exclusive_retry(entry.environment):
            self.retries.add(entry.name)
        else:
            del self.steps[entry.name]
            self.retries.discard(entry.name)


@dataclass
class ShareProgress:
    """A count of what a worker has sent for its share.

    `under_way` are the names of the repetitions that are started and not finished. `broken` is the
    reason why the share broke, "" if it did not, None before its end.
    """

    share: Share
    under_way: set[str] = field(default_factory=set)
    has_records: bool = False
    broken: str | None = None

    def note_event(self, event: Mapping[str, Any]) -> None:
        """Note which repetition an event starts or ends."""
        if event["event"] == "repetition-started":
            self.under_way.add(event["name"])
        elif event["event"] == "repetition-measured":
            self.under_way.discard(event["name"])

    def note_record(self, entry: Record) -> None:
        """Note that the record of a repetition was stored."""
        self.share.mark_received(entry)
        self.under_way.discard(entry.name)
        self.has_records = True


@dataclass
class Backlog(Share):
    """The queue of repetitions that no worker has."""

    _losses: Counter[str] = field(default_factory=Counter)

    def waiting_testbeds(self, excluded_packages: Collection[str] = (),
                         finished: Collection[str] = ()) -> list[TestbedKey]:
        """Return the testbeds (emulated networks) that queued repetitions need, in order.

        Testbeds that need one of the packages in `excluded_packages` are left out. Testbeds with
        repetitions that are `finished` on some machine come first, then those with the longest
        expected duration.
        """
        there = {self.plan.testbed_of(step.cell) for name, step in self.steps.items()
                 if name in finished}
        lasting_s: defaultdict[TestbedKey, float] = defaultdict(float)
        for step in self.steps.values():
            lasting_s[self.plan.testbed_of(step.cell)] += self.plan.expected_cost(
                step.cell).duration_s
        return sorted((key for key in lasting_s
                       if self.plan.testbeds[key].spec.image_name not in excluded_packages),
                      key=lambda key: (key not in there, -lasting_s[key]))

    def take_share(self, testbeds: Collection[TestbedKey]) -> Share:
        """Take all repetitions on these emulated networks (testbeds) off the queue for a worker."""
        share = Share(self.plan, self.captures, {
            name: step for name, step in self.steps.items()
            if self.plan.testbed_of(step.cell) in testbeds})
        share.retries = self.retries & share.steps.keys()
        self.retries -= share.retries
        self.steps = {name: self.steps[name] for name in self.steps if name not in share.steps}
        return share

    def hand_back(self, share: Share, under_way: Collection[str]) -> list[Step]:
        """Put the unmeasured repetitions of a lost worker back into the queue.

        Repetitions that were `under_way` count as lost. One that was lost too often is not queued
        again.

        Returns:
            The repetitions that are given up and have no record.
        """
        self._losses.update(under_way)
        given_up = {name for name in share.steps if self._losses[name] >= WORKER_ATTEMPTS}
        self.steps |= {name: share.steps[name] for name in share.steps if name not in given_up}
        self.retries |= share.retries - given_up
        return [share.steps[name] for name in given_up - share.retries]


def count_testbeds_per_share(testbeds: int, processors: int, all_processors: int) -> int:
    """Return how many of the waiting emulated networks (testbeds) a worker gets.

    Half is used where it still keeps the worker busy. A faster worker can then take the other half
    from a slower one. A single worker gets all testbeds, because its own scheduler does the rest.
    """
    part = math.ceil(testbeds * processors / max(processors, all_processors))
    least = TESTBEDS_PER_PROCESSOR * processors
    if processors >= all_processors or part <= 2 * least:
        return part
    return max(least, math.ceil(part / 2))
