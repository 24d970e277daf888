"""Tests of measure.record and of what assemble puts in: whole or not at all, and readable again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recorded import POLICIES, SCENARIO, WEP_KEY, packets, path, raw

from measure import assemble as assembling
from measure import dissect, record
from measure.assemble import assemble, unmeasured
from measure.errors import MeasureError
from measure.record import (
    SCHEMA,
    CheckRecord,
    PhaseRecord,
    Record,
    RecordError,
    StreamRecord,
    record_name,
)

ROOT = Path(__file__).parent.parent
BLANK = dissect.parse_fields("0\t60\n")[0]
# So many of a stream are kept in a recording.
RECORDED_DATAGRAMS = 8

finite = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,8}", fullmatch=True)
plain = st.recursive(st.none() | st.booleans() | st.integers(-2**53, 2**53) | finite | words,
                     lambda inner: st.lists(inner, max_size=3)
                     | st.dictionaries(words, inner, max_size=3), max_leaves=6)
streams = st.none() | st.builds(
    StreamRecord, goodput_bps=finite, bytes=st.integers(0, 2**62), duration_s=finite,
    iperf=st.dictionaries(words, finite, max_size=3))
phase_lists = st.lists(st.builds(PhaseRecord, name=words, start_s=finite, duration_s=finite,
                                 packets=st.integers(0, 10**6)), max_size=3)
records = st.builds(
    Record, schema=st.just(SCHEMA), policy=names, scenario=names, repetition=st.integers(0, 9999),
    status=st.sampled_from(["ok", "failed", "skipped"]), reason=words,
    authentication_time_s=st.none() | finite,
    authentication_components_s=st.dictionaries(words, finite, max_size=3),
    authentication_sum=st.lists(words, max_size=3), phases=phase_lists, handoff=phase_lists,
    tcp=streams, udp=streams,
    evidence=st.lists(st.builds(CheckRecord, check=words, ok=st.booleans(), detail=words),
                      max_size=3),
    environment=st.dictionaries(words, plain, max_size=3),
    captures=st.lists(st.dictionaries(words, plain, max_size=3), max_size=2),
    attempt=st.integers(1, 9), elapsed_s=finite, raw=st.dictionaries(words, plain, max_size=3))


def a_record(**changes: Any) -> Record:
    """A record of a repetition that was not measured, with changes."""
    made = unmeasured(POLICIES["P1"], SCENARIO, 1, "no reason", environment={}, attempt=1)
    return made.model_copy(update=changes)


def refusal(file: Path) -> str:
    """The one line with which a file is refused; it begins with the file's name."""
    with pytest.raises(RecordError) as caught:
        record.read(file)
    line = str(caught.value)
    assert line.startswith(f"{file}: ")
    assert len(line.splitlines()) == 1
    return line


# Writing -------------------------------------------------------------------------------------


def test_name_sorts_by_policy_scenario_and_repetition() -> None:
    """Names are those of the cell and a repetition of three digits, so that files sort."""
    assert a_record(repetition=7).name == "P1-N2-007" == record_name("P1", "N2", 7)
    assert record_name("P1", "N2", 2) < record_name("P1", "N2", 10)


def test_written_record_is_plain_json_with_the_documented_keys(tmp_path: Path) -> None:
    """Other tools find `schema` (no underscore) and the fields that the issue names."""
    file = record.write(a_record(), tmp_path / "new" / "records")
    assert file == tmp_path / "new" / "records" / "P1-N2-001.json"
    found = json.loads(file.read_text())
    assert found["schema"] == SCHEMA
    assert set(found) >= {"schema", "policy", "scenario", "repetition", "status", "reason",
                          "authentication_time_s", "authentication_components_s",
                          "authentication_sum", "phases", "handoff", "tcp", "udp", "evidence",
                          "environment"}
    assert "schema_" not in found


def test_every_field_is_documented() -> None:
    """docs/records.md has a row for every field of a record and of its parts."""
    text = (ROOT / "docs" / "records.md").read_text()
    for part in (Record, PhaseRecord, StreamRecord, CheckRecord):
        for name, field in part.model_fields.items():
            shown = "schema" if name == "schema_" else field.alias or name
            assert f"`{shown}`" in text, shown


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(records)
def test_round_trip(tmp_path: Path, made: Record) -> None:
    """Whatever a record holds (finite numbers), reading gives back what was written."""
    assert record.read(record.write(made, tmp_path)) == made


def test_no_record_is_written_that_cannot_be_read(tmp_path: Path) -> None:
    """A value that is no number is refused when written, or survives; it is not lost."""
    try:
        stream = StreamRecord(goodput_bps=float("inf"), bytes=1, duration_s=0, iperf={})
        file = record.write(a_record(tcp=stream), tmp_path)
    except ValueError:
        return
    assert record.read(file).tcp == stream


def test_second_write_replaces_the_first(tmp_path: Path) -> None:
    """Measured again means: one file, the later record."""
    record.write(a_record(reason="first"), tmp_path)
    file = record.write(a_record(reason="second"), tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]
    assert record.read(file).reason == "second"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failure_before_the_rename_leaves_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full disk at the last moment leaves neither a record nor a temporary file."""
    def fail(*_: object) -> None:
        raise OSError("no space left on device")
    monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
    with pytest.raises(OSError, match="no space"):
        record.write(a_record(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_failed_write_keeps_the_earlier_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was measured before stays when its replacement cannot be written."""
    file = record.write(a_record(reason="first"), tmp_path)

    def fail(*_: object) -> None:
        raise OSError("no space left on device")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        record.write(a_record(reason="second"), tmp_path)
    assert record.read(file).reason == "first"


_WRITER = """
import sys
from pathlib import Path
from measure import record
made = record.read(Path(sys.argv[1]))
print("writing", flush=True)
for number in range(10**9):
    record.write(made.model_copy(update={"repetition": number % 5}), Path(sys.argv[2]))
"""


def test_killed_writers_leave_only_whole_records(tmp_path: Path) -> None:
    """Killed at any moment (SIGKILL, ten times), a writer leaves whole records or none."""
    big = a_record(raw={"events": [{"text": "x" * 4000, "at_s": n} for n in range(50)]})
    source = record.write(big, tmp_path / "source")
    folder = tmp_path / "records"
    for attempt in range(10):
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(source), str(folder)], cwd=ROOT,
                              stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(0.003 + 0.0037 * attempt)
            writer.send_signal(signal.SIGKILL)
        found, complaints = record.read_all(folder)
        assert complaints == []
        assert all(entry.raw == big.raw for entry in found)
    assert record.read_all(folder)[0]


# Reading -------------------------------------------------------------------------------------


def test_other_schema_is_refused_with_advice(tmp_path: Path) -> None:
    """A record of another version is refused by its number, with what to do."""
    file = record.write(a_record(schema_=SCHEMA + 1), tmp_path)
    line = refusal(file)
    assert f"schema {SCHEMA + 1}" in line
    assert "measure again" in line


def test_other_schema_with_other_fields_is_refused_by_its_number(tmp_path: Path) -> None:
    """The next version will have other fields; its number is what the user needs to hear."""
    file = tmp_path / "P1-N2-001.json"
    file.write_text(json.dumps({"schema": SCHEMA + 1, "policy": "P1", "cells": []}))
    assert f"schema {SCHEMA + 1}" in refusal(file)


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b"null", b"17", b'"record"', b"{}", b"\xff\xfe\x00", b"\x00" * 1000,
    b"x" * 3_000_000, b"[" * 100_000, b'{"schema": 1}', b'{"policy": "P1", "goodput": 3}',
])
def test_junk_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    """What is no record is refused in one line of bearable length, whatever it is."""
    file = tmp_path / "junk.json"
    file.write_bytes(content)
    assert len(refusal(file)) < 400 + len(str(file))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=200) | plain.map(lambda value: json.dumps(value).encode()))
def test_any_junk_is_refused(tmp_path: Path, content: bytes) -> None:
    """No file of any content ends in anything but a RecordError."""
    file = tmp_path / "junk.json"
    file.write_bytes(content)
    with pytest.raises(RecordError):
        record.read(file)


@pytest.mark.parametrize(("field", "value"), [
    ("status", "fine"), ("repetition", "many"), ("phases", {}), ("evidence", [{"check": "x"}]),
    ("tcp", {"goodput_bps": 1}), ("authentication_time_s", "soon"), ("raw", [])])
def test_wrong_value_is_named(field: str, value: object, tmp_path: Path) -> None:
    """A record damaged by hand is refused with the field's name."""
    file = record.write(a_record(), tmp_path)
    document = json.loads(file.read_text())
    document[field] = value
    file.write_text(json.dumps(document))
    assert f": {field}" in refusal(file)


def test_unknown_field_is_named(tmp_path: Path) -> None:
    """A field that this version does not know is refused, not dropped."""
    file = record.write(a_record(), tmp_path)
    file.write_text(json.dumps({**json.loads(file.read_text()), "latency_s": 1}))
    assert ": latency_s: " in refusal(file)


def test_unknown_field_with_a_line_break_stays_one_line(tmp_path: Path) -> None:
    """Even a hostile key does not make the refusal two lines."""
    file = record.write(a_record(), tmp_path)
    file.write_text(json.dumps({**json.loads(file.read_text()), "a\nb": 1}))
    refusal(file)


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    """Neither a name without a file nor a folder is a record."""
    assert "cannot be read" in refusal(tmp_path / "none.json")
    assert "cannot be read" in refusal(tmp_path)


def test_read_all_goes_on_after_junk(tmp_path: Path) -> None:
    """One bad file costs one line; the good ones come in order of name, temporaries unseen."""
    for repetition in (10, 2, 1):
        record.write(a_record(repetition=repetition), tmp_path)
    (tmp_path / "P1-N2-003.json").write_text("{")
    (tmp_path / ".P1-N2-004.99.tmp").write_text("{")
    (tmp_path / "notes.txt").write_text("mine")
    found, complaints = record.read_all(tmp_path)
    assert [entry.repetition for entry in found] == [1, 2, 10]
    assert len(complaints) == 1
    assert "P1-N2-003.json" in complaints[0]


def test_read_all_of_nothing(tmp_path: Path) -> None:
    """A folder that is empty or not there holds no records."""
    assert record.read_all(tmp_path) == ([], [])
    assert record.read_all(tmp_path / "none") == ([], [])


def test_records_are_frozen() -> None:
    """A measured value is not changed after the fact."""
    with pytest.raises(ValueError, match="frozen"):
        a_record().reason = "better"


# Assembling ----------------------------------------------------------------------------------


def test_unmeasured_has_a_reason_and_nothing_else() -> None:
    """A repetition that never began is a failed record with its reason and circumstances."""
    made = unmeasured(POLICIES["P8"], SCENARIO, 3, "guest was killed", environment={"a": 1},
                      attempt=2)
    assert (made.status, made.reason, made.attempt) == ("failed", "guest was killed", 2)
    assert made.environment == {"a": 1, "policy_sha256": POLICIES["P8"].digest()}
    assert (made.tcp, made.udp, made.authentication_time_s, made.phases) == (None, None, None, [])
    assert (made.authentication_components_s, made.authentication_sum, made.handoff) == ({}, [], [])


def udp(times: list[float], *, received_bytes: int = 140_000, length: int = 1442,
        others: list[float] | None = None) -> StreamRecord | None:
    """The UDP stream of datagrams seen at these times, between 10 and 20 s, and other packets."""
    report = raw("P1")["iperf_udp"]
    report["end"]["sum_received"]["bytes"] = received_bytes
    values = {"iperf_udp": report, "stamps": {"udp_start": 10.0, "udp_end": 20.0}}
    wire = [replace(BLANK, time_s=at_s, length=length) for at_s in times]
    wire += [replace(BLANK, time_s=at_s, length=66) for at_s in others or []]
    return assembling._udp(values, sorted(wire, key=lambda packet: packet.time_s))


def test_udp_duration_is_n_intervals_of_the_mean_gap() -> None:
    """Five datagrams, 1 s apart, take 5 s: n/(n-1) of the time from first to last."""
    found = udp([11, 12, 13, 14, 15], received_bytes=5000)
    assert found is not None
    assert found.duration_s == pytest.approx(5.0)
    assert found.goodput_bps == pytest.approx(5000 * 8 / 5)
    assert found.bytes == 5000


def test_udp_counts_only_its_own_packets_in_its_own_time() -> None:
    """Iperf3's control packets and datagrams outside the stream's stamps do not move the clock."""
    plain_stream = udp([11, 12, 13])
    assert udp([11, 12, 13], others=[10.5, 19.5]) == plain_stream
    assert udp([9.0, 11, 12, 13, 21.0]) == plain_stream


@pytest.mark.parametrize("times", [[], [11.0], [12.0, 12.0], [5.0, 25.0]])
def test_udp_without_a_duration_is_no_stream(times: list[float]) -> None:
    """Fewer than two datagrams, or no time between them, give no rate rather than a wrong one."""
    assert udp(times) is None


@given(st.integers(2, 400), st.floats(1e-4, 0.02))
def test_udp_recovers_the_rate(count: int, gap_s: float) -> None:
    """Datagrams of 1400 bytes, evenly spaced, give their rate whatever count and spacing."""
    times = [10.5 + n * gap_s for n in range(count)]
    found = udp(times, received_bytes=count * 1400)
    assert found is not None
    assert found.goodput_bps == pytest.approx(1400 * 8 / gap_s, rel=1e-6)


@pytest.mark.parametrize("recording", ["P1", "P3", "P3-N3", "P1-R2"])
def test_udp_of_a_recording_is_timed_where_it_arrives(recording: str) -> None:
    """A recording's duration is that of its datagrams at the peer, not iperf3's.

    Of a tunnel's packets, packed and unpacked in one capture, only the unpacked ones are timed.
    """
    values, arrived = raw(recording), packets(recording, "traffic-peer")
    found = assembling._udp(values, arrived)
    assert found is not None
    times = [p.time_s for p in arrived if p.length == 1442 and p.udp_dst == 5201
             and p.time_s >= values["stamps"]["udp_start"]]
    assert len(times) == RECORDED_DATAGRAMS
    assert found.duration_s == pytest.approx(
        (times[-1] - times[0]) * RECORDED_DATAGRAMS / (RECORDED_DATAGRAMS - 1))
    assert found.bytes == values["iperf_udp"]["end"]["sum_received"]["bytes"]
    assert found.iperf["duration_s"] == values["iperf_udp"]["end"]["sum_received"]["seconds"]


def test_udp_in_a_tunnel_is_timed_by_its_commonest_packet() -> None:
    """Where only packed packets show at the peer, those of the stream's size are the stream."""
    plain_stream = udp([11, 12, 13, 14], length=1510)
    assert udp([11, 12, 13, 14], length=1510, others=[10.5, 19.5]) == plain_stream
    assert plain_stream is not None
    assert plain_stream.duration_s == pytest.approx(4.0)


def test_stream_that_was_not_asked_for_is_absent() -> None:
    """A size of 0 leaves a stream out; nothing is made up for it."""
    assert assembling._tcp({}) is None
    assert assembling._udp({"stamps": {}}, []) is None


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of P7's recorded repetition, to be damaged."""
    return Path(shutil.copytree(path("P7", "auth-mn").parent, tmp_path / "r1"))


def change_raw(folder: Path, **values: Any) -> None:
    """Change a repetition's raw values."""
    (folder / "raw.json").write_text(json.dumps(raw("P7") | values))


def assemble_p7(folder: Path) -> Record:
    """The record of a damaged repetition."""
    return assemble(POLICIES["P7"], SCENARIO, 1, folder, environment={}, wep_key=WEP_KEY,
                    attempt=1)


def test_failure_inside_the_machine_is_the_reason(copied: Path) -> None:
    """What ended a repetition is its reason; the checks are kept beside it."""
    change_raw(copied, failure={"stage": "stream", "reason": "TCP stream did not end"})
    made = assemble_p7(copied)
    assert (made.status, made.reason) == ("failed", "TCP stream did not end")
    assert made.authentication_time_s is None
    assert made.evidence
    assert made.phases


def test_repetition_that_ended_before_its_start(copied: Path) -> None:
    """A failure before the first stamp gives a record without phases."""
    change_raw(copied, captures=[], stamps={}, events=[], kernel={},
               failure={"stage": "testbed", "reason": "SAs are left over"})
    for name in ("iperf_tcp", "iperf_udp"):
        values = json.loads((copied / "raw.json").read_text())
        del values[name]
        (copied / "raw.json").write_text(json.dumps(values))
    made = assemble_p7(copied)
    assert (made.status, made.reason, made.phases) == ("failed", "SAs are left over", [])


def test_missing_capture_is_named(copied: Path) -> None:
    """A capture that raw values name but that is not there is an error that names it."""
    (copied / "auth-wire.pcap").unlink()
    with pytest.raises(MeasureError, match=r"auth-wire\.pcap"):
        assemble_p7(copied)


def test_missing_raw_values_are_an_os_error(copied: Path) -> None:
    """Without raw.json there is nothing to assemble, as documented."""
    (copied / "raw.json").unlink()
    with pytest.raises(OSError, match=r"raw\.json"):
        assemble_p7(copied)


def test_half_written_raw_values_are_a_measure_error(copied: Path) -> None:
    """A guest killed while it wrote raw.json gives one of the documented errors."""
    whole = (copied / "raw.json").read_text()
    (copied / "raw.json").write_text(whole[:len(whole) // 2])
    with pytest.raises((MeasureError, OSError)):
        assemble_p7(copied)


@pytest.mark.parametrize("module", ["measure.assemble", "measure.record", "measure.evidence",
                                    "topologies.loader", "topologies.model"])
def test_imports_without_mininet(module: str) -> None:
    """What runs outside the machine needs neither Mininet nor anything else only a machine has."""
    code = ("import sys, importlib\n"
            "for name in ('mininet', 'pyroute2', 'vici'):\n"
            "    sys.modules[name] = None\n"
            f"importlib.import_module({module!r})\n")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
