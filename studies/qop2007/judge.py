"""Judge: turn the files of a repetition into a record's body and evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from measure import (
    arrived_stream,
    clock,
    in_force,
    iperf,
    judging,
    observed,
    outages,
    phases,
    retransmissions,
)
from measure.dissect import Packet
from measure.observed import Check, Observed
from measure.phases import Phase
from policies import Policy
from studies.qop2007 import attempts, evidence
from studies.qop2007.asked import Asked
from studies.qop2007.body import (
    SCHEMA,
    AuthenticationRecord,
    HandoffRecord,
    Measured,
    OutageRecord,
    PhaseRecord,
    StreamRecord,
    handoff_s,
    mean_components_s,
)
from studies.qop2007.metrics import TCP, UDP
from studies.qop2007.phases import (
    HOME,
    authentication_time_s,
    exchange_of,
    find_components,
    missing_components,
    summed_components,
)
from studies.study import Judged, Repetition
from topologies.model import Scenario

_RECORDED_RAW = ("stamps", "events", "registration", "foreign_registration", "kernel",
                 "processor_s", "port_check", "pulses", "ike_sas", "clock_step_s", "failure",
                 "left", "harness_work")
#: Number of directions of the stream during a move.
_WAYS = 2


def judge_repetition(repetition: Repetition) -> Judged:
    """Judge a repetition by the files that its workload left.

    Args:
        repetition: the cell, the settings, the run's secrets and the folder of the files.

    Returns:
        The measured values, the evidence, and the reason of a failure.

    Raises:
        MeasureError, OSError: a file is missing or cannot be read.
    """
    policy: Policy = repetition.cell.value("policy")
    scenario: Scenario = repetition.cell.value("scenario")
    asked = repetition.asked
    assert isinstance(asked, Asked)
    raw = observed.read_raw_values(repetition.out)
    dissected = in_force.dissect_repetition(policy, scenario, repetition.out, raw,
                                            repetition.secrets)
    seen = dissected.last_authentication()
    earlier = [dissected.earlier_authentication(name) for name in raw.get("parts", {})]
    checks = [*in_force.verify(policy, seen), *attempts.check_attack(
        seen, scenario, repetition.secrets["network"].get("passphrase", "")),
              *evidence.check_authentications(policy, earlier, seen, asked)]
    reason = _failure_reason(raw, checks, seen, earlier)
    failure = raw["failure"] or {}
    if failure.get("stage") == "stream" and (narrow := arrived_stream.describe_narrow(scenario)):
        reason += f"; {narrow}"
    again = [text for each in (*earlier, seen) for text
             in retransmissions.find_retransmissions(each)]
    measured = _measure(policy, scenario, seen, earlier, is_proven=not reason)
    if not reason and measured.authentication_time_s is None:
        lacking = missing_components(measured.authentication_components_s,
                                     measured.authentication_sum)
        reason = f"not measured: no {', '.join(lacking)} in the captures"
    if not reason:
        reason = _find_lacking(measured)
    if not reason and "pulses" in raw and len(measured.outages or {}) < _WAYS:
        reason = "not measured: the stream over the move did not come back both ways"
    return Judged(
        measured=measured,
        evidence=judging.to_records(checks),
        reason=reason, status="failed" if reason else "ok", captures=raw["captures"],
        elapsed_s=raw["elapsed_s"],
        # Retransmissions on lossy wires are the network's doing, not this machine's.
        flags=[retransmissions.FLAG] if again and not seen.wires_lose else [],
        raw=_select_raw_values(raw) | ({"retransmissions": again} if again else {}),
        causes={} if reason else _missing_stream_causes(seen, scenario))


def _find_lacking(measured: Measured) -> str:
    """Return the authentications that lack a component at home, or "".

    Otherwise a mean would be over fewer authentications than requested.
    """
    at_home = [name for name in measured.authentication_sum if name.endswith(HOME)]
    lacking = [(number, name) for number, each in enumerate(measured.authentications, start=1)
               for name in missing_components(each.components_s, at_home)]
    return "; ".join(f"not measured: no {name} in the captures of authentication {number}"
                     for number, name in lacking)


def _select_raw_values(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the raw values that a record keeps, with those of its parts."""
    own = judging.select_raw_values(raw, _RECORDED_RAW)
    parts = {name: _select_raw_values(part) for name, part in raw.get("parts", {}).items()}
    return own | ({"parts": parts} if parts else {})


def _measure(policy: Policy, scenario: Scenario, captures: Observed, earlier: Sequence[Observed], *,
             is_proven: bool) -> Measured:
    """Return the body. Values that were not measured are empty, and only a proven time counts."""
    raw = captures.raw
    was_set = bool(clock.describe_clock_step(raw))
    took_place = [] if was_set else _find_phases(captures)
    before = [(each.raw, [] if was_set else _find_phases(each)) for each in earlier]
    authentications = [_authentication_record(policy, found) for found in
                       (*(found for _, found in before), took_place)]
    parts = mean_components_s([each.components_s for each in authentications])
    summed = summed_components(policy, roaming=scenario.foreign_agent is not None)
    handoff = _handoff_phases(raw, took_place)
    return Measured(
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


def _find_phases(captures: Observed) -> list[Phase]:
    """Return the phases of an authentication, or none if it did not begin."""
    if "start" not in captures.raw["stamps"]:
        return []
    return phases.find_phases(captures.raw, captures.packets_of("auth-air"),
                              captures.packets_of("auth-mn"), captures.mac)


def _authentication_record(policy: Policy, took_place: Sequence[Phase]) -> AuthenticationRecord:
    return AuthenticationRecord(components_s=find_components(took_place, exchange_of(policy)),
                                phases=[PhaseRecord(**asdict(phase)) for phase in took_place])


def _earlier_handoff(raw: Mapping[str, Any], took_place: Sequence[Phase]) -> HandoffRecord | None:
    """Return the move after an authentication other than the last, or None if it failed."""
    moved = _handoff_phases(raw, took_place)
    found = [PhaseRecord(**asdict(phase)) for phase in took_place]
    whole_s = handoff_s(found, moved, raw["stamps"])
    return None if whole_s is None else HandoffRecord(phases=moved, handoff_s=whole_s)


def _handoff_phases(raw: Mapping[str, Any], took_place: Sequence[Phase]) -> list[PhaseRecord]:
    return [PhaseRecord(**asdict(phase)) for phase in phases.handoff_phases(raw, took_place)]


def _failure_reason(raw: Mapping[str, Any], checks: Sequence[Check], captures: Observed,
                    earlier: Sequence[Observed]) -> str:
    if clock.describe_clock_step(raw):
        return clock.describe_clock_step(raw)
    if raw["failure"]:
        # The failure is in the last part, or in what follows all parts.
        begun = [*earlier, *([captures] if "left" in raw or not earlier else [])]
        is_of_one = begun[-1] is not captures or "first_packet" not in captures.raw["stamps"]
        where = f"authentication {len(begun)}: " if earlier and is_of_one else ""
        return where + evidence.explain_failure(raw["failure"], begun[-1])
    return "; ".join(judging.failure_reasons(checks))


def _tcp_record(raw: Mapping[str, Any]) -> StreamRecord | None:
    """Return TCP's goodput by iperf3's server, or None if it received nothing."""
    if "iperf_tcp" not in raw:
        return None
    said = iperf.summarize(raw["iperf_tcp"])
    return StreamRecord(goodput_bps=said["goodput_bps"], bytes=round(said["bytes"]),
                        duration_s=said["duration_s"], iperf=said) if said["bytes"] else None


def _udp_record(raw: Mapping[str, Any], arrived: Sequence[Packet]) -> StreamRecord | None:
    """Return UDP's goodput: the bytes at iperf3's server, over the duration of the stream.

    Iperf3's own duration includes its closing exchange, so arrivals are timed by the peer's capture
    (arrived_stream). The result is None if nothing arrived.
    """
    if "iperf_udp" not in raw:
        return None
    said = iperf.summarize(raw["iperf_udp"])
    duration_s = arrived_stream.lasted_s(raw, arrived_stream.arrivals_s(raw, arrived))
    if duration_s is None or not said["bytes"]:
        return None
    return StreamRecord(goodput_bps=said["bytes"] * 8 / duration_s, bytes=round(said["bytes"]),
                        duration_s=duration_s, iperf=said)


def _missing_stream_causes(captures: Observed, scenario: Scenario) -> dict[str, str]:
    """Return the reasons why streams have no value, by metric."""
    raw = captures.raw
    return {
        TCP.name: "iperf3's server received none of its bytes" if "iperf_tcp" in raw else
        "no stream was sent",
        UDP.name: arrived_stream.describe_loss(captures, scenario) if "iperf_udp" in raw else
        "no stream was sent"}
