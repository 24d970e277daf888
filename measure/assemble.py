"""From what a machine left behind to a record: dissect, time, verify, judge."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure import dissect, evidence, iperf, phases
from measure.dissect import Packet
from measure.evidence import Check, Observed
from measure.record import SCHEMA, CheckRecord, PhaseRecord, Record, StreamRecord
from policies import Policy
from topologies.model import Scenario

_KEPT_RAW = ("stamps", "events", "kernel", "processor_s", "port_check", "ike_sas", "failure")


def assemble(policy: Policy, scenario: Scenario, repetition: int, out: Path, *,
             environment: Mapping[str, Any], wep_key: str, attempt: int) -> Record:
    """The record of the repetition whose files are in `out`. Raises MeasureError, OSError.

    `wep_key` is the network's static WEP key, in hex; frames that it does not decrypt show.
    """
    raw = json.loads((out / "raw.json").read_text())
    static_wep = policy.layers.link is not None and policy.layers.link.keys == "static"
    if static_wep:
        raw["wep_key"] = "static"
    captures = {entry["file"].removesuffix(".pcap"): dissect.read(
        out / entry["file"], wep_key if static_wep else "") for entry in raw["captures"]}
    station = scenario.network.nodes[scenario.mobile_node]
    seen = Observed(raw, captures, station.interfaces[station.radio_interface].radio or "",
                    station.address, scenario.network.nodes[scenario.peer].address)
    found = phases.find(raw, seen.packets("auth-air"), seen.packets("auth-mn"), seen.mac) \
        if "start" in raw["stamps"] else []
    checks = evidence.verify(policy, seen)
    reason = _reason(raw, checks, seen)
    return Record(
        schema_=SCHEMA, policy=policy.id, scenario=scenario.id, repetition=repetition,
        status="failed" if reason else "ok", reason=reason,
        authentication_time_s=None if reason else phases.authentication_time_s(found),
        phases=[PhaseRecord(**asdict(phase)) for phase in found],
        tcp=_tcp(raw), udp=_udp(raw, seen.packets("traffic-wire")),
        evidence=[CheckRecord(**asdict(check)) for check in checks],
        environment={**environment, "policy_sha256": policy.digest()},
        captures=raw["captures"], attempt=attempt, elapsed_s=raw["elapsed_s"],
        raw={key: raw[key] for key in _KEPT_RAW if key in raw})


def unmeasured(policy: Policy, scenario: Scenario, repetition: int, reason: str, *,
               environment: Mapping[str, Any], attempt: int) -> Record:
    """The record of a repetition that never came to a measurement."""
    return Record(schema_=SCHEMA, policy=policy.id, scenario=scenario.id, repetition=repetition,
                  status="failed", reason=reason, authentication_time_s=None, phases=[], tcp=None,
                  udp=None, evidence=[], captures=[], attempt=attempt,
                  environment={**environment, "policy_sha256": policy.digest()})


def _reason(raw: Mapping[str, Any], checks: Sequence[Check], seen: Observed) -> str:
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


def _udp(raw: Mapping[str, Any], wire: Sequence[Packet]) -> StreamRecord | None:
    """UDP goodput: what iperf3's server received, over the time in which it arrived.

    Iperf3's own duration also holds its closing talk, so arrivals are timed on the wire behind the
    access point: n datagrams take n/(n-1) of the time from the first to the last.
    """
    if "iperf_udp" not in raw:
        return None
    said = iperf.summarize(raw["iperf_udp"])
    stamps = raw["stamps"]
    during = [p for p in wire if stamps["udp_start"] <= p.time_s <= stamps["udp_end"]]
    size = Counter(p.length for p in during).most_common(1)
    times = [p.time_s for p in during if size and p.length == size[0][0]]
    if len(times) < 2 or times[-1] <= times[0]:
        return None
    duration_s = (times[-1] - times[0]) * len(times) / (len(times) - 1)
    return StreamRecord(goodput_bps=said["bytes"] * 8 / duration_s, bytes=round(said["bytes"]),
                        duration_s=duration_s, iperf=said)
