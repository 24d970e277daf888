"""Evidence is taken from the captured channel, opened with the run's keys; logs have to agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.record import CheckRecord
from studies.adp1987 import opened, sniffed
from studies.adp1987.logs import HostLogs, LoggedPhase
from studies.adp1987.opened import OpenedChannel
from studies.adp1987.payload import PIECE_BYTES, Payload
from studies.adp1987.processor import TOLERANCE_NS
from studies.adp1987.sniffed import SniffedMessage

ALPHA, BETA = "10.9.0.1", "10.9.0.2"
OWNER = "xena"
#: What a handling of the processor may delay a timer by, beside the model's own costs.
_ROUNDING_NS = 1_000
#: After a long idle time the machine's clock goes on by a millisecond before anything is taken.
_RARELY = 0.05


@dataclass(frozen=True)
class Exhibit:
    """What the proof's capture and the logs have of a repetition."""

    task: Mapping[str, Any]
    messages: Sequence[SniffedMessage]
    channel: OpenedChannel
    logs: HostLogs
    payload: Payload
    keys: Path


def gather(out: Path, task: Mapping[str, Any], logs: HostLogs, seed: int) -> Exhibit:
    """Open the proof's capture. Raises MeasureError."""
    messages = sniffed.whole(out / "proof-alpha.pcap")
    channel = opened.channel(messages, ALPHA, out, logs.keys)
    return Exhibit(task, messages, channel, logs, Payload(seed), out)


def checks(proof: Exhibit, traffic: Path | None) -> list[CheckRecord]:
    """All that must hold of a repetition; `traffic` is the capture of headers, if there is one."""
    made = [_channel(proof), _owner(proof), _impostors(proof), _scope(proof), _fresh(proof),
            _intact(proof), _piggybacked(proof), _in_time(proof),
            _on_the_wire(proof)]
    return [*made, _counted(proof, traffic)] if traffic else made


def _channel(proof: Exhibit) -> CheckRecord:
    channel = proof.channel
    ok = len(channel.requests) == len(channel.channels) == 1 and bool(channel.messages)
    return CheckRecord(check="channel", ok=ok, detail=(
        f"{len(channel.requests)} request for {len(channel.channels)} channel in the capture, "
        f"{len(channel.messages)} messages on it"))


def _owner(proof: Exhibit) -> CheckRecord:
    """One signature an owner and channel, right under its published key, and none once known."""
    channel, key = proof.channel, proof.keys / f"{OWNER}.pub.pem"
    later = [place for place in channel.proof_places if 0 <= channel.confirmed_after <= place]
    signatures = channel.proofs.get(OWNER, set())
    if proof.task["protocol"] == "adp-1987":
        right = all(opened.is_signature(signature, channel.challenge, key)
                    for signature in signatures)
    else:
        right = all(any(opened.is_modern_signature(signature, keys.salt, OWNER, key)
                        for keys in proof.logs.keys) for signature in signatures)
    ok = set(channel.proofs) == {OWNER} and len(signatures) == 1 and right and not later
    return CheckRecord(check="owner", ok=ok, detail=(
        f"{len(signatures)} signature of {OWNER} on the channel, "
        f"{'right' if right else 'wrong'} under its published key, in "
        f"{len(channel.proof_places)} of {len(channel.messages)} messages, "
        f"{len(later)} after it was confirmed"))


def _impostors(proof: Exhibit) -> CheckRecord:
    """An owner's messages come from the host that its processes are on, and from no other."""
    others = [entry for entry in proof.logs.delivered
              if entry[3] == OWNER and entry[4] != "alpha"]
    return CheckRecord(check="impostors", ok=not others, detail=(
        f"{len(others)} messages delivered as {OWNER}'s from another host than hers"))


def _scope(proof: Exhibit) -> CheckRecord:
    """Encrypted whole, no piece of a payload shows; otherwise pieces do, and prove the search."""
    pieces = proof.payload.pieces()
    showing = sum(shows(message.payload, pieces) for message in proof.messages)
    trailers = sum(message.frame.sealed[-8:] == message.frame.channel
                   for message in proof.channel.messages)
    scope = proof.task["scope"]
    ok = {"all": showing == 0 and trailers == 0, "trailer": showing > 0 and trailers == 0,
          "none": showing > 0 and trailers == len(proof.channel.messages)}[scope]
    return CheckRecord(check="scope", ok=ok, detail=(
        f"{showing} of {len(proof.messages)} captured messages show {PIECE_BYTES} bytes of a "
        f"payload, {trailers} a trailer in the clear, with '{scope}' encrypted"))


def shows(data: bytes, pieces: frozenset[bytes]) -> bool:
    """Whether a piece of a payload can be read in what was captured."""
    return any(data[at:at + PIECE_BYTES] in pieces for at in range(len(data) - PIECE_BYTES + 1))


def _fresh(proof: Exhibit) -> CheckRecord:
    numbers = [message.sequence for message in proof.channel.messages]
    again = len(numbers) - len(set(numbers))
    ok = bool(numbers) and numbers == sorted(numbers) and not again
    return CheckRecord(check="fresh", ok=ok, detail=(
        f"{len(numbers)} sequence numbers, {again} of them used again"))


def _intact(proof: Exhibit) -> CheckRecord:
    """What was handed over is what arrived, and every trailer on the way is right."""
    phases = proof.logs.phases.values()
    wrong = sum(message.checksum != proof.payload.checksum(number, message.bytes)
                for phase in phases for number, message in enumerate(phase.messages))
    total = sum(len(phase.messages) for phase in phases)
    ok = wrong == 0 and proof.channel.spoilt == 0 and total == len(proof.logs.delivered)
    return CheckRecord(check="intact", ok=ok, detail=(
        f"{total - wrong} of {total} messages arrived as they were handed over, "
        f"{len(proof.logs.delivered)} were delivered; {proof.channel.spoilt} on the wire were "
        "spoilt"))


def _piggybacked(proof: Exhibit) -> CheckRecord:
    """The decrypted capture holds the trace's messages in order, as many at a time as logged."""
    phase = proof.logs.phases["proof"]
    logged = [shipment.messages for shipment in phase.shipments]
    seen = [message.frame.count for message in proof.channel.messages if message.frame.count]
    data = [record.data for message in proof.channel.messages if message.body is not None
            for record in message.body.records]
    expected = [proof.payload.of(number, message.bytes)
                for number, message in enumerate(phase.messages)]
    ok = seen == logged and data == expected
    read = f"{len(data)} read as they were handed over" if data == expected else \
        "other ones than were handed over"
    return CheckRecord(check="piggybacked", ok=ok, detail=(
        f"{sum(seen)} user messages in {len(seen)} ADP messages of the capture, "
        f"{sum(logged)} in {len(logged)} of the log; {read}"))


def _counted(proof: Exhibit, traffic: Path) -> CheckRecord:
    logged = [shipment.messages for name, phase in proof.logs.phases.items() if name != "proof"
              for shipment in phase.shipments]
    seen = sniffed.counts(traffic, ALPHA)
    return CheckRecord(check="counted", ok=seen == logged, detail=(
        f"{sum(seen)} user messages in {len(seen)} ADP messages by the headers captured, "
        f"{sum(logged)} in {len(logged)} of the log"))


def _in_time(proof: Exhibit) -> CheckRecord:
    """None waited longer than its timeout, but for what the processor was in the middle of."""
    timeout_ns = proof.task["timeout_s"] * 1e9 if proof.task["queue"] else 0
    late = [lateness for name, phase in proof.logs.phases.items() if name != "throughput"
            for lateness in _late(phase, timeout_ns)]
    return CheckRecord(check="in-time", ok=not late, detail=(
        f"{len(late)} messages waited more than {timeout_ns / 1e6:g} ms and what their processor "
        f"was in the middle of; the latest by {max(late, default=0) / 1e6:.3f} ms"))


def _on_the_wire(proof: Exhibit) -> CheckRecord:
    """Every datagram arrived when the wire's rate has it arrive, by the machine's clock.

    Today's processors are so quick that what the machine's own calls take shows beside them: there
    datagrams may come later than they are counted.
    """
    arrived, early, late = proof.logs.arrived, proof.logs.early, proof.logs.late
    ok = not early and (late <= arrived * _RARELY or proof.task["is_quick"])
    return CheckRecord(check="on-the-wire", ok=ok, detail=(
        f"of {arrived} datagrams {early} arrived before the wire's rate lets them, {late} more "
        f"than {TOLERANCE_NS / 1e6:g} ms after"))


def _late(phase: LoggedPhase, timeout_ns: float) -> Iterable[float]:
    """By how much messages were shipped too late: a timer may ring while the processor is busy.

    Then the ADP message before is finished first, and its own handling takes its time.
    """
    longest = _longest_handling(phase)
    for message in phase.messages:
        lateness = message.sent_ns - message.handed_ns - timeout_ns - 2 * longest - _ROUNDING_NS
        if lateness > 0:
            yield lateness


def _longest_handling(phase: LoggedPhase) -> float:
    """The longest that the processor was with one ADP message, and with the one before it."""
    last = {message.shipment: message.handed_ns for message in phase.messages}
    handling = [phase.shipments[place].sent_ns - handed for place, handed in last.items()
                if phase.shipments[place].cause != "timeout"]
    sizes = [shipment.bytes for shipment in phase.shipments]
    on_wire_ns = max(sizes, default=0) * 8 / 10e6 * 1e9 * 1.05
    return max(handling, default=0) + on_wire_ns
