"""Tests of measure.explain.references: the same policy in a results folder, or as shipped."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import fabricated
from harness import cli
from harness.errors import UserError
from measure.explain import references
from measure.explain.answer import explain_captures
from measure.records.record import read_record, write_record
from policies import load_all, load_named
from recorded import path


def run_command(*arguments: object) -> str:
    """The output of `qop explain`."""
    done = CliRunner().invoke(cli.qop, ["explain", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def results_with(folder: Path, *recordings: str) -> Path:
    """A results folder with a record and the air of each recording."""
    records = []
    for recording in recordings:
        policy, _, scenario = recording.partition("-")
        record = fabricated.make(policy, scenario=scenario or "N2")
        records.append(record)
        captures = folder / "captures" / record.name
        captures.mkdir(parents=True)
        (captures / "auth-air.pcap").write_bytes(path(recording, "auth-air").read_bytes())
    fabricated.write_all(records, folder)
    return folder


def negotiation(recording: str) -> dict[str, Any]:
    """The first negotiation on the air of a recording."""
    found = explain_captures([path(recording, "auth-air")]).to_document()["negotiations"]
    return next(each for each in found if each["kind"] == "802.11")


def test_answer_ends_with_the_time_of_the_same_policy(tmp_path: Path) -> None:
    """Both are the same capture here, so the times are equal; machine and clock are named."""
    folder = results_with(tmp_path / "results", "P8", "P5")
    text = " ".join(run_command("--reference", folder, path("P8", "auth-air")).split())
    (answer, _, _) = text.partition(" 1. 802.11")
    taken = answer.split()[0]
    assert answer.endswith(f"measured with qop the same policy takes {taken} ms")
    assert re.search(r"P[68] in (E1|N2|R1) \(EAP-TLS, TLS 1\.2\); measured on", text)
    assert "processors, clock" in text
    document = json.loads(run_command("--reference", folder, "--json", path("P8", "auth-air")))
    (each,) = (each for each in document["negotiations"] if each["kind"] == "802.11")
    assert each["reference"]["duration_s"] == each["duration_s"]
    assert each["reference"]["is_same_policy"]


def test_roam_is_compared_with_a_roam(tmp_path: Path) -> None:
    """P12-R1 joins and roams; both have the same policy, but other times."""
    found = references.read_references(results_with(tmp_path / "results", "P12-R1"))
    assert [each["is_roam"] for each in found] == [False, True]
    for each in explain_captures([path("P12-R1", "auth-air")]).to_document()["negotiations"]:
        compared = references.find_comparison(each, found)
        assert compared
        assert statistics.median(compared.durations_s) == each["duration_s"]


def test_nearest_policy_names_what_differs(tmp_path: Path) -> None:
    """Another TLS version is nearly the same; another EAP method or AKM is not."""
    found = references.read_references(results_with(tmp_path / "results", "P8"))
    each = negotiation("P8")
    for change, differs in (({}, []), ({"tls": "1.3"}, ["tls"]), ({"tls": ""}, []),
                            ({"eap": "PEAP"}, None), ({"akm": "SAE"}, None)):
        compared = references.find_comparison(each | {"policy": each["policy"] | change}, found)
        assert (list(compared.differs) if compared else None) == differs, change


def test_join_by_a_cached_key_is_not_compared_with_a_full_one(tmp_path: Path) -> None:
    """It shows its AKM and no EAP, whose time is most of the reference's."""
    (found,) = references.read_references(results_with(tmp_path / "results", "P8"))
    seen = {"akm": "802.1X", "cipher": "CCMP", "pmf": "off", "eap": "", "tls": "", "session": "",
            "ike": ""}
    full = found | {"seen": seen | {"eap": "EAP-TLS", "tls": "1.2", "session": "full"}}
    cached = negotiation("P8") | {"policy": seen}
    assert references.find_comparison(cached, [full]) is None
    assert references.find_comparison(cached, [full, found | {"seen": seen}])
    assert references.find_comparison(cached | {"is_from_start": False}, [full])


def test_resumed_session_is_not_compared_with_a_full_one(tmp_path: Path) -> None:
    """A resumed handshake has half of the messages."""
    (full,) = references.read_references(results_with(tmp_path / "results", "P8"))
    assert (full["seen"]["session"], full["title"]) == ("full", "EAP-TLS, TLS 1.2")
    resumed = full | {"policy": "X", "seen": full["seen"] | {"session": "resumed"}}
    seen = negotiation("P8")
    for session, expected in (("full", "P8"), ("resumed", "X"), ("", "P8")):
        each = seen | {"policy": seen["policy"] | {"session": session}}
        compared = references.find_comparison(each, [full, resumed])
        assert compared
        assert (compared.reference["policy"], [*compared.differs]) == (expected, [])
    assert references.find_comparison(
        seen | {"policy": seen["policy"] | {"session": "resumed"}}, [full]) is None


def test_shipped_references_tell_resumed_sessions_apart() -> None:
    """As the policies say."""
    for each in references.read_references(references.SHIPPED):
        resumes = load_named(each["policy"]).resumes_sessions
        expected = "resumed" if resumes else "full" if each["seen"]["tls"] else ""
        assert each["seen"]["session"] == expected, each
        assert each["title"].count("resumed") == resumes


def test_policy_of_a_reference_is_named_whatever_the_first_factor(tmp_path: Path) -> None:
    """The study releases varies the release first."""
    folder = results_with(tmp_path / "results", "P8")
    (file,) = folder.glob("records/*.json")
    record = read_record(file)
    captures = folder / "captures" / record.name
    file.unlink()
    record = fabricated.changed(record, cell={"release": "trixie", **record.cell})
    write_record(record, folder / "records")
    captures.rename(folder / "captures" / record.name)
    (found,) = references.read_references(folder)
    assert (found["policy"], found["scenario"]) == ("P8", "trixie, N2")


@pytest.mark.parametrize(("environment", "stamps", "expected"), [
    ({}, {"start": 1.7e9}, ("2023-11-14", "real")), ({}, {}, ("", "real")),
    ({"clock": "virtual"}, {"start": 1.7e9}, ("", "virtual")),
    ({"clock": "virtual", "measured_at_s": 1.8e9}, {}, ("2027-01-15", "virtual"))])
def test_old_record_serves_as_a_reference(environment: dict[str, Any], stamps: dict[str, float],
                                          expected: tuple[str, str], tmp_path: Path) -> None:
    """The first records have no clock, which was real then, and no time of the wall clock."""
    folder = results_with(tmp_path / "results", "P8")
    (file,) = folder.glob("records/*.json")
    record = read_record(file)
    write_record(fabricated.changed(record, environment=environment, raw={"stamps": stamps}),
                 folder / "records")
    (folder / "provenance.json").write_text('[1, {"host": 2}]')
    (found,) = references.read_references(folder)
    assert (found["date"], found["clock"]) == expected
    text = " ".join(run_command("--reference", folder, path("P8", "auth-air")).split())
    on = f" on {expected[0]}" if expected[0] else ""
    assert f"measured{on} with unknown processor, ? processors, clock {expected[1]}" in text


def test_failure_is_not_compared(tmp_path: Path) -> None:
    """Its time says nothing of the policy."""
    found = references.read_references(results_with(tmp_path / "results", "P8"))
    assert references.find_comparison(negotiation("P8") | {"outcome": "failure"}, found) is None


@pytest.mark.parametrize(("content", "message"), [
    (None, "no proven repetition with captures of an authentication"),
    ("{}", "no references"), ('{"version": 99, "references": []}', "of version 99, not 2"),
    ('{"version": 2, "references": null}', r"no references \(references: "),
    ('{"version": 2, "references": [1]}', "no references"), ("[]", "no references"),
    ('{"version": 2, "references": [{}]}', r"no references \(references.0.policy: "),
    ("\x00", "no references")])
def test_reference_without_one_is_one_line(content: str | None, message: str,
                                           tmp_path: Path) -> None:
    """An empty folder, a file that is none, and one of a later version."""
    place = tmp_path / "reference"
    if content is None:
        (place / "records").mkdir(parents=True)
    else:
        place.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        run_command("--reference", place, path("P8", "auth-air"))
    assert "\n" not in str(caught.value)


def test_every_shipped_policy_has_references() -> None:
    """Joining of every policy, and roaming of those that roam fast."""
    found = references.read_references(references.SHIPPED)
    measured = {each["policy"] for each in found}
    assert {policy.id for policy in load_all()} - measured == set()
    for each in found:
        assert len(each["durations_s"]) >= 2, each["policy"]
        assert each["clock"] == "processor"
        assert "processors" in each["machine"]
    assert {each["policy"] for each in found if each["is_roam"]} >= {"P8", "M4", "M4-ft", "M13-okc"}


def test_shipped_references_are_compared_without_an_option() -> None:
    """P8 shows EAP-TLS, and no cipher in its association; the same is true of P6."""
    text = " ".join(run_command(path("P8", "auth-air")).split())
    assert "measured with qop the same policy takes" in text
    assert re.search(r"P[68] in (E1|N2|R1) \(EAP-TLS, TLS 1\.2\); measured on", text)
