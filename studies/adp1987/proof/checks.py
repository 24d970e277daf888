"""Check from captures of a measurement over Ethernet that ADP protected all messages.

ADP is the Authenticated Datagram Protocol of 1987, which the study adp1987 measures.
`gather_evidence` takes the captures, decrypts them with the run's keys, and adds the logs of both
hosts. `run_checks` takes the result, and returns the checks, such as encryption, sequence numbers
and integrity. The logs must agree with the captures. `PieceSearch` looks for user data in frames
that should be encrypted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from measure.capture import pcap
from measure.capture.pcap import CapturedFrame
from measure.checks.observation import Check
from studies.adp1987.proof import captured_messages, decryption, timing
from studies.adp1987.proof.captured_messages import CapturedHead
from studies.adp1987.proof.decryption import OWNER, DecryptedCapture, DecryptedMessage
from studies.adp1987.proof.logs import HostLogs
from studies.adp1987.proof.timing import PhaseTraffic, SenderSetting, WireTiming
from studies.adp1987.traces import PIECE_BYTES, Payload

# --- Search for pieces of payloads in captured frames, at every offset ---

@dataclass(frozen=True)
class PieceCounts:
    """Numbers of searched frames, of frames that show user data, and of truncated frames."""

    frames: int = 0
    showing: int = 0
    cut: int = 0
    bytes: int = 0


@dataclass
class PieceSearch:
    """A search in frames for any 16 bytes of the messages' data.

    A table of the first three bytes excludes nearly all positions without such data quickly.
    """

    payload: Payload
    _pieces: frozenset[bytes] = field(init=False, repr=False)
    _likely: npt.NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._pieces = self.payload.all_pieces()
        starts = np.frombuffer(b"".join(piece[:3] for piece in self._pieces), np.uint8)
        self._likely = np.zeros(1 << 24, np.bool_)
        self._likely[_to_numbers(starts[0::3], starts[1::3], starts[2::3])] = True

    def has_piece(self, data: bytes) -> bool:
        """Return whether 16 bytes of the messages' data occur anywhere in `data`."""
        if len(data) < PIECE_BYTES:
            return False
        values = np.frombuffer(data, np.uint8)
        end = len(data) - PIECE_BYTES + 1
        places = np.flatnonzero(self._likely[_to_numbers(
            values[:end], values[1:end + 1], values[2:end + 2])])
        return any(data[at:at + PIECE_BYTES] in self._pieces for at in places)

    def search_frames(self, frames: Iterable[CapturedFrame]) -> PieceCounts:
        """Search every frame behind its Ethernet header, and count the results."""
        count = showing = cut = size = 0
        for frame in frames:
            count += 1
            size += len(frame.data)
            cut += len(frame.data) < frame.wire_bytes
            showing += self.has_piece(frame.payload)
        return PieceCounts(count, showing, cut, size)


def _to_numbers(first: npt.NDArray[np.uint8], second: npt.NDArray[np.uint8],
                third: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    high, middle, low = (part.astype(np.int32) for part in (first, second, third))
    number: npt.NDArray[np.int32] = (high << 16) | (middle << 8) | low
    return number


# --- Evidence and checks ---

ALPHA = "10.9.0.1"
#: Capture files of a repetition. The first has whole frames and is the only one of an attack.
PROOF, TRAFFIC = "proof-alpha.pcap", "traffic-alpha.pcap"


@dataclass(frozen=True)
class RepetitionEvidence:
    """All that is known about a repetition from its captures and logs.

    - `task`: instructions of the workload
    - `channel`: the decrypted first capture
    - `whole`: all decrypted captures with complete frames
    - `later`: headers of ADP datagrams after the first capture
    - `strangers`: packets other than ADP, by protocol
    - `logs`: logs of both hosts
    - `payload`: data of the messages
    - `keys`: folder with the owners' key files
    - `shown`: number of frames per capture that show user data in clear
    - `phases`: the phases in order
    - `setting`: settings of the sending host
    - `wire`: distances between the sender's frames
    """

    task: Mapping[str, Any]
    channel: DecryptedCapture
    whole: DecryptedCapture
    later: Sequence[CapturedHead]
    strangers: Counter[int]
    logs: HostLogs
    payload: Payload
    keys: Path
    shown: Mapping[str, PieceCounts]
    phases: Sequence[PhaseTraffic]
    setting: SenderSetting
    wire: WireTiming


def gather_evidence(out: Path, task: Mapping[str, Any], job: Mapping[str, Any], logs: HostLogs,
                    stamps: Mapping[str, float]) -> RepetitionEvidence:
    """Decrypt and search the captures of a repetition.

    Args:
        out: folder of the repetition.
        task: the instructions that the workload had.
        job: configuration of the sender's program.
        logs: the hosts' logs.
        stamps: times at which the phases began, by phase (s since 1970).

    Raises:
        MeasureError: a capture cannot be read.
    """
    payload, setting = Payload(job["seed"]), SenderSetting.from_job(task, job)
    frames = {name: list(pcap.read_frames(out / name)) for name in (PROOF, TRAFFIC)
              if (out / name).exists()}
    channel = decryption.open_frames(frames[PROOF], ALPHA, out, logs.secrets)
    # With full encryption, signatures are visible only after decryption.
    whole = channel if task["scope"] != "all" else decryption.open_frames(
        chain.from_iterable(frames.values()), ALPHA, out, logs.secrets)
    search = PieceSearch(payload)
    first = list(captured_messages.find_heads(frames[PROOF], ALPHA, once=True))
    later = list(captured_messages.find_heads(frames.get(TRAFFIC, ()), ALPHA))
    every = chain.from_iterable(frames.values())
    return RepetitionEvidence(task, channel, whole, later, captured_messages.count_strangers(every),
                              logs,
                              payload, out,
                              {name: search.search_frames(each) for name, each in frames.items()},
                              timing.split_phases(out, stamps, [*first, *later]), setting,
                              timing.measure_wire(frames[PROOF], ALPHA, job["wire"]))


def run_checks(proof: RepetitionEvidence) -> list[Check]:
    """Return all checks of a repetition over Ethernet."""
    return [decryption.check_channel(proof.whole, proof.later), decryption.check_owner(
        proof.whole, proof.keys, proof.later), _check_impostors(proof), _check_scope(proof),
        _check_nothing_else(proof), _check_sequence_numbers(proof), _check_integrity(proof),
            _check_piggybacking(proof), _check_counts(proof),
        timing.check_waits(proof.phases, proof.setting),
        timing.check_wire(proof.wire, proof.logs, is_quick=proof.task["is_quick"])]


def _check_impostors(proof: RepetitionEvidence) -> Check:
    """Check that messages in a user's name come only from the host of this user."""
    others = [entry for entry in proof.logs.delivered
              if entry[3] == OWNER and entry[4] != "alpha"]
    return Check("impostors", not others, (
        f"{len(others)} messages delivered as {OWNER}'s from another host than hers"))


def _check_scope(proof: RepetitionEvidence) -> Check:
    """Check that as much is encrypted as the setting requires: nothing, trailer or all.

    With full encryption, no captured frame may show user data, and all frames must be complete.
    Otherwise user data must be visible, which proves that the search works.
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


def _check_nothing_else(proof: RepetitionEvidence) -> Check:
    """Check that captures of complete frames have no IP packets other than ADP."""
    kinds = ", ".join(f"{count} of protocol {kind}" for kind, count in proof.strangers.items())
    return Check("nothing-else", not proof.strangers, (
        f"{proof.strangers.total()} packets captured that are no ADP messages"
        + f" ({kinds})" * bool(kinds)))


def _check_sequence_numbers(proof: RepetitionEvidence) -> Check:
    """Check that sequence numbers rise, and that none is used twice with one key."""
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for message in proof.channel.messages:
        by_key[message.frame.channel].append(message.sequence)
    reused = sum(len(numbers) - len(set(numbers)) for numbers in by_key.values())
    rise = all(numbers == sorted(numbers) for numbers in by_key.values())
    return Check("fresh", bool(by_key) and rise and not reused, (
        f"{len(proof.channel.messages)} sequence numbers, {reused} of them used again"))


def _check_integrity(proof: RepetitionEvidence) -> Check:
    """Check that messages arrive unchanged, and that the trailer of every datagram is valid."""
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


def _without_copies(messages: Sequence[DecryptedMessage]) -> list[DecryptedMessage]:
    """Return the datagrams that carry messages, without repeated copies.

    Another check proves that there are no copies.
    """
    return [message for message in messages if message.frame.count and not message.is_again]


def _read_user_data(proof: RepetitionEvidence) -> list[bytes | None]:
    """Return the data of all messages in the first phase, None where it cannot be decrypted."""
    return [data for message in _without_copies(proof.channel.messages) for data in (
        [None] * message.frame.count if message.body is None else
        [each.data for each in message.body.messages])]


def _check_piggybacking(proof: RepetitionEvidence) -> Check:
    """Check that datagrams hold the right messages, and that none was sent too early.

    Messages that are not urgent must wait for others.
    """
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


def _check_counts(proof: RepetitionEvidence) -> Check:
    """Check that log and captures agree on the number of messages in each datagram."""
    logged = [shipment.messages for phase in proof.logs.phases.values()
              for shipment in phase.shipments]
    captured = [head.count for phase in proof.phases for head in phase.heads if head.count]
    return Check("counted", captured == logged, (
        f"{sum(captured)} user messages in {len(captured)} ADP messages by the headers captured, "
        f"{sum(logged)} in {len(logged)} of the log"))
