"""Verifying: every kind of damage has its line, and what is whole has none."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Qop
from harness.engine import recording
from harness.engine.results import ResultsFolder
from harness.errors import UserError
from harness.portable import archive, checksums, folder, integrity, verification
from harness.portable.integrity import CaptureTest
from measure.records import manifest, record
from results_folder import PCAP, add_record, findings, flip, make, plan_of, seal_anew, write


def change(path: Path, old: str, new: str) -> None:
    """Replace a text in a file; it must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def alter(path: Path, **changes: object) -> None:
    """Change fields of a document, as somebody does who knows of its digest."""
    seal_anew(path, json.loads(path.read_text()) | changes)


def replan(folder: Path, old: str, new: str) -> None:
    """Change a plan as somebody does who knows of its digest."""
    plan = folder / "plan.json"
    change(plan, old, new)
    digest = manifest.plan_digest(json.loads(plan.read_text()))
    alter(plan, digest=digest)
    for file in (folder / "records").iterdir():
        entry = json.loads(file.read_text())
        alter(file, environment=entry["environment"] | {"plan": digest})


RECORD = "records/P1-N2-001.json"
CAPTURE = "captures/P1-N2-001/auth-air.pcap.gz"
#: Damage to a folder without checksums, and how the one finding begins.
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "record cut short": (lambda f: (f / RECORD).write_text((f / RECORD).read_text()[:900]),
                         f"{RECORD}: "),
    "record of noise": (lambda f: (f / RECORD).write_bytes(b"\xff\x00"), f"{RECORD}: is not text"),
    "record of another schema": (lambda f: change(f / RECORD, '"schema": 2', '"schema": 7'),
                                 f"{RECORD}: schema 7"),
    "record under another name": (
        lambda f: shutil.copy(f / RECORD, f / "records" / "P1-N2-009.json"),
        "records/P1-N2-009.json: holds the record P1-N2-001"),
    "policy not planned": (
        lambda f: add_record(f, plan_of(), "P2", 1), "records/P2-N2-001.json: policy P2 is not"),
    "policy edited since": (
        lambda f: change(f / RECORD, plan_of().levels["policy"][0].digest, "0" * 64),
        f"{RECORD}: was measured with another version of policy P1"),
    "record of another plan": (
        lambda f: add_record(f, plan_of("P1"), "P1", 1), f"{RECORD}: was measured for another"),
    "scenario not planned": (lambda f: replan(f, '"N2"', '"N1"'),
                             "plan.json: scenario N1 is not what its digest says"),
    "plan altered": (lambda f: change(f / "plan.json", "802.11b-long", "802.11b-short"),
                     "plan.json: is not what its digest says"),
    "measured under a control": (
        lambda f: change(f / RECORD, '"fault": null', '"fault": "no-wep"'),
        f"{RECORD}: was measured under the negative control 'no-wep', and the plan has no"),
    "control hidden in the plan": (
        lambda f: replan(f, '"fault": null', '"fault": "no-wep"'),
        f"{RECORD}: was measured under no negative control, and the plan has the negative"),
    "not proven": (lambda f: change(f / RECORD, '"ok": true', '"ok": false'),
                   f"{RECORD}: says ok, but 'air is open' does not hold"),
    "without evidence": (lambda f: alter(f / RECORD, evidence=[]),
                         f"{RECORD}: says ok, but it has no evidence"),
    "plan gone": (lambda f: (f / "plan.json").unlink(), "plan.json: is not there"),
    "plan damaged": (lambda f: (f / "plan.json").write_text("{"), "plan.json: "),
    "capture gone": (lambda f: (f / CAPTURE).unlink(),
                     f"{CAPTURE}: is missing; {RECORD} names it"),
    "capture cut short": (lambda f: (f / CAPTURE).write_bytes((f / CAPTURE).read_bytes()[:-9]),
                          f"{CAPTURE}: gzip stream is cut short"),
    "capture flipped": (lambda f: flip(f / CAPTURE, -6), f"{CAPTURE}: gzip stream is damaged"),
    "capture of something else": (
        lambda f: (f / CAPTURE).write_bytes(gzip.compress(b"<html>")),
        f"{CAPTURE}: is not a packet capture"),
    "capture as a link": (
        lambda f: ((f / CAPTURE).unlink(), (f / CAPTURE).symlink_to("/dev/null")),
        f"{CAPTURE}: is no plain file"),
    "capture outside the folder": (
        lambda f: change(f / RECORD, "auth-air.pcap", "../../x.pcap"),
        f"{RECORD}: names a capture that cannot be one"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_has_its_line(tmp_path: Path, how: str) -> None:
    """Each damage is named where it is, on one line; and such a folder is not exported."""
    folder = make(tmp_path / "run")
    write(folder / "captures" / "P1-N2-003" / "auth-air.pcap.gz", b"left by a killed run")
    assert findings(folder) == []
    damage, words = DAMAGE[how]
    damage(folder)
    found = findings(folder)
    assert found and found[0].startswith(words) and "\n" not in "".join(found)
    with pytest.raises(UserError, match="put them right first"):
        archive.export_folder(folder, tmp_path / "x.tar.gz", "all")
    assert not (tmp_path / "x.tar.gz").exists()


@pytest.mark.parametrize("name", [RECORD, "plan.json"])
def test_what_is_no_plain_file_is_not_read(tmp_path: Path, name: str) -> None:
    """A link shows what the folder does not hold, and a pipe would be waited for: neither is read.

    Verify names it, and a report reads none either.
    """
    folder = make(tmp_path / "run")
    away = (folder / name).rename(tmp_path / "away.json")
    for put in (lambda: (folder / name).symlink_to(away), lambda: os.mkfifo(folder / name)):
        put()
        assert f"{name}: is no plain file, and nothing of it was looked at; move it away" \
            in findings(folder)
        with pytest.raises((record.RecordError, manifest.ManifestError), match="no plain file"):
            manifest.read_text(folder) if name == "plan.json" else record.read_record(
                folder / name)
        (folder / name).unlink()


def test_records_of_another_folder_are_not_this_ones(tmp_path: Path) -> None:
    """A link in the place of all records is named, too: a report would read what is behind it."""
    folder = make(tmp_path / "run")
    records = (folder / "records").rename(tmp_path / "elsewhere")
    (folder / "records").symlink_to(records)
    assert "records: is no plain file, and nothing of it was looked at; move it away" \
        in findings(folder)


def test_what_is_larger_than_any_record_is_not_read(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By verify nor by a report, however much memory there is."""
    folder = make(tmp_path / "run")
    size = (folder / RECORD).stat().st_size
    for module in (record, integrity):
        monkeypatch.setattr(module, "LARGEST_DOCUMENT_BYTES", size - 1)
    assert f"{RECORD}: has {size} bytes, more than such a file ever has" in findings(folder)
    with pytest.raises(record.RecordError, match=f"{size} bytes, more than such a file ever has"):
        record.read_record(folder / RECORD)


def test_one_finding_for_one_damage(tmp_path: Path) -> None:
    """A capture that is gone is one finding, not one for the list and one for the record too."""
    folder = make(tmp_path / "run")
    (folder / CAPTURE).unlink()
    assert findings(folder) == [f"{CAPTURE}: is missing; {RECORD} names it"]


def test_one_finding_in_a_sealed_folder(tmp_path: Path) -> None:
    """Listed, named by a record, and gone: still one finding."""
    folder = make(tmp_path / "run")
    verification.verify_results(folder, write=True)
    (folder / CAPTURE).unlink()
    assert findings(folder) == [f"{CAPTURE}: is missing; SHA256SUMS lists it"]


@pytest.mark.parametrize("path", [RECORD, CAPTURE, "plan.json", "logs/P1-N2/ap-a-hostapd.log"])
def test_checksums_find_what_nothing_else_would(tmp_path: Path, path: str) -> None:
    """After --write, a change that leaves a file readable is found in any of them."""
    folder = make(tmp_path / "run")
    assert verification.verify_results(folder, write=True).sealed == 4 + 8 + 2 + 1
    assert verification.verify_results(folder).ok
    place = folder / path
    if path == CAPTURE:
        place.write_bytes(gzip.compress(PCAP))
    else:
        place.write_text(place.read_text() + " ")
    assert findings(folder) == [f"{path}: is not what it was when SHA256SUMS was written"]
    sums = (folder / "SHA256SUMS").read_text()
    assert not verification.verify_results(folder, write=True).ok
    assert (folder / "SHA256SUMS").read_text() == sums
    with pytest.raises(UserError, match="is not what it was"):
        archive.export_folder(folder, tmp_path / "x.tar.gz", "all")


def test_write_takes_in_what_is_new(tmp_path: Path) -> None:
    """Files that came later are findings until --write lists them; reports never are."""
    folder = make(tmp_path / "run")
    verification.verify_results(folder, write=True)
    write(folder / "tables" / "table4.csv", b"1\n")
    (folder / "handoff.svg").write_bytes(b"<svg>made anew</svg>")
    assert findings(folder) == []
    write(folder / "logs" / "P1-N2" / "more.log", b"x")
    assert findings(folder) == ["logs/P1-N2/more.log: is not listed in SHA256SUMS"]
    assert verification.verify_results(folder, write=True).sealed == 16
    done = subprocess.run(["sha256sum", "--strict", "--quiet", "-c", "SHA256SUMS"], cwd=folder,
                          capture_output=True, check=False)
    assert done.returncode == 0 and verification.verify_results(folder).ok


def test_a_run_that_goes_on_breaks_the_seal(tmp_path: Path) -> None:
    """New results make old checksums wrong, so a run takes them away; a mere look does not."""
    folder = make(tmp_path / "run")
    verification.verify_results(folder, write=True)
    with ResultsFolder(folder) as kept:
        kept.adopt_plan(plan_of())
        assert (folder / "SHA256SUMS").exists()
        plan = plan_of()
        kept.keep_record(recording.make_unmeasured_record(plan, plan.all_steps()[0], "lost",
                                                          attempt=1,
                                                          environment={"plan": plan.digest}), None)
    assert not (folder / "SHA256SUMS").exists()
    assert findings(folder) == []


def test_verify_waits_for_nobody(tmp_path: Path) -> None:
    """While a run is writing nothing can be said, and that is what is said."""
    folder = make(tmp_path / "run")
    for write_sums in (False, True):
        with ResultsFolder(folder), pytest.raises(UserError, match="a run is writing"):
            verification.verify_results(folder, write=write_sums)


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    """Not a results folder, not there, or --write for an archive: one line each."""
    with pytest.raises(UserError, match="neither a plan nor records"):
        verification.verify_results(tmp_path)
    with pytest.raises(UserError, match="No such file"):
        verification.verify_results(tmp_path / "nowhere")
    file = archive.export_folder(make(tmp_path / "run"), tmp_path / "x.tar.gz", "none").file
    with pytest.raises(UserError, match="--write is for folders"):
        verification.verify_results(file, write=True)


def test_findings_on_the_command_line(qop_here: Qop) -> None:
    """One line a finding on standard output and exit status 1."""
    folder = make(qop_here.folder / "run")
    (folder / CAPTURE).unlink()
    (folder / RECORD.replace("001", "002")).write_text("{}")
    done = qop_here("verify", "run")
    assert done.returncode == 1 and done.stderr == ""
    assert len(done.stdout.splitlines()) == 2 and CAPTURE in done.stdout


@pytest.mark.parametrize(("content", "words"), [
    (gzip.compress(PCAP), ""),
    (gzip.compress(PCAP[:10]) + gzip.compress(PCAP[10:]) + bytes(512), ""),
    (gzip.compress(PCAP + bytes(30_000_000)), ""),
    (gzip.compress(PCAP + bytes(30_000_000))[:-1], "cut short"),
    (gzip.compress(b"\x0a\x0d\x0d\x0a" + bytes(100)), ""),
    (gzip.compress(PCAP) + b"tail", "damaged"),
    (gzip.compress(b""), "not a packet capture"),
    (b"", "cut short"),
    (PCAP, "damaged"),
], ids=["pcap", "two streams", "zeros", "zeros cut short", "pcapng", "tail", "empty inside",
        "empty", "not compressed"])
@pytest.mark.parametrize("piece", [1 << 18, 7])
def test_capture_test(content: bytes, words: str, piece: int) -> None:
    """The gzip test agrees with gzip, however the file is cut into pieces."""
    test = CaptureTest("x.pcap.gz")
    for at in range(0, len(content), piece):
        test.feed_piece(content[at:at + piece])
    said = test.find_fault()
    assert words in said and bool(said) == bool(words)


@pytest.mark.parametrize(("text", "words"), [
    ("0" * 64 + "  ../x\n", "line 1"), ("abc  x\n", "line 1"),
    (("0" * 64 + "  x\n") * 2, "second time"), ("0" * 64 + "  /etc/passwd", "line 1")])
def test_lists_that_are_none(text: str, words: str) -> None:
    """SHA256SUMS names files below it, each once."""
    with pytest.raises(checksums.ChecksumError, match=words):
        checksums.parse_sums(text, "SHA256SUMS")


def test_sealed_list_reads_as_written() -> None:
    """Rendering and parsing are inverse, for binary marks of sha256sum too."""
    sums = {"b c.log": "1" * 64, "a/é": "2" * 64}
    assert checksums.parse_sums(checksums.render_sums(sums), "x") == sums
    assert checksums.parse_sums(checksums.render_sums(sums).replace("  ", " *", 1), "x") == sums


@pytest.mark.parametrize(("path", "kind"), [
    ("plan.json", "plan"), ("provenance.json", "provenance"), ("records/P1-N2-001.json", "record"),
    ("captures/P1-N2-001/auth-air.pcap.gz", "capture"), ("logs/a/b.log", "log"),
    ("report.html", "report"), ("tables/1.csv", "report"), ("handoff.png", "report"),
    ("latency.svg", "report"), ("latency.svg.txt", None), ("drawings/x.svg", None),
    ("records/.P1.tmp", None), ("records/../plan.json", None), ("captures/x", None),
    ("files/P1-N2-001/raw.json.gz", "file"), ("files/P1-N2-001/client.keytab", "file"),
    ("superseded/1a2b/records/P1-N2-001.json", "provenance"),
    ("provenance.1a2b.json", "provenance"), ("logs/x.html", None), ("logs/x", None),
    ("files/P1-N2-001/x.svg", None), ("files/P1-N2-001/x.html.gz", None),
    ("superseded/1a2b/records/x.html", None), ("provenance/x.html", None),
    ("work/secret", None), ("/plan.json", None), ("logs//x.log", None), ("logs/x.log\n", None)])
def test_kinds(path: str, kind: str | None) -> None:
    """What belongs to a results folder, and what does not."""
    found = folder.find_file_kind(path)
    assert (found.value if found else None) == kind
