"""Watch for a guest that keeps a processor busy while its clock stands still.

Only processor time counts. A guest that is stopped, or gets no processor on a busy host, does not
compute. Its clock may stand still for any time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from guest.management import GuestClock, NoGuestClock, read_clock
from guest.processes import used_cpu_s

#: Processor seconds without an advance of the clock, until it is reported and until the guest is
#: ended.
SHOWN_S, ENDED_S = 10.0, 30.0
#: Smallest advance of the clock that counts: at most 1/600 of the processor time.
_MOVED_S = 0.05
#: Interval between readings of the guest's processor time (s), and processor time between two
#: readings of its clock (s).
_EVERY_S, _ASK_S = 2.0, 4.0
_UNKNOWN = "an unknown program"


@dataclass(frozen=True)
class Standstill:
    """A clock that has not advanced while its guest computed.

    `at_s` is the guest's time, None if its kernel does not answer. `computed_s` is processor time,
    `since` is wall-clock time.
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
    """A detector of standstills, from readings of a guest's clock and its processor time."""

    _at_s: float | None = None
    _since: float = field(default_factory=time.time)
    _computed_s: float = 0.0
    _programs: dict[str, int] = field(default_factory=dict)

    def add_reading(self, clock: GuestClock | None, computed_s: float) -> Standstill | None:
        """Add a reading of the clock.

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
        if lasted_s < SHOWN_S:
            return None
        program = max(self._programs, key=lambda name: self._programs[name], default=_UNKNOWN)
        return Standstill(self._at_s if clock is not None else None, self._since, lasted_s,
                          program)


async def watch_clock(pid: int, show: Callable[[Standstill | None], None], *,
                      ended_s: float = ENDED_S) -> Standstill:
    """Watch a guest until its clock has stood still for too long.

    Args:
        pid: Process id of the guest's kernel.
        show: Called with a standstill once it has lasted a while, and with None once the clock
            advances again.
        ended_s: Processor time without an advance that is too long, in seconds.

    Returns:
        The standstill.
    """
    judge, asked_s, is_shown = StandstillJudge(), 0.0, False
    while True:
        await asyncio.sleep(_EVERY_S)
        computed_s = used_cpu_s(pid)
        if computed_s - asked_s < _ASK_S:
            continue
        asked_s = computed_s
        try:
            standstill = judge.add_reading(await read_clock(pid), computed_s)
        except NoGuestClock:
            await asyncio.Event().wait()  # wait until cancelled: such a guest gives no readings
            raise
        if standstill is not None and standstill.computed_s >= ended_s:
            return standstill
        if (standstill is not None) != is_shown:
            is_shown = standstill is not None
            show(standstill)
