"""Tests of analysis: records to frame, cells, and overhead."""

from __future__ import annotations

import csv
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
from analysis import frame, overhead
from analysis.cells import Missing
from analysis.statistics import Estimate
from conftest import PROJECT
from fabricated import (
    P1_PHASES,
    P12_PHASES,
    POLICIES,
    REJECTED,
    cell_of,
    failed,
    lines_of,
    make,
    paper_run,
    row_of,
    summary_of,
)
from measure import phases as measured
from measure.record import CheckRecord, PhaseRecord, Record, write
from studies.qop2007.report.phase_names import component_phases

# --- records to frame ---------------------------------------------------------------------------

def test_a_record_becomes_a_row_with_units_in_its_columns(tmp_path: Path) -> None:
    """Every metric, phase and circumstance of P12 is there, under a name with its unit."""
    write(make("P12", 2, phases=P12_PHASES, tcp=4.4e6, attempt=2), tmp_path / "records")
    results = analysis.load(tmp_path)
    assert results.complaints == []
    row = results.frame.iloc[0]
    assert row["tcp_goodput_bps"] == 4.4e6
    assert row["authentication_time_s"] == pytest.approx(0.0217 + 0.0017 + 0.0020 + 0.0171)
    assert row["phase_dot1x_duration_s"] == 0.0217
    assert row["phase_dot1x_packets"] == 17
    assert (row["attempt"], row["verified"], row["medium"]) == (2, True, "802.11b-long")
    assert row["policy_sha256"] == POLICIES["P12"].digest()
    assert frame.phases(results.frame) == tuple(P12_PHASES)


def test_rows_are_in_the_papers_order() -> None:
    """P2 comes before P10, N1 before N2, whatever the order of the files."""
    records = [make(policy, scenario=scenario) for policy in ("P10", "P2", "WPA2-PSK")
               for scenario in ("R1", "N2")]
    found = frame.from_records(records).frame
    assert list(zip(found["scenario"], found["policy"], strict=True)) == [
        (scenario, policy) for scenario in ("N2", "R1") for policy in ("P2", "P10", "WPA2-PSK")]


def test_a_phase_that_took_place_twice_is_summed() -> None:
    """A mobile node that authenticates at home and abroad spends the sum of both."""
    twice = [PhaseRecord(name="dot1x", start_s=at, duration_s=0.02, packets=17) for at in (0, 1)]
    row = frame.from_records([make("P6").model_copy(update={"phases": twice})]).frame.iloc[0]
    assert row["phase_dot1x_duration_s"] == pytest.approx(0.04)
    assert row["phase_dot1x_packets"] == 34


def test_unknown_phases_are_shown_and_come_before_the_first_packet() -> None:
    """A later study's phases need no change here."""
    summary = summary_of(make(phases={"scan": (0.04, 2), "first_packet": (0.01, 2),
                                      "mip_registration": (1.4, 4)}))
    assert summary.phases == ("scan", "mip_registration", "first_packet")
    assert "mip registration" in analysis.tables.text(summary, 140)


def test_the_authentication_time_is_the_sum_that_the_record_names() -> None:
    """At home and away, for every policy: components and sum as measure makes them, by Table 4."""
    results = frame.from_records(paper_run(("N2", "R1"), repetitions=1))
    for _, row in results.frame.iterrows():
        parts = [row[f"component_{name}_s"] for name in row["authentication_sum"].split("+")]
        assert row["authentication_time_s"] == pytest.approx(sum(parts))
    away = results.frame[results.frame["scenario"] == "R1"].set_index("policy")
    assert away["authentication_sum"]["P3"] == (
        "mip_registration_home+ike_home+mip_registration_foreign")
    assert frame.components(results.frame) == (
        "eap_home", "mip_registration_home", "ike_home",
        "eap_foreign", "mip_registration_foreign", "ike_foreign")


def test_an_authentication_time_that_is_not_its_sum_is_left_out(tmp_path: Path) -> None:
    """A record that contradicts itself was written by something else than measure."""
    write(make("P12", 2, phases=P12_PHASES), tmp_path)
    write(make("P12", 1, phases=P12_PHASES, authentication_time_s=0.02), tmp_path)
    results = analysis.load(tmp_path)
    assert results.frame["repetition"].tolist() == [2]
    assert "its components add up to 0.0425" in results.complaints[0]


@pytest.mark.parametrize("name", frame._COMPONENTS)
def test_components_consist_of_the_phases_that_are_said(name: str) -> None:
    """The phases that a component takes the place of in a table are those that measure sums up."""
    for parts in ([part] for part in component_phases(name) if not part.endswith("discovery")):
        phases = [measured.Phase(part, 0.0, 1.0, 2) for part in parts]
        assert measured.components(phases) == {name: 1.0}


def test_averaging_different_sums_is_said() -> None:
    """Two records of a cell whose authentication times mean different things."""
    other = make("P3", 2, authentication_sum=["ike_home"], authentication_time_s=0.0)
    warnings = summary_of(make("P1"), make("P3", 1), other).warnings
    assert any(warning.startswith("P3 in N2: authentication times of different sums")
               for warning in warnings)


DAMAGE = {
    "empty": b"", "cut": b'{"schema": 1, "policy": "P', "binary": b"\xff\xfe\x00\x01",
    "list": b"[1, 2]", "foreign": b'{"hello": "world"}', "deep": b"[" * 100_000}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_files_are_named_and_counted(tmp_path: Path, kind: str) -> None:
    """A file that is no record is left out by name; the others still make a table."""
    write(make(), tmp_path / "records")
    (tmp_path / "records" / f"{kind}.json").write_bytes(DAMAGE[kind])
    results = analysis.load(tmp_path)
    assert len(results.frame) == 1
    assert len(results.complaints) == 1
    assert f"{kind}.json" in results.complaints[0]
    assert "\n" not in results.complaints[0]
    text = analysis.tables.text(analysis.summarize(results), 300)
    assert "1 file is no usable record and left out:" in text
    assert f"{kind}.json" in text


@pytest.mark.parametrize(("field", "value"), [
    ("schema", 99), ("repetition", -1), ("authentication_time_s", float("inf")),
    ("authentication_time_s", float("nan")), ("elapsed_s", -1), ("status", "fine"),
    ("tcp", {"goodput_bps": -4.0, "bytes": 1, "duration_s": 1.0, "iperf": {}}),
    ("udp", {"goodput_bps": float("nan"), "bytes": 1, "duration_s": 1.0, "iperf": {}}),
    ("authentication_components_s", {"ike_home": -0.1}),
    ("handoff", [{"name": "ike", "start_s": 0, "duration_s": -1, "packets": 9}]),
    ("phases", [{"name": "ike", "start_s": 0, "duration_s": -1, "packets": 9}])])
def test_other_schemas_and_impossible_numbers_are_left_out(tmp_path: Path, field: str,
                                                           value: Any) -> None:
    """A number that cannot be never gets into a mean."""
    write(make(repetition=2), tmp_path)
    path = write(make(), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    results = analysis.load(tmp_path)
    assert results.frame["repetition"].tolist() == [2]
    assert len(results.complaints) == 1
    assert path.name in results.complaints[0]


def test_a_copied_record_counts_once(tmp_path: Path) -> None:
    """A copy would make n larger and the interval narrower than they are."""
    path = write(make(), tmp_path / "records")
    (tmp_path / "records" / "copy of it.json").write_bytes(path.read_bytes())
    results = analysis.load(tmp_path)
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
    with pytest.raises(analysis.NothingToReport, match=says) as caught:
        analysis.load(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert issubclass(analysis.NothingToReport, ValueError)


def test_text_from_records_cannot_steer_the_terminal() -> None:
    """Escape sequences and line breaks in a reason are shown as spaces, markup as it is."""
    summary = summary_of(failed("P6", 1, "\x1b[31mred\x07\n[bold]not bold[/bold]"))
    text = analysis.tables.text(summary, 120)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[31mred  [bold]not bold[/bold]" in text


# --- the plan beside the records -----------------------------------------------------------------

def plan_file(folder: Path, **changes: Any) -> None:
    """A run's plan of three policies twice in N2."""
    plan = {"schema": 1, "policies": {"P8": "x", "P1": "y", "P2": "z"}, "scenarios": ["N2"],
            "names": {"P8": "EAP-TLS and WEP"}, "settings": {"repetitions": 2}} | changes
    (folder / "plan.json").write_text(json.dumps(plan))


def test_the_plan_gives_order_names_and_what_is_still_to_come(tmp_path: Path) -> None:
    """An interrupted run shows its cells in the run's order, and the missing ones as not run."""
    write(make("P1", 1), tmp_path / "records")
    write(make("P1", 2), tmp_path / "records")
    write(make("P8", 1), tmp_path / "records")
    plan_file(tmp_path)
    summary = analysis.summarize(analysis.load(tmp_path))
    assert [cell.policy for cell in summary.cells["N2"]] == ["P8", "P1", "P2"]
    assert cell_of(summary, "P8").name == "EAP-TLS and WEP"
    assert cell_of(summary, "P8").state == "too few"
    assert cell_of(summary, "P2").state == "not run"
    text = analysis.tables.text(summary, 200)
    assert re.search(r"P2 +0/2 +not run .* -$", row_of(text, "P2"))
    assert "1/2" in row_of(text, "P8")


@pytest.mark.parametrize("content", ["", "[]", '{"names": 3}', '{"names": {}, "policies": {}}'])
def test_a_strange_plan_costs_only_names_and_order(tmp_path: Path, content: str) -> None:
    """The records carry every number; the plan is a convenience."""
    write(make(), tmp_path / "records")
    (tmp_path / "plan.json").write_text(content)
    assert analysis.load(tmp_path).plan == frame.Plan()


# --- means and cells -----------------------------------------------------------------------------

def test_only_good_repetitions_enter_a_mean() -> None:
    """A failed repetition has phases all the same; none of them counts."""
    summary = summary_of(make(repetition=1), make(repetition=2),
                         failed("P1", 3, phases={"scan": (9.0, 99)}))
    cell = cell_of(summary, "P1")
    assert (cell.good, cell.total) == (2, 3)
    assert cell.phases["scan"].duration_s == Estimate(0.0394, 0.0394, 0.0394, 2)
    assert cell.phases["scan"].packets == (3, 3)
    assert cell.failures == (f"failed 1 of 3 (repetition 3): {REJECTED}",)
    assert cell.verified


@pytest.mark.parametrize(("records", "state", "word"), [
    ([failed("P6", 1), failed("P6", 2)], "failed", "failed"),
    ([make("P6", 1), failed("P6", 2), failed("P6", 3)], "too few", "too few"),
    ([failed("P6", 1).model_copy(update={"status": "skipped"})], "skipped", "skipped")])
@pytest.mark.parametrize("width", [80, 100, 250])
def test_a_cell_without_enough_good_repetitions_has_no_number(records: list[Record], state: str,
                                                              word: str, width: int) -> None:
    """It says so in every column of every table it has a row in."""
    records = [record.model_copy(update={"phases": []}) for record in records]
    base = [make("P1", repetition) for repetition in (1, 2, 3)]
    summary = summary_of(*base, *records)
    cell = cell_of(summary, "P6")
    assert cell.state == state
    assert not any(isinstance(value, Estimate) for value in cell.values.values())
    rows = [line for line in lines_of(summary, width) if re.match(r"P6 +\d/\d ", line)]
    assert rows
    for line in rows:
        shown = line.split(maxsplit=2)[2].removesuffix("no").replace("too few", "too-few")
        assert set(shown.split()) == {word.replace(" ", "-")}
    row = next(csv.DictReader(io.StringIO(analysis.tables.csv(
        analysis.summarize(frame.from_records(records))))))
    assert row["state"] == state
    assert row["tcp_goodput_bps"] == ""


def test_one_repetition_asked_for_gives_a_value_without_interval() -> None:
    """A first quick look has values; the note says why there is no interval."""
    summary = summary_of(make("P1"), make("P3", tcp=4.44e6))
    value = cell_of(summary, "P3").values["tcp_overhead_bps"]
    assert value.mean == pytest.approx(0.17e6)
    assert (value.low, value.high, value.n) == (None, None, 1)
    text = analysis.tables.text(summary, 200)
    assert "One repetition a cell" in text
    assert "\N{PLUS-MINUS SIGN}" not in row_of(text, "P3")


def test_what_was_not_measured_is_no_zero() -> None:
    """Streams of size 0 leave no column; a phase that a policy lacks is a dash."""
    records = [make(policy, repetition, phases=phases, udp=5.8e6) for repetition in (1, 2)
               for policy, phases in (("P1", P1_PHASES), ("P12", P12_PHASES))]
    records = [record.model_copy(update={"udp": None}) for record in records]
    summary = summary_of(*records)
    assert cell_of(summary, "P1").values["udp_goodput_bps"] is Missing.ABSENT
    assert cell_of(summary, "P1").state == "ok"
    text = analysis.tables.text(summary, 200)
    assert "UDP" not in text.splitlines()[2]
    assert re.search(r"3\.70 ± 0 +- +3\.7 \(4\) +- +39\.4 \(3\) +- +1\.7 \(2\) +2\.0 \(2\) +13\.5",
                     row_of(text, "P1"))


@pytest.mark.parametrize(("evidence", "why"), [
    ([], "2 good repetitions without full evidence"),
    ([CheckRecord(check="x", ok=False, detail="")], "2 good repetitions without full evidence")])
def test_a_cell_is_verified_only_by_evidence(evidence: list[CheckRecord], why: str) -> None:
    """Status ok alone proves nothing; the reason is under the table."""
    summary = summary_of(*(make(repetition=number, evidence=evidence) for number in (1, 2)))
    assert not cell_of(summary, "P1").verified
    text = analysis.tables.text(summary, 200)
    assert row_of(text, "P1").endswith(" no")
    assert f"P1 not verified: {why}" in text


def test_all_repetitions_failed_is_a_table_with_reasons() -> None:
    """Not even a phase was seen; the table still comes, with each reason once."""
    summary = summary_of(*(failed(policy, number, phases={}) for policy in ("P1", "P6")
                           for number in range(1, 9)))
    text = analysis.tables.text(summary, 160)
    assert "failed 8 of 8 (repetition 1, 2, 3, 4, 5, ...)" in text
    assert "No overhead in N2: the baseline P1 has no good repetition there." in text


# --- overhead ------------------------------------------------------------------------------------

def test_overhead_is_baseline_minus_policy_in_the_same_block() -> None:
    """The drift of 20 kbit/s a block cancels: the interval is far narrower than the goodput's."""
    summary = summary_of(*paper_run())
    cell = cell_of(summary, "P3")
    found = cell.values["tcp_overhead_bps"]
    assert found.mean == pytest.approx(0.17e6 - 0.002e6 / 3)
    assert found.n == 3
    assert found.half_width < cell.values["tcp_goodput_bps"].half_width / 10
    assert cell_of(summary, "P1").values["tcp_overhead_bps"] is Missing.REFERENCE
    assert cell_of(summary, "P5").values["tcp_overhead_bps"].spans_zero


def test_overhead_needs_its_own_scenario_and_blocks() -> None:
    """N2 has no good baseline and N1 one block in common; other scenarios do not fill in."""
    records = [make("P1", 1, scenario="N1"), make("P1", 2, scenario="N1"),
               make("P2", 2, scenario="N1"), make("P2", 3, scenario="N1"),
               failed("P1", 1), failed("P1", 2), make("P2", 1), make("P2", 2)]
    summary = summary_of(*records)
    assert cell_of(summary, "P2", "N1").values["tcp_overhead_bps"] is Missing.TOO_FEW
    assert cell_of(summary, "P2", "N2").values["tcp_overhead_bps"] is Missing.NO_BASELINE


def test_a_missing_baseline_is_said_and_numbers_stay() -> None:
    """Without P1 there is no overhead, but everything else; the first line says why."""
    text = analysis.tables.text(summary_of(make("P3", 1), make("P3", 2)), 200)
    assert text.startswith("! No overhead: there are no records of the baseline P1.")
    assert "no base" in row_of(text, "P3")
    assert "4.61" in row_of(text, "P3")


def test_another_policy_without_layers_stands_in_for_the_baseline() -> None:
    """A user's own open network is a baseline, known by the digest of no layers."""
    records = [make("OPEN", environment=make("P1").environment), make("P3", tcp=4.44e6)]
    summary = summary_of(*records)
    assert summary.baseline == "OPEN"
    assert cell_of(summary, "P3").values["tcp_overhead_bps"].mean == pytest.approx(0.17e6)
    assert "OPEN, which has no layers, is the baseline" in summary.warnings[0]


def test_a_baseline_with_layers_is_said() -> None:
    """Overhead relative to WEP is a fair question, but not the paper's."""
    summary = summary_of(make("P2"), make("P3"), baseline="P2")
    assert "P2 has security layers of its own" in summary.warnings[0]


def test_no_layers_have_the_digest_that_is_looked_for() -> None:
    """P1, and only P1 of the twelve, is recognised as the policy without layers."""
    bare = [name for name, policy in POLICIES.items()
            if policy.digest() == overhead.NO_LAYERS_SHA256]
    assert bare == ["P1"]


@pytest.mark.parametrize(("change", "says"), [
    ({"policy_sha256": "other"}, "P3: records of different versions of the policy"),
    ({"medium": None}, "Records of different medium"),
    ({"clock": "virtual"}, "1 record is of another clock (virtual) and left out"),
    ({"fault": "wrong-password"}, "Negative control: the fault 'wrong-password'")])
def test_mixed_circumstances_are_said(change: dict[str, Any], says: str) -> None:
    """One mean over two versions or media is no measurement of either; clocks are kept apart."""
    first, second = make("P3", 1), make("P3", 2)
    second = second.model_copy(update={"environment": second.environment | change})
    warnings = summary_of(make("P1", 1), make("P1", 2), first, second).warnings
    assert any(says in warning for warning in warnings), warnings


# --- cost ----------------------------------------------------------------------------------------

def test_importing_analysis_is_quick() -> None:
    """Help and error messages of the command line do not wait for pandas."""
    code = ("import sys, analysis; analysis.NothingToReport; print([m for m in "
            "('numpy', 'pandas', 'scipy', 'rich', 'matplotlib') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=PROJECT)
    assert done.stdout.strip() == "[]"
