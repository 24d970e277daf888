"""The study of releases: what is measured where, and the table "what changed"."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import analysis
import studies
from analysis.cells import Cells
from analysis.reporting import significance
from analysis.reporting.release_changes import list_changes, make_change_table
from analysis.reporting.significance import decide_differences
from analysis.table import Table
from measure.packets.eap import InnerEapFrame
from measure.records.record import CheckRecord, Record, RecordError, StudyRecord, write_record
from recorded import TOOLS
from studies import records as stored
from studies.releases.changes import make_finding_table
from studies.releases.claims import judge_claims
from studies.releases.facts import read_facts
from studies.releases.measurements import AUTHENTICATION, Fact, ReleaseMeasurements
from studies.study import Cell, StudyError

STUDY = studies.load_study("releases")
OK = CheckRecord(check="release", ok=True, detail="made up")


def record(release: str, policy: str, repetition: int, authentication_s: float | None = None,
           reason: str = "", status: str = "ok", packets: int = 13,
           facts: dict[str, Fact] | None = None) -> Record:
    """Return a record of a repetition; without an authentication time it is not good."""
    measured = None if authentication_s is None else ReleaseMeasurements(
        authentication_s=authentication_s, eap_packets=packets, eap_bytes=4000, ike_packets=0,
        round_trip_s=0.004, facts=facts or {}).model_dump()
    fields: dict[str, Any] = {
        "schema": 2, "study": StudyRecord(id=STUDY.id, version=STUDY.version),
        "cell": {"release": release, "policy": policy, "scenario": "N2"},
        "repetition": repetition, "status": status, "reason": reason, "asked": {},
        "digests": {}, "elapsed_s": 1.0, "evidence": [OK] if measured else [],
        "environment": {"clock": "virtual", "debian": release}, "captures": [],
        "measured": measured}
    return Record.model_validate(fields)


def table_of(*records: Record) -> Table:
    """Return the table of changes of some records."""
    cells = Cells(analysis.from_records(records, STUDY))
    changes = list_changes(cells, decide_differences(cells), [AUTHENTICATION])
    return make_change_table(cells, changes, [AUTHENTICATION], "eap_packets", "EAP packets")


def verdicts(table: Table) -> dict[str, str]:
    """Return the verdict of each row, by policy."""
    return {row[1].text: row[-1].text for row in table.rows}


def times(release: str, policy: str, *seconds: float, packets: int = 13) -> list[Record]:
    """Return good records with these authentication times."""
    return [record(release, policy, number, value, packets=packets)
            for number, value in enumerate(seconds, 1)]


def test_changes_are_judged_by_their_interval() -> None:
    table = table_of(
        *times("bookworm", "M5", .0201, .0200, .0199), *times("trixie", "M5", .0301, .0299, .0300,
                                                              packets=17),
        *times("bookworm", "M4", .0201, .0200, .0199), *times("trixie", "M4", .0101, .0099, .0100),
        *times("bookworm", "M2", .0050, .0020, .0070), *times("trixie", "M2", .0020, .0070, .0060))
    assert verdicts(table) == {"M5": "slower", "M4": "faster", "M2": "no sure change"}
    [row] = [row for row in table.rows if row[1].text == "M5"]
    assert row[-2].text == "13 to 17"
    assert row[-3].number is not None
    assert row[-3].number.value == pytest.approx(0.010, abs=1e-4)


def test_single_daemons_of_another_release_are_named() -> None:
    """In the answer, in both tables of differences and in the file of all cells."""
    plain = [*times("bookworm", "M5", .0201, .0200), *times("trixie", "M5", .0201, .0200)]
    records = [entry.model_copy(update={"environment": {
        **entry.environment, "daemons": {"hostapd": "forky"}}}) for entry in plain]
    report = STUDY.report(analysis.from_records(records, STUDY), {})
    assert "hostapd of forky on bookworm" in report.summary[0]
    tables = {table.id: table for table in report.tables}
    for name in ("changes", "findings"):
        assert "trixie with hostapd of forky" in tables[name].notes[0]
    for table in (tables["run"], tables["changes"]):
        at = table.column_index("daemons")
        assert {row[at].text for row in table.rows} == {"hostapd of forky"}
    single = STUDY.report(analysis.from_records(records[2:], STUDY), {})
    assert "with daemons of Debian trixie (hostapd of forky); " in single.summary[0]


def test_change_of_one_row_of_many_is_perhaps_chance() -> None:
    """Its own interval does not contain zero, but the best of eight has such a one by chance."""
    records = [*times("bookworm", "P8", .0130, .0150, .0134), *times("trixie", "P8", .0096, .0086,
                                                                     .0080)]
    assert verdicts(table_of(*records)) == {"P8": "faster"}
    for number in range(1, 8):
        records += [*times("bookworm", f"M{number}", .010, .011, .012),
                    *times("trixie", f"M{number}", .011, .010, .0121)]
    assert verdicts(table_of(*records))["P8"] == "perhaps faster"


def test_report_compares_releases_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of changes and the standard report use the same comparisons."""
    calls = []
    monkeypatch.setattr(significance, "decide_differences",
                        lambda cells: (calls.append(cells), decide_differences(cells))[1])
    records = [*times("bookworm", "M5", .0201, .0200), *times("trixie", "M5", .0301, .0299)]
    report = STUDY.report(analysis.from_records(records, STUDY), {})
    assert {"changes", "decisions-authentication_s"} <= {table.id for table in report.tables}
    assert len(calls) == 1


def test_one_release_alone_has_no_change() -> None:
    """As with --only release=trixie: the note names no release to compare with."""
    table = table_of(*times("trixie", "P8", 0.1, 0.11, 0.12))
    assert not table.rows
    assert table.notes == ("One release was measured, so there is no change.",)
    findings = make_finding_table(Cells(analysis.from_records(
        times("trixie", "P8", 0.1, 0.11, 0.12), STUDY)))
    assert (findings.rows, findings.notes) == ((), table.notes)


@pytest.mark.parametrize(("releases", "baseline", "before"), [
    (("bookworm", "trixie", "forky"), "", "bookworm"), (("trixie", "forky"), "", "trixie"),
    (("bookworm", "trixie", "forky"), "release=trixie", "trixie")])
def test_releases_are_compared_with_the_first_one(releases: tuple[str, ...], baseline: str,
                                                  before: str) -> None:
    """With trixie and forky alone, changes are those of an upgrade of trixie."""
    records = [entry for number, release in enumerate(releases, 2)
               for entry in times(release, "M5", number * .01, number * .0101)]
    report = STUDY.report(analysis.from_records(records, STUDY), {"baseline": baseline})
    [table] = [table for table in report.tables if table.id == "changes"]
    assert table.notes[0].startswith(f"Compared with {before}. ")
    assert {row[0].text for row in table.rows} == {*releases} - {before}


def test_what_fails_or_is_skipped_is_named_with_its_reason() -> None:
    table = table_of(
        *times("bookworm", "P2", .002, .002), *(record("trixie", "P2", number, reason="no WEP",
                                                       status="failed") for number in (1, 2)),
        *(record("bookworm", "M14", number, reason="no ML-KEM", status="skipped")
          for number in (1, 2)), *times("trixie", "M14", .002, .002))
    assert verdicts(table) == {"P2": "works no longer", "M14": "newly works"}
    outcomes = {row[1].text: (row[3].text, row[4].text) for row in table.rows}
    assert outcomes["P2"] == ("works", "failed: no WEP")
    assert outcomes["M14"] == ("skipped: no ML-KEM", "works")


def test_each_release_is_a_testbed_of_its_own() -> None:
    levels = {factor.name: factor.read({"policy": ["M5"]}.get(factor.name, []), [])
              for factor in STUDY.factors}
    cells = list(STUDY.cells(levels))
    settings = STUDY.settings_type()
    assert [STUDY.testbed(cell, settings).release for cell in cells] == ["bookworm", "trixie"]
    assert {cell.ids["policy"] for cell in cells} == {"M5"}


@pytest.mark.parametrize(("policy", "resumes"), [("M13-resumed", True), ("M13", False)])
def test_workload_is_told_to_resume_a_session(policy: str, *, resumes: bool) -> None:
    levels = {factor.name: factor.read({"policy": [policy]}.get(factor.name, []), [])
              for factor in STUDY.factors}
    tasks = [STUDY.task(cell, STUDY.settings_type()) for cell in STUDY.cells(levels)]
    assert [task["resumes"] for task in tasks] == [resumes, resumes]


def test_combination_that_cannot_be_measured_is_refused() -> None:
    """A session is of one server, and in R1 each agent has one."""
    [release], [policy], [scenario] = (
        factor.read({"release": ["trixie"], "policy": ["M13-resumed"],
                     "scenario": ["R1"]}[factor.name], []) for factor in STUDY.factors)
    cell = Cell({"release": release, "policy": policy, "scenario": scenario})
    with pytest.raises(StudyError, match="have a RADIUS server each"):
        STUDY.testbed(cell, STUDY.settings_type())


@pytest.mark.parametrize(("policy", "required"), [("P1", False), ("M2", True), ("P3", True),
                                                  ("M5", True)])
def test_authentication_time_is_required_where_there_is_a_negotiation(policy: str, *,
                                                                      required: bool) -> None:
    factor = next(factor for factor in STUDY.factors if factor.name == "policy")
    [level] = factor.read([policy], [])
    names = [metric.name for metric in STUDY.required_metrics(
        Cell({"policy": level}), STUDY.settings_type(), "virtual")]
    assert ("authentication_s" in names) is required


# --- Facts and findings ---


def facts_of(capture: str, tmp_path: Path, name: str = "auth-mn.pcap") -> dict[str, Fact]:
    """Return the facts of a repetition that left one recorded capture."""
    shutil.copy(TOOLS / capture, tmp_path / name)
    return read_facts(tmp_path, "02:00:00:00:00:01", ())


def test_facts_of_tls_1_3_are_read_with_their_frames(tmp_path: Path) -> None:
    facts = facts_of("eap_tls/M5.pcap", tmp_path)
    assert facts["hello_bytes"] == Fact(value="267", capture="auth-mn.pcap", frames=(4,))
    assert facts["shared_groups"].value == "X25519"
    assert facts["tls_version"] == Fact(value="1.3", capture="auth-mn.pcap", frames=(5,))
    assert (facts["tls_suite"].value, facts["tls_group"].value) == ("0x1302", "X25519")
    assert facts["longest_eap_bytes"].value == "1024"
    assert facts["offered_signatures"].value == "23"


def test_hello_in_two_fragments_is_joined(tmp_path: Path) -> None:
    """As Debian 13's station sends it, with a share of ML-KEM."""
    facts = facts_of("eap_tls/trixie-ML-DSA-65.pcap", tmp_path)
    assert facts["hello_bytes"] == Fact(value="1504", capture="auth-mn.pcap", frames=(4, 6))
    assert facts["hello_bytes"].describe_frames() == "frames 4 and 6 of auth-mn.pcap"
    assert facts["shared_groups"].value == "X25519MLKEM768, X25519"
    assert facts["tls_group"].value == "X25519MLKEM768"
    assert facts["offered_signatures"].value.startswith("29, with ML-DSA-65, ML-DSA-87")


def test_facts_of_tls_1_2_include_the_clear_request(tmp_path: Path) -> None:
    facts = facts_of("eap_tls/trixie-M13.pcap", tmp_path)
    assert (facts["tls_version"].value, facts["tls_group"].value) == ("1.2", "P-256")
    assert facts["request_bytes"] == Fact(value="71", capture="auth-mn.pcap", frames=(5, 7))
    assert "shared_groups" not in facts


def test_attributes_of_radius_are_named_in_order(tmp_path: Path) -> None:
    facts = facts_of("eap_tls/M13-radius.pcap", tmp_path, "auth-wire.pcap")
    assert facts["request_attributes"].value.startswith("User-Name, ")
    assert facts["reply_attributes"].value == "EAP-Message, Message-Authenticator, State"


def test_compressed_certificates_are_found_inside_tls(tmp_path: Path) -> None:
    shutil.copy(TOOLS / "eap_tls/M5.pcap", tmp_path / "auth-mn.pcap")
    frame = InnerEapFrame(0.0, "02:00:00:00:00:01", (13,), (), (25, 15, 20), (), (), (), (), (), ())
    facts = read_facts(tmp_path, "02:00:00:00:00:01", (frame,))
    assert facts["certificate_message"].value == "CompressedCertificate (RFC 8879)"
    assert read_facts(tmp_path, "02:00:00:00:00:02", (frame,)).keys() == (
        facts.keys() - {"certificate_message"})


def with_fact(release: str, policy: str, repetition: int, value: str, frame: int) -> Record:
    """Return a good record with the size of a hello."""
    fact = Fact(value=value, capture="auth-mn.pcap", frames=(frame,))
    return record(release, policy, repetition, 0.02, facts={"hello_bytes": fact})


def test_record_of_a_fact_without_frames_is_refused(tmp_path: Path) -> None:
    """Anybody can write a record: the report names the file and what is wrong."""
    good = with_fact("trixie", "P8", 1, "199", 6)
    stored.read_record(write_record(good, tmp_path))
    assert good.measured
    good.measured["facts"]["hello_bytes"]["frames"] = ()
    with pytest.raises(RecordError, match=r"trixie-P8-N2-001\.json: .*hello_bytes\.frames"):
        stored.read_record(write_record(good, tmp_path))


def test_equal_differences_are_one_finding_with_frames() -> None:
    """Values that differ between repetitions of one release are none."""
    records = [with_fact(release, policy, number, value, frame)
               for release, value, frame in (("bookworm", "184", 4), ("trixie", "199", 6))
               for policy in ("M13", "P8") for number in (1, 2)]
    records += [with_fact(release, "M5", number, str(sizes[number]), 4) for release, sizes in
                (("bookworm", (0, 267, 268)), ("trixie", (0, 268, 269))) for number in (1, 2)]
    table = make_finding_table(Cells(analysis.from_records(records, STUDY)))
    [row] = table.rows
    assert [entry.text for entry in row[1:3]] == ["184", "199"]
    assert "M13" in row[3].text and "P8" in row[3].text
    assert row[4].text == ("bookworm-M13-N2-001: frame 4 of auth-mn.pcap; "
                           "trixie-M13-N2-001: frame 6 of auth-mn.pcap")


def test_frames_of_a_finding_are_from_a_repetition_that_has_the_fact() -> None:
    """The first repetition before lacks the fact."""
    records = [record("bookworm", "P8", 1, 0.02), with_fact("bookworm", "P8", 2, "184", 4),
               *(with_fact("trixie", "P8", number, "199", 6) for number in (1, 2))]
    [row] = make_finding_table(Cells(analysis.from_records(records, STUDY))).rows
    assert [entry.text for entry in row[1:3]] == ["184", "199"]
    assert row[4].text == ("bookworm-P8-N2-002: frame 4 of auth-mn.pcap; "
                           "trixie-P8-N2-001: frame 6 of auth-mn.pcap")


def test_fact_of_one_release_alone_is_a_finding() -> None:
    """Not so where the other release has no good repetition, or a repetition lacks it in both."""
    records = [record("bookworm", "P8", 1, 0.02), with_fact("trixie", "P8", 1, "199", 6),
               with_fact("bookworm", "M5", 1, "267", 4), record("trixie", "M5", 1, 0.02),
               with_fact("bookworm", "P2", 1, "184", 4),
               record("trixie", "P2", 1, status="failed", reason="no WEP"),
               record("bookworm", "M13", 1, 0.02), record("bookworm", "M13", 2, 0.02),
               record("trixie", "M13", 1, 0.02), with_fact("trixie", "M13", 2, "199", 6)]
    rows = make_finding_table(Cells(analysis.from_records(records, STUDY))).rows
    assert {tuple(entry.text for entry in row[1:]) for row in rows} == {
        ("-", "199", "P8", "trixie-P8-N2-001: frame 6 of auth-mn.pcap"),
        ("267", "-", "M5", "bookworm-M5-N2-001: frame 4 of auth-mn.pcap")}


# --- The claims of a published measurement ---


def verdicts_on(*records: Record) -> list[tuple[str, str, int]]:
    """Return the verdict on each claim, and its number of answers."""
    return [(verdict.id, verdict.verdict, len(verdict.evidence)) for verdict in
            judge_claims(Cells(analysis.from_records(records, STUDY)))]


PRESENT = times("trixie", "M5", .0250, .0251, .0249)
HYBRID = times("trixie", "M17", .0270, .0271, .0269)
LARGE = times("trixie", "WPA3-ML-DSA-65", .0750, .0751, .0752)


def test_claim_is_judged_where_post_quantum_policies_are_measured() -> None:
    """Each such policy has to take longer; without any, the report has no claim."""
    assert verdicts_on(*PRESENT) == []
    assert verdicts_on(*PRESENT, *LARGE) == [("Q1", "confirmed", 1)]
    equal = times("trixie", "WPA3-ML-DSA-44", .0240, .0241, .0239)
    assert verdicts_on(*PRESENT, *LARGE, *equal)[0] == ("Q1", "refuted", 2)


@pytest.mark.parametrize(("resumed_ms", "verdict"), [(13, "confirmed"), (80, "refuted")])
def test_resumption_mitigates_the_overhead_where_it_adds_less(resumed_ms: int,
                                                              verdict: str) -> None:
    """Of resumed sessions, those with post-quantum algorithms cost more than the others, too."""
    base_s = resumed_ms / 1e3
    resumed = times("trixie", "WPA3-RESUMED-ML-DSA-65", base_s, base_s + 1e-4, base_s - 1e-4)
    usual = times("trixie", "WPA3-EAP-TLS-RESUMED", .0120, .0121, .0119)
    assert verdicts_on(*PRESENT, *LARGE, *resumed, *usual) == [
        ("Q1", "confirmed", 1), ("Q2", verdict, 1)]


def test_order_of_combinations_is_that_of_their_sizes() -> None:
    """Each measured one has to take longer than the one before it."""
    middle = times("trixie", "WPA3-ML-DSA-44", .0500, .0501, .0502)
    assert verdicts_on(*HYBRID, *middle, *LARGE) == [("Q3", "confirmed", 2)]
    slower = times("trixie", "WPA3-ML-DSA-44", .0900, .0901, .0902)
    assert verdicts_on(*HYBRID, *slower, *LARGE) == [("Q3", "refuted", 2)]
    assert verdicts_on(*LARGE) == []
