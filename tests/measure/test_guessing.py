"""Tests of guessing: a published handshake gives its passphrase away, and no other word fits."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

from measure import guessing
from measure.guessing import Handshake
from measure.pcap import CapturedFrame

ACCESS_POINT, STATION = bytes.fromhex("02000000a000"), bytes.fromhex("02000000a200")
NONCES = bytes(range(32)), bytes(range(32, 64))
#: IEEE 802.11-2020, J.4.2: the key of passphrase "password" in network "IEEE".
PUBLISHED_KEY = "f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e"


def message(nonce: bytes, check: bytes = bytes(16)) -> bytes:
    """An EAPOL-Key frame with a nonce and a check over itself."""
    return (bytes((2, 3, 0, 95, 2, 1, 10, 0, 0)) + bytes(8) + nonce + bytes(32) + check + bytes(2))


def second() -> bytes:
    """The second message of the handshake, with the check that the published key leads to."""
    seed = b"".join((*sorted((ACCESS_POINT, STATION)), *sorted(NONCES)))
    key = hmac.new(bytes.fromhex(PUBLISHED_KEY), b"Pairwise key expansion\0" + seed + b"\0",
                   hashlib.sha1).digest()[:16]
    blank = message(NONCES[1])
    return message(NONCES[1], hmac.new(key, blank, hashlib.sha1).digest()[:16])


def recorded() -> list[Handshake]:
    """Both messages as they were captured on the station's interface, read again."""
    kind = bytes.fromhex("888e")
    frames = [CapturedFrame(1.0, STATION + ACCESS_POINT + kind + message(NONCES[0]), 113),
              CapturedFrame(1.1, ACCESS_POINT + STATION + kind + second(), 113)]
    return list(guessing.find_handshakes(frames))


def test_the_right_word_is_known_by_its_check() -> None:
    """Of several words the one that the handshake was made with; in another network, none."""
    assert len(recorded()) == 1
    assert guessing.guess_passphrase(recorded(), ["guess", "password", "other"],
                                     "IEEE") == "password"
    assert guessing.guess_passphrase(recorded(), ["password"], "IEEF") == ""


def test_a_handshake_under_another_key_gives_no_word_away() -> None:
    """As with keys of SAE: the same word, and another check."""
    other = [replace(each, nonces=(NONCES[0], NONCES[0])) for each in recorded()]
    assert guessing.guess_passphrase(other, ["password"], "IEEE") == ""
