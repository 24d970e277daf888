"""Send a session key to a KDC in clear, as an injected fault.

A check must then find the key in the capture. The command is `python3 -m
studies.krb5today.key_disclosure REALM USER CACHE ADDRESS`. The key is that of the ticket in the
cache of MIT krb5. The program waits for the KDC's answer, which requires pre-authentication as for
any first request. It uses the standard library only.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

_PORT, _ANSWER_S = 88, 10.0
_APPLICATION, _CONTEXT, _SEQUENCE = 0x60, 0xA0, 0x30
_INTEGER, _BITS, _OCTETS, _TIME, _TEXT = 0x02, 0x03, 0x04, 0x18, 0x1B
_AS_REQUEST, _USER_NAME, _SERVICE_NAME, _AES256_SHA1 = 10, 1, 2, 18
#: Unassigned type of pre-authentication data for local use (RFC 4120, 5.2.7).
_OWN = -17
_LONG = 0x80
#: Realm of the configuration entries that MIT krb5 stores as tickets in a cache.
_NOTES = b"X-CACHECONF:"


def create_request(realm: str, user: str, session_key_bytes: bytes) -> bytes:
    """Encode an AS-REQ without pre-authentication that contains a session key in clear.

    Args:
        realm: the client's realm.
        user: name of the user.
        session_key_bytes: the session key, sent as pre-authentication data of an unassigned type.
    """
    data = _encode_tlv(_SEQUENCE, _encode_field(1, _encode_integer(_OWN))
                       + _encode_field(2, _encode_tlv(_OCTETS, session_key_bytes)))
    body = _encode_tlv(_SEQUENCE, b"".join((
        _encode_field(0, _encode_tlv(_BITS, bytes(5))),
        _encode_field(1, _encode_name(_USER_NAME, user)),
        _encode_field(2, _encode_tlv(_TEXT, realm.encode())),
        _encode_field(3, _encode_name(_SERVICE_NAME, "krbtgt", realm)),
        _encode_field(5, _encode_tlv(_TIME, b"20370101000000Z")),
        _encode_field(7, _encode_integer(1)),
        _encode_field(8, _encode_tlv(_SEQUENCE, _encode_integer(_AES256_SHA1))))))
    return _encode_tlv(_APPLICATION | _AS_REQUEST, _encode_tlv(_SEQUENCE, b"".join((
        _encode_field(1, _encode_integer(5)), _encode_field(2, _encode_integer(_AS_REQUEST)),
        _encode_field(3, _encode_tlv(_SEQUENCE, data)),
        _encode_field(4, body)))))


def session_key(cache: bytes) -> bytes:
    """Return the session key of the first ticket in a ticket cache of MIT krb5 (file format 4).

    Raises:
        ValueError: the cache has no ticket.
    """
    at = 4 + int.from_bytes(cache[2:4])
    _, at = _parse_principal(cache, at)
    while at < len(cache):
        _, at = _parse_principal(cache, at)
        realm, at = _parse_principal(cache, at)
        size = int.from_bytes(cache[at + 2:at + 6])
        if realm != _NOTES:
            return cache[at + 6:at + 6 + size]
        at = _credential_end(cache, at + 6 + size)
    raise ValueError("no ticket in the cache")


def _credential_end(cache: bytes, at: int) -> int:
    """Return where a ticket's entry in the cache ends, given the end of its key.

    Times, flags, addresses, authorization data and two tickets follow the key.
    """
    at += 4 * 4 + 1 + 4
    for _ in range(2):
        count, at = int.from_bytes(cache[at:at + 4]), at + 4
        for _ in range(count):
            at += 2 + 4 + int.from_bytes(cache[at + 2:at + 6])
    for _ in range(2):
        at += 4 + int.from_bytes(cache[at:at + 4])
    return at


def _parse_principal(cache: bytes, at: int) -> tuple[bytes, int]:
    """Return the realm of a principal in the cache, and where the principal ends."""
    parts = list(_parse_texts(cache, at + 8, 1 + int.from_bytes(cache[at + 4:at + 8])))
    return parts[0][0], parts[-1][1]


def _parse_texts(cache: bytes, at: int, count: int) -> Iterator[tuple[bytes, int]]:
    """Yield each text at a position of the cache, and the position behind the text."""
    for _ in range(count):
        end = at + 4 + int.from_bytes(cache[at:at + 4])
        yield cache[at + 4:end], end
        at = end


def _encode_tlv(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < _LONG:
        return bytes((tag, length)) + content
    size = (length.bit_length() + 7) // 8
    return bytes((tag, _LONG | size)) + length.to_bytes(size) + content


def _encode_field(number: int, content: bytes) -> bytes:
    return _encode_tlv(_CONTEXT | number, content)


def _encode_integer(value: int) -> bytes:
    return _encode_tlv(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, signed=True))


def _encode_name(kind: int, *parts: str) -> bytes:
    return _encode_tlv(_SEQUENCE, _encode_field(0, _encode_integer(kind))
                       + _encode_field(1, _encode_tlv(
        _SEQUENCE, b"".join(_encode_tlv(_TEXT, part.encode()) for part in parts))))


def main(realm: str, user: str, cache: str, address: str) -> int:
    """Send the request to the KDC.

    Returns:
        The exit status: 0 with an answer and 1 without.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(_ANSWER_S)
        asking.connect((address, _PORT))
        asking.send(create_request(realm, user, session_key(Path(cache).read_bytes())))
        try:
            asking.recv(4096)
        except TimeoutError:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
