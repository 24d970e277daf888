"""Imitate the slow processor of a Kerberos node, such as a computer of 2002.

A device file states how long each operation takes there (`OperationCost`). `Meter` adds up these
times for one request. The program then waits for the sum. `SharedProcessor` divides the processor's
time equally among all requests in progress, like a time-slicing system.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from protocols.fields import ConfigError

Sharing = Literal["shared", "own"]
Variation = Literal["fixed", "gamma"]
#: Shape of gamma-distributed work; the coefficient of variation is 0.32.
_GAMMA_SHAPE = 10.0
#: Draws per block; the work in each block has exactly its nominal mean.
_GAMMA_BLOCK = 20


class SharedProcessor:
    """A modelled processor that divides its time equally among jobs (processor sharing).

    With sharing `own`, each job has a processor. `speed` divides all work. Work may vary at random
    (gamma distribution) with the requested mean. Otherwise a constant number of clients falls into
    step, which no queueing model describes. The shape of the distribution has no other effect on
    shared processors (Baskett, Chandy, Muntz and Palacios 1975), so a narrow one is used. Work is
    drawn in blocks, each scaled to its mean, which removes the random error of the draws.
    """

    def __init__(self, speed: float = 1.0, sharing: Sharing = "shared",
                 variation: Variation = "fixed", seed: int = 0) -> None:
        self._speed, self._sharing, self._variation = speed, sharing, variation
        self._rng = random.Random(seed)  # noqa: S311 - service times, no secrets
        #: Remaining draws of the block of each mean (s).
        self._drawn: dict[float, list[float]] = {}
        #: Jobs, ordered by the attained service at which each is complete.
        self._jobs: list[tuple[float, int, asyncio.Future[None]]] = []
        self._attained_s = self._since_s = 0.0
        self._order = 0
        self._timer: asyncio.TimerHandle | None = None

    def draw_work(self, seconds: float) -> float:
        """Draw a random amount of work with this mean, in seconds of the processor."""
        if self._variation == "gamma" and seconds > 0:
            seconds = self._draw_varied(seconds)
        return seconds / self._speed

    def _draw_varied(self, mean_s: float) -> float:
        left = self._drawn.setdefault(mean_s, [])
        if not left:
            block = [self._rng.gammavariate(_GAMMA_SHAPE, 1.0) for _ in range(_GAMMA_BLOCK)]
            total = sum(block)
            left.extend(mean_s * _GAMMA_BLOCK * value / total for value in block)
        return left.pop()

    async def do_work(self, seconds: float) -> None:
        """Wait until an amount of work (s) is done, while other jobs share the processor."""
        if seconds <= 0:
            return
        if self._sharing == "own":
            await asyncio.sleep(seconds)
            return
        self._advance_service()
        done = asyncio.get_running_loop().create_future()
        self._order += 1
        heapq.heappush(self._jobs, (self._attained_s + seconds, self._order, done))
        self._arm_timer()
        await done

    def _advance_service(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._jobs:
            self._attained_s += (now_s - self._since_s) / len(self._jobs)
        self._since_s = now_s

    def _arm_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._jobs:
            left_s = max(0.0, self._jobs[0][0] - self._attained_s) * len(self._jobs)
            self._timer = asyncio.get_running_loop().call_later(left_s, self._finish_due)

    def _finish_due(self) -> None:
        self._advance_service()
        while self._jobs and self._jobs[0][0] <= self._attained_s + 1e-9:
            future = heapq.heappop(self._jobs)[2]
            if not future.done():
                future.set_result(None)
        self._arm_timer()


# --- Operations of one piece of work, and the processor time that they cost ---

@dataclass(frozen=True)
class OperationCost:
    """The time of an operation: seconds per call and per byte."""

    s: float
    s_per_byte: float = 0.0


@dataclass
class Meter:
    """A meter of the operations of one piece of work, and of their CPU time.

    Without costs, operations are counted but take no time.
    """

    costs: Mapping[str, OperationCost]
    operations: Counter[str] = field(default_factory=Counter)
    owed_s: float = 0.0

    def charge(self, operation: str, size: int = 0) -> None:
        """Count an operation on `size` bytes, and add its time.

        Raises:
            ConfigError: the operation has no cost.
        """
        self.operations[operation] += 1
        if not self.costs:
            return
        cost = self.costs.get(operation)
        if cost is None:
            raise ConfigError(f"costs: {operation} is missing; this protocol does it")
        self.owed_s += cost.s + cost.s_per_byte * size

    def take_owed(self) -> float:
        """Return the CPU time (s) added since the last call."""
        owed_s, self.owed_s = self.owed_s, 0.0
        return owed_s
