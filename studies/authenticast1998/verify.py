"""Verification of every packet in a client's capture, with the run's public keys only.

Settings are taken from signed messages alone: the handshake and the changes of setting.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from studies.authenticast1998 import captures
from studies.authenticast1998.captures import DataPacket, WireDatagram
from studies.authenticast1998.keys import Key

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
    """A setting that a server signed for an epoch.

    `answers` is the last turn of the dial it obeys.
    """

    scheme: int
    algorithm: int
    bundle: int
    level: float
    material: bytes = b""
    answers: int = 0


@dataclass
class SessionSeen:
    """A stream as the capture shows it.

    `ranges` are what the client's user permits, by the number of the turn of the dial that the
    client signed. Number 0 is the handshake.
    """

    digest: bytes
    stream: int
    ranges: dict[int, tuple[float, float]]
    epochs: dict[int, Announcement]
    bundles: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    keys: dict[int, bytes] = field(default_factory=dict)


@dataclass
class Verified:
    """Packets (stream and sequence number) by result, and complaints about messages.

    `right` and `wrong` have packets by their signature, `tagged` those with a message tag. `unlike`
    has packets of another scheme or algorithm than announced.
    """

    right: set[tuple[int, int]] = field(default_factory=set)
    wrong: set[tuple[int, int]] = field(default_factory=set)
    unlike: set[tuple[int, int]] = field(default_factory=set)
    tagged: set[tuple[int, int]] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)
    sessions: dict[int, SessionSeen] = field(default_factory=dict)
    bundles_right: int = 0
    bundles_wrong: int = 0


def verify_capture(datagrams: Iterable[WireDatagram], server: Key, client: Key) -> Verified:
    """Verify all datagrams of a client's capture."""
    every = list(datagrams)
    result = Verified()
    _verify_handshakes(every, server, client, result)
    for datagram in every:
        _record_announcement(datagram.payload, server, result)
        _record_turn(datagram.payload, client, result)
    packets = [packet for datagram in every
               if datagram.kind == captures.DATA
               and (packet := captures.parse_data_packet(datagram.payload))]
    for session in result.sessions.values():
        _derive_keys(session)
    roots: dict[bytes, bool] = {}
    for packet in packets:
        _verify_packet(packet, server, roots, result)
    _verify_bundles(packets, server, result)
    return result


def _verify_handshakes(every: list[WireDatagram], server: Key, client: Key,
                       result: Verified) -> None:
    hellos = {hashlib.sha256(datagram.payload).digest(): datagram.payload for datagram in every
              if datagram.kind == captures.HELLO}
    for datagram in every:
        ack = datagram.payload
        if datagram.kind != captures.HELLO_ACK:
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
        result.sessions[stream] = SessionSeen(digest, stream, {0: (low / 1e4, high / 1e4)},
                                              {0: _parse_setting(ack, _ACK_SETTING_AT)})


def _split_named(message: bytes, text_at: int) -> tuple[bytes, bytes]:
    """Split a message that ends in a name into its body and its authenticator."""
    end = text_at + 1 + message[text_at]
    return message[:end], message[end:]


def _parse_setting(message: bytes, at: int, material: bytes = b"",
                   answers: int = 0) -> Announcement:
    scheme, algorithm, bundle, level, _ = _SETTING.unpack_from(message, at)
    return Announcement(scheme, algorithm, bundle, level / 1e4, material, answers)


def _record_turn(payload: bytes, client: Key, result: Verified) -> None:
    """Record a turn of the dial, which the client must have signed."""
    session = result.sessions.get(int.from_bytes(payload[1:5], "big"))
    if not payload or payload[0] != captures.CONTROL or session is None:
        return
    body, rest = _split_block(payload, _CONTROL_FIXED)
    if not client.has_signed_block("control", session.digest, body, rest[_TAG_BYTES:]):
        result.complaints.append("a turn of the dial that the client has not signed")
        return
    number = int.from_bytes(payload[_CONTROL_NUMBER_AT:_CONTROL_NUMBER_AT + 8], "big")
    low, high = struct.unpack_from("!HH", payload, _CONTROL_RANGE_AT)
    session.ranges[number] = low / 1e4, high / 1e4


def _split_block(message: bytes, block_at: int) -> tuple[bytes, bytes]:
    """Split a message with a block of bytes at its end into body and authenticator."""
    end = block_at + 2 + int.from_bytes(message[block_at:block_at + 2], "big")
    return message[:end], message[end:]


def _record_announcement(payload: bytes, server: Key, result: Verified) -> None:
    """Record signed changes of setting, bundles and disclosed keys."""
    kind, stream = payload[0] if payload else 0, int.from_bytes(payload[1:5], "big")
    if kind == captures.CHANGE and stream in result.sessions:
        session = result.sessions[stream]
        text_at = _CHANGE_SETTING_AT + 8
        material_at = text_at + 1 + payload[text_at]
        body, rest = _split_block(payload, material_at)
        if not server.has_signed_block("control", session.digest, body, rest[_TAG_BYTES:]):
            result.complaints.append("a change that the server has not signed")
            return
        session.epochs[int.from_bytes(payload[5:9], "big")] = _parse_setting(
            payload, _CHANGE_SETTING_AT, body[material_at + 2:],
            int.from_bytes(payload[_CHANGE_ANSWERS_AT:_CHANGE_ANSWERS_AT + 8], "big"))
    elif kind == captures.BUNDLE:
        _, _, stream, _, first, size = _BUNDLE.unpack_from(payload)
        if stream in result.sessions:
            result.sessions[stream].bundles[first] = size, payload
    elif kind == captures.DISCLOSE and stream in result.sessions:
        result.sessions[stream].keys[int.from_bytes(payload[9:13], "big")] = payload[13:45]
    elif kind == captures.DATA and (packet := captures.parse_data_packet(payload)) and (
            packet.scheme == captures.TESLA and packet.stream in result.sessions):
        held = packet.authenticator
        parameters = result.sessions[packet.stream].epochs.get(packet.epoch)
        if parameters is not None and len(parameters.material) >= _TESLA.size:
            delay = _TESLA.unpack_from(parameters.material)[3]
            interval = int.from_bytes(held[:4], "big")
            result.sessions[packet.stream].keys.setdefault(max(0, interval - delay), held[4:36])


def _derive_keys(session: SessionSeen) -> None:
    """Derive all TESLA keys, if the last disclosed one leads to the signed key."""
    material = next((epoch.material for epoch in session.epochs.values()
                     if epoch.scheme == captures.TESLA), b"")
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
                   result: Verified) -> None:
    session = result.sessions.get(packet.stream)
    announced = session.epochs.get(packet.epoch) if session else None
    if session is None or announced is None or (announced.scheme, announced.algorithm) != (
            packet.scheme, packet.algorithm):
        result.unlike.add(packet.stream_and_sequence)
        return
    if packet.scheme == captures.SECRET_KEY:
        (result.tagged if len(packet.authenticator) == _TAG_BYTES else result.wrong).add(
            packet.stream_and_sequence)
        return
    if packet.scheme == captures.TREE:
        is_right = _is_in_tree(packet, session, server, roots)
    elif packet.scheme == captures.TESLA:
        is_right = _has_mac(packet, session)
    else:
        is_right = server.has_signed("data", session.digest, packet.said, packet.authenticator,
                                     packet.algorithm)
    (result.right if is_right else result.wrong).add(packet.stream_and_sequence)


def _is_in_tree(packet: DataPacket, session: SessionSeen, server: Key,
                roots: dict[bytes, bool]) -> bool:
    length = int.from_bytes(packet.authenticator[:2], "big")
    signature, path = packet.authenticator[2:2 + length], packet.authenticator[2 + length:]
    node = hashlib.sha256(b"\0" + packet.said).digest()
    position, size = packet.position, packet.bundle
    while size > 1:
        if position ^ 1 < size:
            partner, path = path[:32], path[32:]
            node = hashlib.sha256(b"\1" + (partner + node if position & 1 else node + partner)
                                  ).digest()
        position, size = position // 2, (size + 1) // 2
    said = _TREE.pack(packet.stream, packet.epoch, packet.sequence - packet.position,
                      packet.bundle) + node
    if said + signature not in roots:
        roots[said + signature] = server.has_signed("tree", session.digest, said, signature,
                                                    packet.algorithm)
    return not path and roots[said + signature]


def _has_mac(packet: DataPacket, session: SessionSeen) -> bool:
    key = session.keys.get(int.from_bytes(packet.authenticator[:4], "big"))
    if key is None:
        return False
    said = b"authenticast/1 data\0" + session.digest + packet.said + packet.authenticator[:4]
    made = hmac.digest(hmac.digest(key, b"authenticast/1 tesla mac", "sha256"), said, "sha256")
    return hmac.compare_digest(made[:_TAG_BYTES], packet.authenticator[36:])


def _verify_bundles(packets: list[DataPacket], server: Key, result: Verified) -> None:
    """Verify the signature of each bundle whose packets all arrived."""
    hashed: Mapping[tuple[int, int], bytes] = {
        packet.stream_and_sequence: hashlib.sha256(packet.said).digest() for packet in packets}
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
