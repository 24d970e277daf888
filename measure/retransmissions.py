"""Find retransmissions in captures: repeated messages, whose wait is part of the times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from measure import dissect, wireguard
from measure.dissect import Packet
from measure.observed import Observed

#: The flag in a record's circumstances.
FLAG = "retransmission"
_EAP_REQUEST = 1
#: Request and response types, and the field of a packet that has them.
_PAIRS = (("registration request", "mip_type", dissect.REGISTRATION_REQUEST,
           dissect.REGISTRATION_REPLY),
          ("agent solicitation", "icmp_type", dissect.AGENT_SOLICITATION,
           dissect.AGENT_ADVERTISEMENT))


def find_retransmissions(observed: Observed) -> list[str]:
    """Return a description of each retransmitted message in any attachment."""
    return [text for stay in observed.by_attachment("auth-mn")
            for text in (*_repeated_eap(stay), *_repeated_ike(stay), *_wireguard(stay),
                         *_repeated_mobile_ip(stay, observed.mac))]


def _repeated_eap(packets: Sequence[Packet]) -> Iterator[str]:
    """Yield EAP requests with a repeated identifier (RFC 3748, section 4.1)."""
    before: dict[int, Packet] = {}
    for packet in packets:
        if packet.eap_code != _EAP_REQUEST or packet.eap_id is None:
            continue
        if packet.eap_id in before:
            yield _describe(f"EAP request {packet.eap_id}", before[packet.eap_id], packet)
        before[packet.eap_id] = packet


def _repeated_ike(packets: Sequence[Packet]) -> Iterator[str]:
    """Yield retransmitted IKE messages of equal length.

    A message with a cookie, for example, is longer. MOBIKE tests paths with the same message to
    other addresses (RFC 4555, 3.10), which is no retransmission.
    """
    before: dict[object, Packet] = {}
    for packet in packets:
        if not packet.is_isakmp:
            continue
        message = packet.ike_message_key, packet.length, packet.ip_src, packet.ip_dst
        if message in before:
            yield _describe("IKE message", before[message], packet)
        before[message] = packet


def _wireguard(attachment: Sequence[Packet]) -> Iterator[str]:
    """Yield handshakes that one end begins again before it has sent a transport message."""
    before: dict[str, Packet] = {}
    for packet in attachment:
        if wireguard.PORT not in (packet.udp_src, packet.udp_dst):
            continue
        kind = wireguard.kind_of(packet.length - wireguard.HEADERS_BYTES)
        if kind == wireguard.TRANSPORT:
            before.clear()
        elif kind == wireguard.INITIATION:
            if packet.ip_src in before:
                yield _describe("WireGuard initiation", before[packet.ip_src], packet)
            before[packet.ip_src] = packet


def _repeated_mobile_ip(packets: Sequence[Packet], mac: str) -> Iterator[str]:
    """Yield Mobile IP requests that follow another request without a response in between."""
    for name, field, asks, answers in _PAIRS:
        open_request: Packet | None = None
        for packet in packets:
            value = getattr(packet, field)
            if value == asks and packet.ethernet_src == mac:
                if open_request is not None:
                    yield _describe(name, open_request, packet)
                open_request = packet
            elif value == answers:
                open_request = None


def _describe(name: str, first: Packet, repeated: Packet) -> str:
    return f"{name} sent again after {repeated.time_s - first.time_s:.3f} s"
