"""Find how long each phase of joining a network took, and which messages were retransmitted.

Phases are scan, 802.1X, Mobile IP registration, IKE and so on. `find_phases` takes the packets of a
repetition (one measurement of a policy) on the air and at the mobile node. It returns each phase
from its first to its last packet, at the home and at the visited access point. `handoff_phases`
divides a handoff into phases without gaps. `find_retransmissions` returns a text for each repeated
message, because its wait is part of these times. Studies and `qop explain` use the phases.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measure.capture import tshark
from measure.capture.tshark import Packet
from measure.checks.observation import Observation
from measure.packets import wireguard
from measure.packets.mptcp import TCP
from measure.packets.quic import QUIC_PORT

#: Prefix of a phase in the visited network.
FOREIGN = "foreign_"
#: IPv6 address of a node that has none yet.
_UNSPECIFIED = "::"


@dataclass(frozen=True)
class Phase:
    """A phase of joining the network: start and duration in s, and number of packets."""

    name: str
    start_s: float
    duration_s: float
    packets: int

    @property
    def end_s(self) -> float:
        """Return the end of the phase in s."""
        return self.start_s + self.duration_s


@dataclass(frozen=True)
class AttachmentPackets:
    """The packets and supplicant events while the mobile node is at one access point.

    `stamps` are the raw time stamps of the steps there (s), by event.
    """

    air: Sequence[Packet]
    mobile_node: Sequence[Packet]
    events: Sequence[Mapping[str, Any]]
    stamps: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def quic_negotiation(self) -> list[Packet]:
        """Return QUIC's packets until the agent has accepted the node."""
        return self._select_negotiation([p for p in self.mobile_node
                                         if QUIC_PORT in (p.udp_src, p.udp_dst)])

    @property
    def mptcp_negotiation(self) -> list[Packet]:
        """Return the MPTCP tunnel's packets until the agent has accepted the node.

        A capture of a mobile node's authentication has no other packets of TCP.
        """
        return self._select_negotiation([p for p in self.mobile_node if p.ip_proto == TCP])

    def _select_negotiation(self, packets: Sequence[Packet]) -> list[Packet]:
        """Return the packets until the agent has accepted the node.

        The packets may be encrypted, so time stamps of the measuring program select them.
        """
        begin, end = (self.stamps.get(name, 0.0) for name in ("registered", "tunnel"))
        return [p for p in packets if begin <= p.time_s <= end]


def find_phases(raw: Mapping[str, Any], air: Sequence[Packet], mobile_node: Sequence[Packet],
                address: str) -> list[Phase]:
    """Return every phase of joining the network that took place, in order of time.

    Args:
        raw: The raw values.
        air: Packets on the air.
        mobile_node: Packets at the mobile node's interface.
        address: The mobile node's MAC address.
    """
    stamps = raw["stamps"]
    of_node = [p for p in air if address in (p.transmitter, p.receiver)]
    moved = stamps.get("handoff", float("inf"))
    home = list(_attachment_phases(_select_attachment(raw, of_node, mobile_node, 0.0, moved),
                                   stamps["start"]))
    away = [dataclasses.replace(phase, name=FOREIGN + phase.name) for phase in
            _attachment_phases(_select_attachment(raw, of_node, mobile_node, moved, float("inf")),
                               stamps["start"])]
    return sorted([*home, *away], key=lambda phase: phase.start_s)


def handoff_phases(raw: Mapping[str, Any], phases: Sequence[Phase]) -> list[Phase]:
    """Return the phases of a handoff without gaps, up to the first answered packet.

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
                       begin: float, end: float) -> AttachmentPackets:
    is_away = begin > 0
    stamps = {name.removeprefix(FOREIGN): at_s for name, at_s in raw["stamps"].items()
              if name.startswith(FOREIGN) == is_away}
    return AttachmentPackets([p for p in air if begin <= p.time_s < end],
                             [p for p in mobile_node if begin <= p.time_s < end],
                             [e for e in raw["events"] if begin <= e["at_s"] < end], stamps)


def _attachment_phases(attachment: AttachmentPackets, start: float) -> Iterator[Phase]:
    """Yield the phases of joining the network at one access point."""
    packets = attachment.mobile_node
    candidates = [
        _scan_phase(attachment, start),
        phase_of("authentication", start,
                  [p for p in attachment.air if p.subtype == tshark.AUTHENTICATION_SUBTYPE
                   # Over the DS, a request to the access point in use replaces authentication.
                   or p.action_category == tshark.FAST_TRANSITION_CATEGORY]),
        phase_of("association", start,
                  [p for p in attachment.air if p.subtype in tshark.ASSOCIATION_SUBTYPES]),
        phase_of(*_eapol_packets(packets, start)),
        phase_of("dhcp", start, [p for p in packets if p.is_dhcp]),
        _slaac_phase(attachment, start),
        _discovery_phase(packets, start),
        _registration_phase(packets, start),
        phase_of("wireguard", start, _wireguard_packets(packets)),
        phase_of("quic", start, attachment.quic_negotiation),
        phase_of("mptcp", start, attachment.mptcp_negotiation),
        phase_of("ike", start, [p for p in packets if p.is_isakmp]),
    ]
    phases = [phase for phase in candidates if phase is not None]
    yield from phases
    last = max((phase.end_s for phase in phases), default=0.0)
    first_packet = _first_packet_phase(packets, start, last,
                                       attachment.stamps.get("first_packet", 0.0))
    if first_packet and phases:
        yield first_packet


def phase_of(name: str, start: float, packets: Sequence[Packet]) -> Phase | None:
    """Return the phase from the first to the last of its packets, or None without packets."""
    if not packets:
        return None
    first, last = packets[0].time_s, packets[-1].time_s
    return Phase(name, first - start, last - first, len(packets))


def _eapol_packets(packets: Sequence[Packet], start: float) -> tuple[str, float, list[Packet]]:
    """Select the packets of the 802.1X phase.

    The packets end with EAP-Success, EAP-Failure or the last EAPOL-Key frame.

    Returns:
        The name of the phase (`four_way_handshake` for keys without EAP), `start`, and the packets.
    """
    eapol = [p for p in packets if p.is_eapol]
    ends = [i for i, p in enumerate(eapol)
            if p.eap_code in (tshark.EAP_SUCCESS, tshark.EAP_FAILURE)
            or p.eapol_type == tshark.EAPOL_KEY]
    negotiation = eapol[:ends[-1] + 1] if ends else eapol
    has_eap = any(p.eapol_type == tshark.EAPOL_EAP for p in negotiation)
    return ("dot1x" if has_eap else "four_way_handshake"), start, negotiation


def _slaac_phase(attachment: AttachmentPackets, start: float) -> Phase | None:
    """Return the phase of SLAAC: from the first message until the address can be used.

    It includes the waits for answers of a node with the same address, which has no packet. Messages
    are router solicitations, and neighbour solicitations from no address.
    """
    sent = [p for p in attachment.mobile_node if p.icmp_type == tshark.ROUTER_SOLICITATION or (
        p.icmp_type == tshark.NEIGHBOUR_SOLICITATION and p.ip_src == _UNSPECIFIED)]
    if not sent or "addressed" not in attachment.stamps:
        return None
    begin = sent[0].time_s
    return Phase("slaac", begin - start, attachment.stamps["addressed"] - begin, len(sent))


def _discovery_phase(packets: Sequence[Packet], start: float) -> Phase | None:
    """Return the phase of Mobile IP agent discovery, or None.

    It lasts from the solicitation to the last advertisement before the registration request.
    Without a solicitation, it is that advertisement alone.
    """
    before = [p for p in packets if p.time_s <= _request_time(packets) and p.is_mobile_ip
              and p.mip_type is None]
    sent = [i for i, p in enumerate(before) if p.icmp_type == tshark.AGENT_SOLICITATION]
    return phase_of("agent_discovery", start, before[sent[0]:] if sent else before[-1:])


def _registration_phase(packets: Sequence[Packet], start: float) -> Phase | None:
    """Return the phase of Mobile IP registration: from first request to accepting reply."""
    exchange = [p for p in packets if p.mip_type is not None]
    accepted = [i for i, p in enumerate(exchange) if p.mip_type == tshark.REGISTRATION_REPLY
                and p.mip_code in tshark.REGISTRATION_ACCEPTED]
    return phase_of("registration", start, exchange[:accepted[0] + 1]) if accepted else None


def _wireguard_packets(packets: Sequence[Packet]) -> list[Packet]:
    """Return WireGuard's handshake messages, up to the last response before any data.

    Initiations that cross make each other's responses invalid: both ends begin again.
    """
    kinds = [(wireguard.kind_of(p.length - wireguard.HEADERS_BYTES), p) for p in packets
             if wireguard.WIREGUARD_PORT in (p.udp_src, p.udp_dst)]
    begun = next((i for i, (kind, _) in enumerate(kinds) if kind == wireguard.INITIATION),
                 len(kinds))
    used = next((i for i, (kind, _) in enumerate(kinds)
                 if i > begun and kind == wireguard.TRANSPORT), len(kinds))
    ended = [i for i, (kind, _) in enumerate(kinds[:used])
             if i > begun and kind == wireguard.RESPONSE]
    return [p for _, p in kinds[begun:ended[-1] + 1]] if ended else []


def _request_time(packets: Sequence[Packet]) -> float:
    return next((p.time_s for p in packets if p.mip_type == tshark.REGISTRATION_REQUEST), 0.0)


def _scan_phase(attachment: AttachmentPackets, start: float) -> Phase | None:
    """Return the phase of scanning before authentication, from the first start to the last end.

    Results of an earlier scan may be reported at first. A scan that begins when the node is on the
    network does not count. An event is stamped when it is read, when the next step may already have
    begun.
    """
    started, ended = ([event["at_s"] for event in attachment.events if event["name"] == name]
                      for name in ("CTRL-EVENT-SCAN-STARTED", "CTRL-EVENT-SCAN-RESULTS"))
    joins = [p.time_s for p in attachment.air if p.subtype == tshark.AUTHENTICATION_SUBTYPE]
    begin = min(started, default=float("inf"))
    join = min((at_s for at_s in joins if at_s > begin), default=float("inf"))
    results = [at_s for at_s in ended if at_s >= begin]
    if not results or (joins and join == float("inf")):
        return None
    reported = [at_s for at_s in results if at_s < join]
    last_began = max(at_s for at_s in started if at_s < join)
    is_late = len(reported) < len(results) and max(reported, default=0.0) < last_began
    end = join if is_late else max(reported, default=join)
    probes = [p for p in attachment.air if p.subtype in tshark.PROBE_SUBTYPES and p.time_s < join]
    return Phase("scan", begin - start, end - begin, len(probes))


def _first_packet_phase(packets: Sequence[Packet], start: float, after_s: float,
                        answered_s: float) -> Phase | None:
    """Return the phase from the end of all negotiations to the peer's first answer.

    Inside a tunnel by QUIC or MPTCP, that is the agent's last packet before the program had the
    answer (`answered_s`): acknowledgements and path challenges come before it.
    """
    later = [p for p in packets if p.time_s - start > after_s and not p.is_eapol
             and not p.is_mobile_ip and not p.is_dhcp]
    begun = [p for p in later if p.udp_dst == wireguard.WIREGUARD_PORT]
    agents = [p.ip_dst for p in packets if p.ip_proto == TCP][:1]
    answers = [i for i, p in enumerate(later) if p.icmp_type in tshark.ECHO_REPLIES] or [
        # Inside WireGuard's tunnel, only the returning tunnel packet is visible.
        i for i, p in enumerate(later) if begun and p.udp_src == wireguard.WIREGUARD_PORT
        and p.ip_src == begun[0].ip_dst] or [
        i for i, p in enumerate(later) if (p.udp_src == QUIC_PORT or (
            p.ip_proto == TCP and p.ip_src in agents)) and p.time_s <= answered_s][-1:]
    if not answers:
        return None
    used = later[:answers[0] + 1]
    return Phase("first_packet", after_s, used[-1].time_s - start - after_s, len(used))


# --- Retransmissions: repeated messages, whose wait is part of the times ---

#: The flag in a record's circumstances.
RETRANSMISSION_FLAG = "retransmission"
#: Messages of a whole DHCP exchange (RFC 2131, 3.1).
_DHCP_MESSAGES = 4
#: Request and response types, and the field of a packet that has them.
_PAIRS = (("registration request", "mip_type", tshark.REGISTRATION_REQUEST,
           tshark.REGISTRATION_REPLY),
          ("agent solicitation", "icmp_type", tshark.AGENT_SOLICITATION,
           tshark.AGENT_ADVERTISEMENT))


@dataclass(frozen=True)
class Repetition:
    """A message that was sent again: its name, the packet before it and the repeated packet."""

    name: str
    first: Packet
    repeated: Packet

    def describe_wait(self) -> str:
        """Return a description of the message and the time until it was sent again."""
        return f"{self.name} sent again after {self.repeated.time_s - self.first.time_s:.3f} s"


def find_retransmissions(observed: Observation) -> list[str]:
    """Return a description of each message that was retransmitted while joining the network."""
    return [repetition.describe_wait() for stay in observed.by_attachment("auth-mn")
            for repetition in find_repetitions(stay, observed.mac)]


def find_repetitions(packets: Sequence[Packet], mac: str) -> list[Repetition]:
    """Return the negotiation messages that were sent again.

    These are messages of EAP, IKE, WireGuard, DHCP and Mobile IP.

    Args:
        packets: Packets at one access point.
        mac: The mobile node's MAC address.
    """
    return [*_repeated_eap(packets), *_repeated_ike(packets), *_repeated_wireguard(packets),
            *_repeated_dhcp(packets), *_repeated_mobile_ip(packets, mac)]


def _repeated_eap(packets: Sequence[Packet]) -> Iterator[Repetition]:
    """Yield each EAP request with a repeated identifier (RFC 3748, section 4.1)."""
    before: dict[int, Packet] = {}
    for packet in packets:
        if packet.eap_code != tshark.EAP_REQUEST or packet.eap_id is None:
            continue
        if packet.eap_id in before:
            yield Repetition(f"EAP request {packet.eap_id}", before[packet.eap_id],
                             packet)
        before[packet.eap_id] = packet


def _repeated_ike(packets: Sequence[Packet]) -> Iterator[Repetition]:
    """Yield each retransmitted IKE message of equal length.

    A message with a cookie, for example, is longer. MOBIKE tests paths with the same message to
    other addresses (RFC 4555, 3.10), which is no retransmission.
    """
    before: dict[object, Packet] = {}
    for packet in packets:
        if not packet.is_isakmp:
            continue
        message = packet.ike_message_key, packet.length, packet.ip_src, packet.ip_dst
        if message in before:
            yield Repetition("IKE message", before[message], packet)
        before[message] = packet


def _repeated_wireguard(attachment: Sequence[Packet]) -> Iterator[Repetition]:
    """Yield each WireGuard handshake that one end begins again before sending data."""
    before: dict[str, Packet] = {}
    for packet in attachment:
        if wireguard.WIREGUARD_PORT not in (packet.udp_src, packet.udp_dst):
            continue
        kind = wireguard.kind_of(packet.length - wireguard.HEADERS_BYTES)
        if kind == wireguard.TRANSPORT:
            before.clear()
        elif kind == wireguard.INITIATION:
            if packet.ip_src in before:
                yield Repetition("WireGuard initiation", before[packet.ip_src], packet)
            before[packet.ip_src] = packet


def _repeated_dhcp(packets: Sequence[Packet]) -> Iterator[Repetition]:
    """Yield the first message after a complete DHCP exchange, if there are more messages."""
    messages = [p for p in packets if p.is_dhcp]
    if len(messages) > _DHCP_MESSAGES:
        yield Repetition("DHCP message", messages[0], messages[_DHCP_MESSAGES])


def _repeated_mobile_ip(packets: Sequence[Packet], mac: str) -> Iterator[Repetition]:
    """Yield each Mobile IP request that follows an unanswered request."""
    for name, field, asks, answers in _PAIRS:
        open_request: Packet | None = None
        for packet in packets:
            value = getattr(packet, field)
            if value == asks and packet.ethernet_src == mac:
                if open_request is not None:
                    yield Repetition(name, open_request, packet)
                open_request = packet
            elif value == answers:
                open_request = None
