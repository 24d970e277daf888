"""Build and parse a RADIUS client's packets that carry EAP (RFC 2865, RFC 3579).

Standard library only: the module runs inside the machine, and reads captures outside.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import ipaddress
import struct
from dataclasses import dataclass, field

REQUEST, ACCEPT, REJECT, CHALLENGE = 1, 2, 3, 11
_HEADER_BYTES, _ATTRIBUTE_BYTES = 20, 253
_USER_NAME, _NAS_ADDRESS, _SERVICE, _MTU, _STATE, _CALLING, _PORT_TYPE, _INFO = (
    1, 4, 6, 12, 24, 31, 61, 77)
_EAP_MESSAGE, _AUTHENTICATOR = 79, 80
_WIRELESS, _FRAMED = 19, 2
_RATE = b"CONNECT 11Mbps 802.11b"
#: Framed-MTU of EAP packets in bytes: the value that hostapd sends.
_FRAMED_MTU = 1400


@dataclass(frozen=True)
class RadiusPacket:
    """A parsed RADIUS packet, with its EAP message reassembled and its State."""

    code: int
    identifier: int
    authenticator: bytes
    eap: bytes
    state: bytes
    attributes: dict[int, bytes] = field(default_factory=dict)

    @property
    def user(self) -> str:
        """Return the User-Name attribute."""
        return self.attributes.get(_USER_NAME, b"").decode("utf-8", "replace")


def parse_packet(data: bytes) -> RadiusPacket | None:
    """Parse a datagram, or return None if it holds no complete packet."""
    if len(data) < _HEADER_BYTES:
        return None
    code, identifier, length = struct.unpack_from("!BBH", data)
    if not _HEADER_BYTES <= length <= len(data):
        return None
    attributes: dict[int, bytes] = {}
    place = _HEADER_BYTES
    while place < length:
        if place + 2 > length or not 2 <= data[place + 1] <= length - place:
            return None
        kind, size = data[place], data[place + 1]
        attributes[kind] = attributes.get(kind, b"") + data[place + 2:place + size]
        place += size
    return RadiusPacket(code, identifier, data[4:20], attributes.get(_EAP_MESSAGE, b""),
                        attributes.get(_STATE, b""), attributes)


def build_request(identifier: int, authenticator: bytes, eap: bytes, *, user: str, state: bytes,
                  calling: str, nas: str, secret: bytes) -> bytes:
    """Build an Access-Request with a Message-Authenticator (RFC 3579, 3.2).

    The packet has the attributes that hostap's RADIUS client sends: a server reads and checks each.

    Args:
        identifier: The packet's Identifier.
        authenticator: The Request Authenticator, 16 bytes.
        eap: The EAP packet; it is split into EAP-Message attributes.
        user: The User-Name.
        state: The State of the last challenge; empty for the first request.
        calling: The Calling-Station-Id.
        nas: The NAS-IP-Address.
        secret: The shared secret.
    """
    body = b"".join((
        _station_attributes(user, calling, nas),
        *(_encode_attribute(_EAP_MESSAGE, eap[place:place + _ATTRIBUTE_BYTES])
          for place in range(0, len(eap), _ATTRIBUTE_BYTES)),
        _encode_attribute(_STATE, state) if state else b""))
    unsigned = _encode_attribute(_AUTHENTICATOR, bytes(16))
    head = struct.pack("!BBH", REQUEST, identifier,
                       _HEADER_BYTES + len(body) + len(unsigned)) + authenticator
    digest = hmac.digest(secret, head + body + unsigned, "md5")
    return head + body + _encode_attribute(_AUTHENTICATOR, digest)


@functools.cache
def _station_attributes(user: str, calling: str, nas: str) -> bytes:
    """Return the attributes that all requests of one station share."""
    return b"".join((
        _encode_attribute(_USER_NAME, user.encode()),
        _encode_attribute(_NAS_ADDRESS, ipaddress.ip_address(nas).packed),
        _encode_attribute(_CALLING, calling.encode()),
        _encode_attribute(_PORT_TYPE, struct.pack("!I", _WIRELESS)),
        _encode_attribute(_MTU, struct.pack("!I", _FRAMED_MTU)),
        _encode_attribute(_SERVICE, struct.pack("!I", _FRAMED)), _encode_attribute(_INFO, _RATE)))


def is_answer(data: bytes, authenticator: bytes, secret: bytes) -> bool:
    """Return whether a datagram has a valid Response Authenticator (RFC 2865, 3)."""
    expected = hashlib.md5(data[:4] + authenticator + data[_HEADER_BYTES:] + secret,
                           usedforsecurity=False).digest()
    return hmac.compare_digest(expected, data[4:_HEADER_BYTES])


def _encode_attribute(kind: int, value: bytes) -> bytes:
    return bytes((kind, len(value) + 2)) + value
