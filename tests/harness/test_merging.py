"""Import into a folder that is there: what it lacks comes in, what it has stays as it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.engine.results import ResultsFolder, find_latest_folder
from harness.errors import UserError
from harness.portable import archive, importing, verification
from results_folder import add_record, findings, flip, make, packed, plan_of, tree, write


@pytest.fixture
def halves(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with two of four records, and an archive with three, one of them in both."""
    whole = make(tmp_path / "run")
    here = tmp_path / "here"
    shutil.copytree(whole, here)
    for folder, names in ((here, ("P1-N2-002", "P8-N2-002")), (whole, ("P1-N2-001",))):
        for name in names:
            (folder / "records" / f"{name}.json").unlink()
            shutil.rmtree(folder / "captures" / name)
    return here, archive.export_folder(whole, tmp_path / "run.tar.gz", "all").file


def test_two_halves_become_a_whole(halves: tuple[Path, Path], tmp_path: Path) -> None:
    """The union by content, checksums for all of it, and nothing of the folder's own touched."""
    here, file = halves
    before = tree(here)
    done = importing.import_archive(file, here, tmp_path)
    assert (done.new, done.records, done.added, done.captures) == (False, 3, 2, 4)
    after = tree(here)
    assert {path: after[path] for path in before} == before
    assert {path.stem for path in (here / "records").iterdir()} == {
        "P1-N2-001", "P1-N2-002", "P8-N2-001", "P8-N2-002"}
    verdict = verification.verify_results(here)
    assert verdict.ok and verdict.survey.sums is not None and len(verdict.survey.sums) == 15
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "run", "run.tar.gz"]


def test_importing_again_changes_nothing(halves: tuple[Path, Path], tmp_path: Path) -> None:
    """The same archive a second time adds nothing, to a merged folder or to a new one."""
    here, file = halves
    for folder in (here, tmp_path / "new"):
        importing.import_archive(file, folder, tmp_path)
        before = tree(folder)
        assert importing.import_archive(file, folder, tmp_path).added == 0
        assert tree(folder) == before


@pytest.mark.parametrize("path", ["records/P8-N2-001.json",
                                  "captures/P8-N2-001/traffic-air.pcap.gz"])
def test_different_ones_under_one_name(halves: tuple[Path, Path], tmp_path: Path,
                                       path: str) -> None:
    """One name for two measurements: refused by name, and not even the rest comes in."""
    here, file = halves
    if path.startswith("records"):
        add_record(here, plan_of(), "P8", 1, tcp=3.9e6)
    else:
        flip(here / path)
    before = tree(here)
    with pytest.raises(UserError, match=rf"{path} differs from that in .*--out") as refused:
        importing.import_archive(file, here, tmp_path)
    assert "\n" not in str(refused.value) and tree(here) == before


@pytest.mark.parametrize("prepare", [
    lambda place: make(place, plan_of("P1", "P2")),
    lambda place: write(place / "thesis.tex", b"two years"),
    lambda place: place.write_text("a file"),
    lambda place: place.symlink_to("nowhere"),
], ids=["another plan", "something else", "a file", "a dangling link"])
def test_what_is_there_is_not_overwritten(tmp_path: Path, prepare: object) -> None:
    """A place that holds anything else is left alone."""
    file = packed(tmp_path)
    place = tmp_path / "place"
    prepare(place)  # type: ignore[operator]
    before = tree(place) if place.is_dir() else None
    names = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(UserError, match="--out"):
        importing.import_archive(file, place, tmp_path)
    assert before is None or tree(place) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_empty_folder_is_filled(tmp_path: Path) -> None:
    """A folder that somebody made for it will do."""
    file = packed(tmp_path)
    (tmp_path / "out").mkdir()
    assert importing.import_archive(file, tmp_path / "out", tmp_path).new
    assert findings(tmp_path / "out") == []


def test_logs_of_two_machines_are_both_kept(halves: tuple[Path, Path], tmp_path: Path) -> None:
    """Logs and provenance may differ; the newcomer gets a name that follows from its content."""
    here, file = halves
    (here / "logs" / "P1-N2" / "ap-a-hostapd.log").write_text("another machine")
    (here / "handoff.svg").write_text("another picture")
    for _ in range(2):
        importing.import_archive(file, here, tmp_path)
        logs = sorted((here / "logs" / "P1-N2").iterdir())
        assert [path.read_text() for path in logs] == ["P1-N2\n", "another machine"]
    assert (here / "handoff.svg").read_text() == "another picture"
    assert findings(here) == []


def test_the_larger_plan_stays(tmp_path: Path) -> None:
    """Plans of one digest that ask for more or fewer repetitions: the merged folder holds more."""
    small = make(tmp_path / "small", plan_of(repetitions=1))
    verification.verify_results(small, write=True)
    file = packed(tmp_path)
    done = importing.import_archive(file, small, tmp_path)
    assert done.added == 2 and json.loads((small / "plan.json").read_text())["settings"][
        "repetitions"] == 2
    other = archive.export_folder(make(tmp_path / "tiny", plan_of(repetitions=1)),
                                  tmp_path / "tiny.tar.gz", "all").file
    importing.import_archive(other, small, tmp_path)
    assert json.loads((small / "plan.json").read_text())["settings"]["repetitions"] == 2
    assert findings(small) == []


def test_captures_come_back(tmp_path: Path) -> None:
    """Captures that were pruned here and are in the archive are here again, the note gone."""
    file = packed(tmp_path)
    folder = tmp_path / "run"
    archive.prune_captures(folder, "auth")
    done = importing.import_archive(file, folder, tmp_path)
    assert (done.added, done.captures) == (0, 4)
    assert findings(folder) == [] and not (folder / "pruned.json").exists()


def test_note_and_its_checksum_change_together(tmp_path: Path) -> None:
    """A sealed folder to which some captures come back has a shorter note, and verifies."""
    file = packed(tmp_path, "failed", failed=("P1-N2-001",))
    folder = tmp_path / "run"
    archive.prune_captures(folder, "none")
    verification.verify_results(folder, write=True)
    assert importing.import_archive(file, folder, tmp_path).captures == 2
    assert findings(folder) == []
    assert "P1-N2-001" not in json.loads((folder / "pruned.json").read_text())["captures"]


def test_archive_without_captures_excuses_no_loss(tmp_path: Path) -> None:
    """A capture lost here is still missed after an import that left captures out."""
    file = packed(tmp_path, "none")
    folder = tmp_path / "run"
    lost = "captures/P1-N2-001/auth-air.pcap.gz"
    (folder / lost).unlink()
    importing.import_archive(file, folder, tmp_path)
    assert findings(folder) == [f"{lost}: is missing; records/P1-N2-001.json names it"]


def test_old_checksums_still_hold_after_a_merge(halves: tuple[Path, Path], tmp_path: Path) -> None:
    """A file that rotted or went before the import does not pass for good because of it."""
    here, file = halves
    gone = "logs/P1-N2/more.log"
    write(here / gone, b"x")
    verification.verify_results(here, write=True)
    (here / gone).unlink()
    rotten = "records/P1-N2-001.json"
    (here / rotten).write_text((here / rotten).read_text() + " ")
    importing.import_archive(file, here, tmp_path)
    assert findings(here) == [f"{gone}: is missing; SHA256SUMS lists it",
                              f"{rotten}: is not what it was when SHA256SUMS was written"]


def test_killed_merge_is_completed_by_another(halves: tuple[Path, Path], tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a merge ends, every record there has its captures, and a second import finishes."""
    here, file = halves
    rename, moves = Path.rename, []

    def killed(self: Path, target: Path) -> Path:
        if "unpacked" in self.parts:
            moves.append(target)
            if len(moves) > 5:
                raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        importing.import_archive(file, here, tmp_path)
    monkeypatch.undo()
    assert len(moves) == 6 and findings(here) == []
    importing.import_archive(file, here, tmp_path)
    assert len(list((here / "records").iterdir())) == 4 and findings(here) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "run", "run.tar.gz"]


def test_no_merge_under_a_running_run(halves: tuple[Path, Path], tmp_path: Path) -> None:
    """Who writes there has it to himself."""
    here, file = halves
    before = tree(here)
    with ResultsFolder(here), pytest.raises(UserError, match="a run is writing"):
        importing.import_archive(file, here, tmp_path)
    assert tree(here) == before


def test_unpacking_is_no_results_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While an import goes on in results/, the newest results are still the old ones."""
    root = tmp_path / "results"
    old = make(root / "2007-old")
    file = packed(tmp_path)
    found = []
    settle = importing._move_into_place

    def looking(*arguments: object) -> object:
        found.append(find_latest_folder(root))
        return settle(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(importing, "_move_into_place", looking)
    importing.import_archive(file, None, root)
    assert found == [old]


@pytest.mark.parametrize(("path", "name"), [
    ("logs/a.b/c", "logs/a.b/c.01234567"), ("logs/P1-N2/x.log", "logs/P1-N2/x.01234567.log"),
    ("provenance.json", "provenance.01234567.json")])
def test_names_beside(path: str, name: str) -> None:
    """The second of two files keeps its ending and its folder."""
    assert importing._name_by_content(path, "0123456789") == name
