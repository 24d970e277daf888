"""Which repetition starts next, and on which processor: decisions only, nothing is started here.

Repetitions go in the plan's order, as far as their testbeds are free and a processor has power to
spare. What a repetition needs of one is learnt from those of its cell that ended before it, and how
much of a processor may be spoken for, from how long repetitions had to wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.engine.plan import Plan, Step, TestbedKey
from studies.study import Cell

#: Share of a processor that may be spoken for: at first, and between which bounds it is learnt.
FULL, MIN_FULL, MAX_FULL = 0.3, 0.1, 0.9
#: By what it shrinks when the processor was the limit, and grows when it was far from that: so that
#: in the long run some two in a hundred repetitions are flagged.
_BACK_OFF, _GROW = 0.85, 0.001
#: What a repetition is taken to need of a processor until its cell's first one has ended.
_ASSUMED = 0.15
#: A newer measurement's weight against what was known.
_NEWS = 0.5


@dataclass
class _Slot:
    """A testbed: its processor, and whether a repetition is being measured on it."""

    processor: int
    memory_mb: int
    busy: Step | None = None


@dataclass
class Scheduler:
    """The steps to come and the testbeds that exist. Memory in MB, needs in shares of a processor.

    `at_once` is the most that one processor measures at a time, `max_testbeds` the most that may
    exist; `free_mb` is the memory that they may take.
    """

    plan: Plan
    processors: Sequence[int]
    at_once: int
    max_testbeds: int
    free_mb: int
    memory_mb: dict[TestbedKey, int] = field(default_factory=dict)
    full: float = FULL
    _queue: list[Step] = field(default_factory=list)
    _slots: dict[TestbedKey, _Slot] = field(default_factory=dict)
    _needs: dict[str, float] = field(default_factory=dict)

    def add(self, steps: Iterable[Step]) -> None:
        """Further steps, after those that wait already."""
        self._queue += steps

    @property
    def waiting(self) -> int:
        """Steps that have not been started."""
        return len(self._queue)

    @property
    def running(self) -> list[Step]:
        """Steps that are being measured."""
        return [slot.busy for slot in self._slots.values() if slot.busy]

    def start(self) -> tuple[Step, int] | None:
        """The step to start now and its processor, taken off the queue; None if none can be.

        A processor that no waiting step's testbed stays on takes one over from another.
        """
        return self._start_in_order() or self._start_elsewhere()

    def _start_in_order(self) -> tuple[Step, int] | None:
        for number, step in enumerate(self._queue):
            key = self.plan.testbed_of(step.cell)
            slot = self._slots.get(key)
            if slot is None and not self._has_memory(key):
                continue
            processor = slot.processor if slot else self._emptiest()
            if (slot and slot.busy) or not self._has_processor(processor, step.cell):
                continue
            if slot is None:
                self.reserve(key)
            self._slots[key].busy = step
            del self._queue[number]
            return step, processor
        return None

    def _start_elsewhere(self) -> tuple[Step, int] | None:
        taken = {slot.processor for slot in self._slots.values() if slot.busy}
        free = [processor for processor in self.processors if processor not in taken]
        for number, step in enumerate(self._queue if free else ()):
            slot = self._slots.get(self.plan.testbed_of(step.cell))
            if slot and not slot.busy:
                slot.processor, slot.busy = free[0], step
                del self._queue[number]
                return step, free[0]
        return None

    def testbeds(self) -> list[TestbedKey]:
        """Testbeds that steps wait for, in their order."""
        return list(dict.fromkeys(self.plan.testbed_of(step.cell) for step in self._queue))

    def reserve(self, key: TestbedKey) -> int | None:
        """Give a testbed its slot; the processor, or None if memory has no room for it."""
        if key not in self._slots:
            if not self._has_memory(key):
                return None
            self._slots[key] = _Slot(self._emptiest(), self.memory_mb.get(key, 0))
        return self._slots[key].processor

    def ended(self, step: Step, used: float | None = None) -> None:
        """A step has ended; `used` is the share of its processor that it took, if that is known."""
        self._slots[self.plan.testbed_of(step.cell)].busy = None
        if used is not None:
            known = self._needs.get(step.cell.name, used)
            self._needs[step.cell.name] = known + _NEWS * (used - known)

    def waited(self, severity: float) -> None:
        """How long a step waited for its processor, as a share of what is tolerated."""
        if severity > 1:
            self.full = max(MIN_FULL, self.full * _BACK_OFF)
        elif severity < 0.5:
            self.full = min(MAX_FULL, self.full + _GROW)

    def idle(self) -> list[TestbedKey]:
        """Testbeds that no step waits for."""
        needed = {self.plan.testbed_of(step.cell) for step in self._queue}
        return [key for key, slot in self._slots.items()
                if slot.busy is None and key not in needed]

    def is_short_of_memory(self) -> bool:
        """Whether steps wait for a testbed that does not fit beside those there are."""
        return any(not self._has_memory(key) for key in
                   {self.plan.testbed_of(step.cell) for step in self._queue} - self._slots.keys())

    def gone(self, key: TestbedKey) -> None:
        """A testbed was ended."""
        self._slots.pop(key, None)

    def need(self, cell: Cell) -> float:
        """The share of a processor that a repetition of a cell is expected to take."""
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
        beside = [slot.busy for slot in self._slots.values()
                  if slot.busy and slot.processor == processor]
        needed = self.need(cell) + sum(self.need(step.cell) for step in beside)
        return not beside or (len(beside) < self.at_once and needed <= self.full)

    def _emptiest(self) -> int:
        """The processor with the fewest testbeds."""
        slots = [slot.processor for slot in self._slots.values()]
        return min(self.processors, key=slots.count)
