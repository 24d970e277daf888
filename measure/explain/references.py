"""Compare how long a captured negotiation took with times that qop measured itself.

A negotiation is all messages of a station that joins or roams. A reference is the time that `./qop
explain` finds in captures of a results folder, for one policy. `find_comparison` takes a
negotiation and references, and returns the reference with the same or the nearest policy.
`read_references` reads them from a results folder or a file. References of all policies that come
with qop are in `references.json`. To measure them again:

    ./qop run --policies ... --scenarios ... --repetitions 3 --captures all --out FOLDER
    python3 -m measure.explain.references FOLDER... > measure/explain/references.json
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from measure.agent.errors import MeasureError
from measure.explain import messages
from measure.explain.answer import explain_captures
from measure.explain.messages import POLICY_FIELDS
from measure.explain.negotiations import WIRELESS
from measure.explain.recordings import Recording, read_recording
from measure.records.manifest import read_history
from measure.records.record import Record, RecordPart, describe_validation_error, read_records

#: References that come with qop.
SHIPPED = Path(__file__).with_name("references.json")
#: Version of the file. Since version 2 an entry has the kind of TLS session.
VERSION = 2
#: Fields without which a time says nothing of another one.
_REQUIRED_FIELDS = {"akm", "eap", "session", "ike"}
#: Kinds of negotiations that are a phase of joining in a reference, with the field that must agree.
_PHASES = {"IKE": (messages.IKE, "ike"), "WireGuard": (messages.WIREGUARD, "")}
#: Captures in which a policy's joining is, by the names that studies give them.
_CAPTURES = ("auth-air.pcap", "auth-air.pcap.gz", "air-air.pcap", "air-air.pcap.gz")


class _SeenFields(RecordPart):
    akm: str
    cipher: str
    pmf: str
    eap: str
    tls: str
    session: str
    ike: str


class _Reference(RecordPart):
    """An entry of a file with references, as `_make_reference` makes it."""

    policy: str
    scenario: str
    is_roam: bool
    title: str
    seen: _SeenFields
    durations_s: list[float]
    phases_s: dict[str, list[float]]
    machine: str
    clock: str
    date: str


class _ReferenceFile(RecordPart):
    version: int
    references: list[_Reference]


@dataclass(frozen=True)
class Comparison:
    """A reference (a measured time) for a captured negotiation.

    - `reference`: an entry of `read_references`
    - `durations_s`: the time of each repetition
    - `differs`: fields in which the policies of both differ, empty for the same policy
    """

    reference: Mapping[str, Any]
    durations_s: Sequence[float]
    differs: Sequence[str]

    def to_document(self) -> dict[str, Any]:
        """Return the comparison as part of the document of `qop explain`."""
        return {name: self.reference[name] for name in (
            "policy", "scenario", "title", "machine", "clock", "date")} | {
            "is_same_policy": not self.differs, "differs": list(self.differs),
            "duration_s": round(statistics.median(self.durations_s), 6),
            "least_s": min(self.durations_s), "most_s": max(self.durations_s),
            "repetitions": len(self.durations_s)}


def read_references(place: Path) -> list[dict[str, Any]]:
    """Return the references of a results folder, or of a file that was made of one.

    Raises:
        MeasureError: There are none, or they cannot be read.
    """
    if place.is_dir():
        found = list(measure_references(place))
        if not found:
            raise MeasureError("data", f"{place}: no proven repetition with captures of an "
                               "authentication; give a results folder of './qop run --captures "
                               "all'")
        return found
    try:
        document = json.loads(place.read_bytes())
        version = document.get("version", VERSION) if isinstance(document, dict) else VERSION
        if version != VERSION:
            raise MeasureError("data", f"{place}: references of version {version}, not {VERSION}; "
                               "give a results folder")
        known = _ReferenceFile.model_validate(document)
    except (OSError, ValueError, RecursionError) as error:
        reason = (describe_validation_error(error) if isinstance(error, ValidationError)
                  else getattr(error, "strerror", None) or error)
        raise MeasureError("data", f"{place}: no references ({reason}); give a results folder"
                           ) from None
    return [each.model_dump() for each in known.references]


def find_comparison(negotiation: Mapping[str, Any],
                    references: Sequence[Mapping[str, Any]]) -> Comparison | None:
    """Return the reference of the same or the nearest policy, None without a comparable one.

    What the capture does not show of the policy counts as equal. The AKM, the EAP method and the
    kind of TLS session must agree: a resumed session takes half of the messages of a full one. A
    station that has a cached key shows its AKM, and no EAP.

    Args:
        negotiation: The negotiation, as in the document.
        references: Entries of `read_references`.
    """
    if negotiation["outcome"] != "success":
        return None
    phase, field = _PHASES.get(negotiation["kind"], ("", ""))
    if not phase and negotiation["kind"] != WIRELESS:
        return None
    seen, found = negotiation["policy"], []
    has_no_eap = bool(seen["akm"]) and negotiation["is_from_start"] and not seen["eap"]
    fields = ((field,) if field else ()) if phase else POLICY_FIELDS
    for place, reference in enumerate(references):
        durations_s = reference["phases_s"].get(phase) if phase else reference["durations_s"]
        if not durations_s or (not phase
                               and reference["is_roam"] != bool(negotiation["previous"])):
            continue
        differs = [name for name in fields if seen[name] != reference["seen"][name]
                   and (seen[name] or (name == "eap" and has_no_eap))]
        # Nearer is a reference without what the capture does not show, such as a tunnel.
        extra = sum(bool(reference["seen"][name]) for name in (*POLICY_FIELDS, "ike")
                    if not seen[name])
        if not _REQUIRED_FIELDS & set(differs):
            found.append((len(differs), extra, place, reference, durations_s, differs))
    if not found or not (phase or any(seen[name] for name in POLICY_FIELDS)):
        return None
    _, _, _, reference, durations_s, differs = min(found, key=lambda each: each[:3])
    return Comparison(reference, durations_s, differs)


# --- References of a results folder ---

def measure_references(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a reference for each cell of a results folder, for joining and for roaming.

    Raises:
        MeasureError: tshark is missing or cannot read a capture.
    """
    groups: dict[tuple[Any, ...], list[tuple[Record, dict[str, Any]]]] = defaultdict(list)
    for record, each in explain_records(folder):
        groups[*record.cell.values(), bool(each["previous"]),
               each["policy"]["title"]].append((record, each))
    host: Mapping[str, Any] = next(
        (entry["host"] for entry in read_history(folder)
         if isinstance(entry, dict) and isinstance(entry.get("host"), dict)), {})
    for measured in groups.values():
        yield _make_reference(measured, host)


def explain_records(folder: Path) -> Iterator[tuple[Record, dict[str, Any]]]:
    """Yield each successful negotiation of a station with an access point, with its record.

    Records without results or without captures are left out.

    Raises:
        MeasureError: tshark is missing or cannot read a capture.
    """
    records, _ = read_records(folder / "records")
    for record in records:
        captures = folder / "captures" / record.name
        if record.status != "ok" or not captures.is_dir():
            continue
        for each in explain_recording(read_recording(captures)):
            if each["kind"] == WIRELESS and each["outcome"] == "success":
                yield record, each


def explain_recording(recording: Recording) -> list[dict[str, Any]]:
    """Return the negotiations in those captures of a repetition that have a policy's joining."""
    captures = [capture for capture in recording.captures if capture.name in _CAPTURES]
    if not captures:
        return []
    negotiations: list[dict[str, Any]] = explain_captures(
        (), recordings=[replace(recording, captures=captures)]).to_document()["negotiations"]
    return negotiations


def _make_reference(measured: Sequence[tuple[Record, dict[str, Any]]],
                    host: Mapping[str, Any]) -> dict[str, Any]:
    record, first = measured[0]
    others = dict(record.cell)
    policy = others.pop("policy", "") or others.pop(next(iter(others)))
    phases: dict[str, list[float]] = defaultdict(list)
    for _, each in measured:
        for phase in each["phases"]:
            phases[phase["name"]].append(phase["duration_s"])
    # Old records without a clock were measured in real time, where stamps are of the wall clock.
    clock = record.environment.get("clock") or "real"
    began_s = max((began_s for each, _ in measured for began_s in (
        each.environment.get("measured_at_s"),
        (each.raw.get("stamps") or {}).get("start") if clock == "real" else None)
        if isinstance(began_s, int | float)), default=None)
    return {"policy": policy, "scenario": ", ".join(others.values()),
            "is_roam": bool(first["previous"]),
            "title": first["policy"]["title"],
            "seen": {name: first["policy"][name] for name in (*POLICY_FIELDS, "ike")},
            "durations_s": [each["duration_s"] for _, each in measured],
            "phases_s": {name: durations_s for name, durations_s in phases.items()
                         if name in {phase for phase, _ in _PHASES.values()}},
            "machine": f"{host.get('processor', 'unknown processor')}, "
                       f"{host.get('processors', '?')} processors",
            "clock": clock, "date": ("" if began_s is None else
                                     time.strftime("%Y-%m-%d", time.gmtime(began_s)))}


def _write_references(folders: Iterable[Path]) -> None:
    references = (each for folder in folders for each in measure_references(folder))
    lines = ",\n".join(json.dumps(each) for each in references)
    print(f'{{"version": {VERSION}, "references": [\n{lines}\n]}}')


if __name__ == "__main__":
    _write_references(map(Path, sys.argv[1:]))
