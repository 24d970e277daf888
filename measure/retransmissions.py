"""Find retransmissions in captures: messages sent again, whose wait is in the times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from measure import dissect, wireguard
from measure.dissect import Packet
from measure.observed import Observed

#: What a record's circumstances call it.
FLAG = "retransmission"
_EAP_REQUEST = 1
#: What asks and what answers, in which field of a packet.
_PAIRS = (("registration request", "mip_type", dissect.REGISTRATION_REQUEST,
           dissect.REGISTRATION_REPLY),
          ("agent solicitation", "icmp_type", dissect.AGENT_SOLICITATION,
           dissect.AGENT_ADVERTISEMENT))


def find(seen: Observed) -> list[str]:
    """Each message that was sent again in any stay, in words."""
    return [text for stay in seen.by_stay("auth-mn")
            for text in (*_eap(stay), *_ike(stay), *_wireguard(stay),
                         *_unanswered(stay, seen.mac))]


def _eap(stay: Sequence[Packet]) -> Iterator[str]:
    """Requests of one identifier: a new one has another (RFC 3748, section 4.1)."""
    before: dict[int, Packet] = {}
    for packet in stay:
        if packet.eap_code != _EAP_REQUEST or packet.eap_id is None:
            continue
        if packet.eap_id in before:
            yield _said(f"EAP request {packet.eap_id}", before[packet.eap_id], packet)
        before[packet.eap_id] = packet


def _ike(stay: Sequence[Packet]) -> Iterator[str]:
    """Yield messages of IKE that are as long as before; those with a cookie, say, are longer.

    To another address, MOBIKE asks for a way with the same message (RFC 4555, 3.10).
    """
    before: dict[object, Packet] = {}
    for packet in stay:
        if not packet.is_isakmp:
            continue
        message = packet.ike_message, packet.length, packet.ip_src, packet.ip_dst
        if message in before:
            yield _said("IKE message", before[message], packet)
        before[message] = packet


def _wireguard(stay: Sequence[Packet]) -> Iterator[str]:
    """Yield handshakes that one end begins again before it has sent a transport message."""
    before: dict[str, Packet] = {}
    for packet in stay:
        if wireguard.PORT not in (packet.udp_src, packet.udp_dst):
            continue
        kind = wireguard.kind_of(packet.length - wireguard.HEADERS_BYTES)
        if kind == wireguard.TRANSPORT:
            before.clear()
        elif kind == wireguard.INITIATION:
            if packet.ip_src in before:
                yield _said("WireGuard initiation", before[packet.ip_src], packet)
            before[packet.ip_src] = packet


def _unanswered(stay: Sequence[Packet], mac: str) -> Iterator[str]:
    """Requests of Mobile IP that followed one another without an answer in between."""
    for name, field, asks, answers in _PAIRS:
        open_request: Packet | None = None
        for packet in stay:
            value = getattr(packet, field)
            if value == asks and packet.ethernet_src == mac:
                if open_request is not None:
                    yield _said(name, open_request, packet)
                open_request = packet
            elif value == answers:
                open_request = None


def _said(name: str, first: Packet, again: Packet) -> str:
    return f"{name} sent again after {again.time_s - first.time_s:.3f} s"
