"""Judge real-time cells from logs, kernel counters and captures.

Times come from logs, bytes from the kernel, and the proof from captures.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import judging
from measure.observed import Check
from studies.adp1987 import authenticated, latencies
from studies.adp1987.authenticated import KEY_FILES
from studies.adp1987.body import Measured
from studies.adp1987.payload import Payload
from studies.adp1987.realtime import evidence
from studies.study import USED_FILE, Judged, Repetition

_RECORDED_RAW = ("stamps", "processor_s", "failure", "counters", "wireguard", "esp")
_FILES = ("source.json.gz", "sink.json.gz", "source-job.json", "proof.json", "latency.json",
          "throughput.json", USED_FILE, *KEY_FILES)
_FRAME_BYTES = 24  # preamble, checksum and gap, which no counter includes


@dataclass(frozen=True)
class RealPhase:
    """A phase in the logs of both ends.

    Times are ns of the guest's clock.
    """

    name: str
    arrivals: Sequence[Any]
    due_ns: Sequence[int]
    delivered: Sequence[Sequence[int]]

    @property
    def user_bytes(self) -> int:
        """Return the bytes of user data in the phase."""
        return sum(size for _, size, _ in self.arrivals)


def judge_repetition(repetition: Repetition, task: Mapping[str, Any]) -> Judged:
    """Return the measured values and the evidence of a real-time repetition.

    Args:
        repetition: The repetition with its cell, settings and folder.
        task: The workload's task.

    Raises:
        MeasureError: A capture cannot be read.
        OSError: A file of the repetition is missing.
    """
    out = repetition.out
    raw = json.loads((out / "raw.json").read_text())
    circumstances: dict[str, Any] = {
        "captures": raw["captures"], "elapsed_s": raw["elapsed_s"],
        "files": judging.existing_files(out, _FILES),
        "raw": judging.select_raw_values(raw, _RECORDED_RAW)}
    if raw["failure"]:
        return Judged(None, reason=raw["failure"]["reason"], status="failed", **circumstances)
    phases, secrets = _read_logs(out)
    payload = Payload(json.loads((out / "source-job.json").read_text())["seed"])
    seen = evidence.gather_evidence(out, task, raw, payload, secrets, phases["latency"].arrivals)
    checks = judging.to_records([_check_integrity(phases, payload),
                                 *evidence.run_checks(seen, _captured_bytes(phases))])
    reasons = [*judging.failure_reasons(checks), *judging.dropped_packets_reason(raw)]
    busy_s = repetition.processor_s("throughput-begins", "throughput-ends")
    return Judged(_measure(phases, raw, seen, busy_s), checks, "; ".join(reasons),
                  "failed" if reasons else "ok", **circumstances)


def _read_logs(out: Path) -> tuple[dict[str, RealPhase], Mapping[bytes, bytes]]:
    """Return the phases by name, and the receiver's ephemeral keys."""
    source, sink = (json.loads(gzip.decompress((out / f"{role}.json.gz").read_bytes()))
                    for role in ("source", "sink"))
    phases, begins = {}, 0
    for name, logged in source["phases"].items():
        arrivals = json.loads((out / f"{name}.json").read_text())["messages"]
        ends = begins + len(arrivals)
        phases[name] = RealPhase(name, arrivals, logged["due_ns"],
                                 sink["delivered"][begins:ends])
        begins = ends
    return phases, authenticated.ephemeral_keys(sink["keys"])


def _captured_bytes(phases: Mapping[str, RealPhase]) -> int:
    """Return the bytes of user data in the phases whose packets are captured."""
    return sum(phases[name].user_bytes for name in ("proof", "latency"))


def _check_integrity(phases: Mapping[str, RealPhase], payload: Payload) -> Check:
    wrong = count = 0
    for phase in phases.values():
        count += len(phase.arrivals)
        wrong += len(phase.arrivals) - len(phase.delivered)
        wrong += sum([size, checksum] != [arrival[1], payload.message_checksum(number, arrival[1])]
                     for number, (arrival, (_, size, checksum)) in enumerate(
                         zip(phase.arrivals, phase.delivered, strict=False)))
    return Check("intact", not wrong, (
        f"{count} messages handed over, {wrong} not delivered as they were"))


def _measure(phases: Mapping[str, RealPhase], raw: Mapping[str, Any],
             proof: evidence.RealEvidence, busy_s: float | None) -> Measured:
    latency, throughput = phases["latency"], phases["throughput"]
    waits = [(delivered[0] - due) / 1e9 for (_, _, urgent), due, delivered in zip(
        latency.arrivals, latency.due_ns, latency.delivered, strict=False) if urgent]
    lasted_s = (throughput.delivered[-1][0] - throughput.due_ns[0]) / 1e9
    count, counters = len(throughput.arrivals), raw["counters"]["latency"]
    wire_bytes = counters["tx_bytes"] + counters["rx_bytes"] + _FRAME_BYTES * (
        counters["tx_packets"] + counters["rx_packets"])
    return Measured(
        throughput_bytes_per_s=throughput.user_bytes / lasted_s,
        messages_per_s=count / lasted_s,
        messages_per_processor_s=count / busy_s if busy_s else None,
        establishment_s=proof.traffic.handshake_s,
        wire_bytes_per_byte=wire_bytes / latency.user_bytes, **latencies.latency_fields(waits))
