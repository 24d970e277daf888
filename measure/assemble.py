"""From what a machine left behind to a record: dissect, time, verify, judge."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure import clock, dissect, evidence, iperf, phases
from measure.dissect import Packet
from measure.errors import MeasureError
from measure.observed import Check, Observed
from measure.record import SCHEMA, CheckRecord, PhaseRecord, Record, StreamRecord
from policies import Policy
from topologies.model import Node, Scenario

_KEPT_RAW = ("stamps", "events", "registration", "foreign_registration", "kernel", "processor_s",
             "port_check", "ike_sas", "clock_step_s", "failure")


def assemble(policy: Policy, scenario: Scenario, repetition: int, out: Path, *,
             environment: Mapping[str, Any], wep_key: str, attempt: int) -> Record:
    """The record of the repetition whose files are in `out`. Raises MeasureError, OSError.

    `wep_key` is the network's static WEP key, in hex; frames that it does not decrypt show.
    """
    try:
        raw = json.loads((out / "raw.json").read_text())
    except json.JSONDecodeError as error:
        raise MeasureError("testbed", f"raw.json is not whole ({error})") from None
    static_wep = policy.layers.link is not None and policy.layers.link.keys == "static"
    if static_wep:
        raw["wep_key"] = "static"
    seen = _observed(scenario, raw, _captures(raw, out, wep_key if static_wep else ""))
    found = phases.find(raw, seen.packets("auth-air"), seen.packets("auth-mn"), seen.mac) \
        if "start" in raw["stamps"] and not clock.was_set(raw) else []
    checks = evidence.verify(policy, seen)
    reason = _reason(raw, checks, seen)
    parts = phases.components(found)
    wanted = phases.table_4(policy, roaming=scenario.roams_to is not None)
    return Record(
        schema_=SCHEMA, policy=policy.id, scenario=scenario.id, repetition=repetition,
        status="failed" if reason else "ok", reason=reason,
        authentication_time_s=None if reason else phases.authentication_time_s(parts, wanted),
        authentication_components_s=parts, authentication_sum=list(wanted),
        phases=[PhaseRecord(**asdict(phase)) for phase in found],
        handoff=[PhaseRecord(**asdict(phase)) for phase in phases.handoff(raw, found)],
        tcp=_tcp(raw), udp=None if clock.was_set(raw) else _udp(raw, seen.packets("traffic-peer")),
        evidence=[CheckRecord(**asdict(check)) for check in checks],
        environment={**environment, "policy_sha256": policy.digest()},
        captures=raw["captures"], attempt=attempt, elapsed_s=raw["elapsed_s"],
        raw={key: raw[key] for key in _KEPT_RAW if key in raw})


def _captures(raw: Mapping[str, Any], out: Path, wep_key: str) -> dict[str, list[Packet]]:
    """The packets of each capture, by its name.

    The mobile node's come first, as though nothing else had been dissected: TLS is judged there,
    and the air and the wire carry the same messages.
    """
    names = sorted((entry["file"].removesuffix(".pcap") for entry in raw["captures"]),
                   key=lambda name: name != "auth-mn")
    found = dissect.read_all([out / f"{name}.pcap" for name in names], wep_key)
    return dict(zip(names, found, strict=True))


def _observed(scenario: Scenario, raw: Mapping[str, Any],
              captures: Mapping[str, Sequence[Packet]]) -> Observed:
    nodes = scenario.network.nodes
    stations = [nodes[name] for name in scenario.network.of_kind("station")]
    agents = [nodes[name] for name in scenario.network.of_kind("home_agent")]
    return Observed(
        raw, captures, _mac(nodes[scenario.mobile_node]),
        macs=frozenset(map(_mac, stations)), addresses=frozenset(s.address for s in stations),
        agents=frozenset(agent.outer_address for agent in agents),
        home_agent=nodes[scenario.agent].address,
        care_of=nodes[scenario.foreign_agent].outer_address if scenario.foreign_agent else "")


def _mac(station: Node) -> str:
    return station.interfaces[station.radio_interface].radio or ""


def unmeasured(policy: Policy, scenario: Scenario, repetition: int, reason: str, *,
               environment: Mapping[str, Any], attempt: int) -> Record:
    """The record of a repetition that never came to a measurement."""
    return Record(schema_=SCHEMA, policy=policy.id, scenario=scenario.id, repetition=repetition,
                  status="failed", reason=reason, authentication_time_s=None,
                  authentication_components_s={}, authentication_sum=[], phases=[], handoff=[],
                  tcp=None,
                  udp=None, evidence=[], captures=[], attempt=attempt,
                  environment={**environment, "policy_sha256": policy.digest()})


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
