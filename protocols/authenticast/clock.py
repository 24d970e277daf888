"""Clocks of the programs: the machine's own, and one in steps for repeatable experiments.

An emulated machine whose clock stands still while programs compute still moves it a little: with
each reading of it, and with what its kernel does beside. So two runs of an experiment are late by
some microseconds, and not the same ones. In steps, everything that is done at a step is done at its
beginning, and what arrives during one has arrived at the next: as long as delays stay below a step,
two runs have the same times to the last digit.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

from protocols.fields import Fields, whole

_MAX_WAIT_S = 3600.0


@dataclass(frozen=True)
class Steps:
    """How a clock goes in steps of `ns`.

    `origin_ns`, of the machine's wall clock, begins a step, and counts as `start_ns`. A socket
    sends at most `burst_bytes` at one, so that a burst is at its other end before the next.
    """

    ns: int
    origin_ns: int
    start_ns: int
    burst_bytes: int


class WallClock:
    """Nanoseconds since 1970 that never jump: the wall clock at the start and what has passed."""

    burst_bytes: int | None = None

    def __init__(self) -> None:
        self._epoch_ns = time.time_ns() - time.monotonic_ns()

    def now_ns(self) -> int:
        """The time."""
        return self._epoch_ns + time.monotonic_ns()

    def arrived_ns(self, stamp_ns: int) -> int:
        """When something arrived at which the kernel's clock, which may be set, showed this."""
        return self.now_ns() - max(0, time.time_ns() - stamp_ns)

    def since(self, *times_ns: int) -> int:
        """When what had to wait for all of these goes on: now."""
        del times_ns
        return self.now_ns()

    def wait_s(self, due_ns: int | None) -> float:
        """How long it is until then; an hour where there is nothing to wait for."""
        return _MAX_WAIT_S if due_ns is None else max(0.0, (due_ns - self.now_ns()) / 1e9)

    def look(self) -> None:
        """Time may have passed: to be called after each wait."""

    def wait_until(self, due_ns: int) -> None:
        """Sleep; not at all where the time is past."""
        if due_ns > self.now_ns():
            time.sleep(self.wait_s(due_ns))
            self.look()


class SteppedClock(WallClock):
    """One that goes in steps, and is looked at after waiting only."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps
        self.burst_bytes = steps.burst_bytes
        self._now_ns = steps.start_ns
        self.look()

    def now_ns(self) -> int:
        """When the step began that it was when somebody looked last."""
        return self._now_ns

    def arrived_ns(self, stamp_ns: int) -> int:
        """The beginning of the step after that in which it came."""
        return self._begin_ns(self._shown_ns(stamp_ns))

    def since(self, *times_ns: int) -> int:
        """The last of these: what waits goes on exactly then, though it is seen to at a step."""
        return max(times_ns)

    def wait_s(self, due_ns: int | None) -> float:
        """How long it is until the first step that is not before."""
        if due_ns is None:
            return _MAX_WAIT_S
        return max(0.0, (self._begin_ns(due_ns) - self._shown_ns(time.time_ns())) / 1e9)

    def look(self) -> None:
        """Which step it is."""
        passed = (self._shown_ns(time.time_ns()) - self._steps.start_ns) // self._steps.ns
        self._now_ns = max(self._now_ns, self._steps.start_ns + passed * self._steps.ns)

    def _shown_ns(self, machine_ns: int) -> int:
        return self._steps.start_ns + machine_ns - self._steps.origin_ns

    def _begin_ns(self, time_ns: int) -> int:
        """The beginning of the first step that is not before."""
        return time_ns + (self._steps.start_ns - time_ns) % self._steps.ns


def take_clock(reader: Fields) -> Callable[[], WallClock]:
    """The machine's clock, or one that goes in steps. Raises ConfigError."""
    step_ns = reader.take("step_ns", whole(0, 1_000_000_000), 0)
    steps = Steps(step_ns, reader.take("origin_ns", whole(0, 1 << 62), 0),
                  reader.take("start_ns", whole(0, 1 << 62), 0),
                  reader.take("burst_bytes", whole(1, 1 << 30), 1 << 30))
    reader.end()
    return functools.partial(SteppedClock, steps) if step_ns else WallClock
