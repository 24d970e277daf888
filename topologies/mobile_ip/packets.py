"""Encode, parse and authenticate registration messages of Mobile IPv4, as pure functions.

RFC 5944: Registration Request (section 3.3), Registration Reply (3.4), authentication extensions
(3.5). Addresses are dotted quads, lifetimes seconds, the Identification is a 64-bit integer.
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
    """Octets that are not the expected message.

    `request` has the fixed part of a registration request if only its extensions are broken. So
    the sender can get a reply (codes 70 and 134).
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
    """Reply codes (RFC 5944 section 3.4). For reverse tunnelling see RFC 3024 section 3.4."""

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
    """Extension types. Those below 128 must be understood (RFC 5944 section 1.9)."""

    MOBILE_HOME = 32
    MOBILE_FOREIGN = 33
    FOREIGN_HOME = 34
    ENCAPSULATING_DELIVERY = 130  # RFC 3024 section 3.3


FIRST_SKIPPABLE_KIND = 128
ACCEPTED = frozenset({Code.ACCEPTED, Code.ACCEPTED_NO_SIMULTANEOUS})


@dataclass(frozen=True)
class Extension:
    """An extension: type, length (implied) and value."""

    kind: int
    data: bytes

    def encode(self) -> bytes:
        """Return the octets on the wire."""
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
        """Return whether a flag is set."""
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
    """Parse the extensions up to the end of the message.

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
    """Return the type of an unknown extension that must be understood, None if there is none.

    RFC 5944 section 1.9.
    """
    return next((extension.kind for extension in message.extensions
                 if extension.kind < FIRST_SKIPPABLE_KIND
                 and extension.kind not in ExtensionType.__members__.values()), None)


def as_authorized(message: Message) -> Message:
    """Return the message without the extensions that are for the next hop only.

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
    """Return the HMAC-MD5 of 16 octets (RFC 5944 section 3.5.1).

    It covers the UDP payload with all prior extensions, and the extension's own type, length and
    SPI.
    """
    head = struct.pack("!BBI", kind, 4 + 16, association.spi)
    return hmac.digest(association.key, prior + head, "md5")


def is_authentic(message: Request | Reply, kind: ExtensionType, association: Association) -> bool:
    """Return whether exactly one extension of this kind exists and is correct.

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
