"""Verify every packet in a client's capture of a signed video stream.

The stream is of Authenticast, a protocol with signed packets over UDP. `verify_capture` takes the
datagrams of a capture and the public keys of server and client. It returns the packets by result,
such as valid or invalid signature, and the errors in messages. Only signed messages tell which
scheme applies. The module shares no code with the protocol's programs, because it is used to check
them.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from measure.capture import pcap
from measure.packets import esp

# --- Parser of captured datagrams, by the formats of docs/authenticast.md ---

_IP_BYTES, _UDP_BYTES = 20, 8
_HEADER = struct.Struct("!BBBBIQQIIHHH")
DATA, BUNDLE, REPORT, CONTROL, CHANGE, ACK, HELLO, HELLO_ACK, BYE, DISCLOSE = range(0x11, 0x1B)
PERCENTAGE, DELAYED, SECRET_KEY, TREE, TESLA = range(1, 6)
_FAR_AHEAD = 2 ** 40
#: Length (bytes) of each datagram's head that both captures keep. Comparing the heads tells an
#: altered datagram from the sent one.
COMMON_BYTES = 120


@dataclass(frozen=True)
class WireDatagram:
    """A UDP datagram in a capture. Its payload is cut short if the capture keeps headers only."""

    source: str
    target: str
    payload: bytes
    at_s: float = 0.0

    @property
    def kind(self) -> int:
        """Return the first byte of the payload: version and message type."""
        return self.payload[0] if self.payload else 0

    @property
    def is_far_ahead(self) -> bool:
        """Return whether this is a forged data packet, with a number above all streams' numbers."""
        return self.kind == DATA and int.from_bytes(self.payload[8:16], "big") >= _FAR_AHEAD


@dataclass(frozen=True)
class DataPacket:
    """A data packet of the stream, with the fields of docs/authenticast.md.

    - `sent_ns`: time at which the server signed it
    - `epoch`: number of the announced setting that it follows
    - `position`, `bundle`: its index in its group of packets, and their number
    - `covered`: bytes that its signature or MAC covers
    - `authenticator`: signature, MAC or path in the tree
    """

    scheme: int
    algorithm: int
    stream: int
    sequence: int
    sent_ns: int
    epoch: int
    position: int
    bundle: int
    covered: bytes
    payload: bytes
    authenticator: bytes

    @property
    def stream_and_sequence(self) -> tuple[int, int]:
        """Return stream number and sequence number."""
        return self.stream, self.sequence


def read_datagrams(file: Path, keys: Sequence[Mapping[str, str]] = ()) -> Iterator[WireDatagram]:
    """Yield all UDP datagrams of an Ethernet capture.

    Args:
        file: the capture file.
        keys: keys of IPsec SAs. Packets inside their ESP tunnels are decrypted and included.

    Raises:
        MeasureError: the file is no Ethernet capture, or a packet cannot be decrypted.
    """
    for frame in esp.decrypt_esp_frames(pcap.read_frames(file), keys):
        ip = frame.payload
        if len(ip) < _IP_BYTES + _UDP_BYTES or ip[9] != 17:
            continue
        start = (ip[0] & 15) * 4 + _UDP_BYTES
        # The last block of a cipher may hold more than the packet. A capture may hold less of it.
        end = int.from_bytes(ip[2:4], "big")
        yield WireDatagram(format_address(ip[12:16]), format_address(ip[16:20]), ip[start:end],
                           frame.at_s)


def parse_data_packet(payload: bytes) -> DataPacket | None:
    """Parse a complete data packet, or return None for any other payload."""
    if len(payload) < _HEADER.size or payload[0] != DATA:
        return None
    _, scheme, algorithm, _, stream, sequence, sent_ns, _, epoch, position, size, length = \
        _HEADER.unpack_from(payload)
    end = _HEADER.size + length
    return DataPacket(scheme, algorithm, stream, sequence, sent_ns, epoch, position, size,
                      payload[:end], payload[_HEADER.size:end], payload[end:])


def format_address(raw: bytes) -> str:
    """Return an IPv4 address in dotted decimal notation."""
    return ".".join(map(str, raw))


# --- Verification of signatures, by the cryptography library alone ---

_DSA, _RSA, _ED25519 = 1, 2, 3
_PEM_END = "-----END PUBLIC KEY-----"
_KINDS: Mapping[type, int] = {
    dsa.DSAPublicKey: _DSA, rsa.RSAPublicKey: _RSA, ed25519.Ed25519PublicKey: _ED25519}


class Key:
    """The public keys of a server or client, one for each algorithm.

    The first one identifies it.
    """

    def __init__(self, pem: str) -> None:
        self._keys = {}
        for text in pem.split(_PEM_END)[:-1]:
            key = serialization.load_pem_public_key((text + _PEM_END).encode())
            self._keys[next(number for kind, number in _KINDS.items()
                            if isinstance(key, kind))] = key

    @property
    def algorithm(self) -> int:
        """Return the signature algorithm of the first key, by its number in packets."""
        return next(iter(self._keys))

    def has_signed(self, purpose: str, session: bytes, message: bytes, signature: bytes,
                   algorithm: int = 0) -> bool:
        """Return whether this key signed the message for this purpose in this session.

        `algorithm` 0 is the key's own one.
        """
        text = b"authenticast/1 " + purpose.encode() + b"\0" + session + message
        key = self._keys.get(algorithm or self.algorithm)
        try:
            if isinstance(key, dsa.DSAPublicKey):
                half = len(signature) // 2
                der = encode_dss_signature(int.from_bytes(signature[:half], "big"),
                                           int.from_bytes(signature[half:], "big"))
                key.verify(der, text, hashes.SHA256())
            elif isinstance(key, rsa.RSAPublicKey):
                key.verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
            elif isinstance(key, ed25519.Ed25519PublicKey):
                key.verify(signature, text)
            else:
                return False
        except (InvalidSignature, ValueError):
            return False
        return True

    def has_signed_block(self, purpose: str, session: bytes, message: bytes, block: bytes) -> bool:
        """Return whether the signature block of a message is valid.

        The block names the algorithm, which is signed, too.
        """
        return block[:1] == bytes((self.algorithm,)) and self.has_signed(
            purpose, session, message + block[:1], block[1:])


_SETTING = struct.Struct("!BBHHH")
_HELLO_RANGE_AT, _HELLO_FIXED = 1 + 19 + 16 + 32, 1 + 19 + 16 + 32 + 12
_ACK_DIGEST_AT, _ACK_SETTING_AT = 1 + 20, 1 + 20 + 32 + 16 + 32
_CHANGE_ANSWERS_AT, _CHANGE_SETTING_AT = 1 + 16, 1 + 24
_CONTROL_NUMBER_AT, _CONTROL_RANGE_AT, _CONTROL_FIXED = 1 + 4, 1 + 13, 1 + 13 + 12
_TAG_BYTES = 16
_BUNDLE = struct.Struct("!BBIIQH")
_TREE = struct.Struct("!IIQH")
_TESLA = struct.Struct("!QQIH")


@dataclass(frozen=True)
class Announcement:
    """A setting (scheme, algorithm, verified fraction) that a server announced with a signature.

    - `bundle`: number of packets in a group that is signed together
    - `level`: fraction of packets to verify
    - `material`: what the scheme's keys need, such as the first key of a TESLA chain
    - `answers`: number of the last request of the user that it obeys
    """

    scheme: int
    algorithm: int
    bundle: int
    level: float
    material: bytes = b""
    answers: int = 0


@dataclass
class ObservedStream:
    """A stream as the capture shows it, with its announced settings and keys.

    - `digest`: digest of the handshake, which signatures include
    - `stream`: number of the stream
    - `ranges`: the fractions that the user permits, by number of the signed request. Number 0 is
      the handshake.
    - `epochs`: announced settings by number
    - `bundles`: size of each bundle and the datagram with its signature, by the bundle's first
      sequence number
    - `keys`: disclosed TESLA keys by interval
    """

    digest: bytes
    stream: int
    ranges: dict[int, tuple[float, float]]
    epochs: dict[int, Announcement]
    bundles: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    keys: dict[int, bytes] = field(default_factory=dict)


@dataclass
class VerificationResult:
    """The packets of a capture by result of their verification, and errors in messages.

    - `right`, `wrong`: packets with a valid and with an invalid signature
    - `unlike`: packets whose scheme or algorithm differs from the announced one
    - `tagged`: packets with a MAC
    - `complaints`: descriptions of the errors in messages
    - `sessions`: the streams, by number
    - `bundles_right`, `bundles_wrong`: number of bundles with a valid and with an invalid signature

    Packets are given by stream and sequence number.
    """

    right: set[tuple[int, int]] = field(default_factory=set)
    wrong: set[tuple[int, int]] = field(default_factory=set)
    unlike: set[tuple[int, int]] = field(default_factory=set)
    tagged: set[tuple[int, int]] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)
    sessions: dict[int, ObservedStream] = field(default_factory=dict)
    bundles_right: int = 0
    bundles_wrong: int = 0


def verify_capture(datagrams: Iterable[WireDatagram], server: Key,
                   client: Key) -> VerificationResult:
    """Verify all messages and packets of a client's capture.

    Args:
        datagrams: the datagrams of the capture, in order.
        server: public keys of the server.
        client: public keys of the client.
    """
    every = list(datagrams)
    result = VerificationResult()
    _verify_handshakes(every, server, client, result)
    for datagram in every:
        _record_announcement(datagram.payload, server, result)
        _record_turn(datagram.payload, client, result)
    packets = [packet for datagram in every
               if datagram.kind == DATA
               and (packet := parse_data_packet(datagram.payload))]
    for session in result.sessions.values():
        _derive_keys(session)
    roots: dict[bytes, bool] = {}
    for packet in packets:
        _verify_packet(packet, server, roots, result)
    _verify_bundles(packets, server, result)
    return result


def _verify_handshakes(every: list[WireDatagram], server: Key, client: Key,
                       result: VerificationResult) -> None:
    """Verify each hello and its answer, and record the stream that the answer grants."""
    hellos = {hashlib.sha256(datagram.payload).digest(): datagram.payload for datagram in every
              if datagram.kind == HELLO}
    for datagram in every:
        ack = datagram.payload
        if datagram.kind != HELLO_ACK:
            continue
        hello = hellos.get(ack[_ACK_DIGEST_AT:_ACK_DIGEST_AT + 32])
        if hello is None:
            result.complaints.append("a hello-ack to no hello of the capture")
            continue
        body, block = _split_named(hello, _HELLO_FIXED)
        if not client.has_signed_block("hello", b"", body, block):
            result.complaints.append("a hello that is not the client's")
        body, block = _split_named(ack, _ACK_SETTING_AT + 8)
        if not server.has_signed_block("hello-ack", b"", hello + body, block):
            result.complaints.append("a hello-ack that is not signed by the server's key")
            continue
        stream = int.from_bytes(ack[1:5], "big")
        low, high = struct.unpack_from("!HH", hello, _HELLO_RANGE_AT)
        digest = hashlib.sha256(b"authenticast/1 session\0" + hello + ack).digest()
        result.sessions[stream] = ObservedStream(digest, stream, {0: (low / 1e4, high / 1e4)},
                                                 {0: _parse_setting(ack, _ACK_SETTING_AT)})


def _split_named(message: bytes, text_at: int) -> tuple[bytes, bytes]:
    """Split a message that ends in a name into body and authentication."""
    end = text_at + 1 + message[text_at]
    return message[:end], message[end:]


def _parse_setting(message: bytes, at: int, material: bytes = b"",
                   answers: int = 0) -> Announcement:
    scheme, algorithm, bundle, level, _ = _SETTING.unpack_from(message, at)
    return Announcement(scheme, algorithm, bundle, level / 1e4, material, answers)


def _record_turn(payload: bytes, client: Key, result: VerificationResult) -> None:
    """Record a user's new request for the stream, which the client must have signed."""
    session = result.sessions.get(int.from_bytes(payload[1:5], "big"))
    if not payload or payload[0] != CONTROL or session is None:
        return
    body, authentication = _split_block(payload, _CONTROL_FIXED)
    if not client.has_signed_block("control", session.digest, body, authentication[_TAG_BYTES:]):
        result.complaints.append("a turn of the dial that the client has not signed")
        return
    number = int.from_bytes(payload[_CONTROL_NUMBER_AT:_CONTROL_NUMBER_AT + 8], "big")
    low, high = struct.unpack_from("!HH", payload, _CONTROL_RANGE_AT)
    session.ranges[number] = low / 1e4, high / 1e4


def _split_block(message: bytes, block_at: int) -> tuple[bytes, bytes]:
    """Split a message that ends in a byte string into body and authentication."""
    end = block_at + 2 + int.from_bytes(message[block_at:block_at + 2], "big")
    return message[:end], message[end:]


def _record_announcement(payload: bytes, server: Key, result: VerificationResult) -> None:
    """Record signed announcements of settings, signatures of bundles, and disclosed TESLA keys."""
    kind, stream = payload[0] if payload else 0, int.from_bytes(payload[1:5], "big")
    if kind == CHANGE and stream in result.sessions:
        session = result.sessions[stream]
        text_at = _CHANGE_SETTING_AT + 8
        material_at = text_at + 1 + payload[text_at]
        body, authentication = _split_block(payload, material_at)
        if not server.has_signed_block("control", session.digest, body,
                                       authentication[_TAG_BYTES:]):
            result.complaints.append("a change that the server has not signed")
            return
        session.epochs[int.from_bytes(payload[5:9], "big")] = _parse_setting(
            payload, _CHANGE_SETTING_AT, body[material_at + 2:],
            int.from_bytes(payload[_CHANGE_ANSWERS_AT:_CHANGE_ANSWERS_AT + 8], "big"))
    elif kind == BUNDLE:
        _, _, stream, _, first, size = _BUNDLE.unpack_from(payload)
        if stream in result.sessions:
            result.sessions[stream].bundles[first] = size, payload
    elif kind == DISCLOSE and stream in result.sessions:
        result.sessions[stream].keys[int.from_bytes(payload[9:13], "big")] = payload[13:45]
    elif kind == DATA and (packet := parse_data_packet(payload)) and (
            packet.scheme == TESLA and packet.stream in result.sessions):
        tag = packet.authenticator
        parameters = result.sessions[packet.stream].epochs.get(packet.epoch)
        if parameters is not None and len(parameters.material) >= _TESLA.size:
            delay = _TESLA.unpack_from(parameters.material)[3]
            interval = int.from_bytes(tag[:4], "big")
            result.sessions[packet.stream].keys.setdefault(max(0, interval - delay), tag[4:36])


def _derive_keys(session: ObservedStream) -> None:
    """Compute all TESLA keys from the last disclosed one, if its chain leads to the signed key."""
    material = next((epoch.material for epoch in session.epochs.values()
                     if epoch.scheme == TESLA), b"")
    if not material:
        return
    known, key, at = {}, b"", max(session.keys, default=-1)
    while at >= 0:
        key = hashlib.sha256(b"authenticast/1 tesla chain" + key).digest() if key else \
            session.keys[at]
        known[at] = key
        at -= 1
    session.keys = known if known.get(0) == material[_TESLA.size:] else {}


def _verify_packet(packet: DataPacket, server: Key, roots: dict[bytes, bool],
                   result: VerificationResult) -> None:
    """Verify a data packet that is not part of a bundle, and record the result.

    `roots` remembers which signed roots of trees are valid.
    """
    session = result.sessions.get(packet.stream)
    announced = session.epochs.get(packet.epoch) if session else None
    if session is None or announced is None or (announced.scheme, announced.algorithm) != (
            packet.scheme, packet.algorithm):
        result.unlike.add(packet.stream_and_sequence)
        return
    if packet.scheme == SECRET_KEY:
        (result.tagged if len(packet.authenticator) == _TAG_BYTES else result.wrong).add(
            packet.stream_and_sequence)
        return
    if packet.scheme == TREE:
        is_right = _is_in_tree(packet, session, server, roots)
    elif packet.scheme == TESLA:
        is_right = _has_mac(packet, session)
    else:
        is_right = server.has_signed("data", session.digest, packet.covered, packet.authenticator,
                                     packet.algorithm)
    (result.right if is_right else result.wrong).add(packet.stream_and_sequence)


def _is_in_tree(packet: DataPacket, session: ObservedStream, server: Key,
                roots: dict[bytes, bool]) -> bool:
    """Return whether a packet's path leads to a root of its tree that the server signed.

    Each step of the path joins a hash with that of its partner.
    """
    length = int.from_bytes(packet.authenticator[:2], "big")
    signature, path = packet.authenticator[2:2 + length], packet.authenticator[2 + length:]
    node = hashlib.sha256(b"\0" + packet.covered).digest()
    position, size = packet.position, packet.bundle
    while size > 1:
        if position ^ 1 < size:
            partner, path = path[:32], path[32:]
            node = hashlib.sha256(b"\1" + (partner + node if position & 1 else node + partner)
                                  ).digest()
        position, size = position // 2, (size + 1) // 2
    statement = _TREE.pack(packet.stream, packet.epoch, packet.sequence - packet.position,
                           packet.bundle) + node
    if statement + signature not in roots:
        roots[statement + signature] = server.has_signed(
            "tree", session.digest, statement, signature, packet.algorithm)
    return not path and roots[statement + signature]


def _has_mac(packet: DataPacket, session: ObservedStream) -> bool:
    key = session.keys.get(int.from_bytes(packet.authenticator[:4], "big"))
    if key is None:
        return False
    covered = (b"authenticast/1 data\0" + session.digest + packet.covered
               + packet.authenticator[:4])
    mac = hmac.digest(hmac.digest(key, b"authenticast/1 tesla mac", "sha256"), covered, "sha256")
    return hmac.compare_digest(mac[:_TAG_BYTES], packet.authenticator[36:])


def _verify_bundles(packets: list[DataPacket], server: Key, result: VerificationResult) -> None:
    """Verify the common signature of each bundle of packets that arrived completely."""
    hashed: Mapping[tuple[int, int], bytes] = {
        packet.stream_and_sequence: hashlib.sha256(packet.covered).digest() for packet in packets}
    for session in result.sessions.values():
        for first, (size, payload) in session.bundles.items():
            parts = [hashed.get((session.stream, first + number)) for number in range(size)]
            if None in parts:
                continue
            head, signature = payload[:_BUNDLE.size], payload[_BUNDLE.size:]
            is_right = server.has_signed("bundle", session.digest, head + b"".join(
                part for part in parts if part is not None), signature, head[1])
            result.bundles_right += is_right
            result.bundles_wrong += not is_right
