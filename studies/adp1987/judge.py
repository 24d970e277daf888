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


def judge(repetition: Repetition) -> Judged:
    """Return the measured values and the evidence of a repetition.

    Args:
        repetition: The repetition with its cell, settings and folder.

    Raises:
        MeasureError: A capture cannot be read.
        OSError: A file of the repetition is missing.
    """
    out = repetition.out
    task = matrix.task(repetition.cell, repetition.asked)  # type: ignore[arg-type]
    if mobile.is_on_air(repetition.cell):
        return on_air.judge(repetition, task)
    if repetition.cell.ids["technology"] == REAL_TIME:
        return realtime.judge(repetition, task)
    raw = json.loads((out / "raw.json").read_text())
    circumstances: dict[str, Any] = {
        "captures": raw["captures"], "elapsed_s": raw["elapsed_s"],
        "files": judging.present(out, _FILES), "raw": judging.kept(raw, _RECORDED_RAW)}
    if raw["failure"]:
        return Judged(None, reason=raw["failure"]["reason"], status="failed", **circumstances)
    hosts = logs.read(out)
    job = json.loads((out / "sender-job.json").read_text())
    proof = evidence.gather(out, task, job, hosts, raw["stamps"])
    fault = raw.get("attack", "")
    measured = Measured(attack=attacked.record(fault, proof, out)) if fault else _measured(hosts)
    checks = judging.recorded(evidence.checks(proof))
    reasons = [*judging.unproven(checks), *judging.lost(raw)]
    return Judged(measured, checks, "; ".join(reasons), "failed" if reasons else "ok",
                  **circumstances)


def _measured(hosts: HostLogs) -> Measured:
    latency, throughput = hosts.phases["latency"], hosts.phases.get("throughput")
    rate = _rate(throughput.messages) if throughput else None
    span_ns = latency.messages[-1].due_ns
    offered = latency.user_bytes / (span_ns / 1e9)
    utilisation = latency.busy_ns / latency.lasted_ns
    return Measured(
        throughput_bytes_per_s=rate,
        establishment_s=hosts.establishment_ns / 1e9 if hosts.establishment_ns else None,
        utilisation_share=utilisation,
        adp_message_bytes=latency.user_bytes / len(latency.shipments),
        messages_per_adp_message=len(latency.messages) / len(latency.shipments),
        offered_bytes_per_s=offered, wire_bytes_per_byte=_on_the_wire(latency),
        overloaded=utilisation >= _OVERLOADED or (rate is not None and offered > rate),
        causes=dict(Counter(shipment.cause for shipment in latency.shipments)),
        prefixes=_prefixes(latency, throughput), **latencies.fields(_waits(latency.messages)))


def _on_the_wire(phase: LoggedPhase) -> float:
    """Return the sender's bytes on the wire per byte of user data.

    Each fragment counts with headers, checksum, preamble and gap. The number of ADP messages is
    that of the capture (check `counted`).
    """
    fragments = sum(-(-shipment.bytes // FRAGMENT_BYTES) for shipment in phase.shipments)
    size = sum(shipment.bytes for shipment in phase.shipments)
    return (size + fragments * FRAME_BYTES) / phase.user_bytes


def _waits(messages: Sequence[LoggedMessage]) -> list[float]:
    """Return latencies of urgent messages (s), from the sending process to the receiving one."""
    return [(message.delivered_ns - message.due_ns) / 1e9 for message in messages
            if message.urgent and message.delivered_ns is not None]


def _rate(messages: Sequence[LoggedMessage]) -> float | None:
    """Return the user data that is delivered per second while the sender never idles.

    Messages that are in the queue when the trace ends would wait for their timeout. They do not
    count.
    """
    ends_ns = messages[-1].handed_ns
    counted = [message for message in messages if message.sent_ns <= ends_ns] or messages
    last_ns = max((message.delivered_ns or 0 for message in counted), default=0)
    return sum(message.bytes for message in counted) / (last_ns / 1e9) if last_ns else None


def _prefixes(latency: LoggedPhase, throughput: LoggedPhase | None) -> list[PrefixRecord]:
    records = []
    for share in SHARES:
        count = max(1, round(share * len(latency.messages)))
        waits = _waits(latency.messages[:count])
        records.append(PrefixRecord(
            messages=count, latency_s=fmean(waits) if waits else None,
            throughput_bytes_per_s=_rate(throughput.messages[:count]) if throughput else None))
    return records
