"""Tests of extremes that the data pick: their intervals hold their level, a pair's do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from analysis import statistics
from analysis.blocks import jackknife_estimate, mean_of
from analysis.cells import Observation
from analysis.claims import MORE, TIMES, Band, ExtremeQuestion, Question, SpreadQuestion
from analysis.statistics import Estimate, Sample, relative_spread
from analysis.statistics.estimates import studentized_range

POLICIES, DRAWS = 12, 2000
#: What 2000 draws of 95 % come to, four standard deviations below.
LEAST = 0.93


@pytest.mark.parametrize(("cells", "freedom", "table"), [
    (2, 1, 17.97), (3, 10, 3.877), (12, 22, None), (12, 99, None), (60, 3000, None)])
def test_the_studentized_range_is_scipys(cells: int, freedom: int, table: float | None) -> None:
    """At 95 and 99 %, from one degree of freedom on; and Tukey's table where it has the case."""
    for level in (0.95, 0.99):
        assert studentized_range(level, cells, freedom) == pytest.approx(
            stats.studentized_range.ppf(level, cells, freedom), rel=1e-8)
    if table is not None:
        assert studentized_range(0.95, cells, freedom) == pytest.approx(table, rel=2e-4)


def coverage(truth: float, answer: Callable[[Sample], Estimate], blocks: int,
             means: Sample | None = None) -> float:
    """The share of simulated runs whose interval holds the truth: 1 % noise, drift of blocks."""
    random = np.random.default_rng(blocks)
    held = 0
    for _ in range(DRAWS):
        seen = (1 if means is None else means) * random.normal(1, 0.02, (blocks, 1)) \
            * random.normal(1, 0.01, (blocks, POLICIES))
        got = answer(seen)
        assert got.low is not None and got.high is not None
        held += got.low <= truth <= got.high
    return held / DRAWS


def of_the_pair_that_was_picked(seen: Sample) -> Estimate:
    """What an interval is that takes the pair as given."""
    means = seen.mean(axis=0)
    pair = seen[:, [int(means.argmax()), int(means.argmin())]]
    return jackknife_estimate(pair, lambda two: two[..., 0] / two[..., 1] - 1)


@pytest.mark.parametrize("blocks", [3, 10, 16])
def test_spread_of_twelve_equal_policies_holds_its_level(blocks: int) -> None:
    """The truth is 0: the interval holds it in 95 % of runs, that of the picked pair does not."""
    assert coverage(0.0, relative_spread, blocks) >= LEAST
    assert coverage(0.0, of_the_pair_that_was_picked, blocks) == pytest.approx(
        {3: 0.74, 10: 0.45, 16: 0.38}[blocks], abs=0.05)


@pytest.mark.parametrize("blocks", [3, 16])
def test_spread_holds_where_several_share_both_ends(blocks: int) -> None:
    """Five fastest that are equal, and five slowest: 10 percent apart."""
    means = np.array([1.1] * 5 + [1.05] * 2 + [1.0] * 5)
    assert coverage(0.1, relative_spread, blocks, means) >= LEAST


@pytest.mark.parametrize("blocks", [3, 10, 16])
def test_extreme_of_twelve_equal_means_holds_its_level(blocks: int) -> None:
    """The smallest of equal means is no smaller, and the interval says so."""
    ids = [("x", str(index)) for index in range(POLICIES)]
    extreme = ExtremeQuestion("x", [Question(key[1], [key], MORE, TIMES, mean_of) for key in ids],
                              "smallest")

    def answer(seen: Sample) -> Estimate:
        cells = {key: observed(column) for key, column in zip(ids, seen.T, strict=True)}
        got = extreme.answer(cells, 0.95)
        assert got is not None
        return got

    random = np.random.default_rng(blocks)
    held = 0
    for _ in range(300):
        got = answer(random.normal(1, 0.02, (blocks, 1))
                     * random.normal(1, 0.01, (blocks, POLICIES)))
        held += (got.low or 0) <= 1 <= (got.high or 0)
    assert held / 300 >= LEAST


def observed(values: Sample) -> Observation:
    return Observation(statistics.mean(values), dict(enumerate(values.tolist())))


def test_answers_need_their_cells() -> None:
    """None where a cell lacks a number or cannot be divided by; without two blocks no interval."""
    band = Band(0, 1)
    ids = [("x", "a"), ("x", "b")]
    some = {ids[0]: observed(np.array([2.0, 2.1])), ids[1]: observed(np.array([1.0, 1.1]))}
    ask = SpreadQuestion("x", ids, band, TIMES)
    known = ask.answer(some, 0.95)
    assert known is not None and known.mean == pytest.approx(2.05 / 1.05 - 1)
    assert ask.answer({ids[0]: some[ids[0]]}, 0.95) is None
    assert ask.answer(some | {ids[1]: observed(np.array([0.0, 0.0]))}, 0.95) is None
    once = {key: observed(np.array([value])) for key, value in zip(ids, (3.0, 2.0), strict=True)}
    assert ask.answer(once, 0.95) == Estimate(0.5, None, None, 1)
    below = ask.answer(some | {ids[1]: observed(np.array([-1.0, 3.0]))}, 0.95)
    assert below is not None and below.low is None
    either = ExtremeQuestion("x", [Question("a", [ids[0]], band, TIMES, mean_of),
                                   Question("?", [("x", "?")], band, TIMES, mean_of)], "largest")
    assert either.answer(some, 0.95) is None
    assert either.keys == (ids[0], ("x", "?")) and either.band == band and either.unit == TIMES
