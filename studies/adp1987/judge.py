"""Judge a repetition: measured values from the hosts' logs, proof from captures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from measure import judging
from studies import mobile
from studies.adp1987 import attacked, evidence, latencies, logs, matrix
from studies.adp1987.air import judge as on_air
from studies.adp1987.authenticated import KEY_FILES
from studies.adp1987.body import SHARES, Measured, PrefixRecord
from studies.adp1987.design import REAL_TIME
from studies.adp1987.logs import HostLogs, LoggedMessage, LoggedPhase
from studies.adp1987.model import FRAGMENT_BYTES, FRAME_BYTES
from studies.adp1987.realtime import judge as realtime
from studies.study import Judged, Repetition

_RECORDED_RAW = ("stamps", "processor_s", "failure", "attack")
#: Files that are stored with the record, so that it can be judged again.
_FILES = ("sender.json.gz", "receiver.json.gz", "later.json.gz", "sender-job.json", "proof.json",
          "latency.json", "throughput.json", *KEY_FILES)
#: Utilisation above which a cell counts as overloaded: the trace keeps the processor always busy.
_OVERLOADED = 0.98


def judge_repetition(repetition: Repetition) -> Judged:
    """Return the measured values and the evidence of a repetition.

    Args:
        repetition: The repetition with its cell, settings and folder.

    Raises:
        MeasureError: A capture cannot be read.
        OSError: A file of the repetition is missing.
    """
    out = repetition.out
    task = matrix.build_task(repetition.cell, repetition.asked)  # type: ignore[arg-type]
    if mobile.is_on_air(repetition.cell):
        return on_air.judge_repetition(repetition, task)
    if repetition.cell.ids["technology"] == REAL_TIME:
        return realtime.judge_repetition(repetition, task)
    raw = json.loads((out / "raw.json").read_text())
    circumstances: dict[str, Any] = {
        "captures": raw["captures"], "elapsed_s": raw["elapsed_s"],
        "files": judging.existing_files(out, _FILES),
        "raw": judging.select_raw_values(raw, _RECORDED_RAW)}
    if raw["failure"]:
        return Judged(None, reason=raw["failure"]["reason"], status="failed", **circumstances)
    hosts = logs.read_logs(out)
    job = json.loads((out / "sender-job.json").read_text())
    proof = evidence.gather_evidence(out, task, job, hosts, raw["stamps"])
    fault = raw.get("attack", "")
    measured = Measured(attack=attacked.build_attack_record(fault, proof,
                                                            out)) if fault else _measure(hosts)
    checks = judging.to_records(evidence.run_checks(proof))
    reasons = [*judging.failure_reasons(checks), *judging.dropped_packets_reason(raw)]
    return Judged(measured, checks, "; ".join(reasons), "failed" if reasons else "ok",
                  **circumstances)


def _measure(hosts: HostLogs) -> Measured:
    latency, throughput = hosts.phases["latency"], hosts.phases.get("throughput")
    rate = _delivered_rate(throughput.messages) if throughput else None
    span_ns = latency.messages[-1].due_ns
    offered = latency.user_bytes / (span_ns / 1e9)
    utilisation = latency.busy_ns / latency.lasted_ns
    return Measured(
        throughput_bytes_per_s=rate,
        establishment_s=hosts.establishment_ns / 1e9 if hosts.establishment_ns else None,
        utilisation_share=utilisation,
        adp_message_bytes=latency.user_bytes / len(latency.shipments),
        messages_per_adp_message=len(latency.messages) / len(latency.shipments),
        offered_bytes_per_s=offered, wire_bytes_per_byte=_wire_bytes_per_byte(latency),
        overloaded=utilisation >= _OVERLOADED or (rate is not None and offered > rate),
        causes=dict(Counter(shipment.cause for shipment in latency.shipments)),
        prefixes=_measure_prefixes(latency, throughput),
        **latencies.latency_fields(_urgent_waits(latency.messages)))


def _wire_bytes_per_byte(phase: LoggedPhase) -> float:
    """Return the sender's bytes on the wire per byte of user data.

    Each fragment counts with headers, checksum, preamble and gap. The number of ADP messages is
    that of the capture (check `counted`).
    """
    fragments = sum(-(-shipment.bytes // FRAGMENT_BYTES) for shipment in phase.shipments)
    size = sum(shipment.bytes for shipment in phase.shipments)
    return (size + fragments * FRAME_BYTES) / phase.user_bytes


def _urgent_waits(messages: Sequence[LoggedMessage]) -> list[float]:
    """Return latencies of urgent messages (s), from the sending process to the receiving one."""
    return [(message.delivered_ns - message.due_ns) / 1e9 for message in messages
            if message.urgent and message.delivered_ns is not None]


def _delivered_rate(messages: Sequence[LoggedMessage]) -> float | None:
    """Return the user data that is delivered per second while the sender never idles.

    Messages that are in the queue when the trace ends would wait for their timeout. They do not
    count.
    """
    ends_ns = messages[-1].handed_ns
    counted = [message for message in messages if message.sent_ns <= ends_ns] or messages
    last_ns = max((message.delivered_ns or 0 for message in counted), default=0)
    return sum(message.bytes for message in counted) / (last_ns / 1e9) if last_ns else None


def _measure_prefixes(latency: LoggedPhase, throughput: LoggedPhase | None) -> list[PrefixRecord]:
    records = []
    for share in SHARES:
        count = max(1, round(share * len(latency.messages)))
        waits = _urgent_waits(latency.messages[:count])
        records.append(PrefixRecord(
            messages=count, latency_s=fmean(waits) if waits else None,
            throughput_bytes_per_s=_delivered_rate(throughput.messages[:count]) if throughput
            else None))
    return records
