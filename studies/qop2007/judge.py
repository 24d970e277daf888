"""The judge makes a record's body of what a repetition left: dissect, time, verify."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from measure import clock, iperf, observed, phases
from measure.dissect import Packet
from measure.observed import Check, Observed
from measure.phases import Phase
from measure.record import CheckRecord
from policies import Policy
from studies.qop2007 import evidence
from studies.qop2007.body import (
    SCHEMA,
    Measured,
    PhaseRecord,
    StreamRecord,
    handoff_s,
)
from studies.qop2007.phases import authentication_time_s, components, table_4
from studies.study import Judged, Repetition
from topologies.model import Scenario

_RECORDED_RAW = ("stamps", "events", "registration", "foreign_registration", "kernel",
                 "processor_s", "port_check", "ike_sas", "clock_step_s", "failure")


def judge(repetition: Repetition) -> Judged:
    """What the repetition whose files are in `out` came to. Raises MeasureError, OSError.

    Frames that the network's static WEP key does not decrypt show as such.
    """
    policy: Policy = repetition.cell.value("policy")
    scenario: Scenario = repetition.cell.value("scenario")
    raw = observed.raw_values(repetition.out)
    static_wep = policy.layers.link is not None and policy.layers.link.keys == "static"
    if static_wep:
        raw["wep_key"] = "static"
    wep_key = repetition.secrets["network"]["wep_key"] if static_wep else ""
    seen = observed.observe(scenario, raw, observed.captures(raw, repetition.out, wep_key))
    checks = evidence.verify(policy, seen)
    reason = _reason(raw, checks, seen)
    return Judged(
        measured=_measured(policy, scenario, seen, is_proven=not reason),
        evidence=[CheckRecord(**asdict(check)) for check in checks],
        reason=reason, status="failed" if reason else "ok", captures=raw["captures"],
        elapsed_s=raw["elapsed_s"],
        raw={key: raw[key] for key in _RECORDED_RAW if key in raw})


def _measured(policy: Policy, scenario: Scenario, seen: Observed, *, is_proven: bool) -> Measured:
    """The body; what did not come about is empty, and only a proven time counts."""
    raw = seen.raw
    was_set = bool(clock.was_set(raw))
    took_place: list[Phase] = []
    if "start" in raw["stamps"] and not was_set:
        took_place = phases.find(raw, seen.packets("auth-air"), seen.packets("auth-mn"), seen.mac)
    parts = components(took_place)
    summed = table_4(policy, roaming=scenario.roams_to is not None)
    stages = [PhaseRecord(**asdict(phase)) for phase in took_place]
    handoff = [PhaseRecord(**asdict(phase)) for phase in phases.handoff(raw, took_place)]
    return Measured(
        schema=SCHEMA,
        authentication_time_s=authentication_time_s(parts, summed) if is_proven else None,
        authentication_components_s=parts, authentication_sum=list(summed),
        phases=stages, handoff=handoff, handoff_s=handoff_s(stages, handoff, raw["stamps"]),
        tcp=_tcp(raw), udp=None if was_set else _udp(raw, seen.packets("traffic-peer")))


def _reason(raw: Mapping[str, Any], checks: Sequence[Check], seen: Observed) -> str:
    if clock.was_set(raw):
        return clock.was_set(raw)
    if raw["failure"]:
        return evidence.explain(raw["failure"], seen)
    failed = [check for check in checks if not check.ok]
    return "; ".join(f"not proven: {check.check} ({check.detail})" for check in failed)


def _tcp(raw: Mapping[str, Any]) -> StreamRecord | None:
    if "iperf_tcp" not in raw:
        return None
    said = iperf.summarize(raw["iperf_tcp"])
    return StreamRecord(goodput_bps=said["goodput_bps"], bytes=round(said["bytes"]),
                        duration_s=said["duration_s"], iperf=said)


def _udp(raw: Mapping[str, Any], arrived: Sequence[Packet]) -> StreamRecord | None:
    """UDP goodput: what iperf3's server received, over the time in which it arrived.

    Iperf3's own duration also holds its closing talk, so arrivals are timed where the peer captures
    them: n datagrams take n/(n-1) of the time from the first to the last. A tunnel's packets are
    seen there packed and unpacked; where only packed ones are, the commonest size is the stream's.
    """
    if "iperf_udp" not in raw:
        return None
    said = iperf.summarize(raw["iperf_udp"])
    stamps = raw["stamps"]
    during = [p for p in arrived if stamps["udp_start"] <= p.time_s <= stamps["udp_end"]]
    during = [p for p in during if p.udp_dst == iperf.PORT] or during
    size = Counter(p.length for p in during).most_common(1)
    times = [p.time_s for p in during if size and p.length == size[0][0]]
    if len(times) < 2 or times[-1] <= times[0]:
        return None
    duration_s = (times[-1] - times[0]) * len(times) / (len(times) - 1)
    return StreamRecord(goodput_bps=said["bytes"] * 8 / duration_s, bytes=round(said["bytes"]),
                        duration_s=duration_s, iperf=said)
