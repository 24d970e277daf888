"""Encode, parse and authenticate registration messages of Mobile IPv4.

RFC 5944: Registration Request (section 3.3), Registration Reply (3.4), authentication extensions
(3.5). `make_identification` and `is_fresh_identification` make and check Identifications, which
prevent replay. Addresses are dotted quads, lifetimes seconds, the Identification is a 64-bit
integer. All functions are pure. Agents and mobile nodes use them.
"""

from __future__ import annotations

import enum
import hmac
import struct
from dataclasses import dataclass, replace
from socket import inet_aton, inet_ntoa
from typing import TypeVar

REQUEST = 1
REPLY = 3
PORT = 434
INFINITE_LIFETIME = 0xFFFF
_REQUEST = struct.Struct("!BBH4s4s4sQ")
_REPLY = struct.Struct("!BBH4s4sQ")


class MessageError(ValueError):
    """An error: bytes are not the expected Mobile IP message.

    `request` has the fixed part of a registration request if only its extensions are broken. So the
    sender can get a reply (codes 70 and 134).
    """

    def __init__(self, what: str, request: Request | None = None) -> None:
        super().__init__(what)
        self.request = request


class RequestFlag(enum.IntFlag):
    """Flags of a registration request (RFC 5944 section 3.3). For T see RFC 3024 section 3.2."""

    SIMULTANEOUS = 0x80
    BROADCAST = 0x40
    DECAPSULATED_BY_NODE = 0x20
    MINIMAL_ENCAPSULATION = 0x10
    GRE = 0x08
    R_RESERVED = 0x04
    REVERSE_TUNNEL = 0x02
    X_RESERVED = 0x01


class Code(enum.IntEnum):
    """Codes of a Registration Reply (RFC 5944 section 3.4).

    For reverse tunnelling see RFC 3024 section 3.4.
    """

    ACCEPTED = 0
    ACCEPTED_NO_SIMULTANEOUS = 1
    FA_UNSPECIFIED = 64
    FA_PROHIBITED = 65
    FA_RESOURCES = 66
    FA_NODE_AUTHENTICATION = 67
    FA_HOME_AUTHENTICATION = 68
    FA_LIFETIME_TOO_LONG = 69
    FA_MALFORMED_REQUEST = 70
    FA_MALFORMED_REPLY = 71
    FA_ENCAPSULATION = 72
    FA_NO_REVERSE_TUNNEL = 74
    FA_REVERSE_TUNNEL_MANDATORY = 75
    FA_TOO_DISTANT = 76
    FA_CARE_OF = 77
    FA_TIMEOUT = 78
    FA_DELIVERY_STYLE = 79
    HA_UNSPECIFIED = 128
    HA_PROHIBITED = 129
    HA_RESOURCES = 130
    HA_NODE_AUTHENTICATION = 131
    HA_FOREIGN_AUTHENTICATION = 132
    HA_IDENTIFICATION = 133
    HA_MALFORMED_REQUEST = 134
    HA_UNKNOWN_AGENT = 136
    HA_NO_REVERSE_TUNNEL = 137
    HA_REVERSE_TUNNEL_MANDATORY = 138
    HA_ENCAPSULATION = 139


class ExtensionType(enum.IntEnum):
    """Types of Mobile IP message extensions.

    Those below 128 must be understood (RFC 5944 section 1.9).
    """

    MOBILE_HOME = 32
    MOBILE_FOREIGN = 33
    FOREIGN_HOME = 34
    ENCAPSULATING_DELIVERY = 130  # RFC 3024 section 3.3


FIRST_SKIPPABLE_KIND = 128
ACCEPTED = frozenset({Code.ACCEPTED, Code.ACCEPTED_NO_SIMULTANEOUS})


@dataclass(frozen=True)
class Extension:
    """An extension of a Mobile IP message: type, length (implied) and value."""

    kind: int
    data: bytes

    def encode(self) -> bytes:
        """Return the bytes of the extension on the wire."""
        return bytes((self.kind, len(self.data))) + self.data


@dataclass(frozen=True)
class Request:
    """A Registration Request (RFC 5944 section 3.3)."""

    flags: int
    lifetime_s: int
    home_address: str
    home_agent: str
    care_of: str
    identification: int
    extensions: tuple[Extension, ...] = ()

    def encode(self) -> bytes:
        """Return the UDP payload."""
        fixed = _REQUEST.pack(REQUEST, self.flags, self.lifetime_s, inet_aton(self.home_address),
                              inet_aton(self.home_agent), inet_aton(self.care_of),
                              self.identification)
        return fixed + b"".join(extension.encode() for extension in self.extensions)

    def has_flag(self, flag: RequestFlag) -> bool:
        """Return whether a flag of the request is set."""
        return bool(self.flags & flag)


@dataclass(frozen=True)
class Reply:
    """A Registration Reply (RFC 5944 section 3.4)."""

    code: int
    lifetime_s: int
    home_address: str
    home_agent: str
    identification: int
    extensions: tuple[Extension, ...] = ()

    def encode(self) -> bytes:
        """Return the UDP payload."""
        fixed = _REPLY.pack(REPLY, self.code, self.lifetime_s, inet_aton(self.home_address),
                            inet_aton(self.home_agent), self.identification)
        return fixed + b"".join(extension.encode() for extension in self.extensions)

    @property
    def is_accepted(self) -> bool:
        """Return whether the registration was accepted."""
        return self.code in ACCEPTED


@dataclass(frozen=True)
class Association:
    """A mobility security association: a key and its index (SPI)."""

    spi: int
    key: bytes


Message = TypeVar("Message", Request, Reply)


def parse_message(data: bytes) -> Request | Reply:
    """Parse a registration message.

    Raises:
        MessageError: The data is anything else.
    """
    if not data:
        raise MessageError("empty message")
    if data[0] == REQUEST:
        return parse_request(data)
    if data[0] == REPLY:
        return parse_reply(data)
    raise MessageError(f"message type {data[0]}")


def parse_request(data: bytes) -> Request:
    """Parse a registration request.

    Raises:
        MessageError: The data is no valid request.
    """
    if len(data) < _REQUEST.size or data[0] != REQUEST:
        raise MessageError("no registration request")
    _, flags, lifetime, home, agent, care_of, identification = _REQUEST.unpack_from(data)
    request = Request(flags, lifetime, inet_ntoa(home), inet_ntoa(agent), inet_ntoa(care_of),
                      identification)
    try:
        return replace(request, extensions=parse_extensions(data[_REQUEST.size:]))
    except MessageError as error:
        raise MessageError(str(error), request) from None


def parse_reply(data: bytes) -> Reply:
    """Parse a registration reply.

    Raises:
        MessageError: The data is no valid reply.
    """
    if len(data) < _REPLY.size or data[0] != REPLY:
        raise MessageError("no registration reply")
    _, code, lifetime, home, agent, identification = _REPLY.unpack_from(data)
    return Reply(code, lifetime, inet_ntoa(home), inet_ntoa(agent), identification,
                 parse_extensions(data[_REPLY.size:]))


def parse_extensions(data: bytes) -> tuple[Extension, ...]:
    """Parse the extensions up to the end of a registration message.

    Raises:
        MessageError: An extension is cut short.
    """
    extensions = []
    while data:
        if len(data) < 2 or len(data) < 2 + data[1]:
            raise MessageError(f"extension of type {data[0]} is cut short")
        end = 2 + data[1]
        extensions.append(Extension(data[0], data[2:end]))
        data = data[end:]
    return tuple(extensions)


def unknown_kind(message: Request | Reply) -> int | None:
    """Return the type of an unknown extension that must be understood, None if none.

    RFC 5944 section 1.9.
    """
    return next((extension.kind for extension in message.extensions
                 if extension.kind < FIRST_SKIPPABLE_KIND
                 and extension.kind not in ExtensionType.__members__.values()), None)


def as_authorized(message: Message) -> Message:
    """Return a registration message without the extensions that are for the next hop only.

    These follow the Mobile-Home extension, and a relaying agent removes them (RFC 5944 sections
    3.7.2.2 and 3.7.3.2). What precedes may not be changed on the way. Without a Mobile-Home
    extension only the next hop's authenticators are removed.
    """
    kinds = [extension.kind for extension in message.extensions]
    if ExtensionType.MOBILE_HOME in kinds:
        end = kinds.index(ExtensionType.MOBILE_HOME) + 1
        return replace(message, extensions=message.extensions[:end])
    return replace(message, extensions=tuple(
        extension for extension in message.extensions
        if extension.kind not in {ExtensionType.MOBILE_FOREIGN, ExtensionType.FOREIGN_HOME}))


def add_authentication(message: Message, kind: ExtensionType, association: Association) -> Message:
    """Return the message with an authentication extension appended (RFC 5944 section 3.5)."""
    spi = struct.pack("!I", association.spi)
    digest = compute_authenticator(message.encode(), kind, association)
    return replace(message, extensions=(*message.extensions, Extension(kind, spi + digest)))


def compute_authenticator(prior: bytes, kind: int, association: Association) -> bytes:
    """Return the authenticator of a registration message: HMAC-MD5, 16 bytes (RFC 5944, 3.5.1).

    It covers the UDP payload with all prior extensions, and the extension's own type, length and
    SPI.
    """
    head = struct.pack("!BBI", kind, 4 + 16, association.spi)
    return hmac.digest(association.key, prior + head, "md5")


def is_authentic(message: Request | Reply, kind: ExtensionType, association: Association) -> bool:
    """Return whether a message has exactly one authentication extension of a kind, a valid one.

    RFC 5944 section 3.8.2.1.
    """
    places = [n for n, extension in enumerate(message.extensions) if extension.kind == kind]
    if len(places) != 1:
        return False
    data = message.extensions[places[0]].data
    if len(data) < 4 or struct.unpack_from("!I", data)[0] != association.spi:
        return False
    prior = replace(message, extensions=message.extensions[:places[0]]).encode()
    return hmac.compare_digest(data[4:], compute_authenticator(prior, kind, association))


# --- Replay protection by timestamps (RFC 5944 section 5.7.1) ---
# Times are seconds since 1970 (UNIX). An Identification is in NTP format: seconds since 1900 in its
# high 32 bits, and a binary fraction in its low ones.

_NTP_EPOCH = 2_208_988_800
_SECOND = 1 << 32
_LOW = _SECOND - 1
# RFC 5944 section 5.7.1: the default is 7 s, and more than 3 s is recommended.
WINDOW_S = 7.0


def make_identification(now_s: float, noise: int = 0) -> int:
    """Return the time as the Identification of a request, with `noise` in its low 10 bits.

    These bits are below the clock's precision. The Identification protects against replay.
    """
    whole = int(now_s)
    fraction = int((now_s - whole) * _SECOND)
    low = (fraction & ~0x3FF) | (noise & 0x3FF)
    return ((whole + _NTP_EPOCH) % _SECOND) << 32 | low


def seconds_from_identification(value: int) -> float:
    """Return the time in an Identification, between 1968 and 2104 (RFC 4330 section 3)."""
    high = value >> 32
    if high < _SECOND >> 1:
        high += _SECOND
    return high - _NTP_EPOCH + (value & _LOW) / _SECOND


def is_fresh_identification(value: int, now_s: float, last: int) -> bool:
    """Return whether an Identification is close to our time and later than the last accepted."""
    return abs(seconds_from_identification(value) - now_s) <= WINDOW_S and value > last


def make_resynchronisation(value: int, now_s: float) -> int:
    """Return the Identification of a denial with code 133 (clocks differ).

    Its high half is our time, its low half the request's.
    """
    return (make_identification(now_s) & ~_LOW) | (value & _LOW)


def is_answered_identification(reply: int, request: int) -> bool:
    """Return whether a registration reply belongs to a request, by their Identifications.

    Their low halves must be equal (RFC 5944 section 3.6.2.1).
    """
    return reply & _LOW == request & _LOW
