"""Evaluate one repetition of the study adp1987: compute measured values and checks from its files.

The study measures ADP (Authenticated Datagram Protocol of 1987). A repetition is one measurement.
`judge_repetition` takes it with the folder of its captures and logs. It returns measured values
(`measurements`), results of the checks (`proof`), and the reason if it failed. There is one
function for Ethernet, one for the air and one for real time. Times come from the programs' logs.
Checks use captures. Bytes come from captures, in real time from the kernel's counters.

A trace is a list of messages with their times, of which some are urgent: they do not wait in a
queue. A repetition has three phases (`workload`):

- `proof`: a few messages, which are captured with all bytes.
- `latency`: the trace at its own times.
- `throughput`: the trace as fast as possible.

A shipment is a sent datagram, with one or more messages. A prefix is the first part of a trace.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from measure.capture import tcpdump
from measure.checks import proof
from measure.checks.observation import Check, Observation
from measure.records import judgement
from studies import policy_factors
from studies.adp1987 import cells, measurements
from studies.adp1987.cells import REAL_TIME
from studies.adp1987.measurements import SHARES, AttackRecord, Measurements, PrefixRecord
from studies.adp1987.model import FRAGMENT_BYTES, FRAME_BYTES
from studies.adp1987.proof import air_checks, decryption, logs, realtime_checks
from studies.adp1987.proof import checks as proof_checks
from studies.adp1987.proof.air_checks import AirPhases, AirTraffic
from studies.adp1987.proof.checks import RepetitionEvidence
from studies.adp1987.proof.decryption import KEY_FILES, OWNER
from studies.adp1987.proof.logs import HostLogs, LoggedMessage, LoggedPhase
from studies.adp1987.traces import Payload
from studies.study import USED_FILE, Judgement, Repetition
from topologies.model import Scenario

# --- Success of attacks: tried and accepted messages ---

def build_attack_record(fault: str, proof: RepetitionEvidence, out: Path) -> AttackRecord:
    """Count how often an attack was tried, and how often the receiver accepted it.

    Args:
        fault: name of the attack, one of `fault_injection.ATTACKS`.
        proof: captures and logs of the repetition.
        out: folder of the repetition.
    """
    phase = proof.logs.phases["proof"]
    delivered, shipments = proof.logs.delivered, len(phase.shipments)
    handed = [proof.payload.message_checksum(number, message.bytes)
              for number, message in enumerate(phase.messages)]
    true = set(handed)
    match fault:
        case "replayed":
            tried, accepted = shipments, len(delivered) - len(handed)
        case "stale-channel":
            tried, accepted = shipments, len(json.loads(gzip.decompress(
                (out / "later.json.gz").read_bytes()))["delivered"])
        case "relayed-owner":
            tried = 1
            accepted = sum(owner == OWNER and host == "mid" for *_, owner, host in delivered)
        case "forged-owner":
            tried, accepted = len(handed), len(delivered)
        case _:
            tried, accepted = shipments, sum(
                checksum not in true for _, _, checksum, _, _ in delivered)
    notes = sorted({f"{note[0]}: {note[1].get('reason', '')}" for note in proof.logs.notes
                    if note[0] in ("dropped", "refused")})
    return AttackRecord(fault=fault, tried=tried, accepted=max(0, accepted),
                        detail="; ".join(notes) or "the receiver noticed nothing")


# --- Cells on the air ---

_RECORDED_AIR_RAW = ("stamps", "processor_s", "failure", "parts")
_AIR_FILES = ("source.json.gz", "sink.json.gz", "source-job.json", "proof.json", "latency.json",
              "throughput.json", *KEY_FILES)


def judge_air_repetition(repetition: Repetition, task: Mapping[str, Any]) -> Judgement:
    """Evaluate a repetition over the air.

    Args:
        repetition: the combination of factors, settings and folder of the files.
        task: the instructions that the workload had.

    Returns:
        Measured values, results of the checks, and the reason if the repetition failed.

    Raises:
        MeasureError: a capture cannot be read.
        OSError: a file is missing.
    """
    out, cell = repetition.out, repetition.cell
    raw = json.loads((out / "raw.json").read_text())
    circumstances: dict[str, Any] = {
        "captures": proof.list_captures(raw), "elapsed_s": raw["elapsed_s"],
        "files": judgement.existing_files(out, _AIR_FILES),
        "raw": judgement.select_raw_values(raw, _RECORDED_AIR_RAW)}
    if raw["failure"]:
        return Judgement(None, reason=raw["failure"]["reason"], **circumstances)
    scenario: Scenario = cell.value("scenario")
    payload = Payload(json.loads((out / "source-job.json").read_text())["seed"])
    logged = air_checks.read_phases(out, raw, payload)
    traffic = air_checks.gather_traffic(out, task, raw, logged, _host_addresses(scenario))
    checks = judgement.to_records(air_checks.run_checks(traffic, logged, task["scope"]))
    policy = cell.value("policy")
    network = proof.build_air_observation(policy, scenario, out, raw, repetition.secrets)
    checks += proof.make_check_records(policy, network)
    reasons = [*judgement.failure_reasons(checks),
               *judgement.dropped_packets_reason({"captures": circumstances["captures"]})]
    measured = _measure_air(logged, traffic, raw, _air_bytes(network, raw))
    return Judgement(measured, checks, "; ".join(reasons), **circumstances)


def _host_addresses(scenario: Scenario) -> Mapping[str, str]:
    nodes = scenario.network.nodes
    return {"alpha": nodes[scenario.peer].address, "beta": nodes[scenario.mobile_node].address}


def _air_bytes(network: Observation, raw: Mapping[str, Any]) -> int:
    """Return the bytes of all data frames on the air in the phase `latency`.

    Headers and retransmissions are included.
    """
    stamps = raw["stamps"]
    return sum(packet.length - packet.radiotap_bytes
               for packet in network.packets_of(f"{tcpdump.TRAFFIC}-air")
               if packet.is_data and stamps["latency"] <= packet.time_s < stamps["throughput"])


def _measure_air(logged: AirPhases, traffic: AirTraffic, raw: Mapping[str, Any],
                 air_bytes: int) -> Measurements:
    """Return the measured values of a repetition over the air.

    `air_bytes` counts all data frames of the phase `latency`.
    """
    latency, throughput = logged.by_name["latency"], logged.by_name["throughput"]
    came_ns = [at_ns for at_ns in throughput.delivered_ns if at_ns is not None]
    lasted_s = (max(came_ns) - throughput.due_ns[0]) / 1e9 if came_ns else None
    lost_bytes = sum(throughput.arrivals[number][1] for number in throughput.lost_messages)
    delivered = _user_bytes(throughput.arrivals) - lost_bytes
    rate = delivered / lasted_s if lasted_s else None
    span_s = latency.arrivals[-1][0]
    offered = _user_bytes(latency.arrivals) / span_s if span_s else None
    left_s, answered_s = proof.handoff_times(raw)
    missing = traffic.missing_datagrams
    by_handoff = traffic.count_messages([one for one in missing
                                         if left_s <= one.at_s <= answered_s])
    return Measurements(
        throughput_bytes_per_s=rate, messages_per_s=len(came_ns) / lasted_s if lasted_s else None,
        establishment_s=_establishment_s(traffic), offered_bytes_per_s=offered,
        wire_bytes_per_byte=air_bytes / _user_bytes(latency.arrivals),
        overloaded=rate is not None and offered is not None and offered > rate,
        handoff_s=proof.handoff_duration_s(raw), lost_by_handoff=by_handoff,
        lost_otherwise=traffic.count_messages(missing) - by_handoff,
        **measurements.latency_fields(latency.waits_s))


def _establishment_s(traffic: AirTraffic) -> float | None:
    """Return the time (s) from the first to the last datagram of the handshake at the sender.

    The result is None if there are fewer than two datagrams.
    """
    shaking = traffic.handshake_datagrams
    return shaking[-1].at_s - shaking[0].at_s if len(shaking) > 1 else None


def _user_bytes(arrivals: Sequence[Any]) -> int:
    return sum(size for _, size, _ in arrivals)


# --- Cells in real time: times from logs, bytes from the kernel ---

_RECORDED_REALTIME_RAW = ("stamps", "processor_s", "failure", "counters", "wireguard", "esp")
_REALTIME_FILES = ("source.json.gz", "sink.json.gz", "source-job.json", "proof.json",
                   "latency.json",
                   "throughput.json", USED_FILE, *KEY_FILES)
_FRAME_BYTES = 24  # preamble, checksum and gap, which no counter includes


@dataclass(frozen=True)
class RealtimePhase:
    """A phase of a repetition, as both hosts logged it. Times are ns of the guest's clock.

    - `arrivals`: messages of the trace: time (s), bytes, urgency
    - `due_ns`: when the sender had each message
    - `delivered`: time, size and checksum of each message that the receiver got
    """

    name: str
    arrivals: Sequence[Any]
    due_ns: Sequence[int]
    delivered: Sequence[Sequence[int]]

    @property
    def user_bytes(self) -> int:
        """Return the bytes of user data in the phase."""
        return sum(size for _, size, _ in self.arrivals)


def judge_realtime_repetition(repetition: Repetition, task: Mapping[str, Any]) -> Judgement:
    """Evaluate a repetition in real time.

    Args:
        repetition: the combination of factors, settings and folder of the files.
        task: the instructions that the workload had.

    Returns:
        Measured values, results of the checks, and the reason if the repetition failed.

    Raises:
        MeasureError: a capture cannot be read.
        OSError: a file is missing.
    """
    out = repetition.out
    raw = json.loads((out / "raw.json").read_text())
    circumstances: dict[str, Any] = {
        "captures": raw["captures"], "elapsed_s": raw["elapsed_s"],
        "files": judgement.existing_files(out, _REALTIME_FILES),
        "raw": judgement.select_raw_values(raw, _RECORDED_REALTIME_RAW)}
    if raw["failure"]:
        return Judgement(None, reason=raw["failure"]["reason"], **circumstances)
    phases, secrets = _read_logs(out)
    payload = Payload(json.loads((out / "source-job.json").read_text())["seed"])
    evidence = realtime_checks.gather_evidence(out, task, raw, payload, secrets,
                                               phases["latency"].arrivals)
    checks = judgement.to_records([_check_integrity(phases, payload),
                                   *realtime_checks.run_checks(evidence, _captured_bytes(phases))])
    reasons = [*judgement.failure_reasons(checks), *judgement.dropped_packets_reason(raw)]
    busy_s = repetition.processor_s("throughput-begins", "throughput-ends")
    return Judgement(_measure_realtime(phases, raw, evidence, busy_s), checks, "; ".join(reasons),
                     **circumstances)


def _read_logs(out: Path) -> tuple[dict[str, RealtimePhase], Mapping[bytes, bytes]]:
    """Read the phases in both hosts' logs, and the receiver's ephemeral keys for decryption."""
    source, sink = (json.loads(gzip.decompress((out / f"{role}.json.gz").read_bytes()))
                    for role in ("source", "sink"))
    phases, begins = {}, 0
    for name, logged in source["phases"].items():
        arrivals = json.loads((out / f"{name}.json").read_text())["messages"]
        ends = begins + len(arrivals)
        phases[name] = RealtimePhase(name, arrivals, logged["due_ns"],
                                     sink["delivered"][begins:ends])
        begins = ends
    return phases, decryption.ephemeral_keys(sink["keys"])


def _captured_bytes(phases: Mapping[str, RealtimePhase]) -> int:
    """Return the bytes of user data in the phases whose packets were captured."""
    return sum(phases[name].user_bytes for name in ("proof", "latency"))


def _check_integrity(phases: Mapping[str, RealtimePhase], payload: Payload) -> Check:
    wrong = count = 0
    for phase in phases.values():
        count += len(phase.arrivals)
        wrong += len(phase.arrivals) - len(phase.delivered)
        wrong += sum([size, checksum] != [arrival[1], payload.message_checksum(number, arrival[1])]
                     for number, (arrival, (_, size, checksum)) in enumerate(
                         zip(phase.arrivals, phase.delivered, strict=False)))
    return Check("intact", not wrong, (
        f"{count} messages handed over, {wrong} not delivered as they were"))


def _measure_realtime(phases: Mapping[str, RealtimePhase], raw: Mapping[str, Any],
                      proof: realtime_checks.RealtimeEvidence,
                      busy_s: float | None) -> Measurements:
    """Return the measured values of a repetition in real time.

    `busy_s` is the CPU time of both hosts in the phase `throughput`, None if unknown.
    """
    latency, throughput = phases["latency"], phases["throughput"]
    waits = [(delivered[0] - due) / 1e9 for (_, _, urgent), due, delivered in zip(
        latency.arrivals, latency.due_ns, latency.delivered, strict=False) if urgent]
    lasted_s = (throughput.delivered[-1][0] - throughput.due_ns[0]) / 1e9
    count, counters = len(throughput.arrivals), raw["counters"]["latency"]
    wire_bytes = counters["tx_bytes"] + counters["rx_bytes"] + _FRAME_BYTES * (
        counters["tx_packets"] + counters["rx_packets"])
    return Measurements(
        throughput_bytes_per_s=throughput.user_bytes / lasted_s,
        messages_per_s=count / lasted_s,
        messages_per_processor_s=count / busy_s if busy_s else None,
        establishment_s=proof.traffic.handshake_s,
        wire_bytes_per_byte=wire_bytes / latency.user_bytes, **measurements.latency_fields(waits))


# --- Cells over wires ---

_RECORDED_RAW = ("stamps", "processor_s", "failure", "attack")
#: Files that are stored with the record, so that it can be judged again.
_FILES = ("sender.json.gz", "receiver.json.gz", "later.json.gz", "sender-job.json", "proof.json",
          "latency.json", "throughput.json", *KEY_FILES)
#: Utilisation above which a cell counts as overloaded: the trace keeps the processor always busy.
_OVERLOADED = 0.98


def judge_repetition(repetition: Repetition) -> Judgement:
    """Evaluate a repetition over Ethernet, over the air or in real time.

    Args:
        repetition: the combination of factors, settings and folder of the files.

    Returns:
        Measured values, results of the checks, and the reason if the repetition failed.

    Raises:
        MeasureError: a capture cannot be read.
        OSError: a file is missing.
    """
    out = repetition.out
    task = cells.build_task(repetition.cell, repetition.settings)  # type: ignore[arg-type]
    if policy_factors.is_on_air(repetition.cell):
        return judge_air_repetition(repetition, task)
    if repetition.cell.ids["technology"] == REAL_TIME:
        return judge_realtime_repetition(repetition, task)
    raw = json.loads((out / "raw.json").read_text())
    circumstances: dict[str, Any] = {
        "captures": raw["captures"], "elapsed_s": raw["elapsed_s"],
        "files": judgement.existing_files(out, _FILES),
        "raw": judgement.select_raw_values(raw, _RECORDED_RAW)}
    if raw["failure"]:
        return Judgement(None, reason=raw["failure"]["reason"], **circumstances)
    hosts = logs.read_logs(out)
    job = json.loads((out / "sender-job.json").read_text())
    proof = proof_checks.gather_evidence(out, task, job, hosts, raw["stamps"])
    fault = raw.get("attack", "")
    measured = Measurements(attack=build_attack_record(fault, proof,
                                                       out)) if fault else _measure(hosts)
    checks = judgement.to_records(proof_checks.run_checks(proof))
    reasons = [*judgement.failure_reasons(checks), *judgement.dropped_packets_reason(raw)]
    return Judgement(measured, checks, "; ".join(reasons), **circumstances)


def _measure(hosts: HostLogs) -> Measurements:
    """Return the measured values of a repetition over Ethernet, from the logs of both hosts."""
    latency, throughput = hosts.phases["latency"], hosts.phases.get("throughput")
    rate = _delivered_rate(throughput.messages) if throughput else None
    span_ns = latency.messages[-1].due_ns
    offered = latency.user_bytes / (span_ns / 1e9)
    utilisation = latency.busy_ns / latency.lasted_ns
    return Measurements(
        throughput_bytes_per_s=rate,
        establishment_s=hosts.establishment_ns / 1e9 if hosts.establishment_ns else None,
        utilisation_share=utilisation,
        adp_message_bytes=latency.user_bytes / len(latency.shipments),
        messages_per_adp_message=len(latency.messages) / len(latency.shipments),
        offered_bytes_per_s=offered, wire_bytes_per_byte=_wire_bytes_per_byte(latency),
        overloaded=utilisation >= _OVERLOADED or (rate is not None and offered > rate),
        causes=dict(Counter(shipment.cause for shipment in latency.shipments)),
        prefixes=_measure_prefixes(latency, throughput),
        **measurements.latency_fields(_urgent_waits(latency.messages)))


def _wire_bytes_per_byte(phase: LoggedPhase) -> float:
    """Return the sender's bytes on the wire per byte of user data.

    Each IP fragment counts with headers, checksum, preamble and gap.
    """
    fragments = sum(-(-shipment.bytes // FRAGMENT_BYTES) for shipment in phase.shipments)
    size = sum(shipment.bytes for shipment in phase.shipments)
    return (size + fragments * FRAME_BYTES) / phase.user_bytes


def _urgent_waits(messages: Sequence[LoggedMessage]) -> list[float]:
    """Return the latencies (s) of urgent messages, from the sending to the receiving process."""
    return [(message.delivered_ns - message.due_ns) / 1e9 for message in messages
            if message.urgent and message.delivered_ns is not None]


def _delivered_rate(messages: Sequence[LoggedMessage]) -> float | None:
    """Return the delivered user data per second (bytes/s) while the sender never waits.

    Messages that are still in the queue at the end do not count, because they wait for a timeout.
    """
    ends_ns = messages[-1].handed_ns
    counted = [message for message in messages if message.sent_ns <= ends_ns] or messages
    last_ns = max((message.delivered_ns or 0 for message in counted), default=0)
    return sum(message.bytes for message in counted) / (last_ns / 1e9) if last_ns else None


def _measure_prefixes(latency: LoggedPhase, throughput: LoggedPhase | None) -> list[PrefixRecord]:
    """Return latency and throughput over the first messages of the trace, for each of `SHARES`."""
    records = []
    for share in SHARES:
        count = max(1, round(share * len(latency.messages)))
        waits = _urgent_waits(latency.messages[:count])
        records.append(PrefixRecord(
            messages=count, latency_s=fmean(waits) if waits else None,
            throughput_bytes_per_s=_delivered_rate(throughput.messages[:count]) if throughput
            else None))
    return records
