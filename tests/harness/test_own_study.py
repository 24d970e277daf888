"""A user's own study, that of the tutorial, in every command: one line for what is wrong."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

import own_study
import studies
from conftest import Qop
from fabricated import make, write_all
from harness.engine.plan import Plan
from harness.engine.request import RunRequest, build_plan
from measure.records import record
from measure.records.record import CheckRecord, Record, RecordPart, StudyRecord
from results_folder import seal_anew


@pytest.fixture(scope="module", autouse=True)
def hops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The tutorial's study beside the default one."""
    with own_study.installed(tmp_path_factory.mktemp("own"), {"hops": own_study.tutorial()}):
        yield


def plan_of() -> Plan:
    """All its cells, twice."""
    return build_plan(RunRequest(studies.load_study("hops"), repetitions=2), {"clock": "virtual"})


def made(folder: Path, **changes: Any) -> Path:
    """A results folder of the study; `changes` are the first record's. Returns the folder."""
    made_of = plan_of()
    for number, step in enumerate(made_of.all_steps()):
        cell = step.cell.ids
        fields: dict[str, Any] = {
            "status": "ok", "reason": "",
            "environment": {"clock": "virtual", "plan": made_of.digest},
            "measured": {"round_trips_s": [int(cell["hops"]) * 2e-3] * 3},
            "evidence": [CheckRecord(check="hops", ok=True, detail="")]}
        record.write_record(Record(
            schema=2, study=StudyRecord(id="hops", version=1), cell=cell, digests={},
            repetition=step.repetition, asked=made_of.asked.to_stored_settings(), captures=[],
            **(fields | (changes if number == 0 else {}))), folder / "records")
    (folder / "plan.json").write_text(made_of.manifest.to_text())
    return folder


def refused(qop: Qop, *arguments: str) -> str:
    """The one line with which a command refuses."""
    done = qop(*arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def rename(folder: Path, study: str) -> None:
    """Make a folder's plan name another study."""
    document = json.loads((folder / "plan.json").read_text())
    document["study"]["id"] = study
    (folder / "plan.json").write_text(json.dumps(document))


def test_a_report_without_results_needs_none_of_its_study(qop_here: Qop) -> None:
    """Whatever was measured last: the default study's own is made as documented."""
    made(qop_here.folder / "results" / "mine")
    done = qop_here("report", "--published", "--table", "table-3")
    assert done.returncode == 0, done.stderr
    assert (qop_here.folder / "results" / "published" / "report.html").exists()
    assert "no such option '--handoff'" in refused(qop_here, "report", "--handoff")


def test_a_table_that_is_asked_for_is_the_one_that_is_printed(qop_here: Qop) -> None:
    """In every form, with one line for a table that there is not, and for several at once."""
    made(qop_here.folder / "mine")
    said = qop_here("report", "mine", "--table", "claims", "--format", "csv").stdout
    assert said.startswith("clock,") and "H1" in said and not (
        qop_here.folder / "mine" / "report.html").exists()
    assert "H1" in qop_here("report", "mine", "--table", "claims", "--format", "markdown").stdout
    assert "--table nope: there is no such table here" in refused(
        qop_here, "report", "mine", "--table", "nope", "--format", "csv")
    assert "--format csv: prints one table" in refused(
        qop_here, "report", "mine", "--table", "claims", "--table", "run", "--format", "csv")


# What status and verify count ----------------------------------------------------------------

def test_repetitions_beyond_the_plan_are_counted_and_none_is_missing(qop_here: Qop) -> None:
    """After a larger plan or a stopping rule there are more than planned, and nothing to measure.

    One that the plan has and the folder lacks is to be measured, however many further ones are
    there.
    """
    folder = made(qop_here.folder / "results" / "mine")
    document = json.loads((folder / "plan.json").read_text())
    document["settings"]["repetitions"] = 1
    seal_anew(folder / "plan.json", document)
    assert ": not running; 6 of 6 repetitions ok, 0 failed, 0 to measure" in \
        qop_here("status").stdout
    assert ": 6 records of 3 planned and 3 further (6 ok)" in qop_here("verify").stdout
    (folder / "records" / "2-001.json").unlink()
    assert "5 of 6 repetitions ok, 0 failed, 1 to measure" in qop_here("status").stdout


# Which study a folder is of ------------------------------------------------------------------

def test_records_say_their_study_where_no_plan_does(qop_here: Qop) -> None:
    """The report is the study's, with and without --study."""
    (made(qop_here.folder / "run") / "plan.json").unlink()
    for options in ((), ("--study", "hops")):
        done = qop_here("report", "run", "--format", "csv", *options)
        assert done.returncode == 0 and done.stdout.startswith("clock,section,hops,"), done.stderr


@pytest.mark.parametrize("form", [(), ("--format", "csv")])
def test_a_folder_of_another_study_is_refused(qop_here: Qop, form: tuple[str, ...]) -> None:
    """By the name given with --study; not a traceback from the wrong study's report."""
    made(qop_here.folder / "run")
    line = refused(qop_here, "report", "run", "--study", "qop2007", *form)
    assert "--study qop2007: run holds results of the study hops" in line


@pytest.mark.parametrize("arguments", [
    ("report", "gone"), ("report", "--study", "hops", "gone"), ("compare", "gone", "run"),
    ("compare", "run", "gone")])
def test_a_study_that_is_not_installed_is_one_line(qop_here: Qop,
                                                   arguments: tuple[str, ...]) -> None:
    """A folder from somewhere else, whose study is not here."""
    made(qop_here.folder / "run")
    rename(made(qop_here.folder / "gone"), "elsewhere")
    line = refused(qop_here, *arguments)
    assert "elsewhere" in line and "gone" in line


def test_a_plan_that_cannot_be_read_is_refused_by_every_reader(qop_here: Qop) -> None:
    """A report without the plan would have other claims; it ends with status 2 instead."""
    folder = write_all([make("P1", 1)], qop_here.folder / "run")
    made(qop_here.folder / "other")
    for content in ("", "[]", '{"schema": 3}', "{", "\x00"):
        (folder / "plan.json").write_text(content)
        for arguments in (("report", "run"), ("compare", "run", "other"), ("status", "run")):
            assert "run/plan.json: " in refused(qop_here, *arguments)


# What a study's own code raises --------------------------------------------------------------

def test_a_failed_repetition_without_values_is_reported(qop_here: Qop) -> None:
    """The tutorial's study has no median of no reply; the report says n of what is there."""
    made(qop_here.folder / "run", status="failed", reason="no reply", evidence=[],
         measured={"round_trips_s": []})
    done = qop_here("report", "run")
    assert done.returncode == 0, done.stderr
    assert "1/2" in done.stdout and "left out" not in done.stdout


@pytest.mark.parametrize("hook", ["values", "samples", "series", "impossible_values"])
def test_what_a_study_cannot_read_is_named(qop_here: Qop, hook: str,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is left out with its name and the reason, and everything else is reported."""
    made(qop_here.folder / "run", measured={"round_trips_s": []})
    study = type(studies.load_study("hops"))
    real = getattr(study, hook)

    def failing(self: Any, measured: Any) -> Any:
        return {"x_s": 1 / len(measured.round_trips_s)} and real(self, measured)

    monkeypatch.setattr(study, hook, failing)
    done = qop_here("report", "run")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "1/2" in said and f"{hook} of the study hops cannot read it (ZeroDivisionError" in said


@pytest.mark.parametrize(("values", "says"), [
    ({"clock": 1.0}, "calls a value 'clock'"), ({"hops": 1.0}, "calls a value 'hops'"),
    ({"round_trip_s": [1.0]}, "no number")])
def test_values_that_would_make_a_wrong_table(qop_here: Qop, values: dict[str, Any], says: str,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that a column has already, or what is not a number: nothing is shown silently."""
    made(qop_here.folder / "run")
    monkeypatch.setattr(type(studies.load_study("hops")), "values", lambda *_: values)
    assert says in refused(qop_here, "report", "run")


# Bodies of another schema --------------------------------------------------------------------

class Body(RecordPart):
    """A body of the second schema: seconds, where the first had milliseconds."""

    schema_: int = Field(2, alias="schema")
    round_trips_s: list[float]


@pytest.mark.parametrize(("hook", "form"), [
    ("run_table", ("--format", "csv")), ("run_table", ()), ("report", ())])
def test_what_a_report_of_its_own_raises_is_one_line(
        qop_here: Qop, hook: str, form: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the line of the study's own code that it comes from, where there is one."""
    made(qop_here.folder / "run")
    code = "def broken(*_):\n    return 1 / 0\n"
    scope: dict[str, Any] = {}
    place = studies.study_folder("hops")
    exec(compile(code, place / "study.py", "exec"), scope)
    monkeypatch.setattr(type(studies.load_study("hops")), hook, scope["broken"])
    assert refused(qop_here, "report", "run", *form) == (
        f"qop: {place}: report: ZeroDivisionError: division by zero, in line 2 of "
        f"{place}/study.py; correct the study\n")


def test_a_study_brings_upgrades_of_its_bodies(qop_here: Qop,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """A body of schema 1 has the numbers of schema 2, one of a later schema is left out."""
    study = type(studies.load_study("hops"))
    monkeypatch.setattr(study, "measurements_type", Body)
    monkeypatch.setattr(study, "upgrades", {1: lambda body: {
        "schema": 2, "round_trips_s": [1e-3 * each for each in body["ms"]]}})
    made(qop_here.folder / "first", measured={"schema": 1, "ms": [7.0]})
    rows = csv.DictReader(io.StringIO(qop_here("report", "first", "--format", "csv").stdout))
    # The other repetition of its cell took 2 ms a hop.
    assert 7 in {round(2e3 * float(row["round_trip_s"]) - 2 * float(row["hops"])) for row in rows}
    for body, says in (({"schema": 1}, "schema 1 and does not fit (KeyError"),
                       ({"schema": 99, "round_trips_s": [1.0]}, "schema 99, this version of its")):
        name = f"of-{body['schema']}"
        made(qop_here.folder / name, measured=body)
        done = qop_here("report", name)
        assert done.returncode == 0, done.stderr
        assert says in " ".join(done.stdout.split()) and "1/2" in done.stdout


def test_the_default_study_reads_its_own_schema_only(qop_here: Qop) -> None:
    """A number nobody knows is not reported as usual."""
    good = make("P1", 1)
    write_all([good, make("P2", 1)], qop_here.folder / "run")
    record.write_record(good.model_copy(update={"measured": {**(good.measured or {}),
                                                             "schema": 99}}),
                        qop_here.folder / "run" / "records")
    done = qop_here("report", "run")
    assert "measured is of schema 99, this version of its study reads 2" in " ".join(
        done.stdout.split())


# Levels and counts ---------------------------------------------------------------------------

def test_a_level_that_there_is_not_is_said_with_its_factor(qop_here: Qop) -> None:
    """And with the profile, if it stands there."""
    (qop_here.folder / "mine.yml").write_text("title: x\nonly: {hops: [9]}\n")
    for arguments, place in ((("--only", "hops=9"), "hops"), (("--profile", "mine.yml"),
                                                              "profile mine.yml")):
        line = refused(qop_here, "run", "hops", "--dry-run", *arguments)
        assert line == f"qop: {place}, factor hops: 9: no such level; choose from 1, 2, 4\n"


@pytest.mark.parametrize(("arguments", "naming"), [
    (("run", "hops", "--stream-bytes", "1M"), "run hops"),
    (("run", "hops", "--repetitions", "0"), "run hops"),
    (("report", "mine", "--handoff"), "report --study hops"),
    (("lab", "--study", "hops", "--policy", "P1"), "lab --study hops")])
def test_the_help_that_is_named_is_the_studys(qop_here: Qop, arguments: tuple[str, ...],
                                              naming: str) -> None:
    """That of the command without a study has the default one's options."""
    made(qop_here.folder / "mine")
    line = refused(qop_here, *arguments)
    assert line.startswith(f"qop: {naming}: ")
    assert line.endswith(f"; see './qop {naming} --help'\n")


def test_a_profile_of_a_study_without_any_names_what_there_is(qop_here: Qop) -> None:
    (qop_here.folder / "mine.yml").write_text("title: x\nwidth: 3\n")
    line = refused(qop_here, "run", "hops", "--dry-run", "--profile", "mine.yml")
    assert "width: there is no such field; write one of title, repetitions," in line


def test_one_claim_is_one(qop_here: Qop) -> None:
    """In the singular."""
    made(qop_here.folder / "run")
    assert "1 claim: " in qop_here("report", "run").stdout
