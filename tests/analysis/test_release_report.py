"""A run of several Debian releases: no number and no verdict of two, and what changed."""

from __future__ import annotations

import csv
import io
import pickle
from pathlib import Path
from typing import Any

import pytest

import analysis
import fabricated
import studies
from analysis.cells import Cells
from analysis.measurements import NoResultsError
from analysis.present.export import to_csv
from analysis.present.page import save_report
from analysis.present.report import Report
from analysis.reporting.answer import make_short_table
from analysis.reporting.release_report import align_releases, split_releases
from analysis.results import Results
from harness.engine import deciding, request
from harness.engine.plan import Plan
from harness.engine.request import RunRequest
from measure.records.record import Record, write_record
from studies.release_factor import add_release_factor

SINGLE = studies.load_study("qop2007")
STUDY = add_release_factor(SINGLE)
RELEASES = ("bookworm", "trixie")
#: TCP throughput (bit/s) of P1 and P8 on each release: P8 loses on Debian 13.
TCP = {("bookworm", "P1"): 5.0e6, ("bookworm", "P8"): 4.0e6, ("trixie", "P1"): 5.0e6,
       ("trixie", "P8"): 3.0e6}


def record_on(release: str, policy: str, repetition: int, *, noise_bps: float = 1e3,
              **changes: Any) -> Record:
    """Return a record of a policy in N2 on a release."""
    single = fabricated.make(policy, repetition,
                             tcp=TCP[release, policy] + noise_bps * repetition**2, **changes)
    return single.model_copy(update={
        "cell": {"release": release, **single.cell},
        "environment": {**single.environment, "debian": release}})


def plan_of_both(repetitions: int = 3) -> Plan:
    """Return the plan of P1 and P8 in N2 on two releases."""
    return request.build_plan(RunRequest(STUDY, repetitions=repetitions, levels={
        "release": list(RELEASES), "policy": ["P1", "P8"], "scenario": ["N2"]}), {})


def results_of_both(*further: Record) -> Results:
    """Return results of P1 and P8 in N2 on two releases, three repetitions each."""
    records = [record_on(release, policy, number) for release, policy in TCP
               for number in (1, 2, 3)]
    return analysis.from_records([*records, *further], STUDY, plan_of_both().manifest)


def results_with_daemon() -> Results:
    """Return the results of both releases, with FreeRADIUS of Debian 13 on both."""
    records = [record_on(release, policy, number) for release, policy in TCP
               for number in (1, 2, 3)]
    return analysis.from_records([record.model_copy(update={"environment": {
        **record.environment, "daemons": {"freeradius": "trixie"}}}) for record in records], STUDY,
        plan_of_both().manifest)


@pytest.fixture(scope="module", name="report")
def fixture_report() -> Report:
    return STUDY.report(results_of_both(), {})


def rows_of(report: Report, table_id: str) -> list[dict[str, str]]:
    """Return a table's rows as its CSV file has them."""
    [table] = [table for table in report.tables if table.id == table_id]
    return list(csv.DictReader(io.StringIO(to_csv(table))))


def test_each_release_is_reported_as_if_measured_alone(report: Report) -> None:
    """Its means, differences and records are those of its own report."""
    rows = {(row["release"], row["policy"]): row for row in rows_of(report, "run")}
    assert set(rows) == set(TCP)
    for part in split_releases(results_of_both(), SINGLE):
        alone = SINGLE.report(part.results, {})
        for row in rows_of(alone, "run"):
            joined = rows[part.name, row["policy"]]
            assert {name: joined[name] for name in row if name != "section"} == {
                name: text for name, text in row.items() if name != "section"}
            assert joined["section"] == f"Release {part.name}: {part.title}, {row['section']}"
    assert float(rows["trixie", "P8"]["tcp_goodput_bps"]) == pytest.approx(3.0e6, rel=0.01)
    assert float(rows["bookworm", "P8"]["tcp_goodput_bps"]) == pytest.approx(4.0e6, rel=0.01)


def test_daemons_of_another_release_are_named_wherever_releases_are() -> None:
    """In the answer, tables, figures, claims and files; a daemon of the guests' own is usual."""
    report = STUDY.report(results_with_daemon(), {})
    mixed = "Debian 12 with freeradius of trixie"
    assert "with freeradius of trixie on bookworm; " in report.summary[0]
    assert report.summary[1].startswith(f"From {mixed} to Debian 13: ")
    [changed] = [table for table in report.tables if table.id == "changes"]
    assert f"bookworm is {mixed}; trixie is Debian 13." in changed.notes[0]
    assert {row["daemons"] for row in rows_of(report, "changes")} == {""}  # trixie's own
    assert {row["release"] for row in rows_of(report, "run")} == {
        "bookworm (freeradius of trixie)", "trixie"}
    assert {row["section"].partition(", ")[0] for row in rows_of(report, "run")} == {
        f"Release bookworm: {mixed}", "Release trixie: Debian 13"}
    assert any(claim.says.startswith(f"{mixed}: ") for claim in report.claims)
    assert "with freeradius of trixie on bookworm" in report.subtitle


def test_sentences_that_all_releases_share_are_stated_once(report: Report) -> None:
    """Others begin with their release."""
    alone = [SINGLE.report(part.results, {}).summary[1:]
             for part in split_releases(results_of_both(), SINGLE)]
    shared = [line for line in alone[0] if line in alone[1]]
    assert shared and all(report.summary.count(line) == 1 for line in shared)
    assert len(set(report.summary)) == len(report.summary)


def test_records_of_numbers_are_those_of_the_release(report: Report) -> None:
    assert report.run is not None
    at = report.run.column_index("tcp_goodput_bps")
    assert [row[at].records[0] for row in report.run.rows] == [
        f"{release}-{policy}-N2-001" for release in RELEASES for policy in ("P1", "P8")]


def test_claims_are_judged_for_each_release(report: Report) -> None:
    part = split_releases(results_of_both(), SINGLE)[0]
    alone = SINGLE.report(part.results, {})
    assert [claim.id for claim in report.claims] == [
        f"{release}:{claim.id}" for release in RELEASES for claim in alone.claims]
    cells = {cell.name for cell in plan_of_both().cells}
    for claim in report.claims:
        release, _, _ = claim.id.partition(":")
        for names in claim.needed:
            assert all(name.startswith(f"{release}-") for name in names)
            assert names <= cells or any("-P" in name for name in names)


def test_changes_name_cells_and_metrics(report: Report) -> None:
    rows = {row["policy"]: row for row in rows_of(report, "changes")}
    assert {row["release"] for row in rows.values()} == {"trixie"}
    assert "TCP goodput worse" in rows["P8"]["verdict"]
    assert "TCP" not in rows["P1"]["verdict"]
    assert any(line.startswith("From Debian 12 to Debian 13: P8 in N2: TCP goodput worse by ")
               for line in report.summary), report.summary


def test_baseline_may_be_a_release() -> None:
    report = STUDY.report(results_of_both(), {"baseline": "release=trixie"})
    assert {row["release"] for row in rows_of(report, "changes")} == {"bookworm"}
    with pytest.raises(NoResultsError, match="release has no level 'forky' here"):
        STUDY.report(results_of_both(), {"baseline": "release=forky"})


def test_what_works_no_longer_is_said() -> None:
    records = [record_on("bookworm", "P1", number) for number in (1, 2)]
    records += [record_on("trixie", "P1", number, status="failed", reason="no WEP", measured=None,
                          evidence=[]) for number in (1, 2)]
    report = STUDY.report(analysis.from_records(records, STUDY), {})
    assert any("works no longer: P1 in N2" in line for line in report.summary), report.summary


def test_short_table_has_a_row_for_each_release() -> None:
    table = make_short_table(Cells(results_of_both()))
    assert [row[0].text for row in table.rows] == [
        f"{policy}-{release}" for release in RELEASES for policy in ("P1", "P8")]


def test_page_and_files_have_each_figure_and_table_once(report: Report, tmp_path: Path) -> None:
    figures = [figure.id for section in report.sections for figure in section.figures]
    tables = [table.id for table in report.tables]
    assert len(set(figures)) == len(figures) and len(set(tables)) == len(tables)
    for release in RELEASES:
        assert any(name.endswith(f"-{release}") for name in figures)
    save_report(report, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "Debian 13" in page and "What changed" in page


def test_undecided_difference_of_releases_asks_for_repetitions_of_both(tmp_path: Path) -> None:
    plan = plan_of_both(2)
    for release, policy in TCP:
        for number in (1, 2):
            noise_bps = 3e5 if (release, policy) == ("trixie", "P8") else 0.0
            write_record(record_on(release, policy, number, noise_bps=noise_bps),
                         tmp_path / "records")
    (tmp_path / "plan.json").write_text(plan.manifest.to_text())
    rule = deciding.plan_rule(STUDY, tmp_path, 2, 12)
    steps = rule.next_block(plan, tmp_path / "records")
    assert steps, rule.line
    assert {step.cell.name for step in steps} == {"bookworm-P8-N2", "trixie-P8-N2"}
    assert "TCP goodput of trixie in P8, N2" in rule.open_claims


def test_comparison_with_one_release_takes_that_release() -> None:
    both, single = results_of_both(), split_releases(results_of_both(), SINGLE)[1].results
    (first, second), names = align_releases((both, single), ("A", "B"))
    assert names == ("A (trixie)", "B") and first.names == second.names
    assert set(first.frame["debian"]) == {"trixie"}
    other = analysis.from_records([fabricated.make("P1", 1, environment={
        "clock": "virtual", "machine": "guest", "debian": "forky"})], SINGLE)
    with pytest.raises(NoResultsError, match="A is of the releases bookworm, trixie, B of forky"):
        align_releases((both, other), ("A", "B"))


def test_study_reaches_other_processes_with_its_factor() -> None:
    """Dissectors and workers of a cluster get it by its id."""
    restored = pickle.loads(pickle.dumps(STUDY))
    assert [factor.name for factor in restored.factors] == [
        factor.name for factor in STUDY.factors]
    assert restored.single is SINGLE
