"""A hidden network is proven by beacons without its name, and by who asks for it by name."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from measure.checks import key_management
from measure.checks.observation import Observation
from policies import Policy

_STATION, _CELL = "02:00:00:00:a2:00", "02:00:00:00:a0:00"
_HEAD = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 4096, 105)


def _frame(first: int, sender: str, name: bytes) -> bytes:
    octets = bytes.fromhex(sender.replace(":", ""))
    fields = bytes(12) if first == 0x80 else b""
    data = bytes((first, 0)) + bytes(8) + octets + bytes(8) + fields + b"\1\1\x82" + bytes(
        (0, len(name))) + name
    return struct.pack("<IIII", 1, 0, len(data), len(data)) + data


def _seen(folder: Path, *frames: bytes, streaming: bytes = b"") -> Observation:
    (folder / "auth-air.pcap").write_bytes(_HEAD + b"".join(frames))
    (folder / "traffic-air.pcap").write_bytes(_HEAD + streaming)
    return Observation({}, {}, _STATION, frozenset(), frozenset(), folder=folder)


@pytest.mark.parametrize(("beacon", "asked", "ok"), [
    (b"", b"lab", True), (b"\0\0\0", b"lab", True), (b"lab", b"lab", False),
    (b"", b"", False)])
def test_hidden_network_needs_nameless_beacons_and_a_question_by_name(
        beacon: bytes, asked: bytes, ok: bool, tmp_path: Path) -> None:
    """A beacon with the name, or a station that asks for any network, fails the check."""
    seen = _seen(tmp_path, _frame(0x40, _STATION, b""), _frame(0x40, _STATION, asked),
                 _frame(0x80, _CELL, beacon))
    made = key_management.check_hidden_network(seen)
    assert (made.check, made.ok) == (key_management.HIDDEN_NETWORK_CHECK, ok)


def test_hidden_network_is_not_proven_without_a_beacon(tmp_path: Path) -> None:
    """No beacon says nothing; one while streams last does, and another's question does not."""
    asked = _frame(0x40, _STATION, b"lab")
    assert not key_management.check_hidden_network(_seen(tmp_path, asked)).ok
    assert key_management.check_hidden_network(_seen(tmp_path, asked,
                                                     streaming=_frame(0x80, _CELL, b""))).ok
    assert not key_management.check_hidden_network(_seen(tmp_path, asked,
                                                         streaming=_frame(0x80, _CELL, b"lab"))).ok
    other = _frame(0x40, "02:00:00:00:a3:00", b"lab")
    assert not key_management.check_hidden_network(_seen(tmp_path, other,
                                                         _frame(0x80, _CELL, b""))).ok


@pytest.mark.parametrize(("options", "is_hidden"), [
    ({}, False), ({"ignore_broadcast_ssid": 0}, False), ({"ignore_broadcast_ssid": 1}, True),
    ({"ignore_broadcast_ssid": "2"}, True)])
def test_network_is_hidden_by_the_option(options: dict[str, int], is_hidden: bool) -> None:
    """0 is hostapd's default."""
    link = {"cipher": "CCMP", "keys": "psk", "options": {"hostapd": options}}
    policy = Policy.model_validate({"id": "X", "name": "x", "layers": {"link": link}})
    assert key_management.hides_ssid(policy) is is_hidden


_OPEN = "02:00:00:00:a0:01"


def _beacon(sender: str, name: bytes, target: str, target_name: bytes, *,
            is_protected: bool) -> bytes:
    """A beacon that names another network as the other one of OWE's transition mode."""
    points = (bytes.fromhex("506f9a1c" + target.replace(":", "")) + bytes((len(target_name),))
              + target_name) if target else b""
    elements = bytes((0, len(name))) + name + (b"\x30\x02\1\0" if is_protected else b"") + (
        bytes((221, len(points))) + points if points else b"")
    data = bytes((0x80, 0)) + bytes(8) + bytes.fromhex(sender.replace(":", "")) + bytes(
        8) + bytes(12) + elements
    return struct.pack("<IIII", 1, 0, len(data), len(data)) + data


_HIDDEN = _beacon(_CELL, b"", _OPEN, b"lab", is_protected=True)
_VISIBLE = _beacon(_OPEN, b"lab", _CELL, b"lab-owe", is_protected=False)


@pytest.mark.parametrize(("beacons", "ok"), [
    ([_HIDDEN, _VISIBLE], True), ([_HIDDEN], False), ([_VISIBLE], False),
    ([_HIDDEN, _VISIBLE, _beacon(_CELL, b"lab-owe", _OPEN, b"lab", is_protected=True)], False),
    ([_HIDDEN, _beacon(_OPEN, b"lab", "", b"", is_protected=False)], False),
    ([_HIDDEN, _beacon(_OPEN, b"lab", _CELL, b"lab-owe", is_protected=True)], False),
    ([_HIDDEN, _beacon(_OPEN, b"other", _CELL, b"lab-owe", is_protected=False)], False),
    ([_beacon(_CELL, b"", _STATION, b"lab", is_protected=True), _VISIBLE], False)],
    ids=["both", "hidden alone", "open alone", "named", "points nowhere", "protected",
         "another name", "points elsewhere"])
def test_owe_transition_needs_two_networks_that_name_each_other(
        beacons: list[bytes], ok: bool, tmp_path: Path) -> None:
    """The one with OWE is nameless; the open one has the name that the other one points at."""
    seen = replace(_seen(tmp_path, *beacons), cells=frozenset({_CELL}))
    assert key_management.check_owe_transition(seen).ok is ok
