"""Parse MACsec Key Agreement (IEEE 802.1X-2010, 9 and 11.11): the distributed keys.

Keys are wrapped under a key derived from the network's CAK, and check values are computed with
another one. Messages under another CAK yield no keys.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_EAPOL, _MKA = b"\x88\x8e", 5
_ETHERNET_BYTES, _HEAD_BYTES = 14, 4
_SETS_HEAD_BYTES, _CHECK_BYTES = 4, 16
#: Parameter set types: the basic set (first in each message), and a distributed SAK.
_SENDER, _SAK = 0, 4
#: Fields of the basic set: SCI, member identifier, and CAK name (CKN).
_SCI, _MEMBER, _CKN = slice(4, 12), slice(12, 24), 32
#: Fields of a distributed SAK: key number (KN), and the wrapped key, for the default suite
#: GCM-AES-128.
_KEY_NUMBER, _WRAPPED, _SAK_BYTES = slice(4, 8), slice(8, 32), 28


@dataclass(frozen=True)
class HandedKey:
    """A distributed secure association key (SAK), with its association number."""

    at_s: float
    association: int
    #: Member identifier of the key server, and its key number.
    identifier: bytes
    key: bytes


def distributes_key(frame: bytes) -> bool:
    """Return whether an Ethernet frame is an MKA message that distributes a key."""
    return any(kind == _SAK for kind, _ in _parameter_sets(frame))


def is_mka(frame: bytes) -> bool:
    """Return whether an Ethernet frame is an MKA message."""
    return frame[12:14] == _EAPOL and len(frame) > 15 and frame[15] == _MKA


def distributed_keys(frames: Iterable[tuple[float, bytes]],
                     cak: bytes) -> tuple[list[HandedKey], int]:
    """Return the keys distributed under a CAK, and the number of messages under another one."""
    keys: dict[bytes, HandedKey] = {}
    strange = 0
    for at_s, frame in frames:
        sets = dict(_parameter_sets(frame))
        if _SAK not in sets:
            continue
        sender, given = sets[_SENDER], sets[_SAK]
        name = sender[_CKN:]
        if not _is_authentic(frame, _derive_key(cak, b"IEEE8021 ICK", name)) or (
                len(given) != _HEAD_BYTES + _SAK_BYTES):
            strange += 1
            continue
        identifier = sender[_MEMBER] + given[_KEY_NUMBER]
        keys.setdefault(identifier, HandedKey(at_s, given[1] >> 6, identifier, _unwrap_key(
            _derive_key(cak, b"IEEE8021 KEK", name), given[_WRAPPED])))
    return list(keys.values()), strange


def _parameter_sets(frame: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and bytes of each parameter set in an MKA message.

    The first set is the basic one. It begins with a version in place of a type, and is yielded as
    _SENDER.
    """
    if not is_mka(frame):
        return
    size = int.from_bytes(frame[16:18], "big")
    body = frame[_ETHERNET_BYTES + _HEAD_BYTES:_ETHERNET_BYTES + _HEAD_BYTES + size]
    place = 0
    while place + _SETS_HEAD_BYTES <= len(body) - _CHECK_BYTES:
        length = _SETS_HEAD_BYTES + (int.from_bytes(body[place + 2:place + 4], "big") & 0x0FFF)
        yield (body[place] if place else _SENDER), body[place:place + length]
        place += length + -length % 4


def _is_authentic(frame: bytes, key: bytes) -> bool:
    """Return whether a message's ICV is valid, over the whole Ethernet frame."""
    size = int.from_bytes(frame[16:18], "big")
    end = _ETHERNET_BYTES + _HEAD_BYTES + size
    return hmac.compare_digest(_cmac(key, frame[:end - _CHECK_BYTES]),
                               frame[end - _CHECK_BYTES:end])


def _derive_key(cak: bytes, label: bytes, name: bytes) -> bytes:
    """Return a key derived from the CAK, 128 bits (802.1X-2010, 6.2.1 and 9.3.3)."""
    return _cmac(cak, b"\x01" + label + b"\x00" + name[:16].ljust(16, b"\x00") + b"\x00\x80")


# Imported here: the container image lacks the library, and programs in a machine need no keys.
def _cmac(key: bytes, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.cmac import CMAC

    made = CMAC(AES(key))
    made.update(data)
    return made.finalize()


def _unwrap_key(key: bytes, wrapped: bytes) -> bytes:
    from cryptography.hazmat.primitives.keywrap import aes_key_unwrap

    return aes_key_unwrap(key, wrapped)
