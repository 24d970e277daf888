"""Frames that are marked as encrypted and are not: found by their heads; no encrypted one is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import made_up_captures
import recorded
from measure.attacks import injection
from measure.checks import layer_checks
from measure.packets import truncated_frames
from policies import LinkLayer

STATION, CELL = "02:00:00:00:a2:00", "02:00:00:00:a0:00"
RADIO = bytes.fromhex("0000080000000000")
WEP, LONGER = bytes((1, 2, 3, 0)), bytes((1, 0, 0, 0x20, 0, 0, 0, 0))


def frame(before: bytes, flags: int = injection.PROTECTED, text: bytes = injection.READABLE,
          subtype: int = 0x08, qos: bytes = b"") -> bytes:
    """A station's frame, as long as a stream's."""
    data = injection.station_frame(STATION, CELL, CELL, qos + before + text + bytes(1400),
                                   flags=flags)
    return RADIO + bytes((subtype,)) + data[1:]


@pytest.mark.parametrize(("data", "count"), [
    (frame(WEP), 1), (frame(LONGER), 1), (frame(LONGER, subtype=0x88, qos=bytes(2)), 1),
    (frame(WEP, flags=0), 0), (frame(WEP, text=bytes(40)), 0),
    (frame(WEP, subtype=0x48), 0), (frame(WEP, subtype=0xB0), 0), (RADIO + bytes(4), 0),
], ids=["WEP", "packet number", "quality of service", "unmarked", "unreadable", "null",
        "management", "nothing"])
def test_only_what_is_marked_and_readable_counts(tmp_path: Path, data: bytes, count: int) -> None:
    """Whatever its counter's size; without the mark it is another check's, and fails that."""
    file = made_up_captures.written(tmp_path / "a.pcap", [(1.0, data[:192])],
                                    made_up_captures.RADIOTAP)
    assert truncated_frames.count_readable(file) == count


def test_a_capture_that_is_not_there_has_none(tmp_path: Path) -> None:
    """As of a repetition that broke off: that it is missing is said elsewhere."""
    assert truncated_frames.count_readable(tmp_path / "none.pcap") == 0


@pytest.mark.parametrize("recording", ["P2", "P8", "P12"])
def test_streams_that_are_encrypted_have_none(recording: str) -> None:
    """Recorded ones, long frames and short ones."""
    assert truncated_frames.count_readable(recorded.path(recording, "traffic-air")) == 0


def test_one_long_frame_behind_its_mark_fails_the_check(tmp_path: Path) -> None:
    """Of a stream's length, so that no whole frame is there to be decrypted: only its head is."""
    seen = recorded.observed("P2")
    layer = recorded.policy_of("P2").layers.link
    assert isinstance(layer, LinkLayer)
    for name, frames in (("none", []), ("one", [(1.0, frame(WEP)[:192])])):
        folder = tmp_path / name
        folder.mkdir()
        made_up_captures.written(folder / "traffic-air.pcap", frames, made_up_captures.RADIOTAP)
        [check] = [check for check in layer_checks.check_link(layer, replace(seen, folder=folder))
                   if check.check == "static WEP key in use"]
        assert check.ok == (name == "none")
        assert ("readable behind their mark" in check.detail) == (name == "one")
