"""Evaluate one measurement of qop2007: compute measured values and checks from its captures.

The workload in the guest (virtual machine) leaves captures and logs in a folder. `judge_repetition`
dissects them, verifies the security policy, and returns the content of the repetition's record (its
JSON file of results). `studies.qop2007` lists the terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from measure.capture.tshark import Packet
from measure.checks import observation, packet_counts, phases, proof
from measure.checks.observation import Check, Observation
from measure.checks.phases import Phase
from measure.cpu import clock
from measure.mobile_node import outages
from measure.records import judgement
from measure.services import iperf
from policies import Policy
from studies.qop2007 import attacks
from studies.qop2007 import checks as qop2007_checks
from studies.qop2007.measurements import (
    SCHEMA,
    TCP,
    UDP,
    AuthenticationRecord,
    HandoffRecord,
    Measurements,
    OutageRecord,
    PhaseRecord,
    StreamRecord,
    handoff_s,
    mean_components_s,
)
from studies.qop2007.phases import (
    HOME,
    authentication_time_s,
    exchange_of,
    find_components,
    missing_components,
    summed_components,
)
from studies.qop2007.settings import Settings
from studies.study import Judgement, Repetition
from topologies.model import Scenario

_RECORDED_RAW = ("stamps", "events", "registration", "foreign_registration", "kernel",
                 "processor_s", "port_check", "pulses", "ike_sas", "clock_step_s", "failure",
                 "left", "harness_work")
#: Number of directions of the stream during a move.
_WAYS = 2


def judge_repetition(repetition: Repetition) -> Judgement:
    """Evaluate one repetition by the files that its workload left.

    Args:
        repetition: policy and scenario, settings, secrets of the run and the folder of the files.

    Returns:
        Measured values, results of the checks, and the reason if the repetition failed.

    Raises:
        MeasureError, OSError: a file is missing or cannot be read.
    """
    policy: Policy = repetition.cell.value("policy")
    scenario: Scenario = repetition.cell.value("scenario")
    settings = repetition.settings
    assert isinstance(settings, Settings)
    raw = observation.read_raw_values(repetition.out)
    dissected = proof.dissect_repetition(policy, scenario, repetition.out, raw,
                                         repetition.secrets)
    last = dissected.last_authentication()
    earlier = [dissected.earlier_authentication(name) for name in raw.get("parts", {})]
    checks = [*proof.verify_policy(policy, last), *attacks.check_attack(
        last, scenario, policy.layers.link),
              *qop2007_checks.check_authentications(policy, earlier, last, settings)]
    not_made: list[str] = []
    if raw.get("air_missing"):
        checks, not_made = proof.split_without_air(checks)
    reason = _failure_reason(raw, checks, last, earlier)
    failure = raw["failure"] or {}
    if failure.get("stage") == "stream" and (
        narrow := packet_counts.describe_narrow_link(scenario)):
        reason += f"; {narrow}"
    retransmissions = [text for each in (*earlier, last) for text
                       in phases.find_retransmissions(each)]
    measured = _measure(policy, scenario, last, earlier, is_proven=not reason)
    if not reason and measured.authentication_time_s is None:
        lacking = missing_components(measured.authentication_components_s,
                                     measured.authentication_sum)
        reason = f"not measured: no {', '.join(lacking)} in the captures"
    if not reason:
        reason = _find_lacking(measured)
    if not reason and "pulses" in raw and len(measured.outages or {}) < _WAYS:
        reason = "not measured: the stream over the move did not come back both ways"
    return Judgement(
        measured=measured,
        evidence=judgement.to_records(checks), not_made=not_made,
        reason=reason, captures=raw["captures"],
        elapsed_s=raw["elapsed_s"],
        # Retransmissions on lossy wires are the network's doing, not this machine's.
        flags=[phases.RETRANSMISSION_FLAG] if retransmissions and not last.wires_lose else [],
        raw=_select_raw_values(raw) | (
            {"retransmissions": retransmissions} if retransmissions else {}),
        causes={} if reason else _missing_stream_causes(last, scenario))


def _find_lacking(measured: Measurements) -> str:
    """Name the authentications whose captures lack a required negotiation at home ("": none).

    Such a repetition fails, because its mean would be over fewer authentications than requested.
    """
    at_home = [name for name in measured.authentication_sum if name.endswith(HOME)]
    lacking = [(number, name) for number, each in enumerate(measured.authentications, start=1)
               for name in missing_components(each.components_s, at_home)]
    return "; ".join(f"not measured: no {name} in the captures of authentication {number}"
                     for number, name in lacking)


def _select_raw_values(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Select the raw values that the record keeps, also of each earlier authentication."""
    own = judgement.select_raw_values(raw, _RECORDED_RAW)
    parts = {name: _select_raw_values(part) for name, part in raw.get("parts", {}).items()}
    return own | ({"parts": parts} if parts else {})


def _measure(policy: Policy, scenario: Scenario, captures: Observation,
             earlier: Sequence[Observation], *,
             is_proven: bool) -> Measurements:
    """Compute authentication times, handoffs and goodputs of a repetition from its captures.

    The authentication time is left empty unless all checks hold (`is_proven`). Other values are
    empty if they were not measured.
    """
    raw = captures.raw
    was_set = bool(clock.describe_clock_step(raw))
    took_place = [] if was_set else _find_phases(captures)
    before = [(each.raw, [] if was_set else _find_phases(each)) for each in earlier]
    authentications = [_authentication_record(policy, phases) for phases in
                       (*(phases for _, phases in before), took_place)]
    parts = mean_components_s([each.components_s for each in authentications])
    summed = summed_components(policy, roaming=scenario.foreign_agent is not None,
                               has_home_agent=scenario.has_mobile_ip)
    handoff = _handoff_phases(raw, took_place)
    return Measurements(
        schema=SCHEMA,
        authentication_time_s=authentication_time_s(parts, summed) if is_proven else None,
        authentication_sum=list(summed), authentications=authentications, handoff=handoff,
        handoff_s=handoff_s(authentications[-1].phases, handoff, raw["stamps"]),
        earlier_handoffs=[moved for each in before if (moved := _earlier_handoff(*each))] or None,
        outages=_outage_records(raw), tcp=_tcp_record(raw),
        udp=None if was_set else _udp_record(raw, captures.packets_of("traffic-peer")))


def _outage_records(raw: Mapping[str, Any]) -> dict[str, OutageRecord] | None:
    found = outages.find_outages(raw)
    return {way: OutageRecord(**asdict(each)) for way, each in found.items()} or None


def _find_phases(captures: Observation) -> list[Phase]:
    """Return the phases of an authentication such as scan and EAP, or [] if it never began."""
    if "start" not in captures.raw["stamps"]:
        return []
    return phases.find_phases(captures.raw, captures.packets_of("auth-air"),
                              captures.packets_of("auth-mn"), captures.mac)


def _authentication_record(policy: Policy, took_place: Sequence[Phase]) -> AuthenticationRecord:
    return AuthenticationRecord(components_s=find_components(took_place, exchange_of(policy)),
                                phases=[PhaseRecord(**asdict(phase)) for phase in took_place])


def _earlier_handoff(raw: Mapping[str, Any], took_place: Sequence[Phase]) -> HandoffRecord | None:
    """Return the handoff after an authentication before the last one, or None if it failed."""
    moved = _handoff_phases(raw, took_place)
    phases = [PhaseRecord(**asdict(phase)) for phase in took_place]
    whole_s = handoff_s(phases, moved, raw["stamps"])
    return None if whole_s is None else HandoffRecord(phases=moved, handoff_s=whole_s)


def _handoff_phases(raw: Mapping[str, Any], took_place: Sequence[Phase]) -> list[PhaseRecord]:
    return [PhaseRecord(**asdict(phase)) for phase in phases.handoff_phases(raw, took_place)]


def _failure_reason(raw: Mapping[str, Any], checks: Sequence[Check], captures: Observation,
                    earlier: Sequence[Observation]) -> str:
    """Return why a repetition failed, with the part that failed, or "" if it did not."""
    if clock.describe_clock_step(raw):
        return clock.describe_clock_step(raw)
    if raw["failure"]:
        # The failure is in the last part, or in what follows all parts.
        begun = [*earlier, *([captures] if "left" in raw or not earlier else [])]
        is_of_one = begun[-1] is not captures or "first_packet" not in captures.raw["stamps"]
        where = f"authentication {len(begun)}: " if earlier and is_of_one else ""
        return where + qop2007_checks.explain_failure(raw["failure"], begun[-1])
    return "; ".join(judgement.failure_reasons(checks))


def _tcp_record(raw: Mapping[str, Any]) -> StreamRecord | None:
    """Return the TCP goodput that the iperf3 server measured, or None if it received nothing."""
    if "iperf_tcp" not in raw:
        return None
    summary = iperf.summarize_report(raw["iperf_tcp"])
    if not summary["bytes"]:
        return None
    return StreamRecord(goodput_bps=summary["goodput_bps"], bytes=round(summary["bytes"]),
                        duration_s=summary["duration_s"], iperf=summary)


def _udp_record(raw: Mapping[str, Any], arrived: Sequence[Packet]) -> StreamRecord | None:
    """Return the UDP goodput: bytes at the iperf3 server, divided by the duration of their arrival.

    The duration is from the capture at the peer, because that of iperf3 includes its closing
    exchange. The result is None if nothing arrived.
    """
    if "iperf_udp" not in raw:
        return None
    summary = iperf.summarize_report(raw["iperf_udp"])
    duration_s = packet_counts.stream_duration_s(raw,
                                                 packet_counts.stream_arrivals_s(raw, arrived))
    if duration_s is None or not summary["bytes"]:
        return None
    return StreamRecord(goodput_bps=summary["bytes"] * 8 / duration_s,
                        bytes=round(summary["bytes"]), duration_s=duration_s, iperf=summary)


def _missing_stream_causes(captures: Observation, scenario: Scenario) -> dict[str, str]:
    """Explain per metric why the TCP or UDP goodput of the repetition is missing."""
    raw = captures.raw
    return {
        TCP.name: "iperf3's server received none of its bytes" if "iperf_tcp" in raw else
        "no stream was sent",
        UDP.name: packet_counts.describe_loss(captures, scenario) if "iperf_udp" in raw else
        "no stream was sent"}
