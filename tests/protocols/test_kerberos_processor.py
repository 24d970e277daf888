"""Tests of the shared processor: what it takes when several compute, on a clock that jumps."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from statistics import fmean, pstdev

import pytest

from protocols.kerberos.processor import SharedProcessor


class JumpingClock(selectors.SelectSelector):
    """Waiting takes no time, and moves the clock as far as was to be waited."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Nothing is ever readable but what is already."""
        self.now_s += timeout or 0.0
        return super().select(0)


def run(work: Callable[[asyncio.AbstractEventLoop], Awaitable[None]]) -> None:
    """Run something on such a clock."""
    clock = JumpingClock()
    loop = asyncio.SelectorEventLoop(clock)
    loop.time = lambda: clock.now_s  # type: ignore[method-assign]
    loop.run_until_complete(work(loop))
    loop.close()


def finished(jobs: list[tuple[float, float]], **settings: float | str) -> list[float]:
    """When jobs are done, given when they begin and how long they are (s)."""
    ends = [0.0] * len(jobs)

    async def all_jobs(loop: asyncio.AbstractEventLoop) -> None:
        processor = SharedProcessor(**settings)  # type: ignore[arg-type]

        async def job(number: int, begin_s: float, takes_s: float) -> None:
            await asyncio.sleep(begin_s)
            await processor.do_work(processor.draw_work(takes_s))
            ends[number] = loop.time()
        await asyncio.gather(*(job(number, *pair) for number, pair in enumerate(jobs)))
    run(all_jobs)
    return ends


def test_who_computes_at_once_shares() -> None:
    """Two jobs of a second take two; a short one amid a long one takes twice its own time."""
    assert finished([(0, 1), (0, 1)]) == pytest.approx([2, 2])
    assert finished([(0, 10), (2, 1)]) == pytest.approx([11, 4])


def test_a_processor_each_is_shared_with_nobody() -> None:
    """With a processor for each job, none waits."""
    assert finished([(0, 1), (0, 1)], sharing="own") == pytest.approx([1, 1])


def test_speed_divides_work() -> None:
    """Ten times as fast takes a tenth."""
    assert finished([(0, 1)], speed=10) == pytest.approx([0.1])


def test_varied_work_has_its_mean() -> None:
    """Gamma-distributed work is as long on average as was asked for, and never the same."""
    processor = SharedProcessor(variation="gamma", seed=1)
    drawn = [processor.draw_work(2.0) for _ in range(4000)]
    assert fmean(drawn) == pytest.approx(2.0)
    assert len(set(drawn)) == len(drawn)
    assert pstdev(drawn) == pytest.approx(2.0 / 10 ** 0.5, rel=0.05)


def test_every_twenty_of_a_kind_have_their_mean() -> None:
    """Two kinds of work, one after the other in turn: luck of the draw is in neither's mean."""
    processor = SharedProcessor(variation="gamma", seed=2)
    pairs = [(processor.draw_work(2.0), processor.draw_work(0.5)) for _ in range(20)]
    assert fmean(long for long, _ in pairs) == pytest.approx(2.0)
    assert fmean(short for _, short in pairs) == pytest.approx(0.5)
