"""One record to one row: checked for numbers that cannot be, and flattened."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.one_clock import VIRTUAL
from measure.record import Record, RecordError, StreamRecord

#: What the name of a phase begins with that took place in the visited network.
FOREIGN = "foreign_"
#: How far an authentication time may be from the sum of its components: rounding.
_ROUNDING_S = 1e-6
_CIRCUMSTANCES = ("policy_sha256", "medium", "clock", "machine", "builder", "fault")
#: Uses of processor time that are no work.
_IDLE = frozenset(("idle", "iowait", "steal"))


def check(record: Record, path: Path) -> None:
    """Raise RecordError unless the name of a record's file and its numbers are possible."""
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


def row(record: Record) -> dict[str, Any]:
    """The row of a record; its columns are described in analysis.frame."""
    found: dict[str, Any] = {
        "policy": printable(record.policy), "scenario": printable(record.scenario),
        "repetition": record.repetition, "status": record.status,
        "reason": printable(record.reason), "attempt": record.attempt,
        "checks_ok": sum(check.ok for check in record.evidence), "checks": len(record.evidence),
        "verified": bool(record.evidence) and all(check.ok for check in record.evidence),
        "authentication_time_s": record.authentication_time_s, "elapsed_s": record.elapsed_s,
        "authentication_sum": printable("+".join(record.authentication_sum)),
        "handoff_s": _handoff_s(record),
        "handoff_sum_s": sum(p.duration_s for p in record.handoff) if record.handoff else None,
        "started_s": _number(record.raw.get("stamps"), "start"),
        # What a guest takes for its processor's time means nothing where computing takes none.
        **_processor(None if record.environment.get("clock") == VIRTUAL
                     else record.raw.get("processor_s")),
        "flagged": bool(record.environment.get("flags")),
        "alone": bool(record.environment.get("alone")),
        **{name: _text(record.environment.get(name)) for name in _CIRCUMSTANCES}}
    for name, stream in (("tcp", record.tcp), ("udp", record.udp)):
        found |= _stream(name, stream)
    for name, seconds in record.authentication_components_s.items():
        found[f"component_{printable(name)}_s"] = seconds
    for prefix, phases in (("phase_", record.phases), ("handoff_", record.handoff)):
        for phase in phases:
            # A phase that took place twice took the sum of both.
            name = prefix + printable(phase.name)
            duration, packets = f"{name}_duration_s", f"{name}_packets"
            found[duration] = found.get(duration, 0.0) + phase.duration_s
            found[packets] = found.get(packets, 0) + phase.packets
    return found


def printable(text: str) -> str:
    """Text from a file, safe to show: on one line, and nothing that steers a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in text)


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


def _stream(name: str, stream: StreamRecord | None) -> dict[str, float | None]:
    found: dict[str, float | None] = {
        f"{name}_goodput_bps": stream.goodput_bps if stream else None,
        f"{name}_bytes": stream.bytes if stream else None,
        f"{name}_duration_s": stream.duration_s if stream else None}
    if name == "udp":  # offered above what the medium carries, so the losses are the overload's
        said = stream.iperf if stream else {}
        found |= {"udp_sent_packets": said.get("packets"),
                  "udp_lost_packets": said.get("lost_packets")}
    return found


def _processor(use: object) -> dict[str, float | None]:
    """Processor time that was used and that was left, in seconds; None where not recorded."""
    if not isinstance(use, dict):
        return {"processor_busy_s": None, "processor_idle_s": None}
    times = {name: value for name, value in use.items() if isinstance(value, int | float)}
    return {"processor_busy_s": sum(s for name, s in times.items() if name not in _IDLE),
            "processor_idle_s": times.get("idle")}


def _number(document: object, key: str) -> float | None:
    found = document.get(key) if isinstance(document, dict) else None
    return float(found) if isinstance(found, int | float) else None


def _text(value: object) -> str:
    return "" if value is None else printable(str(value))
