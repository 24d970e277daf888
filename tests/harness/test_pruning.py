"""Pruning: captures go by choice, with a note that excuses those and no others."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.engine.results import ResultsFolder
from harness.errors import UserError
from harness.portable import archive, importing, verification
from harness.portable.folder import PrunedCaptures, RemovedCaptures
from results_folder import add_record, findings, make, plan_of, tree, write

RECORD = "records/P1-N2-001.json"
CAPTURE = "captures/P1-N2-001/auth-air.pcap.gz"


@pytest.mark.parametrize(("choice", "left"), [
    ("keep-failed", {"P8-N2-001/auth-air.pcap.gz", "P8-N2-001/traffic-air.pcap.gz"}),
    ("auth", {f"{name}/auth-air.pcap.gz" for name in
              ("P1-N2-001", "P1-N2-002", "P8-N2-001", "P8-N2-002")}),
    ("none", set()),
])
@pytest.mark.parametrize("sealed", [False, True])
def test_prune(tmp_path: Path, choice: str, left: set[str], *, sealed: bool) -> None:
    """What a choice keeps stays, the rest goes with a note; records and verify stay content."""
    folder = make(tmp_path / "run", failed=("P8-N2-001",))
    write(folder / "captures" / "P1-N2-003" / "auth-air.pcap.gz", b"left by a killed run")
    if sealed:
        shutil.rmtree(folder / "captures" / "P1-N2-003")
        verification.verify_results(folder, write=True)
    before = tree(folder)
    freed = archive.prune_captures(folder, choice)
    after = tree(folder)
    gone = before.keys() - after.keys()
    assert {path[9:] for path in after if path.startswith("captures/")} == left
    assert freed.captures == len(gone) == 8 - len(left) + (not sealed)
    assert freed.bytes == sum(len(before[path]) for path in gone)
    assert {path for path in after if after[path] != before.get(path)} - {"SHA256SUMS"} \
        == {"pruned.json"}
    assert findings(folder) == []
    noted = json.loads(after["pruned.json"])["captures"]
    assert {f"captures/{name}/{file}" for name, entry in noted.items() for file in entry["files"]} \
        == {path for path in gone if "P1-N2-003" not in path}
    if sealed:
        checked = subprocess.run(["sha256sum", "--strict", "--quiet", "-c", "SHA256SUMS"],
                                 cwd=folder, check=False, capture_output=True)
        assert checked.returncode == 0


def test_pruning_twice_adds_up(tmp_path: Path) -> None:
    """A second choice adds to the note of the first; a third finds nothing to do."""
    folder = make(tmp_path / "run")
    assert archive.prune_captures(folder, "auth").captures == 4
    assert archive.prune_captures(folder, "none").captures == 4
    assert findings(folder) == [] and not list(folder.glob("captures/*"))
    assert "8 removed or left out by choice" in verification.verify_results(folder).summary()
    before = tree(folder)
    assert archive.prune_captures(folder, "none") == archive.PruneResult(0, 0)
    assert tree(folder) == before


def test_a_part_without_captures_is_refused(tmp_path: Path) -> None:
    """What another study calls its parts would keep nothing here: one line, and nothing goes."""
    folder = make(tmp_path / "run")
    before = tree(folder)
    with pytest.raises(UserError, match="--captures echo: no capture here is of that part; "
                                        "choose from auth, traffic, keep-failed, none"):
        archive.prune_captures(folder, "echo")
    assert tree(folder) == before
    for path in list(folder.glob("captures/*/auth-*")):
        path.rename(path.with_name(path.name.replace("auth-", "echo-")))
    assert archive.prune_captures(folder, "echo").captures == 4
    assert {path.name for path in folder.glob("captures/*/*")} == {"echo-air.pcap.gz"}


def test_prune_refuses_while_a_run_is_writing(tmp_path: Path) -> None:
    """Not one capture goes while somebody may be about to read it."""
    folder = make(tmp_path / "run")
    before = tree(folder)
    with ResultsFolder(folder), pytest.raises(UserError, match="a run is writing"):
        archive.prune_captures(folder, "none")
    assert tree(folder) == before


def test_note_is_about_one_record_only(tmp_path: Path) -> None:
    """Once a repetition is measured anew, the old note excuses no missing capture of the new."""
    folder = make(tmp_path / "run")
    archive.prune_captures(folder, "none")
    add_record(folder, plan_of(), "P1", 1, tcp=4.0e6)
    assert findings(folder) == []
    (folder / CAPTURE).unlink()
    assert findings(folder) == [f"{CAPTURE}: is missing; {RECORD} names it"]
    archive.prune_captures(folder, "none")
    assert findings(folder) == [f"{CAPTURE}: is missing; {RECORD} names it"]


def test_note_of_an_old_record_gives_way() -> None:
    """What is noted of a new record does not inherit the files of the old one's note."""
    old = PrunedCaptures(captures={"x": RemovedCaptures(record_sha256="a", files={"1": 1})})
    same = old.with_removed({"x": RemovedCaptures(record_sha256="a", files={"2": 2})})
    new = old.with_removed({"x": RemovedCaptures(record_sha256="b", files={"2": 2})})
    assert same.captures["x"].files == {"1": 1, "2": 2} and new.captures["x"].files == {"2": 2}


def test_interrupted_pruning_is_noticed_and_finished(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the note and the last removal: verify says so, pruning again finishes it."""
    folder = make(tmp_path / "run")
    verification.verify_results(folder, write=True)

    def killed(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(archive, "_remove_empty", killed)
    with pytest.raises(KeyboardInterrupt):
        archive.prune_captures(folder, "none")
    assert len(findings(folder)) == 7
    assert all("give it again" in text for text in findings(folder))
    monkeypatch.undo()
    assert archive.prune_captures(folder, "none").captures == 7
    assert findings(folder) == []


def test_pruned_folder_travels(tmp_path: Path) -> None:
    """The note goes along with export and import."""
    folder = make(tmp_path / "run")
    archive.prune_captures(folder, "auth")
    file = archive.export_folder(folder, tmp_path / "x.tar.gz", "all").file
    assert findings(file) == []
    out = importing.import_archive(file, tmp_path / "out", tmp_path).folder
    assert findings(out) == []
    assert (out / "pruned.json").read_bytes() == (folder / "pruned.json").read_bytes()
