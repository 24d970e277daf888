"""An authentication's time, step by step, is what four captures saw, and adds up to all of it."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import pytest

import made_up_captures
from studies.eapload2004.exchanges import AirLosses, SupplicantTime, count_losses
from studies.eapload2004.waterfall import (
    AUTHENTICATOR,
    PARTS,
    UNDIVIDED,
    UNDIVIDED_PARTS,
    build_waterfalls,
    mean_s,
    quickest_steps,
    with_waiting,
)

_EAPOL, _IPV4 = b"\x88\x8e", b"\x08\x00"
_START, _REQUEST, _RESPONSE, _SUCCESS = (
    b"\x02\x01\x00\x00", *(b"\x02\x00\x00\x04" + bytes((code,)) + b"\1\0\4" for code in (1, 2, 3)))
_KEY = b"\x02\x03\x00\x04" + bytes(95)


def frame(kind: bytes, payload: bytes) -> bytes:
    """An Ethernet frame."""
    return bytes(12) + kind + payload


def radius(*, is_request: bool) -> bytes:
    """A datagram to the server, or from it."""
    ports = (40_000, 1812) if is_request else (1812, 40_000)
    udp = struct.pack("!HHHH", *ports, 28, 0) + bytes(20)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0,
                       bytes((10, 1, 0, 2)), bytes((10, 9, 0, 1)))
    return frame(_IPV4, head + udp)


def capture(file: Path, seen: list[tuple[int, bytes]]) -> None:
    """Write a capture of frames at microseconds."""
    made_up_captures.written(file, [(at / 1e6, data) for at, data in seen])


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Captures of an authentication with one round trip, from 1 s on; keys follow it."""
    capture(tmp_path / "auth-mn.pcap", [
        (1_000_000, frame(_EAPOL, _START)), (1_000_300, frame(_EAPOL, _REQUEST)),
        (1_020_300, frame(_EAPOL, _RESPONSE)), (1_151_900, frame(_EAPOL, _SUCCESS)),
        (1_152_000, frame(_EAPOL, _KEY))])
    capture(tmp_path / "auth-radio.pcap", [
        (1_000_040, frame(_EAPOL, _START)), (1_000_200, frame(_EAPOL, _REQUEST)),
        (1_020_300, frame(_EAPOL, _RESPONSE)), (1_151_650, frame(_EAPOL, _SUCCESS)),
        (1_151_700, frame(_EAPOL, _KEY))])
    # Neither air nor access point takes the request any time: all are of the same microsecond.
    capture(tmp_path / "auth-ap.pcap", [
        (1_020_300, radius(is_request=True)), (1_151_600, radius(is_request=False))])
    capture(tmp_path / "auth-server.pcap", [
        (1_080_300, radius(is_request=True)), (1_091_600, radius(is_request=False))])
    return tmp_path


def test_every_moment_is_in_one_part(out: Path) -> None:
    """From the first frame to the last, one after the other; who has the packet is in charge."""
    [steps] = build_waterfalls(out, [SupplicantTime(1.0, 1.1519, 0.02)])
    assert steps[0][1] == 0
    assert all(before[2] == after[1] for before, after in pairwise(steps))
    assert steps[-1][2] == pytest.approx(0.1519)
    spent = {part: sum(ended - begun for name, begun, ended in steps if name == part)
             for part in PARTS}
    assert spent == pytest.approx(dict(zip(PARTS, (0.02, 0.00039, 0.00021, 0.12, 0.0113, 0.0),
                                            strict=True)), abs=1e-9)
    assert mean_s([steps, steps], AUTHENTICATOR) == pytest.approx(0.00021)


@pytest.mark.parametrize("is_empty", [False, True])
def test_what_nobody_looked_between_is_one_part(out: Path, *, is_empty: bool) -> None:
    """Where the access point's side of the air was not captured, its time is with the air's."""
    if is_empty:
        capture(out / "auth-radio.pcap", [])
    else:
        (out / "auth-radio.pcap").unlink()
    [steps] = build_waterfalls(out, [SupplicantTime(1.0, 1.1519, 0.02)])
    assert {part for part, _, _ in steps} == {*UNDIVIDED_PARTS} - {PARTS[-1]}
    assert mean_s([steps], UNDIVIDED) == pytest.approx(0.0006)
    assert mean_s([steps], AUTHENTICATOR) is None


def test_what_takes_longer_than_the_quickest_waits(out: Path) -> None:
    """At the server, answer by answer; and the whole is as long as before."""
    [steps] = build_waterfalls(out, [SupplicantTime(1.0, 1.1519, 0.02)])
    others = [[("supplicant", 0.0, 0.03), ("server", 0.1, 0.11)], [("server", 0.2, 0.22)]]
    assert quickest_steps([steps, *others])["server"] == pytest.approx([0.01])
    assert quickest_steps([steps, others[0]])["supplicant"] == pytest.approx([0.02])
    made = list(with_waiting(steps, quickest_steps([steps, *others])["server"]))
    waiting = [(begun, ended) for part, begun, ended in made if part == PARTS[-1]]
    assert [ended - begun for begun, ended in waiting] == pytest.approx([0.0013])
    assert sum(ended - begun for _, begun, ended in made) == pytest.approx(0.1519)


def test_frames_sent_again_on_the_air_are_late(tmp_path: Path) -> None:
    """A wait at the access point before the air is no loss, however long it is."""
    waits = [30, 30, 127, 30, 30, 400, 30, 30, 30, 30]
    took = [70, 71, 690, 70, 72, 70, 980, 70, 70, 70]
    answers = [(number * 100_000, radius(is_request=False)) for number in range(1, 11)]
    sent = [(at + wait, frame(_EAPOL, _REQUEST)) for (at, _), wait in zip(
        answers, waits, strict=True)]
    arrived = [(at + more, data) for (at, data), more in zip(sent, took, strict=True)]
    capture(tmp_path / "auth-ap.pcap", answers)
    capture(tmp_path / "auth-radio.pcap", sent)
    capture(tmp_path / "auth-mn.pcap", arrived)
    assert count_losses(tmp_path) == AirLosses(frames=10, late=2)


def test_frame_that_no_radio_sent_counts_as_late(tmp_path: Path) -> None:
    capture(tmp_path / "auth-radio.pcap", [(100_000, frame(_EAPOL, _REQUEST))])
    capture(tmp_path / "auth-mn.pcap", [(50_000, frame(_EAPOL, _REQUEST)),
                                        (100_070, frame(_EAPOL, _REQUEST))])
    assert count_losses(tmp_path) == AirLosses(frames=2, late=1)


def test_frame_that_never_arrives_delays_no_later_one(tmp_path: Path) -> None:
    capture(tmp_path / "auth-radio.pcap", [(at, frame(_EAPOL, _REQUEST))
                                           for at in (100_000, 200_000, 300_000)])
    capture(tmp_path / "auth-mn.pcap", [(at, frame(_EAPOL, _REQUEST))
                                        for at in (100_070, 300_070)])
    assert count_losses(tmp_path) == AirLosses(frames=2, late=0)
