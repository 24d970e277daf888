"""Evidence of a repetition from captures that are decrypted with the run's keys.

The logs must agree with the captures.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from measure import pcap
from measure.observed import Check
from studies.adp1987 import authenticated, sniffed, timing
from studies.adp1987.authenticated import OWNER
from studies.adp1987.dispatched import PhaseTraffic, SenderSetting
from studies.adp1987.logs import HostLogs
from studies.adp1987.opened import OpenedCapture, OpenedMessage
from studies.adp1987.payload import PIECE_BYTES, Payload
from studies.adp1987.pieces import PieceSearch, ShownPieces
from studies.adp1987.sniffed import SniffedHead
from studies.adp1987.timing import WireTiming

ALPHA = "10.9.0.1"
#: Capture files of a repetition. The first has whole frames and is the only one of an attack.
PROOF, TRAFFIC = "proof-alpha.pcap", "traffic-alpha.pcap"


@dataclass(frozen=True)
class Exhibit:
    """The contents of a repetition's captures and logs.

    `shown` holds, by capture, how many frames show payload bytes. `phases` are in order. `channel`
    is the decrypted first capture. `whole` is the decryption of all captures that have whole
    frames. `later` holds the heads of ADP messages after the first capture, `strangers` the packets
    that are not ADP, counted by protocol.
    """

    task: Mapping[str, Any]
    channel: OpenedCapture
    whole: OpenedCapture
    later: Sequence[SniffedHead]
    strangers: Counter[int]
    logs: HostLogs
    payload: Payload
    keys: Path
    shown: Mapping[str, ShownPieces]
    phases: Sequence[PhaseTraffic]
    setting: SenderSetting
    wire: WireTiming


def gather_evidence(out: Path, task: Mapping[str, Any], job: Mapping[str, Any], logs: HostLogs,
                    stamps: Mapping[str, float]) -> Exhibit:
    """Decrypt and search the captures of a repetition.

    Args:
        out: Folder of the repetition.
        task: The workload's task.
        job: The sender's job.
        logs: The hosts' logs.
        stamps: Times at which the phases began, by phase (s since 1970).

    Raises:
        MeasureError: A capture cannot be read.
    """
    payload, setting = Payload(job["seed"]), SenderSetting.from_job(task, job)
    frames = {name: list(pcap.read_frames(out / name)) for name in (PROOF, TRAFFIC)
              if (out / name).exists()}
    channel = authenticated.open_frames(frames[PROOF], ALPHA, out, logs.secrets)
    # With full encryption, signatures are visible only after decryption.
    whole = channel if task["scope"] != "all" else authenticated.open_frames(
        chain.from_iterable(frames.values()), ALPHA, out, logs.secrets)
    search = PieceSearch(payload)
    first = list(sniffed.find_heads(frames[PROOF], ALPHA, once=True))
    later = list(sniffed.find_heads(frames.get(TRAFFIC, ()), ALPHA))
    every = chain.from_iterable(frames.values())
    return Exhibit(task, channel, whole, later, sniffed.count_strangers(every), logs, payload, out,
                   {name: search.search_frames(each) for name, each in frames.items()},
                   timing.split_phases(out, stamps, [*first, *later]), setting,
                   timing.measure_wire(frames[PROOF], ALPHA, job["wire"]))


def run_checks(proof: Exhibit) -> list[Check]:
    """Return all checks of a repetition over wires."""
    return [authenticated.check_channel(proof.whole, proof.later), authenticated.check_owner(
        proof.whole, proof.keys, proof.later), _check_impostors(proof), _check_scope(proof),
        _check_nothing_else(proof), _check_sequence_numbers(proof), _check_integrity(proof),
            _check_piggybacking(proof), _check_counts(proof),
        timing.check_waits(proof.phases, proof.setting),
        timing.check_wire(proof.wire, proof.logs, is_quick=proof.task["is_quick"])]


def _check_impostors(proof: Exhibit) -> Check:
    """Check that an owner's messages come only from the host of its processes."""
    others = [entry for entry in proof.logs.delivered
              if entry[3] == OWNER and entry[4] != "alpha"]
    return Check("impostors", not others, (
        f"{len(others)} messages delivered as {OWNER}'s from another host than hers"))


def _check_scope(proof: Exhibit) -> Check:
    """Check that as much is encrypted as the cell's scope says.

    With full encryption, no capture may show a piece of a payload, and all frames must be whole.
    Otherwise pieces must show, which proves that the search works.
    """
    messages = proof.channel.messages
    trailers = sum(message.is_bare for message in messages)
    showing = sum(shown.showing for shown in proof.shown.values())
    cut = sum(shown.cut for shown in proof.shown.values())
    shows = all(shown.showing for shown in proof.shown.values())
    ok = {"all": not (showing or cut or trailers), "trailer": shows and trailers == 0,
          "none": shows and trailers == len(messages)}[proof.task["scope"]]
    frames = ", ".join(f"{shown.showing} of {shown.frames} frames of {name}" + (
        f" ({shown.cut} of them cut short)" if shown.cut else "")
        for name, shown in proof.shown.items())
    return Check("scope", ok and bool(messages), (
        f"{PIECE_BYTES} bytes of a payload in {frames}; a trailer in the clear in {trailers} of "
        f"{len(messages)} messages, with '{proof.task['scope']}' encrypted"))


def _check_nothing_else(proof: Exhibit) -> Check:
    """Check that captures of whole frames have no IP packets other than ADP messages."""
    kinds = ", ".join(f"{count} of protocol {kind}" for kind, count in proof.strangers.items())
    return Check("nothing-else", not proof.strangers, (
        f"{proof.strangers.total()} packets captured that are no ADP messages"
        + f" ({kinds})" * bool(kinds)))


def _check_sequence_numbers(proof: Exhibit) -> Check:
    """Check that sequence numbers rise and that no key sees a number twice."""
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for message in proof.channel.messages:
        by_key[message.frame.channel].append(message.sequence)
    again = sum(len(numbers) - len(set(numbers)) for numbers in by_key.values())
    rise = all(numbers == sorted(numbers) for numbers in by_key.values())
    return Check("fresh", bool(by_key) and rise and not again, (
        f"{len(proof.channel.messages)} sequence numbers, {again} of them used again"))


def _check_integrity(proof: Exhibit) -> Check:
    """Check that messages were sent and delivered unchanged and that every trailer is valid."""
    phases = proof.logs.phases.values()
    wrong = sum(message.checksum != proof.payload.message_checksum(number, message.bytes)
                for phase in phases for number, message in enumerate(phase.messages))
    total = sum(len(phase.messages) for phase in phases)
    arrived = sum(entry[4] == "alpha" for entry in proof.logs.delivered)
    altered = sum(data != proof.payload.message_data(number, len(data))
                  for number, data in enumerate(_read_user_data(proof)) if data is not None)
    spoilt = proof.channel.spoilt
    return Check("intact", wrong == altered == spoilt == 0 and total == arrived, (
        f"{total - wrong} of {total} messages arrived as they were handed over, {arrived} were "
        f"delivered; of those captured whole, {altered} other ones, {spoilt} ADP messages spoilt"))


def _without_copies(messages: Sequence[OpenedMessage]) -> list[OpenedMessage]:
    """Return the messages with user messages, without their copies.

    Another check proves that there are no copies.
    """
    return [message for message in messages if message.frame.count and not message.is_again]


def _read_user_data(proof: Exhibit) -> list[bytes | None]:
    """Return the data of the first phase's user messages, None where unreadable."""
    return [data for message in _without_copies(proof.channel.messages) for data in (
        [None] * message.frame.count if message.body is None else
        [record.data for record in message.body.records])]


def _check_piggybacking(proof: Exhibit) -> Check:
    """Check that ADP messages hold the trace's messages and were not sent too early."""
    expected = [size for _, size, _ in proof.phases[0].arrivals]
    data = _read_user_data(proof)
    strange = sum(part is not None and len(part) != size
                  for part, size in zip(data, expected, strict=False))
    early = timing.find_early(proof.phases, proof.setting)
    count = len(_without_copies(proof.channel.messages))
    return Check("piggybacked", len(data) == len(expected) and not strange
                 and not any(each.by_s for each in early.values()), (
        f"{len(data)} user messages in {count} ADP messages "
        f"of the decrypted capture, {strange} of another size than the trace's {len(expected)}; "
        f"ADP messages that went before they had to: {timing.describe_off_time(early)}"))


def _check_counts(proof: Exhibit) -> Check:
    """Check that log and captures agree on the user messages in each ADP message."""
    logged = [shipment.messages for phase in proof.logs.phases.values()
              for shipment in phase.shipments]
    seen = [head.count for phase in proof.phases for head in phase.heads if head.count]
    return Check("counted", seen == logged, (
        f"{sum(seen)} user messages in {len(seen)} ADP messages by the headers captured, "
        f"{sum(logged)} in {len(logged)} of the log"))
