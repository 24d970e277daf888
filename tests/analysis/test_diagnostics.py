"""Tests of warnings and decisions: their error rates by simulation, and what they say of runs."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from analysis import statistics
from analysis.cells import Cells
from analysis.reporting import significance, stability
from analysis.statistics import Estimate
from fabricated import body_of, cells_of, changed, make
from intervals import SLEEP_1, SLEEP_2
from measure.records.record import Record

POLICIES = tuple(f"P{number}" for number in range(1, 13))
LEVELS = {policy: 4.6e6 - 3e4 * rank for rank, policy in enumerate(POLICIES)}

# --- values that stand out ----------------------------------------------------------------------


def test_modified_z_scores_by_hand() -> None:
    """Medians 3 and 30; deviations 1 1 2 97 and 1 1 2 2 (two zeros left out), their median 1.5.

    Where most values are equal there is no scale, and nothing stands out.
    """
    scores = statistics.modified_z_scores([[1, 2, 3, 4, 100], [28, 29, 30, 31, 32]])
    scale = 1.4826 * 1.5
    assert scores[0] == pytest.approx(np.array([-2, -1, 0, 1, 97]) / scale)
    assert scores[1] == pytest.approx(np.array([-2, -1, 0, 1, 2]) / scale)
    assert statistics.modified_z_scores([[1, 1, 1, 1, 9]])[0].tolist() == [0, 0, 0, 0, 0]


@pytest.mark.parametrize("size", [3, 4, 5, 10])
def test_normal_values_seldom_stand_out(size: int) -> None:
    """One in a thousand is beyond 3.5 deviations, though each group has only a few values.

    By each group's own median deviation it would be more, one in ten where there are three.
    """
    rng = np.random.default_rng(size)
    samples = rng.normal(5, 1, (800, 12, size))
    scores = np.array([statistics.modified_z_scores(list(run)) for run in samples])
    common = (np.abs(scores) > stability.OUTLIER).mean()
    assert common < 0.004
    away = np.abs(samples - np.median(samples, axis=2, keepdims=True))
    own = away / (1.4826 * np.median(away, axis=2, keepdims=True))
    assert (own > stability.OUTLIER).mean() > (0.05 if size == 3 else 3 * common)


def test_half_of_the_values_may_be_wrong() -> None:
    """The scale does not grow with what stands out: four of ten groups with a stray value."""
    rng = np.random.default_rng(1)
    groups = [rng.normal(0, 1, 5) for _ in range(10)]
    for group in groups[:4]:
        group[2] += 50
    scores = statistics.modified_z_scores(groups)
    assert all(group[2] > 20 for group in scores[:4])


# --- drift --------------------------------------------------------------------------------------


@pytest.mark.parametrize("grain", [0.001, 0.5, 2.0])
def test_one_series_is_kendalls_test(grain: float) -> None:
    """With one series, and ties on both sides: scipy's Kendall, but for half a step of S."""
    rng = np.random.default_rng(2)
    times = np.round(np.arange(40.0) / 4 / grain) * grain
    values = np.round((rng.normal(0, 1, 40) + np.arange(40) / 40) / grain) * grain
    found = statistics.find_trend([(times, values)])
    plain = stats.kendalltau(times, values, method="asymptotic").pvalue
    deviation = abs(found.s) / stats.norm.isf(plain / 2)
    assert found.p_value == pytest.approx(2 * stats.norm.sf((abs(found.s) - 1) / deviation))
    assert found.slope == pytest.approx(stats.theilslopes(values, times).slope)


def test_several_series_are_the_sum_of_kendalls_tests() -> None:
    """S and its variance are sums over the series (Hirsch et al., 1982), each as scipy has it."""
    rng = np.random.default_rng(9)
    series = [(np.arange(float(size)), np.round(rng.normal(slope * np.arange(size), 1), 1))
              for size, slope in ((5, 0.3), (8, 0.1), (12, 0.2), (20, 0.05))]
    each = [statistics.find_trend([one]) for one in series]
    # Of one series, scipy's p-value is that of S over its deviation.
    deviations = [abs(found.s) / stats.norm.isf(
        stats.kendalltau(*one, method="asymptotic").pvalue / 2)
        for found, one in zip(each, series, strict=True)]
    found = statistics.find_trend(series)
    assert found.s == sum(one.s for one in each) != 0
    z = (abs(found.s) - 1) / np.sqrt(np.square(deviations).sum())
    assert found.p_value == pytest.approx(2 * stats.norm.sf(z))


@pytest.mark.parametrize(("cells", "repetitions"), [(12, 3), (12, 10), (1, 20)])
def test_trends_are_not_seen_where_there_are_none(cells: int, repetitions: int) -> None:
    """Series of different levels and no trend: 5 % of p-values are below 0.05, or fewer."""
    rng = np.random.default_rng(cells + repetitions)
    times = np.arange(float(repetitions))
    p = np.array([statistics.find_trend([(times, level + rng.normal(0, 1, repetitions))
                                         for level in range(cells)]).p_value for _ in range(400)])
    assert 0.02 <= (p < 0.05).mean() <= 0.07


def test_a_common_trend_is_found_in_short_series() -> None:
    """Three repetitions of twelve policies: none shows a trend alone, together they do."""
    rng = np.random.default_rng(3)
    times = np.arange(3.0)
    series = [(times, level + 1.5 * times + rng.normal(0, 1, 3)) for level in range(12)]
    found = statistics.find_trend(series)
    assert found.p_value < 1e-3
    assert found.slope == pytest.approx(1.5, abs=0.5)
    assert min(statistics.find_trend([one]).p_value for one in series) > 0.1


def test_a_series_needs_as_many_times_as_values() -> None:
    """What does not belong together is refused."""
    with pytest.raises(ValueError, match="as many times as values"):
        statistics.find_trend([([1, 2, 3], [1, 2])])


# --- repetitions needed -------------------------------------------------------------------------


@pytest.mark.parametrize(("effect", "pairs"), [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10)])
def test_pairs_needed_as_published(effect: float, pairs: int) -> None:
    """Power 0.8 at 5 %, paired t test: the numbers of Cohen's tables and of G*Power."""
    assert statistics.pairs_needed(effect) == pairs


@pytest.mark.parametrize(("effect", "margin", "level"), [
    (1.2, 0.0, 0.95), (2.5, 0.0, 0.995), (0.0, 1.0, 0.95), (0.3, 1.2, 0.95), (5.0, 0.0, 0.9995)])
def test_the_number_needed_decides_as_often_as_it_says(effect: float, margin: float,
                                                       level: float) -> None:
    """Of experiments of that size 80 % decide; of smaller ones fewer do (for differences)."""
    rng = np.random.default_rng(4)
    count = statistics.pairs_needed(effect, margin, level)
    assert count is not None

    def deciding(size: int) -> float:
        return np.mean([statistics.decide_outcome(statistics.mean(rng.normal(effect, 1, size),
                                                                  level),
                                                  margin) != "undecided" for _ in range(1500)])

    assert deciding(count) >= 0.8 - 0.035
    if not margin:
        assert deciding(count - 1) <= 0.8 + 0.035


def test_further_repetitions_are_those_that_are_missing() -> None:
    """Student's data are decided already; a tenth of the difference takes many more."""
    differences = np.array(SLEEP_2) - np.array(SLEEP_1)
    assert statistics.repetitions_to_decide(differences) == 0
    small = differences - 0.9 * differences.mean()
    effect = float(small.mean() / small.std(ddof=1))
    wanted = statistics.pairs_needed(effect)
    assert wanted is not None
    assert statistics.repetitions_to_decide(small) == wanted - 10
    assert statistics.repetitions_to_decide(differences - differences.mean()) is None
    assert statistics.repetitions_to_decide([1.0]) is None
    assert statistics.repetitions_to_decide([1.0, 1.0]) == 0


@pytest.mark.parametrize(("low", "high", "outcome"), [
    (0.1, 0.2, "different"), (-0.5, -0.1, "different"), (-0.1, 0.1, "equivalent"),
    (-0.1, 2.0, "undecided"), (None, None, "undecided")])
def test_outcomes(low: float | None, high: float | None, outcome: str) -> None:
    """One side of 0; within what does not matter (0.5); neither."""
    assert statistics.decide_outcome(Estimate(0.0, low, high, 3), margin=0.5) == outcome


# --- runs ---------------------------------------------------------------------------------------


def run(seed: int, repetitions: int = 3, drift: float = 0.0, spread: float = 0.01,
        **strays: float) -> Cells:
    """Twelve policies in N2 and R1; TCP drifts by a share a block; strays by name of record."""
    rng = np.random.default_rng(seed)
    records: list[Record] = []
    for number in range(1, repetitions + 1):
        for policy in POLICIES:
            for scenario in ("N2", "R1"):
                share = 1 + rng.normal(0, spread) + drift * number
                record = make(policy, number, scenario=scenario, tcp=LEVELS[policy] * share,
                              udp=5.8e6 * (1 + rng.normal(0, spread)))
                factor = strays.get(record.name.replace("-", "_"))
                tcp = body_of(record).tcp
                if factor and tcp:
                    record = changed(record, tcp=tcp.model_copy(
                        update={"goodput_bps": tcp.goodput_bps * factor}))
                records.append(record)
    return cells_of(*records)


@functools.cache
def quiet(seed: int) -> Cells:
    """Noise alone."""
    return run(seed, spread=0.02)


def test_a_stray_value_is_named_with_its_record() -> None:
    """It is the furthest; the warning has value, median and unit, and says that it counts."""
    found = stability.find_outliers(run(1, P4_R1_002=0.5))
    assert found[0].record == "P4-R1-002"
    assert found[0].metric.name == "tcp_goodput_bps"
    assert found[0].deviations < -10
    lines = stability.list_warnings(run(1, P4_R1_002=0.5))
    assert any(line.startswith("P4-R1-002: TCP goodput of 2.2") and "below the median" in line
               for line in lines)


def test_many_stray_values_are_counted_not_listed() -> None:
    """Twelve bad repetitions are five lines and one that counts the rest."""
    strays = {f"P{number}_N2_001": 0.5 for number in range(1, 13)}
    lines = stability.list_warnings(run(2, repetitions=5, **strays))
    assert sum("% below the median" in line for line in lines) == 5
    assert "Values of 7 more cells stand out." in lines


def test_a_cell_with_two_modes_has_no_stray_values() -> None:
    """Three of six at 10 % less is how it varies, whatever the other cells do."""
    half = {f"P4_R1_00{number}": 0.9 for number in (1, 3, 4)}
    found = stability.find_outliers(run(1, repetitions=6, spread=0.001, **half))
    assert not [outlier for outlier in found if outlier.cell == ("P4", "R1")]


def test_stray_values_of_one_cell_share_a_line() -> None:
    """The furthest leads, the other is named."""
    lines = stability.list_warnings(run(1, repetitions=6, P4_R1_002=0.5, P4_R1_005=0.6))
    [line] = [line for line in lines if "stands out" in line and "P4-R1" in line]
    assert line.startswith("P4-R1-002: ") and "So does P4-R1-005." in line


def test_what_is_negligible_is_not_warned_of() -> None:
    """Values within 1 % of their median: no outliers, however small the spread is."""
    assert stability.find_outliers(run(3, spread=1e-5, P4_R1_002=0.995)) == []


def test_drift_is_named_with_its_size() -> None:
    """TCP falls by 1 % a block in both scenarios: 7 % over eight blocks; UDP does not."""
    found = stability.find_drifts(run(4, repetitions=8, drift=-0.01))
    assert {(*drift.section, drift.metric.name) for drift in found} == {
        ("N2", "tcp_goodput_bps"), ("R1", "tcp_goodput_bps")}
    assert all(drift.share == pytest.approx(-0.07, abs=0.02) for drift in found)
    lines = stability.list_warnings(run(4, repetitions=8, drift=-0.01))
    assert lines[0].startswith(("N2: TCP goodput falls by about", "R1: TCP goodput falls by about"))


def test_drift_goes_by_the_clock_where_records_have_it() -> None:
    """Repetitions that were measured in the opposite order drift the other way."""
    results = run(5, repetitions=8, drift=-0.01).results
    turned = results.frame.assign(started_s=1e9 - results.frame["repetition"] * 60.0)
    found = stability.find_drifts(Cells(replace(results, frame=turned)))
    assert found and all(drift.share > 0.05 for drift in found)


def test_drift_is_not_stretched_over_guests_that_ran_one_after_the_other() -> None:
    """Each cell took 7 minutes of an hour: what it drifted by in these is what is said."""
    results = run(5, repetitions=8, drift=-0.01).results
    order = results.frame["policy"].str[1:].astype(int)
    frame = results.frame.assign(
        started_s=1e9 + order * 300.0 + results.frame["repetition"] * 60.0)
    found = stability.find_drifts(Cells(replace(results, frame=frame)))
    assert found and all(drift.share == pytest.approx(-0.07, abs=0.02) for drift in found)


def test_luck_that_all_cells_share_is_no_drift() -> None:
    """Repetitions of one number have the same backoffs under every policy: 40 runs of such luck."""
    rng = np.random.default_rng(9)
    found = 0
    for seed in range(40):
        luck = dict(enumerate(rng.normal(1, 0.01, 6).tolist(), 1))
        strays = {f"{policy}_{scenario}_{number:03d}": factor for policy in POLICIES
                  for scenario in ("N2", "R1") for number, factor in luck.items()}
        found += len(stability.find_drifts(run(seed, repetitions=6, spread=0.001, **strays)))
    assert found <= 2


def test_quiet_runs_have_few_warnings() -> None:
    """Twenty runs of noise alone: no drift, and less than one stray value each."""
    runs = [quiet(seed) for seed in range(20)]
    assert sum(len(stability.find_drifts(results)) for results in runs) <= 2
    assert sum(len(stability.find_outliers(results)) for results in runs) < 20


def test_decisions_find_what_is_there_and_say_what_is_missing() -> None:
    """P12 is 330 kbit/s slower: decided. P2 is 30 kbit/s slower than P1: open, with a number."""
    found = {decision.ids[0]: decision for decision in
             significance.decide_differences(run(6, repetitions=5, spread=0.008))
             if (decision.metric.name, *decision.section) == ("tcp_goodput_bps", "N2")}
    assert found["P12"].outcome == "different"
    assert found["P12"].comparison.difference.mean == pytest.approx(-3.3e5, abs=5e4)
    assert found["P12"].further == 0
    assert found["P2"].outcome == "undecided"
    assert found["P2"].further and found["P2"].further > 1
    assert len(found) == 11


def test_decisions_see_equivalence() -> None:
    """A spread far below 1 % shows that UDP does not differ by as much as matters."""
    found = significance.decide_differences(run(7, repetitions=6, spread=1e-3))
    udp = [decision for decision in found if decision.metric.name == "udp_goodput_bps"]
    assert sum(decision.outcome == "equivalent" for decision in udp) >= 0.8 * len(udp)


def test_decisions_seldom_err() -> None:
    """Policies that do not differ: at most about 5 % of families name a difference."""
    errors = 0
    for seed in range(20):
        found = significance.decide_differences(quiet(seed))
        errors += len({decision.section for decision in found if decision.outcome == "different"
                       and decision.metric.name == "udp_goodput_bps"})
    assert errors <= 6  # of 40 families; P(more than 6 at 5 %) is 0.4 %


def test_the_tables_of_decisions() -> None:
    """One a metric; every row has the records of both cells behind its difference."""
    tables = significance.make_decision_tables(run(8))
    assert [table.id for table in tables] == [
        f"decisions-{metric}" for metric in
        ("authentication_time_s", "handoff_s", "tcp_goodput_bps", "udp_goodput_bps")]
    tcp = tables[2]
    assert len(tcp.rows) == 22
    assert [title[:2] for _, title in tcp.sections] == ["N2", "R1"]
    assert tcp.rows[0][1].records == tuple(f"{policy}-N2-00{number}" for number in (1, 2, 3)
                                           for policy in ("P2", "P1"))
    assert any(note.startswith("No: the corrected interval lies within what does not matter: 1% "
                               "of the baseline's mean, 1 packet or 5 ms. ") for note in tcp.notes)
    for row in tcp.rows:
        assert (row[5].text == "undecided") == (row[6].text != "-")
        assert ("significant" in row[1].marks) == (row[5].text == "yes")


def test_no_baseline_no_decisions() -> None:
    """Without the policy that others are compared with there is nothing to decide."""
    cells = cells_of(*[make("P3", number) for number in (1, 2, 3)])
    assert significance.decide_differences(cells) == []
    assert significance.make_decision_tables(cells) == []
    assert stability.list_warnings(cells) == []


def test_single_repetitions_decide_nothing() -> None:
    """They are undecided, and how many more are needed is not made up."""
    found = significance.decide_differences(run(9, repetitions=1))
    assert {(decision.outcome, decision.further, decision.p_adjusted) for decision in found} == {
        ("undecided", None, None)}


def test_long_series_are_averaged_in_stretches() -> None:
    """Trends are sought in a hundred stretches, not in all pairs of a long series."""
    times, values = stability._relative_series(np.arange(833.0)[::-1], np.linspace(3, 5, 833))
    assert times.size == values.size == 100
    assert times[0] == pytest.approx(4.0) and values[-1] == pytest.approx(3 / 4, abs=0.005)
