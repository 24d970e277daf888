"""Records to a tidy frame: one row a repetition, units in the names of the columns.

Columns: `policy`, `scenario`, `repetition`, `status`, `reason`, `attempt`, `verified` (there is
evidence, and all of it is ok), `checks_ok`, `checks`, `policy_sha256`, `medium`, `clock`,
`machine`, `fault`, the metrics (see METRICS), `authentication_sum` (components, joined by `+`),
`handoff_sum_s`, `tcp_bytes`, `udp_bytes`, and for every NAME that any record has
`component_NAME_s`, and `phase_NAME_duration_s` and `phase_NAME_packets`; the same for the phases of
a handoff with `handoff_` in place of `phase_`. What was not measured is NaN.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd  # type: ignore[import-untyped,unused-ignore]  # stubs are optional

from analysis.errors import NothingToReport
from measure.record import Record, RecordError, StreamRecord, read

Frame: TypeAlias = pd.DataFrame
METRICS = ("authentication_time_s", "handoff_s", "tcp_goodput_bps", "udp_goodput_bps")
#: What the name of a phase begins with that took place in the visited network.
FOREIGN = "foreign_"
#: Phases in the order in which a mobile node goes through them.
_PHASES = ("scan", "authentication", "association", "dot1x", "four_way_handshake",
           "agent_discovery", "registration", "ike", "first_packet")
#: Components of the authentication time in that order, at home before away.
_COMPONENTS = tuple(f"{name}_{place}" for place in ("home", "foreign")
                    for name in ("eap", "mip_registration", "ike"))
#: How far an authentication time may be from the sum of its components: rounding.
_ROUNDING_S = 1e-6
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


def phases(frame: Frame, prefix: str = "phase_") -> tuple[str, ...]:
    """Names of the phases in a frame (or with `handoff_`, of its handoffs) as they follow.

    At home before away. An unknown phase goes before `first_packet`, which by definition is last.
    """
    names = [column[len(prefix):-len("_duration_s")] for column in frame.columns
             if column.startswith(prefix) and column.endswith("_duration_s")]
    rank = {name: number for number, name in enumerate(_PHASES)}

    def place(name: str) -> tuple[bool, float, str]:
        plain = name.removeprefix(FOREIGN)
        return name != plain, rank.get(plain, rank["first_packet"] - 0.5), name

    return tuple(sorted(names, key=place))


def components(frame: Frame) -> tuple[str, ...]:
    """Names of what authentication times are summed up from, as they follow; unknown ones last."""
    names = [column[len("component_"):-len("_s")] for column in frame.columns
             if column.startswith("component_")]
    rank = {name: number for number, name in enumerate(_COMPONENTS)}
    return tuple(sorted(names, key=lambda name: (rank.get(name, len(rank)), name)))


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
    for name, value in _numbers(record):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise RecordError(f"{path}: {name} is {value}, which cannot be; measure again")
    parts = sum(record.authentication_components_s.get(name, 0.0)
                for name in record.authentication_sum)
    said = record.authentication_time_s
    if record.authentication_sum and said is not None and abs(said - parts) > _ROUNDING_S:
        raise RecordError(f"{path}: authentication_time_s is {said:g}, but its components add up "
                          f"to {parts:g}; measure again")
    return record


def _numbers(record: Record) -> Iterator[tuple[str, float | None]]:
    """Every number of a record that cannot be negative, with where it stands."""
    yield "repetition", record.repetition
    yield "authentication_time_s", record.authentication_time_s
    yield "elapsed_s", record.elapsed_s
    yield "handoff", _handoff_s(record)
    for name, stream in (("tcp", record.tcp), ("udp", record.udp)):
        if stream:
            yield f"{name}.goodput_bps", stream.goodput_bps
            yield f"{name}.bytes", stream.bytes
    for name, value in record.authentication_components_s.items():
        yield f"authentication_components_s.{name}", value
    for phase in (*record.phases, *record.handoff):
        yield f"{phase.name}.duration_s", phase.duration_s
        yield f"{phase.name}.packets", phase.packets


def _handoff_s(record: Record) -> float | None:
    """Seconds from the order to leave to the first answered packet; None at home.

    Not from the record's handoff, whose phases are compared with it, but from the last phase of
    the stay away. Where that is missing, until the program that pings had seen the answer, which
    is some milliseconds later; without that either, the sum of the handoff's phases.
    """
    if not record.handoff:
        return None
    stamps: Any = record.raw.get("stamps")
    answered = [phase.start_s + phase.duration_s for phase in record.phases
                if phase.name == f"{FOREIGN}first_packet"]
    try:
        left = float(stamps["handoff"]) - float(stamps["start"])
        seen = float(stamps["foreign_first_packet"]) - float(stamps["start"])
    except (KeyError, TypeError, ValueError):
        return sum(phase.duration_s for phase in record.handoff)
    return (answered[-1] if answered else seen) - left


def _row(record: Record) -> dict[str, Any]:
    row: dict[str, Any] = {
        "policy": printable(record.policy), "scenario": printable(record.scenario),
        "repetition": record.repetition, "status": record.status,
        "reason": printable(record.reason), "attempt": record.attempt,
        "checks_ok": sum(check.ok for check in record.evidence), "checks": len(record.evidence),
        "verified": bool(record.evidence) and all(check.ok for check in record.evidence),
        "authentication_time_s": record.authentication_time_s, "elapsed_s": record.elapsed_s,
        "authentication_sum": printable("+".join(record.authentication_sum)),
        "handoff_s": _handoff_s(record),
        "handoff_sum_s": sum(p.duration_s for p in record.handoff) if record.handoff else None,
        **{name: _text(record.environment.get(name)) for name in _CIRCUMSTANCES}}
    for name, stream in (("tcp", record.tcp), ("udp", record.udp)):
        row |= _stream(name, stream)
    for name, seconds in record.authentication_components_s.items():
        row[f"component_{printable(name)}_s"] = seconds
    for prefix, found in (("phase_", record.phases), ("handoff_", record.handoff)):
        for phase in found:
            # A phase that took place twice took the sum of both.
            name = prefix + printable(phase.name)
            duration, packets = f"{name}_duration_s", f"{name}_packets"
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
