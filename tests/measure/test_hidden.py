"""A hidden network is proven by beacons without its name, and by who asks for it by name."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from measure import hidden
from measure.observed import Observed
from policies import Policy

_STATION, _CELL = "02:00:00:00:a2:00", "02:00:00:00:a0:00"
_HEAD = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 4096, 105)


def _frame(first: int, sender: str, name: bytes) -> bytes:
    octets = bytes.fromhex(sender.replace(":", ""))
    fields = bytes(12) if first == 0x80 else b""
    data = bytes((first, 0)) + bytes(8) + octets + bytes(8) + fields + b"\1\1\x82" + bytes(
        (0, len(name))) + name
    return struct.pack("<IIII", 1, 0, len(data), len(data)) + data


def _seen(folder: Path, *frames: bytes, streaming: bytes = b"") -> Observed:
    (folder / "auth-air.pcap").write_bytes(_HEAD + b"".join(frames))
    (folder / "traffic-air.pcap").write_bytes(_HEAD + streaming)
    return Observed({}, {}, _STATION, frozenset(), frozenset(), folder=folder)


@pytest.mark.parametrize(("beacon", "asked", "ok"), [
    (b"", b"lab", True), (b"\0\0\0", b"lab", True), (b"lab", b"lab", False),
    (b"", b"", False)])
def test_hidden_network_needs_nameless_beacons_and_a_question_by_name(
        beacon: bytes, asked: bytes, ok: bool, tmp_path: Path) -> None:
    """A beacon with the name, or a station that asks for any network, fails the check."""
    seen = _seen(tmp_path, _frame(0x40, _STATION, b""), _frame(0x40, _STATION, asked),
                 _frame(0x80, _CELL, beacon))
    made = hidden.verify(seen)
    assert (made.check, made.ok) == (hidden.NAME, ok)


def test_hidden_network_is_not_proven_without_a_beacon(tmp_path: Path) -> None:
    """No beacon says nothing; one while streams last does, and another's question does not."""
    asked = _frame(0x40, _STATION, b"lab")
    assert not hidden.verify(_seen(tmp_path, asked)).ok
    assert hidden.verify(_seen(tmp_path, asked, streaming=_frame(0x80, _CELL, b""))).ok
    assert not hidden.verify(_seen(tmp_path, asked, streaming=_frame(0x80, _CELL, b"lab"))).ok
    other = _frame(0x40, "02:00:00:00:a3:00", b"lab")
    assert not hidden.verify(_seen(tmp_path, other, _frame(0x80, _CELL, b""))).ok


@pytest.mark.parametrize(("options", "is_hidden"), [
    ({}, False), ({"ignore_broadcast_ssid": 0}, False), ({"ignore_broadcast_ssid": 1}, True),
    ({"ignore_broadcast_ssid": "2"}, True)])
def test_network_is_hidden_by_the_option(options: dict[str, int], is_hidden: bool) -> None:
    """0 is hostapd's default."""
    link = {"cipher": "CCMP", "keys": "psk", "options": {"hostapd": options}}
    policy = Policy.model_validate({"id": "X", "name": "x", "layers": {"link": link}})
    assert hidden.hides_ssid(policy) is is_hidden
