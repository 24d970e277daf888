"""Captures that others wrote become traces: any format, tunnels, large packets, what is cut off."""

from __future__ import annotations

import gzip
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import made_up_captures
import studies
from harness.engine.plan import Plan
from harness.engine.request import RunRequest, build_plan
from harness.errors import UserError
from measure.capture import tshark
from studies.adp1987 import cells, user_traces
from studies.study import StudyError

STUDY = studies.load_study("adp1987")
MACS = bytes.fromhex("020000000002020000000001")


def ipv4(protocol: int, payload: bytes) -> bytes:
    """A packet of IPv4."""
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0,
                       bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))) + payload


def ipv6(following: int, payload: bytes, length: int | None = None) -> bytes:
    """A packet of IPv6, whose header may say another length."""
    said = len(payload) if length is None else length
    return struct.pack("!IHBB", 0x60000000, said, following, 64) + \
        bytes(15) + b"\1" + bytes(15) + b"\2" + payload


def ethernet(packet: bytes) -> bytes:
    """A frame with a packet of either version."""
    return MACS + (b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd") + packet


ECHO = b"\x08\0\0\0\0\1\0\1" + bytes(48)
ECHO_V6 = b"\x80\0\0\0\0\1\0\1" + bytes(48)
UDP = struct.pack("!HHHH", 1000, 2000, 8 + 40, 0) + bytes(40)
TCP = struct.pack("!HHIIBBHHH", 1000, 80, 1, 0, 0x50, 0x18, 1000, 0, 0)
GRE = struct.pack("!HH", 0, 0x0800)
HOP_BY_HOP_ICMP = bytes((58, 0, 1, 4, 0, 0, 0, 0))
UNREACHABLE = b"\x03\1\0\0" + bytes(4) + ipv4(17, UDP)


def capture(path: Path, *packets: bytes, gap_s: float = 1.0) -> Path:
    """A capture with packets at regular times."""
    return made_up_captures.written(path, [(1_700_000_000 + number * gap_s, ethernet(packet))
                                           for number, packet in enumerate(packets)])


def sizes(path: Path) -> list[int]:
    """The messages of a capture by their sizes."""
    return [size for _, size, _ in user_traces.read_level(path).value]


@pytest.mark.parametrize("kind", ["pcapng", "nsecpcap", "snoop", "netmon2", "nettl", "5views",
                                  "k12text"])
def test_every_format_of_tshark_is_read(kind: str, tmp_path: Path) -> None:
    """No list of ours says what a capture is."""
    plain = capture(tmp_path / "plain.pcap", *[ipv4(17, UDP)] * 5)
    subprocess.run(["editcap", "-F", kind, plain, tmp_path / "other.bin"], check=True,
                   capture_output=True)
    assert user_traces.read_level(tmp_path / "other.bin").value == user_traces.read_level(
        plain).value


@pytest.mark.parametrize("squeeze", [gzip.compress, None])
def test_a_compressed_capture_is_read(squeeze: Callable[[bytes], bytes] | None,
                                      tmp_path: Path) -> None:
    """gzip and zstd, as tshark does it."""
    plain = capture(tmp_path / "plain.pcap", *[ipv4(17, UDP)] * 5)
    packed = tmp_path / "packed.pcap.gz"
    if squeeze is not None:
        packed.write_bytes(squeeze(plain.read_bytes()))
    else:
        done = subprocess.run(["zstd", "-q", plain, "-o", packed], check=False)
        if done.returncode:
            pytest.skip("zstd does not work here")
    assert user_traces.read_level(packed).value == user_traces.read_level(plain).value


@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_a_capture_cut_short_is_used_up_to_the_cut(kind: str, tmp_path: Path) -> None:
    """And the title says so, as the dry run does."""
    whole = capture(tmp_path / "whole.pcap", *[ipv4(17, UDP)] * 5)
    cut = tmp_path / "cut.pcap"
    subprocess.run(["editcap", "-F", kind, whole, cut], check=True, capture_output=True)
    cut.write_bytes(cut.read_bytes()[:-30])
    level = user_traces.read_level(cut)
    assert len(level.value) == 4
    assert "up to where it is cut short in the middle of a packet" in level.title


def test_a_tunnel_counts_whatever_it_carries(tmp_path: Path) -> None:
    """ICMP is left out by the outermost header: an echo inside is the tunnel's packet."""
    tunnel, six = ipv4(47, GRE + ipv4(1, ECHO)), ipv4(41, ipv6(58, ECHO_V6))
    hops = ipv6(0, HOP_BY_HOP_ICMP + ECHO_V6)
    path = capture(tmp_path / "tunnels.pcap", tunnel, ipv4(1, ECHO), six, ipv4(1, UNREACHABLE),
                   ipv6(58, ECHO_V6), hops, ipv6(4, ipv4(1, ECHO)))
    assert sizes(path) == [20 + 4 + 76, 20 + 96, 40 + 76]


def test_a_large_packet_of_ipv6_has_its_size(tmp_path: Path) -> None:
    """Its header says a length of 0; the jumbo payload option says it, or the frame does."""
    segment = ipv6(6, TCP + bytes(50_000), length=0)
    path = capture(tmp_path / "big.pcap", segment, ipv6(59, b""))
    assert sizes(path) == [40 + 20 + 50_000, 40]
    option = bytes((6, 0, 0xC2, 4)) + struct.pack("!I", 8 + 20 + 79_994)
    jumbogram = ipv6(0, option + TCP + bytes(79_994), length=0)
    for name, packet, size in (("segment", ipv6(6, TCP + bytes(79_994), length=0), 80_054),
                               ("jumbogram", jumbogram, 80_062)):
        with pytest.raises(StudyError, match=f"has a packet of {size} bytes, more than any queue"):
            user_traces.read_level(capture(tmp_path / f"{name}.pcap", packet, packet))


def test_encrypted_frames_of_the_air_are_refused_by_name(tmp_path: Path) -> None:
    """What protects them is the reason that there is no packet of IP."""
    frame = bytes.fromhex("08410000") + b"\2" * 6 + MACS + bytes(2) + \
        bytes.fromhex("010000200000000a") + bytes(range(60))
    path = made_up_captures.written(tmp_path / "air.pcap", [(1.0, frame), (2.0, frame)],
                                    made_up_captures.IEEE802_11)
    with pytest.raises(StudyError, match=r"2 of its 2 packets are encrypted frames of 802\.11"):
        user_traces.read_level(path)


def test_a_place_without_a_capture_is_refused(tmp_path: Path) -> None:
    """A folder, a device."""
    with pytest.raises(StudyError, match="is a folder; give one of the captures in it"):
        user_traces.read_level(tmp_path)
    with pytest.raises(StudyError, match="is no regular file"):
        user_traces.read_level(Path("/dev/null"))


def test_any_file_name_is_taken(tmp_path: Path) -> None:
    """A record's name has what of it a file's name may have everywhere."""
    path = capture(tmp_path / "-Büro 2. Stock #3.pcap", *[ipv4(17, UDP)] * 2)
    assert user_traces.read_level(path).id == "Buro_2._Stock_3"
    long = capture(tmp_path / f"{'x' * 90}.pcap", *[ipv4(17, UDP)] * 2)
    assert user_traces.read_level(long).id == "x" * 40


def test_a_packet_without_a_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            ) -> None:
    """As simple packet blocks of pcapng have none."""
    rows, _ = tshark.read_any_format(capture(tmp_path / "x.pcap", *[ipv4(17, UDP)] * 3),
                                     user_traces._FIELDS)
    timeless = [rows[0], ("", *rows[1][1:]), rows[2]]
    monkeypatch.setattr(tshark, "read_any_format", lambda *_, **__: (timeless, ""))
    with pytest.raises(StudyError, match="message 2 has no time stamp"):
        user_traces.read_level(tmp_path / "x.pcap")


def planned(path: Path, **sets: str) -> Plan:
    """A plan of one cell with a capture for its trace."""
    levels = {"urgency": ["U3"], "rate": ["1"], "scope": ["PE"], "technology": ["HW"],
              "queue": ["ON"], "timeout": ["40"], "protocol": ["1987"]}
    return build_plan(RunRequest(STUDY, levels=levels, files={"trace": [path]}, sets=sets), {})


def test_messages_is_heeded_and_said(tmp_path: Path) -> None:
    """The first 100 of 150 are handed over, and the plan says so before anything starts."""
    path = capture(tmp_path / "mine.pcap", *[ipv4(17, UDP)] * 149, ipv4(6, TCP + bytes(100)))
    made = planned(path, messages="100")
    [cell] = made.cells
    assert len(STUDY.task(cell, made.asked)["own_trace"]) == 100
    [note] = STUDY.notes(made.cells, made.asked)
    assert note == (
        "Trace mine: the first 100 of 150 messages (--messages takes up to 10000); 68 bytes each; "
        "99 s long with pauses of up to 1 s; none urgent, so without latency")
    made = planned(path)
    [note] = STUDY.notes(made.cells, made.asked)
    assert note == ("Trace mine: 150 messages; 68 to 140 bytes (mean 68); 2.48 min long with "
                    "pauses of up to 1 s; 0.7 % urgent")


def test_a_trace_of_a_month_and_more_is_refused(tmp_path: Path) -> None:
    """In one line that names the pause; a day between two is measured, and reckoned with."""
    far = capture(tmp_path / "far.pcap", *[ipv4(17, UDP)] * 3, gap_s=200 * 86_400.0)
    with pytest.raises(UserError, match=r"far: lasts 400 days in its own time, .* \(message 2 "
                       r"comes 200 days after the one before\); take a part"):
        planned(far)
    near = planned(capture(tmp_path / "near.pcap", *[ipv4(17, UDP)] * 3, gap_s=86_400.0))
    [cell] = near.cells
    assert cells.paced_s(cell, near.asked) == 2 * 2 * 86_400
    quick = planned(capture(tmp_path / "quick.pcap", *[ipv4(17, UDP)] * 3, gap_s=1.0))
    assert near.expected_cost(cell).processor_s > quick.expected_cost(
        quick.cells[0]).processor_s + 5
