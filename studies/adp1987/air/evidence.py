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
from studies.adp1987.air.datagrams import HostDatagram, between
from studies.adp1987.air.phases import AirPhases
from studies.adp1987.dispatched import PhaseTraffic, SenderSetting
from studies.adp1987.opened import OpenedCapture
from studies.adp1987.payload import Payload
from studies.adp1987.pieces import PieceSearch, ShownPieces
from studies.adp1987.realtime.carriers import PORT
from studies.adp1987.realtime.evidence import private
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

    def own(self, datagram: HostDatagram) -> bool:
        """Return whether a datagram belongs to the protocol under test."""
        return datagram.protocol == _UDP and PORT in datagram.ports if self.protocol == "none" \
            else datagram.protocol == PROTOCOL

    @property
    def sent(self) -> list[HostDatagram]:
        """Return alpha's datagrams of the protocol, as captured at alpha."""
        return [one for one in self.at_alpha if one.source == self.alpha and self.own(one)]

    @property
    def missing(self) -> list[HostDatagram]:
        """Return alpha's datagrams that did not arrive at beta, or only in part."""
        came = {one.number for one in self.at_beta
                if one.source == self.alpha and self.own(one) and one.is_whole}
        return [one for one in self.sent if one.number not in came]

    @property
    def shaking(self) -> list[HostDatagram]:
        """Return the datagrams at alpha that request or acknowledge the channel, of both ends."""
        return [] if self.protocol == "none" else [
            one for one in self.at_alpha if self.own(one) and sniffed.establishes(one.head)]

    def messages(self, datagrams: Sequence[HostDatagram]) -> int:
        """Count the user messages in datagrams: by the ADP header, or one per UDP datagram."""
        return len(datagrams) if self.protocol == "none" else sum(
            int.from_bytes(one.head[2:4]) for one in datagrams)


def gather(out: Path, task: Mapping[str, Any], raw: Mapping[str, Any], logged: AirPhases,
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
    proof, later = ({host: list(esp.opened(pcap.frames(out / f"{part}-{host}.pcap"), keys))
                     for host in hosts} for part in ("proof", "later"))
    at_alpha, at_beta = (list(between([*proof[host], *later[host]], hosts))
                         for host in ("alpha", "beta"))
    search = PieceSearch(Payload(job["seed"]))
    shown = {f"{part}-{host}": search.seek(frames[host])
             for part, frames in (("proof", proof), ("later", later)) for host in hosts}
    if task["protocol"] == "none":
        return AirTraffic("none", at_alpha, at_beta, hosts["alpha"], shown)
    first, rest = (list(sniffed.heads(part["alpha"], hosts["alpha"])) for part in (proof, later))
    every = timing.phases(out, raw["stamps"], [*first, *rest])
    paced = [phase for phase in every if phase.is_paced]
    channel = authenticated.captured(proof["alpha"], hosts["alpha"], out, logged.secrets)
    return AirTraffic(task["protocol"], at_alpha, at_beta, hosts["alpha"], shown, channel, out,
                      paced, rest, SenderSetting.of_job(task, job))


def checks(seen: AirTraffic, phases: AirPhases, scope: str) -> Iterator[Check]:
    """Yield the checks of the channel.

    `measure.on_air` checks the network's layers.
    """
    yield _intact(phases)
    yield _accounted(seen, phases)
    yield _carried(seen, phases)
    beside = [one for end in (seen.at_alpha, seen.at_beta) for one in end
              if not seen.own(one) and _is_beside(one)]
    yield Check("nothing-else", bool(seen.sent) and not beside, (
        f"{len(seen.sent)} datagrams of its own captured where they are sent, {len(beside)} others "
        "that carry data"))
    if seen.protocol != "none":
        yield from _channel(seen, phases)
    yield private(seen.shown, is_open=scope != "all")


def _is_beside(datagram: HostDatagram) -> bool:
    """Return whether a datagram could carry messages outside of the channel.

    The network's own signalling has known ports.
    """
    return datagram.protocol in (_TCP, PROTOCOL) or (
        datagram.protocol == _UDP and _SIGNALLING.isdisjoint(datagram.ports))


def _intact(phases: AirPhases) -> Check:
    """Check that messages arrive unchanged and in order.

    Another check covers lost messages.
    """
    lost = {name: len(phase.lost) for name, phase in phases.by_name.items()}
    return Check("intact", not phases.wrong and sum(lost.values()) < phases.count, (
        f"{phases.count} messages handed over, {phases.wrong} arrived as others or out of order; "
        + ", ".join(f"{count} lost of {name}" for name, count in lost.items())))


def _accounted(seen: AirTraffic, phases: AirPhases) -> Check:
    """Check that the messages missing in the logs are those missing in the captures."""
    missing = seen.missing
    lost = sum(len(phase.lost) for phase in phases.by_name.values())
    return Check("accounted", lost == seen.messages(missing), (
        f"{lost} messages did not arrive, {seen.messages(missing)} were in the {len(missing)} "
        f"datagrams of {len(seen.sent)} that the capture at the other end lacks"))


def _carried(seen: AirTraffic, phases: AirPhases) -> Check:
    """Check that all messages and their bytes are in the protocol's own datagrams."""
    carried = sum(one.bytes for one in seen.sent)
    counted = seen.messages(seen.sent)
    return Check("carried", carried >= phases.user_bytes and counted == phases.count, (
        f"{carried} bytes and {counted} messages in its datagrams, {phases.user_bytes} and "
        f"{phases.count} of the trace"))


def _channel(seen: AirTraffic, phases: AirPhases) -> Iterator[Check]:
    later = [one for one in seen.shaking if one.at_s >= phases.latency_s]
    yield Check("handshake", len(seen.shaking) > 1 and not later, (
        f"{len(seen.shaking)} packets with a request or an acknowledgement captured, {len(later)} "
        "of them after the first phase"))
    heads = [one.head for one in seen.at_beta if seen.own(one)]
    channels = sniffed.sessions(set(map(sniffed.channel_of, heads)),
                                set(map(sniffed.announced, heads)))
    # The protocol of 1987 has the number at the end, encrypted.
    again = _used_again(one.head for one in seen.sent) if seen.protocol == "adp" else 0
    yield Check("sessions", channels == 1 and not again, (
        f"{channels} channel captured, {again} sequence numbers that did not rise"))
    yield authenticated.owner(seen.channel, seen.keys, seen.later)
    if seen.setting is not None:
        yield timing.in_time(seen.phases, seen.setting)


def _used_again(heads: Iterable[bytes]) -> int:
    """Count the sequence numbers that did not rise, separately for each key."""
    last: dict[bytes, int] = {}
    again = 0
    for head in heads:
        if not sniffed.establishes(head):
            key, number = sniffed.channel_of(head), sniffed.sequence_of(head)
            again += number <= last.get(key, -1)
            last[key] = number
    return again
