"""Tests of advice where several policies have the same sigma: what noise may and may not decide."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis import statistics
from analysis.cells import Cells, Observation
from analysis.present.page import save_report
from analysis.statistics import p_value_beyond
from campus_runs import write_campus
from fabricated import STUDY, load
from harness.commands import report
from studies.qop2007.measurements import AUTHENTICATION, HANDOFF, STREAMS
from studies.qop2007.report import application_advice
from studies.qop2007.report.application_advice import APPLICATIONS, ApplicationLimits
from studies.qop2007.report.basis import Kind, ReportBasis, basis_from_paper

PRINTED = basis_from_paper()
EQUAL = ("P8", "P10", "P12")
FILES = APPLICATIONS["file-transfer"]
MARGIN_S = HANDOFF.negligible


def make_world(rates: Mapping[str, tuple[float, ...]], handoffs: Mapping[str, tuple[float, ...]],
               times: Mapping[str, tuple[float, ...]] | None = None) -> ReportBasis:
    """Three policies of one sigma at home in N2 and roaming in R1, with these values by block.

    `times` are those of authentication, by default equal.
    """
    policies = tuple(replace(policy, score=replace(policy.score, sigma=10.0)) if policy.score
                     else policy for policy in PRINTED.policies if policy.id in EQUAL)
    rate = STREAMS["tcp"].name
    values: dict[tuple[str, ...], Observation] = {
        (metric, policy, place): Observation(statistics.mean(blocks), dict(enumerate(blocks, 1)))
        for policy in EQUAL for metric, place, blocks in (
            (rate, "N2", rates[policy]), (rate, "R1", rates[policy]),
            (AUTHENTICATION.name, "N2", (times or QUICK)[policy]),
            (AUTHENTICATION.name, "R1", (times or QUICK)[policy]),
            (HANDOFF.name, "R1", handoffs[policy]))}
    return replace(PRINTED, origin="measured", observations=values, policies=policies)


def find_chosen(basis: ReportBasis, kind: Kind = "roaming",
           limits: ApplicationLimits = FILES) -> tuple[str, ...]:
    """The recommended policies of a world."""
    table = application_advice.build_overview(basis)
    title = {"home": "Non-roaming", "roaming": "Roaming"}[kind]
    return tuple(row[2].text for row in table.rows
                 if (row[0].text, row[1].text) == (limits.title, title))


ALIKE = dict.fromkeys(EQUAL, (5.0e6, 5.01e6, 4.99e6))
QUICK = dict.fromkeys(EQUAL, (0.010, 0.011, 0.009))


def test_equal_policies_are_all_recommended_in_order() -> None:
    """Neither the lowest mean nor the order of measurement singles one out."""
    basis = make_world({**ALIKE, "P12": (5.02e6, 5.03e6, 5.01e6)}, QUICK)
    for kind in ("home", "roaming"):
        assert find_chosen(basis, kind) == EQUAL
    table = application_advice.build_advice_table(basis, FILES)
    assert "Non-roaming: P8, P10 or P12. Roaming: P8, P10 or P12." in table.caption
    marked = [row[0].text for row in table.rows if "recommended" in row[2].marks]
    assert marked == list(EQUAL)


def test_proven_longer_handoff_counts_where_users_roam() -> None:
    """P8 takes half a second to move; at home it is as good as the others."""
    basis = make_world(ALIKE, {**QUICK, "P8": (0.59, 0.60, 0.58)})
    assert find_chosen(basis) == ("P10", "P12")
    assert find_chosen(basis, "home") == EQUAL


def test_proven_lower_rate_counts_everywhere() -> None:
    """P10 is 10 % slower, far beyond its noise."""
    basis = make_world({**ALIKE, "P10": (4.5e6, 4.51e6, 4.49e6)}, QUICK)
    assert find_chosen(basis) == find_chosen(basis, "home") == ("P8", "P12")


def test_proven_longer_authentication_counts_everywhere() -> None:
    """P8 logs in 20 ms later than the others, which move as fast and have the same rate."""
    basis = make_world(ALIKE, QUICK, {**QUICK, "P8": (0.030, 0.031, 0.029)})
    assert find_chosen(basis) == find_chosen(basis, "home") == ("P10", "P12")


def test_difference_that_does_not_matter_is_no_reason() -> None:
    """Half a per cent of the rate and 4 ms, without any noise."""
    basis = make_world({**dict.fromkeys(EQUAL, (5.0e6,) * 3), "P12": (4.975e6,) * 3},
                  {**dict.fromkeys(EQUAL, (0.010,) * 3), "P8": (0.014,) * 3})
    assert find_chosen(basis) == EQUAL


def test_each_better_in_something_leaves_both() -> None:
    """P8 moves quicker than P12 and has the lower rate; P10 is worse than P8 in one of them."""
    basis = make_world({"P8": (4.5e6, 4.51e6, 4.49e6), "P10": (4.5e6, 4.51e6, 4.49e6),
                   "P12": (5.0e6, 5.01e6, 4.99e6)},
                  {"P8": (0.010, 0.011, 0.009), "P10": (0.59, 0.60, 0.58),
                   "P12": (0.59, 0.60, 0.58)})
    assert find_chosen(basis) == ("P8", "P12")


def test_wide_noise_and_single_repetitions_prove_nothing() -> None:
    """A mean that is twice as long, within its noise or measured once."""
    assert find_chosen(make_world(ALIKE, {**QUICK, "P8": (0.02, 0.05, 0.005)})) == EQUAL
    once = {policy: blocks[:1] for policy, blocks in ALIKE.items()}
    assert find_chosen(make_world(once, {"P8": (0.5,), "P10": (0.01,), "P12": (0.01,)})) == EQUAL


def test_printed_values_prove_nothing() -> None:
    """Without intervals, all policies of one sigma stand there."""
    basis = replace(PRINTED, policies=tuple(
        replace(policy, score=replace(policy.score, sigma=10.0)) if policy.score
        and policy.id in EQUAL else policy for policy in PRINTED.policies
        if policy.id in (*EQUAL, "P1")))
    assert find_chosen(basis) == EQUAL


@pytest.mark.parametrize("apart_s", [0.0, MARGIN_S])
def test_noise_alone_seldom_leaves_a_policy_out(apart_s: float) -> None:
    """Of 200 runs with differences of 0, or just as small as not to matter, 5 % at most err."""
    rng, errors = np.random.default_rng(20261201), 0
    for _ in range(200):
        handoffs = {policy: tuple(0.1 + apart_s * (policy == "P8") + rng.normal(0, 0.002, 4))
                    for policy in EQUAL}
        rates = {policy: tuple(5e6 * (1 + rng.normal(0, 0.01, 4))) for policy in EQUAL}
        times = {policy: tuple(0.3 + apart_s * (policy == "P10") + rng.normal(0, 0.002, 4))
                 for policy in EQUAL}
        errors += find_chosen(make_world(rates, handoffs, times)) != EQUAL
    assert errors <= 17  # of 200; P(more than 17 at 5 %) is 1 %


def test_p_value_beyond_is_of_a_t_test_from_the_margin() -> None:
    """The interval's end touches the margin at 5 %; within the margin nothing is significant."""
    sample = np.array([4.0, 5.0, 6.5, 4.5, 5.5])
    low = statistics.mean(sample).low
    assert low is not None
    assert p_value_beyond(sample, low) == pytest.approx(0.05)
    assert p_value_beyond(-sample, low) == pytest.approx(0.05)
    assert p_value_beyond(sample, 6.0) == 1.0
    assert p_value_beyond([3.0, 3.0], 2.0) == 0.0
    assert p_value_beyond([3.0], 0.0) is p_value_beyond([], 0.0) is None


# --- a whole run, with noise ----------------------------------------------------------------------

def test_campus_recommends_the_same_whatever_the_noise(tmp_path: Path) -> None:
    """Twelve runs that differ by noise alone recommend the two policies with a fast move.

    The policy with the highest mean rate, which was recommended before, changes between the runs.
    """
    sets, cheapest = set(), set()
    for seed in range(71, 83):
        results = load(write_campus(tmp_path / str(seed), seed))
        overview = next(table for table in STUDY.report(results, {}).tables
                        if table.id == "overview")
        sets.add(tuple((row[0].text, row[2].text) for row in overview.rows))
        cheapest.add(find_cheapest(Cells(results)))
    assert sets == {tuple((limits.title, policy) for limits in APPLICATIONS.values()
                          for policy in ("M8", "M8-okc"))}
    assert len(cheapest) > 1


def find_cheapest(cells: Cells) -> str:
    """Return the policy of highest sigma that has the highest mean rate in its worst scenario."""
    rates = {policy: min(value.estimate.mean for ids in cells.results.cells if ids[0] == policy
                         and (value := cells.find_value(STREAMS["tcp"].name, ids)))
             for policy in ("M5", "M8", "M8-okc")}
    return max(rates, key=rates.__getitem__)


def test_all_outputs_recommend_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences of terminal and page, cards, tables on screens and in LaTeX, CSV files."""
    monkeypatch.setenv("COLUMNS", "100")
    folder = write_campus(tmp_path, 90)
    report.print_run_table(folder, is_short=True)
    said = " ".join(capsys.readouterr().out.split())
    sentence = ("For voice calls, video conferences, and e-mail, web and file transfer: "
                "M8 or M8-okc, by the weights of 2026; neither of them is proven better.")
    assert sentence in said
    assert re.search(r"ms less with M8\b.*?, \S+ . \S+ with M8-okc\b", said)
    assert all(f"{code} ({name})" in said for code, name in (
        ("M8", "WPA3-Enterprise-FT"), ("M8-okc", "WPA3-Enterprise-OKC")))
    save_report(STUDY.report(load(folder), {}), folder)
    page = (folder / "report.html").read_text()
    assert sentence in page
    cards = page[page.index('id="answers"'):].split("</section>")[0]
    assert re.findall(r"<strong>([^<]+)</strong>", cards) == ["M8", "M8-okc"] * 2
    assert "Neither of them is proven better." in cards
    tables = folder / "tables"
    rows = list(csv.DictReader((tables / "overview.csv").read_text().splitlines()))
    assert [(row["application"], row["policy"]) for row in rows] == [
        (limits.title, policy) for limits in APPLICATIONS.values() for policy in ("M8", "M8-okc")]
    latex = (tables / "overview.tex").read_text()
    assert latex.count("M8-okc") == latex.count("WPA3-Enterprise-OKC") == len(APPLICATIONS)
    for name in APPLICATIONS:
        rows = list(csv.DictReader((tables / f"advice-{name}.csv").read_text().splitlines()))
        assert [row["policy"] for row in rows if row["qualifies_roaming_marks"]] == ["M8", "M8-okc"]
        assert "Roaming: M8 or M8-okc." in (tables / f"advice-{name}.tex").read_text()
