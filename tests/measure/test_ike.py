"""Tests of what an initiator's first IKE message offers, and of the check on it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

import made_up_captures
from measure.capture import tshark
from measure.checks import layer_checks
from measure.checks.observation import Observation
from measure.packets import ike

#: Transforms of IKEv2 by strongSwan's keywords: type, number, and length of the key.
AES128, AES128_GCM, AES256_GCM = (1, 12, 128), (1, 20, 128), (1, 20, 256)
SHA256, PRF_SHA256, PRF_SHA384 = (3, 12, 0), (2, 5, 0), (2, 6, 0)
SHA1, PRF_SHA1 = (3, 2, 0), (2, 2, 0)
ECP256, CURVE25519, LATER_ML_KEM = (4, 19, 0), (4, 31, 0), (6, 36, 0)
NAMES = ("aes256gcm16-prfsha384-curve25519", "aes128-sha256-ecp256")
OFFER = [[AES256_GCM, PRF_SHA384, CURVE25519], [AES128, SHA256, PRF_SHA256, ECP256]]
STATION, AGENT = ("10.1.0.12", "10.1.0.1")


def block(body: bytes, following: int) -> bytes:
    """A payload, proposal or transform with its length."""
    return struct.pack("!BBH", following, 0, 4 + len(body)) + body


def message(version: int, kind: int, body: bytes, responder: bytes = bytes(8)) -> bytes:
    """A first message: a vendor's payload (43), then that with proposals."""
    payloads = block(b"vendor", kind) + block(body, 0)
    return struct.pack("!8s8sBBBBII", b"initiate", responder, 43, version << 4, 34, 8, 0,
                       28 + len(payloads)) + payloads


def version_2(proposals: Sequence[Sequence[tuple[int, int, int]]],
              responder: bytes = bytes(8)) -> bytes:
    """IKE_SA_INIT with these proposals."""
    made = b""
    for number, transforms in enumerate(proposals, start=1):
        blocks = b"".join(
            block(struct.pack("!BBH", kind, 0, what)
                  + (struct.pack("!HH", 0x800E, bits) if bits else b""), 3)
            for kind, what, bits in transforms)
        made += block(bytes((number, 1, 0, len(transforms))) + blocks, 2)
    return message(2, 33, made, responder)


def version_1() -> bytes:
    """Main mode with 3DES-SHA1-modp1024 and AES-128-SHA-256-modp2048, and their lifetimes."""
    life = struct.pack("!HHI", 12, 4, 86400)
    transforms = b"".join(
        block(bytes((number, 1, 0, 0)) + life + b"".join(
            struct.pack("!HH", 0x8000 | kind, value) for kind, value in values), 3)
        for number, values in enumerate(
            ([(1, 5), (2, 2), (4, 2)], [(1, 7), (14, 128), (2, 4), (4, 14)]), start=1))
    return message(1, 1, bytes(8) + block(bytes((0, 1, 0, 2)) + transforms, 0))


@pytest.mark.parametrize(("sent", "expected"), [
    (version_2(OFFER), NAMES), (version_2(OFFER[:1]), NAMES[:1]),
    (version_2([[*OFFER[0], LATER_ML_KEM]]), (f"{NAMES[0]}-ke1_mlkem768",)),
    (version_2([[AES128, SHA256, PRF_SHA256, ECP256, CURVE25519]]),
     (f"{NAMES[1]}+aes128-sha256-curve25519",)),
    (version_1(), ("3des-sha1-modp1024", "aes128-sha256-modp2048"))],
    ids=["two", "one", "with ML-KEM", "with two groups", "of version 1"])
def test_first_message_has_its_proposals_in_order(sent: bytes, expected: tuple[str, ...]) -> None:
    offer = ike.parse_offer(1.5, sent)
    assert offer == ike.IkeOffer(1.5, expected)
    for size in range(len(sent)):  # cut off anywhere
        ike.parse_offer(0, sent[:size])


@pytest.mark.parametrize("other", [
    b"", bytes(27), bytes(28), version_2(OFFER, b"answered"), message(2, 34, b"key"),
    message(3, 33, b"")])
def test_other_messages_offer_nothing(other: bytes) -> None:
    assert ike.parse_offer(0, other) is None


@pytest.mark.parametrize(("sent", "ok"), [
    ([OFFER], True), ([OFFER, OFFER[::-1]], True), ([OFFER[::-1]], False), ([OFFER[:1]], False),
    ([], False), *(([[OFFER[0], [more, *OFFER[1]]]], False) for more in (
        AES128_GCM, SHA1, PRF_SHA1, CURVE25519))],
    ids=["as asked", "again with another group first", "other order", "one alone", "none",
         "two ciphers", "two integrity algorithms", "two PRFs", "two groups"])
def test_offer_is_that_of_the_policy(sent: list[list[list[tuple[int, int, int]]]], ok: bool,
                                     tmp_path: Path) -> None:
    frames = [(1 + number, udp(version_2(each))) for number, each in enumerate(sent)]
    made_up_captures.written(tmp_path / "auth-mn.pcap", frames)
    observed = Observation({"stamps": {}}, {}, "02:00:00:00:a2:00", macs=frozenset(),
                           addresses=frozenset(), folder=tmp_path)
    check = layer_checks._check_offer(NAMES, observed)
    assert (check.check, check.ok) == ("IKE proposals offered", ok)


def udp(payload: bytes) -> bytes:
    """A frame with a datagram of IKE."""
    addresses = bytes(map(int, f"{STATION}.{AGENT}".split(".")))
    datagram = struct.pack("!HHHH", ike.IKE_PORT, ike.IKE_PORT, 8 + len(payload), 0) + payload
    return (bytes(12) + b"\x08\x00" + struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(datagram), 0, 0,
                                                  64, 17, 0) + addresses + datagram)


def test_keywords_are_those_of_the_chosen_proposal() -> None:
    """What is offered and what is chosen are written alike."""
    assert tshark.ikev2_proposal("12", "12", "5", "19", "128") == NAMES[1]
