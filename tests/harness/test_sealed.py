"""What is sealed is what is shown: no flipped bit and no edit changes a number or a word unnoticed.

An edit that is sealed anew is found by what contradicts it, or by another digest of plan and
records; one that is not, by the digest that every document carries of itself.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import analysis
import policies
from harness.commands import report
from harness.commands.compare import command as compare
from harness.commands.status import command as status
from harness.commands.verify import command as verify
from harness.errors import UserError
from harness.portable import archive, checksums, importing, recomputation, verification
from harness.portable.folder import read_manifest
from measure.records import record
from measure.records.document import (
    DIGEST_FIELD,
    find_non_finite,
    matches_digest,
    seal_text,
    to_printable,
)
from measure.records.manifest import Manifest
from measure.records.record import RecordError
from results_folder import findings, make, plan_of, seal_anew, tree
from studies import records as stored
from topologies.loader import TopologyError, load_medium, load_scenario

RECORD = "records/P1-N2-001.json"
FLIPS = 1000


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder that nobody has touched."""
    return make(tmp_path_factory.mktemp("sound") / "run")


@pytest.fixture
def copied(sound: Path, tmp_path: Path) -> Path:
    """A copy of the folder, to be altered."""
    return Path(shutil.copytree(sound, tmp_path / "run"))


def shown(folder: Path) -> Any:
    """What tables are made of: the plan and the usable records, or the line instead."""
    try:
        plan = read_manifest(folder)
        entries, complaints = stored.read_all(folder / "records")
    except UserError as error:
        return str(error)
    return plan, entries, complaints


def test_no_flipped_bit_changes_what_is_shown_unnoticed(sound: Path, copied: Path) -> None:
    """Of a plan's or a record's bits, each is noticed by every reader, without SHA256SUMS."""
    before = shown(sound)
    bits = random.Random(33)
    paths = [copied / "plan.json", *sorted((copied / "records").iterdir())]
    for _ in range(FLIPS):
        path = bits.choice(paths)
        content = path.read_bytes()
        at = bits.randrange(len(content))
        altered = content[:at] + bytes([content[at] ^ 1 << bits.randrange(8)]) + content[at + 1:]
        where = path.relative_to(copied).as_posix()
        path.write_bytes(altered)
        assert shown(copied) != before, (where, at)
        path.write_bytes(content)
        # A survey reads what verify, export and import judge.
        survey = verification.FolderSurvey()
        survey.add_file(where, io.BytesIO(altered))
        said = [finding.text for finding in survey.findings] + list(survey.altered.values())
        assert any(line.startswith(f"{where}: ") for line in said), (where, at)
    assert shown(copied) == before


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a document has numbers, words and truths."""
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(entry, (*path, key))
    elif isinstance(value, int | float | str):
        yield path


def edited(document: dict[str, Any], place: tuple[Any, ...]) -> dict[str, Any]:
    """A copy with another value in a place."""
    copy: dict[str, Any] = json.loads(json.dumps(document))
    target: Any = copy
    for key in place[:-1]:
        target = target[key]
    value = target[place[-1]]
    target[place[-1]] = (not value if isinstance(value, bool) else
                         f"{value}x" if isinstance(value, str) else value + 1)
    return copy


@pytest.mark.parametrize("name", ["plan.json", RECORD])
def test_every_edit_is_noticed_sealed_anew_or_not(copied: Path, name: str) -> None:
    """50 edits of each: without a new digest by verify; with one, by the digest of the folder."""
    path = copied / name
    text = path.read_text()
    document = json.loads(text)
    told = verification.verify_results(copied).digest
    chosen = random.Random(7).sample(
        [place for place in places(document) if place != (DIGEST_FIELD,)], 50)
    for place in chosen:
        altered = edited(document, place)
        path.write_text(json.dumps(altered))
        assert findings(copied), place
        seal_anew(path, altered)
        verdict = verification.verify_results(copied)
        assert verdict.findings or verdict.digest != told, place
    path.write_text(text)
    assert verification.verify_results(copied).digest == told and not findings(copied)


def test_the_digest_is_what_sha256sum_says(copied: Path, tmp_path: Path) -> None:
    """By hand, in an archive, where it was imported, and whatever captures went along."""
    by_hand = subprocess.run(
        "LC_ALL=C; export LC_ALL; sha256sum plan.json records/*.json | sha256sum", shell=True,
        cwd=copied, capture_output=True, text=True, check=True).stdout.split()[0]
    done = archive.export_folder(copied, tmp_path / "x.tar.gz", "none")
    came = importing.import_archive(done.file, tmp_path / "there", tmp_path)
    assert {by_hand} == {done.digest, came.digest, checksums.read_seal(copied, None).digest,
                         verification.verify_results(done.file).digest,
                         verification.verify_results(came.folder).digest}
    assert by_hand in verification.verify_results(copied).summary()


def test_a_document_of_an_earlier_version_has_no_digest_and_is_read(copied: Path) -> None:
    """One line says so, and nothing fails; the same where somebody took the digest out."""
    document = json.loads((copied / RECORD).read_text())
    del document[DIGEST_FIELD]
    (copied / RECORD).write_text(json.dumps(document))
    verdict = verification.verify_results(copied)
    [note] = verdict.reader_notes
    assert verdict.ok and note.startswith(f"no digest in {RECORD}, of 5: written by an earlier")
    results = report.load_results(copied)
    assert "no digest in " in results.digest and len(results.good) == 4


# The plan ------------------------------------------------------------------------------------


def replanned(folder: Path, alter: Callable[[dict[str, Any]], object]) -> list[str]:
    """What judging anew says of a plan that somebody has edited, and sealed in every way."""
    document = json.loads((folder / "plan.json").read_text())
    alter(document)
    return list(recomputation.compare_plan(Manifest.model_validate(document)).differences)


@pytest.mark.parametrize(("alter", "said"), [
    (lambda plan: plan["levels"]["policy"]["P1"].update(number=40.0), "policy.P1"),
    (lambda plan: plan["factors"][0].update(title="Politics"), 'factors[policy].title is "Poli'),
    (lambda plan: plan["factors"][1].update(unit="m"), 'factors[scenario].unit is "m"'),
    (lambda plan: plan.update(wires=["1 Gbit/s"]), 'wires is ["1 Gbit/s"], and []'),
    (lambda plan: plan["media"]["802.11b-long"].update(rate_bps=54e6),
     "media.802.11b-long.rate_bps is 54000000.0"),
    (lambda plan: plan.update(cells=plan["cells"][:1]), "cells is "),
])
def test_a_plan_is_made_anew_of_its_levels(copied: Path, alter: Callable[[dict[str, Any]], object],
                                           said: str) -> None:
    """Words and numbers that no level's digest covers are compared with what makes them."""
    assert replanned(copied, lambda _: None) == []
    document = json.loads((copied / "plan.json").read_text())
    alter(document)
    came = recomputation.compare_plan(Manifest.model_validate(document))
    assert any(said in line for line in (*came.differences, came.not_redone)), came


def test_a_level_whose_content_is_another_is_refused_by_every_command(copied: Path) -> None:
    """However it is sealed: sigma is made of the layers, and records bear the level's digest."""
    document = json.loads((copied / "plan.json").read_text())
    document["levels"]["policy"]["P1"]["content"]["layers"] = \
        document["levels"]["policy"]["P8"]["content"]["layers"]
    seal_anew(copied / "plan.json", document)
    assert any("policy P1 is not what its digest says" in line for line in findings(copied))
    for read in (report.load_results,
                 lambda folder: archive.export_folder(folder, folder / "x", "none"),
                 lambda folder: CliRunner().invoke(status, [str(folder)], standalone_mode=False,
                                                   catch_exceptions=False)):
        with pytest.raises(UserError, match="policy P1 is not what its digest says"):
            read(copied)


def test_a_title_of_qops_own_that_was_reworded_is_told(copied: Path) -> None:
    """Title and content agree, and no level's digest covers them: qop's own does."""
    def alter(plan: dict[str, Any]) -> None:
        plan["levels"]["policy"]["P1"]["title"] = "Perfect security"
        plan["levels"]["policy"]["P1"]["content"]["name"] = "Perfect security"

    assert replanned(copied, alter) == [
        "plan.json: levels.policy.P1.title is 'Perfect security', and 'No security' comes with qop"]


# A merge --------------------------------------------------------------------------------------


def test_a_merge_never_overwrites_the_folders_plan(copied: Path, tmp_path: Path) -> None:
    """A forged plan asks for more repetitions, and has another title: only the former counts."""
    forged = make(tmp_path / "forged" / "run", plan_of(repetitions=3))
    document = json.loads((forged / "plan.json").read_text())
    document["factors"][0]["title"] = "Politics"
    document["levels"]["policy"]["P1"]["title"] = "Perfect"
    document["levels"]["policy"]["P1"]["content"]["name"] = "Perfect"
    seal_anew(forged / "plan.json", document)
    for name in ("P1-N2-003", "P8-N2-003"):
        shutil.rmtree(copied / "captures" / name, ignore_errors=True)
    file = archive.export_folder(forged, tmp_path / "x.tar.gz", "none").file
    before = read_manifest(copied)
    assert before is not None
    done = importing.import_archive(file, copied, tmp_path)
    assert done.added == 2 and any("the folder's own factors[policy].title and 2 more stay"
                                   in line for line in done.notices), done.notices
    after = read_manifest(copied)
    assert after is not None and after.settings["repetitions"] == 3
    assert after.model_copy(update={"settings": before.settings}) == before
    assert findings(copied) == []


def test_another_number_of_a_level_is_not_merged(copied: Path, tmp_path: Path) -> None:
    """Where it stands on an axis is part of the plan, whatever its digest says."""
    forged = Path(shutil.copytree(copied, tmp_path / "forged"))
    document = json.loads((forged / "plan.json").read_text())
    document["levels"]["policy"]["P1"].update(number=40.0, content={})
    seal_anew(forged / "plan.json", document)
    file = archive.export_folder(forged, tmp_path / "x.tar.gz", "none").file
    before = tree(copied)
    with pytest.raises(UserError, match="another plan"):
        importing.import_archive(file, copied, tmp_path)
    assert tree(copied) == before


# One validation -------------------------------------------------------------------------------


@pytest.mark.parametrize("is_sealed", [True, False])
@pytest.mark.parametrize("goodput", ["NaN", "-5", "[1]", "true", '"6.0"', "1e999", "Infinity"])
def test_a_value_that_no_table_can_use_is_said_alike_by_all(copied: Path, tmp_path: Path,
                                                            goodput: str,
                                                            is_sealed: bool) -> None:
    """Verify, export, import, status, report and compare: one line, and no average of it."""
    path = copied / RECORD
    document = json.loads(path.read_text())
    document["measured"]["udp"]["goodput_bps"] = 123456789.0
    text = json.dumps(document | ({DIGEST_FIELD: ""} if is_sealed else {}))
    text = text.replace("123456789.0", goodput)
    path.write_text(seal_text(text) if is_sealed else text)
    [complaint] = stored.read_all(copied / "records")[1]
    what = complaint.removeprefix(str(copied / RECORD))
    assert findings(copied)[0] == f"{RECORD}{what}"
    with pytest.raises(UserError, match="put them right first"):
        archive.export_folder(copied, tmp_path / "x.tar.gz", "none")
    assert report.load_results(copied).complaints == [complaint]
    other = make(tmp_path / "other")
    for command, arguments in ((status, [str(copied)]), (compare, [str(other), str(copied)]),
                               (verify, [str(copied)])):
        said = CliRunner().invoke(command, arguments, standalone_mode=False).output
        assert what.partition("; ")[0] in said.replace("\n", " "), command.name


@pytest.mark.parametrize("alter", [
    lambda entry: entry["environment"].update(flags=5),
    lambda entry: entry["environment"].update(medium=["x"]),
    lambda entry: entry["raw"].update(stamps={"start": 1e300}),
    lambda entry: entry["raw"].update(stamps={"start": True}),
    lambda entry: entry.update(repetition=10 ** 30), lambda entry: entry.update(repetition="1"),
    lambda entry: entry.update(elapsed_s=True)])
def test_circumstances_that_no_table_can_show_make_a_record_unusable(
        copied: Path, alter: Callable[[dict[str, Any]], object]) -> None:
    """A report is made without it, and says so."""
    document = json.loads((copied / RECORD).read_text())
    alter(document)
    seal_anew(copied / RECORD, document)
    results = report.load_results(copied)
    assert len(results.complaints) == 1 and len(results.good) == 3
    study = report.find_folder_study(copied)
    study.report(results, {"baseline": ""})


def test_a_report_says_when_a_seal_is_broken(copied: Path) -> None:
    """Of a record that was edited and sealed anew since, and of one that went."""
    assert verification.verify_results(copied, write=True).ok
    assert checksums.read_seal(copied, None).notices == ()
    document = json.loads((copied / RECORD).read_text())
    document["elapsed_s"] += 1
    seal_anew(copied / RECORD, document)
    (copied / "records" / "P8-N2-001.json").unlink()
    results = report.load_results(copied)
    [notice] = results.notices
    assert notice == (f"the seal is broken: {RECORD} is not what it was when SHA256SUMS was "
                      f"written (and 1 more); './qop verify {copied}' names all")
    table = report.find_folder_study(copied).run_table(analysis.Cells(results))
    assert notice in table.warnings


# Names of qop's own ---------------------------------------------------------------------------


def test_a_folder_whose_scenario_or_medium_has_a_taken_name_is_told(copied: Path) -> None:
    """By whoever reads it: verify, report, compare and import ask one function."""
    def taken(alter: Callable[[dict[str, Any]], object]) -> list[str]:
        document = json.loads((copied / "plan.json").read_text())
        alter(document)
        return checksums.find_changed_builtins(Manifest.model_validate(document))

    said = "is not qop's own of that name: somebody's file has its name, or it has changed since"
    assert taken(lambda _: None) == []
    assert taken(lambda plan: plan["media"]["802.11b-long"].update(rate_bps=54e6)) == [
        f"medium 802.11b-long {said}"]
    assert taken(lambda plan: plan["levels"]["scenario"]["N2"].update(digest="0" * 64)) == [
        f"scenario N2 {said}"]
    assert taken(lambda plan: plan["levels"]["policy"]["P8"].update(digest="0" * 64)) == [
        f"policy P8 {said}"]


def test_a_file_of_the_users_may_not_take_a_name_of_qops_own(tmp_path: Path) -> None:
    """Another medium, scenario or policy; a copy is what it says."""
    root = Path(__file__).parents[2]
    for folder, name, load in (("media", "802.11b-short", load_medium),
                               ("scenarios", "N2", load_scenario)):
        text = (root / "topologies" / folder / f"{name}.yml").read_text()
        own = tmp_path / "own.yml"
        own.write_text(text)
        assert load(str(own)) == load(name)
        own.write_text(text.replace("rate_bps: 11000000", "rate_bps: 54000000").replace(
            "peer: ha-a", "peer: cn-a"))
        with pytest.raises(TopologyError, match=f"{name} comes with qop, and is another one there"):
            load(str(own))
    own.write_text("id: M5\nname: mine\nlayers: {}\n")
    with pytest.raises(policies.PolicyError, match="M5 comes with qop, and is another"):
        policies.load_policy(own)


# Text -----------------------------------------------------------------------------------------

STEERING = ("\x1b]0;owned\x07", "\x07", "\0", "\x9b31m", "\u202e", "\u2066", "\u200f", "\u2028",
            "\ud800")


def test_text_that_steers_is_not_printable() -> None:
    """Controls, bidirectional signs and halves of letters become blanks; words stay."""
    for text in STEERING:
        assert to_printable(f"a{text}b").isprintable()
    assert to_printable("µ 95\u00a0% é") == "µ 95\u00a0% é"


@pytest.mark.parametrize("text", STEERING[:-1])
def test_text_from_files_is_screened_wherever_it_is_shown(copied: Path, text: str) -> None:
    """A record's reason, titles and names of levels and media: terminal, page, CSV and LaTeX."""
    document = json.loads((copied / RECORD).read_text())
    document.update(status="failed", reason=f"=cmd{text}")
    document["environment"]["medium"] = f"air{text}"
    document["environment"]["flags"] = [f"flag{text}"]
    seal_anew(copied / RECORD, document)
    plan = json.loads((copied / "plan.json").read_text())
    for level in (plan["levels"]["policy"]["P1"], plan["levels"]["scenario"]["N2"]):
        level["title"] = f"T{text}"
    plan["levels"]["policy"]["P1"]["content"]["name"] = f"T{text}"
    plan["levels"]["scenario"]["N2"]["content"]["title"] = f"T{text}"
    plan["factors"][0].update(title=f"F{text}", unit=f"U{text}")
    plan["wires"] = [f"W{text}"]
    seal_anew(copied / "plan.json", plan)
    outputs = [CliRunner().invoke(command, [str(copied)], standalone_mode=False).output
               for command in (status, verify)]
    for form in (["--format", "csv"], ["--format", "markdown"], []):
        done = CliRunner().invoke(report.command, [str(copied), *form], standalone_mode=False)
        assert done.exception is None and done.exit_code == 0, done.output
        outputs.append(done.output)
    outputs += [path.read_text() for path in (copied / "tables").iterdir()
                if path.suffix in (".csv", ".tex")]
    for output in outputs:
        assert text not in output
    page = (copied / "report.html").read_text()
    spelled = json.dumps(text)[1:-1]
    for word in ("=cmd", "air", "flag", "T", "F", "U", "W"):
        assert f"{word}{text}" not in page and f"{word}{spelled}" not in page


# Documents ------------------------------------------------------------------------------------


def test_only_the_last_field_of_that_name_is_the_digest() -> None:
    """A text in the document that looks like it is part of what is digested."""
    made = record.Record.model_validate(
        {"schema": 2, "study": {"id": "x", "version": 1}, "cell": {}, "repetition": 1,
         "status": "failed", "reason": f'"{DIGEST_FIELD}": ""', "digests": {}, "asked": {},
         "measured": None, "evidence": [], "environment": {DIGEST_FIELD: "0" * 64}, "captures": []})
    text = record.to_text(made)
    assert matches_digest(text) and record.parse_record(text, "x") == made
    assert not matches_digest(text.replace("0" * 64, "1" * 64))
    assert not matches_digest(text.replace('"failed"', '"skipped"'))


def test_non_finite_numbers_are_found_however_deep() -> None:
    """And however deep a document is."""
    deep: Any = float("inf")
    for _ in range(5000):
        deep = [deep]
    assert find_non_finite({"a": [1, {"b": deep}]}).startswith("a.1.b.0.0")
    assert find_non_finite({"a": [1.0, None, "NaN"]}) == ""


def test_a_damaged_document_has_one_line(copied: Path) -> None:
    """Deeply nested JSON, too."""
    (copied / RECORD).write_text("[" * 100_000)
    with pytest.raises(RecordError) as refused:
        stored.read_record(copied / RECORD)
    assert "\n" not in str(refused.value)
