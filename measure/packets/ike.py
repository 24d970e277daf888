"""Read the proposals of IKE from the first message of a negotiation, which is not encrypted.

The initiator offers proposals in its order of preference (RFC 7296, 3.3; RFC 2408, 3.5 and 3.6).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from measure.capture import tshark

#: UDP port of IKE.
IKE_PORT = 500
#: UDP port of IKE and ESP behind a router with NAT, and with MOBIKE.
TRAVERSAL_PORT = 4500
#: Header: SPIs of initiator and responder, next payload, version, exchange, flags, message ID,
#: length. A payload begins with the type of the next one and its length.
_HEADER, _PAYLOAD = struct.Struct("!8s8sBBBBII"), struct.Struct("!BBH")
_NO_RESPONDER = bytes(8)
#: Type of the payload with proposals, by version, and what precedes its proposals (IKEv1: DOI and
#: situation).
_SA, _SA_HEAD_BYTES = {1: 1, 2: 33}, {1: 8, 2: 0}
#: Fields of a proposal before its SPI; position of the SPI's length among them.
_PROPOSAL_BYTES, _SPI_SIZE_AT = 4, 2
#: Fields of a transform before its attributes.
_TRANSFORM_BYTES = 4
#: Types of transforms of IKEv2: cipher, PRF, integrity, group, and the first additional key
#: exchange (RFC 9370).
_ENCR, _PRF, _INTEG, _GROUP, _ADDITIONAL = 1, 2, 3, 4, 6
#: Attributes: those of IKEv1 (cipher, hash, group), and the key length of both versions. The first
#: bit says that the value follows in two bytes.
_CIPHER_1, _HASH_1, _GROUP_1, _KEY_LENGTH, _SHORT = 1, 2, 4, 14, 0x8000


@dataclass(frozen=True)
class IkeOffer:
    """The proposals of an initiator's first message in strongSwan's syntax, and its time in s."""

    time_s: float
    proposals: tuple[str, ...]


def parse_offer(time_s: float, message: bytes) -> IkeOffer | None:
    """Return what an initiator's first IKE message offers, or None for any other message."""
    if len(message) < _HEADER.size:
        return None
    _, responder, kind, version, *_ = _HEADER.unpack_from(message)
    major = version >> 4
    if responder != _NO_RESPONDER or major not in _SA:
        return None
    at = _HEADER.size
    while kind and at + _PAYLOAD.size <= len(message):
        following, _, size = _PAYLOAD.unpack_from(message, at)
        if kind == _SA[major]:
            body = message[at + _PAYLOAD.size + _SA_HEAD_BYTES[major]:at + size]
            read = _read_version_2 if major == max(_SA) else _read_version_1
            return IkeOffer(time_s, tuple(read(body)))
        kind, at = following, at + max(size, _PAYLOAD.size)
    return None


def read_exchange(message: bytes) -> int | None:
    """Return the type of exchange of an IKE message, or None for a message that is cut short."""
    return _HEADER.unpack_from(message)[4] if len(message) >= _HEADER.size else None


def _split_blocks(data: bytes) -> Iterator[bytes]:
    """Yield the bodies of proposals or transforms, each of which states its own length."""
    at = 0
    while at + _PAYLOAD.size <= len(data):
        _, _, size = _PAYLOAD.unpack_from(data, at)
        yield data[at + _PAYLOAD.size:at + size]
        at += max(size, _PAYLOAD.size)


def _split_transforms(data: bytes) -> Iterator[list[bytes]]:
    """Yield a list of transforms for each proposal, without proposals that are cut short."""
    for proposal in _split_blocks(data):
        if len(proposal) >= _PROPOSAL_BYTES:
            yield [transform for transform in _split_blocks(
                proposal[_PROPOSAL_BYTES + proposal[_SPI_SIZE_AT]:])
                if len(transform) >= _TRANSFORM_BYTES]


def _read_version_2(data: bytes) -> Iterator[str]:
    """Yield the proposals of IKEv2.

    The policy's proposals have one transform of a type. Where one has several, `+` joins the text
    with the first of each type and a text for each further transform.
    """
    for transforms in _split_transforms(data):
        first, further = dict[int, bytes](), list[bytes]()
        for transform in transforms:
            if transform[0] in first:
                further.append(transform)
            else:
                first[transform[0]] = transform
        yield "+".join(map(_format_version_2, (
            first, *({**first, transform[0]: transform} for transform in further))))


def _format_version_2(transforms: Mapping[int, bytes]) -> str:
    """Format transforms of IKEv2, one of each type, as a proposal."""
    numbers = {kind: str(int.from_bytes(each[2:4], "big")) for kind, each in transforms.items()}
    bits = next((size for each in transforms.values()
                 if (size := _read_attributes(each[4:]).get(_KEY_LENGTH))), "")
    return tshark.ikev2_proposal(
        numbers.get(_ENCR, ""), numbers.get(_INTEG, ""), numbers.get(_PRF, ""),
        numbers.get(_GROUP, ""), bits, ",".join(map(str, numbers)), numbers.get(_ADDITIONAL, ""))


def _read_version_1(data: bytes) -> Iterator[str]:
    """Yield the proposals of IKEv1, which are transforms of one proposal."""
    for transforms in _split_transforms(data):
        for transform in transforms:
            values = _read_attributes(transform[4:])
            yield tshark.ikev1_proposal(*(values.get(kind, "") for kind in (
                _CIPHER_1, _HASH_1, _GROUP_1, _KEY_LENGTH)))


def _read_attributes(data: bytes) -> dict[int, str]:
    """Return the attributes of a transform whose value has two bytes."""
    found, at = dict[int, str](), 0
    while at + 4 <= len(data):
        kind, value = struct.unpack_from("!HH", data, at)
        if kind & _SHORT:
            found[kind & ~_SHORT] = str(value)
            at += 4
        else:
            at += 4 + value
    return found
