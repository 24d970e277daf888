"""MACsec Key Agreement is read (IEEE 802.1X-2010, 9 and 11.11): the keys that it hands out.

They are wrapped under a key that comes of the network's (CAK), as their check values do: messages
under another one hand out nothing.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_EAPOL, _MKA = b"\x88\x8e", 5
_ETHERNET_BYTES, _HEAD_BYTES = 14, 4
_SETS_HEAD_BYTES, _CHECK_BYTES = 4, 16
#: Parameter sets: of the sender, first in each message, and a key that is handed out.
_SENDER, _SAK = 0, 4
#: In the sender's set: its channel (SCI), its member identifier, the name of the key (CKN).
_SCI, _MEMBER, _CKN = slice(4, 12), slice(12, 24), 32
#: In that of a key: its number (KN), and the wrapped key, for the default suite GCM-AES-128.
_KEY_NUMBER, _WRAPPED, _SAK_BYTES = slice(4, 8), slice(8, 32), 28


@dataclass(frozen=True)
class HandedKey:
    """A key of frames (SAK): when it was handed out, its association number, its identifier."""

    at_s: float
    association: int
    #: Of who made it, and its number there.
    identifier: bytes
    key: bytes


def hands_out(frame: bytes) -> bool:
    """Whether an Ethernet frame is MKA's, and hands out a key."""
    return any(kind == _SAK for kind, _ in _sets(frame))


def is_mka(frame: bytes) -> bool:
    """Whether an Ethernet frame is MKA's."""
    return frame[12:14] == _EAPOL and len(frame) > 15 and frame[15] == _MKA


def handed(frames: Iterable[tuple[float, bytes]], cak: bytes) -> tuple[list[HandedKey], int]:
    """The keys that messages hand out under a network's key; how many messages are not under it."""
    keys: dict[bytes, HandedKey] = {}
    strange = 0
    for at_s, frame in frames:
        sets = dict(_sets(frame))
        if _SAK not in sets:
            continue
        sender, given = sets[_SENDER], sets[_SAK]
        name = sender[_CKN:]
        if not _is_authentic(frame, _derived(cak, b"IEEE8021 ICK", name)) or (
                len(given) != _HEAD_BYTES + _SAK_BYTES):
            strange += 1
            continue
        identifier = sender[_MEMBER] + given[_KEY_NUMBER]
        keys.setdefault(identifier, HandedKey(at_s, given[1] >> 6, identifier, _unwrapped(
            _derived(cak, b"IEEE8021 KEK", name), given[_WRAPPED])))
    return list(keys.values()), strange


def _sets(frame: bytes) -> Iterator[tuple[int, bytes]]:
    """The parameter sets of a message of MKA: each one's kind, and itself with its head.

    The first is the sender's, and begins with a version instead: _SENDER.
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
    """Whether a message's check value is that of its bytes, Ethernet's addresses and all."""
    size = int.from_bytes(frame[16:18], "big")
    end = _ETHERNET_BYTES + _HEAD_BYTES + size
    return hmac.compare_digest(_cmac(key, frame[:end - _CHECK_BYTES]),
                               frame[end - _CHECK_BYTES:end])


def _derived(cak: bytes, label: bytes, name: bytes) -> bytes:
    """A key that comes of the network's, 128 bits as that one (802.1X-2010, 6.2.1 and 9.3.3)."""
    return _cmac(cak, b"\x01" + label + b"\x00" + name[:16].ljust(16, b"\x00") + b"\x00\x80")


# Only here: the container image lacks the library, and what runs in a machine needs no keys.
def _cmac(key: bytes, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.cmac import CMAC

    made = CMAC(AES(key))
    made.update(data)
    return made.finalize()


def _unwrapped(key: bytes, wrapped: bytes) -> bytes:
    from cryptography.hazmat.primitives.keywrap import aes_key_unwrap

    return aes_key_unwrap(key, wrapped)
