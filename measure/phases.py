"""Find the phases of network access in captures and the supplicant's events.

Each negotiation is timed from its first to its last packet at the mobile node's interface, at home
and away. Times are seconds after the repetition's start, on one clock.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measure import dissect, wireguard
from measure.dissect import Packet

#: Prefix of a phase in the visited network.
FOREIGN = "foreign_"


@dataclass(frozen=True)
class Phase:
    """A phase: start and duration in s, and its number of packets."""

    name: str
    start_s: float
    duration_s: float
    packets: int

    @property
    def end_s(self) -> float:
        """Return the end time in s."""
        return self.start_s + self.duration_s


@dataclass(frozen=True)
class Sight:
    """The packets and events of one attachment, between two moments."""

    air: Sequence[Packet]
    mobile_node: Sequence[Packet]
    events: Sequence[Mapping[str, Any]]


def find_phases(raw: Mapping[str, Any], air: Sequence[Packet], mobile_node: Sequence[Packet],
                address: str) -> list[Phase]:
    """Return every phase that took place, in order of time.

    Args:
        raw: The raw values.
        air: Packets on the air.
        mobile_node: Packets at the mobile node's interface.
        address: The mobile node's MAC address.
    """
    stamps = raw["stamps"]
    ours = [p for p in air if address in (p.transmitter, p.receiver)]
    moved = stamps.get("handoff", float("inf"))
    home = list(_attachment_phases(_select_attachment(raw, ours, mobile_node, 0.0, moved),
                                   stamps["start"]))
    away = [dataclasses.replace(phase, name=FOREIGN + phase.name) for phase in
            _attachment_phases(_select_attachment(raw, ours, mobile_node, moved, float("inf")),
                               stamps["start"])]
    return sorted([*home, *away], key=lambda phase: phase.start_s)


def handoff_phases(raw: Mapping[str, Any], phases: Sequence[Phase]) -> list[Phase]:
    """Return the phases of the handoff without gaps, up to the first answered packet.

    The handoff begins with the disassociation. Each phase lasts from the end of the previous phase
    to its own last packet or event, so the durations add up to the whole. The start-up time of a
    program counts to the phase that it begins.
    """
    if "handoff" not in raw["stamps"]:
        return []
    at = begin = raw["stamps"]["handoff"] - raw["stamps"]["start"]
    tiles = []
    for phase in sorted((p for p in phases if p.name.startswith(FOREIGN)), key=lambda p: p.end_s):
        end = max(at, phase.end_s)
        tiles.append(Phase(phase.name.removeprefix(FOREIGN), at - begin, end - at, phase.packets))
        at = end
    return tiles


def _select_attachment(raw: Mapping[str, Any], air: Sequence[Packet], mobile_node: Sequence[Packet],
                       begin: float, end: float) -> Sight:
    return Sight([p for p in air if begin <= p.time_s < end],
                 [p for p in mobile_node if begin <= p.time_s < end],
                 [e for e in raw["events"] if begin <= e["at_s"] < end])


def _attachment_phases(attachment: Sight, start: float) -> Iterator[Phase]:
    """Yield the phases of one attachment."""
    packets = attachment.mobile_node
    candidates = [
        _scan_phase(attachment, start),
        _phase_of("authentication", start,
                  [p for p in attachment.air if p.subtype == dissect.AUTHENTICATION_SUBTYPE]),
        _phase_of("association", start,
                  [p for p in attachment.air if p.subtype in dissect.ASSOCIATION_SUBTYPES]),
        _phase_of(*_eapol_packets(packets, start)),
        _discovery_phase(packets, start),
        _registration_phase(packets, start),
        _phase_of("wireguard", start, _wireguard_packets(packets)),
        _phase_of("ike", start, [p for p in packets if p.is_isakmp]),
    ]
    phases = [phase for phase in candidates if phase is not None]
    yield from phases
    last = max((phase.end_s for phase in phases), default=0.0)
    first_packet = _first_packet_phase(packets, start, last)
    if first_packet and phases:
        yield first_packet


def _phase_of(name: str, start: float, packets: Sequence[Packet]) -> Phase | None:
    if not packets:
        return None
    first, last = packets[0].time_s, packets[-1].time_s
    return Phase(name, first - start, last - first, len(packets))


def _eapol_packets(packets: Sequence[Packet], start: float) -> tuple[str, float, list[Packet]]:
    """Return the packets of 802.1X and the name of the phase.

    The packets end with EAP-Success, EAP-Failure or the last EAPOL-Key frame. Keys without EAP are
    a four-way handshake.
    """
    eapol = [p for p in packets if p.is_eapol]
    ends = [i for i, p in enumerate(eapol)
            if p.eap_code in (dissect.EAP_SUCCESS, dissect.EAP_FAILURE)
            or p.eapol_type == dissect.EAPOL_KEY]
    negotiation = eapol[:ends[-1] + 1] if ends else eapol
    has_eap = any(p.eapol_type == dissect.EAPOL_EAP for p in negotiation)
    return ("dot1x" if has_eap else "four_way_handshake"), start, negotiation


def _discovery_phase(packets: Sequence[Packet], start: float) -> Phase | None:
    """Return the phase from the solicitation to the last advertisement before the request.

    Without a solicitation, it is that advertisement alone.
    """
    before = [p for p in packets if p.time_s <= _request_time(packets) and p.is_mobile_ip
              and p.mip_type is None]
    asked = [i for i, p in enumerate(before) if p.icmp_type == dissect.AGENT_SOLICITATION]
    return _phase_of("agent_discovery", start, before[asked[0]:] if asked else before[-1:])


def _registration_phase(packets: Sequence[Packet], start: float) -> Phase | None:
    """Return the phase from the first request to the accepting reply."""
    exchange = [p for p in packets if p.mip_type is not None]
    accepted = [i for i, p in enumerate(exchange) if p.mip_type == dissect.REGISTRATION_REPLY
                and p.mip_code in dissect.REGISTRATION_ACCEPTED]
    return _phase_of("registration", start, exchange[:accepted[0] + 1]) if accepted else None


def _wireguard_packets(packets: Sequence[Packet]) -> list[Packet]:
    """Return the handshake messages up to the last response before the first transport message.

    Initiations that cross make each other's responses invalid: both ends begin again.
    """
    kinds = [(wireguard.kind_of(p.length - wireguard.HEADERS_BYTES), p) for p in packets
             if wireguard.PORT in (p.udp_src, p.udp_dst)]
    begun = next((i for i, (kind, _) in enumerate(kinds) if kind == wireguard.INITIATION),
                 len(kinds))
    used = next((i for i, (kind, _) in enumerate(kinds)
                 if i > begun and kind == wireguard.TRANSPORT), len(kinds))
    ended = [i for i, (kind, _) in enumerate(kinds[:used])
             if i > begun and kind == wireguard.RESPONSE]
    return [p for _, p in kinds[begun:ended[-1] + 1]] if ended else []


def _request_time(packets: Sequence[Packet]) -> float:
    return next((p.time_s for p in packets if p.mip_type == dissect.REGISTRATION_REQUEST), 0.0)


def _scan_phase(attachment: Sight, start: float) -> Phase | None:
    """Return the scans before the node authenticates, from the first start to the last end.

    Results of an earlier scan may be reported at first. A scan that begins when the node is on the
    network does not count. An event is stamped when it is read, when the next step may already have
    begun.
    """
    started, ended = ([event["at_s"] for event in attachment.events if event["name"] == name]
                      for name in ("CTRL-EVENT-SCAN-STARTED", "CTRL-EVENT-SCAN-RESULTS"))
    joins = [p.time_s for p in attachment.air if p.subtype == dissect.AUTHENTICATION_SUBTYPE]
    begin = min(started, default=float("inf"))
    join = min((at_s for at_s in joins if at_s > begin), default=float("inf"))
    results = [at_s for at_s in ended if at_s >= begin]
    if not results or (joins and join == float("inf")):
        return None
    reported = [at_s for at_s in results if at_s < join]
    last_began = max(at_s for at_s in started if at_s < join)
    is_late = len(reported) < len(results) and max(reported, default=0.0) < last_began
    end = join if is_late else max(reported, default=join)
    probes = [p for p in attachment.air if p.subtype in dissect.PROBE_SUBTYPES and p.time_s < join]
    return Phase("scan", begin - start, end - begin, len(probes))


def _first_packet_phase(packets: Sequence[Packet], start: float, after_s: float) -> Phase | None:
    """Return the phase from the last phase's end to the peer's first answer."""
    later = [p for p in packets if p.time_s - start > after_s and not p.is_eapol
             and not p.is_mobile_ip]
    begun = [p for p in later if p.udp_dst == wireguard.PORT]
    answers = [i for i, p in enumerate(later) if p.icmp_type == dissect.ECHO_REPLY] or [
        # Inside WireGuard's tunnel, only the returning tunnel packet is visible.
        i for i, p in enumerate(later) if begun and p.udp_src == wireguard.PORT
        and p.ip_src == begun[0].ip_dst]
    if not answers:
        return None
    used = later[:answers[0] + 1]
    return Phase("first_packet", after_s, used[-1].time_s - start - after_s, len(used))
