"""RADIUS inside TLS, as two FreeRADIUS said it: opened from the middle on, and what is no proof."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import made_up_captures
from measure.capture import pcap
from measure.checks import radsec
from measure.checks.observation import Observation
from measure.packets import eap

RECORDED = Path(__file__).parents[1] / "recorded" / "radsec"
CAPTURE, KEYS = RECORDED / "asked.pcap", (RECORDED / "asked-keys.txt").read_text().splitlines()
PORT = 2083
#: What a record of data begins with; before it come headers of 54 bytes, and TCP's stamps.
APPLICATION = b"\x17\x03\x03"
#: Six questions of somebody whom nobody knows, each refused.
CODES = [1, 3] * 6


def written(file: Path, frames: list[pcap.CapturedFrame]) -> Path:
    """Frames as a capture."""
    return made_up_captures.written(file, [(frame.at_s, frame.data) for frame in frames])


def codes(file: Path, keys: list[str]) -> list[int]:
    """What kinds of messages are inside."""
    return [message.code for message
            in radsec.parse_radius_messages(radsec.read_tls_records(file, PORT, keys))]


def test_messages_are_opened_with_the_servers_keys() -> None:
    """All of them, and the handshake before, in which both showed certificates."""
    records = radsec.read_tls_records(CAPTURE, PORT, KEYS)
    assert all(record.suite for record in records)
    assert {r.suite for r in records if r.kind == radsec.APPLICATION_DATA} == {"AES-256-GCM"}
    assert [message.code for message in radsec.parse_radius_messages(records)] == CODES
    for is_servers in (True, False):
        said = radsec.handshake_messages([r for r in records if r.is_servers is is_servers])
        assert {11, 15, 20} <= {kind for kind, _ in said}


def test_a_capture_may_begin_amid_the_connection(tmp_path: Path) -> None:
    """Whatever number of records went before, the rest opens; without the keys nothing does."""
    frames = list(pcap.read_frames(CAPTURE))
    at = [place for place, frame in enumerate(frames)
          if frame.data[54 + 12:].startswith(APPLICATION)]
    last = written(tmp_path / "last.pcap", frames[at[-6]:])
    assert codes(last, KEYS) == CODES[-6:]
    assert codes(last, []) == codes(last, [KEYS[0], KEYS[1]]) == []


def test_what_is_changed_or_missing_is_not_opened(tmp_path: Path) -> None:
    """A bit, or a segment: one record at least that no suite has opened."""
    frames = list(pcap.read_frames(CAPTURE))
    *_, place, _, last, _ = [at for at, frame in enumerate(frames)
                             if frame.data[54 + 12:].startswith(APPLICATION)]
    changed = bytearray(frames[last].data)
    changed[-1] ^= 1
    flipped = [*frames[:last], pcap.CapturedFrame(frames[last].at_s, bytes(changed),
                                                  frames[last].wire_bytes), *frames[last + 1:]]
    for name, there in (("flipped", flipped), ("missing", frames[:place] + frames[place + 1:])):
        records = radsec.read_tls_records(written(tmp_path / f"{name}.pcap", there), PORT,
                                          KEYS)
        assert not all(record.suite for record in records)


def test_segments_that_come_twice_or_late_are_put_in_order(tmp_path: Path) -> None:
    """As TCP does."""
    frames = list(pcap.read_frames(CAPTURE))
    mixed = [frame for frame in frames for _ in range(2)]
    place = next(place for place, frame in enumerate(frames) if frame.wire_bytes > 1000)
    late = [*frames[:place], *frames[place + 1:], frames[place]]
    for name, there in (("twice", mixed), ("late", late)):
        assert codes(written(tmp_path / f"{name}.pcap", there), KEYS) == CODES


def segment(frame: pcap.CapturedFrame) -> bytes:
    """TCP's data of a frame; nothing of another one."""
    packet = frame.payload
    if frame.kind != 0x0800 or packet[9] != 6:
        return b""
    return packet[20 + (packet[32] >> 4) * 4:int.from_bytes(packet[2:4], "big")]


def piece(frame: pcap.CapturedFrame, first: int, end: int, by_s: float = 0.0) -> pcap.CapturedFrame:
    """A part of a frame's data as a segment of its own, so much later."""
    packet, text = frame.payload, segment(frame)
    head = len(packet[:int.from_bytes(packet[2:4], "big")]) - len(text)
    number = int.from_bytes(packet[24:28], "big") + first
    made = bytearray(packet[:head] + text[first:end])
    made[2:4] = len(made).to_bytes(2, "big")
    made[24:28] = number.to_bytes(4, "big")
    return pcap.CapturedFrame(frame.at_s + by_s, frame.data[:14] + bytes(made), 14 + len(made))


def lost_and_sent_again(frames: list[pcap.CapturedFrame]) -> list[pcap.CapturedFrame]:
    """Every third segment with data comes 0.3 s late, behind what was sent after it."""
    late = [n for n, frame in enumerate(frames) if segment(frame)][::3]
    return sorted([frame if n not in late else piece(frame, 0, len(segment(frame)), 0.3)
                   for n, frame in enumerate(frames)], key=lambda frame: frame.at_s)


def in_overlapping_pieces(frames: list[pcap.CapturedFrame]) -> list[pcap.CapturedFrame]:
    """Each segment in three, of which the middle one comes last and has some of the others."""
    there: list[pcap.CapturedFrame] = []
    for frame in frames:
        size = len(segment(frame))
        there += [frame] if size < 9 else [
            piece(frame, 0, size // 3), piece(frame, 2 * size // 3, size, 1e-5),
            piece(frame, size // 3 - 2, 2 * size // 3 + 2, 2e-5)]
    return there


@pytest.mark.parametrize("lose", [lost_and_sent_again, in_overlapping_pieces])
@pytest.mark.parametrize("name", ["auth-wire.pcap", "radsec-ap-a.pcap"])
def test_wire_that_loses_packets_is_proven(tmp_path: Path, name: str, lose: Callable[
        [list[pcap.CapturedFrame]], list[pcap.CapturedFrame]]) -> None:
    """Segments sent again, late and in other pieces: the same records and the same two ends."""
    for file in RECORDED.iterdir():
        shutil.copy(file, tmp_path)
    written(tmp_path / name, lose(list(pcap.read_frames(RECORDED / name))))
    assert failing(tmp_path, raw_values()) == set()


def numbered(frame: pcap.CapturedFrame, number: int, data: bytes) -> pcap.CapturedFrame:
    """A segment of a frame's flow with other data, from a byte of this number on."""
    packet = frame.payload
    head = 20 + (packet[32] >> 4) * 4
    made = bytearray(packet[:head] + data)
    made[2:4] = len(made).to_bytes(2, "big")
    made[24:28] = (number % (1 << 32)).to_bytes(4, "big")
    return pcap.CapturedFrame(frame.at_s, frame.data[:14] + bytes(made), 14 + len(made))


def of_flow(frames: list[pcap.CapturedFrame]) -> tuple[pcap.CapturedFrame, int, int]:
    """A frame of the server's flow, the number of its first byte and that behind its last."""
    theirs = [frame for frame in frames if segment(frame)
              and int.from_bytes(frame.payload[20:22], "big") == PORT]
    numbers = [int.from_bytes(frame.payload[24:28], "big") for frame in theirs]
    return theirs[0], numbers[0], numbers[-1] + len(segment(theirs[-1]))


def test_record_that_is_cut_by_the_captures_ends_is_no_fault(tmp_path: Path) -> None:
    """The end of one that began before, and the beginning of one whose rest was lost."""
    for file in RECORDED.iterdir():
        shutil.copy(file, tmp_path)
    frames = list(pcap.read_frames(RECORDED / "auth-wire.pcap"))
    frame, first, end = of_flow(frames)
    cut = [numbered(frame, first - 40, bytes(range(100, 140))), *frames,
           numbered(frame, end, b"\x17\x03\x03\x00\x80" + bytes(50))]
    written(tmp_path / "auth-wire.pcap", cut)
    assert failing(tmp_path, raw_values()) == set()


@pytest.mark.parametrize("data", [b"\x01\x07\x00\x26" + bytes(34),
                                  b"\x17\x03\x03\x00\x20" + bytes(32)], ids=["clear", "closed"])
def test_what_is_no_record_of_the_connection_fails(tmp_path: Path, data: bytes) -> None:
    """RADIUS in clear, or a record under no key, behind those that open."""
    for file in RECORDED.iterdir():
        shutil.copy(file, tmp_path)
    frames = list(pcap.read_frames(RECORDED / "auth-wire.pcap"))
    frame, _, end = of_flow(frames)
    written(tmp_path / "auth-wire.pcap", [*frames, numbered(frame, end, data)])
    assert failing(tmp_path, raw_values()) == {INSIDE}


def test_connection_in_clear_beside_the_protected_one_fails(tmp_path: Path) -> None:
    """However short it is: nothing of it opens."""
    for file in RECORDED.iterdir():
        shutil.copy(file, tmp_path)
    frames = list(pcap.read_frames(RECORDED / "auth-wire.pcap"))
    frame, first, _ = of_flow(frames)
    other = bytearray(numbered(frame, first, b"\x01\x07\x00\x26" + bytes(34)).data)
    other[36:38] = (50_000).to_bytes(2, "big")
    written(tmp_path / "auth-wire.pcap", [*frames, pcap.CapturedFrame(
        frame.at_s, bytes(other), len(other))])
    assert failing(tmp_path, raw_values()) == {INSIDE}


def failing(folder: Path, raw: dict[str, Any]) -> set[str]:
    """The checks that do not hold."""
    return {check.check for check in radsec.check_radsec(observed(folder, raw)) if not check.ok}


def observed(folder: Path, raw: dict[str, Any]) -> Observation:
    """A repetition at home, of M5-radsec in N2, by its files."""
    return Observation(raw, {}, "02:00:00:00:a2:00", macs=frozenset(), addresses=frozenset(),
                       folder=folder)


INSIDE, CERTIFIED = "RADIUS inside TLS", "RadSec: mutual certificates"


def raw_values() -> dict[str, Any]:
    """What a repetition left."""
    values: dict[str, Any] = json.loads((RECORDED / "raw.json").read_text())
    return values


def test_a_repetition_in_the_guest_is_proven() -> None:
    """Seven questions and answers of EAP-TLS 1.3; who is at the connection's ends; the keys."""
    inside, certified = radsec.check_radsec(observed(RECORDED, raw_values()))
    assert inside.ok
    assert inside.detail.startswith("14 messages of RADIUS inside TLS 1.3 (AES-256-GCM), 1 of them")
    assert certified.ok
    assert certified.detail.endswith("ha-a to ap-a, ap-a to its server")
    assert [len(session.receive) for session in radsec.radsec_session_keys(
        RECORDED / "auth-wire.pcap", raw_values()["radsec_keys"])] == [32]


@pytest.mark.parametrize(("group", "ok"), [
    ("p-256", True), ("x25519", False), ("x25519mlkem768", False)])
def test_group_of_the_connection_is_that_of_the_policy(tmp_path: Path, group: str,
                                                       ok: bool) -> None:
    """The server's hello states the group; without the connection's capture the check fails."""
    *_, agreed = radsec.check_radsec(observed(RECORDED, raw_values()), group)
    assert (agreed.check, agreed.ok) == ("RadSec: TLS group", ok)
    *_, absent = radsec.check_radsec(observed(tmp_path, raw_values()), group)
    assert not absent.ok


def by_udp(folder: Path, _raw: dict[str, Any]) -> None:
    """One request by UDP besides."""
    wire = folder / "auth-wire.pcap"
    frames = list(pcap.read_frames(wire))
    packet = (bytes.fromhex("4500002400000000ff1100000a0100020a010001")
              + struct.pack("!HHHH", 40000, eap.RADIUS_PORT, 16, 0) + bytes(8))
    stray = pcap.CapturedFrame(frames[-1].at_s, bytes(12) + b"\x08\x00" + packet, 14 + len(packet))
    written(wire, [*frames, stray])


def without_the_last(folder: Path, _raw: dict[str, Any]) -> None:
    """Nothing of TLS after the first ten frames."""
    wire = folder / "auth-wire.pcap"
    written(wire, list(pcap.read_frames(wire))[:10])


def under_another_name(folder: Path, raw: dict[str, Any]) -> None:
    """The connection is of another access point than its capture says."""
    (folder / "radsec-ap-a.pcap").rename(folder / "radsec-ap-b.pcap")
    raw["captures"][0]["file"] = "radsec-ap-b.pcap"


@pytest.mark.parametrize(("spoil", "fails"), [
    (by_udp, {INSIDE}), (without_the_last, {INSIDE}), (under_another_name, {CERTIFIED}),
    (lambda _, raw: raw["captures"].pop(0), {CERTIFIED}),
    (lambda _, raw: raw["captures"].pop(1), {INSIDE}),
    (lambda _, raw: raw.update(radsec_keys=[]), {INSIDE, CERTIFIED})])
def test_what_is_no_proof(tmp_path: Path, spoil: Callable[[Path, dict[str, Any]], object],
                          fails: set[str]) -> None:
    """Each thing that lacks fails its own check, and no other."""
    for file in RECORDED.iterdir():
        shutil.copy(file, tmp_path)
    raw = raw_values()
    spoil(tmp_path, raw)
    assert failing(tmp_path, raw) == fails


def test_other_policies_are_judged_without_what_opens_tls() -> None:
    """The container image has no room for it: none of the judge's modules asks for it at once."""
    without = "import sys; sys.modules['cryptography'] = None; import studies.qop2007.judge"
    done = subprocess.run([sys.executable, "-c", without], cwd=Path(__file__).parents[2],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
