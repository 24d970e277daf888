"""Which repetition starts next, and on which processor: decisions only, nothing is started here.

Repetitions go in the plan's order, as far as their testbeds are free and a processor has power to
spare. What a repetition needs of one is learnt from those of its cell that ended before it, and how
much of a processor may be spoken for, from how long repetitions had to wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.plan import Cell, Plan, Step

#: Share of a processor that may be spoken for: at first, and between which bounds it is learnt.
FULL, LEAST, MOST = 0.3, 0.1, 0.9
#: By what it shrinks when the processor was the limit, and grows when it was far from that: so that
#: in the long run some two in a hundred repetitions are flagged.
_BACK_OFF, _GROW = 0.85, 0.001
#: What a repetition is taken to need of a processor until its cell's first one has ended.
_ASSUMED = 0.15
#: A newer measurement's weight against what was known.
_NEWS = 0.5

Place = tuple[str, str]


@dataclass
class _Seat:
    """A testbed: its processor, and whether a repetition is being measured on it."""

    processor: int
    memory_mb: int
    busy: Step | None = None


@dataclass
class Scheduler:
    """The steps to come and the testbeds that exist. Memory in MB, power in shares of a processor.

    `at_once` is the most that one processor measures at a time, `most` the most testbeds there are.
    """

    plan: Plan
    processors: Sequence[int]
    at_once: int
    most: int
    room_mb: int
    memory_mb: dict[Place, int] = field(default_factory=dict)
    full: float = FULL
    _queue: list[Step] = field(default_factory=list)
    _seats: dict[Place, _Seat] = field(default_factory=dict)
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
        return [seat.busy for seat in self._seats.values() if seat.busy]

    def place_of(self, cell: Cell) -> Place:
        """The testbed of a cell: one for each policy at each site."""
        return cell.policy.id, self.plan.site_of(cell.scenario).name

    def start(self) -> tuple[Step, int] | None:
        """The step to start now and its processor, taken off the queue; None if none can be.

        A processor that no waiting step's testbed stays on takes one over from another.
        """
        return self._start_in_order() or self._start_elsewhere()

    def _start_in_order(self) -> tuple[Step, int] | None:
        for number, step in enumerate(self._queue):
            place = self.place_of(step.cell)
            seat = self._seats.get(place)
            if seat is None and not self._has_room(place):
                continue
            processor = seat.processor if seat else self._emptiest()
            if (seat and seat.busy) or not self._has_power(processor, step.cell):
                continue
            if seat is None:
                self.seat(place)
            self._seats[place].busy = step
            del self._queue[number]
            return step, processor
        return None

    def _start_elsewhere(self) -> tuple[Step, int] | None:
        taken = {seat.processor for seat in self._seats.values() if seat.busy}
        free = [processor for processor in self.processors if processor not in taken]
        for number, step in enumerate(self._queue if free else ()):
            seat = self._seats.get(self.place_of(step.cell))
            if seat and not seat.busy:
                seat.processor, seat.busy = free[0], step
                del self._queue[number]
                return step, free[0]
        return None

    def places(self) -> list[Place]:
        """Testbeds that steps wait for, in their order."""
        return list(dict.fromkeys(self.place_of(step.cell) for step in self._queue))

    def seat(self, place: Place) -> int | None:
        """Give a testbed its place; the processor, or None if memory has no room for it."""
        if place not in self._seats:
            if not self._has_room(place):
                return None
            self._seats[place] = _Seat(self._emptiest(), self.memory_mb.get(place, 0))
        return self._seats[place].processor

    def ended(self, step: Step, used: float | None = None) -> None:
        """A step has ended; `used` is the share of its processor that it took, if that is known."""
        self._seats[self.place_of(step.cell)].busy = None
        if used is not None:
            known = self._needs.get(step.cell.name, used)
            self._needs[step.cell.name] = known + _NEWS * (used - known)

    def waited(self, severity: float) -> None:
        """How long a step waited for its processor, as a share of what is tolerated."""
        if severity > 1:
            self.full = max(LEAST, self.full * _BACK_OFF)
        elif severity < 0.5:
            self.full = min(MOST, self.full + _GROW)

    def idle(self) -> list[Place]:
        """Testbeds that no step waits for."""
        wanted = {self.place_of(step.cell) for step in self._queue}
        return [place for place, seat in self._seats.items()
                if seat.busy is None and place not in wanted]

    def is_short_of_room(self) -> bool:
        """Whether steps wait for a testbed that does not fit beside those there are."""
        return any(not self._has_room(place) for place in
                   {self.place_of(step.cell) for step in self._queue} - self._seats.keys())

    def gone(self, place: Place) -> None:
        """A testbed was ended."""
        self._seats.pop(place, None)

    def need(self, cell: Cell) -> float:
        """The share of a processor that a repetition of a cell is expected to take."""
        known = self._needs.get(cell.name)
        if known is not None:
            return known
        same_policy = [need for name, need in self._needs.items()
                       if name.startswith(f"{cell.policy.id}-")]
        return max(same_policy or self._needs.values(), default=_ASSUMED)

    def _has_room(self, place: Place) -> bool:
        taken_mb = sum(seat.memory_mb for seat in self._seats.values())
        fits = (len(self._seats) < self.most
                and taken_mb + self.memory_mb.get(place, 0) <= self.room_mb)
        return fits or not self._seats

    def _has_power(self, processor: int, cell: Cell) -> bool:
        beside = [seat.busy for seat in self._seats.values()
                  if seat.busy and seat.processor == processor]
        needed = self.need(cell) + sum(self.need(step.cell) for step in beside)
        return not beside or (len(beside) < self.at_once and needed <= self.full)

    def _emptiest(self) -> int:
        """The processor with the fewest testbeds."""
        seats = [seat.processor for seat in self._seats.values()]
        return min(self.processors, key=seats.count)
