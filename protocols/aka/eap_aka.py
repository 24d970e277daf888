"""Parse captured EAP-AKA and EAP-AKA' packets, and recompute their keys and MACs.

EAP-AKA (RFC 4187) authenticates with a SIM card. EAP-AKA' (RFC 9048) also binds its keys to the
access network. `recompute_challenge` takes the EAP packets of one authentication, the identity and
the subscriber's key. It returns the differences from the packets, and the MSK. Checks use it to
verify a capture without any value from a daemon. `parse_aka_packet` parses one packet, and
`derive_keys` derives K_aut and the MSK.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from protocols.aka.milenage import (
    AMF_BYTES,
    SEPARATION,
    SQN_BYTES,
    ChallengeAnswer,
    MilenageKey,
    compute_answers,
    compute_macs,
    conceal_sqn,
)

_SHA1_START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
#: One constant for each twenty steps.
_SHA1_CONSTANTS = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)
_WORD, _HASH_BYTES = 0xFFFFFFFF, 20
#: Function code of 3GPP's key derivation, and the prefix of the EAP-AKA' derivation.
_FC, _PRIME = b"\x20", b"EAP-AKA'"


@dataclass(frozen=True)
class AkaKeys:
    """Keys of one full authentication: K_aut, which protects EAP packets, and the MSK."""

    authentication: bytes
    msk: bytes
    #: Hash function of AT_MAC.
    digest: str = "sha1"

    def compute_mac(self, packet: bytes) -> bytes:
        """Compute the MAC of an EAP packet whose AT_MAC field is filled with zeros."""
        return hmac.digest(self.authentication, packet, self.digest)[:16]


def derive_keys(identity: str, ik: bytes, ck: bytes) -> AkaKeys:
    """Derive the keys of a full EAP-AKA authentication from IK and CK."""
    master = hashlib.sha1(identity.encode() + ik + ck, usedforsecurity=False).digest()
    keys = generate_bytes(master, 96)  # K_encr precedes both keys, and the EMSK follows them
    return AkaKeys(keys[16:32], keys[32:])


def bind_keys(ik: bytes, ck: bytes, network: str, hidden_sqn: bytes) -> tuple[bytes, bytes]:
    """Derive IK' and CK', which are bound to an access network (3GPP TS 33.402, annex A.2).

    Args:
        ik: integrity key IK.
        ck: cipher key CK.
        network: name of the access network.
        hidden_sqn: concealed sequence number of the challenge (SQN xor AK).
    """
    name = network.encode()
    parameters = (_FC + name + len(name).to_bytes(2, "big")
            + hidden_sqn + len(hidden_sqn).to_bytes(2, "big"))
    bound = hmac.digest(ck + ik, parameters, "sha256")
    return bound[16:], bound[:16]


def derive_prime_keys(identity: str, ik: bytes, ck: bytes) -> AkaKeys:
    """Derive the keys of a full EAP-AKA' authentication from IK' and CK'."""
    seed, output, last = _PRIME + identity.encode(), b"", b""
    for number in range(1, 8):
        last = hmac.digest(ik + ck, last + seed + bytes((number,)), "sha256")
        output += last
    # K_encr precedes these keys, and K_re stands between them.
    return AkaKeys(output[16:48], output[80:144], "sha256")


# --- Generator of FIPS 186-2, change notice 1 ---
# It applies SHA-1's compression function without the padding of a hash. No library offers that
# function.

def generate_bytes(key: bytes, count: int) -> bytes:
    """Return `count` pseudo-random bytes of FIPS 186-2 (change notice 1, algorithm 1)."""
    output, number = b"", int.from_bytes(key, "big")
    while len(output) < count:
        word = _compress_block(number.to_bytes(_HASH_BYTES, "big").ljust(64, b"\0"))
        output += word
        number = (1 + number + int.from_bytes(word, "big")) % (1 << 8 * _HASH_BYTES)
    return output[:count]


def _compress_block(block: bytes) -> bytes:
    """Apply the compression function of SHA-1 to one block, with the standard start value."""
    words = list(struct.unpack(">16I", block))
    for place in range(16, 80):
        words.append(_rotate_left(words[place - 3] ^ words[place - 8] ^ words[place - 14]
                                  ^ words[place - 16], 1))
    a, b, c, d, e = _SHA1_START
    for place, word in enumerate(words):
        turn = place // 20
        mixed = ((b & c) | (~b & d), b ^ c ^ d, (b & c) | (b & d) | (c & d), b ^ c ^ d)[turn]
        a, b, c, d, e = ((_rotate_left(a, 5) + mixed + e + _SHA1_CONSTANTS[turn] + word) & _WORD, a,
                         _rotate_left(b, 30), c, d)
    return struct.pack(">5I", *((start + value) & _WORD
                                for start, value in zip(_SHA1_START, (a, b, c, d, e), strict=True)))


def _rotate_left(word: int, count: int) -> int:
    return ((word << count) | (word >> 32 - count)) & _WORD


# --- Parser of packets: subtype and attributes (RFC 4187, sections 8 to 10) ---
# EAP-AKA' packets differ in their EAP type and have two more attributes (RFC 9048, section 3).

EAP_AKA, EAP_AKA_PRIME = 23, 50
CHALLENGE, SYNCHRONIZATION_FAILURE = 1, 4
_AT_RAND, _AT_AUTN, _AT_RES, _AT_MAC, _AT_IDENTITY, _AT_KDF_INPUT = 1, 2, 3, 11, 14, 23
_HEADER_BYTES, _UNIT = 8, 4


@dataclass(frozen=True)
class AkaPacket:
    """A parsed EAP-AKA packet.

    `attributes` has the values by attribute type, without type and length. `unsigned` is the packet
    with zeros as AT_MAC. `method` is the EAP type.
    """

    subtype: int
    attributes: dict[int, bytes] = field(default_factory=dict)
    unsigned: bytes = b""
    method: int = EAP_AKA

    @property
    def rand(self) -> bytes:
        """Return the challenge RAND of the network."""
        return self.attributes.get(_AT_RAND, b"")[2:18]

    @property
    def autn(self) -> bytes:
        """Return AUTN, which authenticates the network to the card."""
        return self.attributes.get(_AT_AUTN, b"")[2:18]

    @property
    def res(self) -> bytes:
        """Return the card's response RES. AT_RES gives its length in bits."""
        value = self.attributes.get(_AT_RES, b"")
        return value[2:2 + struct.unpack("!H", value[:2])[0] // 8] if len(value) >= 2 else b""

    @property
    def mac(self) -> bytes:
        """Return AT_MAC, which authenticates the packet."""
        return self.attributes.get(_AT_MAC, b"")[2:18]

    @property
    def identity(self) -> str:
        """Return the identity that the station claims."""
        return self._text_attribute(_AT_IDENTITY)

    @property
    def network(self) -> str:
        """Return the name of the access network, to which the keys of EAP-AKA' are bound."""
        return self._text_attribute(_AT_KDF_INPUT)

    def _text_attribute(self, kind: int) -> str:
        """Return the text of an attribute that begins with its length in bytes."""
        value = self.attributes.get(kind, b"")
        size = struct.unpack("!H", value[:2])[0] if len(value) >= 2 else 0
        return value[2:2 + size].decode("utf-8", "replace")


def parse_aka_packet(eap: bytes) -> AkaPacket | None:
    """Parse an EAP-AKA or EAP-AKA' packet, or return None for other or malformed packets."""
    if len(eap) < _HEADER_BYTES or eap[4] not in (EAP_AKA, EAP_AKA_PRIME):
        return None
    attributes: dict[int, bytes] = {}
    unsigned, place = eap, _HEADER_BYTES
    while place + 2 <= len(eap):
        kind, size = eap[place], eap[place + 1] * _UNIT
        if size == 0 or place + size > len(eap):
            return None
        attributes[kind] = eap[place + 2:place + size]
        if kind == _AT_MAC:
            unsigned = eap[:place + 4] + bytes(size - 4) + eap[place + size:]
        place += size
    return AkaPacket(eap[5], attributes, unsigned, eap[4])


# --- Verification of a captured challenge and its response ---

@dataclass(frozen=True)
class RecomputedChallenge:
    """Result of recomputing an authentication: differences from the packets, request and MSK."""

    faults: tuple[str, ...]
    request: AkaPacket | None = None
    msk: bytes = b""


def recompute_challenge(exchange: Sequence[AkaPacket], user: str,
                        shared: MilenageKey) -> RecomputedChallenge:
    """Recompute the values of one captured authentication, and compare them with its packets.

    Args:
        exchange: EAP packets of the authentication, in order.
        user: the identity sent first. An AT_IDENTITY in the packets replaces it.
        shared: the subscriber's key.
    """
    if any(packet.subtype == SYNCHRONIZATION_FAILURE for packet in exchange):
        return RecomputedChallenge((
            "the card had seen a later sequence number, and had the server resynchronised",))
    challenges = [packet for packet in exchange if packet.subtype == CHALLENGE]
    if len(challenges) != 2:
        return RecomputedChallenge((
            f"{len(challenges)} packets of a challenge, which are a request and its answer",))
    request, answer = challenges
    identity = next((packet.identity for packet in exchange if packet.identity), user)
    answers = compute_answers(shared, request.rand)
    derived = _derive_challenge_keys(request, identity, answers)
    sqn, rest = conceal_sqn(request.autn[:SQN_BYTES], answers.ak), request.autn[SQN_BYTES:]
    amf, mac = rest[:AMF_BYTES], rest[AMF_BYTES:]
    is_bound = request.method == EAP_AKA_PRIME
    faults = [reason for reason, holds in (
        ("a challenge that is not of the subscriber's key",
         compute_macs(shared, request.rand, sqn, amf)[0] == mac),
        ("a challenge that says nothing of a network that keys are bound to",
         not is_bound or (amf[:1] >= SEPARATION[:1] and bool(request.network))),
        ("a response that is not of the subscriber's key", answer.res == answers.res),
        ("a packet whose MAC is not of the keys that the challenge makes",
         all(derived.compute_mac(packet.unsigned) == packet.mac for packet in challenges)),
    ) if not holds]
    return RecomputedChallenge(tuple(faults), request, derived.msk)


def _derive_challenge_keys(request: AkaPacket, identity: str,
                           computed: ChallengeAnswer) -> AkaKeys:
    if request.method != EAP_AKA_PRIME:
        return derive_keys(identity, computed.ik, computed.ck)
    return derive_prime_keys(identity,
                             *bind_keys(computed.ik, computed.ck, request.network,
                                        request.autn[:SQN_BYTES]))
