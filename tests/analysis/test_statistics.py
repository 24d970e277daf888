"""Tests of analysis.statistics: published values, edge cases, and coverage by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import statistics
from analysis.statistics import Estimate
from intervals import SLEEP_1, SLEEP_2, covers

# TCP overhead of P2 in N1 N2 N3 R1 R2, kbit/s (Table 5 of the 2007 paper).
P2_OVERHEAD_KBPS = [71.10, 70.90, 108.78, 90.43, 208.04]

finite = st.floats(-1e9, 1e9)


def test_mean_of_paired_differences_reproduces_student() -> None:
    """Student's own example: 1.58 hours more, 95 % interval 0.70 to 2.46 (as R's t.test says)."""
    blocks_1, blocks_2 = dict(enumerate(SLEEP_1)), dict(enumerate(SLEEP_2))
    found = statistics.mean(statistics.paired_differences(blocks_2, blocks_1))
    assert found.mean == pytest.approx(1.58)
    assert found.low == pytest.approx(0.7001142, abs=1e-6)
    assert found.high == pytest.approx(2.4598858, abs=1e-6)
    assert found.n == 10


def test_mean_and_variance_reproduce_table_9() -> None:
    """The paper's robustness of P2: mean 109.85 kbit/s, variance 3.26 (in 1000 kbit2/s2)."""
    assert statistics.mean(P2_OVERHEAD_KBPS).mean == pytest.approx(109.85, abs=0.005)
    variance = statistics.sample_variance(P2_OVERHEAD_KBPS)
    assert variance is not None
    assert variance / 1000 == pytest.approx(3.26, abs=0.005)


@pytest.mark.parametrize("size", [2, 3, 5, 30])
def test_t_interval_covers_as_it_says(size: int) -> None:
    """Of 95 % intervals on normal samples, 95 % hold the mean, even of two values."""
    rng = np.random.default_rng(size)
    hits = sum(covers(statistics.mean(rng.normal(4.61, 0.03, size)), 4.61) for _ in range(4000))
    # Four standard deviations of a binomial proportion of 4000.
    assert hits / 4000 == pytest.approx(0.95, abs=0.014)


@pytest.mark.parametrize("size", [3, 5, 10])
def test_t_interval_of_times_with_a_long_tail_holds_what_limits_say(size: int) -> None:
    """Lognormal, sigma 0.6: 90 to 91 %, and nine of ten misses lie above (docs/limits.md)."""
    rng = np.random.default_rng(size)
    truth = math.exp(0.6**2 / 2)
    found = [statistics.mean(rng.lognormal(0, 0.6, size)) for _ in range(8000)]
    missed = sum(not covers(one, truth) for one in found)
    above = sum(one.high is not None and truth > one.high for one in found)
    # Three standard deviations of a binomial proportion of 8000 around 0.901 to 0.910.
    assert 0.890 <= 1 - missed / len(found) <= 0.920
    assert above / missed > 0.88


def test_t_interval_covers_at_another_level() -> None:
    """The level is a parameter: an 80 % interval covers 80 %."""
    rng = np.random.default_rng(8)
    hits = sum(covers(statistics.mean(rng.normal(0, 1, 4), level=0.8), 0) for _ in range(4000))
    assert hits / 4000 == pytest.approx(0.80, abs=0.026)


def test_bca_interval_covers_the_mean_of_skewed_samples() -> None:
    """On 40 exponential values BCa covers nearly as it says, and leans to the long tail."""
    rng, resampling = np.random.default_rng(2), np.random.default_rng(3)
    hits, leans = 0, 0
    for _ in range(400):
        found = statistics.mean_bca(rng.exponential(1.0, 40), resampling, resamples=799)
        hits += covers(found, 1.0)
        assert found.low is not None
        assert found.high is not None
        leans += found.high - found.mean > found.mean - found.low
    assert 0.90 <= hits / 400 <= 0.98
    assert leans / 400 > 0.95


def test_bca_interval_is_too_narrow_for_three_values() -> None:
    """Why tables use Student's t: on three values the bootstrap covers far less than 95 %."""
    rng, resampling = np.random.default_rng(4), np.random.default_rng(5)
    hits = sum(covers(statistics.mean_bca(rng.normal(0, 1, 3), resampling, resamples=199), 0)
               for _ in range(300))
    assert hits / 300 < 0.85


def test_bca_interval_is_reproducible_and_takes_nothing_global() -> None:
    """The generator passed in decides: the same one gives the same interval."""
    first, again, other = (statistics.mean_bca(SLEEP_1, np.random.default_rng(seed), resamples=199)
                           for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize(("between", "size"), [(0.0, 3), (0.5, 3), (2.0, 3), (1.0, 16)])
def test_means_of_repetitions_cover_whatever_correlates_within_them(between: float,
                                                                    size: int) -> None:
    """Values within a repetition have its mean in common, more or less: the mean of means covers.

    Taken for so many values of their own, they cover only where they have nothing in common.
    """
    rng = np.random.default_rng(round(10 * between) + size)
    hits = pooled = 0
    for _ in range(4000):
        values = 4.61 + rng.normal(0, between, (size, 1)) + rng.normal(0, 1, (size, 4))
        hits += covers(statistics.mean(values.mean(axis=1)), 4.61)
        pooled += covers(statistics.mean(values.ravel()), 4.61)
    assert hits / 4000 == pytest.approx(0.95, abs=0.014)
    assert (pooled / 4000 > 0.936) == (between == 0)


def test_means_of_repetitions_cover_where_values_are_skewed() -> None:
    """Waiting makes times longer and never shorter: means of three such repetitions hold nearly."""
    rng = np.random.default_rng(17)
    hits = 0
    for _ in range(4000):
        values = rng.gamma(4, 0.25, (3, 1)) * (0.8 + rng.exponential(0.2, (3, 4)))
        hits += covers(statistics.mean(values.mean(axis=1)), 1.0)
    assert 0.90 <= hits / 4000 <= 0.97


def test_paired_differences_cancel_drift_and_still_cover() -> None:
    """Drift of the whole testbed is ten times the noise; pairs see through it and cover 95 %."""
    rng = np.random.default_rng(6)
    hits, narrower = 0, 0
    for _ in range(2000):
        drift = rng.normal(0, 0.1, 5)
        first = dict(enumerate(4.61 + drift + rng.normal(0, 0.01, 5)))
        second = dict(enumerate(4.44 + drift + rng.normal(0, 0.01, 5)))
        paired = statistics.mean(statistics.paired_differences(first, second))
        hits += covers(paired, 0.17)
        unpaired, width = statistics.mean(first.values()).half_width, paired.half_width
        assert unpaired is not None
        assert width is not None
        narrower += width < unpaired
    assert hits / 2000 == pytest.approx(0.95, abs=0.02)
    assert narrower / 2000 > 0.95


def test_only_blocks_that_both_have_are_paired() -> None:
    """A failed repetition takes its partner out of the difference, and order does not matter."""
    pairs = statistics.paired_differences({3: 30.0, 1: 10.0, 2: 20.0}, {2: 1.0, 4: 4.0, 3: 3.0})
    assert pairs.tolist() == [19.0, 27.0]
    assert statistics.paired_differences({1: 1.0}, {2: 1.0}).size == 0


@pytest.mark.parametrize("function", [
    statistics.mean, lambda v: statistics.mean_bca(v, np.random.default_rng(1))])
def test_one_value_has_no_interval(function: Callable[..., Any]) -> None:
    """Nothing can be said of the spread of one value, and nothing is."""
    found = function([4.61])
    assert found == Estimate(4.61, None, None, 1)
    assert found.half_width is None
    assert not found.spans_zero
    assert statistics.sample_variance([4.61]) is None


@pytest.mark.parametrize("function", [
    statistics.mean, lambda v: statistics.mean_bca(v, np.random.default_rng(1))])
def test_equal_values_have_an_interval_without_width(function: Callable[..., Any]) -> None:
    """Repetitions on a virtual clock can be equal to the bit; that is no error."""
    assert function([0.5, 0.5, 0.5]) == Estimate(0.5, 0.5, 0.5, 3)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf, 1.0]])
@pytest.mark.parametrize("function", [
    statistics.mean, statistics.median, statistics.sample_variance])
def test_nothing_and_what_is_no_number_are_refused(function: Callable[..., Any],
                                                   values: list[float]) -> None:
    """No mean is made up where there is nothing to average."""
    with pytest.raises(ValueError, match="at least one value"):
        function(values)


@given(st.lists(finite, min_size=2, max_size=20))
def test_interval_holds_its_mean(values: list[float]) -> None:
    """Whatever the sample: low, mean and high are in order, and zero is seen where it is inside."""
    found = statistics.mean(values)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.mean <= found.high
    assert found.spans_zero == (found.low <= 0 <= found.high)
    assert min(values) <= statistics.median(values) <= max(values)
