"""Keys of EAP-AKA and EAP-AKA' (RFC 4187 section 7, RFC 9048 section 3.3).

The keys of EAP-AKA' are bound to the access network. The generator of FIPS 186-2, change notice 1,
applies SHA-1's compression function without the padding of a hash. No library offers that function.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass

_START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
#: One constant for each twenty steps.
_CONSTANTS = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)
_WORD, _HASH_BYTES = 0xFFFFFFFF, 20
#: Function code of 3GPP's key derivation, and the prefix of the EAP-AKA' derivation.
_FC, _PRIME = b"\x20", b"EAP-AKA'"


@dataclass(frozen=True)
class AkaKeys:
    """Keys of one full authentication: K_aut for EAP packets, and the MSK."""

    authentication: bytes
    msk: bytes
    #: Hash function of AT_MAC.
    digest: str = "sha1"

    def compute_mac(self, packet: bytes) -> bytes:
        """Return AT_MAC of a packet whose AT_MAC field is filled with zeros."""
        return hmac.digest(self.authentication, packet, self.digest)[:16]


def derive_keys(identity: str, ik: bytes, ck: bytes) -> AkaKeys:
    """Derive the keys of a full EAP-AKA authentication."""
    master = hashlib.sha1(identity.encode() + ik + ck, usedforsecurity=False).digest()
    made = generate_bytes(master, 96)  # K_encr precedes both keys, and the EMSK follows them
    return AkaKeys(made[16:32], made[32:])


def bind_keys(ik: bytes, ck: bytes, network: str, hidden_sqn: bytes) -> tuple[bytes, bytes]:
    """Return IK' and CK': keys bound to an access network (3GPP TS 33.402, annex A.2).

    `hidden_sqn` is the concealed sequence number of the challenge (SQN xor AK).
    """
    name = network.encode()
    said = (_FC + name + len(name).to_bytes(2, "big")
            + hidden_sqn + len(hidden_sqn).to_bytes(2, "big"))
    made = hmac.digest(ck + ik, said, "sha256")
    return made[16:], made[:16]


def derive_prime_keys(identity: str, ik: bytes, ck: bytes) -> AkaKeys:
    """Derive the keys of a full EAP-AKA' authentication from IK' and CK'."""
    said, made, last = _PRIME + identity.encode(), b"", b""
    for number in range(1, 8):
        last = hmac.digest(ik + ck, last + said + bytes((number,)), "sha256")
        made += last
    # K_encr precedes these keys, and K_re stands between them.
    return AkaKeys(made[16:48], made[80:144], "sha256")


def generate_bytes(key: bytes, count: int) -> bytes:
    """Return `count` bytes of the FIPS 186-2 generator (change notice 1, algorithm 1)."""
    made, number = b"", int.from_bytes(key, "big")
    while len(made) < count:
        word = _compress_block(number.to_bytes(_HASH_BYTES, "big").ljust(64, b"\0"))
        made += word
        number = (1 + number + int.from_bytes(word, "big")) % (1 << 8 * _HASH_BYTES)
    return made[:count]


def _compress_block(block: bytes) -> bytes:
    """Apply the compression function of SHA-1 to one block with the standard start value."""
    words = list(struct.unpack(">16I", block))
    for place in range(16, 80):
        words.append(_rotate_left(words[place - 3] ^ words[place - 8] ^ words[place - 14]
                                  ^ words[place - 16], 1))
    a, b, c, d, e = _START
    for place, word in enumerate(words):
        turn = place // 20
        mixed = ((b & c) | (~b & d), b ^ c ^ d, (b & c) | (b & d) | (c & d), b ^ c ^ d)[turn]
        a, b, c, d, e = ((_rotate_left(a, 5) + mixed + e + _CONSTANTS[turn] + word) & _WORD, a,
                         _rotate_left(b, 30), c, d)
    return struct.pack(">5I", *((start + value) & _WORD
                                for start, value in zip(_START, (a, b, c, d, e), strict=True)))


def _rotate_left(word: int, count: int) -> int:
    return ((word << count) | (word >> 32 - count)) & _WORD
