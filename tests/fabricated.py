"""Records made up for the tests of analysis, with numbers as they are measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import analysis
from measure import phases as measured
from measure.record import CheckRecord, Record
from policies import load_all
from studies.qop2007 import phases as paper
from studies.qop2007.body import FOREIGN, PhaseRecord, StreamRecord, from_schema_1

POLICIES = {policy.id: policy for policy in load_all()}
REJECTED = "a2: EAP-Failure: the RADIUS server rejected the mobile node (Access-Reject)"
ROAMING = ("R1", "R2")

# Seconds and packets of phases, as measured in N2 and R1; those of P12 are all there are.
P1_PHASES = {"scan": (0.0394, 3), "agent_discovery": (0.0017, 2), "registration": (0.0020, 2),
             "first_packet": (0.0135, 2)}
P12_PHASES = {"scan": (0.0394, 3), "authentication": (0.0009, 2), "association": (0.0002, 2),
              "dot1x": (0.0217, 17), "agent_discovery": (0.0017, 2), "registration": (0.0020, 2),
              "ike": (0.0171, 9), "first_packet": (0.0135, 2)}
#: When a roaming node leaves, in seconds after the start, and how long until it scans again.
LEFT_S, LEAVING_S = 0.5, 0.0085


def make(policy: str = "P1", repetition: int = 1, *, scenario: str = "N2", tcp: float = 4.61e6,
         udp: float = 5.80e6, phases: Mapping[str, tuple[float, int]] = P1_PHASES,
         **changes: Any) -> Record:
    """A good record; in R1 and R2 every phase takes place twice. `changes` are its fields."""
    roams = scenario in ROAMING
    found = [*_stay(phases, 0.0, ""),
             *(_stay(phases, LEFT_S + LEAVING_S, FOREIGN) if roams else [])]
    stamps = {"start": 100.0} | ({"handoff": 100.0 + LEFT_S} if roams else {})
    if found:
        stamps |= {"foreign_first_packet": 100.0 + found[-1].end_s + 0.001} if roams else {}
    parts = paper.components(found)
    known = POLICIES.get(policy)
    wanted = paper.table_4(known, roaming=roams) if known else tuple(sorted(parts))
    fields: dict[str, Any] = {
        "policy": policy, "scenario": scenario, "repetition": repetition,
        "status": "ok", "reason": "", "captures": [], "raw": {"stamps": stamps},
        "phases": _records(found), "handoff": _records(measured.handoff({"stamps": stamps}, found)),
        "authentication_components_s": parts, "authentication_sum": list(wanted),
        "authentication_time_s": paper.authentication_time_s(parts, wanted),
        "tcp": StreamRecord(goodput_bps=tcp, bytes=1_000_000, duration_s=8e6 / tcp, iperf={}),
        "udp": StreamRecord(goodput_bps=udp, bytes=1_000_000, duration_s=8e6 / udp, iperf={}),
        "evidence": [CheckRecord(check="air is open", ok=True, detail="0 of 9 protected")],
        "environment": {"policy_sha256": known.digest() if known else "abc",
                        "medium": "802.11b-long", "clock": "real", "machine": "guest",
                        "fault": None}}
    flat = {name: _plain(value) for name, value in (fields | changes).items()}
    return Record(**from_schema_1({"schema": 1, **flat}))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value.model_dump(mode="json") if isinstance(value, CheckRecord | PhaseRecord | StreamRecord) \
        else value


def _stay(phases: Mapping[str, tuple[float, int]], at: float,
          prefix: str) -> list[measured.Phase]:
    found = []
    for name, (duration, packets) in phases.items():
        found.append(measured.Phase(prefix + name, at, duration, packets))
        at += duration
    return found


def _records(phases: list[measured.Phase]) -> list[PhaseRecord]:
    return [PhaseRecord(name=phase.name, start_s=phase.start_s, duration_s=phase.duration_s,
                        packets=phase.packets) for phase in phases]


def phases_of(policy: str) -> dict[str, tuple[float, int]]:
    """P12's phases, without those that a policy lacks."""
    found = POLICIES[policy]
    return {name: value for name, value in P12_PHASES.items()
            if (name != "dot1x" or found.uses_eap) and (name != "ike" or found.uses_ipsec)}


def failed(policy: str, repetition: int, reason: str = REJECTED, **changes: Any) -> Record:
    """A repetition that got as far as its phases, and no further."""
    return make(policy, repetition, status="failed", reason=reason, authentication_time_s=None,
                evidence=[], **changes).model_copy(update={"tcp": None, "udp": None})


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


def summary_of(*records: Record, **options: Any) -> analysis.Summary:
    """The summary of records in memory."""
    return analysis.summarize(frame.from_records(list(records)), **options)


def cell_of(summary: analysis.Summary, policy: str, scenario: str = "N2") -> Any:
    """The cell of a policy in a scenario."""
    return next(cell for cell in summary.cells[scenario] if cell.policy == policy)


def lines_of(summary: analysis.Summary, width: int) -> list[str]:
    """The plain terminal table."""
    return analysis.tables.text(summary, width).splitlines()


def row_of(text: str, policy: str) -> str:
    """The first table row of a policy."""
    return next(line for line in text.splitlines() if line.startswith(f"{policy} "))
