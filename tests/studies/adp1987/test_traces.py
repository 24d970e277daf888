"""Traces have the published moments and are decided by a seed; a user's own come from captures."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import made_up_captures
from studies.adp1987 import traces, user_traces
from studies.adp1987.traces import PIECE_BYTES, TRACES, Payload, generate_trace
from studies.study import StudyError


@pytest.mark.parametrize("name", TRACES)
def test_moments_are_the_published_ones(name: str) -> None:
    """Mean size within one percent, mean interarrival time and urgent share exactly."""
    kind, trace = TRACES[name], generate_trace(name, 10_000, 1)
    assert sum(message.bytes for message in trace) / len(trace) == pytest.approx(
        kind.mean_bytes, rel=0.01)
    assert trace[-1].at_s / len(trace) == pytest.approx(kind.interarrival_s)
    assert sum(message.urgent for message in trace) == round(kind.urgent * len(trace))


@pytest.mark.parametrize("name", ["ALL", "ND"])
def test_arrivals_come_in_bursts(name: str) -> None:
    """Gaps vary more than those of a Poisson process; those of page servers vary most."""
    trace = generate_trace(name, 10_000, 1)
    gaps = [later.at_s - earlier.at_s for earlier, later in itertools.pairwise(trace)]
    mean = sum(gaps) / len(gaps)
    variation = sum((gap - mean)**2 for gap in gaps) / len(gaps) / mean**2
    assert variation > {"ALL": 2, "ND": 5}[name]


@given(seed=st.integers(0, 1000), load=st.sampled_from([0.5, 1.5, 2.0]))
def test_a_trace_is_decided_by_its_seed(seed: int, load: float) -> None:
    """Twice the same, another for another seed; a rate stretches time and changes nothing else."""
    trace = generate_trace("ALL", 200, seed)
    assert trace == generate_trace("ALL", 200, seed) != generate_trace("ALL", 200, seed + 1)
    faster = generate_trace("ALL", 200, seed, load=load)
    assert [message.bytes for message in faster] == [message.bytes for message in trace]
    for one, other in zip(trace, faster, strict=True):
        assert other.at_s * load == pytest.approx(one.at_s)


def test_payloads_are_known_and_tell_their_trace() -> None:
    """Each piece of a message is among those that are sought, and none of another seed's is."""
    payload, other = Payload(1), Payload(2)
    data = payload.message_data(7, 8192)
    pieces = payload.all_pieces()
    assert all(data[at:at + PIECE_BYTES] in pieces for at in range(0, 8192 - PIECE_BYTES, 997))
    assert other.message_data(7, 64)[:PIECE_BYTES] not in pieces
    assert payload.message_checksum(3, 100) != payload.message_checksum(4, 100)


#: UDP packets of 100 bytes, of both versions, and what else may be in a capture.
IPV4 = bytes.fromhex("4500006400000000401100000a0000010a000002") + bytes(80)
IPV6 = b"\x60\0\0\0" + (60).to_bytes(2) + b"\x11\x40" + bytes(15) + b"\1" + bytes(15) + b"\2" + \
    bytes(60)
IPV6_ICMP = IPV6[:6] + b"\x3a" + IPV6[7:40] + b"\x80" + bytes(59)
IPV4_TCP = IPV4[:9] + b"\6" + IPV4[10:20] + bytes.fromhex(
    "04d2005000000001000000015018ffff00000000") + bytes(60)
IN_IPV4 = b"\x45\0" + (120).to_bytes(2) + IPV4[4:9] + b"\x29" + IPV4[10:20] + IPV6
KINDS = {"ipv4": b"\x08\x00" + IPV4, "ipv6": b"\x86\xdd" + IPV6,
         "vlan": b"\x81\0\0\5\x86\xdd" + IPV6, "two tags": b"\x88\xa8\0\5\x81\0\0\6\x08\0" + IPV4,
         "icmpv6": b"\x86\xdd" + IPV6_ICMP, "arp": b"\x08\x06" + bytes(46),
         "tcp": b"\x08\x00" + IPV4_TCP, "6in4": b"\x08\x00" + IN_IPV4}


def capture_of(times_s: list[float], path: Path, kinds: Sequence[str] = ()) -> Path:
    """A capture with packets of these kinds, or UDP of IPv4, at these times."""
    return written(times_s, [KINDS[kind] for kind in kinds or ["ipv4"] * len(times_s)], path)


def written(times_s: list[float], packets: Sequence[bytes], path: Path) -> Path:
    """A capture with these packets, each from its EtherType on, at these times."""
    return made_up_captures.written(path, [(time_s, bytes(12) + packet) for time_s, packet
                                           in zip(times_s, packets, strict=True)])


def test_a_capture_becomes_a_trace(tmp_path: Path) -> None:
    """Every IP packet is a message, in the capture's time; the file is known by its content."""
    level = user_traces.read_level(capture_of([1.0, 1.25, 3.5], tmp_path / "mine.pcap"))
    assert level.id == "mine"
    assert level.title == "3 messages of mine.pcap, none urgent, so without latency"
    assert level.value == [(0.0, 100, False), (0.25, 100, False), (2.5, 100, False)]
    again = user_traces.read_level(capture_of([1.0, 1.25, 4.5], tmp_path / "mine.pcap"))
    assert again.digest != level.digest


def test_both_versions_are_messages_with_tags_or_without(tmp_path: Path) -> None:
    """A tunnel's packet counts as such; a pushing segment is urgent; ICMP and ARP are left out."""
    kinds = list(KINDS)
    level = user_traces.read_level(capture_of([float(place) for place in range(len(kinds))],
                                              tmp_path / "mixed.pcap", kinds))
    assert level.value == [
        (float(kinds.index(kind)), 120 if kind == "6in4" else 100, kind == "tcp")
        for kind in kinds if kind not in ("icmpv6", "arp")]
    assert level.title == "6 messages of mixed.pcap"


@pytest.mark.parametrize("ends_s", [2.0, 0.25])
def test_a_trace_whose_times_go_back_is_refused(tmp_path: Path, ends_s: float) -> None:
    """Nobody can hand over a message before the start, wherever the capture ends."""
    with pytest.raises(StudyError, match=r"message 2 comes 0\.5 s before .*; sort the"):
        user_traces.read_level(capture_of([1.0, 0.5, ends_s], tmp_path / "back.pcap"))


def test_a_packet_that_no_queue_takes_is_refused(tmp_path: Path) -> None:
    """The largest one is a message as it is, a byte more is refused, and none is cut."""
    def sized(size: int) -> Path:
        packet = b"\x08\x00" + IPV4[:2] + size.to_bytes(2) + IPV4[4:20] + bytes(size - 20)
        return written([1.0, 2.0], [packet] * 2, tmp_path / f"{size}.pcap")

    level = user_traces.read_level(sized(57_344))
    assert isinstance(level.value, list) and level.value[0][1] == 57_344
    with pytest.raises(StudyError, match="a packet of 57345 bytes, more than any queue takes"):
        user_traces.read_level(sized(57_345))


@pytest.mark.parametrize(("content", "word"), [
    (b"no capture", "cannot be read as a capture \\(isn't a capture file"), (None, "no such file"),
    (b"", "is an empty file"), (b"\x7fELF" + bytes(60), "is no capture of packets"),
    (b'{"a": 1}', "is no capture of packets"), ("short", "no two packets of IP")])
def test_what_is_no_trace_is_refused_in_a_line(content: bytes | str | None, word: str,
                                               tmp_path: Path) -> None:
    """A file that is none, one that is not a capture, one with a single packet."""
    path = tmp_path / "x.pcap"
    if content == "short":
        capture_of([1.0], path)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(StudyError, match=word) as refused:
        user_traces.read_level(path)
    assert "\n" not in str(refused.value)


def test_sizes_that_no_message_can_have_are_never_made() -> None:
    """Every message fits the queue's bound, and none is empty."""
    for name in traces.TRACES:
        assert all(0 < message.bytes <= 24_576 for message in generate_trace(name, 2000, 3))
