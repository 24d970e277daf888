"""Find the MACsec keys that captured MACsec Key Agreement (MKA) messages distribute.

`distributed_keys` takes Ethernet frames and the connectivity association key (CAK) of a network. It
returns the secure association keys (SAK), with which `measure.checks.macsec` decrypts captures, and
the number of messages under another CAK. The SAKs are wrapped under a key derived from the CAK. The
check values of the messages use another derived key (IEEE 802.1X-2010, 9 and 11.11).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from measure.packets.ciphers import compute_cmac

_EAPOL, _MKA = b"\x88\x8e", 5
_ETHERNET_BYTES, _HEAD_BYTES = 14, 4
_SETS_HEAD_BYTES, _CHECK_BYTES = 4, 16
#: Parameter set types: the basic set (first in each message), and a distributed SAK.
_SENDER, _SAK = 0, 4
#: Fields of the basic set: member identifier, and CAK name (CKN).
_MEMBER, _CKN = slice(12, 24), 32
#: Field of a distributed SAK: key number (KN).
_KEY_NUMBER = slice(4, 8)
#: The wrapped key, by bytes of the set. For the default suite GCM-AES-128 it follows the key
#: number. For GCM-AES-256 the suite's identifier is before it, and the key is longer.
_WRAPPED = {28: slice(8, 32), 52: slice(16, 56)}


@dataclass(frozen=True)
class DistributedKey:
    """A secure association key (SAK) that MACsec key agreement distributed, with its number."""

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
                     cak: bytes) -> tuple[list[DistributedKey], int]:
    """Return the MACsec keys that were distributed under a CAK.

    The second value is the number of messages under another CAK.
    """
    keys: dict[bytes, DistributedKey] = {}
    strange = 0
    for at_s, frame in frames:
        sets = dict(_parameter_sets(frame))
        if _SAK not in sets:
            continue
        sender, given = sets[_SENDER], sets[_SAK]
        name = sender[_CKN:]
        if not _is_authentic(frame, _derive_key(cak, b"IEEE8021 ICK", name)) or (
                len(given) - _HEAD_BYTES not in _WRAPPED):
            strange += 1
            continue
        identifier = sender[_MEMBER] + given[_KEY_NUMBER]
        keys.setdefault(identifier, DistributedKey(at_s, given[1] >> 6, identifier, _unwrap_key(
            _derive_key(cak, b"IEEE8021 KEK", name), given[_WRAPPED[len(given) - _HEAD_BYTES]])))
    return list(keys.values()), strange


def _parameter_sets(frame: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and bytes of each parameter set in a MACsec Key Agreement message.

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
    """Return whether the integrity check value (ICV) of a key agreement message is valid.

    It covers the whole Ethernet frame.
    """
    size = int.from_bytes(frame[16:18], "big")
    end = _ETHERNET_BYTES + _HEAD_BYTES + size
    return hmac.compare_digest(compute_cmac(key, frame[:end - _CHECK_BYTES]),
                               frame[end - _CHECK_BYTES:end])


def _derive_key(cak: bytes, label: bytes, name: bytes) -> bytes:
    """Return a 128-bit key derived from the CAK (IEEE 802.1X-2010, 6.2.1 and 9.3.3)."""
    return compute_cmac(cak, b"\x01" + label + b"\x00" + name[:16].ljust(16, b"\x00") + b"\x00\x80")


def _unwrap_key(key: bytes, wrapped: bytes) -> bytes:
    # Imported here: the container image lacks the library, and programs in a machine need no keys.
    from cryptography.hazmat.primitives.keywrap import aes_key_unwrap

    return aes_key_unwrap(key, wrapped)
