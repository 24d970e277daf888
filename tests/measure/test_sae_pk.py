"""Tests of SAE-PK: passwords are those of hostapd, and signatures hold for their bytes alone."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from measure.packets import sae_pk

#: A key pair whose password hostapd and wpa_supplicant 2.11 of Debian testing took.
SSID, MODIFIER = "qop-pk", bytes.fromhex("47d308d94f4da164000000000024f626")
PUBLIC_KEY = bytes.fromhex(
    "3039301306072a8648ce3d020106082a8648ce3d0301070322000216a089a8523861c9e867287e7fc25d3ef02a8aa6"
    "a30192f4d574a2fbefe45838")
ACCESS_POINT, STATION = bytes.fromhex("020000000000"), bytes.fromhex("020000000100")


def test_password_is_the_one_that_hostapd_accepts() -> None:
    digest = hashlib.sha256(SSID.encode() + MODIFIER + PUBLIC_KEY).digest()
    assert digest.startswith(bytes(3))
    assert sae_pk.format_password(digest) == "yxc3-xsca-7ln5"


def frame(sender: bytes, receiver: bytes, sequence: int, body: bytes, status: int = 0) -> bytes:
    """An authentication frame of SAE."""
    fields = b"".join(number.to_bytes(2, "little") for number in (3, sequence, status))
    return b"\xb0\0\0\0" + receiver + sender + ACCESS_POINT + b"\0\0" + fields + body


def extension(number: int, content: bytes) -> bytes:
    """An extended element."""
    return bytes((255, 1 + len(content), number)) + content


def exchange(key: ec.EllipticCurvePrivateKey, modifier: bytes) -> list[bytes]:
    """An SAE exchange, whose access point signs with this key."""
    public_key = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    scalars, elements = [bytes([n]) * 32 for n in (1, 2)], [bytes([n]) * 64 for n in (3, 4)]
    ends = ((STATION, ACCESS_POINT), (ACCESS_POINT, STATION))
    commits = [frame(*pair, 1, b"\x13\0" + scalar + element, 127)
               for pair, scalar, element in zip(ends, scalars, elements, strict=True)]
    signature = key.sign(b"".join((
        elements[1], elements[0], scalars[1], scalars[0], modifier, public_key, ACCESS_POINT,
        STATION)), ec.ECDSA(hashes.SHA256()))
    confirm = bytes(34) + extension(12, b"\x02" + public_key) + extension(3, signature)
    return [*commits, frame(*ends[0], 2, bytes(34)), frame(*ends[1], 2, confirm)]


@pytest.mark.parametrize(("index", "byte"), [
    (None, 0), (0, 40), (0, 80), (1, 40), (1, 80), (3, 80)])
def test_signature_covers_both_commits(index: int | None, byte: int) -> None:
    """A changed scalar, element or public key makes the signature wrong."""
    frames = exchange(ec.generate_private_key(ec.SECP256R1()), MODIFIER)
    assert sae_pk.read_groups(frames) == {19}
    if index is not None:
        changed = bytearray(frames[index])
        changed[byte] ^= 1
        frames[index] = bytes(changed)
    [confirm] = sae_pk.find_signatures(frames, MODIFIER)
    assert confirm.is_valid is (index is None)


def test_signature_covers_the_modifier() -> None:
    frames = exchange(ec.generate_private_key(ec.SECP256R1()), MODIFIER)
    [confirm] = sae_pk.find_signatures(frames, bytes(16))
    assert not confirm.is_valid


def test_exchange_without_a_public_key_has_no_signature() -> None:
    frames = exchange(ec.generate_private_key(ec.SECP256R1()), MODIFIER)[:-1]
    assert list(sae_pk.find_signatures(frames, MODIFIER)) == []
