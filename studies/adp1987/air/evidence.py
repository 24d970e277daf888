"""Evidence on the air: the channel exists throughout and carries all data.

The checks also cover a handoff. Evidence comes from captures at both ends, decrypted where they are
in a tunnel. The logs of both programs and both captures must agree on what arrived and what did
not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import esp, mobility, on_air, pcap, wireguard
from measure.observed import Check
from studies.adp1987 import authenticated, sniffed, timing
from studies.adp1987.air.datagrams import HostDatagram, find_datagrams
from studies.adp1987.air.phases import AirPhases
from studies.adp1987.dispatched import PhaseTraffic, SenderSetting
from studies.adp1987.opened import OpenedCapture
from studies.adp1987.payload import Payload
from studies.adp1987.pieces import PieceSearch, ShownPieces
from studies.adp1987.realtime.carriers import PORT
from studies.adp1987.realtime.evidence import check_privacy
from studies.adp1987.sniffed import PROTOCOL, SniffedHead

_TCP, _UDP = 6, 17
#: UDP ports of Mobile IP, IKE, and the WireGuard tunnel of a peer that is the home agent.
_SIGNALLING = {mobility.PORT, 500, 4500, wireguard.PORT}


@dataclass(frozen=True)
class AirTraffic:
    """The captures of both ends: datagrams of alpha and beta, where they were captured.

    `shown` holds, by capture, how many frames show payload bytes. Frames of the first phase are
    whole, those of later phases are heads. `channel` is the decrypted first phase at alpha.
    `phases` are the phases with the trace's own time, captured at alpha. `later` holds the heads
    after the first phase.
    """

    protocol: str
    at_alpha: Sequence[HostDatagram]
    at_beta: Sequence[HostDatagram]
    alpha: str
    shown: Mapping[str, ShownPieces]
    channel: OpenedCapture = field(default_factory=OpenedCapture)
    keys: Path = Path()
    phases: Sequence[PhaseTraffic] = ()
    later: Sequence[SniffedHead] = ()
    setting: SenderSetting | None = None

    def is_own(self, datagram: HostDatagram) -> bool:
        """Return whether a datagram belongs to the protocol under test."""
        return datagram.protocol == _UDP and PORT in datagram.ports if self.protocol == "none" \
            else datagram.protocol == PROTOCOL

    @property
    def sent_datagrams(self) -> list[HostDatagram]:
        """Return alpha's datagrams of the protocol, as captured at alpha."""
        return [one for one in self.at_alpha if one.source == self.alpha and self.is_own(one)]

    @property
    def missing_datagrams(self) -> list[HostDatagram]:
        """Return alpha's datagrams that did not arrive at beta, or only in part."""
        came = {one.number for one in self.at_beta
                if one.source == self.alpha and self.is_own(one) and one.is_whole}
        return [one for one in self.sent_datagrams if one.number not in came]

    @property
    def handshake_datagrams(self) -> list[HostDatagram]:
        """Return the datagrams at alpha that request or acknowledge the channel, of both ends."""
        return [] if self.protocol == "none" else [
            one for one in self.at_alpha if self.is_own(one) and sniffed.is_handshake(one.head)]

    def count_messages(self, datagrams: Sequence[HostDatagram]) -> int:
        """Count the user messages in datagrams: by the ADP header, or one per UDP datagram."""
        return len(datagrams) if self.protocol == "none" else sum(
            int.from_bytes(one.head[2:4]) for one in datagrams)


def gather_traffic(out: Path, task: Mapping[str, Any], raw: Mapping[str, Any], logged: AirPhases,
                   hosts: Mapping[str, str]) -> AirTraffic:
    """Read and decrypt the captures of a repetition.

    Args:
        out: Folder of the repetition.
        task: The workload's task.
        raw: Raw values of the repetition, with keys and time stamps.
        logged: The phases in both logs.
        hosts: IPv4 addresses of alpha and beta.

    Raises:
        MeasureError: A capture cannot be read.
    """
    keys, job = on_air.esp_keys(raw), json.loads((out / "source-job.json").read_text())
    proof, later = ({host: list(esp.decrypt_frames(pcap.read_frames(out / f"{part}-{host}.pcap"),
                                                   keys))
                     for host in hosts} for part in ("proof", "later"))
    at_alpha, at_beta = (list(find_datagrams([*proof[host], *later[host]], hosts))
                         for host in ("alpha", "beta"))
    search = PieceSearch(Payload(job["seed"]))
    shown = {f"{part}-{host}": search.search_frames(frames[host])
             for part, frames in (("proof", proof), ("later", later)) for host in hosts}
    if task["protocol"] == "none":
        return AirTraffic("none", at_alpha, at_beta, hosts["alpha"], shown)
    first, rest = (list(sniffed.find_heads(part["alpha"], hosts["alpha"])) for part
                   in (proof, later))
    every = timing.split_phases(out, raw["stamps"], [*first, *rest])
    paced = [phase for phase in every if phase.is_paced]
    channel = authenticated.open_frames(proof["alpha"], hosts["alpha"], out, logged.secrets)
    return AirTraffic(task["protocol"], at_alpha, at_beta, hosts["alpha"], shown, channel, out,
                      paced, rest, SenderSetting.from_job(task, job))


def run_checks(traffic: AirTraffic, phases: AirPhases, scope: str) -> Iterator[Check]:
    """Yield the checks of the channel.

    `measure.on_air` checks the network's layers.
    """
    yield _check_integrity(phases)
    yield _check_losses(traffic, phases)
    yield _check_carried(traffic, phases)
    beside = [one for end in (traffic.at_alpha, traffic.at_beta) for one in end
              if not traffic.is_own(one) and _can_carry_messages(one)]
    yield Check("nothing-else", bool(traffic.sent_datagrams) and not beside, (
        f"{len(traffic.sent_datagrams)} datagrams of its own captured where they are sent, "
        f"{len(beside)} others "
        "that carry data"))
    if traffic.protocol != "none":
        yield from _check_channel(traffic, phases)
    yield check_privacy(traffic.shown, is_open=scope != "all")


def _can_carry_messages(datagram: HostDatagram) -> bool:
    """Return whether a datagram could carry messages outside of the channel.

    The network's own signalling has known ports.
    """
    return datagram.protocol in (_TCP, PROTOCOL) or (
        datagram.protocol == _UDP and _SIGNALLING.isdisjoint(datagram.ports))


def _check_integrity(phases: AirPhases) -> Check:
    """Check that messages arrive unchanged and in order.

    Another check covers lost messages.
    """
    lost = {name: len(phase.lost_messages) for name, phase in phases.by_name.items()}
    return Check("intact", not phases.wrong and sum(lost.values()) < phases.message_count, (
        f"{phases.message_count} messages handed over, {phases.wrong} arrived as others or out of "
        "order; "
        + ", ".join(f"{count} lost of {name}" for name, count in lost.items())))


def _check_losses(traffic: AirTraffic, phases: AirPhases) -> Check:
    """Check that the messages missing in the logs are those missing in the captures."""
    missing = traffic.missing_datagrams
    lost = sum(len(phase.lost_messages) for phase in phases.by_name.values())
    return Check("accounted", lost == traffic.count_messages(missing), (
        f"{lost} messages did not arrive, {traffic.count_messages(missing)} were in the "
        f"{len(missing)} "
        f"datagrams of {len(traffic.sent_datagrams)} that the capture at the other end lacks"))


def _check_carried(traffic: AirTraffic, phases: AirPhases) -> Check:
    """Check that all messages and their bytes are in the protocol's own datagrams."""
    carried = sum(one.bytes for one in traffic.sent_datagrams)
    counted = traffic.count_messages(traffic.sent_datagrams)
    return Check("carried", carried >= phases.user_bytes and counted == phases.message_count, (
        f"{carried} bytes and {counted} messages in its datagrams, {phases.user_bytes} and "
        f"{phases.message_count} of the trace"))


def _check_channel(traffic: AirTraffic, phases: AirPhases) -> Iterator[Check]:
    later = [one for one in traffic.handshake_datagrams if one.at_s >= phases.latency_s]
    yield Check("handshake", len(traffic.handshake_datagrams) > 1 and not later, (
        f"{len(traffic.handshake_datagrams)} packets with a request or an acknowledgement "
        f"captured, {len(later)} "
        "of them after the first phase"))
    heads = [one.head for one in traffic.at_beta if traffic.is_own(one)]
    channels = sniffed.count_channels(set(map(sniffed.channel_of, heads)),
                                      set(map(sniffed.announced_channel, heads)))
    # The protocol of 1987 has the number at the end, encrypted.
    again = _count_reused(one.head for one
                          in traffic.sent_datagrams) if traffic.protocol == "adp" else 0
    yield Check("sessions", channels == 1 and not again, (
        f"{channels} channel captured, {again} sequence numbers that did not rise"))
    yield authenticated.check_owner(traffic.channel, traffic.keys, traffic.later)
    if traffic.setting is not None:
        yield timing.check_waits(traffic.phases, traffic.setting)


def _count_reused(heads: Iterable[bytes]) -> int:
    """Count the sequence numbers that did not rise, separately for each key."""
    last: dict[bytes, int] = {}
    again = 0
    for head in heads:
        if not sniffed.is_handshake(head):
            key, number = sniffed.channel_of(head), sniffed.sequence_of(head)
            again += number <= last.get(key, -1)
            last[key] = number
    return again
