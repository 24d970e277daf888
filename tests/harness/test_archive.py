"""Export and import: what goes in comes out, and nothing else does, whatever the archive holds."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import results_folder
from conftest import PATIENCE_S, Qop, wait_until
from harness.engine.results import ResultsFolder
from harness.errors import UserError
from harness.portable import archive, importing, verification
from results_folder import (
    assert_nothing_came,
    findings,
    flip,
    make,
    packed,
    plan_of,
    tree,
    write,
)

ENDINGS = pytest.mark.parametrize("ending", ["tar.gz", "tar.xz"])


@ENDINGS
def test_two_exports_are_the_same_octets(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """Neither the time, nor the owner, nor how the folder was named on the command shows."""
    folder = make(tmp_path / "run")
    first = archive.export_folder(folder, tmp_path / f"1.{ending}", "all").file
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
    (folder / "plan.json").chmod(0o600)
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    second = archive.export_folder(tmp_path / "run" / ".." / "run", tmp_path / f"2.{ending}",
                                   "all").file
    assert first.read_bytes() == second.read_bytes()


@ENDINGS
def test_sha256sum_and_tar_agree(tmp_path: Path, ending: str) -> None:
    """The archive needs none of our programs: tar unpacks it, sha256sum checks every file."""
    file = packed(tmp_path, ending=ending)
    (tmp_path / "by-hand").mkdir()
    done = subprocess.run(["tar", "xf", file, "-C", tmp_path / "by-hand"], capture_output=True,
                          text=True, check=True)
    assert done.stderr == ""
    place = tmp_path / "by-hand" / "run"
    checked = subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=place,
                             capture_output=True, text=True, check=True)
    assert len(checked.stdout.splitlines()) == len(tree(place)) - 1
    assert verification.verify_results(place).ok


@pytest.mark.parametrize(("choice", "names"), [
    ("all", {"P1-N2-001", "P1-N2-002", "P8-N2-001", "P8-N2-002"}), ("failed", {"P8-N2-001"}),
    ("none", set())])
def test_captures_on_request(tmp_path: Path, choice: str, names: set[str]) -> None:
    """Captures that stay behind are named in pruned.json, so that they are not missed."""
    file = packed(tmp_path, choice, failed=("P8-N2-001",))
    done = importing.import_archive(file, None, tmp_path / "results")
    assert done.folder == tmp_path / "results" / "run" and done.new
    came = {path.parent.name for path in done.folder.glob("captures/*/*")}
    assert came == names and done.captures == 2 * len(names)
    verdict = verification.verify_results(done.folder)
    assert verdict.ok and len(verdict.survey.records) == 4
    assert sum(map(len, (entry.files for entry in verdict.survey.pruned.captures.values()))) \
        == 8 - 2 * len(names)


@ENDINGS
def test_round_trip_keeps_every_octet(tmp_path: Path, ending: str) -> None:
    """All that was exported is there again, with the checksums beside it."""
    folder = make(tmp_path / "run")
    (folder / "notes.txt").write_text("mine")
    (folder / "work").mkdir()
    (folder / "work" / "secret.conf").write_text("key")
    done = archive.export_folder(folder, tmp_path / f"x.{ending}", "all")
    assert done.foreign == ["notes.txt"]
    out = importing.import_archive(done.file, tmp_path / "out", tmp_path).folder
    wanted = {path: content for path, content in tree(folder).items()
              if not path.startswith(("notes", "work", "handoff"))}
    found = tree(out)
    assert found.pop("SHA256SUMS") and found == wanted


def test_records_only_leaves_out_what_no_report_reads(tmp_path: Path) -> None:
    """What is left out is noted of each record, and comes back with a whole archive."""
    folder = make(tmp_path / "run", files=["raw.json.gz"])
    for path in (folder / "records").iterdir():
        write(folder / "files" / path.stem / "raw.json.gz", gzip.compress(b"{}"))
    write(folder / "events.jsonl", b"{}\n")
    part = archive.export_folder(folder, tmp_path / "part.tar.xz", "none", records_only=True)
    out = importing.import_archive(part.file, tmp_path / "out", tmp_path).folder
    assert {path.partition("/")[0] for path in tree(out)} == {
        "plan.json", "records", "pruned.json", "SHA256SUMS"}
    assert findings(out) == findings(part.file) == []
    assert part.digest == verification.verify_results(folder).digest
    [line, *_] = verification.verify_results(out, redo=True).reader_notes
    assert line.endswith("its captures were left out or removed by choice")

    note, sums = (out / name for name in ("pruned.json", "SHA256SUMS"))
    noted = note.read_text()
    note.unlink()
    sums.unlink()
    assert "files/P1-N2-001/raw.json.gz: is missing; records/P1-N2-001.json names it" \
        in findings(out)
    note.write_text(noted)

    whole = archive.export_folder(folder, tmp_path / "whole.tar.gz", "all").file
    importing.import_archive(whole, out, tmp_path)
    assert tree(out).keys() - {"SHA256SUMS"} == tree(folder).keys() - {"handoff.svg"}
    assert findings(out) == []


def test_no_room_is_said_before_anything_is_written(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest's sizes are compared with what the disk has."""
    file = packed(tmp_path)
    monkeypatch.setattr(importing.shutil, "disk_usage",
                        lambda _: shutil._ntuple_diskusage(1, 1,
                                                           1000))  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="make room"):
        importing.import_archive(file, tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()


def test_disk_that_fills_up_leaves_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No space left in the middle of unpacking: one line, and neither folder nor leftovers."""
    file = packed(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    written = []

    class Full(io.BytesIO):
        def write(self, data: object, /) -> int:
            if len(written) > 5:
                raise OSError(errno.ENOSPC, "No space left on device")
            written.append(data)
            return len(data)  # type: ignore[arg-type]

    monkeypatch.setattr(importing, "create_file", lambda _: Full())
    with pytest.raises(UserError, match="No space left") as said:
        importing.import_archive(file, tmp_path / "results" / "run", tmp_path)
    assert said.value.status == 1 and len(written) == 6
    assert_nothing_came(tmp_path / "results", tmp_path / "results" / "run", before)


def test_export_onto_a_full_disk_leaves_no_archive(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive is there whole or not at all."""
    folder = make(tmp_path / "run")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archive, "_add_member", full)
    with pytest.raises(UserError, match="No space left"):
        archive.export_folder(folder, tmp_path / "x.tar.gz", "all")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_export_overwrites_nothing(tmp_path: Path) -> None:
    """A file under the archive's name stays what it is."""
    file = packed(tmp_path)
    file.write_text("precious")
    with pytest.raises(UserError, match="there already"):
        archive.export_folder(tmp_path / "run", file, "all")
    assert file.read_text() == "precious"


def test_file_that_changes_while_it_is_packed(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was judged is what is packed, or there is no archive."""
    folder = make(tmp_path / "run")
    whole = archive.write_archive

    def changing(*arguments: object) -> None:
        flip(folder / "records" / "P1-N2-001.json")
        whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(archive, "write_archive", changing)
    with pytest.raises(UserError, match=r"P1-N2-001.json changed"):
        archive.export_folder(folder, tmp_path / "x.tar.gz", "all")
    assert not (tmp_path / "x.tar.gz").exists()


def test_running_run_is_not_exported(tmp_path: Path) -> None:
    """A folder that is being written to is no state to share."""
    folder = make(tmp_path / "run")
    with ResultsFolder(folder), pytest.raises(UserError, match="a run is writing"):
        archive.export_folder(folder, tmp_path / "x.tar.gz", "all")
    assert archive.export_folder(folder, tmp_path / "x.tar.gz", "all").records == 4


def test_read_only_folder_is_exported_and_not_touched(tmp_path: Path) -> None:
    """Exporting and verifying need no right to write, and leave no trace."""
    folder = make(tmp_path / "run")
    (folder / ".lock").unlink()
    before = sorted(folder.rglob("*"))
    archive.export_folder(folder, tmp_path / "x.tar.gz", "all")
    verification.verify_results(folder)
    assert sorted(folder.rglob("*")) == before


def test_killed_import_leaves_nothing(qop: Qop) -> None:
    """SIGTERM in the middle of unpacking: tidied up, exit status 130."""
    folder = make(qop.folder / "run", plan_of(repetitions=1))
    log = os.urandom(30_000_000)
    results_folder.write(folder / "logs" / "P1-N2" / "long.log", log)
    archive.export_folder(folder, qop.folder / "x.tar.gz", "all")
    running = qop.start("import", "x.tar.gz")
    wait_until(lambda: list((qop.folder / "results").glob(".run.import-*/unpacked/logs/P1-N2/*"))
               or running.poll() is not None)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130, said
    assert list((qop.folder / "results").iterdir()) == []


def test_commands_from_export_to_verify(qop_here: Qop) -> None:
    """The whole way by the command line, in the words that it prints."""
    folder = make(qop_here.folder / "results" / "run")
    digest = hashlib.sha256((folder / "plan.json").read_bytes()).hexdigest()
    said = qop_here("export", "--captures", "all")
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("run.tar.gz: 4 records, 8 captures, 0.0 MB")
    said = qop_here("import", "run.tar.gz", "--out", "copy")
    assert re.fullmatch("copy: 4 records and 8 captures imported\n"
                        "  digest of its plan and records: [0-9a-f]{64}\n", said.stdout)
    assert f"{digest}  plan.json" in (qop_here.folder / "copy" / "SHA256SUMS").read_text()
    for place in ("copy", "run.tar.gz"):
        said = qop_here("verify", place)
        assert said.returncode == 0 and said.stdout.startswith(f"{place}: 4 records of 4 planned")
    said = qop_here("prune", "copy", "--captures", "none")
    assert said.stdout.startswith("copy: removed 8 captures") and said.returncode == 0
    for arguments in (("verify", "nowhere"), ("import", "nowhere"), ("export", "nowhere"),
                      ("prune", "nowhere", "--captures", "none")):
        said = qop_here(*arguments)
        assert said.returncode in {1, 2} and said.stderr.count("\n") == 1, said.stderr
        assert "nowhere" in said.stderr
    said = qop_here("export", "copy", "--records-only", "-o", "small.tar.xz")
    assert said.stdout.startswith("small.tar.xz: 4 records, 0 captures")
    for other in (("--captures", "all"), ("--wireshark", "x")):
        said = qop_here("export", "copy", "--records-only", *other)
        assert said.returncode == 2 and "goes without --records-only" in said.stderr
    said = qop_here("export", "copy", "-o", "nowhere/x.tar.gz")
    assert said.stderr.startswith("qop: nowhere/x.tar.gz: there is no folder to put it in; make ")
