"""Derive EAP session keys outside the machine, from captured RADIUS and EAPOL-Key frames.

The server sends the session key to the access point in the Access-Accept, encrypted with their
shared secret (RFC 2548, 2.4.2 and 2.4.3). The access point uses it to send WEP keys to the station
(IEEE 802.1X-2001, 7.6). No daemon or kernel is queried.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

#: UDP port of RADIUS.
PORT = 1812
#: TCP port of RADIUS inside TLS, and the fixed shared secret there (RFC 6614).
RADSEC_PORT, RADSEC_SECRET = 2083, b"radsec"
_REQUEST, _ACCEPT = 1, 2
_RADIUS_BYTES, _BLOCK = 20, 16
_VENDOR_SPECIFIC, _MICROSOFT, _SEND_KEY, _RECEIVE_KEY = 26, 311, 16, 17
_CALLING_STATION_ID = 31
#: EAPOL type of key frames, the RC4 descriptor, and the layout of such a frame.
_KEY, _RC4 = 3, 1
_KEY_FRAME = struct.Struct("!BBHBH8x16sB16s")


@dataclass(frozen=True)
class SessionKey:
    """The halves of EAP's master session key, as delivered by an Access-Accept."""

    receive: bytes
    send: bytes
    #: The station's Calling-Station-Id, "" if the access point sent none.
    station: str = field(default="", compare=False)


def session_keys(messages: Iterable[bytes], secret: bytes) -> list[SessionKey]:
    """Return the session key of each Access-Accept that has one, in order.

    Args:
        messages: RADIUS messages in order.
        secret: The shared secret.
    """
    requests: dict[int, bytes] = {}
    stations: dict[int, str] = {}
    keys = []
    for message in messages:
        if len(message) < _RADIUS_BYTES:
            continue
        if message[0] == _REQUEST:
            requests[message[1]] = message[4:_RADIUS_BYTES]
            stations[message[1]] = _calling_station(message[_RADIUS_BYTES:])
        elif message[0] == _ACCEPT and message[1] in requests:
            found = dict(_vendor_attributes(message[_RADIUS_BYTES:]))
            if {_SEND_KEY, _RECEIVE_KEY} <= found.keys():
                authenticator = requests[message[1]]
                receive, send = (_decrypt_key(found[kind], secret, authenticator)
                                 for kind in (_RECEIVE_KEY, _SEND_KEY))
                keys.append(SessionKey(receive, send, stations[message[1]]))
    return keys


def _calling_station(attributes: bytes) -> str:
    """Return a request's Calling-Station-Id as a MAC address with colons (RFC 3580, 3.21)."""
    text = dict(_parse_attributes(attributes)).get(_CALLING_STATION_ID, b"")
    return text.decode("ascii", "replace").replace("-", ":").lower()


def _vendor_attributes(attributes: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield Microsoft's vendor attributes by type."""
    for kind, value in _parse_attributes(attributes):
        if kind == _VENDOR_SPECIFIC and value[:4] == struct.pack("!I", _MICROSOFT):
            yield from _parse_attributes(value[4:])


def _parse_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 2 and 2 <= data[1] <= len(data):
        yield data[0], data[2:data[1]]
        data = data[data[1]:]


def _decrypt_key(value: bytes, secret: bytes, authenticator: bytes) -> bytes:
    """Decrypt a key attribute: salt, then blocks masked by MD5 of secret and previous block."""
    salt, hidden = value[:2], value[2:]
    before, plain = authenticator + salt, b""
    for at in range(0, len(hidden), _BLOCK):
        block = hidden[at:at + _BLOCK]
        mask = hashlib.md5(secret + before, usedforsecurity=False).digest()
        plain += bytes(a ^ b for a, b in zip(block, mask, strict=False))
        before = block
    return plain[1:1 + plain[0]] if plain else b""


def wep_keys(frames: Iterable[bytes], known: Sequence[SessionKey]) -> list[bytes]:
    """Return the WEP keys in EAPOL frames that a session key signs, each once.

    Args:
        frames: EAPOL frames, from the version byte on.
        known: The session keys.
    """
    keys: dict[bytes, None] = {}
    for frame in frames:
        if len(frame) < _KEY_FRAME.size:
            continue
        _, kind, length, descriptor, size, vector, _, signature = _KEY_FRAME.unpack_from(frame)
        whole = frame[:4 + length]
        if (kind, descriptor) != (_KEY, _RC4):
            continue
        blank = whole[:_KEY_FRAME.size - 16] + bytes(16) + whole[_KEY_FRAME.size:]
        for session in known:
            if hmac.compare_digest(hmac.digest(session.send, blank, "md5"), signature):
                hidden = whole[_KEY_FRAME.size:][:size]
                keys[rc4(vector + session.receive, hidden) if hidden
                     else session.receive[:size]] = None
    return list(keys)


def rc4(key: bytes, data: bytes) -> bytes:
    """Encrypt or decrypt with RC4.

    Keys may have any size. The library accepts no keys of 48 bytes, as they occur here.
    """
    state, j = list(range(256)), 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    plain = bytearray()
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        plain.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(plain)
