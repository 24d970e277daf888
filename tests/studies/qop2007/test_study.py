"""Tests of the study: the paper's tables from its own values, and studies from records."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.blocks import apply_to_means, fieller_ratio, jackknife_estimate, mean_of
from analysis.table import Entry, Table
from conftest import PROJECT
from fabricated import (
    cells_of,
    failed,
    make,
    paper_run,
    phases_of,
)
from measure.records.record import Record
from policies import load_policy, load_weights
from studies.qop2007 import published
from studies.qop2007.report.basis import ReportBasis, basis_from_paper, basis_from_run
from studies.qop2007.report.paper_tables import build_paper_tables as tables_of
from studies.qop2007.report.paper_tables import build_table_n2, sample_variance
from studies.qop2007.report.recommendation import recommend_by_overhead

PRINTED = basis_from_paper()
TABLES = {table.id: table for table in tables_of(PRINTED)}
ORDER = ("P1", "P2", "P5", "P7", "P6", "P3", "P8", "P4", "P9", "P11", "P10", "P12")

#: Tables 5 to 8 as the paper prints them: a line a scenario, policies in the order of Table 3.
PAPER_5 = """
N1 71.10 11.88 75.88 11.47 264.90 77.21 302.80 286.89 313.94 291.48 301.77
N2 70.90 2.09 101.88 3.92 273.45 57.15 311.70 347.33 298.78 299.25 296.13
N3 108.78 7.29 105.11 4.33 304.59 118.71 331.68 343.84 378.10 382.87 343.52
R1 90.43 1.97 104.81 6.15 209.54 92.19 216.27 246.49 251.56 259.97 260.81
R2 208.04 25.60 232.66 1.79 318.32 230.78 367.53 393.13 391.12 381.70 395.29"""
PAPER_6 = """
N1 97.68 0.54 111.59 5.70 174.50 95.98 186.58 163.15 185.81 164.66 198.75
N2 51.77 6.21 42.74 7.26 101.20 55.28 173.18 177.83 194.41 170.30 175.01
N3 139.14 41.23 162.31 53.36 193.05 168.99 289.85 284.47 304.68 289.38 286.03
R1 64.84 20.90 69.59 5.84 164.96 73.87 227.47 384.51 399.53 354.55 375.46
R2 72.71 3.47 88.14 10.73 172.47 99.27 184.49 241.26 241.26 241.26 241.26"""
PAPER_7 = """
N1 2.90 2.83 2.89 2.83 2.89 2.64 2.83 2.60 2.62 2.59 2.61 2.60
N2 5.64 5.51 5.64 5.45 5.64 5.11 5.53 5.04 4.97 5.06 5.06 5.07
N3 2.97 2.86 2.96 2.86 2.97 2.67 2.85 2.64 2.63 2.59 2.59 2.63
R1 2.83 2.74 2.83 2.73 2.83 2.62 2.74 2.62 2.59 2.58 2.57 2.57
R2 2.86 2.65 2.83 2.62 2.86 2.54 2.63 2.49 2.46 2.47 2.48 2.46"""
PAPER_8 = """
N1 3.53 3.43 3.53 3.42 3.52 3.35 3.43 3.34 3.37 3.34 3.36 3.33
N2 6.36 6.27 6.35 6.29 6.35 6.18 6.27 6.05 6.04 6.01 6.06 6.05
N3 3.64 3.50 3.60 3.48 3.58 3.45 3.47 3.35 3.35 3.33 3.35 3.35
R1 3.59 3.52 3.57 3.52 3.58 3.42 3.52 3.36 3.20 3.19 3.23 3.21
R2 3.54 3.46 3.53 3.45 3.53 3.36 3.44 3.35 3.31 3.45 3.28 3.34"""
#: Table 9: mean and variance of overhead, then of throughput.
PAPER_9 = """
overhead_mean 109.85 9.77 124.07 5.53 274.16 115.21 306.00 323.54 326.70 323.05 319.50
overhead_var 3.26 0.10 3.83 0.01 1.78 4.68 3.13 3.28 3.35 3.14 2.66
throughput_mean 3.32 3.43 3.30 3.44 3.12 3.32 3.08 3.05 3.06 3.06 3.07
throughput_var 1.50 1.53 1.45 1.52 1.25 1.54 1.21 1.15 1.26 1.25 1.26"""


def printed(text: str) -> dict[str, dict[str, str]]:
    """The rows of a printed table by their first word, policies by id."""
    rows = [line.split() for line in text.strip().splitlines()]
    return {row[0]: dict(zip(ORDER[-len(row[1:]):], row[1:], strict=True)) for row in rows}


def cells(table: Table) -> dict[str, dict[str, str]]:
    """A table's numbers as they are shown, by key of the column and policy."""
    found: dict[str, dict[str, str]] = {}
    for row in table.rows:
        for column, entry in zip(table.columns, row, strict=True):
            if entry.number is not None:
                shown = f"{entry.number.value * column.scale:.{column.digits or 0}f}"
                found.setdefault(column.key, {})[row[0].text] = shown
    return found


def marked(table: Table, mark: str) -> set[tuple[str, str]]:
    """Columns and policies that have a mark."""
    return {(column.key, row[0].text) for row in table.rows
            for column, entry in zip(table.columns, row, strict=True) if mark in entry.marks}


def column_of(table: Table, key: str) -> dict[str, Entry]:
    """A column's entries by policy."""
    at = next(i for i, column in enumerate(table.columns) if column.key == key)
    return {row[0].text: row[at] for row in table.rows}


# --- the paper's tables from the paper's values ---------------------------------------------------

@pytest.mark.parametrize(("key", "text", "stem"), [
    ("table-5", PAPER_5, "tcp_overhead_{}_bps"), ("table-6", PAPER_6, "udp_overhead_{}_bps"),
    ("table-7", PAPER_7, "tcp_goodput_{}_bps"), ("table-8", PAPER_8, "udp_goodput_{}_bps")])
def test_tables_5_to_8_cell_by_cell(key: str, text: str, stem: str) -> None:
    """Every printed number to its last digit, policies in the printed order."""
    found, expected = cells(TABLES[key]), printed(text)
    del found["sigma_normalized_percent"]
    assert found == {stem.format(scenario): row for scenario, row in expected.items()}
    assert [row[0].text for row in TABLES[key].rows] == list(next(iter(expected.values())))


@pytest.mark.parametrize("key", ["table-5", "table-6"])
def test_groups_stand_as_the_paper_has_them(key: str) -> None:
    """Low P2 P5 P7 P6, middle P3 P8 P4 P9 P11, high P10 P12."""
    assert TABLES[key].sections == ((0, "Low security group"), (4, "Middle security group"),
                                    (9, "High security group"))
    assert TABLES["table-7"].sections[:2] == ((0, "No security (NS)"), (1, "Low security group"))


def test_recommended_policies_are_those_that_the_paper_names() -> None:
    """Each choice that section 5.2 puts into words, for each kind of scenario and stream."""
    named = published.load_values().recommended
    compared = 0
    for stream, metric in (("tcp", "tcp_overhead_bps"), ("udp", "udp_overhead_bps")):
        for kind in ("home", "roaming"):
            found = recommend_by_overhead(PRINTED, stream, kind)
            for group, policy in named[metric][kind].items():
                assert found[group] == policy, (metric, kind, group)
                compared += 1
    assert compared == 11


def test_marks_of_table_5() -> None:
    """P6, P8 and P12 in their groups everywhere; of all, P8 at home, P12 roaming (TCP)."""
    places = ("N1", "N2", "N3", "R1", "R2")
    columns = {place: f"tcp_overhead_{place}_bps" for place in places}
    assert marked(TABLES["table-5"], "recommended") == {
        (columns[place], policy) for place in places for policy in ("P6", "P8", "P12")}
    best = {(columns[place], "P8" if place[0] == "N" else "P12") for place in places}
    assert marked(TABLES["table-5"], "best") == best
    throughput = {(key.replace("overhead", "goodput"), policy) for key, policy in best}
    assert marked(TABLES["table-7"], "best") == throughput
    assert marked(TABLES["table-7"], "recommended") == set()


@pytest.mark.parametrize(("within", "among", "same"), [
    (1.4, 2.1, True), (1.8, 3.5, True), (1.5, 2.5, True), (1.9, 2.5, False), (1.5, 3.7, False)])
def test_the_rules_factors_have_room(monkeypatch: pytest.MonkeyPatch, within: float, among: float,
                                     same: bool) -> None:
    """The paper's choices hold for the whole range that the rule's docstring says, not beyond."""
    def choices() -> list[dict[str, str]]:
        return [recommend_by_overhead(PRINTED, stream, kind) for kind in ("home", "roaming")
                for stream in ("tcp", "udp")]

    usual = choices()
    monkeypatch.setattr("studies.qop2007.report.recommendation.WITHIN_GROUP", within)
    monkeypatch.setattr("studies.qop2007.report.recommendation.AMONG_GROUPS", among)
    assert (choices() == usual) == same


def test_table_9_is_recomputed_but_for_three_cells_by_name() -> None:
    """Means and variances of Tables 5 and 7 over five scenarios, to the printed digit."""
    units = {"overhead_mean": "overhead_mean_bps", "overhead_var": "overhead_var_bps2",
             "throughput_mean": "throughput_mean_bps", "throughput_var": "throughput_var_bps2"}
    found, expected = cells(TABLES["table-9"]), printed(PAPER_9)
    differing = {(row, policy): (found[units[row]][policy], value)
                 for row, values in expected.items() for policy, value in values.items()
                 if found[units[row]][policy] != value}
    assert differing == {("throughput_var", "P2"): ("1.51", "1.50"),
                         ("throughput_var", "P7"): ("1.46", "1.45"),
                         ("throughput_var", "P3"): ("1.24", "1.25")}
    assert marked(TABLES["table-9"], "differs") == {
        (units[row], policy) for row, policy in differing}


def test_marks_of_table_9_are_its_bold_figures() -> None:
    """Least variance of overhead in each group, and P12 for its throughput."""
    assert marked(TABLES["table-9"], "recommended") == {
        ("overhead_var_bps2", "P6"), ("overhead_var_bps2", "P3"), ("overhead_var_bps2", "P12"),
        ("throughput_var_bps2", "P12")}
    named = published.load_values().recommended
    assert set(named["overhead_var"].values()) == {"P6", "P3", "P12"}
    assert named["throughput_var"] == {"all": "P12"}


def test_tables_1_and_3_differ_where_the_paper_differs_with_itself() -> None:
    """Table 3 is printed without a difference; Table 1 lacks two marks, and says so."""
    assert marked(TABLES["table-3"], "differs") == set()
    assert marked(TABLES["table-1"], "differs") == {("data_integrity", "P5"),
                                                    ("data_integrity", "P7")}
    assert column_of(TABLES["table-1"], "data_integrity")["P5"].text == ""
    features = {row[0].text: {column.key for column, entry in
                              zip(TABLES["table-1"].columns, row, strict=True)
                              if entry.text == "Y"} for row in TABLES["table-1"].rows}
    assert features == published.load_values().features


def test_table_4_has_the_printed_sums() -> None:
    """IPsec counts the foreign registration while roaming, policies with 802.1X do not."""
    away = {policy: entry.text
            for policy, entry in column_of(TABLES["table-4"], "sum_roaming").items()}
    assert away["P3"] == away["P4"] == "IKE home + MIP home + MIP away"
    assert {away[policy] for policy in ("P5", "P6", "P7", "P8")} == {"EAP home + MIP home"}
    assert {away[policy] for policy in ("P9", "P10", "P11", "P12")} == {
        "IKE home + EAP home + MIP home"}
    assert column_of(TABLES["table-4"], "sum_home")["P3"].text == "IKE home + MIP home"


def test_the_oddity_of_n2_is_shown() -> None:
    """About half in N2 for every policy, about one elsewhere: as the paper's data say."""
    ratios = {(row[0].text, row[1].text): [entry.number.value for entry in row[3:] if entry.number]
              for row in build_table_n2().rows}
    assert all(0.5 < ratio < 0.62 for stream in ("TCP", "UDP") for ratio in ratios[stream, "N2"])
    assert all(0.95 < middle < 1.05 for (_, scenario), (_, middle, _) in ratios.items()
               if scenario != "N2")
    assert ratios["UDP", "R2"][2] > 2  # P11: four policies carry one value


def test_deviations_are_listed_by_name() -> None:
    """Six cells that are not reproduced, and what else does not follow in the paper."""
    rows = {row[0].text: [entry.text for entry in row[1:3]] for row in TABLES["deviations"].rows}
    listed = {name: both for name, both in rows.items() if ", P" in name}
    assert listed == {
        "Table 1, P5: data integrity": ["no mark", "Y"],
        "Table 1, P7: data integrity": ["no mark", "Y"],
        "Attacks withstood, P6: use by another user": ["weak, as all of its group", "yes"],
        "Table 9, P2: throughput variance": ["1.50", "1.51"],
        "Table 9, P7: throughput variance": ["1.45", "1.46"],
        "Table 9, P3: throughput variance": ["1.25", "1.24"]}
    assert len(rows) > len(listed)
    rates = [sorted(map(float, printed(PAPER_8)[place].values())) for place in ("N1", "N2", "N3")]
    spreads = sorted(row[-1] / row[0] - 1 for row in rates)
    assert [f"{100 * value:.1f}" for value in spreads] == ["5.8", "6.0", "9.3"]


def test_published_figures_have_neither_interval_nor_record() -> None:
    """Nobody measured them here."""
    numbers = [entry for table in TABLES.values() if table.id != "sensitivity"
               for row in table.rows for entry in row if entry.number]
    assert len(numbers) > 400
    assert all(entry.number.low is None and not entry.records for entry in numbers)


# --- studies from records -------------------------------------------------------------------------

def basis_of(*records: Record, **options: Any) -> ReportBasis:
    """The basis of a run of these records."""
    return basis_from_run(cells_of(*records, **options))


def test_a_measured_study_fills_every_table() -> None:
    """All twelve in N2 and R1: tables with intervals, records and the published values beside."""
    found = basis_of(*paper_run(("N2", "R1")))
    tables = {table.id: table for table in tables_of(found)}
    assert set(tables) == set(TABLES)
    entry = column_of(tables["table-5"], "tcp_overhead_N2_bps")["P12"]
    assert entry.number.value == pytest.approx(0.2e6, rel=0.01)
    assert entry.number.low < entry.number.value < entry.number.high
    assert (entry.number.n, entry.published) == (3, pytest.approx(296130))
    # A difference rests on the records of the baseline, too.
    assert entry.records == tuple(f"{policy}-N2-00{number}" for policy in ("P12", "P1")
                                  for number in (1, 2, 3))
    figure = column_of(tables["figure-2"], "authentication_time_s")
    assert figure["P12"].published == 6.28  # the last row of P12 is that of roaming


def test_a_drift_that_hits_all_policies_alike_cancels() -> None:
    """Overhead is taken within blocks, so an interval knows nothing of the drift between them."""
    records = [make(policy, repetition, tcp=(4.6e6 if policy == "P1" else 4.4e6)
                    + 0.3e6 * repetition) for policy in ("P1", "P3") for repetition in range(1, 6)]
    found = basis_of(*records).find_observation("tcp_overhead_bps", "P3", "N2")
    assert found.estimate.mean == pytest.approx(0.2e6)
    assert found.estimate.half_width == pytest.approx(0, abs=1e-3)


def test_policies_of_ones_own_stand_in_their_group() -> None:
    """WPA2 and WPA3 beside two of the paper's: sigma from their layers, nothing published."""
    own = [load_policy(PROJECT / "examples" / name) for name in ("wpa2-psk.yml", "wpa3-sae.yml")]
    records = [make(name, repetition, digests={"policy": digest})
               for repetition in (1, 2, 3)
               for name, digest in [("P1", PRINTED.policies[0].definition.digest()),
                                    *((policy.id, policy.digest()) for policy in own)]]
    found = basis_of(*records, own=own)
    assert [(one.id, one.group) for one in found.policies] == [
        ("P1", "none"), ("WPA2-PSK", "middle"), ("WPA3-SAE", "middle")]
    tables = {table.id: table for table in tables_of(found)}
    assert column_of(tables["table-3"], "sigma")["WPA3-SAE"].number.value == 10
    assert column_of(tables["table-5"], "tcp_overhead_N2_bps")["WPA2-PSK"].published is None
    assert column_of(tables["table-4"], "class")["WPA2-PSK"].text == "802.1X without IPsec"


def test_a_policy_whose_layers_are_not_known_is_named() -> None:
    """Its measurements are shown, its sigma is not guessed, and a note says what to do."""
    found = basis_of(*[make(name, repetition, digests={"policy": digest})
                       for repetition in (1, 2)
                       for name, digest in (("MINE", "f00"), ("P8", "not the paper's P8"))])
    assert [(one.id, one.group) for one in found.policies] == [("MINE", "unknown"),
                                                              ("P8", "unknown")]
    assert found.published == {}
    assert "MINE: the results folder does not say which layers" in " ".join(found.notes)
    tables = {table.id: table for table in tables_of(found)}
    assert column_of(tables["table-3"], "sigma")["MINE"].text == "-"
    assert column_of(tables["table-7"], "tcp_goodput_N2_bps")["MINE"].number.value == \
        pytest.approx(4.61e6)


def test_a_run_without_a_baseline_still_has_its_tables() -> None:
    """No overhead, but throughput and times; the table of overhead says why."""
    found = basis_of(*[make("P8", number) for number in (1, 2)])
    tables = {table.id: table for table in tables_of(found)}
    assert found.baseline is None
    assert column_of(tables["table-5"], "tcp_overhead_N2_bps")["P8"].text == "-"
    assert "no policy without security" in tables["table-5"].notes[0]
    assert column_of(tables["table-7"], "tcp_goodput_N2_bps")["P8"].number is not None


@pytest.mark.parametrize("records", [
    [make("P1")], [make("P3", scenario="R2")], [make("P1", scenario="HALL-7")],
    [failed("P1", 1), failed("P12", 1)],
    [make("P2", 1, authentication_time_s=None), make("P2", 2, tcp=3e6)]])
def test_no_run_is_too_small_for_its_tables(records: list[Record]) -> None:
    """One record, failures only, a scenario of one's own: every table is made, with dashes."""
    found = tables_of(basis_of(*records))
    assert {table.id for table in found} >= {"table-2", "table-3", "table-7", "n2"}


def test_failed_repetitions_enter_nothing() -> None:
    """A cell with one good of three has no number, as everywhere else."""
    found = basis_of(make("P1", 1), make("P1", 2), make("P2", 1), failed("P2", 2), failed("P2", 3))
    assert found.find_observation("tcp_goodput_bps", "P2", "N2") is None
    assert found.find_observation("tcp_goodput_bps", "P1",
                                  "N2").records == ("P1-N2-001", "P1-N2-002")


def test_the_baseline_has_no_overhead_to_itself() -> None:
    """What others are compared with stands in no table of overhead."""
    found = basis_of(*(make(policy, n) for policy in ("P1", "P2") for n in (1, 2)))
    assert found.find_observation("tcp_overhead_bps", "P1", "N2") is None
    assert found.find_observation("tcp_overhead_bps", "P2", "N2").estimate.mean == 0
    table = next(one for one in tables_of(found) if one.id == "table-5")
    assert [row[0].text for row in table.rows] == ["P2"]


def test_components_add_up_to_the_time_of_figure_2() -> None:
    """The parts that are shown are the parts that are summed; handoffs stand beside."""
    records = [make(policy, number, scenario=scenario, phases=phases_of(policy))
               for policy in ("P1", "P6", "P12") for scenario in ("N2", "R1")
               for number in (1, 2)]
    table = next(t for t in tables_of(basis_of(*records)) if t.id == "figure-2")
    keys = [column.key for column in table.columns]
    for row in table.rows:
        entries = dict(zip(keys, row, strict=True))
        parts = [entry.number.value for key, entry in entries.items()
                 if key.startswith("component_") and entry.number]
        assert sum(parts) == pytest.approx(entries["authentication_time_s"].number.value)
    assert table.sections == ((0, "Non-roaming scenarios"), (3, "Roaming scenarios"))


def test_weights_of_ones_own_move_policies_between_groups(tmp_path: Path) -> None:
    """The same records under other weights: groups, sections and recommendations follow."""
    text = (PROJECT / "policies" / "weights.yml").read_text()
    path = tmp_path / "mine.yml"
    path.write_text(re.sub(r"\{authentication: 3, mutual", "{authentication: 30, mutual", text))
    found = basis_from_run(cells_of(*paper_run()), load_weights(path))
    groups = {one.id: one.group for one in found.policies}
    assert groups["P3"] == "high" and groups["P6"] == "low"


# --- intervals ------------------------------------------------------------------------------------

def covered(draw: Callable[[np.random.Generator], tuple[float | None, float | None]],
            truth: float, runs: int = 1500) -> float:
    """The share of simulated runs whose interval holds the truth; one without an end holds all."""
    random = np.random.default_rng(11)
    hits = 0
    for _ in range(runs):
        low, high = draw(random)
        hits += low is None or high is None or low <= truth <= high
    return hits / runs


def blocks_of(random: np.random.Generator, count: int, means: list[float],
              spread: float) -> np.ndarray:
    """Blocks of several cells that drift together."""
    drift = random.normal(0, 5 * spread, size=(count, 1))
    return np.array(means) + drift + random.normal(0, spread, size=(count, len(means)))


@pytest.mark.parametrize("count", [3, 5, 15])
def test_coverage_of_a_difference(count: int) -> None:
    """Student's t of differences within blocks, exact for any number of blocks."""
    def draw(random: np.random.Generator) -> tuple[float | None, float | None]:
        found = jackknife_estimate(blocks_of(random, count, [5.0, 3.0], 1.0),
                                   lambda means: means[..., 0] - means[..., 1])
        return found.low, found.high

    assert covered(draw, 2.0) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("count", [3, 5, 15])
@pytest.mark.parametrize("noise", [5.0, 50.0])
def test_coverage_of_a_variance_over_scenarios(count: int, noise: float) -> None:
    """The jackknife of Table 9's variance, at a tenth and all of the spread of the scenarios."""
    means = [70.0, 71.0, 109.0, 90.0, 208.0]

    def draw(random: np.random.Generator) -> tuple[float | None, float | None]:
        found = jackknife_estimate(blocks_of(random, count, means, noise), sample_variance)
        return found.low, found.high

    assert covered(draw, float(np.var(means, ddof=1))) >= 0.93


@pytest.mark.parametrize("count", [3, 5, 15])
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_coverage_of_a_ratio(count: int, spread: float) -> None:
    """Fieller's interval, from a divisor that is sure to one that may well be 0."""
    def draw(random: np.random.Generator) -> tuple[float | None, float | None]:
        found = fieller_ratio(random.normal(7, spread, count), random.normal(2, spread, count))
        return (None, None) if found is None else (found.low, found.high)

    assert covered(draw, 3.5) >= 0.93


@pytest.mark.parametrize("sign", [1, -1])
def test_coverage_of_a_ratio_of_what_drifts_together(sign: int) -> None:
    """Within a block both drift alike, or against each other: neither too narrow nor too wide."""
    def draw(random: np.random.Generator) -> tuple[float | None, float | None]:
        drift, noise = random.normal(0, 0.3, 8), random.normal(0, 0.05, size=(2, 8))
        found = fieller_ratio(7 + 3.5 * drift + noise[0], 2 + sign * drift + noise[1])
        return found.low, found.high

    assert covered(draw, 3.5) == pytest.approx(0.95, abs=0.02)


def test_a_ratio_to_what_may_be_0_has_no_interval() -> None:
    """Any ratio is possible then, and no verdict can come of it."""
    found = fieller_ratio(np.array([5.0, 6, 7]), np.array([-1.0, 0.5, 1]))
    assert (found.low, found.high) == (None, None)
    assert fieller_ratio(np.array([5.0, 6]), np.array([-1.0, 1])) is None


def test_a_question_uses_the_blocks_that_all_cells_share() -> None:
    """A repetition that failed for one policy is left out for the other, too."""
    records = [make("P1", n, tcp=1e6 * n) for n in (1, 2, 3, 4)]
    records += [make("P2", n, tcp=1e6 * n - 5e4) for n in (2, 3, 4)]
    asked = [("tcp_goodput_bps", "P1", "N2"), ("tcp_goodput_bps", "P2", "N2")]
    found = apply_to_means(basis_of(*records).observations, asked, lambda means: means[..., 0]
                           - means[..., 1])
    assert (found.n, found.mean) == (3, pytest.approx(5e4))
    assert found.half_width == pytest.approx(0, abs=1e-3)


def test_means_over_scenarios_are_of_the_same_scenarios_for_all() -> None:
    """P2 lacks N1, so it has no mean over the scenarios that P1 has one over."""
    records = [make("P1", n, scenario=place) for n in (1, 2) for place in ("N1", "N2")]
    found = basis_of(*records, *(make("P2", n) for n in (1, 2)))
    home = found.of_kind("home")
    assert found.mean_observation("tcp_goodput_bps", "P1", home).estimate.n == 2
    assert found.mean_observation("tcp_goodput_bps", "P2", home) is None
    assert apply_to_means(found.observations, [], mean_of) is None
