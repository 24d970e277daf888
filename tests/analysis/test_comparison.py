"""Tests of comparisons: published values, coverage and error rates by simulation, two runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import special, stats

from analysis import NoResultsError, Results, statistics
from analysis.reporting.comparison import changed_only, compare_runs
from analysis.statistics import Estimate
from analysis.table import Entry, Table
from conftest import Qop
from fabricated import make, results_of, write_all
from intervals import SLEEP_1, SLEEP_2, covers
from measure.records.record import Record, write_record

probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=30)
#: In whole microseconds: differences of what hardly differs have no digits to compare.
times = st.integers(1, 10**7).map(lambda microseconds: microseconds / 1e6)

# --- tests of two samples -----------------------------------------------------------------------


def test_the_paired_test_reproduces_student() -> None:
    """Student's sleep data: t = 4.0621, p = 0.002833 (as R's t.test says, paired)."""
    found = statistics.compare_paired(dict(enumerate(SLEEP_2)), dict(enumerate(SLEEP_1)))
    assert found.difference.mean == pytest.approx(1.58)
    assert found.p_value == pytest.approx(0.002833, abs=1e-6)


def test_welch_reproduces_student_unpaired() -> None:
    """The same data as two groups: p = 0.07939, interval -0.2055 to 3.3655 (as R says)."""
    found = statistics.compare_welch(SLEEP_2, SLEEP_1)
    assert found.p_value == pytest.approx(0.07939, abs=1e-5)
    assert found.difference.low == pytest.approx(-0.2054832, abs=1e-6)
    assert found.difference.high == pytest.approx(3.3654832, abs=1e-6)


@given(st.lists(st.tuples(times, times), min_size=2, max_size=30))
def test_the_paired_test_is_scipys(pairs: list[tuple[float, float]]) -> None:
    """Whatever is paired: p-value and interval are those of `scipy.stats.ttest_rel`."""
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    found = statistics.compare_paired(dict(enumerate(first)), dict(enumerate(second)))
    # The same differences throughout are certainty here, and a division by zero there.
    assume(np.ptp(first - second) > 1e-6)
    assert_alike(found, stats.ttest_rel(first, second))


@given(st.lists(times, min_size=2, max_size=30), st.lists(times, min_size=2, max_size=30))
def test_welch_is_scipys(first: list[float], second: list[float]) -> None:
    """Whatever the sizes and spreads: `scipy.stats.ttest_ind` without equal variances."""
    assume(np.ptp(first) > 1e-6 and np.ptp(second) > 1e-6)  # or scipy warns
    found = statistics.compare_welch(first, second)
    assert_alike(found, stats.ttest_ind(first, second, equal_var=False))
    over, p_value = statistics.compare_welch_pairs([(first, second)])
    assert p_value == pytest.approx(found.p_value)
    assert over.low == pytest.approx(found.difference.low)


def assert_alike(found: statistics.Comparison, reference: Any) -> None:
    """The same p-value, and the same 95 % interval of the difference."""
    low, high = reference.confidence_interval(0.95)
    assert found.p_value == pytest.approx(reference.pvalue, rel=1e-9, abs=1e-12)
    assert found.difference.low == pytest.approx(low, rel=1e-9, abs=1e-9)
    assert found.difference.high == pytest.approx(high, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("sizes", "spreads"), [
    ((3, 3), (1, 1)), ((3, 10), (1, 4)), ((5, 5), (1, 10)), ((10, 30), (3, 1))])
def test_welch_interval_covers(sizes: tuple[int, int], spreads: tuple[float, float]) -> None:
    """95 % of intervals hold the difference, with unequal spreads and sizes, too."""
    rng = np.random.default_rng(sum(sizes))
    hits = sum(covers(statistics.compare_welch(rng.normal(4.6, spreads[0], sizes[0]),
                                               rng.normal(4.4, spreads[1], sizes[1])).difference,
                      0.2)
               for _ in range(1500))
    # Welch's approximation is safe rather than sharp where samples are tiny.
    assert 0.935 <= hits / 1500 <= 0.98


@pytest.mark.parametrize("compared", [
    lambda a, b: statistics.compare_paired(dict(enumerate(a)), dict(enumerate(b))),
    statistics.compare_welch])
def test_p_values_are_uniform_without_a_difference(compared: Callable[..., Any]) -> None:
    """Where nothing differs, 5 % of p-values are below 0.05 and half of them below 0.5."""
    rng = np.random.default_rng(11)
    p = np.array([compared(rng.normal(0, 1, 6), rng.normal(0, 1, 6)).p_value for _ in range(1500)])
    assert (p < 0.05).mean() == pytest.approx(0.05, abs=0.016)
    assert (p < 0.5).mean() == pytest.approx(0.5, abs=0.04)


def test_pairs_decide_where_drift_hides_the_difference() -> None:
    """Blocks drift by twenty times the noise: pairs find the difference, groups do not."""
    rng = np.random.default_rng(12)
    drift = rng.normal(0, 1, 8)
    first, second = drift + rng.normal(0.2, 0.05, 8), drift + rng.normal(0, 0.05, 8)
    pairs = statistics.compare_paired(dict(enumerate(first)), dict(enumerate(second)))
    groups = statistics.compare_welch(first, second)
    assert pairs.p_value is not None and pairs.p_value < 0.001
    assert groups.p_value is not None and groups.p_value > 0.3


@pytest.mark.parametrize(("first", "second", "p"), [
    ([2.0, 2.0, 2.0], [1.0, 1.0, 1.0], 0.0), ([1.0, 1.0], [1.0, 1.0], 1.0), ([1.0], [2.0], None)])
def test_samples_without_spread_or_size(first: list[float], second: list[float],
                                        p: float | None) -> None:
    """Equal repetitions are certainty; single ones say nothing; neither is a division by zero."""
    assert statistics.compare_welch(first, second).p_value == p
    pairs = statistics.compare_paired(dict(enumerate(first)), dict(enumerate(second)))
    assert pairs.p_value == p
    assert pairs.g is None


# --- corrections --------------------------------------------------------------------------------


def test_corrections_reproduce_a_worked_example() -> None:
    """The fifteen p-values of Benjamini and Hochberg (1995, section 3.2): 4 are significant, 3."""
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
         0.5719, 0.6528, 0.7590, 1.0]
    assert (statistics.benjamini_hochberg(p) <= 0.05).sum() == 4
    assert (statistics.holm(p) <= 0.05).sum() == 3


@given(probabilities)
def test_corrections_agree_with_the_reference(p: list[float]) -> None:
    """Whatever the p-values and their order: Holm by its definition, the other as scipy has it."""
    order = sorted(range(len(p)), key=lambda k: p[k])
    by_hand = [0.0] * len(p)
    for rank, index in enumerate(order):
        by_hand[index] = min(1.0, max((len(p) - k) * p[order[k]] for k in range(rank + 1)))
    assert statistics.holm(p).tolist() == pytest.approx(by_hand)
    assert statistics.benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))


@pytest.mark.parametrize("p", [[-0.1], [1.1], [math.nan]])
def test_what_is_no_probability_is_refused(p: list[float]) -> None:
    """A NaN would make everything look decided."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        statistics.holm(p)


def test_corrections_keep_their_promises() -> None:
    """60 tests, 20 of real differences: Holm errs in 5 % of families, the other in 5 % of marks."""
    rng = np.random.default_rng(13)
    families, shares = 0, []
    for _ in range(1500):
        z = rng.normal(0, 1, 60)
        z[:20] += 4
        p = 2 * special.ndtr(-np.abs(z))
        families += bool((statistics.holm(p)[20:] < 0.05).any())
        found = statistics.benjamini_hochberg(p) < 0.05
        shares.append(found[20:].sum() / max(1, found.sum()))
    assert families / 1500 <= 0.05 + 0.017
    assert 0.025 <= np.mean(shares) <= 0.05


# --- effect sizes -------------------------------------------------------------------------------


def test_hedges_g_by_hand() -> None:
    """Means 6 and 4, both with variance 2.5, n = 5: d = 1.2649, times J(8) = 0.90275."""
    found = statistics.hedges_g([4, 5, 6, 7, 8], [2, 3, 4, 5, 6])
    assert found is not None
    assert found.mean == pytest.approx(2 / math.sqrt(2.5) * 0.9027, abs=1e-4)
    assert found.n == 10


@pytest.mark.parametrize(("size", "effect"), [(3, 0.0), (3, 2.0), (8, 1.0)])
def test_hedges_g_is_unbiased_and_its_intervals_cover(size: int, effect: float) -> None:
    """In groups and in pairs, even with three values: the mean of g is the truth, 95 % hold it."""
    rng = np.random.default_rng(size)
    for one in (lambda: statistics.hedges_g(rng.normal(effect, 1, size), rng.normal(0, 1, size)),
                lambda: statistics.hedges_g_paired(rng.normal(effect, 1, size + 2))):
        found = [one() for _ in range(1200)]
        assert sum(covers(g, effect) for g in found) / 1200 == pytest.approx(0.95, abs=0.025)
        assert np.mean([g.mean for g in found]) == pytest.approx(effect, abs=0.15)


@pytest.mark.parametrize(("first", "second", "delta", "word"), [
    ([5, 6, 7], [1, 2, 3], 1.0, "large"), ([1, 2, 3], [1, 2, 3], 0.0, "negligible"),
    ([1, 2], [2, 3], -0.75, "large"), ([1, 2, 2, 3, 4], [2, 2, 2, 3, 2], 0.08, "negligible")])
def test_cliffs_delta_by_counting(first: list[float], second: list[float], delta: float,
                                  word: str) -> None:
    """All above, all alike, ties among them."""
    assert statistics.cliffs_delta(first, second) == pytest.approx(delta)
    assert statistics.magnitude_word(delta) == word


# --- two runs -----------------------------------------------------------------------------------


def run(seed: int, slower: dict[tuple[str, str], float] | None = None, repetitions: int = 5,
        **changes: Any) -> list[Record]:
    """Three policies in two scenarios; `slower` takes bit/s off the TCP goodput of cells."""
    rng = np.random.default_rng(seed)
    return [make(policy, number, scenario=scenario, udp=5.8e6 + rng.normal(0, 5e3),
                 tcp=4.6e6 + rng.normal(0, 2e4) - (slower or {}).get((policy, scenario), 0.0),
                 **changes)
            for scenario in ("N1", "N2") for policy in ("P1", "P2", "P3")
            for number in range(1, repetitions + 1)]


def marked(tables: list[Table], column: str = "tcp_goodput_difference_bps") -> set[tuple[str, str]]:
    """Cells (policy, scenario) that a table marks as significantly different."""
    table = next(table for table in tables if column in [c.key for c in table.columns])
    at = [c.key for c in table.columns].index(column)
    scenarios = [max((start, title[:2]) for start, title in table.sections if start <= number)[1]
                 for number in range(len(table.rows))]
    return {(row[0].text, scenario) for row, scenario in zip(table.rows, scenarios, strict=True)
            if "significant" in row[at].marks}


def results(records: list[Record]) -> Results:
    """Records in memory as a run."""
    return results_of(*records)


def test_a_real_difference_is_marked_and_nothing_else_is() -> None:
    """P2 lost 0.3 Mbit/s in N1: its goodput is marked, with the difference second minus first."""
    tables = compare_runs(results(run(1)), results(run(2, {("P2", "N1"): 3e5})))
    assert marked(tables) == {("P2", "N1")}
    assert marked(tables, "udp_goodput_difference_bps") == set()
    assert marked(tables, "tcp_overhead_difference_bps") == {("P2", "N1")}
    lost, table = (next(table for table in tables if table.id == f"compare-tcp_{what}_bps")
                   for what in ("overhead", "goodput"))
    assert {row[0].text for row in lost.rows} == {"P2", "P3"}  # P1 loses nothing to itself
    row = table.rows[1]
    assert row[0] == Entry("P2")
    first, second, difference, relative = (row[number].number for number in range(1, 5))
    assert first and second and difference and relative
    assert difference.value == pytest.approx(second.value - first.value)
    assert difference.value == pytest.approx(-3e5, abs=6e4)
    assert difference.low is not None and difference.high is not None
    assert difference.low < difference.value < difference.high < 0
    assert relative.value == pytest.approx(difference.value / first.value)


def test_equal_runs_are_seldom_said_to_differ() -> None:
    """Of pairs of runs that measured the same, at most about 5 % show any mark at all."""
    alarms = sum(any("significant" in entry.marks for table in
                     compare_runs(results(run(2 * seed, repetitions=3)),
                                  results(run(2 * seed + 1, repetitions=3)))
                     for row in table.rows for entry in row) for seed in range(20))
    assert alarms <= 4  # P(more than 4 of 20 at 5 %) is 0.3 %


def test_the_correction_counts_all_comparisons() -> None:
    """A corrected p-value is never below the plain one; Holm's never below the other's."""
    runs = results(run(1)), results(run(2, {("P2", "N1"): 3e4}))
    for strict, mild in zip(compare_runs(*runs),
                            compare_runs(*runs, correction="benjamini-hochberg"),
                            strict=True):
        at = [column.key for column in strict.columns].index("p_adjusted")
        for first, second in zip(strict.rows, mild.rows, strict=True):
            # Authentication times are all equal here, which leaves nothing to doubt.
            assert first[at].number and second[at].number
            assert first[at].number.value >= second[at].number.value


def test_what_is_unlike_is_said() -> None:
    """Another medium, another policy, and cells that one run lacks stand in the notes."""
    environment = make().environment | {"medium": "802.11g"}
    other = [record.model_copy(update={"environment": environment, "digests": {"policy": "other"}}
                               if record.cell["policy"] == "P1" else {})
             for record in run(2) if tuple(record.cell.values()) != ("P3", "N2")]
    notes = " ".join(compare_runs(results(run(1)), results(other), names=("old", "new"))[0].notes)
    assert "differ in medium: 802.11b-long and 802.11b-long, 802.11g." in notes
    assert "Not the same policy in both runs: P1." in notes
    assert "Only old has good repetitions of P3 in N2." in notes


def test_runs_without_a_common_cell_are_a_clear_sentence() -> None:
    """Not an empty table."""
    with pytest.raises(NoResultsError, match=r"no cell .* in common"):
        compare_runs(results([make("P1", scenario="N1")]), results([make("P1", scenario="N2")]))


def test_single_repetitions_are_shown_without_a_verdict() -> None:
    """Means stand side by side; there is no p-value to make up."""
    tables = compare_runs(results(run(1, repetitions=1)), results(run(2, repetitions=1)))
    assert marked(tables) == set()
    assert tables[0].rows[0][5] == Entry("-", note="too few repetitions")


def test_the_command_compares_two_folders(qop_here: Qop) -> None:
    """Tables on standard output, with the mark; --changed leaves only what differs."""
    folders = [qop_here.folder / name for name in ("old", "new")]
    for folder, records in zip(folders, (run(1), run(2, {("P2", "N1"): 3e5})), strict=True):
        write_all(records, folder)
    done = qop_here("compare", "old", "new")
    assert done.returncode == 0, done.stderr
    assert "TCP goodput, old and new" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert any(row[:1] == ["P2"] and "*" in "".join(row) and "-0.3" in "".join(row) for row in rows)
    assert done.stdout.count("Hedges' g is") == 1
    done = qop_here("compare", "old", "new", "--changed", "--out", "both")
    assert "UDP goodput, old and new: no significant difference" in done.stdout
    assert not any(line.split()[:1] == ["P1"] for line in done.stdout.splitlines())
    assert "P2" in (qop_here.folder / "both" / "tables" / "compare-tcp_goodput_bps.csv").read_text()
    assert "old and new" in (qop_here.folder / "both" / "report.html").read_text()


def test_only_changed_rows_keep_their_headings() -> None:
    """P3 in N2 alone: one row, under the heading of N2."""
    tables = compare_runs(results(run(1)), results(run(2, {("P3", "N2"): 3e5})))
    table = changed_only(next(table for table in tables if table.id == "compare-tcp_goodput_bps"))
    assert [row[0].text for row in table.rows] == ["P3"]
    assert [(start, title[:2]) for start, title in table.sections] == [(0, "N2")]


@pytest.mark.parametrize(("arguments", "says"), [
    (("old", "old"), "compared with itself"), (("old", "nowhere"), "no such folder")])
def test_the_command_names_what_is_wrong(qop_here: Qop, arguments: tuple[str, str],
                                         says: str) -> None:
    """One line, no traceback."""
    write_record(make(), Path(qop_here.folder) / "old" / "records")
    done = qop_here("compare", *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and says in done.stderr


def test_an_estimate_without_width_spans_zero_only_at_zero() -> None:
    """Marks follow the interval, not the noise of the last bit."""
    assert Estimate(0.0, 0.0, 0.0, 3).spans_zero
    assert not Estimate(0.1, 0.1, 0.1, 3).spans_zero
