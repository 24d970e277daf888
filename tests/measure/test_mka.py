"""MACsec Key Agreement is read as the standard has it: what its messages hand out, and to whom."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.keywrap import aes_key_wrap

from measure.packets import mka
from measure.packets.ciphers import compute_cmac

CAK, CKN, MEMBER = bytes(range(16)), b"qop" + bytes(13), bytes(range(100, 112))
SAK = bytes(range(200, 216))


def key_set(sak: bytes = SAK, cak: bytes = CAK, *, association: int = 1, number: int = 3) -> bytes:
    """A key that is handed out, wrapped under the network's."""
    wrapped = aes_key_wrap(mka._derive_key(cak, b"IEEE8021 KEK", CKN), sak)
    return bytes((4, association << 6 | 0x10, 0, 28)) + number.to_bytes(4, "big") + wrapped


def message(*sets: bytes, cak: bytes = CAK) -> bytes:
    """A message of MKA's as it is on the wire, its check value under the network's key."""
    sender = (bytes((1, 16, 0xE0, 28 + len(CKN))) + bytes(8) + MEMBER + bytes(8) + CKN)
    body = sender + b"".join(each + bytes(-len(each) % 4) for each in sets)
    frame = (bytes.fromhex("0180c2000003") + bytes(6) + b"\x88\x8e\x03\x05"
             + (len(body) + 16).to_bytes(2, "big") + body)
    return frame + compute_cmac(mka._derive_key(cak, b"IEEE8021 ICK", CKN), frame)


LIVE_PEERS = bytes((1, 0, 0, 16)) + bytes(16)


def test_a_key_is_unwrapped_and_counted_once() -> None:
    """However often a message with it is said, whatever else the message has."""
    frames = [(1.0, message(LIVE_PEERS, key_set())), (2.0, message(key_set(), LIVE_PEERS)),
              (3.0, message(LIVE_PEERS))]
    assert [mka.distributes_key(frame) for _, frame in frames] == [True, True, False]
    [handed], strange = mka.distributed_keys(frames, CAK)
    assert (handed.at_s, handed.association, handed.key, strange) == (1.0, 1, SAK, 0)
    assert handed.identifier == MEMBER + (3).to_bytes(4, "big")
    both, _ = mka.distributed_keys([*frames,
                                    (4.0, message(key_set(bytes(16), association=2, number=4)))],
                                   CAK)
    assert [(key.association, key.key) for key in both] == [(1, SAK), (2, bytes(16))]


def test_a_key_of_256_bits_follows_the_suites_identifier() -> None:
    """As for every suite but the default one (IEEE 802.1X-2020, figure 11-12)."""
    sak, name = bytes(range(32)), bytes.fromhex("0080c20001000002")
    wrapped = aes_key_wrap(mka._derive_key(CAK, b"IEEE8021 KEK", CKN), sak)
    given = bytes((4, 0x50, 0, 52)) + (7).to_bytes(4, "big") + name + wrapped
    [handed], strange = mka.distributed_keys([(1.0, message(LIVE_PEERS, given))], CAK)
    assert (handed.key, handed.identifier[-1], strange) == (sak, 7, 0)


@pytest.mark.parametrize("frame", [
    message(key_set(cak=bytes(16)), cak=bytes(16)),
    message(key_set())[:-1] + bytes((message(key_set())[-1] ^ 1,)),
    message(bytes((4, 0x50, 0, 36)) + bytes(36))])
def test_a_message_under_another_key_hands_out_nothing(frame: bytes) -> None:
    """Nor one that was changed, nor one of another suite, whose key is longer."""
    assert mka.distributes_key(frame)
    assert mka.distributed_keys([(1.0, frame)], CAK) == ([], 1)


@pytest.mark.parametrize("frame", [
    b"", bytes(14), bytes(12) + b"\x88\x8e\x03\x05", bytes(12) + b"\x88\x8e\x02\x00" + bytes(60),
    bytes(12) + b"\x88\xe5\x03\x05" + bytes(60), message()[:40]])
def test_what_is_no_message_is_none(frame: bytes) -> None:
    """Other EAPOL, other protocols, and what was cut off."""
    assert not mka.distributes_key(frame)
    assert mka.distributed_keys([(1.0, frame)], CAK) == ([], 0)
