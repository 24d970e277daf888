"""Mobile IP agent discovery: encode and parse ICMP advertisements and solicitations.

RFC 1256 defines the ICMP messages, RFC 5944 section 2 the additions of Mobile IP. Pure functions on
the ICMP message, without the IP header.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, replace
from socket import inet_aton, inet_ntoa

from topologies.mobile_ip.ipv4 import internet_checksum
from topologies.mobile_ip.packets import MessageError

ADVERTISEMENT = 9
SOLICITATION = 10
ALL_SYSTEMS = "224.0.0.1"
ALL_ROUTERS = "224.0.0.2"
BROADCAST = "255.255.255.255"
# The number after 0xffff is 256: a lower one means that the agent restarted (RFC 5944 section
# 2.3.2).
SEQUENCE_AFTER_ROLLOVER = 256

_PADDING = 0
_MOBILITY = 16
_PREFIX_LENGTHS = 19
_HEAD = struct.Struct("!BBHBBH")
_ROUTER = struct.Struct("!4si")
_EXTENSION = struct.Struct("!BBHHH")
# Code 16: an agent that forwards no common traffic (RFC 5944 section 2.1).
_CODES = frozenset({0, 16})


class AgentFlag(enum.IntFlag):
    """The flags of an Agent Advertisement's mobility extension (RFC 5944 section 2.1.1).

    For T see RFC 3024 section 3.1.
    """

    REGISTRATION_REQUIRED = 0x8000
    BUSY = 0x4000
    HOME_AGENT = 0x2000
    FOREIGN_AGENT = 0x1000
    MINIMAL_ENCAPSULATION = 0x0800
    GRE = 0x0400
    R_RESERVED = 0x0200
    REVERSE_TUNNEL = 0x0100


@dataclass(frozen=True)
class Advertisement:
    """An Agent Advertisement (RFC 5944 section 2.1). Lifetimes are in seconds.

    - `sequence`: its number since the agent started
    - `registration_lifetime_s`: longest registration that the agent accepts
    - `services`: flags, such as home agent and foreign agent
    - `care_of`: care-of addresses
    - `routers`: addresses of routers with their preference
    - `lifetime_s`: how long the advertisement is valid
    - `prefix_lengths`: prefix lengths of the routers' addresses
    - `code`: 0, or 16 if the agent routes no other traffic
    """

    sequence: int
    registration_lifetime_s: int
    services: int
    care_of: tuple[str, ...] = ()
    routers: tuple[tuple[str, int], ...] = ()
    lifetime_s: int = 1800
    prefix_lengths: tuple[int, ...] = ()
    code: int = 0

    def offers(self, service: AgentFlag) -> bool:
        """Return whether the agent offers a service, such as being a foreign agent."""
        return bool(self.services & service)

    def encode(self) -> bytes:
        """Return the advertisement as an ICMP message."""
        head = _HEAD.pack(ADVERTISEMENT, self.code, 0, len(self.routers), 2, self.lifetime_s)
        routers = b"".join(_ROUTER.pack(inet_aton(address), preference)
                           for address, preference in self.routers)
        extension = _EXTENSION.pack(_MOBILITY, 6 + 4 * len(self.care_of), self.sequence,
                                    self.registration_lifetime_s, self.services)
        extension += b"".join(map(inet_aton, self.care_of))
        if self.prefix_lengths:
            extension += bytes((_PREFIX_LENGTHS, len(self.prefix_lengths), *self.prefix_lengths))
        return _with_checksum(head + routers + extension)


def encode_solicitation() -> bytes:
    """Return an Agent Solicitation, which equals a Router Solicitation (RFC 5944, 2.2)."""
    return _with_checksum(struct.pack("!BBHI", SOLICITATION, 0, 0, 0))


def check_solicitation(data: bytes) -> None:
    """Raise MessageError unless the data is a solicitation (RFC 1256 section 4.3)."""
    if len(data) < 8 or data[0] != SOLICITATION or data[1] != 0:
        raise MessageError("no solicitation")
    if internet_checksum(data):
        raise MessageError("ICMP checksum is wrong")


def parse_advertisement(data: bytes) -> Advertisement:
    """Parse an agent's advertisement.

    Raises:
        MessageError: The message is invalid, or a plain router's.
    """
    if len(data) < _HEAD.size or data[0] != ADVERTISEMENT or data[1] not in _CODES:
        raise MessageError("no advertisement")
    if internet_checksum(data):
        raise MessageError("ICMP checksum is wrong")
    _, code, _, count, entry_words, lifetime = _HEAD.unpack_from(data)
    end = _HEAD.size + count * entry_words * 4
    if entry_words < 2 or len(data) < end:
        raise MessageError("router addresses are cut short")
    routers = [_ROUTER.unpack_from(data, start)
               for start in range(_HEAD.size, end, entry_words * 4)]
    advertisement = _parse_extensions(data[end:])
    return replace(advertisement, code=code, lifetime_s=lifetime,
                   routers=tuple((inet_ntoa(address), preference)
                                 for address, preference in routers))


def _parse_extensions(data: bytes) -> Advertisement:
    advertisement: Advertisement | None = None
    prefixes: tuple[int, ...] = ()
    while data:
        if data[0] == _PADDING:  # one octet, without a length (section 2.1.3)
            data = data[1:]
            continue
        if len(data) < 2 or len(data) < 2 + data[1]:
            raise MessageError(f"extension of type {data[0]} is cut short")
        end = 2 + data[1]
        if data[0] == _MOBILITY:
            advertisement = _parse_mobility(data[:end])
        elif data[0] == _PREFIX_LENGTHS:
            prefixes = tuple(data[2:end])
        data = data[end:]
    if advertisement is None:
        raise MessageError("no mobility extension: a router, not an agent")
    return replace(advertisement, prefix_lengths=prefixes)


def _parse_mobility(data: bytes) -> Advertisement:
    if len(data) < _EXTENSION.size or (len(data) - _EXTENSION.size) % 4:
        raise MessageError(f"mobility extension of {len(data)} octets")
    _, _, sequence, lifetime, services = _EXTENSION.unpack_from(data)
    care_of = tuple(inet_ntoa(data[n:n + 4]) for n in range(_EXTENSION.size, len(data), 4))
    if services & AgentFlag.FOREIGN_AGENT and not care_of:
        # RFC 5944 section 2.1.1: at least one where the F bit is set.
        raise MessageError("a foreign agent without a care-of address")
    return Advertisement(sequence, lifetime, services, care_of)


def next_sequence(sequence: int) -> int:
    """Return the sequence number after this one (RFC 5944 section 2.3.2)."""
    return SEQUENCE_AFTER_ROLLOVER if sequence == 0xFFFF else sequence + 1


def _with_checksum(message: bytes) -> bytes:
    return message[:2] + struct.pack("!H", internet_checksum(message)) + message[4:]
