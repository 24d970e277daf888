"""Frames that tshark takes for a mesh's: read for what they are, and opened by the right key only.

Keys, packet numbers and texts are such that a frame from an access point is one of these.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM

import made_up_captures
import recorded
from measure.capture import dissection, tshark
from measure.capture.tshark import Packet
from measure.checks import layer_checks
from measure.packets import ciphers, eap

STATION, ACCESS_POINT, ROUTER = (bytes.fromhex(f"02000000{tail}") for tail in
                                 ("0001", "0002", "0003"))
KEY = bytes(range(32))
TEXT = bytes.fromhex("aaaa030000000800" "45000054") + bytes(80)
#: A header of radiotap without a field.
RADIO = bytes.fromhex("0000080000000000")
NO_QOS, VOICE = b"", b"\5\0"


def header(qos: bytes) -> bytes:
    """A protected frame's from the access point, of the router's."""
    return (bytes((0x88 if qos else 0x08, 0x42, 0, 0)) + STATION + ACCESS_POINT + ROUTER
            + bytes((0x10, 0)) + qos)


def wep(vector: bytes, text: bytes = TEXT) -> bytes:
    """A frame under WEP-104."""
    check = zlib.crc32(text).to_bytes(4, "little")
    return header(NO_QOS) + vector + b"\0" + eap.rc4(vector + KEY[:13], text + check)


def numbered(cipher: Callable[[bytes, bytes, bytes], bytes], number: int,
             qos: bytes = NO_QOS) -> bytes:
    """A frame under what makes a text, with nonce and header, unreadable."""
    data, count = header(qos), number.to_bytes(6, "big")
    beside = (bytes((data[0], data[1] & (0x47 if qos else 0xC7))) + data[4:22] + bytes(2)
              + (bytes((qos[0], 0)) if qos else b""))
    return (data + bytes((count[5], count[4], 0, 0x20)) + count[3::-1]
            + cipher(ACCESS_POINT + count, TEXT, beside))


def ccmp(key_bytes: int, number: int, qos: bytes = NO_QOS) -> bytes:
    """A frame under CCMP, or CCMP-256."""
    tool = AESCCM(KEY[:key_bytes], tag_length=key_bytes // 2)
    return numbered(lambda nonce, text, beside: tool.encrypt(
        bytes((qos[0] if qos else 0,)) + nonce, text, beside), number, qos)


def gcmp(key_bytes: int, number: int) -> bytes:
    """A frame under GCMP, or GCMP-256."""
    return numbered(AESGCM(KEY[:key_bytes]).encrypt, number)


def mixed(number: int) -> bytes:
    """A frame under TKIP; its second check, Michael's, is asked by nobody here."""
    high, low, text = number >> 16, number & 0xFFFF, TEXT + bytes(8)
    counter = bytes((low >> 8, (low >> 8 | 0x20) & 0x7F, low & 0xFF, 0x20))
    check = zlib.crc32(text).to_bytes(4, "little")
    return header(NO_QOS) + counter + high.to_bytes(4, "little") + eap.rc4(
        ciphers.frame_key(KEY, ACCESS_POINT, number), text + check)


def mistaken_wep() -> bytes:
    """A frame under WEP whose ciphertext is what tshark looks for: its text has been chosen so."""
    vector, place = bytes((2, 2, 3)), 14
    stream = eap.rc4(vector + KEY[:13], bytes(place + 2))
    text = TEXT[:place] + bytes(a ^ 0xAA for a in stream[place:]) + TEXT[place + 2:]
    return wep(vector, text)


CASES = {
    "WEP-104": (mistaken_wep(), f"wep:{KEY[:13].hex()}", "WEP-104", "0x020203"),
    "CCMP": (ccmp(16, 0x802701), f"tk:{KEY[:16].hex()}", "CCMP", "0x000000802701"),
    "longer-mesh": (ccmp(16, 0x2079302), f"tk:{KEY[:16].hex()}", "CCMP", "0x000002079302"),
    "quality-of-service": (ccmp(16, 0x169801, VOICE), f"tk:{KEY[:16].hex()}", "CCMP",
                           "0x000000169801"),
    "CCMP-256": (ccmp(32, 0x447001), f"tk:{KEY.hex()}", "CCMP", "0x000000447001"),
    "TKIP": (mixed(0x30C0244), f"tk:{KEY.hex()}", "TKIP", "0x0000030C0244"),
    "GCMP": (gcmp(16, 0x17CCF01), f"tk:{KEY[:16].hex()}", "GCMP", "0x0000017CCF01"),
}


#: Those whose check is of addresses, too.
ADDRESSED = [name for name, (*_, cipher, _) in CASES.items() if cipher not in ("WEP-104", "TKIP")]
KEYS = sorted({key for _, key, *_ in CASES.values()})


def read(folder: Path, frames: Sequence[bytes], keys: Sequence[str], radio: bytes = RADIO,
         ) -> tuple[list[Packet], list[Packet]]:
    """What tshark makes of frames, and what they are, under keys."""
    file = made_up_captures.written(
        folder / "air.pcap", [(1.5, radio + frame) for frame in frames],
        made_up_captures.RADIOTAP if radio else made_up_captures.IEEE802_11)
    [alone] = tshark.read_uncorrected([file], keys)
    return alone, dissection.read_packets(file, keys)


def each(folder: Path, frames: Mapping[str, bytes], keys: Sequence[str], radio: bytes = RADIO,
         ) -> dict[str, tuple[Packet, Packet]]:
    """The same by the frame's name: tshark is slow to start."""
    return dict(zip(frames, zip(*read(folder, [*frames.values()], keys, radio), strict=True),
                    strict=True))


@pytest.fixture(scope="module", params=[RADIO, b""], ids=["radiotap", "bare"])
def mistaken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory,
             ) -> tuple[bytes, dict[str, tuple[Packet, Packet]]]:
    """All cases under their keys, and what stands before each frame."""
    return request.param, each(tmp_path_factory.mktemp("mistaken"),
                               {name: frame for name, (frame, *_) in CASES.items()}, KEYS,
                               request.param)


@pytest.fixture(scope="module")
def otherwise(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Packet, Packet]]:
    """All cases under keys that are nobody's."""
    others = sorted({f"{kind}:{'ff' * (len(value) // 2)}"
                     for kind, _, value in (key.partition(":") for key in KEYS)})
    return each(tmp_path_factory.mktemp("otherwise"),
                {name: frame for name, (frame, *_) in CASES.items()}, others)


@pytest.fixture(scope="module")
def altered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Packet, Packet]]:
    """All cases under their keys with one bit altered, by name and where: 4, the receiver."""
    frames = {}
    for name, (frame, *_) in CASES.items():
        for place in (4, -1):
            other = bytearray(frame)
            other[place] ^= 4
            frames[f"{name} {place}"] = bytes(other)
    return each(tmp_path_factory.mktemp("altered"), frames, KEYS)


@pytest.mark.parametrize("name", CASES)
def test_a_frame_that_tshark_mistakes_opens(
    name: str, mistaken: tuple[bytes, dict[str, tuple[Packet, Packet]]],
) -> None:
    """Tshark takes it for a mesh's and leaves it closed; it counts, and opens, all the same."""
    frame, _, cipher, counter = CASES[name]
    radio, seen = mistaken
    alone, packet = seen[name]
    assert alone.is_mesh and not alone.has_llc
    assert layer_checks.frame_counter(cipher, alone) != counter
    assert packet.has_llc and packet.protected and not packet.is_mesh
    assert layer_checks.frame_counter(cipher, packet) == counter
    assert (packet.length, packet.captured) == (len(radio + frame),) * 2
    assert (packet.time_s, packet.ip_bytes, packet.radiotap_bytes) == (
        alone.time_s, 0x54, alone.radiotap_bytes)
    assert (packet.transmitter, packet.receiver) == (alone.transmitter, alone.receiver)
    assert layer_checks.describe_decryption([packet], "the key")[0]


@pytest.mark.parametrize("name", CASES)
def test_under_another_key_it_stays_closed(
    name: str, otherwise: dict[str, tuple[Packet, Packet]],
) -> None:
    """A frame that the keys in force do not open fails its check; its counter shows what it is."""
    *_, cipher, counter = CASES[name]
    _, packet = otherwise[name]
    assert packet.protected and not packet.has_llc and not packet.ip_src
    assert layer_checks.frame_counter(cipher, packet) == counter
    assert not layer_checks.describe_decryption([packet], "the key")[0]


@pytest.mark.parametrize("which", [*(f"{name} -1" for name in CASES),
                                   *(f"{name} 4" for name in ADDRESSED)])
def test_a_frame_that_was_altered_stays_closed(
    which: str, altered: dict[str, tuple[Packet, Packet]],
) -> None:
    """One bit of what its check is of: its receiver's address, or its last byte."""
    _, packet = altered[which]
    assert packet.protected and not packet.has_llc
    assert not layer_checks.describe_decryption([packet], "the key")[0]


@pytest.mark.parametrize(("number", "key"), [
    (0, "00200033ea8d2f60ca6d1374234a660b"), (1, "00200190ffdc314389a9d9d074fd20aa")])
def test_tkip_mixes_as_published(number: int, key: str) -> None:
    """The first test vectors of IEEE 802.11 (J.4.1), by their temporal key and sender."""
    assert ciphers.frame_key(bytes(range(16)), bytes.fromhex("102233445566"), number).hex() == key


def test_what_only_says_that_it_is_encrypted_stays_closed(tmp_path: Path) -> None:
    """A readable text where a mesh's frame would have it, behind a counter: no key opens it."""
    body = bytes((1, 0, 0, 0x20)) + bytes(8) + TEXT
    [alone], [packet] = read(tmp_path, [header(NO_QOS) + body], [f"tk:{KEY[:16].hex()}"])
    assert alone.is_mesh
    assert not packet.has_llc and not packet.ip_src
    assert not layer_checks.describe_decryption([packet], "the key")[0]


def test_a_frame_that_was_cut_short_counts_and_is_not_tried(tmp_path: Path) -> None:
    """Of streams, which are captured without their ends, the packet number is read at least."""
    frame, key, cipher, counter = CASES["CCMP"]
    data = made_up_captures.pcap([(1.5, frame[:60])], made_up_captures.IEEE802_11)
    file = tmp_path / "air.pcap"
    file.write_bytes(data[:36] + len(frame).to_bytes(4, "little") + data[40:])
    [packet] = dissection.read_packets(file, [key])
    assert (packet.length, packet.captured) == (len(frame), 60)
    assert layer_checks.frame_counter(cipher, packet) == counter
    assert packet.protected and not packet.has_llc


@pytest.mark.parametrize("recording", ["P2", "P8"])
def test_every_recorded_frame_is_the_same_packet_by_tshark_and_here(recording: str) -> None:
    """Each taken for a mistaken one: what tshark opens opens here, and shows the same of itself."""
    files = [recorded.path(recording, name) for name in ("auth-air", "traffic-air")]
    key = f"wep:{recorded.WEP_KEY}"
    by_tshark = tshark.read_uncorrected(files, [key])
    here = [[replace(packet, is_mesh=packet.is_data and packet.protected) for packet in seen]
            for seen in by_tshark]
    assert sum(packet.is_mesh for seen in here for packet in seen) > 40
    dissection.correct_packets(files, here, [key])
    assert here == by_tshark
    assert (recording == "P2") == any(p.protected and p.has_llc for seen in here for p in seen)


@pytest.mark.parametrize(("key", "is_open"), [(KEY, True), (bytes(32), False)],
                         ids=["right", "other"])
def test_temporal_key_of_tkip_opens_what_tshark_leaves_closed(tmp_path: Path, key: bytes,
                                                              is_open: bool) -> None:
    """A companion's frames, whose key its kernel told; another key opens none."""
    file = made_up_captures.written(tmp_path / "air.pcap", [(1.0, RADIO + mixed(0x71))],
                                    made_up_captures.RADIOTAP)
    [[packet]] = dissection.read_all_packets([file], [f"tk:{key.hex()}"])
    assert (packet.has_llc, packet.protected) == (is_open, True)
    assert packet.tkip_iv
