"""Packets read from captures as bytes: what tshark sees, and nothing of other files."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

import made_up_captures
import recorded
from measure.agent.errors import MeasureError
from measure.capture import pcap, tshark


def test_payloads_are_those_that_tshark_sees() -> None:
    """Registrations and IKE of a recording, with their times, byte for byte."""
    file = recorded.path("P12-R1", "auth-mn")
    for port in (434, 500):
        seen = tshark.read_fields(file, ("frame.time_epoch", "udp.payload"), f"udp.port == {port}")
        payloads = pcap.udp_payloads(file, port)
        assert len(payloads) == len(seen) >= 2
        for (time_s, payload), (at, text) in zip(payloads, seen, strict=True):
            assert payload.hex() == text
            assert time_s == pytest.approx(float(at), abs=1e-6)


def test_eapol_frames_are_those_that_tshark_sees() -> None:
    """EAP and keys, from the version on."""
    file = recorded.path("P8", "auth-mn")
    frames = [frame for _, frame in pcap.eapol_frames(file)]
    types = [int(kind[0]) for kind in tshark.read_fields(file, ("eapol.type",), "eapol")]
    assert [frame[1] for frame in frames] == types and len(types) == 17


def test_a_capture_that_is_cut_gives_what_is_whole(tmp_path: Path) -> None:
    """However many bytes are left, no error, and no payload that was not there."""
    whole = recorded.path("P1", "auth-mn").read_bytes()
    expected = pcap.udp_payloads(recorded.path("P1", "auth-mn"), 434)
    for length in range(24, len(whole), 97):
        (tmp_path / "cut.pcap").write_bytes(whole[:length])
        payloads = pcap.udp_payloads(tmp_path / "cut.pcap", 434)
        assert payloads == expected[:len(payloads)]


@pytest.mark.parametrize("content", [b"", b"text", recorded.path("P1", "auth-air").read_bytes()])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    """Nothing, no capture, and one of another link layer."""
    (tmp_path / "other.pcap").write_bytes(content)
    with pytest.raises(MeasureError, match="is not a capture of Ethernet frames"):
        pcap.udp_payloads(tmp_path / "other.pcap", 434)
    with pytest.raises(OSError, match="missing"):
        pcap.udp_payloads(tmp_path / "missing.pcap", 434)


def fragmented(path: Path, sizes: list[int], *, lost: int = -1) -> Path:
    """A capture of IPv4 packets of protocol 253 in fragments of 1480 bytes; one frame may lack."""
    frames = []
    for number, size in enumerate(sizes):
        content = bytes((number + at) % 251 for at in range(size))
        for offset in range(0, size, 1480):
            part = content[offset:offset + 1480]
            flags = offset // 8 | (0x2000 if offset + 1480 < size else 0)
            header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(part), number, flags, 64, 253,
                                 0, bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2)))
            # Ethernet pads what is short, which is no part of the packet.
            frames.append((bytes(12) + b"\x08\x00" + header + part).ljust(60, b"\0"))
    return made_up_captures.written(path, [numbered for numbered in enumerate(frames)
                                           if numbered[0] != lost])


def test_fragments_are_put_together_as_tshark_does(tmp_path: Path) -> None:
    """Whole packets, one fragment and several, byte for byte, at the last one's time."""
    file = fragmented(tmp_path / "x.pcap", [9, 1480, 1481, 24_613])
    seen = tshark.read_fields(file, ("frame.time_epoch", "data.data"),
                              "data.data && !ip.flags.mf == 1",
                              options=("-o", "ip.defragment:TRUE"))
    whole = list(pcap.ip_packets(pcap.read_frames(file), 253))
    assert [packet.payload.hex() for packet in whole] == [text for _, text in seen]
    assert [packet.at_s for packet in whole] == [float(at) for at, _ in seen]
    assert {packet.source for packet in whole} == {"10.0.0.1"}
    assert not list(pcap.ip_packets(pcap.read_frames(file), 17))


@pytest.mark.parametrize("lost", range(5))
def test_a_packet_that_lacks_a_fragment_is_none(tmp_path: Path, lost: int) -> None:
    """The others are there, whichever is lost."""
    file = fragmented(tmp_path / "x.pcap", [4000, 2000], lost=lost)
    assert [len(packet.payload) for packet in pcap.ip_packets(pcap.read_frames(file), 253)] == [
        2000 if lost < 3 else 4000]


def test_fragments_are_joined_where_the_first_one_was(tmp_path: Path) -> None:
    """One frame with all of a packet, at its first one's time and with the bytes of all."""
    file = fragmented(tmp_path / "x.pcap", [9, 1481, 4000])
    apart, joined = list(pcap.read_frames(file)), pcap.join_fragments(pcap.read_frames(file), 253)
    assert [frame.at_s for frame in joined] == [0.0, 1.0, 3.0]
    assert [packet.payload for packet in pcap.ip_packets(joined, 253)] == [
        packet.payload for packet in pcap.ip_packets(apart, 253)]
    assert [frame.wire_bytes for frame in joined] == [60, 1514 + 60, 2 * 1514 + 34 + 4000 - 2960]
    assert pcap.join_fragments(apart, 17) == apart


@pytest.mark.parametrize("lost", range(3))
def test_what_lacks_a_fragment_is_not_joined(tmp_path: Path, lost: int) -> None:
    """It stays as it was captured, and so does one that was cut short."""
    file = fragmented(tmp_path / "x.pcap", [4000], lost=lost)
    assert pcap.join_fragments(pcap.read_frames(file), 253) == list(pcap.read_frames(file))
    cut = [replace(frame, data=frame.data[:128])
           for frame in pcap.read_frames(fragmented(tmp_path / "y.pcap", [4000]))]
    assert pcap.join_fragments(cut, 253) == cut


def test_what_is_written_is_read_at_its_time(tmp_path: Path) -> None:
    """Also a moment before a whole second, which is rounded up to it."""
    times = (1.5, 1.9999997, 2.25)
    pcap.write_frames(tmp_path / "some.pcap", [pcap.CapturedFrame(at_s, bytes(14), 14)
                                               for at_s in times])
    assert [frame.at_s for frame in pcap.read_frames(tmp_path / "some.pcap")] == pytest.approx(
        times, abs=1e-6)


#: An 802.11 data frame, and an acknowledgement, which has no sequence number.
DATA, ACK = bytes([0x08, *range(1, 40)]), bytes([0xD4, 0, 0, 0, *range(6)])
#: Radiotap headers of two receivers.
NEAR, FAR = bytes([0, 0, 8, 0, 0, 0, 0, 0]), bytes([0, 0, 12, 0, *range(8)])


@pytest.mark.parametrize(("first", "second", "kept"), [
    # Frames of two channels, in order of time.
    ([(1.0, NEAR + DATA)], [(0.5, FAR + DATA + b"x")], [0.5, 1.0]),
    # A strong frame of the other channel is in both captures, and counts once.
    ([(1.0, NEAR + DATA)], [(1.0005, FAR + DATA)], [1.0]),
    ([(1.0, NEAR + DATA)], [(1.5, FAR + DATA)], [1.0, 1.5]),
    # One receiver's two frames are two frames, as is an acknowledgement in each channel.
    ([(1.0, NEAR + DATA), (1.001, NEAR + DATA)], [], [1.0, 1.001]),
    ([(1.0, NEAR + ACK)], [(1.0005, FAR + ACK)], [1.0, 1.0005]),
])
def test_merged_capture_has_each_frame_once(
        tmp_path: Path, first: list[tuple[float, bytes]], second: list[tuple[float, bytes]],
        kept: list[float]) -> None:
    files = [tmp_path / "air.pcap", tmp_path / "air-1.pcap"]
    for file, frames in zip(files, (first, second), strict=True):
        pcap.write_frames(file, [pcap.CapturedFrame(at_s, data, len(data))
                                 for at_s, data in frames], pcap.RADIOTAP)
    assert pcap.merge_captures(files, files[0]) == len(kept)
    merged = pcap.read_frames(files[0], (pcap.RADIOTAP,))
    assert [frame.at_s for frame in merged] == pytest.approx(kept)


def test_recording_is_the_same_after_its_parts_are_merged(tmp_path: Path) -> None:
    """Frames that two receivers heard in turns are the frames of one that heard them all."""
    whole = recorded.path("P12-R1", "auth-air")
    frames = list(pcap.read_frames(whole, (pcap.RADIOTAP,)))
    files = [tmp_path / "air.pcap", tmp_path / "air-1.pcap"]
    for number, file in enumerate(files):
        pcap.write_frames(file, frames[number::2], pcap.RADIOTAP)
    pcap.merge_captures(files, files[0])
    assert list(pcap.read_frames(files[0], (pcap.RADIOTAP,))) == frames
