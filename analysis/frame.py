"""Records to a tidy frame: one row a repetition, units in the names of the columns.

Columns: `policy`, `scenario`, `repetition`, `status`, `reason`, `attempt`, `verified` (there is
evidence, and all of it is ok), `checks_ok`, `checks`, `policy_sha256`, `medium`, `clock`,
`machine`, `fault`, the metrics (see METRICS), `tcp_bytes`, `udp_bytes`, and for every phase NAME
that any record has, `phase_NAME_duration_s` and `phase_NAME_packets`. What was not measured is NaN.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd  # type: ignore[import-untyped,unused-ignore]  # stubs are optional

from analysis.errors import NothingToReport
from measure.record import Record, RecordError, StreamRecord, read

Frame: TypeAlias = pd.DataFrame
METRICS = ("authentication_time_s", "tcp_goodput_bps", "udp_goodput_bps")
#: Phases whose durations add up to the authentication time, in the order of a connection.
NEGOTIATIONS = ("dot1x", "four_way_handshake", "ike")
#: Phases in the order in which a mobile node goes through them.
_PHASES = ("scan", "authentication", "association", *NEGOTIATIONS, "first_packet")
_CIRCUMSTANCES = ("policy_sha256", "medium", "clock", "machine", "fault")


@dataclass(frozen=True)
class Plan:
    """What a run set out to measure, as far as its `plan.json` says; empty where it does not."""

    policies: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    repetitions: int = 0
    names: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """A run's repetitions; a line for each file that is no record; and what was planned."""

    frame: Frame
    complaints: list[str]
    plan: Plan = field(default_factory=Plan)

    @property
    def good(self) -> Frame:
        """The repetitions that count: only these enter any mean."""
        return self.frame[self.frame["status"] == "ok"]


def load(folder: Path) -> Results:
    """Every record of a results folder (or of its `records/`); raises NothingToReport.

    A file that is damaged, foreign, a copy, or holds impossible numbers becomes a complaint.
    """
    if not folder.is_dir():
        raise NothingToReport(f"{folder}: no such folder; give a results folder, or measure "
                              "with './qop run'")
    records = folder / "records" if (folder / "records").is_dir() else folder
    paths = sorted(path for path in records.glob("*.json") if path.name != "plan.json")
    rows, complaints = [], []
    for path in paths:
        try:
            rows.append(_row(_checked(path)))
        except RecordError as error:
            complaints.append(printable(str(error)))
    if not rows and complaints:
        raise NothingToReport(f"{records}: none of its {len(paths)} files is a record that can be "
                              f"used; the first: {complaints[0]}")
    if not rows:
        raise NothingToReport(f"{records}: holds no records yet; measure with "
                              f"'./qop run --out {folder}', or give another results folder")
    return Results(_frame(rows), complaints, _plan(records.parent / "plan.json"))


def from_records(records: list[Record], plan: Plan | None = None) -> Results:
    """The same from records in memory, such as those of the run that just ended."""
    if not records:
        raise NothingToReport("nothing was measured; there is no table to show")
    return Results(_frame([_row(record) for record in records]), [], plan or Plan())


def phases(frame: Frame) -> tuple[str, ...]:
    """Names of the phases in a frame, in the order of a connection; unknown ones by their time.

    An unknown phase goes before `first_packet`, which by definition comes last.
    """
    names = [column[len("phase_"):-len("_duration_s")] for column in frame.columns
             if column.startswith("phase_") and column.endswith("_duration_s")]
    rank = {name: place for place, name in enumerate(_PHASES)}
    return tuple(sorted(names, key=lambda name: (rank.get(name, rank["first_packet"] - 0.5), name)))


def natural(name: str) -> tuple[Any, ...]:
    """Sort key that puts P2 before P10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part)
                 for part in re.split(r"([0-9]+)", name) if part)


def printable(text: str) -> str:
    """Text from a file, safe to show: on one line, and nothing that steers a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def _checked(path: Path) -> Record:
    """The record in a file, if its name and its numbers are possible; else RecordError."""
    record = read(path)
    if path.stem != record.name:
        # A copy under another name would count one repetition twice.
        raise RecordError(f"{path}: holds the record {record.name}; not counted, move it away")
    numbers = {"repetition": record.repetition, "authentication_time_s":
               record.authentication_time_s, "elapsed_s": record.elapsed_s}
    for name, stream in (("tcp", record.tcp), ("udp", record.udp)):
        if stream:
            numbers |= {f"{name}.goodput_bps": stream.goodput_bps, f"{name}.bytes": stream.bytes}
    for phase in record.phases:
        numbers |= {f"{phase.name}.duration_s": phase.duration_s,
                    f"{phase.name}.packets": phase.packets}
    for name, value in numbers.items():
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise RecordError(f"{path}: {name} is {value}, which cannot be; measure again")
    return record


def _row(record: Record) -> dict[str, Any]:
    row: dict[str, Any] = {
        "policy": printable(record.policy), "scenario": printable(record.scenario),
        "repetition": record.repetition, "status": record.status,
        "reason": printable(record.reason), "attempt": record.attempt,
        "checks_ok": sum(check.ok for check in record.evidence), "checks": len(record.evidence),
        "verified": bool(record.evidence) and all(check.ok for check in record.evidence),
        "authentication_time_s": record.authentication_time_s, "elapsed_s": record.elapsed_s,
        **{name: _text(record.environment.get(name)) for name in _CIRCUMSTANCES}}
    for name, stream in (("tcp", record.tcp), ("udp", record.udp)):
        row |= _stream(name, stream)
    for phase in record.phases:
        # A phase that took place twice (at home and abroad) took the sum of both.
        duration, packets = f"phase_{phase.name}_duration_s", f"phase_{phase.name}_packets"
        row[duration] = row.get(duration, 0.0) + phase.duration_s
        row[packets] = row.get(packets, 0) + phase.packets
    return row


def _stream(name: str, stream: StreamRecord | None) -> dict[str, float | None]:
    return {f"{name}_goodput_bps": stream.goodput_bps if stream else None,
            f"{name}_bytes": stream.bytes if stream else None,
            f"{name}_duration_s": stream.duration_s if stream else None}


def _text(value: object) -> str:
    return "" if value is None else printable(str(value))


def _frame(rows: list[dict[str, Any]]) -> Frame:
    frame = pd.DataFrame.from_records(rows)
    measured = [c for c in frame.columns if c.endswith(("_s", "_bps", "_bytes", "_packets"))]
    frame[measured] = frame[measured].astype("float64")
    ranked = frame[["policy", "scenario", "repetition"]].copy()
    for column in ("policy", "scenario"):
        ranks = {name: rank for rank, name in enumerate(sorted(set(frame[column]), key=natural))}
        ranked[column] = frame[column].map(ranks)
    ordered = ranked.sort_values(["scenario", "policy", "repetition"], kind="stable").index
    return frame.loc[ordered].reset_index(drop=True)


def _plan(path: Path) -> Plan:
    """The plan beside the records; a missing or strange one costs only names and order."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        names = {str(key): printable(str(name)) for key, name in found["names"].items()}
        return Plan(tuple(map(str, found["policies"])), tuple(map(str, found["scenarios"])),
                    int(found["settings"]["repetitions"]), names)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Plan()
