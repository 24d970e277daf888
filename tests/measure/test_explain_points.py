"""Tests of measure.explain.points: captures of several points, whose clocks differ."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import made_up_captures
from harness import cli
from measure.capture import pcap
from measure.explain.answer import explain_captures
from measure.explain.points import Match, estimate_clock
from measure.explain.recordings import Recording
from recorded import path

#: Largest error of a time, in s.
GOLDEN_S = 1e-3
POINTS = {"P8": ("air", "mn", "wire"), "P12": ("air", "wire"),
          "P12-R1": ("air", "mn", "wire", "foreign")}
#: Offset in s and drift of each further capture's clock.
CLOCKS = ((3.7, 40e-6), (-86_400.25, -60e-6), (0.0021, 25e-6))


def rewrite(source: Path, file: Path, change: Callable[[float], float]) -> Path:
    """Write a capture in which each time is changed."""
    link = pcap.read_link_type(source)
    assert link is not None
    pcap.write_frames(file, (replace(frame, at_s=change(frame.at_s))
                             for frame in pcap.read_frames(source, (link,))), link)
    return file


def wrong_clocks(captures: Sequence[Path], folder: Path) -> list[Path]:
    """Return captures with other clocks, except for the first one."""
    start_s = next(pcap.read_frames(captures[0], pcap.IEEE802_11)).at_s
    files = [rewrite(captures[0], folder / captures[0].name, lambda at_s: at_s)]
    for capture, (offset_s, drift) in zip(captures[1:], CLOCKS, strict=False):
        files.append(rewrite(capture, folder / capture.name, lambda at_s, offset_s=offset_s,
                             drift=drift: at_s + offset_s + drift * (at_s - start_s)))
    return files


def stretch(recording: str, folder: Path, handoff_s: float, more_s: float) -> list[Path]:
    """Write captures in which everything after a handoff is later."""
    folder.mkdir()
    return [rewrite(capture, folder / capture.name,
                    lambda at_s: at_s + more_s * (at_s >= handoff_s))
            for capture in (path(recording, f"auth-{point}") for point in POINTS[recording])]


def explain(*captures: Path) -> dict[str, Any]:
    """The document of captures whose clocks are not known."""
    return explain_captures(captures).to_document()


def explain_by_one_clock(captures: Sequence[Path]) -> list[dict[str, Any]]:
    """The negotiations in captures that one clock stamped."""
    return explain_captures((), recordings=[Recording(captures)]).to_document()["negotiations"]


def assert_golden(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Check that all times are within a millisecond of the expected ones."""
    assert [(each["kind"], each["station"], each["peer"], each["previous"], each["outcome"])
            for each in found] == [
        (each["kind"], each["station"], each["peer"], each["previous"], each["outcome"])
        for each in expected]
    for each, golden in zip(found, expected, strict=True):
        assert each["start"]["time_s"] == pytest.approx(golden["start"]["time_s"], abs=GOLDEN_S)
        for values in ("waited_for_s", "roam_times_s"):
            assert (each[values] or {}) == pytest.approx(golden[values] or {}, abs=GOLDEN_S)
        phases, golden_phases = ({phase["name"]: (phase["start_s"], phase["duration_s"])
                                  for phase in document["phases"]} for document in (each, golden))
        assert list(phases) == list(golden_phases)
        for name, times_s in phases.items():
            assert times_s == pytest.approx(golden_phases[name], abs=GOLDEN_S), name
        assert each["captures"] == golden["captures"]


@pytest.mark.parametrize("recording", POINTS)
def test_captures_with_other_clocks_give_the_times_of_one_clock(recording: str,
                                                               tmp_path: Path) -> None:
    """Offsets of seconds and days, to a millisecond."""
    captures = [path(recording, f"auth-{point}") for point in POINTS[recording]]
    document = explain(*wrong_clocks(captures, tmp_path))
    assert document["notes"] == []
    for capture, (offset_s, _) in zip(document["captures"][1:], CLOCKS, strict=False):
        assert capture["clock"]["offset_s"] == pytest.approx(offset_s, abs=GOLDEN_S)
        assert capture["clock"]["uncertainty_s"] < 2e-3
    assert_golden(document["negotiations"], explain_by_one_clock(captures))


def test_drift_over_an_hour_is_found(tmp_path: Path) -> None:
    """The roam is an hour after the first authentication; 40 ppm are 144 ms by then."""
    (roam_s,) = (each["start"]["time_s"] for each in explain_by_one_clock(
        [path("P12-R1", "auth-air")]) if each["previous"])
    captures = stretch("P12-R1", tmp_path / "later", roam_s - 0.05, 3600.0)
    document = explain(*wrong_clocks(captures, tmp_path))
    for capture, (_, drift) in zip(document["captures"][1:2], CLOCKS, strict=False):
        assert capture["clock"]["drift_ppm"] == pytest.approx(drift * 1e6, abs=0.2)
    assert_golden(document["negotiations"], explain_by_one_clock(captures))


@pytest.mark.parametrize("seed", range(20))
def test_clock_from_packets_with_random_delays(seed: int) -> None:
    """Queues delay packets by up to 0.3 s; a tenth of the matches are of other packets."""
    chance = random.Random(seed)
    drift, offset_s = chance.uniform(-80e-6, 80e-6), chance.uniform(-1e5, 1e5)
    matches = []
    for _ in range(200):
        at_s = chance.uniform(0, 1800)
        way_s = 0.0004 + (chance.expovariate(1 / 0.002) if chance.random() < 0.8
                          else chance.uniform(0, 0.3))
        is_forward = chance.random() < 0.5
        own_s = at_s + offset_s + drift * (at_s - 900) + (way_s if is_forward else -way_s)
        if chance.random() < 0.1:
            own_s = chance.uniform(-1e5, 1e5)
        matches.append(Match(at_s, own_s, "path", is_forward))
    clock = estimate_clock(sorted(matches, key=lambda match: match.reference_s))
    assert clock
    for at_s in (0.0, 900.0, 1800.0):
        own_s = at_s + offset_s + drift * (at_s - 900)
        assert clock.to_reference(own_s) == pytest.approx(at_s, abs=GOLDEN_S)


def test_packets_of_one_direction_give_no_uncertainty() -> None:
    """The time between the points is then part of the offset."""
    clock = estimate_clock([Match(at_s, at_s + 5.01, "path", True) for at_s in range(10)])
    assert clock
    assert clock.offset_s == pytest.approx(5.01)
    assert clock.uncertainty_s is None


def test_points_tell_the_server_from_the_access_point() -> None:
    """The air alone cannot. The server's time is that of the capture behind the access point."""
    air, wire = (path("P8", f"auth-{point}") for point in ("air", "wire"))
    (alone,), (merged,) = (
        [each for each in explain(*files)["negotiations"] if each["kind"] == "802.11"]
        for files in ([air], [air, wire]))
    assert "server" not in alone["waited_for_s"]
    (behind,) = (each for each in explain(wire)["negotiations"] if each["kind"] == "RADIUS")
    assert merged["waited_for_s"]["server"] == pytest.approx(behind["waited_for_s"]["server"],
                                                            abs=1e-5)
    assert "network" not in merged["waited_for_s"]
    assert merged["captures"][1]["alone"]["radius"] == len(
        [1 for phase in behind["phases"] if phase["name"] == "radius"
         for _ in range(phase["packets"])])
    assert sum(merged["waited_for_s"].values()) == pytest.approx(merged["duration_s"], abs=1e-5)


def test_two_captures_of_the_same_air_count_each_frame_once(tmp_path: Path) -> None:
    """The second one is a copy by another clock."""
    air = path("P12-R1", "auth-air")
    copy = rewrite(air, tmp_path / "copy.pcap", lambda at_s: at_s + 5.0)
    alone, merged = explain(air)["negotiations"], explain(air, copy)["negotiations"]
    assert len(alone) == len(merged)
    for each, both in zip(alone, merged, strict=True):
        assert both["data"] == each["data"]
        assert both["repeated"] == each["repeated"]
        assert both["duration_s"] == each["duration_s"]
        assert [point["alone"] for point in both["captures"]] == [{}, {}]


@pytest.mark.parametrize("is_lost_between", [False, True])
def test_message_sent_again_is_counted_once(tmp_path: Path, *, is_lost_between: bool) -> None:
    """Two points see both requests of an EAP exchange, or the second point misses the first."""
    station, switch = bytes.fromhex("0200000000a2"), bytes.fromhex("0200000000b0")
    request, response = (target + source + b"\x88\x8e\x02\0\0\x05" + bytes((code, 7, 0, 5, 1))
                         for target, source, code in ((station, switch, 1), (switch, station, 2)))
    sent = [(1.0, request), (2.0, request), (2.01, response)]
    way_s = 0.0001
    near = [(at_s + way_s * (frame is response), frame) for at_s, frame in sent]
    far = [(at_s + way_s * (frame is request), frame) for at_s, frame in sent[is_lost_between:]]
    files = [made_up_captures.written(tmp_path / f"{name}.pcap", frames)
             for name, frames in (("near", near), ("far", far))]
    (each,) = explain_by_one_clock(files)
    (again,) = each["repeated"]
    assert again["after_s"] == 1.0
    assert [point["messages"] for point in each["captures"]] == [3, 3 - is_lost_between]
    assert each["waited_for_s"]["station"] == pytest.approx(0.01 - way_s, abs=1e-6)


@pytest.mark.parametrize(("first", "second"), [(("P8", "air"), ("P12", "wire")),
                                               (("P12", "wire"), ("P12-R1", "wire"))])
def test_captures_of_other_events_are_explained_by_themselves(
        first: tuple[str, str], second: tuple[str, str], tmp_path: Path) -> None:
    """Another repetition has the same nodes and messages, and is not merged."""
    files = [rewrite(path(recording, f"auth-{point}"), tmp_path / f"{recording}.pcap",
                     lambda at_s: at_s) for recording, point in (first, second)]
    document = explain(*files)
    (note,) = document["notes"]
    assert note.startswith(f"{files[1].name}: ")
    assert note.endswith("; it is explained by itself")
    assert [capture["clock"] for capture in document["captures"]] == [None, None]
    separate = [each for file in files for each in explain(file)["negotiations"]]
    assert sorted(each["duration_s"] for each in document["negotiations"]) == sorted(
        each["duration_s"] for each in separate)


def test_terminal_names_clock_and_points(tmp_path: Path) -> None:
    """How far a clock is off, by how many packets, and what only one point has."""
    files = wrong_clocks([path("P12", f"auth-{point}") for point in POINTS["P12"]], tmp_path)
    done = CliRunner().invoke(cli.qop, ["explain", *map(str, files)])
    text = " ".join(done.stdout.split())
    assert "clock of auth-wire.pcap: 3700." in text
    assert "ms ahead" in text
    assert "captured at: auth-air.pcap" in text
    assert "of radius" in text
    assert "for the server and" in text


@pytest.mark.parametrize("step_s", [5.0, 1.7e9])
def test_beacons_show_a_step_forward_of_the_clock(step_s: float, tmp_path: Path) -> None:
    """The access point's clock goes on evenly, so the capture's does not."""
    source = path("P12-R1", "auth-air")
    times = [frame.at_s for frame in pcap.read_frames(source, (pcap.read_link_type(source) or 0,))]
    middle_s = times[len(times) // 2]
    stepped = rewrite(source, tmp_path / "stepped.pcap",
                      lambda at_s: at_s + step_s * (at_s >= middle_s))
    assert not [note for note in explain(source)["notes"] if "clock" in note]
    (note,) = (note for note in explain(stepped)["notes"] if "clock" in note)
    said, number = re.fullmatch(
        r"stepped\.pcap: the clock steps by (\S+) s at frame (\d+); times across that frame are "
        "wrong", note).groups()  # type: ignore[union-attr]
    assert float(said) == pytest.approx(step_s, abs=0.01)
    assert len(times) // 2 < int(number) < len(times) // 2 + 100


def test_access_point_that_starts_again_is_no_step_of_the_clock(tmp_path: Path) -> None:
    """Its clock begins at 0 again, so it says nothing of the time before."""
    source = path("P12-R1", "auth-air")
    link = pcap.read_link_type(source) or 0
    frames = list(pcap.read_frames(source, (link,)))
    beacons = [frame for frame in frames if frame.data[
        int.from_bytes(frame.data[2:4], "little"):][:2] == b"\x80\x00"]
    first = beacons[0]
    at = int.from_bytes(first.data[2:4], "little") + 24

    def at_clock(at_s: float, clock_s: float) -> pcap.CapturedFrame:
        data = bytearray(first.data)
        data[at:at + 8] = int(clock_s * 1e6).to_bytes(8, "little")
        return replace(first, at_s=at_s, data=bytes(data))

    file = tmp_path / "again.pcap"
    pcap.write_frames(file, [at_clock(1000.0, 2.0), at_clock(1060.0, 5.0)], link)
    assert not [note for note in explain(file)["notes"] if "clock" in note]
    pcap.write_frames(file, [at_clock(1000.0, 200.0), at_clock(1060.0, 203.0)], link)
    assert [note for note in explain(file)["notes"] if "steps by 57.000 s at frame 2" in note]
