"""A node's processor, shared by concurrent jobs as in a time-slicing system."""

from __future__ import annotations

import asyncio
import heapq
import random
from typing import Literal

Sharing = Literal["shared", "own"]
Variation = Literal["fixed", "gamma"]
#: Shape of gamma-distributed work; the coefficient of variation is 0.32.
_SHAPE = 10.0
#: Draws per block; the work in each block has exactly its nominal mean.
_BLOCK = 20


class SharedProcessor:
    """Egalitarian processor sharing, or with `own` one processor per job.

    `speed` divides all work. Gamma-distributed work has the requested mean. In closed networks,
    fixed work synchronises the customers, which no queueing model describes. Otherwise the shape of
    the distribution has no effect on shared processors (Baskett, Chandy, Muntz and Palacios 1975).
    A narrow distribution therefore gives equal means from fewer transactions. Work is drawn in
    blocks, each scaled to its mean (a control variate), which removes the random error of the draws
    from a load's result.
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
        """Draw work with this mean, in seconds of the processor at its speed."""
        if self._variation == "gamma" and seconds > 0:
            seconds = self._draw_varied(seconds)
        return seconds / self._speed

    def _draw_varied(self, mean_s: float) -> float:
        left = self._drawn.setdefault(mean_s, [])
        if not left:
            block = [self._rng.gammavariate(_SHAPE, 1.0) for _ in range(_BLOCK)]
            total = sum(block)
            left.extend(mean_s * _BLOCK * value / total for value in block)
        return left.pop()

    async def do_work(self, seconds: float) -> None:
        """Wait until an amount of work is done, shared with other jobs."""
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
