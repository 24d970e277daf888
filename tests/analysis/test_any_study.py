"""Tests of analysis with a study that is not the 2007 one: frame, tables, files, page, figures.

Made up for them: a server answers requests at so many a second, with or without a cache. A record's
body holds all service times and the length of the queue over time; a model says what to expect.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import BaseModel

import analysis
from analysis.cells import Cells
from analysis.claims import MORE, Claim, Question, judge_claim
from analysis.metrics import Metric
from analysis.present import figures, page, terminal
from analysis.present.export import to_csv, to_markdown
from analysis.present.page import save_report as write_report
from analysis.present.report import Panel, Report
from analysis.reporting import metric_figures, run_table, standard_report
from analysis.reporting.comparison import compare_runs
from analysis.reporting.run_table import ReferenceValues
from analysis.reporting.standard_report import ReportAdditions
from measure.records.manifest import Manifest, plan_digest
from measure.records.record import CheckRecord, Record, RecordError, StudyRecord, write_record
from studies import records as stored
from studies.study import Factor, Level, Study, fixed_levels

RATES = ("5", "50", "100")
SERVICE = Metric("service_time_s", "service time", unit="ms", scale=1e3, better="lower",
                 negligible=0.001, difference=Metric("service_gain_s", "time lost", unit="ms",
                                                     scale=1e3))
DONE = Metric("done_share", "requests done", unit="%", scale=100.0, digits=1, better="higher",
              negligible=0.01, is_relative=True)
TIMES = Metric("service_times_s", "service time of a request", unit="ms", scale=1e3)
QUEUE = Metric("queue_requests", "queue", unit="requests")


class Measured(BaseModel):
    """The body of a record."""

    service_time_s: float
    done_share: float
    service_times_s: list[float]
    queue_requests: list[tuple[float, float]]
    model: str = "server"


class Load(Study):
    """Service times of a server under load."""

    id: ClassVar[str] = "load"
    title: ClassVar[str] = "A server under load"
    factors: ClassVar[tuple[Factor, ...]] = (
        Factor("cache", "Cache", fixed_levels([Level("off"), Level("on", "with a cache")])),
        Factor("rate", "Rate", fixed_levels([Level(rate, number=float(rate)) for rate in RATES]),
               is_number=True, unit="1/s"))
    metrics: ClassVar[tuple[Metric, ...]] = (SERVICE, DONE)
    distributions: ClassVar[tuple[Metric, ...]] = (TIMES,)
    timelines: ClassVar[tuple[Metric, ...]] = (QUEUE,)
    baseline: ClassVar[dict[str, str]] = {"cache": "on"}
    measurements_type: ClassVar[type[Measured]] = Measured
    workload_module: ClassVar[str] = "studies.load.workload"

    def impossible_values(self, measured: Any) -> str:
        """Nobody can do more than was asked."""
        return "done_share is above 1" if measured.done_share > 1 else ""


STUDY = Load()


def made(cache: str, rate: str, repetition: int, **changes: Any) -> Record:
    """A record whose service times grow with the rate, more without a cache."""
    rng = np.random.default_rng([len(cache), int(rate), repetition])
    mean = (0.02 if cache == "off" else 0.01) / (1 - int(rate) / 150)
    times = rng.exponential(mean, 400)
    body = {"service_time_s": float(times.mean()), "done_share": 0.99,
            "service_times_s": times.tolist(),
            "queue_requests": [(at / 10, float(at % 7)) for at in range(50)]} | changes
    return Record(schema=2, study=StudyRecord(id="load", version=1),
                  cell={"cache": cache, "rate": rate}, repetition=repetition, status="ok",
                  reason="", digests={}, asked={}, measured=body,
                  evidence=[CheckRecord(check="answers", ok=True, detail="all")],
                  environment={"clock": "real", "machine": "guest"}, captures=[],
                  raw={"stamps": {"start": 1000.0 + repetition}})


def a_run() -> list[Record]:
    """Both levels at three rates, three times."""
    return [made(cache, rate, number) for number in (1, 2, 3) for cache in ("off", "on")
            for rate in reversed(RATES)]


def manifest(**changes: Any) -> Manifest:
    """What it set out to measure."""
    document: dict[str, Any] = {
        "schema": 2, "study": {"id": "load", "version": 1},
        "factors": [{"name": "cache", "title": "Cache"},
                    {"name": "rate", "title": "Rate", "is_number": True, "unit": "1/s"}],
        "levels": {"cache": {"off": {}, "on": {"title": "with a cache"}},
                   "rate": {rate: {"number": float(rate)} for rate in RATES}},
        "cells": [[cache, rate] for cache in ("off", "on") for rate in RATES], "asked": {},
        "settings": {"repetitions": 3}, "media": {}, "devices": {}} | changes
    return Manifest.model_validate({**document, "digest": plan_digest(document)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of the study."""
    out = tmp_path_factory.mktemp("load") / "run"
    for record in a_run():
        write_record(record, out / "records")
    (out / "plan.json").write_text(manifest().to_text())
    return out


@pytest.fixture(scope="module")
def cells(folder: Path) -> Cells:
    """Its cells."""
    return Cells(analysis.load(folder, STUDY, manifest(), stored.read_record))


#: What a queueing model says: one over what is left of the server.
MODEL = ReferenceValues(modelled={(SERVICE.name, cache, rate): base / (1 - int(rate) / 150)
                                  for cache, base in (("off", 0.02), ("on", 0.01)) for rate
                                  in RATES},
                        published={(SERVICE.name, "off", "50"): 0.031})


# --- from records to cells ------------------------------------------------------------------------

def test_the_frame_has_a_column_for_each_factor_metric_and_circumstance(cells: Cells) -> None:
    """In the order of the manifest: rates by their number, not by their letters."""
    frame = cells.results.frame
    assert {"cache", "rate", "service_time_s", "done_share", "clock", "verified",
            "started_s"} <= set(frame.columns)
    assert frame["rate"].tolist() == [rate for rate in RATES for _ in range(6)]
    assert cells.results.surroundings == ("rate",) and cells.results.compared == ("cache",)
    assert len(cells.results.samples[0]["service_times_s"]) == 400
    assert "service_times_s" not in frame


def test_differences_say_by_how_much_a_cell_is_worse(cells: Cells) -> None:
    """Lower is better, so without a cache a request takes longer: a positive difference."""
    lost = cells.observations["service_gain_s", "off", "100"].estimate
    off, on = (cells.observations["service_time_s", cache, "100"].estimate.mean
               for cache in ("off", "on"))
    assert lost.mean == pytest.approx(off - on) and lost.mean > 0 and lost.n == 3


@pytest.mark.parametrize(("record", "says"), [
    (made("on", "5", 9, done_share=1.5), "done_share is above 1; measure again"),
    (made("on", "5", 9, service_times_s="many"), "measured.service_times_s"),
    (made("on", "5", 9).model_copy(update={"study": StudyRecord(id="other", version=1)}),
     "of the study other"),
    (made("on", "5", 9).model_copy(update={"cell": {"rate": "5"}}), "with factors rate")])
def test_records_that_do_not_fit_are_named(record: Record, says: str) -> None:
    """Impossible numbers, another body, another study, other factors: one line each."""
    with pytest.raises(RecordError, match=says):
        analysis.from_records([record], STUDY)


def test_samples_of_percentiles_are_estimated_over_repetitions(cells: Cells) -> None:
    """Each repetition has its percentile; the interval is over these, and widens with the tail."""
    table = metric_figures.make_percentile_table(cells, TIMES)
    row = next(row for row in table.rows if (row[0].text, row[1].text) == ("off", "50"))
    median = row[table.column_index("service_times_p50_s")].number
    tail = row[table.column_index("service_times_p99_s")].number
    assert median is not None and tail is not None and median.n == tail.n == 3
    lists = [np.quantile(made("off", "50", number).measured["service_times_s"],
                         0.5)  # type: ignore[index]
             for number in (1, 2, 3)]
    assert median.value == pytest.approx(float(np.mean(lists)))
    assert tail.value > 3 * median.value
    assert row[
        table.column_index("service_times_values")].number.value == 1200  # type: ignore[union-attr]


# --- tables and files -----------------------------------------------------------------------------

def test_the_run_table_comes_for_free(cells: Cells) -> None:
    """A table a rate, a row a level of the cache; intervals, difference, verified, notes."""
    text = terminal.to_plain_text(STUDY.run_table(cells), 120)
    assert [line for line in text.splitlines() if line.startswith("Rate")] == [
        "Rate 5", "Rate 50", "Rate 100"]
    row = next(line for line in text.splitlines() if line.startswith("off "))
    assert "3/3" in row and "\N{PLUS-MINUS SIGN}" in row and row.endswith("yes")
    assert "Time lost: the difference from on within blocks" in text
    assert "baseline" in next(line for line in text.splitlines() if line.startswith("on "))


def test_modelled_and_published_values_stand_beside(cells: Cells) -> None:
    """Under the measured ones, apart by their brackets; in files, columns of their own."""
    table = run_table.make_run_table(cells, reference=MODEL)
    text = terminal.to_plain_text(table, 120)
    assert "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}30" in text and "(31)" in text
    assert "as modelled" in text
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    row = next(row for row in rows if (row["cache"], row["rate"]) == ("off", "50.0"))
    assert float(row["service_time_modelled_s"]) == pytest.approx(0.03)
    assert float(row["service_time_published_s"]) == 0.031
    assert row["good"] == "3" and row["state"] == "ok"
    assert "modelled" not in to_csv(STUDY.run_table(cells))
    assert "| off |" in to_markdown(table)


def test_a_study_of_one_factor_has_one_table() -> None:
    """Nothing surrounds the cells: they stand under the study's title."""
    class Simple(Load):
        factors: ClassVar[tuple[Factor, ...]] = Load.factors[1:]
        baseline: ClassVar[dict[str, str]] = {}

    records = [record.model_copy(update={"cell": {"rate": record.cell["rate"]}})
               for record in a_run() if record.cell["cache"] == "on"]
    simple = Cells(analysis.from_records(records, Simple()))
    text = terminal.to_plain_text(simple.results.study.run_table(simple),
                                  100)  # type: ignore[attr-defined]
    assert "A server under load" in text.splitlines()[0]
    assert [line.split()[0] for line in text.splitlines() if "3/3" in line] == list(RATES)
    assert "difference" not in text


# --- figures and the page -------------------------------------------------------------------------

def test_a_numeric_factor_is_an_axis(cells: Cells) -> None:
    """Curves with intervals over the rate, measured and modelled apart, in order of x."""
    figure = next(figure for figure in metric_figures.make_curves(cells, MODEL)
                  if figure.id == "fig-service-time-s-rate")
    [panel] = figure.panels
    by_name = {trace["name"]: trace for trace in panel.data}
    assert set(by_name) == {"off", "on", "off, modelled", "on, modelled", "off, published"}
    assert by_name["off"]["x"] == [5.0, 50.0, 100.0]
    estimate = cells.observations["service_time_s", "off", "50"].estimate
    assert by_name["off"]["y"][1] == pytest.approx(estimate.mean * 1e3)
    assert by_name["off"]["error_y"]["array"][1] == pytest.approx((estimate.half_width or 0) * 1e3)
    assert by_name["off, modelled"]["line"]["dash"] == "dash"
    assert by_name["off, modelled"]["y"][1] == pytest.approx(30.0)
    assert by_name["off, published"]["mode"] == "markers"
    assert panel.layout["xaxis"]["title"]["text"] == "Rate in 1/s"


def test_distributions_are_drawn(cells: Cells) -> None:
    """Shares rise to 1 with the values; a histogram's add up to 1; a panel a rate."""
    figure = metric_figures.make_distribution_figure(cells, TIMES)
    assert figure is not None and len(figure.panels) == 3
    for trace in figure.panels[0].data:
        assert trace["x"] == sorted(trace["x"]) and trace["y"][-1] == pytest.approx(1.0)
    samples = {"a": np.array([1.0, 2, 2, 3]), "b": np.array([2.0, 9])}
    panel = figures.histogram_panel("h", samples, figures.Axis("x", "s"), bins=4)
    assert all(sum(trace["y"]) == pytest.approx(1.0) for trace in panel.data)
    time = metric_figures.make_timeline_figure(cells, QUEUE)
    assert time is not None and time.panels[0].data[0]["x"][:2] == [0.0, 0.1]


def a_report(cells: Cells) -> Report:
    """The report of the run, with a claim and the model."""
    keys = [("service_time_s", cache, "100") for cache in ("off", "on")]
    verdict = judge_claim(Claim("C1", "A cache helps.", "here"), [Question(
        "off less on at 100/s", keys, MORE, figures_unit(), lambda means: means[..., 0]
        - means[..., 1])], cells.observations)
    return standard_report.make_standard_report(cells,
                                                run_table.make_run_table(cells, reference=MODEL),
                                                ReportAdditions(claims=[verdict], beside=MODEL))


def figures_unit() -> Any:
    """The unit of service times in findings."""
    from analysis.claims import unit_of

    return unit_of(SERVICE)


def test_every_study_has_a_report(cells: Cells, tmp_path: Path) -> None:
    """Page, tables and records as files; figures with their data, the claim with its verdict."""
    report = a_report(cells)
    assert [section.id for section in report.sections] == [
        "results", "distributions", "decisions", "run"]
    assert report.claims[0].verdict == "confirmed" and report.claims[0].records
    write_report(report, tmp_path, cells.results.frame)
    text = (tmp_path / "report.html").read_text()
    data = json.loads(text.split('id="figures">')[1].split("</script>")[0])
    assert {"fig-service-time-s-rate", "fig-done-share-rate", "fig-distribution-service-times-s",
            "fig-time-queue-requests"} == set(data)
    for name in ("run", "claims", "distribution-service_times_s", "decisions-service_time_s"):
        assert all((tmp_path / "tables" / f"{name}.{ending}").stat().st_size > 100
                   for ending in ("csv", "tex", "parquet"))
    assert "A server under load" in text and "A cache helps." in text


def test_a_study_reports_by_itself(cells: Cells) -> None:
    """The contract's default: nothing but the declarations of metrics and lists."""
    report = STUDY.report(cells.results, {})
    assert report.run is not None and report.run.id == "run"
    assert {table.id for table in report.tables} >= {"run", "decisions-done_share"}
    assert "<table" in page.render_page(report)


def test_lines_without_points_are_left_out() -> None:
    """A curve of a level that was never measured is no empty line in the legend."""
    panel: Panel = figures.line_panel("t", [figures.Series("a", [])], figures.Axis("x"),
                                      figures.Axis("y", is_log=True))
    assert panel.data == [] and panel.layout["yaxis"]["type"] == "log"


#: A plan with settings, wires and devices.
FURTHER: dict[str, Any] = {
    "asked": {"requests": 50, "medium": "wired"}, "wires": ["1 ms", "lan (10 Mbit/s)"],
    "devices": {"old": {"name": "old", "work": 2}, "new": {"name": "new"}}}


def test_claims_are_counted_in_words(cells: Cells) -> None:
    """One claim is no claims."""
    made = a_report(cells)
    assert made.claims_counted == "1 claim"
    twice = dataclasses.replace(made, claims=made.claims * 2, claimant="Their")
    assert twice.claims_counted == "Their 2 claims"


def test_the_report_says_settings_wires_and_devices() -> None:
    """What was asked for stands among the facts, and wires are no missing medium."""
    results = analysis.from_records(a_run(), STUDY, manifest(**FURTHER))
    facts = dict(standard_report.list_facts(Cells(results)))
    assert facts["Settings"] == "requests 50; medium wired"
    assert (facts["Wires"], facts["Devices"]) == ("1 ms; lan (10 Mbit/s)", "old, new")
    assert "over 1 ms; lan (10 Mbit/s)." in standard_report.make_subtitle(Cells(results))
    said = " ".join(run_table.make_run_table(Cells(results)).notes)
    assert "Medium: none. Wires: 1 ms; lan (10 Mbit/s). Clock: real." in said
    without = analysis.from_records(a_run(), STUDY, manifest())
    assert not {"Settings", "Wires",
                "Devices"} & dict(standard_report.list_facts(Cells(without))).keys()
    assert "none given (as fast as" in " ".join(run_table.make_run_table(Cells(without)).notes)


def test_a_comparison_says_what_was_asked_otherwise() -> None:
    """Settings, wires, devices and the study's version, from the plans; equal ones are not said."""
    plans = [manifest(**FURTHER), manifest(**FURTHER | {
        "asked": {"requests": 20, "medium": "wired"}, "wires": [], "study": {
            "id": "load", "version": 2}, "devices": {"old": {"name": "old", "work": 3}}})]
    runs = [analysis.from_records(a_run(), STUDY, plan) for plan in plans]
    notes = compare_runs(runs[0], runs[1])[0].notes
    assert {note for note in notes if note.startswith(("The runs", "Not the same"))} == {
        "The runs differ in the study's version: 1 and 2.",
        "The runs differ in the setting requests: 50 and 20.",
        "The runs differ in wires: 1 ms; lan (10 Mbit/s) and none.",
        "The runs differ in devices: new, old and old.",
        "Not the same device in both runs: old."}
    same = compare_runs(runs[0], runs[0])[0].notes
    assert not [note for note in same if note.startswith(("The runs differ", "Not the same"))]
