"""Judge cells on the air from logs and captures.

Times come from logs. Bytes, losses and proof come from captures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from measure import judging, on_air, points
from measure.observed import Observed
from studies.adp1987 import latencies
from studies.adp1987.air import evidence, phases
from studies.adp1987.air.evidence import AirTraffic
from studies.adp1987.air.phases import AirPhases
from studies.adp1987.authenticated import KEY_FILES
from studies.adp1987.body import Measured
from studies.adp1987.payload import Payload
from studies.study import Judged, Repetition
from topologies.model import Scenario

_RECORDED_RAW = ("stamps", "processor_s", "failure", "parts")
_FILES = ("source.json.gz", "sink.json.gz", "source-job.json", "proof.json", "latency.json",
          "throughput.json", *KEY_FILES)


def judge_repetition(repetition: Repetition, task: Mapping[str, Any]) -> Judged:
    """Return the measured values and the evidence of a repetition on the air.

    Args:
        repetition: The repetition with its cell, settings and folder.
        task: The workload's task.

    Raises:
        MeasureError: A capture cannot be read.
        OSError: A file of the repetition is missing.
    """
    out, cell = repetition.out, repetition.cell
    raw = json.loads((out / "raw.json").read_text())
    circumstances: dict[str, Any] = {
        "captures": on_air.list_captures(raw), "elapsed_s": raw["elapsed_s"],
        "files": judging.existing_files(out, _FILES),
        "raw": judging.select_raw_values(raw, _RECORDED_RAW)}
    if raw["failure"]:
        return Judged(None, reason=raw["failure"]["reason"], status="failed", **circumstances)
    scenario: Scenario = cell.value("scenario")
    payload = Payload(json.loads((out / "source-job.json").read_text())["seed"])
    logged = phases.read_phases(out, raw, payload)
    seen = evidence.gather_traffic(out, task, raw, logged, _host_addresses(scenario))
    checks = judging.to_records(evidence.run_checks(seen, logged, task["scope"]))
    policy = cell.value("policy")
    network = on_air.observe_air(policy, scenario, out, raw, repetition.secrets)
    checks += on_air.verify_observed(policy, network)
    reasons = [*judging.failure_reasons(checks),
               *judging.dropped_packets_reason({"captures": circumstances["captures"]})]
    measured = _measure(logged, seen, raw, _air_bytes(network, raw))
    return Judged(measured, checks, "; ".join(reasons), "failed" if reasons else "ok",
                  **circumstances)


def _host_addresses(scenario: Scenario) -> Mapping[str, str]:
    nodes = scenario.network.nodes
    return {"alpha": nodes[scenario.peer].address, "beta": nodes[scenario.mobile_node].address}


def _air_bytes(network: Observed, raw: Mapping[str, Any]) -> int:
    """Return the bytes of data frames on the air in the second phase.

    Headers and retransmissions are included.
    """
    stamps = raw["stamps"]
    return sum(packet.length - packet.radiotap_bytes
               for packet in network.packets_of(f"{points.TRAFFIC}-air")
               if packet.is_data and stamps["latency"] <= packet.time_s < stamps["throughput"])


def _measure(logged: AirPhases, traffic: AirTraffic, raw: Mapping[str, Any],
             air_bytes: int) -> Measured:
    latency, throughput = logged.by_name["latency"], logged.by_name["throughput"]
    came_ns = [at_ns for at_ns in throughput.delivered_ns if at_ns is not None]
    lasted_s = (max(came_ns) - throughput.due_ns[0]) / 1e9 if came_ns else None
    came = _user_bytes(throughput.arrivals) - sum(throughput.arrivals[n][1] for n
                                                  in throughput.lost_messages)
    rate = came / lasted_s if lasted_s else None
    span_s = latency.arrivals[-1][0]
    offered = _user_bytes(latency.arrivals) / span_s if span_s else None
    left_s, answered_s = on_air.handoff_times(raw)
    missing = traffic.missing_datagrams
    by_handoff = traffic.count_messages([one for one in missing
                                         if left_s <= one.at_s <= answered_s])
    return Measured(
        throughput_bytes_per_s=rate, messages_per_s=len(came_ns) / lasted_s if lasted_s else None,
        establishment_s=_establishment_s(traffic), offered_bytes_per_s=offered,
        wire_bytes_per_byte=air_bytes / _user_bytes(latency.arrivals),
        overloaded=rate is not None and offered is not None and offered > rate,
        handoff_s=on_air.handoff_took_s(raw), lost_by_handoff=by_handoff,
        lost_otherwise=traffic.count_messages(missing) - by_handoff,
        **latencies.latency_fields(latency.waits_s))


def _establishment_s(traffic: AirTraffic) -> float | None:
    """Return the time from the first to the last datagram of the handshake (s).

    The times are those at alpha. The result is None for fewer than two datagrams.
    """
    shaking = traffic.handshake_datagrams
    return shaking[-1].at_s - shaking[0].at_s if len(shaking) > 1 else None


def _user_bytes(arrivals: Sequence[Any]) -> int:
    return sum(size for _, size, _ in arrivals)
