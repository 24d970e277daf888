"""Read sizes and choices of messages from captures, with the frames that show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from measure.capture import pcap
from measure.load.eap_client import LENGTH_FLAG, MORE_FLAG
from measure.packets.eap import InnerEapFrame, parse_attributes
from measure.packets.messages import clear_messages
from policies.eap_methods import METHODS, TUNNELS
from studies.releases.measurements import Fact

#: The mobile node's interface, and the wire to the RADIUS server.
_NODE, _WIRE = "auth-mn.pcap", "auth-wire.pcap"
#: Name, value and frames of a fact.
_FoundFact = tuple[str, str, Sequence[int]]
#: Frames of a capture with their numbers, counted from 1.
_Frames = Sequence[tuple[int, pcap.CapturedFrame]]


@dataclass(frozen=True)
class Flight:
    """TLS records that one side sent at once: the EAP packets' frames, and the bytes."""

    is_station: bool
    frames: tuple[int, ...]
    data: bytes


# --- EAP and TLS ---

_EAP_PACKET, _EAP_HEAD = 0, 4
_EAP_RESPONSE = 2
#: Types of the EAP methods that carry TLS.
_TLS_METHODS = [METHODS[name].eap_type for name in METHODS if name == "TLS" or name in TUNNELS]
_CLIENT_HELLO, _SERVER_HELLO, _KEY_EXCHANGE, _CERTIFICATE_REQUEST = 1, 2, 12, 13
_CERTIFICATE_MESSAGES = {11: "Certificate", 25: "CompressedCertificate (RFC 8879)"}
#: Extensions of hellos (IANA's registry).
_GROUPS, _SIGNATURES, _VERSIONS, _KEY_SHARES = 10, 13, 43, 51
_VERSION_NAMES = {0x0303: "1.2", 0x0304: "1.3"}
_GROUP_NAMES = {23: "P-256", 24: "P-384", 25: "P-521", 29: "X25519", 30: "X448",
                256: "ffdhe2048", 257: "ffdhe3072", 258: "ffdhe4096", 259: "ffdhe6144",
                260: "ffdhe8192", 512: "MLKEM512", 513: "MLKEM768", 514: "MLKEM1024",
                4587: "SecP256r1MLKEM768", 4588: "X25519MLKEM768", 4589: "SecP384r1MLKEM1024"}
#: Signature algorithms of newer releases, which are named. All others are counted.
_NEW_SIGNATURES = {0x081a: "brainpoolP256r1", 0x081b: "brainpoolP384r1", 0x081c: "brainpoolP512r1",
                   0x0904: "ML-DSA-44", 0x0905: "ML-DSA-65", 0x0906: "ML-DSA-87"}


def _read_eap_packets(frames: _Frames) -> list[tuple[int, bytes]]:
    """Return the EAP packets in EAPOL frames, each with the number of its frame."""
    packets = []
    for number, frame in frames:
        payload = frame.payload
        if frame.kind == pcap.EAPOL and len(payload) >= 2 * _EAP_HEAD and payload[1] == _EAP_PACKET:
            eap = payload[_EAP_HEAD:]
            packets.append((number, eap[:int.from_bytes(eap[2:4], "big")]))
    return packets


def _join_flights(packets: Sequence[tuple[int, bytes]]) -> list[Flight]:
    """Return the TLS data of EAP packets, joined from fragments."""
    flights: list[Flight] = []
    frames: list[int] = []
    data = b""
    for number, eap in packets:
        if len(eap) <= _EAP_HEAD + 1 or eap[4] not in _TLS_METHODS:
            continue
        flags, begin = eap[5], 10 if eap[5] & LENGTH_FLAG else 6
        if len(eap) <= begin:
            continue
        frames, data = [*frames, number], data + eap[begin:]
        if not flags & MORE_FLAG:
            flights.append(Flight(eap[0] == _EAP_RESPONSE, tuple(frames), data))
            frames, data = [], b""
    return flights


def _skip_vector(data: bytes, place: int, width: int) -> int:
    """Return where a variable-length field of TLS ends.

    It begins at `place` with its length, a number of `width` bytes.
    """
    return place + width + int.from_bytes(data[place:place + width], "big")


def _read_extensions(data: bytes, place: int) -> dict[int, bytes]:
    """Return the extensions of a hello by their types."""
    found, place = {}, place + 2
    while place + 4 <= len(data):
        end = _skip_vector(data, place + 2, 2)
        found[int.from_bytes(data[place:place + 2], "big")] = data[place + 4:end]
        place = end
    return found


def _read_numbers(data: bytes) -> list[int]:
    return [int.from_bytes(data[at:at + 2], "big") for at in range(0, len(data) - 1, 2)]


def _name_groups(numbers: Sequence[int]) -> str:
    return ", ".join(_GROUP_NAMES.get(number, str(number)) for number in numbers)


def _describe_client_hello(body: bytes) -> Iterator[tuple[str, str]]:
    place = 34  # behind version and random
    for width in (1, 2, 1):  # session, cipher suites, compression
        place = _skip_vector(body, place, width)
    extensions = _read_extensions(body, place)
    yield "offered_groups", _name_groups(_read_numbers(extensions.get(_GROUPS, b"")[2:]))
    signatures = _read_numbers(extensions.get(_SIGNATURES, b"")[2:])
    new = [_NEW_SIGNATURES[number] for number in signatures if number in _NEW_SIGNATURES]
    yield "offered_signatures", f"{len(signatures)}{', with ' if new else ''}{', '.join(new)}"
    shares, groups = extensions.get(_KEY_SHARES, b"")[2:], []
    while len(shares) >= _EAP_HEAD:
        groups.append(int.from_bytes(shares[:2], "big"))
        shares = shares[_skip_vector(shares, 2, 2):]
    if groups:
        yield "shared_groups", _name_groups(groups)


def _describe_server_message(kind: int, body: bytes) -> Iterator[tuple[str, str]]:
    if kind == _SERVER_HELLO:
        place = _skip_vector(body, 34, 1)
        extensions = _read_extensions(body, place + 3)
        version = int.from_bytes(extensions.get(_VERSIONS, body[:2]), "big")
        yield "tls_version", _VERSION_NAMES.get(version, f"{version:#06x}")
        yield "tls_suite", f"0x{body[place:place + 2].hex()}"
        if _KEY_SHARES in extensions:
            yield "tls_group", _name_groups(_read_numbers(extensions[_KEY_SHARES][:2]))
    elif kind == _KEY_EXCHANGE:
        yield "tls_group", _name_groups(_read_numbers(body[1:3]))
    elif kind == _CERTIFICATE_REQUEST:
        yield "request_bytes", str(len(body) + _EAP_HEAD)


def _read_eap_facts(packets: Sequence[tuple[int, bytes]]) -> Iterator[_FoundFact]:
    """Yield name, value and frames of each fact of an authentication."""
    of_server = [(len(eap), number) for number, eap in packets if eap and eap[0] != _EAP_RESPONSE]
    if not of_server:
        return
    longest = max(of_server)[0]
    yield "longest_eap_bytes", str(longest), [
        number for size, number in of_server if size == longest][:1]
    for flight in _join_flights(packets):
        for kind, body in clear_messages(flight.data):
            if flight.is_station and kind == _CLIENT_HELLO:
                yield "hello_bytes", str(len(flight.data)), flight.frames
                for name, value in _describe_client_hello(body):
                    yield name, value, flight.frames
            elif not flight.is_station:
                # A hello is in the first fragment.
                frames = flight.frames[:1] if kind == _SERVER_HELLO else flight.frames
                for name, value in _describe_server_message(kind, body):
                    yield name, value, frames


# --- RADIUS, IKE and DHCP ---

_RADIUS, _IKE, _DHCP = (1812, 1813), (500, 4500), (67, 68)
_RADIUS_HEAD, _UDP_HEAD = 20, 8
_ACCESS_REQUEST = 1
_ATTRIBUTES = {1: "User-Name", 2: "User-Password", 4: "NAS-IP-Address", 5: "NAS-Port",
               6: "Service-Type", 12: "Framed-MTU", 18: "Reply-Message", 24: "State",
               26: "Vendor-Specific",
               27: "Session-Timeout", 30: "Called-Station-Id", 31: "Calling-Station-Id",
               32: "NAS-Identifier", 33: "Proxy-State", 44: "Acct-Session-Id",
               61: "NAS-Port-Type", 77: "Connect-Info", 79: "EAP-Message",
               80: "Message-Authenticator"}


def _read_datagrams(frames: _Frames, ports: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Yield frame and payload of each UDP datagram to or from ports.

    The payload of a fragmented datagram is its first part.
    """
    for number, frame in frames:
        header = pcap.parse_udp_header(frame)
        if header and not {header.source_port, header.target_port}.isdisjoint(ports):
            packet = frame.payload
            begin = (packet[0] & 15) * 4 + _UDP_HEAD
            yield number, packet[begin:header.ip_bytes]


def _name_attributes(message: bytes) -> str:
    """Return the names of a RADIUS message's attributes in order, each of a sequence once."""
    kinds = (kind for kind, _ in parse_attributes(message[_RADIUS_HEAD:]))
    return ", ".join(_ATTRIBUTES.get(kind, str(kind)) for kind, _ in groupby(kinds))


def _read_radius_facts(frames: _Frames) -> Iterator[_FoundFact]:
    messages = [(number, message) for number, message in _read_datagrams(frames, _RADIUS)
                if len(message) >= _RADIUS_HEAD]
    for name, is_request in (("request_attributes", True), ("reply_attributes", False)):
        for number, message in messages:
            if (message[0] == _ACCESS_REQUEST) == is_request:
                yield name, _name_attributes(message), [number]
                break


def _read_certificate_message(frames: _Frames, mac: str, inside: Sequence[InnerEapFrame]
                              ) -> Iterator[_FoundFact]:
    """Yield which message of TLS 1.3 had the station's certificates, by the decrypted frames."""
    for opened in inside:
        for kind, name in _CERTIFICATE_MESSAGES.items():
            if opened.source == mac and kind in opened.handshakes:
                number, _ = min(frames, key=lambda frame: abs(frame[1].at_s - opened.time_s))
                yield "certificate_message", name, [number]


def _read_node_facts(frames: _Frames, mac: str, inside: Sequence[InnerEapFrame]
                     ) -> Iterator[_FoundFact]:
    yield from _read_eap_facts(_read_eap_packets(frames))
    for name, ports in (("ike_bytes", _IKE), ("dhcp_bytes", _DHCP)):
        if found := list(_read_datagrams(frames, ports)):
            numbers, payloads = zip(*found, strict=True)
            yield name, ", ".join(str(len(payload)) for payload in payloads), numbers
    yield from _read_certificate_message(frames, mac, inside)


def read_facts(folder: Path, mac: str, inside: Sequence[InnerEapFrame]) -> dict[str, Fact]:
    """Return the facts of a repetition by their names, the first occurrence of each.

    Args:
        folder: The repetition's folder with its captures.
        mac: Address of the mobile node.
        inside: EAP frames with the decrypted content of TLS.

    Raises:
        MeasureError: A file is no capture.
    """
    facts: dict[str, Fact] = {}
    for capture, read in ((_NODE, partial(_read_node_facts, mac=mac, inside=inside)),
                          (_WIRE, _read_radius_facts)):
        if (file := folder / capture).exists():
            for name, value, numbers in read(list(enumerate(pcap.read_frames(file), 1))):
                facts.setdefault(name, Fact(value=value, capture=capture, frames=tuple(numbers)))
    return facts
