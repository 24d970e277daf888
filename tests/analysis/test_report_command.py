"""Tests of `qop report` and `qop bench report`, and of reading many records."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click.testing
import numpy as np
import pandas as pd
import pytest

from analysis import records as reading
from bench import report as bench_report
from conftest import PROJECT
from fabricated import STUDY, body_of, changed, failed, load, make, paper_run, write_all
from harness.commands import report
from harness.errors import UserError
from measure.records import record
from policies import load_all, load_policy
from studies import records as stored


def run(*arguments: str | Path) -> click.testing.Result:
    """The command, in this process; errors of the user's are raised."""
    return click.testing.CliRunner().invoke(report.command, [*map(str, arguments)],
                                            catch_exceptions=False, standalone_mode=False)


def said(*arguments: str | Path) -> str:
    """What the command printed; an error of the user's raises."""
    done = run(*arguments)
    if done.exception is not None:
        raise done.exception
    return done.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A results folder with all twelve policies at home and roaming."""
    return write_all(paper_run(("N2", "R1"), repetitions=2), tmp_path)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A results folder with a record of each of two policies, for what needs no more."""
    return write_all([make("P1", 1), make("P6", 1)], tmp_path)


# --- the command ---------------------------------------------------------------------------------

def test_report_prints_and_writes(folder: Path) -> None:
    """The answer, the run in short, who should take what, claims counted, where the page is."""
    text = said(folder)
    assert text.startswith("Measured: 12 policies x 2 scenarios; 48 of 48 repetitions good")
    assert text.index("The run in short") < text.index("Recommended policy by application")
    assert re.search(r"The paper's 16 claims: \d+ confirmed, \d+ refuted, \d+ undecided\.", text)
    assert text.splitlines()[-2:] == [
        f"Report: {folder / 'report.html'}", f"Tables: {folder / 'tables'}/ (LaTeX, CSV, Parquet)"]
    assert (folder / "report.html").stat().st_size > 1_000_000
    assert (folder / "tables" / "tables.tex").exists()
    kept = pd.read_parquet(folder / "tables" / "records.parquet")
    assert len(kept) == 48 and set(kept["scenario"]) == {"N2", "R1"}
    claims = list(csv.DictReader(io.StringIO((folder / "tables" / "claims.csv").read_text())))
    assert [row["claim"] for row in claims] == [f"Q{number}" for number in range(1, 17)]
    assert {row["verdict"] for row in claims} <= {"confirmed", "refuted", "undecided"}


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1"])
@pytest.mark.parametrize("arguments", [(), ("--table", "table-3")])
def test_any_encoding_is_good_enough(folder: Path, monkeypatch: pytest.MonkeyPatch, encoding: str,
                                     arguments: tuple[str, ...]) -> None:
    """What it lacks is written in ASCII; it ended in a traceback."""
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    done = subprocess.run([sys.executable, "-m", "harness", "report", str(folder), *arguments],
                          cwd=PROJECT, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(encoding)
    assert "sigma" in text and "----" in text and "?" not in text
    assert ("\N{PLUS-MINUS SIGN}" in text) == (encoding == "iso-8859-1" and not arguments)


@pytest.mark.parametrize(("columns", "most"), [("80", 80), ("120", 120), ("", 180), ("wide", 180),
                                               ("0", 180)])
def test_a_pipe_heeds_columns(folder: Path, monkeypatch: pytest.MonkeyPatch, columns: str,
                              most: int) -> None:
    """A pipe has no width of its own but what COLUMNS says."""
    monkeypatch.setenv("COLUMNS", columns)
    lines = said(folder, "--table", "table-7", "--table", "bounds").splitlines()
    widest = max(len(line) for line in lines if str(folder) not in line)
    assert most * 0.6 < widest <= most


@pytest.mark.parametrize(("form", "first"), [
    ("csv", "clock,section,policy,name,"), ("markdown", "### Scenario")])
def test_other_formats_write_nothing(folder: Path, form: str, first: str) -> None:
    """What another program reads is the table alone, as before; no file comes with it."""
    assert said(folder, "--format", form).startswith(first)
    assert sorted(path.name for path in folder.iterdir()) == ["plan.json", "records"]


def test_the_paper_alone(tmp_path: Path) -> None:
    """`--published` needs no records; Table 3 is the paper's, cell by cell."""
    text = said("--published", tmp_path / "paper")
    assert "Table 3: additive rewards" in text and "Table 9: robustness for TCP" in text
    rows = csv.DictReader(io.StringIO((tmp_path / "paper/tables/table-3.csv").read_text()))
    sigma = {row["policy"]: float(row["sigma"]) for row in rows}
    assert sigma == {"P1": 0, "P2": 2, "P5": 3, "P7": 5, "P6": 8, "P3": 9, "P8": 10, "P4": 11,
                     "P9": 12, "P11": 13, "P10": 18, "P12": 19}


def test_tables_by_name(folder: Path) -> None:
    """Only those that were asked for, and all of them where one says so."""
    text = said(folder, "--table", "table-7")
    assert "Table 7: TCP throughput" in text
    assert "Scenario N2" not in text and "Table 8" not in text
    assert "Table 8" in said(folder, "--table", "all")


def test_list_prints_the_ids_of_all_tables(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each id of the list can be given to --table; nothing is written. The help names the list."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = said(small, "--table", "list").splitlines()
    assert max(map(len, lines)) <= 80
    ids = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert {"claims", "overview", "run"} < set(ids)
    assert sorted(path.name for path in small.iterdir()) == ["plan.json", "records"]
    assert said(small, *(word for name in ids for word in ("--table", name)))
    assert "'list' their ids" in " ".join(said(small, "--help").split())


def test_an_application_of_ones_own(folder: Path) -> None:
    """Limits are a table of their own, printed and in the report."""
    text = said(folder, "--application", "delay=0.2,loss=0.01,sigma=50", "--application", "voice")
    assert "Policies and limits: Limits of one's own" in text
    assert "Policies and limits: Voice calls" in text
    assert 'id="advice-own"' in (folder / "report.html").read_text()


def test_weights_of_ones_own(folder: Path) -> None:
    """Another weight is another sigma, marked where it differs from the paper's."""
    ours = folder / "weights.yml"
    text = (PROJECT / "policies" / "weights.yml").read_text()
    changed = re.sub(r"(eap-tls:.*?authentication: )4", r"\g<1>9", text, count=1, flags=re.DOTALL)
    assert changed != text
    ours.write_text(changed)
    table = said(folder, "--weights", str(ours), "--table", "table-3")
    assert re.search(r"P6 .* 13≠", table), table


def test_a_policy_of_ones_own_has_a_sigma(folder: Path) -> None:
    """The folder's manifest says which layers it had; nobody is asked for a file."""
    path = folder / "own.yml"
    path.write_text("id: X1\nname: WPA2 with CCMP\nlayers:\n"
                    "  link: {cipher: CCMP, keys: psk, pmf: 0}\n")
    own = load_policy(path)
    path.unlink()
    records = [*paper_run(("N2", "R1"), repetitions=2),
               *(make("X1", number, digests={"policy": own.digest()}) for number in (1, 2))]
    write_all(records, folder, [own])
    row = next(line for line in said(folder, "--table", "table-3").splitlines()
               if line.startswith("X1"))
    assert re.search(r"\d", row.removeprefix("X1").replace("WPA2", ""))


@pytest.mark.parametrize(("arguments", "words"), [
    (["--table", "table-99"], "there is no such table here; choose from"),
    (["--application", "telepathy"], "no application 'telepathy'"),
    (["--application", "delay=-1"], "give a number above 0"),
    (["--weights", "nowhere.yml"], "nowhere.yml"),
    (["--baseline", "colour=red"], "no factor 'colour'"),
    (["--baseline", "P99"], "policy has no level 'P99' here; it is one of P1, P6"),
    (["--baseline", "scenario=N7"], "scenario has no level 'N7' here")])
def test_what_cannot_be_asked_for_is_one_line(small: Path, arguments: list[str],
                                              words: str) -> None:
    """It names what is wrong, and nothing is written."""
    with pytest.raises(UserError) as caught:
        said(small, *arguments)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert not (small / "report.html").exists()


def test_a_report_that_cannot_be_written_is_one_line(small: Path) -> None:
    """The tables are printed all the same."""
    (small / "report.html").mkdir()
    with pytest.raises(UserError, match=r"report.*cannot be written .*make the folder writable"):
        said(small)


def test_an_empty_run_is_one_clear_sentence(tmp_path: Path) -> None:
    """No stack trace, and no report of nothing."""
    (tmp_path / "records").mkdir()
    with pytest.raises(UserError, match=r"holds no records yet; measure with './qop run"):
        said(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records"]


@pytest.mark.parametrize("records", [
    [failed("P1", 1, phases={}), failed("P6", 1, phases={})], [make("P3", 1)],
    [make("ODD", 1, environment={}), make("ODD", 2, environment={})],
    [changed(make("P1", 1), tcp=None, udp=None, phases=[])]],
    ids=["all failed", "one record", "unknown policy", "no streams"])
def test_a_run_of_little_is_reported_all_the_same(tmp_path: Path,
                                                  records: list[record.Record]) -> None:
    """Whatever is missing, what is there makes a page, and every table can be printed."""
    write_all(records, tmp_path)
    assert "Report: " in said(tmp_path, "--table", "all")
    assert "good of" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(("looks", "reason", "is_command"), [
    (None, "can decide", True), ((2, 3), "can decide", True),
    ((1, 2), "at the last look, after 2 repetitions", False)])
def test_claims_are_followed_by_a_command_or_a_reason(
        tmp_path: Path, looks: tuple[int, ...] | None, reason: str, *, is_command: bool) -> None:
    """An interrupted run goes on; after the last look the answer says why nothing follows."""
    rng = np.random.default_rng(3)
    records = [changed(each, tcp=body_of(make(tcp=4.5e6 * (1 + rng.normal(0, 0.05)))).tcp)
               for each in paper_run(("N2", "R1"), repetitions=2)]
    write_all(records, tmp_path, settings={"repetitions": 2, **({"looks": looks} if looks else {})})
    text = " ".join(said(tmp_path).split())
    assert reason in text
    assert ("--until-decided" in text) is is_command


# --- many records --------------------------------------------------------------------------------

def read(paths: Sequence[Path], processes: int) -> reading.RecordTable:
    """Records as `./qop report` reads them."""
    return reading.read_records(paths, STUDY, stored.read_record, processes)


def test_many_files_are_read_as_few_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes give the frame and the complaints that one gives, in the same order."""
    bench_report.make_records(tmp_path, 240, np.random.default_rng(7))
    (tmp_path / "records" / "P12-N1-001.json").write_text("{")
    (tmp_path / "records" / "a.json").write_text('{"schema": 99}')
    paths = sorted((tmp_path / "records").glob("*.json"))
    monkeypatch.setattr(reading, "_CHUNK", 50)
    alone, together = read(paths, 1), read(paths, 2)
    assert alone.frame is not None and together.frame is not None
    assert len(alone.frame) == 239 and len(alone.complaints) == 2
    assert together.complaints == alone.complaints
    assert together.frame.equals(alone.frame)
    assert (together.samples, together.series) == (alone.samples, alone.series)


def test_a_process_that_dies_costs_only_time(tmp_path: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no other process is to be had, this one reads everything."""
    bench_report.make_records(tmp_path, 120, np.random.default_rng(7))
    monkeypatch.setattr(reading, "_CHUNK", 50)
    monkeypatch.setattr(reading.sys, "executable", "/bin/false")
    table = read(sorted((tmp_path / "records").glob("*.json")), 2)
    assert table.frame is not None and len(table.frame) == 120 and table.complaints == []


def test_made_up_records_are_records(tmp_path: Path) -> None:
    """Those of the benchmark pass every check, in all cells, and are as large as measured ones."""
    assert bench_report.make_records(tmp_path, 61, np.random.default_rng(1)) == 120
    results = load(tmp_path)
    assert results.complaints == [] and len(results.good) == 120
    assert set(results.frame["policy"]) == {policy.id for policy in load_all()}
    sizes = [path.stat().st_size for path in (tmp_path / "records").iterdir()]
    assert 7_000 < np.mean(sizes) < 20_000
    assert results.frame["started_s"].notna().all()  # when they were made, by the wall clock
