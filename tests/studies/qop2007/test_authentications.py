"""Tests of several authentications in one repetition: each a sample, each proven, none passed over.

The earlier ones are made of a recording: its own authentication, some seconds before.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from fabricated import make
from measure.attacks import injection
from measure.capture import dissection
from recorded import FOLDER, MAC, judged, path, raw, scenario_of
from studies import load_study
from studies.qop2007.measurements import (
    Measurements,
    row_from_body,
    sum_home_s,
)
from studies.study import Judgement

POINTS = ("air", "mn", "wire")
#: What stamps of a move begin with.
AWAY = ("handoff", "foreign_")
AP = "02:00:00:00:a0:00"
_APART_S = 5
_FILE_HEADER, _PACKET_HEADER = 24, struct.Struct("<IIII")


def earlier_capture(source: Path, target: Path, by_s: int, until_s: float = math.inf) -> int:
    """A copy of a capture whose packets came so many seconds earlier, of those until a time.

    How many these are.
    """
    content = source.read_bytes()
    assert content[:4] == bytes.fromhex("d4c3b2a1")
    out, at, copied = bytearray(content[:_FILE_HEADER]), _FILE_HEADER, 0
    while at < len(content):
        seconds, fraction, captured, length = _PACKET_HEADER.unpack_from(content, at)
        begin = at + _PACKET_HEADER.size
        if seconds + fraction / 1e6 < until_s:
            out += _PACKET_HEADER.pack(seconds - by_s, fraction, captured, length)
            out += content[begin:begin + captured]
            copied += 1
        at = begin + captured
    target.write_bytes(bytes(out))
    return copied


Repetition = tuple[Path, dict[str, Any]]


def repeated(recording: str, folder: Path, count: int, moves: int = 0) -> Repetition:
    """A recorded repetition that authenticated so often before, as files and raw values.

    The last ones of these moved on, so many.
    """
    shutil.copytree(FOLDER / recording, folder)
    values = raw(recording)
    at_home = ("start", "link", "registered", "tunnel", "first_packet")
    points = (*POINTS, "foreign") if moves else POINTS
    nothing = {"sas": {"a2": 0, "ha-a": 0}, "keys": 0, "associated": [], "tunnelled": False}
    values["left"], values["parts"] = nothing, {}
    values["captures"] = [
        *({**entry, "file": f"auth{number}-{entry['point']}.pcap"} for number in
          range(1, count + 1) for entry in values["captures"] if entry["file"].startswith("auth-")),
        *values["captures"]]
    for number in range(1, count + 1):
        by_s, stays = _APART_S * (count + 1 - number), number <= count - moves
        until_s = values["stamps"].get("handoff", math.inf) if stays else math.inf
        captured = {f"auth{number}-{point}.pcap": earlier_capture(
            path(recording, f"auth-{point}"), folder / f"auth{number}-{point}.pcap", by_s, until_s)
            for point in points}
        for entry in values["captures"]:
            entry["captured"] = captured.get(entry["file"], entry["captured"])
        part = {
            "stamps": {name: time_s - by_s for name, time_s in values["stamps"].items()
                       if name in at_home or (not stays and name.startswith(AWAY))},
            "events": [event | {"at_s": event["at_s"] - by_s} for event in values["events"]
                       if event["at_s"] < until_s],
            "roams_to": None if stays else scenario_of(recording).roams_to,
            "kernel": values["kernel"], "registration": values["registration"], "left": nothing}
        part = json.loads(json.dumps(part))
        for states in part["kernel"].get("after_traffic", {}).values():
            for state in states:
                state["packets"] = 1  # no stream came after it
        values["parts"][f"auth{number}"] = part
    return folder, values


def verdict(repetition: Repetition, recording: str, asked: int = 3, moves: int = 1) -> Judgement:
    """What the judge says of it."""
    folder, values = repetition
    (folder / "raw.json").write_text(json.dumps(values))
    return judged(recording, folder, authentications=asked, moves=moves)


def body(made: Judgement) -> Measurements:
    """What was measured."""
    assert isinstance(made.measured, Measurements)
    return made.measured


@pytest.mark.parametrize("recording", ["P1", "P2", "P3", "P8", "P12"])
def test_each_is_a_sample(recording: str, tmp_path: Path) -> None:
    """Each has components and phases of its own; the repetition's time is that of their means."""
    made, single = verdict(repeated(recording, tmp_path / "r", 2), recording), judged(recording)
    assert (made.status, made.reason) == ("ok", "")
    measured = body(made)
    assert len(measured.authentications) == 3
    for each in measured.authentications:
        assert each.components_s == pytest.approx(body(single).authentication_components_s)
        assert [phase.name for phase in each.phases] == [
            phase.name for phase in body(single).phases]
        # From the start of each, not of the repetition.
        assert each.phases[0].start_s == pytest.approx(body(single).phases[0].start_s, abs=1e-5)
    assert measured.authentication_time_s == pytest.approx(body(single).authentication_time_s)
    own = {check.check for check in made.evidence}
    assert {f"{check.check} (earlier authentications)" for check in single.evidence} <= own
    assert {capture["file"] for capture in made.captures} >= {
        f"auth{number}-{point}.pcap" for number in (1, 2) for point in POINTS}


ABROAD = "registered with the foreign agent (earlier authentications)"


@pytest.mark.parametrize("recording", ["P1-R1", "P12-R1"])
def test_each_move_is_a_sample(recording: str, tmp_path: Path) -> None:
    """Of three authentications, the last two move: both count, and are proven to the end."""
    made = verdict(repeated(recording, tmp_path / "r", 2, moves=1), recording, moves=2)
    single = body(judged(recording))
    assert (made.status, made.reason) == ("ok", "")
    measured = body(made)
    at_home, *moved = measured.authentications
    assert not any(name.endswith("_foreign") for name in at_home.components_s)
    assert not any(phase.name.startswith("foreign_") for phase in at_home.phases)
    for each in moved:
        assert each.components_s == pytest.approx(single.authentication_components_s)
    assert measured.authentication_time_s == pytest.approx(single.authentication_time_s)
    assert measured.handoffs_s == pytest.approx([single.handoff_s] * 2)
    assert [[phase.name for phase in phases] for phases in measured.handoffs] == [
        [phase.name for phase in single.handoff]] * 2
    assert row_from_body(measured)["handoff_sum_s"] == pytest.approx(
        row_from_body(single)["handoff_sum_s"])
    held = {check.check: check.detail for check in made.evidence}
    assert held["authentications"] == "3 of 3 took place, after 2 of them a move, 2 asked for"
    assert re.findall(r"authentication \d", held[ABROAD]) == ["authentication 2"]
    station = held["station is associated (earlier authentications)"]
    assert re.findall(r"authentication \d: .*?associated ([yes, ]+)", station) == [
        "yes, yes", "yes, yes, yes"]


@pytest.mark.parametrize(("spoil", "name"), [
    (lambda part: part["stamps"].pop("foreign_start"), ABROAD),
    (lambda part: part["kernel"].pop("foreign_station"),
     "station is associated (earlier authentications)")])
def test_a_move_in_the_middle_fails_the_repetition(spoil: Callable[[dict[str, Any]], object],
                                                   name: str, tmp_path: Path) -> None:
    """What is missing of one away fails the repetition, which says which it was."""
    repetition = repeated("P1-R1", tmp_path / "r", 2, moves=2)
    spoil(repetition[1]["parts"]["auth2"])
    made = verdict(repetition, "P1-R1", moves=3)
    assert made.status == "failed" and body(made).authentication_time_s is None
    assert f"not proven: {name} (authentication 2: " in made.reason


def test_where_a_move_broke_off_is_said(tmp_path: Path) -> None:
    """It is the move of an authentication that has come about at home."""
    folder, values = repeated("P1-R1", tmp_path / "r", 2, moves=2)
    broken = values["parts"]["auth2"]
    for stamp in ("foreign_registered", "foreign_tunnel", "foreign_first_packet"):
        del broken["stamps"][stamp]
    del values["left"]
    values |= {"stamps": {"end": broken["stamps"]["start"] + 9}, "captures": [], "kernel": {},
               "failure": {"stage": "registration", "reason": "mn is not registered"}}
    for name in ("iperf_tcp", "iperf_udp"):
        del values[name]
    made = verdict((folder, values), "P1-R1", moves=3)
    assert made.reason == "authentication 2: mn is not registered"


def swapped(source: str) -> Callable[[Repetition], None]:
    """The second authentication was that of another policy."""
    def change(repetition: Repetition) -> None:
        counts = {entry["file"]: entry["captured"] for entry in raw(source)["captures"]}
        for entry in repetition[1]["captures"]:
            if entry["file"].startswith("auth2-"):
                entry["captured"] = counts[f"auth-{entry['point']}.pcap"]
        for point in POINTS:
            # Its packets at the time of this one's.
            begun = raw(source)["stamps"]["start"]
            earlier_capture(path(source, f"auth-{point}"), repetition[0] / f"auth2-{point}.pcap",
                            round(begun - repetition[1]["parts"]["auth2"]["stamps"]["start"]))
    return change


def second(*keys: str, value: Any) -> Callable[[Repetition], None]:
    """The second authentication's raw values say otherwise."""
    def change(repetition: Repetition) -> None:
        place = repetition[1]["parts"]["auth2"]
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
    return change


LEFT = "each authentication starts without earlier state"
SPOILT: dict[str, tuple[Callable[[Repetition], None], str]] = {
    "no EAP and no WEP": (swapped("P3"), "EAP method TLS (earlier authentications)"),
    "no certificate of its own": (swapped("P9"), "mutual authentication (earlier authentications)"),
    "frames in clear": (swapped("P3"), "WEP-104 on every data frame (earlier authentications)"),
    "packets past the tunnel": (swapped("P8"), "no clear inner packet (earlier authentications)"),
    "no IKE": (swapped("P8"), "ISAKMP packets (earlier authentications)"),
    "no SAs": (second("kernel", "after_traffic", value={}),
               "ESP transforms in the kernel (earlier authentications)"),
    "port closed": (second("kernel", "station", "authorized", value="no"),
                    "port is open after (earlier authentications)"),
    "not associated": (second("kernel", "station", value={}),
                       "station is associated (earlier authentications)"),
    "SAs left over": (second("left", "sas", value={"a2": 0, "ha-a": 2}), LEFT),
    "keys left over": (second("left", "keys", value=1), LEFT),
    "still associated": (second("left", "associated", value=["ap-a"]), LEFT),
    "binding left over": (second("left", "tunnelled", value=True), LEFT),
    "nobody looked": (second("left", value=None), LEFT)}


@pytest.mark.parametrize("what", SPOILT)
def test_one_in_the_middle_fails_the_repetition(what: str, tmp_path: Path) -> None:
    """What is missing of one authentication fails the repetition, which says which it was."""
    change, name = SPOILT[what]
    repetition = repeated("P12", tmp_path / "r", 2)
    change(repetition)
    made = verdict(repetition, "P12")
    assert made.status == "failed" and body(made).authentication_time_s is None
    failed = {check.check: check.detail for check in made.evidence if not check.ok}
    assert "authentication 2: " in failed[name]
    assert "authentication 1: " not in failed[name]
    assert f"not proven: {name} (authentication 2: " in made.reason
    assert all(name == LEFT or name.endswith("(earlier authentications)") for name in failed)


def test_a_readable_frame_in_the_middle_fails_the_repetition(tmp_path: Path) -> None:
    """Its head is marked as encrypted and is not; it is looked for in each one's own capture."""
    folder, values = repeated("P2", tmp_path / "r", 2)
    data = bytes.fromhex("0000080000000000") + injection.station_frame(
        MAC, AP, AP, bytes(4) + injection.READABLE + bytes(1400), flags=injection.PROTECTED)
    at_s = int(values["parts"]["auth2"]["stamps"]["first_packet"])
    with (folder / "auth2-air.pcap").open("ab") as file:
        file.write(_PACKET_HEADER.pack(at_s, 0, 192, len(data)) + data[:192])
    made = verdict((folder, values), "P2")
    assert made.status == "failed"
    assert "not proven: static WEP key in use (earlier authentications) (authentication 2: " in \
        made.reason


def test_packets_that_a_capture_lost_are_no_evidence(tmp_path: Path) -> None:
    """The captures of every authentication have to be complete."""
    repetition = repeated("P12", tmp_path / "r", 2)
    assert repetition[1]["captures"][0]["file"].startswith("auth1-")
    repetition[1]["captures"][0]["dropped"] = 3
    made = verdict(repetition, "P12")
    assert made.status == "failed"
    assert ("not proven: captures are complete (earlier authentications) (authentication 1: "
            in made.reason)


def test_all_that_were_asked_for_have_to_take_place(tmp_path: Path) -> None:
    """Fewer than were asked for are no repetition, nor are more."""
    for asked in (2, 4):
        made = verdict(repeated("P1", tmp_path / str(asked), 2), "P1", asked=asked)
        assert made.reason == f"not proven: authentications (3 of {asked} took place)"
    for moves in (1, 3):
        made = verdict(repeated("P1-R1", tmp_path / f"m{moves}", 2, moves=1), "P1-R1", moves=moves)
        assert made.reason.startswith("not proven: authentications (3 of 3 took place")


def test_a_single_one_has_no_further_checks(tmp_path: Path) -> None:
    """A repetition that authenticates once is judged as it was before there were several."""
    made = verdict(repeated("P12", tmp_path / "r", 0), "P12", asked=1)
    assert [check.check for check in made.evidence] == [
        check.check for check in judged("P12").evidence]


def test_where_it_broke_off_is_said(tmp_path: Path) -> None:
    """An authentication that did not come about is named in the reason; later ones are not."""
    folder, values = repeated("P12", tmp_path / "r", 2)
    broken = values["parts"]["auth2"]
    del broken["stamps"]["first_packet"], broken["stamps"]["tunnel"], values["left"]
    values |= {"stamps": {"end": broken["stamps"]["start"] + 9}, "captures": [], "kernel": {},
               "failure": {"stage": "ike", "reason": "IKE negotiation failed"}}
    for name in ("iperf_tcp", "iperf_udp"):
        del values[name]
    made = verdict((folder, values), "P12")
    assert made.reason == "authentication 2: IKE negotiation failed"
    assert [bool(each.phases) for each in body(made).authentications] == [True, True, False]


def test_binding_of_an_earlier_repetition_is_the_first_ones_to_end(tmp_path: Path) -> None:
    """As measured before version 3 of the study, where a node that was away came home in it."""
    repetition = repeated("P1", tmp_path / "r", 2)
    repetition[1]["parts"]["auth1"]["left"]["tunnelled"] = True
    assert verdict(repetition, "P1").status == "ok"


def test_captures_of_one_kind_are_dissected_as_if_each_was_alone() -> None:
    """TLS's messages are put together by authentication, whatever the one before it left."""
    order = ("P12", "P6", "P8", "P12", "P5", "P6")
    together = dissection.read_all_packets([path(recording, "auth-mn") for recording in order])
    alone = {recording: dissection.read_packets(path(recording, "auth-mn")) for recording
             in set(order)}
    assert together == [alone[recording] for recording in order]


# Numbers ------------------------------------------------------------------------------------------

def several(*times_s: tuple[float, float]) -> Measurements:
    """A body of authentications, each with its EAP and registration; EAP went on away, once."""
    study = load_study("qop2007")
    one = Measurements.model_validate(make("P8", scenario="R1").measured)
    phase = one.phases[0]
    each = [{"components_s": {"eap_home": eap, "mip_registration_home": mip}
             | ({"eap_foreign": 9.0} if number == len(times_s) else {}),
             "phases": [{"name": "dot1x", "start_s": 0.0, "duration_s": eap, "packets": 17},
                        *([phase.model_dump()] if number == len(times_s) else [])]}
            for number, (eap, mip) in enumerate(times_s, start=1)]
    time_s = fmean(eap + mip for eap, mip in times_s)
    made = one.model_dump(by_alias=True) | {
        "authentications": each, "authentication_time_s": time_s,
        "authentication_sum": ["mip_registration_home", "eap_home"]}
    body = Measurements.model_validate(made)
    assert not study.impossible_values(body)
    return body


def test_a_repetitions_values_are_means_over_its_authentications() -> None:
    """Components, phases and the whole; what took place once only counts as it is."""
    times = [(0.050, 0.004), (0.080, 0.002), (0.056, 0.006)]
    row = row_from_body(several(*times))
    assert row["authentications"] == 3
    assert row["authentication_time_s"] == pytest.approx(0.066)
    assert row["component_eap_home_s"] == pytest.approx(0.062)
    assert row["component_mip_registration_home_s"] == pytest.approx(0.004)
    assert row["component_eap_foreign_s"] == 9.0
    assert row["phase_dot1x_duration_s"] == pytest.approx(0.062)
    assert row["phase_dot1x_packets"] == 17
    assert row["authentication_time_sd_s"] == pytest.approx(stdev(map(sum, times)))
    assert sum_home_s(several(*times)) == pytest.approx([0.054, 0.082, 0.062])
    assert row_from_body(several(times[0]))["authentication_time_sd_s"] is None


@pytest.mark.parametrize("wrong", [0.0659, 0.062])
def test_a_time_that_is_not_that_of_the_means_cannot_be(wrong: float) -> None:
    """Whoever edits a record's time, or one of its authentications, is found out."""
    body = several((0.050, 0.004), (0.080, 0.002), (0.056, 0.006))
    changed = body.model_copy(update={"authentication_time_s": wrong})
    assert "its components add up to 0.066" in load_study("qop2007").impossible_values(changed)



