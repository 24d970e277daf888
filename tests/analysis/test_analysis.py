"""Tests of analysis: records to frame, cells, and differences from the baseline."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import analysis
from analysis import NoResultsError
from analysis.cell_status import MissingReason
from analysis.cells import Cells
from analysis.present.export import to_csv
from analysis.statistics import Estimate
from conftest import PROJECT, Qop
from fabricated import (
    P1_PHASES,
    P12_PHASES,
    POLICIES,
    REJECTED,
    STUDY,
    cells_of,
    changed,
    failed,
    lines_of,
    load,
    make,
    manifest_of,
    paper_run,
    results_of,
    row_of,
    standing_of,
    text_of,
    value_of,
    write_all,
)
from harness.errors import UserError
from measure.checks import phases as measured
from measure.records.manifest import Manifest, plan_digest
from measure.records.record import (
    CheckRecord,
    Record,
    RecordError,
    parse_record,
    to_text,
    write_record,
)
from studies import records as stored
from studies.qop2007.measurements import PhaseRecord
from studies.qop2007.phases import find_components as components_measured
from studies.qop2007.report.phase_names import (
    COMPONENTS,
    component_names,
    component_phases,
    phase_names,
)
from studies.qop2007.study import NO_LAYERS_SHA256

# --- records to frame ---------------------------------------------------------------------------

def test_a_record_becomes_a_row_with_units_in_its_columns(tmp_path: Path) -> None:
    """Every metric, phase and circumstance of P12 is there, under a name with its unit."""
    write_record(make("P12", 2, phases=P12_PHASES, tcp=4.4e6, attempt=2), tmp_path / "records")
    results = load(tmp_path)
    assert results.complaints == []
    row = results.frame.iloc[0]
    assert row["tcp_goodput_bps"] == 4.4e6
    assert row["authentication_time_s"] == pytest.approx(0.0217 + 0.0017 + 0.0020 + 0.0171)
    assert row["phase_dot1x_duration_s"] == 0.0217
    assert row["phase_dot1x_packets"] == 17
    assert (row["attempt"], row["verified"], row["medium"]) == (2, True, "802.11b-long")
    assert row["policy_sha256"] == POLICIES["P12"].digest()
    assert phase_names(results.frame) == tuple(P12_PHASES)


def test_rows_are_in_the_papers_order() -> None:
    """P2 comes before P10, N1 before N2, whatever the order of the files."""
    records = [make(policy, scenario=scenario) for policy in ("P10", "P2", "WPA2-PSK")
               for scenario in ("R1", "N2")]
    found = analysis.from_records(records, STUDY).frame
    assert list(zip(found["scenario"], found["policy"], strict=True)) == [
        (scenario, policy) for scenario in ("N2", "R1") for policy in ("P2", "P10", "WPA2-PSK")]


def test_a_phase_that_took_place_twice_is_summed() -> None:
    """A mobile node that authenticates at home and abroad spends the sum of both."""
    twice = [PhaseRecord(name="dot1x", start_s=at, duration_s=0.02, packets=17) for at in (0, 1)]
    row = results_of(changed(make("P6"), phases=twice)).frame.iloc[0]
    assert row["phase_dot1x_duration_s"] == pytest.approx(0.04)
    assert row["phase_dot1x_packets"] == 34


def test_unknown_phases_are_shown_and_come_before_the_first_packet() -> None:
    """A later study's phases need no change here."""
    cells = cells_of(make(phases={"scan": (0.04, 2), "first_packet": (0.01, 2),
                                  "mip_registration": (1.4, 4)}))
    assert phase_names(cells.results.frame) == ("scan", "mip_registration", "first_packet")
    assert "mip registration" in text_of(cells, 140)


def test_the_authentication_time_is_the_sum_that_the_record_names() -> None:
    """At home and away, for every policy: components and sum as measure makes them, by Table 4."""
    results = results_of(*paper_run(("N2", "R1"), repetitions=1))
    for _, row in results.frame.iterrows():
        parts = [row[f"component_{name}_s"] for name in row["authentication_sum"].split("+")]
        assert row["authentication_time_s"] == pytest.approx(sum(parts))
    away = results.frame[results.frame["scenario"] == "R1"].set_index("policy")
    assert away["authentication_sum"]["P3"] == (
        "mip_registration_home+ike_home+mip_registration_foreign")
    assert component_names(results.frame) == (
        "eap_home", "mip_registration_home", "ike_home",
        "eap_foreign", "mip_registration_foreign", "ike_foreign")


def test_an_authentication_time_that_is_not_its_sum_is_left_out(tmp_path: Path) -> None:
    """A record that contradicts itself was written by something else than measure."""
    write_record(make("P12", 2, phases=P12_PHASES), tmp_path)
    write_record(make("P12", 1, phases=P12_PHASES, authentication_time_s=0.02), tmp_path)
    results = load(tmp_path)
    assert results.frame["repetition"].tolist() == [2]
    assert "its components add up to 0.0425" in results.complaints[0]


@pytest.mark.parametrize("name", COMPONENTS)
def test_components_consist_of_the_phases_that_are_said(name: str) -> None:
    """The phases that a component takes the place of in a table are those that measure sums up."""
    for part in component_phases(name):
        if not part.endswith("discovery"):
            phase = measured.Phase(part, 0.0, 1.0, 2)
            assert components_measured([phase], name.rpartition("_")[0]) == {name: 1.0}


def test_averaging_different_sums_is_said() -> None:
    """Two records of a cell whose authentication times mean different things."""
    other = make("P3", 2, authentication_sum=["ike_home"], authentication_time_s=0.0)
    warnings = STUDY.run_table(cells_of(make("P1"), make("P3", 1), other)).warnings
    assert any(warning.startswith("P3 in N2: authentication times of different sums")
               for warning in warnings)


DAMAGE = {
    "empty": b"", "cut": b'{"schema": 1, "policy": "P', "binary": b"\xff\xfe\x00\x01",
    "list": b"[1, 2]", "foreign": b'{"hello": "world"}', "deep": b"[" * 100_000}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_files_are_named_and_counted(tmp_path: Path, kind: str) -> None:
    """A file that is no record is left out by name; the others still make a table."""
    write_record(make(), tmp_path / "records")
    (tmp_path / "records" / f"{kind}.json").write_bytes(DAMAGE[kind])
    results = load(tmp_path)
    assert len(results.frame) == 1
    assert len(results.complaints) == 1
    assert f"{kind}.json" in results.complaints[0]
    assert "\n" not in results.complaints[0]
    text = text_of(Cells(results), 300)
    assert "1 file is no usable record and left out:" in text
    assert f"{kind}.json" in text


@pytest.mark.parametrize(("field", "value"), [
    ("schema", 99), ("repetition", -1), ("authentication_time_s", float("inf")),
    ("authentication_time_s", float("nan")), ("elapsed_s", -1), ("status", "fine"),
    ("tcp", {"goodput_bps": -4.0, "bytes": 1, "duration_s": 1.0, "iperf": {}}),
    ("udp", {"goodput_bps": float("nan"), "bytes": 1, "duration_s": 1.0, "iperf": {}}),
    ("authentications", [{"components_s": {"ike_home": -0.1}, "phases": []}]),
    ("handoff", [{"name": "ike", "start_s": 0, "duration_s": -1, "packets": 9}]),
    ("authentications", [{"components_s": {}, "phases": [
        {"name": "ike", "start_s": 0, "duration_s": -1, "packets": 9}]}])])
def test_other_schemas_and_impossible_numbers_are_left_out(tmp_path: Path, field: str,
                                                           value: Any) -> None:
    """A number that cannot be never gets into a mean."""
    write_record(make(repetition=2), tmp_path)
    path = write_record(make(), tmp_path)
    document = json.loads(path.read_text())
    document |= {"measured": document["measured"] | {field: value}} \
        if field in document["measured"] and field != "schema" else {field: value}
    path.write_text(json.dumps(document))
    results = load(tmp_path)
    assert results.frame["repetition"].tolist() == [2]
    assert len(results.complaints) == 1
    assert path.name in results.complaints[0]


@pytest.mark.parametrize(("change", "says"), [
    ({"evidence": []}, "says ok, but it has no evidence"),
    ({"evidence": [CheckRecord(check="air is open", ok=False, detail="9 of 9 protected")]},
     "says ok, but 'air is open' does not hold")])
def test_what_says_ok_without_proof_is_left_out(tmp_path: Path, change: dict[str, Any],
                                                says: str) -> None:
    """Whoever wrote it: an import or an edited file must not get into a mean."""
    write_record(make("P1", 1), tmp_path / "records")
    path = write_record(make("P1", 2, **change), tmp_path / "records")
    results = load(tmp_path)
    assert list(results.frame["repetition"]) == [1]
    [complaint] = results.complaints
    assert says in complaint and str(path) in complaint


def test_what_passes_under_a_negative_control_is_named_and_not_counted() -> None:
    """P1 has nothing that most controls take away: it is no complaint, and nothing to redo."""
    environment = {**make().environment, "fault": "radius-down"}
    cells = cells_of(make("P1", 1, environment=environment),
                     failed("P8", 1, environment=environment))
    assert not len(cells.results.good)
    assert not cells.results.complaints
    text = text_of(cells, 165)
    assert "measure again" not in text
    assert "Measure it in the same run" not in text
    assert "P1 not counted 1 of 1: passes under the negative control" in text
    assert f" {MissingReason.NOT_COUNTED.value} " in row_of(text, "P1")
    assert f" {MissingReason.FAILED.value} " in row_of(text, "P8")


def test_a_copied_record_counts_once(tmp_path: Path) -> None:
    """A copy would make n larger and the interval narrower than they are."""
    path = write_record(make(), tmp_path / "records")
    (tmp_path / "records" / "copy of it.json").write_bytes(path.read_bytes())
    results = load(tmp_path)
    assert len(results.frame) == 1
    assert "holds the record P1-N2-001" in results.complaints[0]


@pytest.mark.parametrize(("prepare", "says"), [
    (lambda _: None, "no such folder"),
    (lambda folder: folder.mkdir(), "holds no records yet"),
    (lambda folder: (folder / "records").mkdir(parents=True), "holds no records yet"),
    (lambda folder: (folder.mkdir(), (folder / "x.json").write_text("{}")),
     "none of its 1 files is a record"),
    (lambda folder: (folder.mkdir(), (folder / "plan.json").write_text("{}")),
     "holds no records yet")])
def test_an_empty_run_gives_a_clear_sentence(tmp_path: Path, prepare: Callable[[Path], object],
                                             says: str) -> None:
    """One line that names the folder and says what to do, by an exception of its own."""
    folder = tmp_path / "out"
    prepare(folder)
    with pytest.raises(NoResultsError, match=says) as caught:
        analysis.load(folder, STUDY, None, stored.read_record)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert issubclass(NoResultsError, ValueError)


def test_text_from_records_cannot_steer_the_terminal() -> None:
    """Escape sequences and line breaks in a reason are shown as spaces, markup as it is."""
    text = text_of(cells_of(failed("P6", 1, "\x1b[31mred\x07\n[bold]not bold[/bold]")), 120)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[31mred  [bold]not bold[/bold]" in text


# --- the manifest beside the records --------------------------------------------------------------

def test_the_plan_gives_order_names_and_what_is_still_to_come(tmp_path: Path) -> None:
    """An interrupted run shows its cells in the run's order, and the missing ones as not run."""
    write_all([make("P1", 1), make("P1", 2), make("P8", 1)], tmp_path, repetitions=2,
              cells=[("P8", "N2"), ("P1", "N2"), ("P2", "N2")])
    cells = Cells(load(tmp_path))
    assert cells.results.cells == (("P8", "N2"), ("P1", "N2"), ("P2", "N2"))
    assert cells.results.level_title("policy", "P8") == "8021x-EAP-TLS-WEP-128"
    assert standing_of(cells, "P8").word == "too few"
    assert standing_of(cells, "P2").word == "not run"
    text = text_of(cells, 200)
    assert re.search(r"P2 +WEP-128 +0/2 +not run .* -$", row_of(text, "P2"))
    assert "1/2" in row_of(text, "P8")


@pytest.mark.parametrize("content", ["", "[]", '{"names": 3}', '{"schema": 3}', "\x00"])
def test_a_strange_plan_is_never_taken_for_none(tmp_path: Path, content: str) -> None:
    """Claims would change without a word; one line says that it cannot be read. None is none."""
    write_record(make(), tmp_path / "records")
    assert load(tmp_path).manifest is None
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(UserError, match=r"plan\.json: .*; use the version that wrote it"):
        load(tmp_path)


# --- means and cells -----------------------------------------------------------------------------

def test_only_good_repetitions_enter_a_mean() -> None:
    """A failed repetition has phases all the same; none of them counts."""
    cells = cells_of(make(repetition=1), make(repetition=2),
                     failed("P1", 3, phases={"scan": (9.0, 99)}))
    standing = standing_of(cells, "P1")
    assert (standing.good, standing.total) == (2, 3)
    assert value_of(cells, "phase_scan_duration_s", "P1") == Estimate(0.0394, 0.0394, 0.0394, 2)
    assert standing.failures == (f"failed 1 of 3 (repetition 3): {REJECTED}",)
    assert standing.verified


def test_every_number_is_estimated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's table and all that stands beside it ask for a value of a cell; one is made."""
    cells = cells_of(*paper_run())
    made: list[tuple[str, ...]] = []
    estimate = Cells._estimate

    def counting(self: Cells, name: str, ids: tuple[str, ...], *, filled: bool) -> Any:
        made.append((name, *ids, str(filled)))
        return estimate(self, name, ids, filled=filled)

    monkeypatch.setattr(Cells, "_estimate", counting)
    STUDY.run_table(cells)
    assert cells.observations["tcp_goodput_bps", "P1", "N2"] \
        is cells.value("tcp_goodput_bps", ("P1", "N2"))
    assert made and len(made) == len(set(made))


@pytest.mark.parametrize(("records", "state", "word"), [
    ([failed("P6", 1), failed("P6", 2)], "failed", "failed"),
    ([make("P6", 1), failed("P6", 2), failed("P6", 3)], "too few", "too few"),
    ([failed("P6", 1).model_copy(update={"status": "skipped"})], "skipped", "skipped")])
@pytest.mark.parametrize("width", [80, 100, 180])
def test_a_cell_without_enough_good_repetitions_has_no_number(records: list[Record], state: str,
                                                              word: str, width: int) -> None:
    """It says so in every column of every table it has a row in."""
    records = [changed(record, phases=[], components_s={}, authentication_sum=[])
               for record in records]
    cells = cells_of(*[make("P1", repetition) for repetition in (1, 2, 3)], *records)
    assert standing_of(cells, "P6").word == state
    assert not any(key[1] == "P6" for key in cells.observations)
    start = re.compile(r"P6 +(8021x-EAP-TLS +)?\d/\d ")
    rows = [line for line in lines_of(cells, width) if start.match(line)]
    assert rows
    for line in rows:
        shown = start.sub("", line).replace("too few", "too-few")
        assert set(shown.removesuffix("no").split()) <= {word.replace(" ", "-"), "-"}
        assert word.replace(" ", "-") in shown or len(rows) > 1
    row = next(csv.DictReader(io.StringIO(to_csv(STUDY.run_table(cells_of(*records))))))
    assert row["state"] == state
    assert row["tcp_goodput_bps"] == ""


def test_one_repetition_asked_for_gives_a_value_without_interval() -> None:
    """A first quick look has values; the note says why there is no interval."""
    cells = cells_of(make("P1"), make("P3", tcp=4.44e6))
    value = value_of(cells, "tcp_overhead_bps", "P3")
    assert value.mean == pytest.approx(0.17e6)
    assert (value.low, value.high, value.n) == (None, None, 1)
    text = text_of(cells, 200)
    assert "One repetition a cell" in text
    assert "\N{PLUS-MINUS SIGN}" not in row_of(text, "P3")


def test_what_was_not_measured_is_no_zero() -> None:
    """Streams of size 0 leave no column; a phase that a policy lacks is a dash."""
    records = [make(policy, repetition, phases=phases_, udp=5.8e6) for repetition in (1, 2)
               for policy, phases_ in (("P1", P1_PHASES), ("P12", P12_PHASES))]
    cells = cells_of(*(changed(record, udp=None) for record in records))
    assert value_of(cells, "udp_goodput_bps", "P1") is MissingReason.ABSENT
    assert standing_of(cells, "P1").word == "ok"
    text = text_of(cells, 150)
    assert "UDP" not in text.splitlines()[2]
    assert re.search(r"3\.70 ± 0 +- +3\.7 \(4\) +- +39\.4 \(3\) +- +1\.7 \(2\) +2\.0 \(2\) +13\.5",
                     row_of(text, "P1"))


@pytest.mark.parametrize(("evidence", "why"), [
    ([], "2 good repetitions without full evidence"),
    ([CheckRecord(check="x", ok=False, detail="")], "2 good repetitions without full evidence")])
def test_a_cell_is_verified_only_by_evidence(evidence: list[CheckRecord], why: str) -> None:
    """Status ok alone proves nothing; the reason is under the table."""
    cells = cells_of(*(make(repetition=number, evidence=evidence) for number in (1, 2)))
    assert not standing_of(cells, "P1").verified
    text = text_of(cells, 200)
    assert row_of(text, "P1").endswith(" no")
    assert f"P1 not verified: {why}" in text


def test_all_repetitions_failed_is_a_table_with_reasons() -> None:
    """Not even a phase was seen; the table still comes, with each reason once."""
    text = text_of(cells_of(*(failed(policy, number, phases={}) for policy in ("P1", "P6")
                              for number in range(1, 9))), 160)
    assert "failed 8 of 8: " in text
    assert "No differences in N2: the baseline P1 has no good repetition there." in text


# --- differences from the baseline ----------------------------------------------------------------

def test_overhead_is_baseline_minus_policy_in_the_same_block() -> None:
    """The drift of 20 kbit/s a block cancels: the interval is far narrower than the goodput's."""
    cells = cells_of(*paper_run())
    lost = value_of(cells, "tcp_overhead_bps", "P3")
    assert lost.mean == pytest.approx(0.17e6 - 0.002e6 / 3)
    assert lost.n == 3
    assert lost.half_width < value_of(cells, "tcp_goodput_bps", "P3").half_width / 10
    assert value_of(cells, "tcp_overhead_bps", "P1") is MissingReason.REFERENCE
    assert value_of(cells, "tcp_overhead_bps", "P5").spans_zero


def test_overhead_needs_its_own_scenario_and_blocks() -> None:
    """N2 has no good baseline and N1 one block in common; other scenarios do not fill in."""
    cells = cells_of(make("P1", 1, scenario="N1"), make("P1", 2, scenario="N1"),
                     make("P2", 2, scenario="N1"), make("P2", 3, scenario="N1"),
                     failed("P1", 1), failed("P1", 2), make("P2", 1), make("P2", 2))
    assert value_of(cells, "tcp_overhead_bps", "P2", "N1") is MissingReason.TOO_FEW
    assert value_of(cells, "tcp_overhead_bps", "P2", "N2") is MissingReason.NO_BASELINE


def test_a_missing_baseline_is_said_and_numbers_stay() -> None:
    """Without P1 there is no overhead, but everything else; the first line says why."""
    text = text_of(cells_of(make("P3", 1), make("P3", 2)), 200)
    assert text.startswith("! No differences: there are no records of the baseline P1.")
    assert "no base" in row_of(text, "P3")
    assert "4.61" in row_of(text, "P3")


def test_another_policy_without_layers_stands_in_for_the_baseline() -> None:
    """A user's own open network is a baseline, known by the digest of no layers."""
    cells = cells_of(make("OPEN", digests=make("P1").digests), make("P3", tcp=4.44e6))
    assert cells.baseline.name == "OPEN"
    assert value_of(cells, "tcp_overhead_bps", "P3").mean == pytest.approx(0.17e6)
    assert "OPEN, which has the same content, is the baseline" in STUDY.run_table(cells).warnings[0]


@pytest.mark.parametrize("asked", ["P2", "policy=P2"])
def test_a_baseline_with_layers_is_said(asked: str) -> None:
    """Overhead relative to WEP is a fair question, but not the paper's."""
    cells = cells_of(make("P2"), make("P3"), baseline=asked)
    assert cells.baseline.name == "P2"
    assert "Differences are from P2, not from the study's baseline P1." in cells.baseline.note


def test_choose_baseline_prefers_the_users_then_the_profiles() -> None:
    """A profile's baseline is part of the plan, so that a report needs no option for it."""
    records = [make("P1"), make("P2"), make("P3")]
    results = results_of(*records, manifest=manifest_of(records, baseline={"policy": "P2"}))
    assert results.compared == ("policy",)
    assert Cells(results).baseline.name == "P2"
    assert Cells(results, "P3").baseline.name == "P3"
    assert cells_of(*records).baseline.name == "P1"


def test_a_baseline_of_no_factor_is_refused() -> None:
    """One line that names the factors that there are."""
    with pytest.raises(NoResultsError, match="no factor 'colour'; it is one of policy, scenario"):
        cells_of(make("P1"), baseline="colour=red")


def test_no_layers_have_the_digest_that_is_looked_for() -> None:
    """P1, and only P1 of the twelve, is recognised as the policy without layers."""
    bare = [name for name, policy in POLICIES.items() if policy.digest() == NO_LAYERS_SHA256]
    assert bare == ["P1"]


#: The user's own daemons, as records contain them, and in words.
PROGRAMS = {"wpa_supplicant": {"file": "own/wpa_supplicant", "version": "v2.78", "sha256": "0"},
            "hostapd": {"file": "own/hostapd", "version": "v2.77", "sha256": "1"}}
TOLD = "hostapd v2.77 (own/hostapd), wpa_supplicant v2.78 (own/wpa_supplicant)"


@pytest.mark.parametrize(("change", "says"), [
    ({"policy": "other"}, "P3: records of different versions of the policy"),
    ({"medium": None}, "Records of different medium"),
    ({"debian": "trixie"}, "Records of different debian (bookworm, trixie)"),
    ({"programs": PROGRAMS}, f"Records of different programs ({TOLD}) are averaged"),
    ({"clock": "virtual"}, "1 record is of another clock (virtual) and left out")])
def test_mixed_circumstances_are_said(change: dict[str, Any], says: str) -> None:
    """One mean over two versions or media is no measurement of either; clocks are kept apart."""
    second = make("P3", 2)
    second = second.model_copy(update={"digests": change} if "policy" in change else {
        "environment": second.environment | change})
    cells = cells_of(make("P1", 1), make("P1", 2), make("P3", 1), second)
    warnings = STUDY.run_table(cells).warnings
    assert any(says in warning for warning in warnings), warnings


def test_records_of_before_releases_are_of_the_only_one() -> None:
    """A folder that was begun before records named it goes on without a warning."""
    first, second = make("P1", 1), make("P1", 2)
    assert "debian" not in first.environment
    second = changed(second, environment=second.environment | {"debian": "bookworm"})
    table = STUDY.run_table(cells_of(first, second))
    assert not [line for line in table.warnings if "debian" in line]
    assert any(" Debian: bookworm." in note for note in table.notes)
    other = {**first.environment, "machine": "host"}
    table = STUDY.run_table(cells_of(changed(first, environment=other)))
    assert not any(" Debian: " in note for note in table.notes)


def test_own_programs_are_told_wherever_numbers_are(tmp_path: Path, qop_here: Qop) -> None:
    """Or a reader takes the numbers for those of Debian's daemons."""
    record = make("P1", 1)
    mine = changed(record, environment=record.environment | {"programs": PROGRAMS})
    line = f"Programs of the user's own took the place of Debian's: {TOLD}."
    assert line in STUDY.run_table(cells_of(mine)).warnings
    assert not [each for each in STUDY.run_table(cells_of(record)).warnings if "Programs" in each]
    write_all([mine], tmp_path / "mine")
    assert line in " ".join(qop_here("report", str(tmp_path / "mine")).stdout.split())
    assert line in html.unescape((tmp_path / "mine" / "report.html").read_text())
    write_all([record], tmp_path / "theirs")
    notes = qop_here("compare", str(tmp_path / "theirs"), str(tmp_path / "mine")).stdout
    assert f"The runs differ in programs: none and {TOLD}." in " ".join(notes.split())


def test_status_tells_why_repetitions_are_flagged(tmp_path: Path, qop_here: Qop) -> None:
    """The processor is one reason, a message that was sent again another."""
    records = [make("P1", number) for number in (1, 2, 3)]
    for number, flags in enumerate((["processor"], ["processor", "retransmission"], [])):
        records[number] = changed(records[number],
                                  environment=records[number].environment | {"flags": flags})
    write_all(records, tmp_path)
    assert qop_here("status", str(tmp_path)).stdout.splitlines()[0].endswith(
        " 2 flagged (2 waited long for the processor; 1 sent a message again)")
    write_all(records[2:], tmp_path / "other")
    assert qop_here("status", str(tmp_path / "other")).stdout.splitlines()[0].endswith(" 0 flagged")


def test_status_names_own_programs(tmp_path: Path, qop_here: Qop) -> None:
    """The plan names them, so this holds before the first record, too."""
    write_all([make("P1", 1)], tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())
    plan["settings"]["programs"] = PROGRAMS
    plan["digest"] = plan_digest(plan)
    (tmp_path / "plan.json").write_text(Manifest.model_validate(plan).to_text())
    assert f"programs of the user's own: {TOLD}\n" in qop_here("status", str(tmp_path)).stdout
    plan["settings"]["programs"] = ["hostapd"]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = qop_here("status", str(tmp_path))
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "programs: not programs by name" in done.stderr


@pytest.mark.parametrize("programs", [["hostapd"], {"hostapd": "v2.77"}, {"hostapd": {}},
                                      {"hostapd": {"version": 2, "file": "own/hostapd"}}])
def test_programs_of_another_form_are_no_record(programs: object) -> None:
    """A record may come from anybody."""
    record = make("P1", 1)
    text = to_text(changed(record, environment=record.environment | {"programs": programs}))
    with pytest.raises(RecordError, match="programs"):
        parse_record(text, "here")


# --- cost ----------------------------------------------------------------------------------------

def test_importing_analysis_is_quick() -> None:
    """Help and error messages of the command line do not wait for pandas."""
    code = ("import sys, analysis; analysis.NoResultsError; print([m for m in "
            "('numpy', 'pandas', 'scipy', 'rich', 'matplotlib') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=PROJECT)
    assert done.stdout.strip() == "[]"
