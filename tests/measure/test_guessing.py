"""Tests of guessing: a published handshake gives its passphrase away, and no other word fits."""

from __future__ import annotations

import hmac
import sys
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.cmac import CMAC

from measure.attacks import passphrase_guessing
from measure.attacks.passphrase_guessing import Handshake
from measure.capture.pcap import CapturedFrame
from measure.packets import ciphers

ACCESS_POINT, STATION = bytes.fromhex("02000000a000"), bytes.fromhex("02000000a200")
NONCES = bytes(range(32)), bytes(range(32, 64))
#: IEEE 802.11-2020, J.4.2: the key of passphrase "password" in network "IEEE".
PUBLISHED_KEY = "f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e"


def message(nonce: bytes, check: bytes = bytes(16), version: int = 2) -> bytes:
    """An EAPOL-Key frame with a nonce and a check over itself."""
    return (bytes((2, 3, 0, 95, 2, 1, 8 | version, 0, 0)) + bytes(8) + nonce + bytes(32) + check
            + bytes(2))


def second(version: int = 2, size_bytes: int = 48) -> bytes:
    """The second message of the handshake, with the check that the published key leads to."""
    seed = b"".join((*sorted((ACCESS_POINT, STATION)), *sorted(NONCES)))
    label, master = b"Pairwise key expansion", bytes.fromhex(PUBLISHED_KEY)
    blank = message(NONCES[1], version=version)
    if version == 3:
        bits = (8 * size_bytes).to_bytes(2, "little")
        key = hmac.digest(master, b"\1\0" + label + seed + bits, "sha256")[:16]
        cmac = CMAC(AES(key))
        cmac.update(blank)
        check = cmac.finalize()
    else:
        key = hmac.digest(master, label + b"\0" + seed + b"\0", "sha1")[:16]
        check = hmac.digest(key, blank, {1: "md5", 2: "sha1"}[version])[:16]
    return message(NONCES[1], check, version)


def recorded(version: int = 2, size_bytes: int = 48) -> list[Handshake]:
    """Both messages as they were captured on the station's interface, read again."""
    kind = bytes.fromhex("888e")
    first = message(NONCES[0], version=version)
    frames = [CapturedFrame(1.0, STATION + ACCESS_POINT + kind + first, 113),
              CapturedFrame(1.1, ACCESS_POINT + STATION + kind + second(version, size_bytes), 113)]
    return list(passphrase_guessing.find_handshakes(frames))


@pytest.mark.parametrize(("version", "size_bytes"), [(1, 48), (2, 48), (3, 48), (3, 64)])
def test_the_right_word_is_known_by_its_check(version: int, size_bytes: int) -> None:
    """Of several words the one that the handshake was made with; in another network, none.

    The check is made with MD5 (TKIP), SHA-1, or AES-CMAC (keys of SHA-256).
    """
    frames = recorded(version, size_bytes)
    assert len(frames) == 1
    assert passphrase_guessing.guess_passphrase(frames, ["guess", "password", "other"],
                                                "IEEE") == "password"
    assert passphrase_guessing.guess_passphrase(frames, ["password"], "IEEF") == ""


@pytest.mark.parametrize("size", [0, 1, 16, 17, 32, 40, 113])
def test_cmac_is_that_of_a_library(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole and partial blocks, and none, also by openssl, as in the container image."""
    key, data = bytes(range(16)), bytes(range(size))
    cmac = CMAC(AES(key))
    cmac.update(data)
    expected = cmac.finalize()
    assert ciphers.compute_cmac(key, data) == expected
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.cmac", None)
    assert ciphers.compute_cmac(key, data) == expected


@pytest.mark.parametrize(("size", "published"), [
    (0, "bb1d6929e95937287fa37d129b756746"), (16, "070a16b46b4d4144f79bdd9dd04a287c"),
    (40, "dfa66747de9ae63030ca32611497c827"), (64, "51f0bebf7e3b9d92fc49741779363cfe")])
def test_cmac_is_that_of_the_standard(size: int, published: str) -> None:
    """RFC 4493, 4."""
    data = bytes.fromhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
                         "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710")
    made = ciphers.compute_cmac(bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c"), data[:size])
    assert made.hex() == published


def test_a_handshake_under_another_key_gives_no_word_away() -> None:
    """As with keys of SAE: the same word, and another check."""
    other = [replace(each, nonces=(NONCES[0], NONCES[0])) for each in recorded()]
    assert passphrase_guessing.guess_passphrase(other, ["password"], "IEEE") == ""
