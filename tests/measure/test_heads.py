"""Heads of frames that are cut short: each cipher's opens under its key, and noise under none."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM

import made_up_captures
import recorded
from measure.attacks import passphrase_guessing
from measure.capture import pcap
from measure.checks import layer_checks
from measure.packets import ciphers, eap, truncated_frames
from measure.packets.decryption_keys import TemporalKey
from policies import LinkLayer

STATION, CELL = bytes.fromhex("02000000a200"), bytes.fromhex("02000000a000")
MAC, ADDRESS = "02:00:00:00:a2:00", "10.1.0.12"
RADIO, SNAP = bytes.fromhex("0000080000000000"), 192
KEY = bytes(range(32))
NUMBER = 0x0000000012A7


def packet(size: int = 1428, source: str = ADDRESS) -> bytes:
    """An IPv4 packet behind LLC."""
    return bytes.fromhex("aaaa030000000800") + made_up_captures.datagram(size, source, "10.1.0.1")


TEXT = packet()
HEADER = bytes((0x08, 0x41, 0, 0)) + CELL + STATION + CELL + bytes((0x10, 0))
#: With quality of service, of the voice's priority.
WITH_QOS = bytes((0x88, 0x41, 0, 0)) + CELL + STATION + CELL + bytes((0x10, 0, 5, 0))


def wep(text: bytes, size: int) -> bytes:
    """A body under WEP."""
    check = zlib.crc32(text).to_bytes(4, "little")
    return b"\1\2\3\0" + eap.rc4(b"\1\2\3" + KEY[:size], text + check)


def mixed(text: bytes) -> bytes:
    """A body under TKIP."""
    high, low = NUMBER >> 16, NUMBER & 0xFFFF
    counter = bytes((low >> 8, (low >> 8 | 0x20) & 0x7F, low & 0xFF, 0x20))
    return counter + high.to_bytes(4, "little") + eap.rc4(
        ciphers.frame_key(KEY, STATION, NUMBER), text + bytes(12))


def numbered(text: bytes, encrypt: Callable[[bytes, bytes, bytes], bytes]) -> bytes:
    """A body under CCMP or GCMP: what encrypts is given nonce, text and nothing beside it."""
    count = NUMBER.to_bytes(6, "big")
    return bytes((count[5], count[4], 0, 0x20)) + count[3::-1] + encrypt(
        STATION + count, text, b"")


def ccmp(text: bytes, size: int, priority: int = 0) -> bytes:
    """A body under CCMP, or CCMP-256."""
    tool = AESCCM(KEY[:size], tag_length=size // 2)
    return numbered(text, lambda nonce, plain, beside: tool.encrypt(
        bytes((priority,)) + nonce, plain, beside))


def gcmp(text: bytes, size: int) -> bytes:
    """A body under GCMP, or GCMP-256."""
    return numbered(text, AESGCM(KEY[:size]).encrypt)


BODIES: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "WEP-40": (lambda text: wep(text, 5), 5), "WEP-104": (lambda text: wep(text, 13), 13),
    "TKIP": (mixed, 32), "CCMP": (lambda text: ccmp(text, 16), 16),
    "CCMP-256": (lambda text: ccmp(text, 32), 32), "GCMP": (lambda text: gcmp(text, 16), 16),
    "GCMP-256": (lambda text: gcmp(text, 32), 32)}


def layer(cipher: str) -> LinkLayer:
    """A link under a cipher, however its keys come."""
    return LinkLayer.model_construct(cipher=cipher, keys="psk")


def verified(file: Path, cipher: str, frames: list[bytes], keys: list[bytes], *,
             cut: int = SNAP) -> truncated_frames.DecryptedFrameHeads:
    """What comes of frames of which so many bytes are captured."""
    pcap.write_frames(file, [pcap.CapturedFrame(1.0 + n, (RADIO + data)[:cut], len(RADIO + data))
                             for n, data in enumerate(frames)], pcap.RADIOTAP)
    return truncated_frames.verify_frame_heads(layer(cipher), [file], list(map(TemporalKey, keys)),
                                               [MAC],
                                               [ADDRESS])


@pytest.mark.parametrize("cipher", BODIES)
def test_head_opens_under_its_key_and_no_other(tmp_path: Path, cipher: str) -> None:
    """Also where another key is tried before; and none under another key alone."""
    encrypt, size = BODIES[cipher]
    frames = [HEADER + encrypt(TEXT), HEADER + encrypt(packet(1000))]
    key, other = KEY[:size], bytes(size)
    file = tmp_path / "air.pcap"
    assert verified(file, cipher, frames, [other, key]).opened == 2
    assert not verified(file, cipher, frames, [other, key]).closed
    assert len(verified(file, cipher, frames, [other]).closed) == 2


@pytest.mark.parametrize("cipher", BODIES)
@pytest.mark.parametrize("noise", [bytes(2000), b"\x5a" * 2000, TEXT],
                         ids=["zeros", "constant", "clear"])
def test_noise_behind_the_counter_opens_under_no_key(tmp_path: Path, cipher: str,
                                                     noise: bytes) -> None:
    """A frame that has a right counter and right lengths, and is not encrypted under the key."""
    encrypt, size = BODIES[cipher]
    body = encrypt(TEXT)
    counter = 4 if cipher.startswith("WEP") else 8
    fake = HEADER + body[:counter] + noise[:len(body) - counter]
    [closed] = verified(tmp_path / "air.pcap", cipher, [fake], [KEY[:size]]).closed
    assert closed.at_s == 1.0


@pytest.mark.parametrize("cipher", BODIES)
@pytest.mark.parametrize("text", [packet(1427), packet(source="10.9.9.9"), TEXT[:18] + b"\0\0"
                                  + TEXT[20:], b"\0" + TEXT[1:]],
                         ids=["length", "address", "checksum", "LLC"])
def test_what_is_no_packet_of_this_network_is_closed(tmp_path: Path, cipher: str,
                                                     text: bytes) -> None:
    """Under the right key, and not what a frame of this length and station begins with."""
    encrypt, size = BODIES[cipher]
    text = text + bytes(len(TEXT) - len(text))
    assert verified(tmp_path / "air.pcap", cipher, [HEADER + encrypt(text)], [KEY[:size]]).closed


def test_priority_is_part_of_ccmps_nonce(tmp_path: Path) -> None:
    """Of a frame with quality of service."""
    file = tmp_path / "air.pcap"
    assert verified(file, "CCMP", [WITH_QOS + ccmp(TEXT, 16, 5)], [KEY[:16]]).opened == 1
    assert verified(file, "CCMP", [WITH_QOS + ccmp(TEXT, 16)], [KEY[:16]]).closed


def test_whole_frames_and_those_to_everybody_are_left_to_others(tmp_path: Path) -> None:
    """Of whole ones the check value is verified; a group's key is not known here."""
    to_all = bytes((0x08, 0x42, 0, 0)) + b"\xff" * 6 + CELL + STATION + bytes(2)
    strange = HEADER.replace(STATION, bytes.fromhex("02000000a100"))
    in_clear = HEADER[:1] + bytes((HEADER[1] & ~0x40,)) + HEADER[2:]
    for frame in (to_all + ccmp(TEXT, 16), strange + ccmp(TEXT, 16), in_clear + TEXT):
        found = verified(tmp_path / "air.pcap", "CCMP", [frame], [KEY[:16]])
        assert (found.opened, found.closed, found.detail) == (0, [], "")
    assert not verified(tmp_path / "air.pcap", "CCMP", [HEADER + bytes(60)], [KEY[:16]],
                        cut=400).closed


def test_frames_of_several_stations_open_each_under_its_own(tmp_path: Path) -> None:
    """Keys that nobody says are whose are tried on every frame, wherever it stands."""
    other, file = bytes.fromhex("02000000a100"), tmp_path / "air.pcap"
    mine, theirs = HEADER + ccmp(TEXT, 16), HEADER.replace(STATION, other) + numbered(
        TEXT, lambda nonce, plain, beside: AESCCM(bytes(16), tag_length=8).encrypt(
            b"\0" + other + nonce[6:], plain, beside))
    pcap.write_frames(file, [pcap.CapturedFrame(1.0 + n, (RADIO + data)[:SNAP], len(RADIO + data))
                             for n, data in enumerate((mine, theirs, theirs, mine))], pcap.RADIOTAP)
    macs = [MAC, "02:00:00:00:a1:00"]
    for keys in ([TemporalKey(KEY[:16]), TemporalKey(bytes(16))],
                 [TemporalKey(bytes(16), other), TemporalKey(KEY[:16], STATION)]):
        assert truncated_frames.verify_frame_heads(layer("CCMP"), [file], keys, macs,
                                                   [ADDRESS]).opened == 4
    assert len(truncated_frames.verify_frame_heads(layer("CCMP"), [file], keys[:1], macs,
                                                   [ADDRESS]).closed) == 2


def test_question_for_an_address_has_no_ipv4_header(tmp_path: Path) -> None:
    """ARP's length and first bytes, of a capture that keeps less than even that."""
    file, asking = tmp_path / "air.pcap", bytes.fromhex("aaaa030000000806" "0001080006040001")
    for text, is_open in ((asking + bytes(20), True), (asking + bytes(21), False),
                          (asking[:12] + b"\x08" + bytes(23), False)):
        found = verified(file, "CCMP", [HEADER + ccmp(text, 16)], [KEY[:16]], cut=74)
        assert bool(found.opened) is is_open


def group_key(information: int = 0x1382, size: int = 155, kind: int = 3) -> bytes:
    """A message of a group key handshake behind LLC: 802.1X, RSN, and padding."""
    return (bytes.fromhex("aaaa03000000888e") + bytes((2, kind)) + (size - 12).to_bytes(2, "big")
            + bytes((2,)) + information.to_bytes(2, "big") + bytes(size - 15))


@pytest.mark.parametrize(("text", "message"), [
    (group_key(), True), (group_key(0x0302), False), (group_key(0x13CA), None),
    (group_key(kind=0), None), (group_key() + b"x", None)],
    ids=["message 1", "message 2", "four-way handshake", "EAP", "another length"])
def test_group_key_handshake_opens_under_the_stations_key(text: bytes, message: bool | None,
                                                          tmp_path: Path) -> None:
    """Its messages are told apart. Of EAPOL, nothing else is under this key."""
    found = verified(tmp_path / "air.pcap", "CCMP", [HEADER + ccmp(text, 16)], [KEY[:16]])
    assert [is_first for _, is_first in found.group_messages] == \
        ([] if message is None else [message])
    assert (found.opened, len(found.closed)) == ((0, 1) if message is None else (1, 0))


def renewed(interval_s: int, *at_s: float, lasts_s: float = 3.2) -> dict[str, bool]:
    """Whether the group key was renewed at these times, in streams that begin at 0."""
    found = layer_checks._check_group_renewal(
        interval_s, [(each, True) for each in at_s], int(lasts_s / interval_s))
    return {found.check: found.ok}


@pytest.mark.parametrize(("at_s", "ok"), [
    ((0.5, 1.5, 2.5), True), ((0.1, 1.1, 2.1, 3.1), True), ((0.5, 1.5), False), ((), False),
    ((0.5, 1.5, 1.7), False), ((0.5, 1.0, 1.5), False)])
def test_group_key_is_renewed_at_its_intervals(at_s: tuple[float, ...], *, ok: bool) -> None:
    assert renewed(1, *at_s) == {"group key is renewed": ok}


def test_shorter_head_is_held_to_what_it_has(tmp_path: Path) -> None:
    """A capture that ends amid the IPv4 header: LLC and the length are there."""
    file, cut = tmp_path / "air.pcap", len(RADIO + HEADER) + 8 + 8 + 16
    assert verified(file, "CCMP", [HEADER + ccmp(TEXT, 16)], [KEY[:16]], cut=cut).opened == 1
    for text in (packet(1427) + b"\0", bytes(len(TEXT))):
        assert verified(file, "CCMP", [HEADER + ccmp(text, 16)], [KEY[:16]], cut=cut).closed


@pytest.mark.parametrize("cipher", ["CCMP", "GCMP-256"])
def test_openssl_does_where_the_library_lacks(tmp_path: Path, cipher: str,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the container image."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    encrypt, size = BODIES[cipher]
    assert verified(tmp_path / "air.pcap", cipher, [HEADER + encrypt(TEXT)],
                    [KEY[:size]]).opened == 1


def test_keys_are_expanded_as_the_standard_has_it() -> None:
    """IEEE 802.11i-2004, H.3 and H.4: the PRF, and a passphrase's master key."""
    made = ciphers.expand_sha1(b"\x0b" * 20, b"prefix", b"Hi There", 64)
    assert made.hex().startswith("bcd4c650b30b9684951829e0d75f9d54b862175ed9f00606e17d8da35402ffee")
    assert passphrase_guessing.master_key("password", "IEEE").hex() == (
        "f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e")


@pytest.mark.parametrize("noise", [0x00, 0x5A])
def test_stream_of_noise_fails_a_recorded_repetition(tmp_path: Path, noise: int) -> None:
    """Every long frame of the stream with noise in place of what WEP made: the key's check fails.

    Counters, lengths and the number of frames are as they were.
    """
    seen = recorded.observed("P2")
    link = recorded.policy_of("P2").layers.link
    assert isinstance(link, LinkLayer)
    source = recorded.path("P2", "traffic-air")
    for name, spoils in (("as it was", False), ("noise", True)):
        folder = tmp_path / name
        folder.mkdir()
        frames = [replace(frame, data=_noisy(frame, noise) if spoils else frame.data)
                  for frame in pcap.read_frames(source, pcap.IEEE802_11)]
        pcap.write_frames(folder / "traffic-air.pcap", frames, pcap.RADIOTAP)
        known = replace(seen, folder=folder, link_keys=(f"wep:{recorded.WEP_KEY}",))
        [check] = [check for check in layer_checks.check_link(link, known)
                   if check.check == "static WEP key in use"]
        assert check.ok is not spoils
        assert "open to a header of their length" in check.detail


def _noisy(frame: pcap.CapturedFrame, noise: int) -> bytes:
    """Noise behind WEP's vector, of a data frame that is cut short."""
    start = int.from_bytes(frame.data[2:4], "little") + 24 + 4
    is_cut = len(frame.data) < frame.wire_bytes
    return frame.data[:start] + bytes((noise,)) * (len(frame.data) - start) if is_cut \
        else frame.data
