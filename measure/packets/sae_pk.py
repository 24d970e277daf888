"""Make the keys of SAE-PK, and check the signatures that access points send in captures.

With SAE-PK (WPA3 specification 3.0, 6) an access point has a key pair, and the password of its
network is a fingerprint of the public key. `make_key_pair` searches for such a password and returns
it with key and modifier. `find_signatures` reads the exchanges of a capture and verifies the
signature in each confirm frame of an access point.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from measure.capture import pcap

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
#: Permutation of the check character's code (Verhoeff over the dihedral group of 32 elements).
_PERMUTATION = (7, 2, 1, 30, 16, 20, 27, 11, 31, 6, 8, 13, 29, 5, 10, 21, 22, 3, 24, 0, 23, 25, 12,
                9, 28, 14, 4, 15, 17, 18, 19, 26)
_ROTATIONS = 16
#: Zero bytes with which the hash of SSID, modifier and public key begins (Sec of 3).
_ZERO_BYTES = 3
#: Parts of a password with four characters each, and bits of the hash in each part.
_PARTS, _PART_BITS, _CHARACTERS = 3, 19, 4
_CHARACTER_BITS = 5
_COUNTER_BYTES = 8
#: SubjectPublicKeyInfo of a compressed point of P-256, up to the point.
_PUBLIC_KEY_HEAD = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200")
#: Authentication frames: first byte, and offsets of their fields behind the MAC header.
_AUTHENTICATION, _SAE = 0xB0, 3
_COMMIT, _CONFIRM = 1, 2
_NUMBER_BYTES, _CONFIRM_BYTES = 32, 34
#: Algorithm, sequence and status of a commit with SAE-PK.
_COMMIT_HEAD = bytes((_SAE, 0, _COMMIT, 0, 127, 0))
#: Elements of a confirm frame: extended ones with the public key and the signature.
_EXTENSION, _PUBLIC_KEY, _SIGNATURE = 255, 12, 3


@dataclass(frozen=True)
class SaeKeyPair:
    """A key pair of SAE-PK: password of the network, modifier (hex) and private key (base64)."""

    password: str
    modifier: str
    key: str


@dataclass(frozen=True)
class SignedConfirm:
    """A confirm frame of an access point: its public key (DER), and whether its signature holds."""

    public_key: bytes
    is_valid: bool


def make_key_pair(ssid: str) -> SaeKeyPair:
    """Return a new key pair of P-256 with the password that belongs to it.

    The search takes 16.8 million hashes on average, which are some seconds.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    public_key = _PUBLIC_KEY_HEAD + key.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
    head, number = os.urandom(_COUNTER_BYTES), 0
    begun = hashlib.sha256(ssid.encode() + head)
    while True:
        digest = begun.copy()
        digest.update(number.to_bytes(_COUNTER_BYTES, "big") + public_key)
        if digest.digest().startswith(bytes(_ZERO_BYTES)):
            break
        number += 1
    der = key.private_bytes(serialization.Encoding.DER,
                            serialization.PrivateFormat.TraditionalOpenSSL,
                            serialization.NoEncryption())
    return SaeKeyPair(format_password(digest.digest()),
                      (head + number.to_bytes(_COUNTER_BYTES, "big")).hex(),
                      base64.b64encode(der).decode())


def format_password(digest: bytes) -> str:
    """Return the password that a hash of SSID, modifier and public key makes."""
    bits = "".join(f"{byte:08b}" for byte in digest[_ZERO_BYTES:])
    base = "".join(f"1{bits[_PART_BITS * part:_PART_BITS * (part + 1)]}" for part in range(_PARTS))
    base = base[:-_CHARACTER_BITS]
    text = "".join(_ALPHABET[int(base[at:at + _CHARACTER_BITS], 2)]
                   for at in range(0, len(base), _CHARACTER_BITS))
    text += _check_character(text)
    return "-".join(text[at:at + _CHARACTERS] for at in range(0, len(text), _CHARACTERS))


def _check_character(text: str) -> str:
    """Return the character that ends a password and finds a mistyped one."""
    value = 0
    for times, character in enumerate(reversed(text), 1):
        code = _ALPHABET.index(character)
        for _ in range(times):
            code = _PERMUTATION[code]
        value = _multiply_elements(value, code)
    return _ALPHABET[_ROTATIONS - value if 0 < value < _ROTATIONS else value]


def _multiply_elements(left: int, right: int) -> int:
    """Return the product of two elements of the dihedral group of order 32."""
    turn, flipped = left % _ROTATIONS, left // _ROTATIONS
    other, flips = right % _ROTATIONS, right // _ROTATIONS
    return (turn - other if flipped else turn + other) % _ROTATIONS + (
        flipped ^ flips) * _ROTATIONS


def find_signatures(frames: Iterable[bytes], modifier: bytes) -> Iterator[SignedConfirm]:
    """Yield access points' confirm frames with a public key, and whether the signature holds.

    The signature covers both elements, both scalars, the modifier, the public key and both
    addresses, those of the access point first.

    Args:
        frames: 802.11 frames in order.
        modifier: The modifier of the access point's key pair.
    """
    commits: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}
    for frame in frames:
        if frame[0] != _AUTHENTICATION or int.from_bytes(frame[24:26], "little") != _SAE:
            continue
        sender, receiver = frame[10:16], frame[4:10]
        sequence = int.from_bytes(frame[26:28], "little")
        if sequence == _COMMIT:
            scalar, element = frame[32:32 + _NUMBER_BYTES], frame[64:64 + 2 * _NUMBER_BYTES]
            commits[sender, receiver] = scalar, element
        elif sequence == _CONFIRM:
            elements = dict(_read_extensions(frame[30 + _CONFIRM_BYTES:]))
            own, other = (commits.get(pair) for pair in ((sender, receiver), (receiver, sender)))
            if not {_PUBLIC_KEY, _SIGNATURE} <= elements.keys() or not own or not other:
                continue
            public_key = elements[_PUBLIC_KEY][1:]
            signed = b"".join((own[1], other[1], own[0], other[0], modifier, public_key, sender,
                               receiver))
            yield SignedConfirm(public_key, _is_signed(public_key, elements[_SIGNATURE], signed))


def read_groups(frames: Iterable[bytes]) -> set[int]:
    """Return the groups in SAE commits with the status of SAE-PK."""
    return {int.from_bytes(frame[30:32], "little") for frame in frames
            if frame[0] == _AUTHENTICATION and frame[24:30] == _COMMIT_HEAD}


def _read_extensions(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of the extended elements in the body of a frame."""
    for number, content in pcap.split_elements(data):
        if number == _EXTENSION and content:
            yield content[0], content[1:]


def _is_signed(public_key: bytes, signature: bytes, signed: bytes) -> bool:
    """Return whether a signature of ECDSA with SHA-256 is of this key and covers these bytes."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key = serialization.load_der_public_key(public_key)
        assert isinstance(key, ec.EllipticCurvePublicKey)
        key.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, AssertionError):
        return False
    return True
