"""Watch for a guest that keeps a processor busy while its clock stands still.

Only processor time counts: a guest that is stopped, or that a busy machine leaves without a
processor, does not compute, and its clock may stand as long as that lasts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from guest.management import GuestClock, NoGuestClock, read_clock
from guest.processes import processor_s

#: Processor seconds without movement until a standstill is shown, and until its guest is ended.
SHOWN_S, ENDED_S = 10.0, 30.0
#: A clock that moved by less has not moved: at most a six-hundredth of the time computed.
_MOVED_S = 0.05
#: How often the guest's processor time is read, and how much of it passes between two questions.
_EVERY_S, _ASK_S = 2.0, 4.0
_UNKNOWN = "an unknown program"


@dataclass(frozen=True)
class Standstill:
    """A clock that has not moved while its guest computed.

    `at_s` is the guest's time, None where its kernel does not answer. `computed_s` is processor
    time, `since` is the wall clock's.
    """

    at_s: float | None
    since: float
    computed_s: float
    program: str

    def __str__(self) -> str:
        where = "" if self.at_s is None else f" at {self.at_s:.3f} s"
        return (f"the guest's clock stood still{where} while it computed for "
                f"{self.computed_s:.0f} s, most of it {self.program}")


@dataclass
class StandstillJudge:
    """Judge readings of a guest's clock, with the processor time that it had taken by each."""

    _at_s: float | None = None
    _since: float = field(default_factory=time.time)
    _computed_s: float = 0.0
    _programs: dict[str, int] = field(default_factory=dict)

    def take(self, clock: GuestClock | None, computed_s: float) -> Standstill | None:
        """Take a reading, None without an answer; return the standstill so far, if there is one."""
        if clock is not None and (self._at_s is None or clock.at_s - self._at_s >= _MOVED_S):
            self._at_s, self._since, self._computed_s = clock.at_s, time.time(), computed_s
            self._programs.clear()
        if clock is not None:
            self._programs[clock.program] = self._programs.get(clock.program, 0) + 1
        lasted_s = computed_s - self._computed_s
        if lasted_s < SHOWN_S:
            return None
        program = max(self._programs, key=lambda name: self._programs[name], default=_UNKNOWN)
        return Standstill(self._at_s if clock is not None else None, self._since, lasted_s,
                          program)


async def watch_clock(pid: int, show: Callable[[Standstill | None], None], *,
                      ended_s: float = ENDED_S) -> Standstill:
    """Watch a guest until its clock has stood still for too long; return the standstill.

    Args:
        pid: Process id of the guest's kernel.
        show: Gets a standstill once it has lasted a while, and None once the clock moves again.
        ended_s: Processor time without movement that is too long, in seconds.
    """
    judge, asked_s, is_shown = StandstillJudge(), 0.0, False
    while True:
        await asyncio.sleep(_EVERY_S)
        computed_s = processor_s(pid)
        if computed_s - asked_s < _ASK_S:
            continue
        asked_s = computed_s
        try:
            standstill = judge.take(await read_clock(pid), computed_s)
        except NoGuestClock:
            await asyncio.Event().wait()  # until cancelled: nothing can be told of such a guest
            raise
        if standstill is not None and standstill.computed_s >= ended_s:
            return standstill
        if (standstill is not None) != is_shown:
            is_shown = standstill is not None
            show(standstill)
