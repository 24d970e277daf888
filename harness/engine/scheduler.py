"""Decide which repetition (measurement) of a run starts next, and on which processor.

`Scheduler` only decides: `start_next` returns a repetition and its processor, and
`harness.engine.campaign` starts it. Repetitions start in the plan's order, as soon as their testbed
(started network) and a processor are free. The scheduler learns from finished repetitions how much
CPU time a similar one needs. From how long repetitions had to wait for a processor, it learns how
much of a processor to allocate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.engine.plan import Plan, Step, TestbedKey
from studies.study import Cell

#: Share of a processor that may be allocated: the initial value, and the bounds of the learnt one.
FULL, MIN_FULL, MAX_FULL = 0.3, 0.1, 0.9
#: Factor by which that share shrinks when the processor was the limit. Amount by which it grows
#: when the wait was less than half of what is tolerated. In the long run about 2 % of repetitions
#: are flagged.
_BACK_OFF, _GROW = 0.85, 0.001
#: Assumed share of a processor for a repetition, until the first one of its cell has ended.
_ASSUMED = 0.15
#: Weight of a new measurement in the moving average of a cell's share.
_NEWS = 0.5


@dataclass
class _TestbedSlot:
    """The processor and memory of an emulated network (testbed), and its present repetition."""

    processor: int
    memory_mb: int
    busy: Step | None = None


@dataclass
class Scheduler:
    """A queue of repetitions to measure, and the testbeds (started networks) that run.

    Memory is in MB. CPU needs are fractions of one processor. `at_once` limits the repetitions in
    parallel on one processor, `max_testbeds` the number of testbeds. `free_mb` is the memory for
    all testbeds. `full` is the fraction of a processor that may be allocated.
    """

    plan: Plan
    processors: Sequence[int]
    at_once: int
    max_testbeds: int
    free_mb: int
    memory_mb: dict[TestbedKey, int] = field(default_factory=dict)
    full: float = FULL
    _queue: list[Step] = field(default_factory=list)
    _slots: dict[TestbedKey, _TestbedSlot] = field(default_factory=dict)
    _needs: dict[str, float] = field(default_factory=dict)

    def add_steps(self, steps: Iterable[Step]) -> None:
        """Append repetitions to the queue."""
        self._queue += steps

    @property
    def waiting(self) -> int:
        """Return the number of repetitions that were not started yet."""
        return len(self._queue)

    @property
    def running(self) -> list[Step]:
        """Return the repetitions that are being measured."""
        return [slot.busy for slot in self._slots.values() if slot.busy]

    def start_next(self) -> tuple[Step, int] | None:
        """Take the next repetition that can start now off the queue.

        If a processor is free and only testbeds of other processors can start one, a testbed moves.

        Returns:
            The repetition and its processor, or None if none can start.
        """
        return self._start_in_order() or self._start_elsewhere()

    def _start_in_order(self) -> tuple[Step, int] | None:
        """Take the first repetition of the queue that can start, and choose its processor.

        Returns:
            The repetition and its processor, or None if none can start.
        """
        for number, step in enumerate(self._queue):
            key = self.plan.testbed_of(step.cell)
            slot = self._slots.get(key)
            if slot is None and not self._has_memory(key):
                continue
            processor = slot.processor if slot else self._emptiest_processor()
            if (slot and slot.busy) or not self._has_processor(processor, step.cell):
                continue
            if slot is None:
                self.reserve_slot(key)
            self._slots[key].busy = step
            del self._queue[number]
            return step, processor
        return None

    def _start_elsewhere(self) -> tuple[Step, int] | None:
        """Move a waiting testbed to a free processor, and take its next repetition.

        Returns:
            The repetition and its processor, or None if no processor or testbed is free.
        """
        taken = {slot.processor for slot in self._slots.values() if slot.busy}
        free = [processor for processor in self.processors if processor not in taken]
        for number, step in enumerate(self._queue if free else ()):
            slot = self._slots.get(self.plan.testbed_of(step.cell))
            if slot and not slot.busy:
                slot.processor, slot.busy = free[0], step
                del self._queue[number]
                return step, free[0]
        return None

    def waiting_testbeds(self) -> list[TestbedKey]:
        """Return the emulated networks (testbeds) that queued repetitions need, in order."""
        return list(dict.fromkeys(self.plan.testbed_of(step.cell) for step in self._queue))

    def reserve_slot(self, key: TestbedKey) -> int | None:
        """Reserve memory and a processor for an emulated network (testbed).

        Returns the processor, or None if there is not enough memory.
        """
        if key not in self._slots:
            if not self._has_memory(key):
                return None
            self._slots[key] = _TestbedSlot(self._emptiest_processor(), self.memory_mb.get(key, 0))
        return self._slots[key].processor

    def note_end(self, step: Step, used: float | None = None) -> None:
        """Note that a repetition has ended, so that its testbed is free again.

        Args:
            step: The repetition.
            used: The fraction of its processor's time that it used, if known.
        """
        self._slots[self.plan.testbed_of(step.cell)].busy = None
        if used is not None:
            known = self._needs.get(step.cell.name, used)
            self._needs[step.cell.name] = known + _NEWS * (used - known)

    def note_wait(self, severity: float) -> None:
        """Allocate more or less of a processor, after a repetition waited for its processor.

        Args:
            severity: Waiting time of the repetition, relative to what is tolerated.
        """
        if severity > 1:
            self.full = max(MIN_FULL, self.full * _BACK_OFF)
        elif severity < 0.5:
            self.full = min(MAX_FULL, self.full + _GROW)

    def idle_testbeds(self) -> list[TestbedKey]:
        """Return the testbeds (emulated networks) that no queued repetition needs any more."""
        needed = {self.plan.testbed_of(step.cell) for step in self._queue}
        return [key for key, slot in self._slots.items()
                if slot.busy is None and key not in needed]

    def is_short_of_memory(self) -> bool:
        """Return whether there is no memory for an emulated network that a repetition needs."""
        return any(not self._has_memory(key) for key in
                   {self.plan.testbed_of(step.cell) for step in self._queue} - self._slots.keys())

    def release_slot(self, key: TestbedKey) -> None:
        """Free the memory and processor of a testbed that was ended."""
        self._slots.pop(key, None)

    def expected_share(self, cell: Cell) -> float:
        """Return the CPU time that a repetition will probably need, in processors (such as 0.3)."""
        known = self._needs.get(cell.name)
        if known is not None:
            return known
        served = self.plan.testbeds[self.plan.testbed_of(cell)].cells
        same_testbed = [self._needs[other.name] for other in served if other.name in self._needs]
        return max(same_testbed or self._needs.values(), default=_ASSUMED)

    def _has_memory(self, key: TestbedKey) -> bool:
        taken_mb = sum(slot.memory_mb for slot in self._slots.values())
        fits = (len(self._slots) < self.max_testbeds
                and taken_mb + self.memory_mb.get(key, 0) <= self.free_mb)
        return fits or not self._slots

    def _has_processor(self, processor: int, cell: Cell) -> bool:
        running = [slot.busy for slot in self._slots.values()
                   if slot.busy and slot.processor == processor]
        needed = self.expected_share(cell) + sum(self.expected_share(step.cell) for step in running)
        return not running or (len(running) < self.at_once and needed <= self.full)

    def _emptiest_processor(self) -> int:
        """Return the processor to which the fewest testbeds (emulated networks) are assigned."""
        slots = [slot.processor for slot in self._slots.values()]
        return min(self.processors, key=slots.count)
