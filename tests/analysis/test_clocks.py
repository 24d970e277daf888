"""Tests of the two clocks: no table mixes them, virtual time says what it lacks, both compared."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis import NoResultsError, Results, statistics
from analysis.cells import Cells
from analysis.circumstances import VIRTUAL_CAVEAT, clock_caveat
from analysis.present import latex, terminal
from analysis.present.export import to_csv, to_markdown
from analysis.present.page import save_report as write_report
from analysis.reporting import clock_comparison, stability, standard_report
from analysis.reporting.comparison import compare_runs
from analysis.table import Entry, Table
from conftest import Qop
from fabricated import (
    P12_PHASES,
    STUDY,
    cells_of,
    changed,
    handoffs_of,
    load,
    make,
    paper_run,
    results_of,
    write_all,
)
from harness.engine.progress import ProgressDisplay
from measure.records.record import Record
from plans import plan_of
from studies.qop2007.measurements import StreamRecord
from studies.qop2007.report import throughput_bounds
from studies.qop2007.report.claim_verdicts import refutation_reason

VIRTUAL = make().environment | {"clock": "virtual"}


def virtually(records: Iterable[Record]) -> list[Record]:
    """The same records, said to be of virtual time."""
    return [record.model_copy(update={
        "environment": record.environment | {"clock": "virtual"}}) for record in records]


def run_of(clock: str, repetitions: int = 4, *, computing_s: float = 0.01,
           slower_bps: float = 0.0) -> Results:
    """P1 and P12 in N2; real time has `computing_s` more in EAP and IKE, and less goodput."""
    rng = np.random.default_rng(len(clock))
    found = []
    for number in range(1, repetitions + 1):
        for policy in ("P1", "P12"):
            real = clock == "real"
            phases = {name: (seconds + real * computing_s * (name in ("dot1x", "ike"))
                             + rng.normal(0, 1e-5), packets)
                      for name, (seconds, packets) in P12_PHASES.items()
                      if policy == "P12" or name not in ("dot1x", "ike")}
            found.append(make(policy, number, phases=phases, udp=5.8e6 + rng.normal(0, 1e3),
                              tcp=4.6e6 - real * slower_bps + rng.normal(0, 1e3)))
    return results_of(*(virtually(found) if clock == "virtual" else found))


def compared(first: Results, second: Results, **options: Any) -> list[Table]:
    """Both clocks side by side, with the study's parts of the authentication time."""
    return clock_comparison.compare_clocks(first, second, parts=STUDY.parts(Cells(first)),
                                           **options)


def entry(tables: list[Table], table: str, policy: str, key: str, part: str = "") -> Entry:
    """What stands in a table for a policy (and a part of its authentication time)."""
    found = next(one for one in tables if one.id == table)
    at = [column.key for column in found.columns].index(key)
    return next(row[at] for row in found.rows
                if row[0].text == policy and (not part or row[1].text == part))


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(io.StringIO(path.read_text())))


# --- one clock a table ---------------------------------------------------------------------------


def mixed(folder: Path, planned: str = "") -> Path:
    """A results folder with four records in real time and three in virtual time, of other rates."""
    real = [make("P1", number, tcp=4e6) for number in (1, 2, 3, 4)]
    virtual = virtually(make("P1", number, tcp=5e6) for number in (5, 6, 7))
    return write_all([*real, *virtual], folder, settings={"repetitions": 7, "clock": planned})


@pytest.mark.parametrize(("planned", "kept", "goodput"), [
    ("", "real", 4e6), ("real", "real", 4e6), ("virtual", "virtual", 5e6)])
def test_a_folder_with_both_clocks_shows_one(tmp_path: Path, planned: str, kept: str,
                                             goodput: float) -> None:
    """The plan's clock, or that of most records; one line names how many are left out, and which.

    Every mean is of one clock: 4 Mbit/s or 5, never something between.
    """
    results = load(mixed(tmp_path, planned))
    assert results.clock == kept and set(results.frame["clock"]) == {kept}
    others = "virtual" if kept == "real" else "real"
    assert f"of another clock ({others}) and left out" in results.left_out
    assert ("P1-N2-006" in results.left_out) == (kept == "real")
    cells = Cells(results)
    assert cells.observations["tcp_goodput_bps", "P1", "N2"].estimate.mean == goodput
    assert results.left_out in STUDY.run_table(cells).warnings
    assert results.left_out in STUDY.report(results, {}).warnings


def test_of_as_many_the_real_clock_is_kept() -> None:
    """Records in memory are separated as files are."""
    results = results_of(*virtually([make("P1", 1)]), make("P1", 2))
    assert results.clock == "real" and list(results.frame["repetition"]) == [2]


def test_a_plan_whose_clock_no_record_has_decides_nothing(tmp_path: Path) -> None:
    """Nothing may be left of a folder because its plan was changed by hand."""
    settings = {"repetitions": 1, "clock": "virtual"}
    results = load(write_all([make("P1", 1)], tmp_path, settings=settings))
    assert results.clock == "real" and not results.left_out


def test_one_clock_leaves_nothing_out() -> None:
    """The usual case: no line, no row less."""
    results = results_of(make("P1", 1), make("P1", 2))
    assert results.left_out == "" and len(results.frame) == 2


def test_two_clocks_are_not_compared_as_if_they_were_one() -> None:
    """analysis.compare has both runs in one table, so it refuses."""
    with pytest.raises(NoResultsError, match="no table mixes clocks"):
        compare_runs(run_of("real"), run_of("virtual"))


# --- what virtual time leaves out ----------------------------------------------------------------


def test_terminal_and_markdown_say_what_virtual_time_leaves_out() -> None:
    """The one sentence, and the clock in every heading; real time has neither."""
    records = paper_run(("N2", "R1"))
    for these, there in ((virtually(records), True), (records, False)):
        cells = cells_of(*these)
        tables = STUDY.run_table(cells), handoffs_of(cells)
        for text in (*map(to_markdown, tables),
                     *(terminal.to_plain_text(table, 400) for table in tables)):
            assert (VIRTUAL_CAVEAT in text.replace("\\", "")) == there
            assert ("(virtual time)" in text) == there


@pytest.mark.parametrize("table_of", [STUDY.run_table, handoffs_of])
def test_csv_has_the_clock_of_every_row(table_of: Callable[[Cells], Table]) -> None:
    """A file that is read by a program says it in a column."""
    text = to_csv(table_of(cells_of(*virtually(paper_run(("R1",))))))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 12 and {row["clock"] for row in rows} == {"virtual"}


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_everything_in_the_report_says_its_clock(tmp_path: Path, clock: str) -> None:
    """Tables with records behind them: caption, LaTeX, CSV. Figures and page, too."""
    records = paper_run(("N2", "R1"))
    made = STUDY.report(results_of(*(virtually(records) if clock == "virtual" else records)), {})
    write_report(made, tmp_path)
    said = clock == "virtual"
    measured = [table for table in made.tables
                if any(entry.records for row in table.rows for entry in row)]
    assert {"claims", "figure-2", "table-5", "table-9", "bounds", "overview",
            "decisions-handoff_s"} <= {table.id for table in measured}
    for table in made.tables:
        rows = rows_of(tmp_path / "tables" / f"{table.id}.csv")
        if table not in measured:
            assert "clock" not in rows[0] and VIRTUAL_CAVEAT not in table.caption, table.id
            continue
        assert {row["clock"] for row in rows} == {clock}
        assert (VIRTUAL_CAVEAT in table.caption) == said
        text = (tmp_path / "tables" / f"{table.id}.tex").read_text()
        assert (latex.escape_latex(VIRTUAL_CAVEAT) in text) == said
    figures = [figure for section in made.sections for figure in section.figures]
    assert len(figures) == 4 and all((VIRTUAL_CAVEAT in figure.caption) == said for figure
                                     in figures)
    assert (made.caveat == VIRTUAL_CAVEAT) == said
    assert (VIRTUAL_CAVEAT in (tmp_path / "report.html").read_text()) == said


def slow(policy: str, number: int) -> Record:
    """Far below its ceiling, with a processor that had work all the time."""
    stream = StreamRecord(goodput_bps=2e6, bytes=1_000_000, duration_s=4.0,
                          iperf={"packets": 715, "lost_packets": 0})
    made = make(policy, number)
    return changed(made, tcp=stream, udp=stream, raw=made.raw | {
        "processor_s": {"user": 4.0, "system": 4.0, "idle": 0.0}})


def test_the_processor_bounds_nothing_in_virtual_time() -> None:
    """What is the processor's in real time is nobody's but the emulator's where it takes none."""
    records = [slow(policy, number) for policy in ("P1", "P3") for number in (1, 2, 3)]
    real, virtual = (throughput_bounds.bounds_table(cells_of(*these))
                     for these in (records, virtually(records)))
    at = [column.key for column in real.columns].index("udp_bound")
    assert {row[at].text for row in real.rows} == {"processor"}
    assert {row[at].text for row in virtual.rows} == {"emulator"}
    said = [entry.text + entry.note for row in virtual.rows for entry in row]
    assert not any("rocessor" in text for text in (*said, *virtual.notes))
    assert [column.key for column in virtual.columns] == [
        column.key for column in real.columns if column.key != "processor_share"]


def test_a_refuted_claim_on_time_names_the_clock() -> None:
    """Q1 is on authentication times; Q7 counts packets, which no clock changes."""
    assert refutation_reason("Q1", "virtual").startswith(VIRTUAL_CAVEAT)
    assert refutation_reason("Q1", "real") == refutation_reason("Q1", "") != ""
    assert refutation_reason("Q7", "virtual") == refutation_reason("Q7", "real")


def test_drift_goes_by_number_where_every_guest_has_a_time_of_its_own() -> None:
    """Stamps of virtual time that run backwards do not turn the drift around."""
    records = [make("P1", number, tcp=4e6 * (1 + 0.02 * number)).model_copy(update={
        "raw": {"stamps": {"start": 1000.0 - number}}}) for number in range(1, 13)]
    real, virtual = ([drift.share for drift in stability.find_drifts(cells_of(*these))]
                     for these in (records, virtually(records)))
    assert real and all(share < 0 for share in real)
    assert virtual and all(share > 0 for share in virtual)


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_a_run_says_it_before_its_first_number(tmp_path: Path, clock: str,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    """Progress shows authentication times as they come."""
    progress = ProgressDisplay(plan_of("P1", clock=clock), tmp_path, clock_caveat(clock))
    progress.show_event({"event": "run-started", "at": 0.0, "total": 1, "already": 0})
    assert (VIRTUAL_CAVEAT in capsys.readouterr().err) == (clock == "virtual")


# --- both clocks side by side --------------------------------------------------------------------


@pytest.mark.parametrize("swapped", [False, True])
def test_the_difference_between_the_clocks_is_the_processors(swapped: bool) -> None:
    """P12 computes 10 ms in EAP and 10 ms in IKE: 20 of its authentication time, none of P1's.

    In whichever order the runs are given.
    """
    runs = [(run_of("real", slower_bps=1e5), "lab"), (run_of("virtual"), "model")]
    (first, one), (second, other) = reversed(runs) if swapped else runs
    tables = compared(first, second, names=(one, other))
    assert [table.id for table in tables] == [
        "clocks", "clocks-authentication_time_s", "clocks-components", "clocks-tcp_goodput_bps",
        "clocks-udp_goodput_bps"]
    times = "clocks-authentication_time_s"
    for policy, seconds in (("P12", 0.02), ("P1", 0.0)):
        real, virtual, processor = (
            entry(tables, times, policy, f"authentication_time_{what}_s").number
            for what in ("real", "virtual", "processor"))
        assert real and virtual and processor
        assert processor.value == pytest.approx(real.value - virtual.value)
        assert processor.value == pytest.approx(seconds, abs=1e-4)
        assert processor.low is not None and processor.high is not None
        assert processor.low < processor.value < processor.high
    share = entry(tables, times, "P12", "processor_share").number
    assert share and 0.2 < share.value < 0.4
    for part, seconds in (("EAP home", 0.01), ("IKE home", 0.01), ("MIP home", 0.0)):
        found = entry(tables, "clocks-components", "P12", "component_processor_s", part)
        assert found.number and found.number.value == pytest.approx(seconds, abs=1e-4)
        assert ("significant" in found.marks) == (seconds > 0)
    lost = entry(tables, "clocks-tcp_goodput_bps", "P1", "tcp_goodput_processor_bps")
    assert lost.number and lost.number.value == pytest.approx(-1e5, abs=5e3)
    assert "significant" in lost.marks
    assert all("lab" in table.caption.split("virtual time")[0] for table in tables[1:])
    assert {table.clock for table in tables} == {"real, virtual"}
    assert all(VIRTUAL_CAVEAT in table.caption for table in tables)


def test_clocks_that_agree_are_seldom_said_to_differ() -> None:
    """Nothing computes: of 20 comparisons of runs, few may have any mark at all."""
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        runs = [[make(policy, number, phases={"registration": (0.002 + rng.normal(0, 1e-4), 2)},
                      tcp=4.6e6 + rng.normal(0, 1e4), udp=5.8e6 + rng.normal(0, 1e4))
                 for policy in ("P1", "P2", "P3") for number in (1, 2, 3)] for _ in range(2)]
        tables = compared(results_of(*runs[0]),
                                results_of(*virtually(runs[1])))
        alarms += any("significant" in entry.marks for table in tables for row in table.rows
                      for entry in row)
    assert alarms <= 4  # P(more than 4 of 20 at 5 %) is 0.3 %


def test_the_overview_counts_cells_and_marks() -> None:
    """Two cells have an authentication time, and in one of them the processor is seen."""
    tables = compared(run_of("real"), run_of("virtual"))
    title = "Authentication time"
    cells, most, marked = (entry(tables, "clocks", title, key).number for key in
                           ("cells", "processor_most_share", "significant"))
    assert cells and most and marked
    assert (cells.value, marked.value) == (2, 1)
    assert most.value == pytest.approx(
        entry(tables, "clocks-authentication_time_s", "P12", "processor_share").number.value)  # type: ignore[union-attr]


def test_the_mean_over_cells_shows_what_single_cells_cannot() -> None:
    """Twelve noisy cells, each a little slower in real time: none is marked, their mean is."""
    rng = np.random.default_rng(5)
    runs = [[make(f"P{policy}", number, tcp=4.6e6,
                  phases={"registration": (mean + rng.normal(0, 1e-3), 2)})
             for policy in range(1, 13) for number in (1, 2, 3)] for mean in (0.006, 0.004)]
    tables = compared(results_of(*runs[0]), results_of(*virtually(runs[1])))
    title = "Authentication time"
    marked, mean = (entry(tables, "clocks", title, key) for key in ("significant", "p_adjusted"))
    assert marked.number and marked.number.value == 0
    assert mean.number and mean.number.value < 0.001 and "significant" in mean.marks
    none = entry(tables, "clocks", "TCP goodput", "p_adjusted")
    assert none.number and none.number.value == 1 and not none.marks


def test_means_over_pairs_of_samples_cover() -> None:
    """95 % of intervals hold the mean difference, whatever the spreads; 5 % of p-values are small.

    Two runs of eight cells, three repetitions each, with spreads from 1 to 20.
    """
    rng = np.random.default_rng(6)
    spreads = rng.uniform(1, 20, 8)
    hits, small = 0, 0
    for _ in range(800):
        pairs = [(rng.normal(3, spread, 3), rng.normal(1, spread / 3, 3)) for spread in spreads]
        found, _ = statistics.compare_welch_pairs(pairs)
        assert found.low is not None and found.high is not None
        hits += found.low <= 2 <= found.high
        _, p_value = statistics.compare_welch_pairs([(first - 2, second) for first, second
                                                     in pairs])
        small += p_value is not None and p_value < 0.05
    assert hits / 800 == pytest.approx(0.95, abs=0.02)
    assert small / 800 == pytest.approx(0.05, abs=0.02)


def test_the_mean_over_one_pair_is_welchs() -> None:
    """Interval and p-value are those of the test of two samples."""
    first, second = [1.0, 2.0, 4.0], [0.5, 0.6, 1.9, 2.0]
    found, p_value = statistics.compare_welch_pairs([(first, second)])
    known = statistics.compare_welch(first, second)
    assert (found.mean, found.low, found.high) == pytest.approx(
        (known.difference.mean, known.difference.low, known.difference.high))
    assert p_value == pytest.approx(known.p_value)


@pytest.mark.parametrize("pairs", [[], [([1.0], [1.0, 2.0])]])
def test_means_over_too_little_are_refused(pairs: list[tuple[list[float], list[float]]]) -> None:
    """No pair, or a sample without a spread to tell."""
    with pytest.raises(ValueError, match="two values or more"):
        statistics.compare_welch_pairs(pairs)


def test_roaming_compares_handoffs() -> None:
    """R1 has a handoff, whose difference is that of its phases."""
    slower = {name: (seconds * 2, packets) for name, (seconds, packets) in P12_PHASES.items()}
    real = [make("P12", number, scenario="R1", phases=slower) for number in (1, 2, 3)]
    virtual = [make("P12", number, scenario="R1", phases=P12_PHASES) for number in (1, 2, 3)]
    tables = compared(results_of(*real), results_of(*virtually(virtual)))
    found = entry(tables, "clocks-handoff_s", "P12", "handoff_processor_s").number
    assert found
    assert found.value == pytest.approx(sum(seconds for seconds, _ in P12_PHASES.values()))


def test_a_single_repetition_has_no_interval_and_no_mark() -> None:
    """The difference is shown; the notes say how to get more."""
    tables = compared(run_of("real"), run_of("virtual", repetitions=1))
    found = entry(tables, "clocks-authentication_time_s", "P12", "authentication_time_processor_s")
    assert found.number and found.number.low is None and not found.marks
    assert entry(tables, "clocks-authentication_time_s", "P12", "p_adjusted") == Entry(
        "-", note="too few repetitions")
    assert "comparisons have a single repetition under one clock" in tables[1].notes[0]


@pytest.mark.parametrize(("runs", "says"), [
    (("real", "real"), "compare runs of one clock, or one of the real and one of the virtual"),
    (("virtual", "virtual"), "A is of the virtual clock, B of the virtual one")])
def test_two_runs_of_one_clock_are_another_comparison(runs: tuple[str, str], says: str) -> None:
    """There is no difference between clocks to show."""
    with pytest.raises(NoResultsError, match=says):
        compared(*map(run_of, runs))


def test_clocks_without_a_common_cell_are_a_clear_sentence() -> None:
    """Not an empty table."""
    with pytest.raises(NoResultsError, match=r"no cell .* in common"):
        compared(results_of(make("P1", scenario="N1")),
                       results_of(*virtually([make("P1", scenario="N2")])))


def folders(qop: Qop, **changes: Any) -> None:
    """Two results folders, `lab` in real time and `model` in virtual time."""
    for name, clock in (("lab", "real"), ("model", "virtual")):
        records = []
        for number in (1, 2, 3):
            for policy in ("P1", "P12"):
                phases = {what: (seconds * (1.5 if clock == "real" else 1) + 1e-5 * number, packets)
                          for what, (seconds, packets) in P12_PHASES.items()
                          if policy == "P12" or what not in ("dot1x", "ike")}
                records.append(make(policy, number, phases=phases, **changes))
        write_all(records if clock == "real" else virtually(records), qop.folder / name)


def test_the_command_shows_the_clocks_apart(qop_here: Qop) -> None:
    """`qop compare` notices that the clocks differ; page and files have the same."""
    folders(qop_here)
    done = qop_here("compare", "model", "lab", "--out", "both")
    assert done.returncode == 0, done.stderr
    assert "What the processor adds to airtime and protocol" in done.stdout
    assert "Real time (lab), virtual time (model: airtime and protocol)" in done.stdout
    page = (qop_here.folder / "both" / "report.html").read_text()
    assert "Real and virtual time side by side." in page and 'id="fig-clocks"' in page
    assert page.count(VIRTUAL_CAVEAT) == 1  # once for all tables
    rows = rows_of(qop_here.folder / "both/tables/clocks-authentication_time_s.csv")
    assert {row["clock"] for row in rows} == {"real, virtual"}
    assert [row["policy"] for row in rows] == ["P1", "P12"]
    changed = qop_here("compare", "lab", "model", "--changed")
    assert "UDP goodput by clock: no significant difference" in changed.stdout


def test_one_sentence_says_it() -> None:
    """Short, one sentence, and the things that are left out in it."""
    assert VIRTUAL_CAVEAT.count(".") == 1 and VIRTUAL_CAVEAT.endswith(".") and len(
        VIRTUAL_CAVEAT) < 160
    assert all(word in VIRTUAL_CAVEAT for word
               in ("cryptography", "scheduling", "device", "air", "wires"))
    assert "EAP" not in VIRTUAL_CAVEAT  # it stands wherever any study shows numbers
    assert [clock_caveat(clock) for clock in ("real", "")] == ["", ""]


@pytest.mark.parametrize("clock", ["processor", "virtual"])
def test_a_guests_time_is_no_wall_time(clock: str) -> None:
    """A guest that skips waiting is hours ahead: its stamps say nothing of when it was measured."""
    ahead = make("P1", raw={"stamps": {"start": 4e9}})
    told = changed(ahead, environment=ahead.environment | {"clock": clock})
    assert np.isnan(results_of(told).frame["started_s"].iloc[0])
    assert "Measured" not in dict(standard_report.list_facts(Cells(results_of(told))))
    known = changed(told, environment=told.environment | {"measured_at_s": 1.7e9})
    assert dict(standard_report.list_facts(Cells(results_of(known))))["Measured"] == (
        "2023-11-14 22:13 UTC to 2023-11-14 22:13 UTC")
    real = changed(ahead, raw={"stamps": {"start": 1.7e9}})
    assert results_of(real).frame["started_s"].iloc[0] == 1.7e9


@pytest.mark.parametrize(("clock", "busy"), [("real", True), ("processor", False),
                                             ("virtual", False)])
def test_processor_time_is_of_the_real_clock(clock: str, busy: bool) -> None:
    """Where waiting is skipped, what a guest counts of its processor has no meaning."""
    record = make("P1", raw={"stamps": {"start": 1e9}, "processor_s": {"user": 1.0}})
    found = results_of(changed(record, environment=record.environment | {"clock": clock}))
    assert np.isfinite(found.frame["processor_busy_s"].iloc[0]) == busy
