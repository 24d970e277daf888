"""Judging anew: kept records agree with their captures, and whatever was altered is named."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import recorded
from harness.commands import prune
from harness.commands.verify import command
from harness.engine import postprocessing, recording
from harness.engine.plan import Step
from harness.engine.provenance import hash_code
from harness.engine.results import ResultsFolder
from harness.portable import archive, importing, recomputation, verification
from measure.records import record
from plans import plan_of, with_levels
from policies import Policy
from results_folder import seal_anew
from studies import study as studies_study
from studies.policy_factors import policy_level
from studies.study import Repetition

#: A policy of a user's own that is P2 by another name: its file is nowhere.
OWN = "OWN-WEP"
SECRETS = {"network": {"wep_key": recorded.WEP_KEY, "passphrase": "not to be kept"}}
NAME = f"{OWN}-N2-001"
RECORD, CAPTURE = f"records/{NAME}.json", f"captures/{NAME}/traffic-air.pcap.gz"


@pytest.fixture(scope="module", autouse=True)
def dissected_once() -> Iterator[None]:
    """The same bytes are dissected once; what a test alters is other bytes."""
    with recorded.dissected_once():
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of a recorded repetition, judged and kept as a run does it."""
    folder = tmp_path_factory.mktemp("run") / "results"
    own = policy_level(Policy(id=OWN, name="own", layers=recorded.POLICIES["P2"].layers))
    plan = with_levels(plan_of("P1", asked={"authentications": "1"}), policy=[own])
    [cell] = plan.cells
    out = Path(shutil.copytree(recorded.FOLDER / "P2", folder.parent / "out"))
    with ResultsFolder(folder) as results:
        results.adopt_plan(plan)
        verdict = plan.study.judge(Repetition(cell, plan.asked, out, SECRETS))
        with pytest.MonkeyPatch.context() as patch:
            # Of the recording's run no other secret is known.
            patch.setattr("studies.qop2007.study.Qop2007.judged_with", ("network.wep_key",))
            entry = recording.make_judged_record(plan, Step(cell, 1), verdict, attempt=1,
                                                 secrets=SECRETS,
                                                 environment={"plan": plan.digest})
        sums = postprocessing.pack_files(out, [capture["file"] for capture in entry.captures], [],
                                         keeps_captures=True)
        results.keep_record(entry.model_copy(update={"sha256": sums}), out)
    assert entry.status == "ok"
    return folder


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    """A copy of the folder, to be altered."""
    return Path(shutil.copytree(run, tmp_path / "results"))


def redone(folder: Path) -> recomputation.RecordRecomputation:
    """What comes of the folder's only record."""
    verdict = verification.verify_results(folder)
    assert verdict.ok
    return recomputation.recompute_record(folder, verdict.survey.plan, NAME,
                                          verdict.survey.records[NAME])


def change(path: Path, alter: Callable[[Any], Any]) -> None:
    """Alter a JSON document, compressed or not."""
    packed = path.suffix == ".gz"
    text = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    document = json.loads(text)
    alter(document)
    if packed:
        path.write_bytes(gzip.compress(json.dumps(document).encode()))
    else:
        seal_anew(path, document)


def test_an_archive_is_judged_anew_elsewhere(run: Path, tmp_path: Path) -> None:
    """By content alone: neither the user's policy nor the run's key is anywhere but in it."""
    packed = archive.export_folder(run, tmp_path / "run.tar.gz", "all").file
    imported = importing.import_archive(packed, tmp_path / "there", tmp_path).folder
    for place in (packed, imported):
        done = CliRunner().invoke(command, ["--redo", str(place)], standalone_mode=False)
        assert done.return_value == 0, done.output
        assert done.output.endswith("; 1 records judged anew say the same\n")
    assert record.read_record(run / RECORD).secrets == {"network.wep_key": recorded.WEP_KEY}


def test_one_byte_of_a_capture_is_named(copied: Path) -> None:
    """Compressed anew, it is whole by every other test; and what it does to the record is told."""
    content = bytearray(gzip.decompress((copied / CAPTURE).read_bytes()))
    content[-1] ^= 1
    (copied / CAPTURE).write_bytes(gzip.compress(content))
    [difference] = redone(copied).differences
    assert difference == f"{RECORD}: {CAPTURE} is not what was judged, by its SHA-256"


def half(capture: bytes) -> bytes:
    """The first half of a capture, cut where a packet ends."""
    at = 24
    while at < len(capture) // 2:
        at += 16 + int.from_bytes(capture[at + 8:at + 12], "little")
    return capture[:at]


def test_a_capture_whose_checksum_was_altered_with_it_does_not_bear_the_record_out(
        copied: Path) -> None:
    """Frames that are gone are missed by the evidence, however well their capture is sealed."""
    short = half(gzip.decompress((copied / CAPTURE).read_bytes()))
    (copied / CAPTURE).write_bytes(gzip.compress(short))
    (copied / "short.pcap").write_bytes(short)
    change(copied / RECORD, lambda entry: entry["sha256"].update(
        {"traffic-air.pcap": postprocessing.hash_file(copied / "short.pcap")}))
    differences = redone(copied).differences
    assert differences[0] == f'{RECORD}: status is "ok", and "failed" by what is kept'
    assert any(line.startswith(f"{RECORD}: evidence[") for line in differences)


def numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a document has numbers."""
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(entry, (*path, key))
    elif isinstance(value, int | float):
        yield path


def test_each_number_of_a_record_is_compared(run: Path) -> None:
    """Any number of the body or of the raw values, altered by a millionth or turned, is named."""
    entry = record.read_record(run / RECORD).model_dump(mode="json", by_alias=True)
    places = [place for field in recomputation._COMPARED for place
              in numbers(entry[field], (field,))]
    assert len(places) > 100
    for place in places:
        altered = copy.deepcopy(entry)
        *above, last = place
        target: Any = altered
        for key in above:
            target = target[key]
        value = target[last]
        target[last] = not value if isinstance(value, bool) else (
            value * (1 + 1e-6) if isinstance(value, float) and value else value + 1)
        [said] = [line for field in recomputation._COMPARED
                  for line in recomputation.find_differences(altered[field], entry[field], field)]
        assert said.startswith(place[0]), said


@pytest.mark.parametrize(("file", "alter", "said"), [
    (RECORD, lambda entry: entry["measured"]["tcp"].update(goodput_bps=7e6),
     "measured.tcp.goodput_bps is 7000000.0, and "),
    (RECORD, lambda entry: entry["evidence"][0].update(detail="9 packets, 0 dropped"),
     'evidence[captures are complete].detail is "9 packets'),
    (RECORD, lambda entry: entry.update(secrets={"network.wep_key": "00" * 13}),
     "evidence[static WEP key in use].ok is true, and false by"),
    (f"files/{NAME}/raw.json.gz",
     lambda raw: raw["iperf_tcp"]["end"]["sum_received"].update(bytes=9),
     f"files/{NAME}/raw.json.gz is not what was judged"),
])
def test_what_was_altered_is_named(copied: Path, file: str, alter: Callable[[Any], Any],
                                   said: str) -> None:
    """A number, the evidence's words, the key, the raw values: a line for each."""
    change(copied / file, alter)
    differences = redone(copied).differences
    assert any(line.startswith(f"{RECORD}: {said}") for line in differences), differences


GAINED = "initialisation vectors differ"


def older(entry: dict[str, Any]) -> None:
    """Make a record one of code that had one check less."""
    entry["environment"]["code_sha256"] = "0" * 64
    entry["evidence"] = [check for check in entry["evidence"] if check["check"] != GAINED]


def test_a_check_that_is_newer_than_a_record_is_a_note(copied: Path) -> None:
    """The study keeps its version when it gains a check, so older records are no liars."""
    change(copied / RECORD, older)
    assert not redone(copied).differences
    done = CliRunner().invoke(command, ["--redo", str(copied)], standalone_mode=False)
    assert done.return_value == 0, done.output
    note, summary = done.output.splitlines()
    assert note == f"{RECORD}: the check '{GAINED}' is newer than the record, and holds"
    assert summary.endswith("; 1 records judged anew say the same")


def test_a_newer_check_that_does_not_hold_is_named_as_newer(
        copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its detail stands there, and no list of all evidence."""
    change(copied / RECORD, older)
    judge = studies_study.judge_repetition

    def judge_with_failure(*given: Any) -> Any:
        verdict = judge(*given)
        return dataclasses.replace(verdict, evidence=[
            check.model_copy(update={"ok": check.check != GAINED}) for check in verdict.evidence])

    monkeypatch.setattr(studies_study, "judge_repetition", judge_with_failure)
    first, *others = redone(copied).differences
    assert first.startswith(f"{RECORD}: the check '{GAINED}' is newer than the record, and does "
                            "not hold by what is kept (")
    assert not any("evidence" in line for line in others)


def test_a_check_that_the_code_of_a_record_makes_was_taken_out(copied: Path) -> None:
    """The record says by which code it was written: that of today, which makes the check."""
    change(copied / RECORD, lambda entry: (older(entry), entry["environment"].update(
        code_sha256=hash_code("qop2007"))))
    [difference] = redone(copied).differences
    assert difference.startswith(f"{RECORD}: evidence is [")


def test_a_setting_that_a_newer_rule_names_as_unproven_is_a_note(
        copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of today that does not name it was altered."""
    monkeypatch.setattr(recomputation, "list_unchecked", lambda *_: ["link.ocv.hostapd"])
    change(copied / RECORD, lambda entry: entry["environment"].update(code_sha256="0" * 64))
    found = redone(copied)
    assert not found.differences
    assert list(found.newer) == ["is older than the rule that names link.ocv.hostapd as unproven"]
    change(copied / RECORD, lambda entry: entry["environment"].update(
        code_sha256=hash_code("qop2007")))
    assert redone(copied).differences == [
        f'{RECORD}: unchecked is [], and ["link.ocv.hostapd"] by what is kept']


def test_what_differs_is_a_bad_end(copied: Path) -> None:
    """The command's exit status is 1, and its output names what was altered."""
    change(copied / RECORD, lambda entry: entry["measured"]["udp"].update(goodput_bps=7e6))
    done = CliRunner().invoke(command, ["--redo", str(copied)], standalone_mode=False)
    assert done.return_value == 1
    assert f"{RECORD}: measured.udp.goodput_bps is 7000000.0, and " in done.output


def altered(copied: Path, alter: Callable[[Any], Any]) -> recomputation.RecordRecomputation:
    """The same once its record was altered: whether the folder verifies does not matter."""
    plan = verification.verify_results(copied).survey.plan
    change(copied / RECORD, alter)
    return recomputation.recompute_record(copied, plan, NAME, record.read_record(copied / RECORD))


@pytest.mark.parametrize("damage", [
    lambda content: content[:len(content) // 2] + bytes([content[len(content) // 2] ^ 255])
    + content[len(content) // 2 + 1:],
    lambda content: content[:12] + b"\xff" * 20 + content[32:],
    lambda content: content[:200], lambda _: b"no gzip", lambda _: b"",
], ids=["flipped", "no deflate", "cut short", "something else", "empty"])
@pytest.mark.parametrize("file", [f"files/{NAME}/raw.json.gz", CAPTURE])
def test_a_damaged_file_has_one_line(copied: Path, file: str,
                                     damage: Callable[[bytes], bytes]) -> None:
    """By the command, and by judging anew alone; whatever the decompressor makes of it."""
    plan, entry = verification.verify_results(copied).survey.plan, record.read_record(
        copied / RECORD)
    (copied / file).write_bytes(damage((copied / file).read_bytes()))
    done = CliRunner().invoke(command, ["--redo", str(copied)], standalone_mode=False)
    assert done.return_value == 1
    [line] = done.output.splitlines()
    assert line.startswith(f"{file}: gzip stream is ")
    assert plan is not None
    [difference] = recomputation.recompute_record(copied, plan, NAME, entry).differences
    assert file in difference and "\n" not in difference


UNJUDGED = {"status": "failed", "evidence": [], "captures": [], "files": [], "measured": None}


@pytest.mark.parametrize(("alter", "reason"), [
    (lambda entry: entry.update(UNJUDGED), "came to no judgement"),
    (lambda entry: entry.update(UNJUDGED | {"captures": [{"file": "auth-mn.pcap"}]}),
     "was measured before raw.json.gz was kept"),
    (lambda entry: entry["study"].update(version=7), "is of version 7 of qop2007, which is of"),
])
def test_what_cannot_be_judged_anew_says_why(
        copied: Path, alter: Callable[[Any], Any], reason: str) -> None:
    """A line with the reason, and no agreement, where nothing is claimed or nobody here can."""
    entry = altered(copied, alter)
    assert reason in entry.not_redone
    assert not entry.differences


@pytest.mark.parametrize(("alter", "reason"), [
    (lambda entry: entry.update(files=[]), "was measured before raw.json.gz was kept"),
    (lambda entry: entry.update(captures=[], files=[], sha256={}),
     "was measured before raw.json.gz was kept"),
    (lambda entry: entry["captures"].append({"file": "more.pcap"}),
     f"needs captures/{NAME}/more.pcap.gz, which is not there"),
    (lambda entry: entry["files"].append("../../x"), "names a file that cannot be one"),
    (lambda entry: entry["asked"].update(new=1), "of its cell too little is kept"),
])
def test_a_record_that_says_ok_has_to_have_something_to_show_for_it(
        copied: Path, alter: Callable[[Any], Any], reason: str) -> None:
    """Whoever takes away what it can be judged by gets a finding, not a note."""
    entry = altered(copied, alter)
    [difference] = entry.differences
    assert difference.startswith(f"{RECORD}: says ok, and cannot be judged anew: {reason}")


def test_one_doctored_record_among_good_ones_is_a_bad_end(copied: Path) -> None:
    """A second record, whose files are nowhere and which names none, fails the whole command."""
    document = json.loads((copied / RECORD).read_text())
    document.update(repetition=2, captures=[], files=[], sha256={})
    seal_anew((copied / RECORD).with_name(f"{OWN}-N2-002.json"), document)
    assert verification.verify_results(copied).ok
    done = CliRunner().invoke(command, ["--redo", str(copied)], standalone_mode=False)
    assert done.return_value == 1
    assert f"{OWN}-N2-002.json: says ok, and cannot be judged anew: was measured" in done.output
    assert "say the same" not in done.output


def test_captures_that_a_run_did_not_keep_are_no_damage_and_no_proof(copied: Path) -> None:
    """As after `qop run --captures none`: whole, to be exported, and not verified anew."""
    second = f"{OWN}-N2-002"
    entry = record.read_record(copied / RECORD).model_copy(update={"repetition": 2})
    record.write_record(recording.add_checksums(entry, entry.sha256, keeps=False),
                        copied / "records")
    shutil.copytree(copied / "files" / NAME, copied / "files" / second)
    verdict = verification.verify_results(copied, redo=True)
    assert verdict.ok
    assert verdict.summary().endswith(
        "; 1 of 2 records judged anew say the same, not redone: 1 records kept no captures")
    [note] = verdict.reader_notes
    assert note == (f"records/{second}.json: not judged anew: its captures were left out or "
                    "removed by choice")
    assert f"{len(entry.captures)} removed or left out by choice" in verdict.summary()
    archive.export_folder(copied, copied.parent / "run.tar.gz", "all")
    (copied / RECORD).unlink()
    shutil.rmtree(copied / "captures")
    assert not verification.verify_results(copied, redo=True).ok


def test_what_a_folder_refers_to_outside_is_not_read(copied: Path, tmp_path: Path) -> None:
    """A symbolic link in a capture's place, or in that of the folder above it."""
    plan, entry = verification.verify_results(copied).survey.plan, record.read_record(
        copied / RECORD)
    captures = copied / "captures" / NAME
    away = tmp_path / "away"
    captures.rename(away)
    captures.symlink_to(away)
    assert "which is not there" in recomputation.recompute_record(copied, plan, NAME,
                                                                  entry).differences[0]
    captures.unlink()
    away.rename(captures)
    capture = next(iter(captures.iterdir()))
    capture.unlink()
    capture.symlink_to(__file__)
    assert "which is not there" in recomputation.recompute_record(copied, plan, NAME,
                                                                  entry).differences[0]


def test_a_capture_that_unpacks_without_end_is_not_unpacked(
        copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused at the bound."""
    monkeypatch.setattr(recomputation, "_MAX_BYTES", 0)
    monkeypatch.setattr(recomputation, "_PIECE_BYTES", 16)
    plan, entry = verification.verify_results(copied).survey.plan, record.read_record(
        copied / RECORD)
    assert "unpacks to more than" in recomputation.recompute_record(copied, plan, NAME,
                                                                    entry).differences[0]


def test_pruned_captures_and_studies_that_cannot_are_notes(
        copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is absent by choice is no damage; but with nothing judged nothing is confirmed."""
    entry = record.read_record(copied / RECORD)
    plan = verification.verify_results(copied).survey.plan
    monkeypatch.setattr("studies.qop2007.study.Qop2007.not_redone", "needs what nobody keeps")
    assert recomputation.recompute_record(copied, plan, NAME,
                                          entry).not_redone == "needs what nobody keeps"
    monkeypatch.undo()
    CliRunner().invoke(prune.command, [str(copied), "--captures", "none"])
    done = CliRunner().invoke(command, ["--redo", str(copied)], standalone_mode=False)
    assert done.return_value == 1
    assert f"{RECORD}: not judged anew: its captures were left out or removed" in done.output


def test_a_level_that_is_not_what_its_digest_says_is_refused(copied: Path) -> None:
    """The plan's own word on a policy is compared with its digest, which every record bears."""
    change(copied / "plan.json",
           lambda plan: plan["levels"]["policy"][OWN]["content"].update(layers={}))
    verdict = verification.verify_results(copied)
    [finding] = verdict.findings
    assert finding.text.startswith("plan.json: policy OWN-WEP is not what its digest says")
    assert verdict.survey.plan is not None
    [difference] = recomputation.recompute_record(copied, verdict.survey.plan, NAME,
                                                  verdict.survey.records[NAME]).differences
    assert "policy OWN-WEP is not what its digest says" in difference
