"""Tests of measure.records.record: whole or not at all, readable again, and older ones upgraded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import plans
from conftest import PROJECT
from harness.engine import progress, recording
from harness.engine.plan import Step
from measure.records import record
from measure.records.record import (
    SCHEMA,
    CheckRecord,
    Record,
    RecordError,
    StudyRecord,
    record_name,
)
from policies import Policy
from studies.contract import Cell
from studies.policy_factors import policy_level
from studies.qop2007.measurements import Measurements, PhaseRecord, StreamRecord

finite = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,8}", fullmatch=True)
plain = st.recursive(st.none() | st.booleans() | st.integers(-2**53, 2**53) | finite | words,
                     lambda inner: st.lists(inner, max_size=3)
                     | st.dictionaries(words, inner, max_size=3), max_leaves=6)
records = st.builds(
    Record, schema=st.just(SCHEMA),
    study=st.builds(StudyRecord, id=names, version=st.integers(1, 9)),
    cell=st.dictionaries(names, names, min_size=1, max_size=3), repetition=st.integers(0, 9999),
    status=st.sampled_from(["ok", "failed", "skipped"]), reason=words,
    digests=st.dictionaries(names, words, max_size=3),
    asked=st.dictionaries(words, plain, max_size=3),
    measured=st.none() | st.dictionaries(words, plain, max_size=3),
    evidence=st.lists(st.builds(CheckRecord, check=words, ok=st.booleans(), detail=words),
                      max_size=3),
    environment=st.dictionaries(words, plain, max_size=3),
    captures=st.lists(st.dictionaries(words, plain, max_size=3), max_size=2),
    files=st.lists(names, max_size=2),
    attempt=st.integers(1, 9), elapsed_s=finite, raw=st.dictionaries(words, plain, max_size=3))


def a_record(**changes: Any) -> Record:
    """A record of a repetition that was not measured, with changes."""
    plan = plans.plan_of("P1")
    made = recording.make_unmeasured_record(plan, plan.all_steps()[0], "no reason", environment={},
                                            attempt=1)
    return made.model_copy(update=changes)


def refusal(file: Path) -> str:
    """The one line with which a file is refused; it begins with the file's name."""
    with pytest.raises(RecordError) as caught:
        record.read_record(file)
    line = str(caught.value)
    assert line.startswith(f"{file}: ")
    assert len(line.splitlines()) == 1
    return line


# Writing -------------------------------------------------------------------------------------


def test_name_sorts_by_cell_and_repetition() -> None:
    """Names are those of the cell and a repetition of three digits, so that files sort."""
    assert a_record(repetition=7).name == "P1-N2-007" == record_name(("P1", "N2"), 7)
    assert record_name(("P1", "N2"), 2) < record_name(("P1", "N2"), 10)


def test_written_record_is_plain_json_with_the_documented_keys(tmp_path: Path) -> None:
    """Other tools find `schema` (no underscore) and the fields that the issue names."""
    file = record.write_record(a_record(), tmp_path / "new" / "records")
    assert file == tmp_path / "new" / "records" / "P1-N2-001.json"
    found = json.loads(file.read_text())
    assert found["schema"] == SCHEMA
    assert set(found) >= {"schema", "study", "cell", "repetition", "status", "reason", "digests",
                          "asked", "measured", "evidence", "environment"}
    assert "schema_" not in found


def test_every_field_is_documented() -> None:
    """docs/records.md has a row for every field of a record and of its parts."""
    text = (PROJECT / "docs" / "records.md").read_text()
    for part in (Record, StudyRecord, CheckRecord, Measurements, PhaseRecord, StreamRecord):
        for name, field in part.model_fields.items():
            shown = "schema" if name == "schema_" else field.alias or name
            assert f"`{shown}`" in text, shown


@given(records)
def test_round_trip(tmp_path: Path, made: Record) -> None:
    """Whatever a record holds (finite numbers), reading gives back what was written."""
    assert record.read_record(record.write_record(made, tmp_path)) == made


def test_no_record_is_written_that_cannot_be_read(tmp_path: Path) -> None:
    """A value that is not a number is refused when written, or survives; it is not lost."""
    endless = a_record(elapsed_s=float("inf"))
    try:
        file = record.write_record(endless, tmp_path)
    except ValueError:
        return
    with pytest.raises(RecordError):
        record.read_record(file)


def test_second_write_replaces_the_first(tmp_path: Path) -> None:
    """Measured again means: one file, the later record."""
    record.write_record(a_record(reason="first"), tmp_path)
    file = record.write_record(a_record(reason="second"), tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]
    assert record.read_record(file).reason == "second"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failure_before_the_rename_leaves_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full disk at the last moment leaves neither a record nor a temporary file."""
    def fail(*_: object) -> None:
        raise OSError("no space left on device")
    monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
    with pytest.raises(OSError, match="no space"):
        record.write_record(a_record(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_failed_write_keeps_the_earlier_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was measured before stays when its replacement cannot be written."""
    file = record.write_record(a_record(reason="first"), tmp_path)

    def fail(*_: object) -> None:
        raise OSError("no space left on device")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        record.write_record(a_record(reason="second"), tmp_path)
    assert record.read_record(file).reason == "first"


_WRITER = """
import sys
from pathlib import Path
from measure.records import record
made = record.read_record(Path(sys.argv[1]))
print("writing", flush=True)
for number in range(10**9):
    record.write_record(made.model_copy(update={"repetition": number % 5}), Path(sys.argv[2]))
"""


def test_killed_writers_leave_only_whole_records(tmp_path: Path) -> None:
    """Killed at any moment (SIGKILL, six times), a writer leaves whole records or none."""
    big = a_record(raw={"events": [{"text": "x" * 4000, "at_s": n} for n in range(50)]})
    source = record.write_record(big, tmp_path / "source")
    folder = tmp_path / "records"
    for attempt in range(6):
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(source), str(folder)],
                              cwd=PROJECT, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(0.003 + 0.0061 * attempt)
            writer.send_signal(signal.SIGKILL)
        found, complaints = record.read_records(folder)
        assert complaints == []
        assert all(entry.raw == big.raw for entry in found)
    assert record.read_records(folder)[0]


# Reading -------------------------------------------------------------------------------------


def test_other_schema_is_refused_with_advice(tmp_path: Path) -> None:
    """A record of another version is refused by its number, with what to do."""
    file = record.write_record(a_record(schema_=SCHEMA + 1), tmp_path)
    line = refusal(file)
    assert f"schema {SCHEMA + 1}" in line
    assert "measure again" in line


def test_other_schema_with_other_fields_is_refused_by_its_number(tmp_path: Path) -> None:
    """The next version will have other fields; its number is what the user needs to hear."""
    file = tmp_path / "P1-N2-001.json"
    file.write_text(json.dumps({"schema": SCHEMA + 1, "cell": {}, "cells": []}))
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


@given(st.binary(max_size=200) | plain.map(lambda value: json.dumps(value).encode()))
def test_any_junk_is_refused(tmp_path: Path, content: bytes) -> None:
    """No file of any content ends in anything but a RecordError."""
    file = tmp_path / "junk.json"
    file.write_bytes(content)
    with pytest.raises(RecordError):
        record.read_record(file)


@pytest.mark.parametrize(("field", "value"), [
    ("status", "fine"), ("repetition", "many"), ("cell", []), ("evidence", [{"check": "x"}]),
    ("study", {"id": "x"}), ("measured", 3), ("raw", [])])
def test_wrong_value_is_named(field: str, value: object, tmp_path: Path) -> None:
    """A record damaged by hand is refused with the field's name."""
    file = record.write_record(a_record(), tmp_path)
    document = json.loads(file.read_text())
    document[field] = value
    file.write_text(json.dumps(document))
    assert f": {field}" in refusal(file)


def test_unknown_field_is_named(tmp_path: Path) -> None:
    """A field that this version does not know is refused, not dropped."""
    file = record.write_record(a_record(), tmp_path)
    file.write_text(json.dumps({**json.loads(file.read_text()), "latency_s": 1}))
    assert ": latency_s: " in refusal(file)


def test_unknown_field_with_a_line_break_stays_one_line(tmp_path: Path) -> None:
    """Even a hostile key does not make the refusal two lines."""
    file = record.write_record(a_record(), tmp_path)
    file.write_text(json.dumps({**json.loads(file.read_text()), "a\nb": 1}))
    refusal(file)


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    """Neither a name without a file nor a folder is a record."""
    assert "cannot be read" in refusal(tmp_path / "none.json")
    assert "cannot be read" in refusal(tmp_path)


def test_read_all_goes_on_after_junk(tmp_path: Path) -> None:
    """One bad file costs one line; the good ones come in order of name, temporaries unseen."""
    for repetition in (10, 2, 1):
        record.write_record(a_record(repetition=repetition), tmp_path)
    (tmp_path / "P1-N2-003.json").write_text("{")
    (tmp_path / ".P1-N2-004.99.tmp").write_text("{")
    (tmp_path / "notes.txt").write_text("mine")
    found, complaints = record.read_records(tmp_path)
    assert [entry.repetition for entry in found] == [1, 2, 10]
    assert len(complaints) == 1
    assert "P1-N2-003.json" in complaints[0]


def test_read_all_of_nothing(tmp_path: Path) -> None:
    """A folder that is empty or not there holds no records."""
    assert record.read_records(tmp_path) == ([], [])
    assert record.read_records(tmp_path / "none") == ([], [])


def test_records_are_frozen() -> None:
    """A measured value is not changed after the fact."""
    with pytest.raises(ValueError, match="frozen"):
        a_record().reason = "better"


# Made by the engine ------------------------------------------------------------------------


def test_unmeasured_has_a_reason_and_nothing_else() -> None:
    """A repetition that never began is a failed record with its reason and circumstances."""
    plan = plans.plan_of("P8", repetitions=3)
    step = plan.all_steps()[-1]
    made = recording.make_unmeasured_record(plan, step, "guest was killed", environment={"a": 1},
                                            attempt=2)
    assert (made.status, made.reason, made.attempt) == ("failed", "guest was killed", 2)
    assert made.environment == {"a": 1} and made.name == "P8-N2-003" == step.name
    assert made.digests == {name: level.digest for name, level in step.cell.levels.items()}
    assert made.asked == plan.asked.to_stored_settings()
    assert made.measured is None and made.evidence == []


def test_a_medium_of_the_users_is_kept_by_its_own_name(tmp_path: Path) -> None:
    """A record names no file of the machine that it was made on."""
    mine = tmp_path / "mine.yml"
    mine.write_text((PROJECT / "topologies" / "media" / "802.11g.yml").read_text())
    plan = plans.plan_of("P1", asked={"medium": str(mine)})
    made = recording.make_unmeasured_record(plan, plan.all_steps()[0], "no", environment={},
                                            attempt=1)
    assert made.asked["medium"] == "802.11g" and list(plan.manifest.media) == ["802.11g"]
    assert str(tmp_path) not in plan.manifest.model_dump_json() + made.model_dump_json()
    assert plan.digest == plans.plan_of("P1", asked={"medium": "802.11g"}).digest


def test_settings_that_no_check_covers_are_recorded_and_told() -> None:
    """By their paths, as the policy and the evidence have them; a line names them."""
    link = {"cipher": "CCMP", "keys": "psk", "options": {"hostapd": {"wpa_group_rekey": 600}}}
    policy = Policy.model_validate({"id": "P", "name": "p", "layers": {"link": link}})
    plan = plans.plan_of("P1")
    step = plan.all_steps()[0]
    cell = Cell({**step.cell.levels, "policy": policy_level(policy)})
    assert recording.list_unchecked(step.cell, []) == []
    paths = recording.list_unchecked(cell, [])
    assert paths == ["link.options.hostapd.wpa_group_rekey"]
    assert recording.make_unmeasured_record(plan, Step(cell, 1), "no", environment={},
                                            attempt=1).unchecked == paths
    event = {"name": "P-N2-001", "status": "ok", "values": {}, "checks": 20, "attempt": 1,
             "exclusive": False, "unchecked": [*paths, "dot1x.tls.key"]}
    assert progress.format_repetition(event, ()) == (
        "P-N2-001: 20 checks hold, none covers hostapd's wpa_group_rekey, dot1x.tls.key")


@pytest.mark.parametrize("module", ["studies.qop2007.judge", "measure.records.record",
                                    "measure.checks.layer_checks",
                                    "topologies.loader", "topologies.model"])
def test_imports_without_mininet(module: str) -> None:
    """What runs outside the machine needs neither Mininet nor anything else only a machine has."""
    code = ("import sys, importlib\n"
            "for name in ('mininet', 'vici'):\n"
            "    sys.modules[name] = None\n"
            f"importlib.import_module({module!r})\n")
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
