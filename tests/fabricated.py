"""Records made up for the tests of analysis, with numbers as they are measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import analysis
import studies
from analysis.cell_status import CellStatus, MissingReason
from analysis.cells import Cells
from analysis.present import terminal
from analysis.table import Table
from measure.checks import phases as measured
from measure.records.manifest import Manifest, plan_digest
from measure.records.record import CheckRecord, Record, StudyRecord, write_record
from policies import Policy, load_all
from studies import policy_factors
from studies.qop2007.measurements import (
    AuthenticationRecord,
    Measurements,
    PhaseRecord,
    StreamRecord,
    handoff_s,
)
from studies.qop2007.phases import find_components, summed_components
from studies.qop2007.report import run_table
from topologies.loader import load_medium, load_scenario, scenario_ids, to_json

STUDY = studies.load_study("qop2007")
POLICIES = {policy.id: policy for policy in load_all()}
REJECTED = "a2: EAP-Failure: the RADIUS server rejected the mobile node (Access-Reject)"
ROAMING = ("R1", "R2")
MEDIA = ("802.11b-long", "802.11b-short")

# Seconds and packets of phases, as measured in N2 and R1; those of P12 are all there are.
P1_PHASES = {"scan": (0.0394, 3), "agent_discovery": (0.0017, 2), "registration": (0.0020, 2),
             "first_packet": (0.0135, 2)}
P12_PHASES = {"scan": (0.0394, 3), "authentication": (0.0009, 2), "association": (0.0002, 2),
              "dot1x": (0.0217, 17), "agent_discovery": (0.0017, 2), "registration": (0.0020, 2),
              "ike": (0.0171, 9), "first_packet": (0.0135, 2)}
#: When a roaming node leaves, in seconds after the start, and how long until it scans again.
LEFT_S, LEAVING_S = 0.5, 0.0085
_OF_AN_AUTHENTICATION = frozenset(AuthenticationRecord.model_fields)
#: Fields of the body; every other change of a record is one of its envelope.
_BODY = frozenset(Measurements.model_fields)


def make(policy: str = "P1", repetition: int = 1, *, scenario: str = "N2", tcp: float = 4.61e6,
         udp: float = 5.80e6, phases: Mapping[str, tuple[float, int]] = P1_PHASES,
         **changes: Any) -> Record:
    """A good record; in R1 and R2 every phase takes place twice. `changes` are its fields.

    Those of its body are changed there; `phases` and `components_s` are its authentication's.
    """
    known = POLICIES.get(policy)
    stamps, body = _body(known, scenario, tcp, udp, phases)
    fields: dict[str, Any] = {
        "schema_": 2, "study": StudyRecord(id=STUDY.id, version=STUDY.version),
        "cell": {"policy": policy, "scenario": scenario}, "repetition": repetition,
        "digests": {"policy": known.digest() if known else "abc"},
        "asked": {}, "status": "ok", "reason": "", "captures": [], "raw": {"stamps": stamps},
        "evidence": [CheckRecord(check="air is open", ok=True, detail="0 of 9 protected")],
        "environment": {"medium": "802.11b-long", "clock": "real", "machine": "guest",
                        "fault": None}}
    record = Record(**(fields | {"measured": body.model_dump(mode="json", by_alias=True)}))
    return changed(record, **changes)


def _body(known: Policy | None, scenario: str, tcp: float, udp: float,
          phases: Mapping[str, tuple[float, int]]) -> tuple[dict[str, float], Measurements]:
    """The stamps of a repetition, and its body."""
    roams = scenario in ROAMING
    stays = [*_stay(phases, 0.0, ""),
             *(_stay(phases, LEFT_S + LEAVING_S, measured.FOREIGN) if roams else [])]
    stamps = {"start": 100.0} | ({"handoff": 100.0 + LEFT_S} if roams else {})
    if stays and roams:
        stamps["foreign_first_packet"] = 100.0 + stays[-1].end_s + 0.001
    parts = find_components(stays)
    summed = summed_components(known, roaming=roams) if known else tuple(sorted(parts))
    moved = _records(measured.handoff_phases({"stamps": stamps}, stays))
    return stamps, Measurements(
        authentications=[AuthenticationRecord(components_s=parts, phases=_records(stays))],
        handoff=moved, handoff_s=handoff_s(_records(stays), moved, stamps),
        authentication_sum=list(summed),
        authentication_time_s=sum(parts.get(name, 0.0) for name in summed),
        tcp=StreamRecord(goodput_bps=tcp, bytes=1_000_000, duration_s=8e6 / tcp, iperf={}),
        udp=StreamRecord(goodput_bps=udp, bytes=1_000_000, duration_s=8e6 / udp, iperf={}))


def changed(record: Record, **changes: Any) -> Record:
    """A record with other fields, of its envelope, its body or its authentication."""
    own = {name: _plain(value) for name, value in changes.items() if name in _OF_AN_AUTHENTICATION}
    envelope = {name: value for name, value in changes.items() if name not in {*_BODY, *own}}
    body = dict(record.measured or {})
    body |= {name: _plain(value) for name, value in changes.items() if name in _BODY}
    if own:
        body["authentications"] = [each | own for each in body["authentications"]]
    return record.model_copy(update={**envelope, "measured": body})


def body_of(record: Record) -> Measurements:
    """The body of a record."""
    return Measurements.model_validate(record.measured)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _stay(phases: Mapping[str, tuple[float, int]], at: float,
          prefix: str) -> list[measured.Phase]:
    stay = []
    for name, (duration, packets) in phases.items():
        stay.append(measured.Phase(prefix + name, at, duration, packets))
        at += duration
    return stay


def _records(phases: list[measured.Phase]) -> list[PhaseRecord]:
    return [PhaseRecord(name=phase.name, start_s=phase.start_s, duration_s=phase.duration_s,
                        packets=phase.packets) for phase in phases]


def phases_of(policy: str) -> dict[str, tuple[float, int]]:
    """P12's phases, without those that a policy lacks."""
    known = POLICIES[policy]
    return {name: value for name, value in P12_PHASES.items()
            if (name != "dot1x" or known.uses_eap) and (name != "ike" or known.uses_ipsec)}


def failed(policy: str, repetition: int, reason: str = REJECTED, **changes: Any) -> Record:
    """A repetition that got as far as its phases, and no further."""
    return changed(make(policy, repetition, **changes), status="failed", reason=reason,
                   authentication_time_s=None, evidence=[], tcp=None, udp=None)


def paper_run(scenarios: tuple[str, ...] = ("N2",), repetitions: int = 3) -> list[Record]:
    """All twelve policies, with goodput that drifts with the block."""
    records = []
    for scenario in scenarios:
        for repetition in range(1, repetitions + 1):
            drift = 0.02e6 * repetition
            for name, policy in POLICIES.items():
                lost = 0.17e6 * policy.uses_ipsec + 0.03e6 * policy.encrypts_air
                noise = 0.001e6 * (repetition % 2)
                records.append(make(name, repetition, scenario=scenario, phases=phases_of(name),
                                    tcp=4.61e6 - lost + drift + noise * (name != "P1"),
                                    udp=5.80e6 - 0.7 * lost + drift))
    return records


# --- manifests, results and cells -----------------------------------------------------------------

def manifest_of(records: Iterable[Record], own: Iterable[Policy] = (), *, repetitions: int = 0,
                cells: Iterable[tuple[str, str]] = (), **changes: Any) -> Manifest:
    """What a run of these records set out to measure, with what the project says of its levels.

    `own` are policies of one's own, `cells` what was planned besides.
    """
    known = POLICIES | {policy.id: policy for policy in own}
    planned = dict.fromkeys((*cells, *((record.cell["policy"], record.cell["scenario"])
                                       for record in records)))
    names = [list(dict.fromkeys(pair[at] for pair in planned)) for at in (0, 1)]
    document: dict[str, Any] = {
        "schema": 2, "study": {"id": STUDY.id, "version": STUDY.version},
        "factors": [{"name": factor.name, "title": factor.title} for factor in STUDY.factors],
        "levels": {"policy": {name: _policy(known.get(name)) for name in names[0]},
                   "scenario": {name: _scenario(name) for name in names[1]}},
        "cells": [list(pair) for pair in planned],
        "asked": {"stream_bytes": 1_000_000, "udp_payload_bytes": 1400, "detection": "event",
                  "medium": MEDIA[0], "stream_captures": "whole"},
        "settings": {"repetitions": repetitions, "clock": "", "seed": 1},
        "media": _media(), "devices": {}}
    document |= changes
    return Manifest.model_validate({**document, "digest": plan_digest(document)})


def _policy(policy: Policy | None) -> dict[str, Any]:
    if policy is None:
        return {}
    level = policy_factors.policy_level(policy)
    return {"title": level.title, "digest": level.digest, "content": level.content}


@cache
def _media() -> dict[str, Any]:
    return {name: to_json(load_medium(name)) for name in MEDIA}


@cache
def _scenario(name: str) -> dict[str, Any]:
    if name not in scenario_ids():
        return {}
    scenario = load_scenario(name)
    return {"title": scenario.title, "content": to_json(scenario)}


def results_of(*records: Record, own: Iterable[Policy] = (),
               manifest: Manifest | None = None) -> analysis.Results:
    """Records in memory as a run, with its manifest."""
    plan = manifest or manifest_of(records, own)
    return analysis.from_records(list(records), STUDY, plan)


def cells_of(*records: Record, baseline: str = "", own: Iterable[Policy] = ()) -> Cells:
    """The cells of records in memory."""
    return Cells(results_of(*records, own=own), baseline)


def write_all(records: Iterable[Record], folder: Path, own: Iterable[Policy] = (),
              **changes: Any) -> Path:
    """A results folder of records, with its manifest; the folder."""
    records = list(records)
    for record in records:
        write_record(record, folder / "records")
    manifest = manifest_of(records, own, **changes)
    (folder / "plan.json").write_text(manifest.to_text())
    return folder


def load(folder: Path) -> analysis.Results:
    """A results folder as `./qop report` loads it."""
    from harness.commands import report

    return report.load_results(folder)


def handoffs_of(cells: Cells) -> Table:
    """The handoffs' table."""
    return run_table.handoff_table(cells)


def standing_of(cells: Cells, policy: str, scenario: str = "N2") -> CellStatus:
    """Where the cell of a policy in a scenario stands."""
    return cells.status((policy, scenario))


def value_of(cells: Cells, name: str, policy: str, scenario: str = "N2") -> Any:
    """A value of a cell as the run's table has it: its estimate, or why there is none."""
    metric = next((metric for metric in STUDY.metrics if metric.difference
                   and metric.difference.name == name), None)
    ids = (policy, scenario)
    value = cells.difference(metric, ids) if metric else cells.value(name, ids)
    return value if isinstance(value, MissingReason) else value.estimate


def lines_of(cells: Cells, width: int) -> list[str]:
    """The plain terminal table of a run."""
    return terminal.to_plain_text(STUDY.run_table(cells), width).splitlines()


def text_of(cells: Cells, width: int) -> str:
    """The same in one."""
    return terminal.to_plain_text(STUDY.run_table(cells), width)


def row_of(text: str, policy: str) -> str:
    """The first table row of a policy."""
    return next(line for line in text.splitlines() if line.startswith(f"{policy} "))
