"""Detect a guest machine that computes without end while its clock does not advance.

A program in an endless loop can cause this with the virtual clock, where computing takes no time.
The repetition would then never end, so the guest is ended after a while. Only the guest's CPU time
counts here. A guest that is stopped, or gets no processor on a busy host, does not compute, so its
clock need not advance.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from guest.boot import GuestClock, GuestClockError, read_guest_clock
from guest.processes import read_used_cpu_s

#: Processor seconds without an advance of the clock until it is reported.
REPORTED_AFTER_S = 10.0
#: Processor seconds without an advance of the clock until the guest is ended.
ENDED_AFTER_S = 30.0
#: Smallest advance of the clock that counts: at most 1/600 of the processor time.
_MOVED_S = 0.05
#: Interval between readings of the guest's processor time (s).
_EVERY_S = 2.0
#: Processor time of the guest between two readings of its clock (s).
_ASK_S = 4.0
#: A guest that used less processor time while it gave no answer was stopped, as between two
#: repetitions, and says nothing about its clock.
_RUNNING_S = 0.05
_UNKNOWN = "an unknown program"


@dataclass(frozen=True)
class Standstill:
    """A guest's clock that has not advanced, although the guest used CPU time.

    `at_s` is the guest's time, None if its kernel does not answer. `since` is the host's wall-clock
    time of the last advance. `computed_s` is the CPU time used since then.
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
class StandstillDetector:
    """A detector of guest clocks that do not advance, fed with readings of clock and CPU time."""

    _at_s: float | None = None
    _since: float = field(default_factory=time.time)
    _computed_s: float = 0.0
    _programs: dict[str, int] = field(default_factory=dict)

    def add_reading(self, clock: GuestClock | None, computed_s: float) -> Standstill | None:
        """Add a reading of the guest's clock and CPU time.

        Args:
            clock: The guest's clock, None without an answer.
            computed_s: The guest's processor time until then, in seconds.

        Returns:
            The standstill so far, or None if the clock advances.
        """
        if clock is not None and (self._at_s is None or clock.at_s - self._at_s >= _MOVED_S):
            self._at_s, self._since, self._computed_s = clock.at_s, time.time(), computed_s
            self._programs.clear()
        if clock is not None:
            self._programs[clock.program] = self._programs.get(clock.program, 0) + 1
        lasted_s = computed_s - self._computed_s
        if lasted_s < REPORTED_AFTER_S:
            return None
        program = max(self._programs, key=lambda name: self._programs[name], default=_UNKNOWN)
        return Standstill(self._at_s if clock is not None else None, self._since, lasted_s,
                          program)


async def watch_clock(pid: int, show: Callable[[Standstill | None], None], *,
                      ended_s: float = ENDED_AFTER_S) -> Standstill:
    """Watch a guest until its clock has not advanced for too long, although the guest computed.

    Args:
        pid: Process id of the guest's kernel.
        show: Called with a standstill once it has lasted a while, and with None once the clock
            advances again.
        ended_s: Processor time without an advance that is too long, in seconds.

    Returns:
        The standstill.
    """
    judge, asked_s, is_shown = StandstillDetector(), 0.0, False
    while True:
        await asyncio.sleep(_EVERY_S)
        computed_s = read_used_cpu_s(pid)
        if computed_s - asked_s < _ASK_S:
            continue
        try:
            clock = await read_guest_clock(pid)
        except GuestClockError:
            await asyncio.Event().wait()  # wait until cancelled: such a guest gives no readings
            raise
        if clock is None and read_used_cpu_s(pid) - computed_s < _RUNNING_S:
            continue
        asked_s = computed_s
        standstill = judge.add_reading(clock, computed_s)
        if standstill is not None and standstill.computed_s >= ended_s:
            return standstill
        if (standstill is not None) != is_shown:
            is_shown = standstill is not None
            show(standstill)
