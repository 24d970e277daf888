"""Read authentications from captures: RADIUS by its State attribute, EAPOL at the supplicant.

Formats are parsed independently here. Nothing is taken from the load generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from measure import pcap, tls_messages
from measure.eap_keys import PORT
from measure.load import radius
from measure.load.eap_tls import EAP_TLS, LENGTH, MORE, START
from protocols.aka.packets import EAP_AKA

_EAPOL = 0x888E
_EAP_PACKET, _EAPOL_START = 0, 1
_REQUEST, _RESPONSE, _SUCCESS, _FAILURE = 1, 2, 3, 4
_IDENTITY = 1
_HANDSHAKE, _APPLICATION = 22, 23
CERTIFICATE, CERTIFICATE_VERIFY = 11, 15
#: TLS 1.3 encrypts certificates. A server's flight of more bytes than this has some.
_ENCRYPTED_CERTIFICATES_BYTES = 800


@dataclass
class RoundTrip:
    """A request and its answer, with the times of their capture (s)."""

    asked_s: float
    answered_s: float = 0.0

    @property
    def took_s(self) -> float:
        """Return the time between request and answer (s)."""
        return self.answered_s - self.asked_s


@dataclass
class Exchange:
    """An authentication between a client of the server and the server.

    `asker` and `port` are address and UDP port that the requests come from. `user` is the claimed
    identity. `repeated` counts retransmitted requests.
    """

    trips: list[RoundTrip] = field(default_factory=list)
    from_server: bytes = b""
    from_client: bytes = b""
    asker: str = ""
    port: int = 0
    user: str = ""
    is_accepted: bool = False
    repeated: int = 0
    #: Sizes of the server's EAP packets that other fragments follow (bytes).
    pieces: set[int] = field(default_factory=set)
    #: EAP packets of EAP-AKA, in order, and the last request and its answer as RADIUS packets.
    aka: list[bytes] = field(default_factory=list)
    last: list[bytes] = field(default_factory=list)
    #: Number of EAP packets that carry no data of the method and acknowledge no fragment.
    spare: int = 0
    #: The last EAP packet, and whether only EAP-Success may follow it.
    eap: bytes = b""
    is_last_word: bool = False

    @property
    def is_complete(self) -> bool:
        """Return whether every request has an answer and the last one is Access-Accept."""
        return self.is_accepted and all(trip.answered_s for trip in self.trips)

    @property
    def served_s(self) -> float:
        """Return the time between requests and answers, summed over all round trips (s)."""
        return sum(trip.took_s for trip in self.trips)

    @property
    def has_certificates(self) -> bool:
        """Return whether both sides sent certificates, instead of resuming a session."""
        if _HANDSHAKE in (server := _record_types(self.from_server)) and (
                CERTIFICATE in server[_HANDSHAKE]):
            return {CERTIFICATE, CERTIFICATE_VERIFY} <= _record_types(self.from_client).get(
                _HANDSHAKE, set())
        return _APPLICATION in server and len(self.from_server) > _ENCRYPTED_CERTIFICATES_BYTES


@dataclass(frozen=True)
class SupplicantTime:
    """An authentication at the supplicant's interface, with times in seconds."""

    begun_s: float
    ended_s: float
    client_s: float

    @property
    def took_s(self) -> float:
        """Return the time from the first frame of 802.1X to EAP-Success (s)."""
        return self.ended_s - self.begun_s


def exchanges(file: Path) -> list[Exchange]:
    """Return all authentications of a RADIUS capture, in the order in which they began.

    A request with the port, identifier and authenticator of an earlier one is a retransmission (RFC
    5080 section 2.2.2). This holds also if its answer was already on the way.
    """
    begun: list[Exchange] = []
    by_state: dict[bytes, Exchange] = {}  # A proxy may use several ports for one authentication.
    asked: dict[tuple[int, int], tuple[bytes, Exchange]] = {}
    waiting: set[tuple[int, int]] = set()
    for datagram in pcap.udp_datagrams(file):
        packet = radius.parse_packet(datagram.payload)
        if packet is None:
            continue
        if datagram.target_port == PORT:
            key = datagram.source_port, packet.identifier
            last = asked.get(key)
            if last and last[0] == packet.authenticator:
                last[1].repeated += 1
                continue
            exchange = by_state.pop(packet.state, None) if packet.state else None
            if exchange is None:
                exchange = Exchange(asker=datagram.source, port=datagram.source_port,
                                    user=packet.user)
                begun.append(exchange)
            exchange.trips.append(RoundTrip(datagram.at_s))
            count_spare(exchange, packet.eap)
            exchange.from_client += _tls_data(packet.eap)
            exchange.aka += _aka_packets(packet.eap)
            exchange.last = [datagram.payload]
            asked[key] = packet.authenticator, exchange
            waiting.add(key)
        elif (key := (datagram.target_port, packet.identifier)) in waiting:
            waiting.remove(key)
            exchange = asked[key][1]
            exchange.trips[-1].answered_s = datagram.at_s
            count_spare(exchange, packet.eap)
            exchange.from_server += _tls_data(packet.eap)
            exchange.pieces |= _fragment_size(packet.eap)
            exchange.aka += _aka_packets(packet.eap)
            exchange.last.append(datagram.payload)
            exchange.is_accepted = packet.code == radius.ACCEPT
            if packet.state:
                by_state[packet.state] = exchange
    return begun


def supplicant_times(file: Path) -> Iterator[SupplicantTime]:
    """Yield every successful authentication, from EAPOL frames at the supplicant."""
    begun_s = asked_s = 0.0
    client_s = 0.0
    for frame in pcap.read_frames(file):
        if is_from_supplicant(frame) is None:
            continue
        begun_s = begun_s or frame.at_s
        code = _eap_code(frame)
        if code == _REQUEST:
            asked_s = frame.at_s
        elif code == _RESPONSE and asked_s:
            client_s, asked_s = client_s + frame.at_s - asked_s, 0.0
        elif code in (_SUCCESS, _FAILURE):
            if code == _SUCCESS:
                yield SupplicantTime(begun_s, frame.at_s, client_s)
            begun_s = asked_s = client_s = 0.0


def is_from_supplicant(frame: pcap.CapturedFrame) -> bool | None:
    """Return whether the supplicant sent a frame of an authentication.

    The result is None for other frames.
    """
    data = frame.payload
    if frame.kind != _EAPOL or len(data) < 4 or data[1] not in (_EAP_PACKET, _EAPOL_START):
        return None
    return _eap_code(frame) in (0, _RESPONSE)


def _eap_code(frame: pcap.CapturedFrame) -> int:
    """Return the code of a frame's EAP packet, 0 for EAPOL-Start."""
    data = frame.payload
    return data[4] if data[1] == _EAP_PACKET and len(data) > 4 else 0


def count_spare(exchange: Exchange, eap: bytes) -> None:
    """Count a packet that an authentication with these fragments does not need."""
    if len(eap) < 4:
        return
    code, before = eap[0], exchange.eap
    exchange.spare += exchange.is_last_word and code != _SUCCESS
    exchange.eap, exchange.is_last_word = eap, False
    kind, flags = (*eap[4:6], 0, 0)[:2]
    if code in (_SUCCESS, _FAILURE) or kind == EAP_AKA or (kind == _IDENTITY and not before):
        return
    if kind != EAP_TLS:
        exchange.spare += 1  # another method is offered or refused
    elif not (_tls_data(eap) or flags & START or _fragment_size(before)):
        # The peer's last packet carries no data.
        exchange.is_last_word = code == _RESPONSE
        exchange.spare += code != _RESPONSE


def _tls_data(eap: bytes) -> bytes:
    """Return the TLS data in an EAP packet."""
    if len(eap) < 6 or eap[4] != EAP_TLS:
        return b""
    return eap[10:] if eap[5] & LENGTH else eap[6:]


def _fragment_size(eap: bytes) -> set[int]:
    """Return the size of an EAP-TLS packet that other fragments follow."""
    return {len(eap)} if len(eap) > 5 and eap[4] == EAP_TLS and eap[5] & MORE else set()


def _aka_packets(eap: bytes) -> list[bytes]:
    """Return the packet if it is of EAP-AKA."""
    return [eap] if len(eap) > 4 and eap[4] == EAP_AKA else []


def _record_types(flight: bytes) -> dict[int, set[int]]:
    """Return the types of TLS records in a flight.

    Handshake records have the types of their messages, if in the clear.
    """
    kinds: dict[int, set[int]] = {kind: set() for kind, _ in _split_records(flight)}
    if _HANDSHAKE in kinds:
        kinds[_HANDSHAKE] |= {kind for kind, _ in handshake_messages(flight)}
    return kinds


def handshake_messages(flight: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of the handshake messages in the clear in a flight."""
    clear = b"".join(body for _, body in takewhile(lambda each: each[0] == _HANDSHAKE,
                                                   _split_records(flight)))
    return tls_messages.split_messages(clear)


def _split_records(flight: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of TLS records."""
    place = 0
    while place + 5 <= len(flight):
        size = int.from_bytes(flight[place + 3:place + 5], "big")
        yield flight[place], flight[place + 5:place + 5 + size]
        place += 5 + size
