"""Clocks of the programs: the machine's own clock, and a stepped clock for repeatable runs.

On an emulated machine, the clock stands still while programs compute. It still advances a little
with each reading and with the kernel's own work. Events of two equal runs are therefore late by
some microseconds, and not by the same number.

With a stepped clock, all actions of a step happen at its beginning. A datagram that arrives during
a step counts as arrived at the next step. While delays are shorter than a step, two runs have
exactly the same times.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

from protocols.fields import Fields, whole_number

_MAX_WAIT_S = 3600.0


@dataclass(frozen=True)
class Steps:
    """Parameters of a stepped clock, whose steps are `ns` long.

    A step begins at `origin_ns` of the machine's wall clock, and the stepped clock shows `start_ns`
    there. A socket sends at most `burst_bytes` in a step, so that a burst arrives before the next
    step.
    """

    ns: int
    origin_ns: int
    start_ns: int
    burst_bytes: int


class WallClock:
    """A clock in nanoseconds since 1970 that never jumps.

    It shows the wall clock's time at its start plus the time that has passed since.
    """

    burst_bytes: int | None = None

    def __init__(self) -> None:
        self._epoch_ns = time.time_ns() - time.monotonic_ns()

    def now_ns(self) -> int:
        """Return the current time."""
        return self._epoch_ns + time.monotonic_ns()

    def arrived_ns(self, stamp_ns: int) -> int:
        """Return the time of an arrival from the kernel's time stamp.

        The kernel's clock may be set while the program runs, so only the age of the stamp is used.
        """
        return self.now_ns() - max(0, time.time_ns() - stamp_ns)

    def resume_ns(self, *times_ns: int) -> int:
        """Return the time at which work continues that had to wait for `times_ns`: now."""
        del times_ns
        return self.now_ns()

    def wait_s(self, due_ns: int | None) -> float:
        """Return the seconds until a time, or 0 if it is past.

        Without a time, return one hour.
        """
        return _MAX_WAIT_S if due_ns is None else max(0.0, (due_ns - self.now_ns()) / 1e9)

    def update_time(self) -> None:
        """Update the clock after a wait. This clock needs no update."""

    def wait_until(self, due_ns: int) -> None:
        """Sleep until a time. Return at once if it is past."""
        if due_ns > self.now_ns():
            time.sleep(self.wait_s(due_ns))
            self.update_time()


class SteppedClock(WallClock):
    """A clock that advances in steps, and is updated only after a wait."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps
        self.burst_bytes = steps.burst_bytes
        self._now_ns = steps.start_ns
        self.update_time()

    def now_ns(self) -> int:
        """Return the beginning of the step in which the clock was last updated."""
        return self._now_ns

    def arrived_ns(self, stamp_ns: int) -> int:
        """Return the beginning of the step after the arrival.

        An arrival exactly at the beginning of a step belongs to that step.
        """
        return self._begin_ns(self._shown_ns(stamp_ns))

    def resume_ns(self, *times_ns: int) -> int:
        """Return the latest of `times_ns`, at which the waiting work continues.

        The work counts from exactly that time, although the program handles it at a step.
        """
        return max(times_ns)

    def wait_s(self, due_ns: int | None) -> float:
        """Return the seconds until the first step that does not begin before a time."""
        if due_ns is None:
            return _MAX_WAIT_S
        return max(0.0, (self._begin_ns(due_ns) - self._shown_ns(time.time_ns())) / 1e9)

    def update_time(self) -> None:
        """Update the current step from the machine's clock."""
        passed = (self._shown_ns(time.time_ns()) - self._steps.start_ns) // self._steps.ns
        self._now_ns = max(self._now_ns, self._steps.start_ns + passed * self._steps.ns)

    def _shown_ns(self, machine_ns: int) -> int:
        return self._steps.start_ns + machine_ns - self._steps.origin_ns

    def _begin_ns(self, time_ns: int) -> int:
        """Return the beginning of the first step that is not before a time."""
        return time_ns + (self._steps.start_ns - time_ns) % self._steps.ns


def take_clock(reader: Fields) -> Callable[[], WallClock]:
    """Return a factory of the configured clock: the machine's, or a stepped clock.

    Raises ConfigError.
    """
    step_ns = reader.take("step_ns", whole_number(0, 1_000_000_000), 0)
    steps = Steps(step_ns, reader.take("origin_ns", whole_number(0, 1 << 62), 0),
                  reader.take("start_ns", whole_number(0, 1 << 62), 0),
                  reader.take("burst_bytes", whole_number(1, 1 << 30), 1 << 30))
    reader.end()
    return functools.partial(SteppedClock, steps) if step_ns else WallClock
