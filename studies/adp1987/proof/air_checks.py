"""Check adp1987 over the air: one secure channel carries all messages, also during a handoff.

The study measures ADP (Authenticated Datagram Protocol of 1987), or plain UDP. `read_phases` reads
the programs' logs. `gather_traffic` reads the captures of both ends, and decrypts packets in an
IPsec tunnel first. `run_checks` takes both, and yields the checks: logs and captures must agree on
which messages arrived and which were lost.

A repetition has three phases (`air_workload`):

- `proof`: a few messages, which are captured completely.
- `latency`: a trace (list of messages) at its own times, during which the node may move.
- `throughput`: the trace as fast as possible.

A head (`CapturedHead`) is the header of an ADP datagram. A phase is paced if its messages are sent
at their own times. An owner is the user with a key pair who sends the messages.
"""

from __future__ import annotations

import gzip
import ipaddress
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure.capture import pcap
from measure.capture.pcap import FRAGMENT_OFFSET, MORE_FRAGMENTS, CapturedFrame
from measure.checks import mobility
from measure.checks import proof as checks_proof
from measure.checks.observation import Check
from measure.packets import esp, wireguard
from studies.adp1987.programs.carriers import PORT
from studies.adp1987.proof import captured_messages, decryption, timing
from studies.adp1987.proof.captured_messages import PROTOCOL, CapturedHead
from studies.adp1987.proof.checks import PieceCounts, PieceSearch
from studies.adp1987.proof.decryption import DecryptedCapture
from studies.adp1987.proof.realtime_checks import check_privacy
from studies.adp1987.proof.timing import PhaseTraffic, SenderSetting
from studies.adp1987.traces import Payload

# --- Datagrams between the hosts, reassembled from IP fragments ---
# Frames of a tunnel come already decrypted. Only the head of a datagram and whether it is complete
# are kept.

_IPV4, _ESP = 0x0800, 50


@dataclass
class HostDatagram:
    """An IP datagram from a capture: its time, addresses and first bytes.

    - `at_s`: time of its first fragment
    - `protocol`, `number`: IP protocol number, and IP identification
    - `head`: first bytes after the IP header
    - `bytes`: number of captured bytes after the IP headers
    - `length`: full number of these bytes, 0 while the last fragment is missing
    """

    at_s: float
    source: str
    target: str
    protocol: int
    number: int
    head: bytes = b""
    bytes: int = 0
    length: int = 0

    @property
    def is_whole(self) -> bool:
        """Return whether all fragments were captured."""
        return bool(self.length) and self.bytes == self.length

    @property
    def ports(self) -> tuple[int, int]:
        """Return the source and destination port of UDP or TCP."""
        return int.from_bytes(self.head[:2]), int.from_bytes(self.head[2:4])


def find_datagrams(frames: Iterable[CapturedFrame],
                   hosts: Mapping[str, str]) -> Iterator[HostDatagram]:
    """Yield all datagrams between the two hosts, in both directions.

    Args:
        frames: captured frames, in order of time.
        hosts: IPv4 addresses of the two hosts, by name.
    """
    datagrams: dict[bytes, HostDatagram] = {}
    ends = {ipaddress.IPv4Address(address).packed for address in hosts.values()}
    for frame in frames:
        packet = frame.payload
        if frame.kind != _IPV4 or packet[9] == _ESP or {packet[12:16], packet[16:20]} != ends:
            continue
        key = packet[4:6] + packet[9:10] + packet[12:20]
        place = int.from_bytes(packet[6:8])
        # An IP identification is reused only long after the earlier datagram is complete.
        if not place & FRAGMENT_OFFSET and (key not in datagrams or datagrams[key].head):
            if key in datagrams:
                yield datagrams.pop(key)
            datagrams[key] = HostDatagram(frame.at_s, _format_address(packet[12:16]),
                                          _format_address(packet[16:20]),
                                          packet[9], int.from_bytes(packet[4:6]))
        if key in datagrams:
            _add_fragment(datagrams[key], packet, place)
    yield from datagrams.values()


def _add_fragment(datagram: HostDatagram, packet: bytes, place: int) -> None:
    start, offset = (packet[0] & 15) * 4, 8 * (place & FRAGMENT_OFFSET)
    size = int.from_bytes(packet[2:4]) - start
    datagram.bytes += size
    if not offset:
        datagram.head = packet[start:]
    if not place & MORE_FRAGMENTS:
        datagram.length = offset + size


def _format_address(address: bytes) -> str:
    return str(ipaddress.IPv4Address(address))


# --- Phases in the logs of both ends, with arrived and lost messages ---

@dataclass(frozen=True)
class AirPhase:
    """A phase of a repetition: its messages, and when each was due and delivered.

    - `arrivals`: the sent messages, each with time (s), bytes and urgency
    - `due_ns`: time at which each message was to be sent
    - `delivered_ns`: time at which each message arrived, None if it did not
    """

    arrivals: Sequence[Any]
    due_ns: Sequence[int]
    delivered_ns: Sequence[int | None]

    @property
    def lost_messages(self) -> list[int]:
        """Return the numbers of the messages that did not arrive."""
        return [number for number, at_ns in enumerate(self.delivered_ns) if at_ns is None]

    @property
    def waits_s(self) -> list[float]:
        """Return the latencies (s) of the urgent messages that arrived."""
        return [(at_ns - due) / 1e9 for (_, _, urgent), due, at_ns in zip(
            self.arrivals, self.due_ns, self.delivered_ns, strict=True)
            if urgent and at_ns is not None]


@dataclass(frozen=True)
class AirPhases:
    """All phases of a repetition.

    - `by_name`: the phases, by name
    - `wrong`: number of arrived messages that differ from those sent, or are out of order
    - `secrets`: the receiver's ephemeral private keys, by their public keys
    - `latency_s`: time of day at which the phase `latency` began (s). It is no duration.
    """

    by_name: Mapping[str, AirPhase]
    wrong: int
    secrets: Mapping[bytes, bytes] = field(repr=False)
    latency_s: float

    @property
    def message_count(self) -> int:
        """Return the number of messages that were sent."""
        return sum(len(phase.arrivals) for phase in self.by_name.values())

    @property
    def user_bytes(self) -> int:
        """Return the bytes of user data that were sent."""
        return sum(size for phase in self.by_name.values() for _, size, _ in phase.arrivals)


def read_phases(out: Path, raw: Mapping[str, Any], payload: Payload) -> AirPhases:
    """Read the phases of a repetition from the logs of both programs.

    Raises:
        OSError: a program has written no log.
        ValueError: a log is not valid JSON.
    """
    source, sink = (json.loads(gzip.decompress((out / f"{role}.json.gz").read_bytes()))
                    for role in ("source", "sink"))
    phases, wrong, begins = {}, 0, 0
    for name, logged in source["phases"].items():
        arrivals = json.loads((out / f"{name}.json").read_text())["messages"]
        ends = sink["ends"][name]
        delivered, strange = _match_deliveries(sink["delivered"][begins:ends], arrivals, payload)
        phases[name] = AirPhase(arrivals, logged["due_ns"], delivered)
        wrong += strange
        begins = ends
    wrong += len(sink["delivered"]) - begins
    return AirPhases(phases, wrong, decryption.ephemeral_keys(sink["keys"]),
                     raw["stamps"]["latency"])


def _match_deliveries(delivered: Sequence[Sequence[int]], arrivals: Sequence[Any],
                      payload: Payload) -> tuple[list[int | None], int]:
    """Return when each sent message arrived, and how many arrived messages match none.

    Messages keep their order on the way, so each arrived message is the next sent one of its size
    and content.
    """
    places: list[int | None] = [None] * len(arrivals)
    number = strange = 0
    for at_ns, size, checksum in delivered:
        following = (place for place in range(number, len(arrivals))
                     if arrivals[place][1] == size and payload.message_checksum(place, size)
                     == checksum)
        place = next(following, None)
        if place is None:
            strange += 1
        else:
            places[place] = at_ns
            number = place + 1
    return places, strange


# --- Checks of the channel ---

_TCP, _UDP = 6, 17
#: UDP ports of Mobile IP, IKE, and the WireGuard tunnel of a peer that is the home agent.
_SIGNALLING = {mobility.MOBILE_IP_PORT, 500, 4500, wireguard.WIREGUARD_PORT}


@dataclass(frozen=True)
class AirTraffic:
    """The captured datagrams at sender (alpha) and receiver (beta).

    - `protocol`: protocol that carries the messages
    - `at_alpha`, `at_beta`: datagrams captured at either end
    - `alpha`: IP address of the sender
    - `shown`: by capture, how many frames show user data in clear. Frames of the first phase are
      complete, frames of later phases are cut short.
    - `channel`: the decrypted first phase at the sender
    - `keys`: folder with the owners' key files
    - `phases`: the paced phases, captured at the sender
    - `later`: headers of the datagrams after the first phase
    - `setting`: settings of the sending ADP host, None for another protocol
    """

    protocol: str
    at_alpha: Sequence[HostDatagram]
    at_beta: Sequence[HostDatagram]
    alpha: str
    shown: Mapping[str, PieceCounts]
    channel: DecryptedCapture = field(default_factory=DecryptedCapture)
    keys: Path = Path()
    phases: Sequence[PhaseTraffic] = ()
    later: Sequence[CapturedHead] = ()
    setting: SenderSetting | None = None

    def is_own(self, datagram: HostDatagram) -> bool:
        """Return whether a datagram belongs to the protocol that carries the messages."""
        return datagram.protocol == _UDP and PORT in datagram.ports if self.protocol == "none" \
            else datagram.protocol == PROTOCOL

    @property
    def sent_datagrams(self) -> list[HostDatagram]:
        """Return the datagrams of the protocol that the sender sent, as captured there."""
        return [one for one in self.at_alpha if one.source == self.alpha and self.is_own(one)]

    @property
    def missing_datagrams(self) -> list[HostDatagram]:
        """Return the sender's datagrams that did not arrive completely at the receiver."""
        arrived = {one.number for one in self.at_beta
                if one.source == self.alpha and self.is_own(one) and one.is_whole}
        return [one for one in self.sent_datagrams if one.number not in arrived]

    @property
    def handshake_datagrams(self) -> list[HostDatagram]:
        """Return the datagrams of both hosts that set up the channel, as captured at the sender."""
        return [] if self.protocol == "none" else [
            one for one in self.at_alpha if self.is_own(one)
            and captured_messages.is_handshake(one.head)]

    def count_messages(self, datagrams: Sequence[HostDatagram]) -> int:
        """Count the messages in datagrams, by the ADP header or one per UDP datagram."""
        return len(datagrams) if self.protocol == "none" else sum(
            int.from_bytes(one.head[2:4]) for one in datagrams)


def gather_traffic(out: Path, task: Mapping[str, Any], raw: Mapping[str, Any], logged: AirPhases,
                   hosts: Mapping[str, str]) -> AirTraffic:
    """Read and decrypt the captures of a repetition.

    Args:
        out: folder of the repetition.
        task: the instructions that the workload had.
        raw: raw values of the repetition, with keys and time stamps.
        logged: the phases in both logs.
        hosts: IPv4 addresses of the two hosts, by name.

    Raises:
        MeasureError: a capture cannot be read.
    """
    keys, job = checks_proof.esp_keys(raw), json.loads((out / "source-job.json").read_text())
    proof, later = (
        {host: list(esp.decrypt_esp_frames(pcap.read_frames(out / f"{part}-{host}.pcap"),
                                           keys))
         for host in hosts} for part in ("proof", "later"))
    at_alpha, at_beta = (list(find_datagrams([*proof[host], *later[host]], hosts))
                         for host in ("alpha", "beta"))
    search = PieceSearch(Payload(job["seed"]))
    shown = {f"{part}-{host}": search.search_frames(frames[host])
             for part, frames in (("proof", proof), ("later", later)) for host in hosts}
    if task["protocol"] == "none":
        return AirTraffic("none", at_alpha, at_beta, hosts["alpha"], shown)
    first, rest = (list(captured_messages.find_heads(part["alpha"], hosts["alpha"])) for part
                   in (proof, later))
    every = timing.split_phases(out, raw["stamps"], [*first, *rest])
    paced = [phase for phase in every if phase.is_paced]
    channel = decryption.open_frames(proof["alpha"], hosts["alpha"], out, logged.secrets)
    return AirTraffic(task["protocol"], at_alpha, at_beta, hosts["alpha"], shown, channel, out,
                      paced, rest, SenderSetting.from_job(task, job))


def run_checks(traffic: AirTraffic, phases: AirPhases, scope: str) -> Iterator[Check]:
    """Yield the checks of the channel between the two hosts.

    The checks of WLAN, IPsec and Mobile IP below are in `measure.checks.proof`.

    Args:
        traffic: captured datagrams.
        phases: the phases of the repetition.
        scope: how much of a datagram is encrypted: "none", "trailer" or "all".
    """
    yield _check_integrity(phases)
    yield _check_losses(traffic, phases)
    yield _check_carried(traffic, phases)
    others = [one for end in (traffic.at_alpha, traffic.at_beta) for one in end
              if not traffic.is_own(one) and _can_carry_messages(one)]
    yield Check("nothing-else", bool(traffic.sent_datagrams) and not others, (
        f"{len(traffic.sent_datagrams)} datagrams of its own captured where they are sent, "
        f"{len(others)} others that carry data"))
    if traffic.protocol != "none":
        yield from _check_channel(traffic, phases)
    yield check_privacy(traffic.shown, is_open=scope != "all")


def _can_carry_messages(datagram: HostDatagram) -> bool:
    """Return whether a datagram outside of the channel could carry messages.

    Datagrams of the network itself, such as Mobile IP, have known ports.
    """
    return datagram.protocol in (_TCP, PROTOCOL) or (
        datagram.protocol == _UDP and _SIGNALLING.isdisjoint(datagram.ports))


def _check_integrity(phases: AirPhases) -> Check:
    """Check that messages arrive unchanged and in order.

    Lost messages have a check of their own.
    """
    lost = {name: len(phase.lost_messages) for name, phase in phases.by_name.items()}
    return Check("intact", not phases.wrong and sum(lost.values()) < phases.message_count, (
        f"{phases.message_count} messages handed over, {phases.wrong} arrived as others or out of "
        "order; "
        + ", ".join(f"{count} lost of {name}" for name, count in lost.items())))


def _check_losses(traffic: AirTraffic, phases: AirPhases) -> Check:
    """Check that messages missing in the logs were in datagrams missing in the captures."""
    missing = traffic.missing_datagrams
    lost = sum(len(phase.lost_messages) for phase in phases.by_name.values())
    return Check("accounted", lost == traffic.count_messages(missing), (
        f"{lost} messages did not arrive, {traffic.count_messages(missing)} were in the "
        f"{len(missing)} datagrams of {len(traffic.sent_datagrams)} that the capture at the other "
        "end lacks"))


def _check_carried(traffic: AirTraffic, phases: AirPhases) -> Check:
    """Check that all messages and their bytes are in datagrams of the protocol."""
    carried = sum(one.bytes for one in traffic.sent_datagrams)
    counted = traffic.count_messages(traffic.sent_datagrams)
    return Check("carried", carried >= phases.user_bytes and counted == phases.message_count, (
        f"{carried} bytes and {counted} messages in its datagrams, {phases.user_bytes} and "
        f"{phases.message_count} of the trace"))


def _check_channel(traffic: AirTraffic, phases: AirPhases) -> Iterator[Check]:
    """Check that one handshake set up one channel, and that its owner and waits are right."""
    later = [one for one in traffic.handshake_datagrams if one.at_s >= phases.latency_s]
    yield Check("handshake", len(traffic.handshake_datagrams) > 1 and not later, (
        f"{len(traffic.handshake_datagrams)} packets with a request or an acknowledgement "
        f"captured, {len(later)} of them after the first phase"))
    heads = [one.head for one in traffic.at_beta if traffic.is_own(one)]
    channels = captured_messages.count_channels(set(map(captured_messages.channel_of, heads)),
                                                set(map(captured_messages.announced_channel,
                                                        heads)))
    # The protocol of 1987 has the number at the end, encrypted.
    reused = _count_reused(datagram.head for datagram in traffic.sent_datagrams) \
        if traffic.protocol == "adp" else 0
    yield Check("sessions", channels == 1 and not reused, (
        f"{channels} channel captured, {reused} sequence numbers that did not rise"))
    yield decryption.check_owner(traffic.channel, traffic.keys, traffic.later)
    if traffic.setting is not None:
        yield timing.check_waits(traffic.phases, traffic.setting)


def _count_reused(heads: Iterable[bytes]) -> int:
    """Count the sequence numbers that did not rise, separately for each key."""
    last: dict[bytes, int] = {}
    reused = 0
    for head in heads:
        if not captured_messages.is_handshake(head):
            key, number = captured_messages.channel_of(head), captured_messages.sequence_of(head)
            reused += number <= last.get(key, -1)
            last[key] = number
    return reused
