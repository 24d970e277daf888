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
    components,
    exchange_of,
    missing,
    table_4,
)
from studies.study import Judged, Repetition
from topologies.model import Scenario

_RECORDED_RAW = ("stamps", "events", "registration", "foreign_registration", "kernel",
                 "processor_s", "port_check", "pulses", "ike_sas", "clock_step_s", "failure",
                 "left", "harness_work")
#: Number of directions of the stream during a move.
_WAYS = 2


def judge(repetition: Repetition) -> Judged:
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
    raw = observed.raw_values(repetition.out)
    dissected = in_force.dissected(policy, scenario, repetition.out, raw, repetition.secrets)
    seen = dissected.last()
    earlier = [dissected.earlier(name) for name in raw.get("parts", {})]
    checks = [*in_force.verify(policy, seen), *attempts.verify(
        seen, scenario, repetition.secrets["network"].get("passphrase", "")),
              *evidence.authentications(policy, earlier, seen, asked)]
    reason = _reason(raw, checks, seen, earlier)
    failure = raw["failure"] or {}
    if failure.get("stage") == "stream" and (narrow := arrived_stream.describe_narrow(scenario)):
        reason += f"; {narrow}"
    again = [text for each in (*earlier, seen) for text in retransmissions.find(each)]
    measured = _measured(policy, scenario, seen, earlier, is_proven=not reason)
    if not reason and measured.authentication_time_s is None:
        lacking = missing(measured.authentication_components_s, measured.authentication_sum)
        reason = f"not measured: no {', '.join(lacking)} in the captures"
    if not reason:
        reason = _lacking(measured)
    if not reason and "pulses" in raw and len(measured.outages or {}) < _WAYS:
        reason = "not measured: the stream over the move did not come back both ways"
    return Judged(
        measured=measured,
        evidence=judging.recorded(checks),
        reason=reason, status="failed" if reason else "ok", captures=raw["captures"],
        elapsed_s=raw["elapsed_s"],
        # Retransmissions on lossy wires are the network's doing, not this machine's.
        flags=[retransmissions.FLAG] if again and not seen.wires_lose else [],
        raw=_recorded(raw) | ({"retransmissions": again} if again else {}),
        causes={} if reason else _causes(seen, scenario))


def _lacking(measured: Measured) -> str:
    """Return the authentications that lack a component at home, or "".

    Otherwise a mean would be over fewer authentications than requested.
    """
    at_home = [name for name in measured.authentication_sum if name.endswith(HOME)]
    lacking = [(number, name) for number, each in enumerate(measured.authentications, start=1)
               for name in missing(each.components_s, at_home)]
    return "; ".join(f"not measured: no {name} in the captures of authentication {number}"
                     for number, name in lacking)


def _recorded(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the raw values that a record keeps, with those of its parts."""
    own = judging.kept(raw, _RECORDED_RAW)
    parts = {name: _recorded(part) for name, part in raw.get("parts", {}).items()}
    return own | ({"parts": parts} if parts else {})


def _measured(policy: Policy, scenario: Scenario, seen: Observed, earlier: Sequence[Observed], *,
              is_proven: bool) -> Measured:
    """Return the body. Values that were not measured are empty, and only a proven time counts."""
    raw = seen.raw
    was_set = bool(clock.was_set(raw))
    took_place = [] if was_set else _phases(seen)
    before = [(each.raw, [] if was_set else _phases(each)) for each in earlier]
    authentications = [_authentication(policy, found) for found in
                       (*(found for _, found in before), took_place)]
    parts = mean_components_s([each.components_s for each in authentications])
    summed = table_4(policy, roaming=scenario.foreign_agent is not None)
    handoff = _handoff(raw, took_place)
    return Measured(
        schema=SCHEMA,
        authentication_time_s=authentication_time_s(parts, summed) if is_proven else None,
        authentication_sum=list(summed), authentications=authentications, handoff=handoff,
        handoff_s=handoff_s(authentications[-1].phases, handoff, raw["stamps"]),
        earlier_handoffs=[moved for each in before if (moved := _earlier(*each))] or None,
        outages=_outages(raw), tcp=_tcp(raw),
        udp=None if was_set else _udp(raw, seen.packets("traffic-peer")))


def _outages(raw: Mapping[str, Any]) -> dict[str, OutageRecord] | None:
    found = outages.find(raw)
    return {way: OutageRecord(**asdict(each)) for way, each in found.items()} or None


def _phases(seen: Observed) -> list[Phase]:
    """Return the phases of an authentication, or none if it did not begin."""
    if "start" not in seen.raw["stamps"]:
        return []
    return phases.find(seen.raw, seen.packets("auth-air"), seen.packets("auth-mn"), seen.mac)


def _authentication(policy: Policy, took_place: Sequence[Phase]) -> AuthenticationRecord:
    return AuthenticationRecord(components_s=components(took_place, exchange_of(policy)),
                                phases=[PhaseRecord(**asdict(phase)) for phase in took_place])


def _earlier(raw: Mapping[str, Any], took_place: Sequence[Phase]) -> HandoffRecord | None:
    """Return the move after an authentication other than the last, or None if it failed."""
    moved = _handoff(raw, took_place)
    found = [PhaseRecord(**asdict(phase)) for phase in took_place]
    whole_s = handoff_s(found, moved, raw["stamps"])
    return None if whole_s is None else HandoffRecord(phases=moved, handoff_s=whole_s)


def _handoff(raw: Mapping[str, Any], took_place: Sequence[Phase]) -> list[PhaseRecord]:
    return [PhaseRecord(**asdict(phase)) for phase in phases.handoff(raw, took_place)]


def _reason(raw: Mapping[str, Any], checks: Sequence[Check], seen: Observed,
            earlier: Sequence[Observed]) -> str:
    if clock.was_set(raw):
        return clock.was_set(raw)
    if raw["failure"]:
        # The failure is in the last part, or in what follows all parts.
        begun = [*earlier, *([seen] if "left" in raw or not earlier else [])]
        is_of_one = begun[-1] is not seen or "first_packet" not in seen.raw["stamps"]
        where = f"authentication {len(begun)}: " if earlier and is_of_one else ""
        return where + evidence.explain(raw["failure"], begun[-1])
    return "; ".join(judging.unproven(checks))


def _tcp(raw: Mapping[str, Any]) -> StreamRecord | None:
    """Return TCP's goodput by iperf3's server, or None if it received nothing."""
    if "iperf_tcp" not in raw:
        return None
    said = iperf.summarize(raw["iperf_tcp"])
    return StreamRecord(goodput_bps=said["goodput_bps"], bytes=round(said["bytes"]),
                        duration_s=said["duration_s"], iperf=said) if said["bytes"] else None


def _udp(raw: Mapping[str, Any], arrived: Sequence[Packet]) -> StreamRecord | None:
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


def _causes(seen: Observed, scenario: Scenario) -> dict[str, str]:
    """Return the reasons why streams have no value, by metric."""
    raw = seen.raw
    return {
        TCP.name: "iperf3's server received none of its bytes" if "iperf_tcp" in raw else
        "no stream was sent",
        UDP.name: arrived_stream.describe_loss(seen, scenario) if "iperf_udp" in raw else
        "no stream was sent"}
