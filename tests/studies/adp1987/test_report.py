"""The report, told the paper's own numbers, says what the paper says; published stands beside."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import studies
from analysis import results as loading
from analysis.present import page, terminal
from analysis.present.report import Report
from analysis.table import Entry
from harness.engine.request import RunRequest, build_plan
from measure.records.record import CheckRecord, Record, StudyRecord
from studies.adp1987 import cells, published
from studies.adp1987.measurements import SHARES, Measurements, PrefixRecord

STUDY = studies.load_study("adp1987")
PAPER = published.load_values()


def as_published(cell: tuple[str, ...], repetition: int) -> Measurements:
    """What the paper has for a cell, a hair apart in two repetitions; elsewhere anything."""
    hair = 1 + repetition / 1e6
    fields = {metric: PAPER.all.get((metric, *cell), 1.0) * hair for metric in (
        "throughput_bytes_per_s", "latency_s", "utilisation_share", "adp_message_bytes")}
    if cell[4] == cells.REAL_TIME and cell[7] == "modern":
        fields["throughput_bytes_per_s"] *= 0.5
    return Measurements(
        **fields, latency_median_s=0.010 * hair, latency_deviation_s=0.00608 * hair,
        establishment_s=PAPER.establishment_s * hair, latencies_s=[0.007, 0.010, 0.017, 0.024],
        overloaded=cell in (cells.cell_ids("ALL", scope="FE", queue="OFF"),
                            cells.cell_ids("ALL", rate="2")),
        prefixes=[PrefixRecord(messages=round(share * 1000), latency_s=0.011,
                               throughput_bytes_per_s=7.5e5) for share in SHARES])


def records() -> Iterator[Record]:
    """Two repetitions of every cell of the design."""
    for cell in dict.fromkeys(cells.design_cells(list(cells.TRACES))):
        for repetition in (1, 2):
            yield Record(
                schema_=2, study=StudyRecord(id=STUDY.id, version=STUDY.version),
                cell=dict(zip(cells.NAMES, cell, strict=True)), repetition=repetition,
                status="ok", reason="", digests={}, asked={}, captures=[],
                measured=as_published(cell, repetition).model_dump(),
                evidence=[CheckRecord(check="owner", ok=True, detail="made up")],
                environment={"medium": "", "clock": "virtual", "machine": "guest", "fault": None})


@pytest.fixture(scope="module")
def made() -> Report:
    """The report on a run that measured what the paper printed."""
    manifest = build_plan(RunRequest(STUDY), {}).manifest
    return STUDY.report(loading.from_records(list(records()), STUDY, manifest), {})


def test_the_papers_numbers_confirm_its_tables_claims(made: Report) -> None:
    """D1 to D3 and D5 to D8 hold for them (Figures 5 and 6, for D4, have no numbers in print)."""
    words = {claim.id: claim.verdict for claim in made.claims}
    assert set(words) == {f"D{number}" for number in range(1, 9)}
    undecided = {name for name, word in words.items() if word != "confirmed"}
    assert undecided <= {"D2", "D4"}, [claim for claim in made.claims if claim.id in undecided]
    assert "refuted" not in {words[name] for name in words if name != "D4"}


def test_every_table_has_published_beside_measured(made: Report) -> None:
    """Tables 2 to 6: as many published values as the paper has, each agreeing here."""
    tables = {table.id: table for table in made.tables}
    for name, values in PAPER.tables.items():
        table = tables[f"table-{name}"]
        entries = [entry for row in table.rows for entry in row if entry.published is not None]
        assert len(entries) == len(values)
        assert sorted(entry.published or 0 for entry in entries) == sorted(values.values())
    near = [row[-1].text for row in tables["table-fit"].rows]
    assert near == ["yes"] * 12
    kinds = [row[1].text for row in tables["table-fit"].rows]
    assert kinds == ["fit"] * 6 + ["prediction"] * 6


def value(entry: Entry) -> float:
    """What an entry stands for."""
    assert entry.number is not None
    return entry.number.value


def test_what_is_side_by_side_has_ratios_to_wireguard(made: Report) -> None:
    """Equal values everywhere but in modern ADP, whose throughput is told a half: 0.5 times."""
    tables = {table.id: table for table in made.tables}
    assert [row[1].text for row in tables["table-beside"].rows if row[0].text == "ALL"] == [
        "modern, queueing on", "modern, queueing off", "wireguard", "esp", "none"]
    ratios = {row[1].text: value(row[2]) for row in tables["table-ratios"].rows}
    assert ratios == {"modern, queueing on": pytest.approx(0.5), "esp": pytest.approx(1.0),
                      "modern, queueing off": pytest.approx(0.5), "none": pytest.approx(1.0)}
    intervals = [row[2].number for row in tables["table-ratios"].rows]
    assert all(number is not None and number.low is not None for number in intervals)
    words = {row[0].text: row[3].text for row in tables["table-today"].rows}
    assert words == {"M1": "undecided", "M2": "refuted", "M3": "confirmed", "M4": "undecided"}


def test_rankings_tell_contradicted_cells_apart(made: Report) -> None:
    """Told print, all pairs are in order; of Table 6 none is of two cells that can be.

    Nothing of Tables 2 and 3 is a prediction, nor is what Tables 5 and 6 repeat of them.
    """
    tables = {table.id: table for table in made.tables}
    rows = {row[0].text: [value(entry) for entry in row[1:7]]
            for row in tables["table-ranking"].rows}
    assert rows == {"2": [9, 9, 9, 9, 0, 0], "3": [14, 14, 9, 9, 0, 0], "4": [14, 14, 9, 9, 9, 9],
                    "5": [6, 6, 1, 1, 0, 0], "6": [9, 9, 0, 0, 0, 0]}
    assert "28 of 28 pairs" in tables["table-ranking"].caption
    assert [row[-1].text for row in tables["table-urgency"].rows] == [
        "yes", "yes", "no", "yes", "yes"]


def test_overloaded_cells_are_marked(made: Report) -> None:
    """Where a latency is of the trace's length, it says so."""
    [table] = [table for table in made.tables if table.id == "table-3"]
    marked = [entry for row in table.rows for entry in row if entry.detail == "overloaded"]
    assert len(marked) == 1
    assert "overloaded" in terminal.to_plain_text(table, 200)


def test_the_runs_table_and_figure_4_mark_them(made: Report) -> None:
    """One row of the run's says so, and the figure's caption names its point."""
    [run] = [table for section in made.sections for table in section.tables if table.id == "run"]
    place = [column.key for column in run.columns].index("load")
    assert sum(row[place].text == "overloaded" for row in run.rows) == 2
    captions = {figure.id: figure.caption for section in made.sections
                for figure in section.figures}
    assert "trace's length: ALL, queueing on, at 2." in captions["fig-paper-4"]
    assert "Overloaded" not in captions["fig-paper-6"]


def test_all_figures_are_drawn_and_the_page_is_whole(made: Report) -> None:
    """Figures 3 to 7, and a page that names what is fitted and what contradicts itself."""
    figures = {figure.id for section in made.sections for figure in section.figures}
    assert {f"fig-paper-{number}" for number in range(3, 8)} <= figures
    facts = dict(made.facts)
    assert "Table 3 alone" in facts["Fit and prediction"]
    assert "2.05 ms" in facts["Inconsistent in print"]
    assert re.search(r"Figure 7", page.render_page(made))
