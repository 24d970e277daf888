"""Tests of the proof of the physical layer, from announcements and the kernel's rates."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import recorded
from measure.checks.observation import Check, Observation
from measure.checks.physical_layer import check_physical_layer
from measure.packets.capability_elements import (
    Capabilities,
    ChannelAccess,
    FormatCapabilities,
    parse_capabilities,
    read_capabilities,
)
from topologies.loader import load_medium, to_json
from topologies.model import Medium
from topologies.phy_rates import HE, HT, VHT

_STATION, _CELL = "02:00:00:00:a2:00", "02:00:00:00:a0:00"
_HEAD = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 4096, 127)
_BASIC = frozenset({6_000_000, 12_000_000, 24_000_000})
_RATES = {"802.11n-ht20": "HT MCS 7, 20 MHz, 65 Mbit/s",
          "802.11n-ht40": "HT MCS 15, 40 MHz, 300 Mbit/s",
          "802.11ac": "VHT MCS 9, 80 MHz, 866.7 Mbit/s",
          "802.11ax": "VHT MCS 9, 80 MHz, 780 Mbit/s",
          "802.11ax-6ghz": "non-HT, 20 MHz, 6.0 Mbit/s",
          "802.11ax-20": "HT MCS 7, 20 MHz, 65 Mbit/s", "802.11ac-non-ht": "non-HT, 54 Mbit/s"}
_MEDIA = list(_RATES)


def frames_of(medium: str) -> dict[str, bytes]:
    """The recorded frames of a medium, by kind."""
    rows = (line.split() for line in recorded.text("capabilities.txt").splitlines())
    return {kind: bytes.fromhex(octets) for name, kind, octets in rows if name == medium}


def medium_of(name: str) -> Medium:
    """The medium of a name, or without HT as WEP has it."""
    base = load_medium(name.removesuffix("-non-ht"))
    return base if base.name == name else base.without_ht


def make_observed(folder: Path, medium: Medium, frames: Sequence[bytes], rate: str,
                  frequency_mhz: int = 5955) -> Observation:
    """An observation with these frames on the air, and this rate in the kernel."""
    # Radiotap with a time, flags, a rate, and the channel.
    radio = struct.pack("<BBHIQBBHH", 0, 0, 22, 0xF, 0, 0, 0, frequency_mhz, 0)
    (folder / "auth-air.pcap").write_bytes(_HEAD + b"".join(
        struct.pack("<IIII", 1, 0, len(radio + frame), len(radio + frame)) + radio + frame
        for frame in frames))
    raw: dict[str, Any] = {"medium": to_json(medium),
                           "kernel": {"rates": {"to": rate, "from": rate}},
                           "air_udp": {"transmissions": 40, "collided": 0, "delivered": 400}}
    return Observation(raw, {}, _STATION, frozenset({_STATION}), frozenset(),
                       cells=frozenset({_CELL}), folder=folder)


def judge(folder: Path, name: str, *, rate: str | None = None,
          change: Callable[[bytes], bytes] = bytes, medium: Medium | None = None) -> list[Check]:
    """The checks of recorded frames, each changed first, without that of aggregates."""
    frames = [change(frame) for frame in frames_of(name).values()]
    checks = check_physical_layer(make_observed(folder, medium or medium_of(name), frames,
                                                _RATES[name] if rate is None else rate))
    return [check for check in checks if check.check != "frames are aggregated"]


@pytest.mark.parametrize(("name", "formats"), [
    ("802.11n-ht20", (HT,)), ("802.11n-ht40", (HT,)), ("802.11ac", (HT, VHT)),
    ("802.11ax", (HT, VHT, HE)), ("802.11ax-20", (HT, HE)), ("802.11ax-6ghz", (HE,)),
    ("802.11ac-non-ht", ())])
def test_recorded_frames_announce_formats(name: str, formats: tuple[str, ...]) -> None:
    """hostapd and mac80211 announce what the medium says, with its basic rates and EDCA."""
    for kind, octets in frames_of(name).items():
        frame = parse_capabilities(octets)
        assert tuple(frame.formats) == formats, kind
        assert {frame.transmitter, frame.receiver} == {_CELL, _STATION}
        assert (frame.is_offer, frame.is_request, frame.is_response) == (
            kind == "probe-response", kind == "association-request",
            kind == "association-response")
        if frame.is_offer:
            assert frame.basic_rates_bps == _BASIC
            assert frame.access == ChannelAccess(aifsn=3, cw_min=15, cw_max=1023, txop=0)


def test_capabilities_by_hand() -> None:
    """hwsim: HT and HE of two streams, VHT of eight to MCS 9, A-MPDUs of exponent 7 and 3."""
    frame = parse_capabilities(frames_of("802.11ac")["association-response"])
    assert frame.formats[HT].highest_mcs == {1: 7, 2: 7}
    assert frame.formats[HT].width_mhz == 40
    assert frame.formats[VHT] == FormatCapabilities(
        80, dict.fromkeys(range(1, 9), 9), frozenset({20, 40, 80}), 1_048_575, 8.0)
    assert parse_capabilities(frames_of("802.11ax")["association-response"]).formats[HE] == \
        FormatCapabilities(80, {1: 11, 2: 11}, frozenset(), 6_500_631, 8.0)
    # In 6 GHz, HE's own elements say what HT and VHT say elsewhere.
    for octets in frames_of("802.11ax-6ghz").values():
        assert parse_capabilities(octets).formats[HE] == FormatCapabilities(
            80, {1: 11, 2: 11}, frozenset(), 6_500_631, 16.0)


@pytest.mark.parametrize("name", _MEDIA)
def test_association_of_medium_is_proven(name: str, tmp_path: Path) -> None:
    """Both checks hold for frames and rates as recorded."""
    assert [(check.check, check.ok) for check in judge(tmp_path, name)] == [
        ("association uses no HT" if name.endswith("non-ht")
         else f"association uses {medium_of(name).phy.format}", True),  # type: ignore[union-attr]
        ("channel access and aggregates are as the air charges", True),
        *([("frames are in the 6 GHz band", True)] if name == "802.11ax-6ghz" else [])]


@pytest.mark.parametrize(("frequency_mhz", "holds"), [(5955, True), (6035, True), (5180, False),
                                                      (5975, False)])
def test_band_is_that_of_radiotap(frequency_mhz: int, *, holds: bool, tmp_path: Path) -> None:
    name = "802.11ax-6ghz"
    frames = [*frames_of(name).values()]
    *_, band, _ = check_physical_layer(make_observed(
        tmp_path, load_medium(name), frames, _RATES[name], frequency_mhz))
    assert (band.check, band.ok) == ("frames are in the 6 GHz band", holds)
    *_, band, _ = check_physical_layer(make_observed(tmp_path, load_medium(name), [], ""))
    assert not band.ok


@pytest.mark.parametrize("name", _MEDIA)
def test_association_of_another_medium_is_not(name: str, tmp_path: Path) -> None:
    """Frames of any other medium fail, also those with more than is needed."""
    for other in _MEDIA:
        association = judge(tmp_path, name, medium=medium_of(other))[0]
        assert association.ok == (name == other), other


@pytest.mark.parametrize("name", ["802.11n-ht20", "802.11ac", "802.11ax"])
def test_kernel_without_rates_of_format_fails(name: str, tmp_path: Path) -> None:
    """Announcements alone prove nothing: the kernel's rates must have the format, too."""
    for rate in ("non-HT, 54 Mbit/s", "unknown", ""):
        assert not judge(tmp_path, name, rate=rate)[0].ok
    assert judge(tmp_path, name)[0].ok


def _without(element: int, extended: int | None = None) -> Callable[[bytes], bytes]:
    """A change of frames that removes an element."""
    def change(frame: bytes) -> bytes:
        at = 24 + {5: 12, 8: 12, 0: 4, 1: 6}[frame[0] >> 4]
        kept = frame[:at]
        while at + 2 <= len(frame):
            end = at + 2 + frame[at + 1]
            if frame[at] != element or (extended is not None and frame[at + 2] != extended):
                kept += frame[at:end]
            at = end
        return kept
    return change


@pytest.mark.parametrize(("name", "element", "extended"), [
    ("802.11n-ht20", 45, None), ("802.11ac", 191, None), ("802.11ac", 45, None),
    ("802.11ax", 255, 35), ("802.11ax-6ghz", 255, 35), ("802.11ax-6ghz", 255, 59)])
@pytest.mark.parametrize("kind", ["probe-response", "association-request", "association-response"])
def test_one_end_that_does_not_announce_it_fails(
        name: str, element: int, extended: int | None, kind: str, tmp_path: Path) -> None:
    """An access point or a station without HT, VHT or HE capabilities has another association."""
    remove, spoiled = _without(element, extended), frames_of(name)[kind]
    assert remove(spoiled) != spoiled
    checks = judge(tmp_path, name,
                   change=lambda frame: remove(frame) if frame == spoiled else frame)
    assert not checks[0].ok
    assert "0 of 1" in checks[0].detail


@pytest.mark.parametrize("name", ["802.11n-ht20", "802.11ac", "802.11ax"])
def test_narrow_channel_fails(name: str, tmp_path: Path) -> None:
    """An access point whose operation elements say 20 MHz does not carry 80; HT's needs 20 only."""
    def narrow(frame: bytes) -> bytes:
        at, changed = 24 + {5: 12, 0: 4, 1: 6}[frame[0] >> 4], bytearray(frame)
        while at + 2 <= len(frame):
            if frame[at] == 61:
                changed[at + 3] &= ~7
            if frame[at] == 192:
                changed[at + 2] = 0
            at += 2 + frame[at + 1]
        return bytes(changed)

    assert judge(tmp_path, name, change=narrow)[0].ok == (name == "802.11n-ht20")


def test_other_windows_fail(tmp_path: Path) -> None:
    """CWmin of 7 is announced, and the air charges 15."""
    def change(frame: bytes) -> bytes:
        at = frame.find(bytes.fromhex("0050f20201"))
        if at < 0:
            return frame
        record = at + 8
        assert frame[record + 1] == 0xa4
        return frame[:record + 1] + b"\xa3" + frame[record + 2:]

    association, access = judge(tmp_path, "802.11n-ht20", change=change)
    assert association.ok
    assert not access.ok
    assert "cw_min=7" in access.detail


def test_nothing_captured_proves_nothing(tmp_path: Path) -> None:
    """Without beacons or association frames, no check holds."""
    observed = make_observed(tmp_path, load_medium("802.11n-ht20"), [], _RATES["802.11n-ht20"])
    del observed.raw["air_udp"]
    assert [check.ok for check in check_physical_layer(observed)] == [False, False, False]


@pytest.mark.parametrize(("sent", "delivered", "ok"), [
    (40, 400, True), (400, 400, False), (400, 401, True), (0, 0, False), (420, 400, False)])
def test_more_frames_than_transmissions_are_aggregated(
        tmp_path: Path, sent: int, delivered: int, ok: bool) -> None:
    """A transmission without aggregates delivers one frame at most."""
    observed = make_observed(tmp_path, load_medium("802.11ac"), [], "")
    observed.raw["air_udp"] = {"transmissions": sent, "collided": 0, "delivered": delivered}
    *_, check = check_physical_layer(observed)
    assert (check.check, check.ok) == ("frames are aggregated", ok)


def test_frames_without_ht_are_not_aggregated(tmp_path: Path) -> None:
    """WEP sends frames one by one, and no check asks for more."""
    observed = make_observed(tmp_path, load_medium("802.11ac").without_ht, [], "")
    del observed.raw["air_udp"]
    assert "frames are aggregated" not in {each.check for each in check_physical_layer(observed)}


def test_frames_of_other_cells_and_stations_do_not_count(tmp_path: Path) -> None:
    """A neighbour without HT changes nothing, and a neighbour with HT proves nothing."""
    frames = frames_of("802.11n-ht20")
    other = bytes.fromhex("02000000b000")
    moved = [frame.replace(bytes.fromhex(_CELL.replace(":", "")), other).replace(
        bytes.fromhex(_STATION.replace(":", "")), bytes.fromhex("02000000b200"))
        for frame in frames.values()]
    rate, medium = _RATES["802.11n-ht20"], load_medium("802.11n-ht20")
    association, limits, _ = check_physical_layer(make_observed(tmp_path, medium, moved, rate))
    assert not association.ok and not limits.ok
    stripped = [_without(45)(frame) for frame in moved]
    assert all(check.ok for check in check_physical_layer(
        make_observed(tmp_path, medium, [*frames.values(), *stripped], rate)))


def test_media_without_physical_layer_have_no_checks(tmp_path: Path) -> None:
    """802.11b and the like are not announced by such elements."""
    raw: dict[str, Any] = {"kernel": {}}
    observed = Observation(raw, {}, _STATION, frozenset(), frozenset(), folder=tmp_path)
    assert not list(check_physical_layer(observed))


def test_capture_is_read_in_order(tmp_path: Path) -> None:
    """Management frames of other kinds and data frames are left out; radiotap is skipped."""
    frames = frames_of("802.11ax")
    data = b"\x08\x00" + bytes(60)
    authentication = b"\xb0\x00" + bytes(40)
    written = [data, frames["probe-response"], authentication, frames["association-request"]]
    make_observed(tmp_path, load_medium("802.11ax"), written, "")
    found = list(read_capabilities(tmp_path / "auth-air.pcap"))
    assert [frame.is_offer for frame in found] == [True, False]
    radiotap = bytes.fromhex("0000080000000000")
    tapped = _HEAD[:-4] + struct.pack("<I", 127) + b"".join(
        struct.pack("<IIII", 1, 0, len(frame) + 8, len(frame) + 8) + radiotap + frame
        for frame in written)
    (tmp_path / "tapped.pcap").write_bytes(tapped)
    assert list(read_capabilities(tmp_path / "tapped.pcap")) == found


def test_truncated_elements_are_no_crash() -> None:
    """Any prefix of a frame is read or has no formats that it does not hold."""
    for name in _MEDIA:
        for octets in frames_of(name).values():
            for size in range(36, len(octets)):
                assert isinstance(parse_capabilities(octets[:size]), Capabilities)
