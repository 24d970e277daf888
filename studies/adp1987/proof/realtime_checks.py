"""Check that a measurement's messages were carried only by the protocol under test.

The study compares ADP (Authenticated Datagram Protocol, with today's cryptography), ESP, WireGuard
and plain UDP in real time. `gather_evidence` reads the captures, kernel state and logs of one
measurement (repetition). `run_checks` takes this evidence and yields the checks: a statement,
whether it holds, and counts. For ADP, `check_waits` also checks that its datagrams left in time.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from measure.capture import pcap
from measure.capture.pcap import FRAGMENT_OFFSET, CapturedFrame
from measure.checks.observation import Check
from measure.packets import wireguard
from protocols.adp.packets import HeaderFlag
from studies.adp1987.proof import captured_messages, decryption, timing
from studies.adp1987.proof.captured_messages import PROTOCOL
from studies.adp1987.proof.checks import ALPHA, PieceCounts, PieceSearch
from studies.adp1987.proof.decryption import DecryptedCapture
from studies.adp1987.proof.timing import (
    Arrival,
    PhaseTraffic,
    SenderSetting,
    Transmission,
    TransmissionReason,
)
from studies.adp1987.traces import PIECE_BYTES, Payload

# --- Packets between the hosts by protocol: modern ADP, ESP, IKE and UDP ---

_IPV4, _UDP, _ESP = 0x0800, 17, 50
_IKE_PORT = 500
_OWN = {"adp": {PROTOCOL}, "esp": {_ESP}, "none": {_UDP}}


@dataclass
class HostTraffic:
    """Counts of packets in a capture at one end of the wire.

    - `sessions`: channel numbers or SPIs
    - `announced`: channel numbers for next keys
    - `repeated`: packets whose sequence number did not rise
    - `shaking`: packets of a handshake
    - `strangers`: packets of other protocols
    """

    protocol: str
    packets: int = 0
    sessions: set[bytes] = field(default_factory=set)
    announced: set[bytes] = field(default_factory=set)
    repeated: int = 0
    shaking: int = 0
    strangers: Counter[str] = field(default_factory=Counter)
    begun_s: float | None = None
    ended_s: float | None = None
    _last: dict[tuple[bytes, bytes], int] = field(default_factory=dict)

    @property
    def handshake_s(self) -> float | None:
        """Return the time (s) from the first to the last packet of the handshake, or None."""
        if self.begun_s is None or self.ended_s is None:
            return None
        return self.ended_s - self.begun_s

    def count_packet(self, at_s: float, packet: bytes) -> None:
        """Count an IPv4 packet (or its first bytes) that was captured at time `at_s`."""
        kind, data = packet[9], packet[(packet[0] & 15) * 4:]
        if self.protocol == "esp" and kind == _UDP and _IKE_PORT.to_bytes(2) == data[2:4]:
            self._count_handshake(at_s)
        elif kind not in _OWN[self.protocol]:
            self.strangers[f"of protocol {kind}"] += 1
        else:
            self.packets += 1
            # Only the first fragment has the protocol's header.
            if not int.from_bytes(packet[6:8]) & FRAGMENT_OFFSET:
                self._count_own(at_s, packet[12:16], data)

    def _count_own(self, at_s: float, source: bytes, data: bytes) -> None:
        if self.protocol == "esp":
            self._count_number(source, data[:4], int.from_bytes(data[4:8]))
        elif self.protocol == "adp":
            self._count_adp(at_s, source, data)

    def _count_adp(self, at_s: float, source: bytes, data: bytes) -> None:
        if following := captured_messages.announced_channel(data):
            self.announced.add(following)
        if captured_messages.is_handshake(data):
            self._count_handshake(at_s)
        elif data[1] & HeaderFlag.SEALED:
            self._count_number(source, captured_messages.channel_of(data),
                               captured_messages.sequence_of(data))

    def _count_handshake(self, at_s: float) -> None:
        self.shaking += 1
        self.begun_s = at_s if self.begun_s is None else self.begun_s
        self.ended_s = at_s

    def _count_number(self, source: bytes, session: bytes, number: int) -> None:
        self.sessions.add(session)
        self.repeated += number <= self._last.get((source, session), 0)
        self._last[source, session] = number


def count_traffic(frames: Iterable[CapturedFrame], protocol: str) -> HostTraffic:
    """Count all IPv4 packets of a capture, by their part in the protocol under test."""
    traffic = HostTraffic(protocol)
    for frame in frames:
        if frame.kind == _IPV4:
            traffic.count_packet(frame.at_s, frame.payload)
    return traffic


# --- Waits of ADP messages, judged by their quickest quarter ---
# In real time a host can be late for reasons outside of the protocol, so no single wait proves
# anything. Contention delays some messages, a longer timeout delays all. Nothing makes a host
# early. If a quarter of the ADP messages left on time, the timeout is the cell's. The times come
# from captures and the trace, not from a log.

#: A guest's kernel may sleep for one tick where it should not sleep at all (s).
_TICK_S = 0.010
_QUICK_SHARE = 0.25
#: In real time, no device charges for operations.
_UNCHARGED = dict.fromkeys(
    ("user-message-send", "adp-message-send", "chacha20-poly1305"), (0.0, 0.0))


@dataclass(frozen=True)
class RealtimeDelays:
    """Delays of ADP datagrams: how long after the right time each left (s).

    - `urgent`: datagrams sent because of an urgent message
    - `timed`: datagrams sent because of a timeout
    - `baseless`: datagrams sent without a reason
    - `unplaced`: number of messages that are in no datagram, or not in the trace

    The fastest datagram counts as 0. If a datagram had to wait for an earlier one, its delay counts
    from there.
    """

    urgent: Sequence[float]
    timed: Sequence[float]
    baseless: int
    unplaced: int


def measure_waits(frames: Iterable[CapturedFrame], source: str, arrivals: Sequence[Arrival],
                  task: Mapping[str, Any]) -> RealtimeDelays:
    """Compute how late datagrams left, in a phase that sends messages at their own times.

    The start of the phase is estimated from the captured datagrams.

    Args:
        frames: captured frames of the phase, in order of time.
        source: IPv4 address of the sender.
        arrivals: messages of the trace.
        task: the instructions that the workload had.
    """
    heads = [head for head in captured_messages.find_heads(frames, source) if head.count]
    setting = SenderSetting(task, _UNCHARGED, None)
    phase = PhaseTraffic("latency", arrivals, is_paced=True, start_s=0.0, heads=heads)
    begun_s = min((dispatch.begun_s - due_s for dispatch
                   in timing.find_transmissions(phase, setting)
                   if (due_s := _due_s(dispatch, setting)) is not None), default=0.0)
    late: dict[TransmissionReason, list[float]] = {reason: [] for reason in TransmissionReason}
    for dispatch in timing.find_transmissions(replace(phase, start_s=begun_s), setting):
        late[timing.find_reason(dispatch,
                                setting)].append(timing.lateness_s(dispatch, setting))
    return RealtimeDelays(sorted(late[TransmissionReason.URGENT]),
                          sorted(late[TransmissionReason.TIMEOUT]),
                          len(late[TransmissionReason.NONE]),
                          abs(len(arrivals) - phase.message_count))


def check_waits(delays: RealtimeDelays) -> Check:
    """Check that the fastest quarter of the datagrams left within 10 ms of the right time.

    Datagrams with an urgent message and those with a timeout are judged separately.
    """
    parts = {"urgent": delays.urgent, "timed out": delays.timed}
    ok = all(_quick_delay_s(late_s) <= _TICK_S for late_s in parts.values() if late_s)
    counts = ", ".join(
        f"{len(late_s)} {name} (a quarter by {_quick_delay_s(late_s) * 1e3:.2f} ms at most, one by "
        f"{late_s[-1] * 1e3:.2f})" for name, late_s in parts.items() if late_s)
    return Check("in-time", ok and bool(counts) and not delays.baseless and not delays.unplaced, (
        f"ADP messages by how much later they went than they had to: {counts or 'none'}; "
        f"{delays.baseless} without a reason, {delays.unplaced} user messages cannot be placed"))


def _due_s(dispatch: Transmission, setting: SenderSetting) -> float | None:
    """Return when a datagram had to leave (s of the trace), or None if that is not known."""
    match timing.find_reason(dispatch, setting):
        case TransmissionReason.URGENT:
            return dispatch.batch[-1][0]
        case TransmissionReason.TIMEOUT:
            return dispatch.batch[0][0] + setting.timeout_s
        case _:
            return None


def _quick_delay_s(late_s: Sequence[float]) -> float:
    return late_s[int(_QUICK_SHARE * len(late_s))]


# --- Evidence and checks ---

_AEAD = "rfc7539esp(chacha20,poly1305)"
_IKE_PACKETS = 4


@dataclass(frozen=True)
class RealtimeEvidence:
    """All that is known about a real-time repetition: packets by kind, kernel state and logs.

    - `traffic`: counts of the captured packets
    - `shown`: number of captured frames per phase that show user data in clear. Frames of the first
      phase are complete, those of later phases are cut short.
    - `raw`: raw values of the repetition
    - `channel`: the decrypted first phase
    - `keys`: folder with the owners' key files
    - `late`: how late ADP datagrams left, None for other protocols
    """

    traffic: HostTraffic | wireguard.WireGuardTraffic
    shown: Mapping[str, PieceCounts]
    raw: Mapping[str, Any]
    channel: DecryptedCapture
    keys: Path
    late: RealtimeDelays | None = None


def gather_evidence(out: Path, task: Mapping[str, Any], raw: Mapping[str, Any], payload: Payload,
                    secrets: Mapping[bytes, bytes], paced: Sequence[Arrival]) -> RealtimeEvidence:
    """Read and decrypt the captures of a repetition.

    Args:
        out: folder of the repetition.
        task: the instructions that the workload had.
        raw: raw values of the repetition, with the kernels' states.
        payload: data of the messages.
        secrets: ephemeral private keys by their public keys.
        paced: messages of the phase that sends them at their own times.

    Raises:
        MeasureError: a capture cannot be read.
    """
    protocol = task["protocol"]
    parts = {part: list(pcap.read_frames(out / f"{part}-alpha.pcap"))
             for part in ("proof", "latency", "throughput")}
    every = list(itertools.chain(*parts.values()))
    traffic = (wireguard.classify_traffic(every, {wireguard.WIREGUARD_PORT})
               if protocol == "wireguard" else count_traffic(every, protocol))
    search = PieceSearch(payload)
    channel = (decryption.open_frames(parts["proof"], ALPHA, out, secrets)
               if protocol == "adp" else DecryptedCapture())
    late = measure_waits(parts["latency"], ALPHA, paced, task) if protocol == "adp" else None
    return RealtimeEvidence(traffic,
                            {part: search.search_frames(frames) for part, frames in parts.items()},
                            raw,
                            channel, out, late)


def run_checks(proof: RealtimeEvidence, carried_bytes: int) -> Iterator[Check]:
    """Yield all checks of a real-time repetition.

    Args:
        proof: captured packets, kernel state and logs.
        carried_bytes: bytes of user data in the captured phases.
    """
    traffic = proof.traffic
    if isinstance(traffic, wireguard.WireGuardTraffic):
        yield from wireguard.check_wireguard_traffic(traffic, carried_bytes)
        yield _check_kernel_handshake(proof.raw["wireguard"], carried_bytes)
    else:
        shown = ", ".join(f"{count} {name}" for name, count in traffic.strangers.most_common(3))
        yield Check("nothing-else", traffic.packets > 0 and not traffic.strangers, (
            f"{traffic.packets} packets of its own captured, {traffic.strangers.total()} others"
            + (f" ({shown})" if shown else "")))
        if traffic.protocol == "esp":
            yield from _check_esp(traffic, proof.raw["esp"], carried_bytes)
        elif traffic.protocol == "adp":
            yield from _check_adp(traffic, proof)
    is_open = isinstance(traffic, HostTraffic) and traffic.protocol == "none"
    yield check_privacy(proof.shown, is_open=is_open)


def check_privacy(captures: Mapping[str, PieceCounts], *, is_open: bool) -> Check:
    """Check that no captured frame shows user data in clear.

    If nothing is encrypted (`is_open`), frames of every capture must show some, which proves that
    the search works.
    """
    used = {name: shown for name, shown in captures.items() if shown.frames}
    ok = all(bool(shown.showing) is is_open for shown in used.values())
    return Check("private", ok and bool(used), (
        f"{PIECE_BYTES} bytes of a payload in " + ", ".join(
            f"{shown.showing} of {shown.frames} frames of {name}"
            + (f" ({shown.bytes // shown.frames} bytes of each on average)" if shown.cut else "")
            for name, shown in used.items())))


def _check_kernel_handshake(states: Mapping[str, Any], carried_bytes: int) -> Check:
    ends = [state for node in states.values() for state in node]
    shaken = sum(state["handshake_s"] is not None for state in ends)
    received = max((state["received_bytes"] for state in states["beta"]), default=0)
    return Check("kernel", shaken == len(ends) == len(states) and received >= carried_bytes, (
        f"{shaken} of {len(states)} kernels have a handshake, beta's has received {received} bytes"
    ))


def _check_esp(traffic: HostTraffic, states: Mapping[str, Any],
               carried_bytes: int) -> Iterator[Check]:
    """Check IKE's packets, SAs and algorithms, and that ESP carried the messages."""
    yield Check("handshake", traffic.shaking >= _IKE_PACKETS,
                f"{traffic.shaking} IKE packets captured")
    ends = [state for node in states.values() for state in node]
    others = sorted({str(state.get("aead")) for state in ends} - {_AEAD})
    yield Check("sessions", len(traffic.sessions) in (1, 2) and not traffic.repeated and bool(ends)
                and not others, (
        f"{len(traffic.sessions)} SPIs captured, {traffic.repeated} sequence numbers that did not "
        f"rise, {len(ends)} SAs in the kernels, {', '.join(others) or 'all'} of {_AEAD}"))
    carried = max((state.get("bytes", 0) for state in states["beta"]), default=0)
    yield Check("carried", carried >= carried_bytes > 0, (
        f"{carried} bytes through one of beta's SAs, {carried_bytes} of the stream"))


def _check_adp(traffic: HostTraffic, proof: RealtimeEvidence) -> Iterator[Check]:
    yield Check("handshake", traffic.shaking > 1, (
        f"{traffic.shaking} packets with a request or an acknowledgement captured"))
    channels = captured_messages.count_channels(traffic.sessions, traffic.announced)
    yield Check("sessions", channels == 1 and not traffic.repeated, (
        f"{channels} channel captured, {traffic.repeated} sequence numbers that did not "
        "rise"))
    yield decryption.check_owner(proof.channel, proof.keys)
    if proof.late is not None:
        yield check_waits(proof.late)
