"""Tests of reading captures: streams in pieces, repeated, and on ports used twice."""

from __future__ import annotations

import struct
from pathlib import Path

import made_up_captures
from measure.packets import messages

SYN, ACK = 2, 16


def frame(ports: tuple[int, int], sequence: int, payload: bytes, flags: int = ACK) -> bytes:
    """A TCP segment from 10.0.0.1 to 10.0.0.2 on Ethernet."""
    tcp = struct.pack("!HHIIBBHHH", *ports, sequence, 0, 5 << 4, flags, 0, 0, 0) + payload
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0,
                     bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2)))
    return bytes(14) + ip + tcp


def capture(file: Path, frames: list[bytes]) -> messages.CapturedMessages:
    """What a capture of these frames, a second apart, is read as."""
    return messages.read_messages(made_up_captures.written(file, enumerate(frames)))


def test_a_message_in_pieces_is_one(tmp_path: Path) -> None:
    """Pieces are put together, a repeated one counts as such; times are of first and last."""
    ports = (1000, 88)
    traffic = capture(tmp_path / "a.pcap", [
        frame(ports, 99, b"", SYN), frame(ports, 100, b"\0\0\0\5ab"), frame(ports, 100,
                                                                          b"\0\0\0\5ab"),
        frame(ports, 106, b"cde")])
    assert [(one.payload, one.began_s, one.ended_s) for one in traffic.messages] == [
        (b"abcde", 1.0, 3.0)]
    assert traffic.retransmitted == 1


def test_who_said_anything_is_seen_whatever_it_was(tmp_path: Path) -> None:
    """A packet of neither TCP nor UDP is of no message, but says who had to do with whom."""
    tcp = frame((1000, 88), 99, b"", SYN)
    ping = tcp[:14 + 9] + b"\1" + tcp[14 + 10:]
    traffic = capture(tmp_path / "c.pcap", [ping, tcp[:14] + b"\0" + tcp[15:]])
    assert traffic.pairs == {frozenset(("10.0.0.1", "10.0.0.2"))}
    assert traffic.packets == traffic.messages == []


def test_ports_used_again_are_another_connection(tmp_path: Path) -> None:
    """A second connection on the same ports does not end up in the first one's stream."""
    ports = (1000, 88)
    traffic = capture(tmp_path / "b.pcap", [
        frame(ports, 99, b"", SYN), frame(ports, 100, b"\0\0\0\1a"),
        frame(ports, 7999, b"", SYN), frame(ports, 8000, b"\0\0\0\1b")])
    assert [one.payload for one in traffic.messages] == [b"a", b"b"]
    assert traffic.retransmitted == 0


def test_what_hosts_were_asked_is_at_the_client(tmp_path: Path) -> None:
    """Captures at hosts of what a client in a tunnel says to them are one capture, by time."""
    def said(name: str, text: bytes, *before: bytes) -> dict[str, str]:
        ports = (1000, 88)
        capture(tmp_path / f"{name}.pcap", [*before, frame(ports, 99, b"", SYN),
                                            frame(ports, 100, b"\0\0\0\1" + text)])
        return {"point": name, "file": f"{name}.pcap"}

    captures = [said("asked-late", b"l", bytes(60)), said("asked-early", b"e"), said("early", b"x")]
    seen = messages.read_messages_by_point(captures, tmp_path, "client")
    assert [one.payload for one in seen["client"].messages] == [b"e", b"l"]
    assert len(seen["client"].packets) == 4
    assert seen["client"].opened_s == [0.0, 1.0]
    assert list(seen) == ["client", "early"]
    assert messages.read_messages_by_point(captures[2:], tmp_path, "early").keys() == {"early"}


def test_segment_that_overtakes_a_lost_one_is_not_lost(tmp_path: Path) -> None:
    """What was sent behind a lost segment is there once, and counts from when the gap is filled."""
    ports = (1000, 88)
    traffic = capture(tmp_path / "d.pcap", [
        frame(ports, 99, b"", SYN), frame(ports, 106, b"cd"), frame(ports, 108, b"e\0\0\0\1f"),
        frame(ports, 100, b"\0\0\0\5ab")])
    assert [(one.payload, one.ended_s) for one in traffic.messages] == [(b"abcde", 3.0),
                                                                       (b"f", 3.0)]
    assert traffic.retransmitted == 0
