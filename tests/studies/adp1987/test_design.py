"""The design has a cell for what the paper printed, one factor at a time; nonsense it refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import made_up_captures
import studies
from harness.engine import profiles
from harness.engine.request import RunRequest, build_plan
from harness.errors import UserError
from studies.adp1987 import cells, published
from studies.adp1987.cells import WIRE_BY_DEVICES
from studies.adp1987.faults import ATTACKS, FAULTS, FLOWING, ON_AIR
from studies.adp1987.programs.realtime import WINDOW
from topologies.loader import load_wire, to_json
from topologies.model import Network, from_json

STUDY = studies.load_study("adp1987")


def test_every_printed_value_has_its_cell() -> None:
    """Tables 2 to 6 can be told from the design's cells, whose number is far from the product."""
    made = build_plan(RunRequest(STUDY), {})
    cells = {tuple(cell.ids.values()) for cell in made.cells}
    for values in published.load_values().tables.values():
        assert {key[1:] for key in values} <= cells
    assert made.settings.clock == "virtual"
    assert len(cells) == len(made.cells) < 60
    assert set(published.load_claims()) == {f"D{number}" for number in range(1, 9)}


def test_queue_of_the_wire_takes_a_window() -> None:
    """A sender as quick as its wire has a window in the queue; nothing there may be dropped.

    A message in several frames ends with one that is not full: one more for each.
    """
    messages, size = WINDOW
    in_tunnel = 1400  # of a frame, below the headers of WireGuard's or ESP's
    assert messages + size / in_tunnel < load_wire(WIRE_BY_DEVICES["real"]).queue_packets


def test_cells_differ_from_the_nominal_in_a_factor_or_two() -> None:
    """One factor at a time; encryption goes with queueing, and rates with a timeout of 40 ms.

    What is compared in real time is in a comparison of its own.
    """
    beside = {row for trace in cells.TRACES for row in cells.real_time_cells(trace)}
    for row in set(cells.design_cells(list(cells.TRACES))) - beside:
        nominal = cells.cell_ids(row[0])
        changed = {name for name, one, other in zip(cells.NAMES, row, nominal, strict=True)
                   if one != other}
        assert changed <= {"rate", "queue", "timeout"} or changed <= {"scope", "queue"} or \
            changed <= {"technology", "protocol", "scope"} or len(changed) <= 1


@pytest.mark.parametrize("name", ["quick", "paper"])
def test_profiles_are_of_this_study(name: str) -> None:
    """Each loads, and has two repetitions or more, without which no claim has an interval."""
    assert name in profiles.profile_names(STUDY)
    made = build_plan(RunRequest(STUDY, name), {})
    assert made.settings.repetitions >= 2
    assert made.asked.model_dump()["messages"] == {"quick": 1000, "paper": 10_000}[name]


@pytest.mark.parametrize(("name", "value", "word"), [
    ("messages", "99", "is not 100 or more"), ("bound_bytes", "100", "8192"),
    ("rsa_bits", "768", "512 or 1024"), ("trace_seed", "-1", "is not 0 or more")])
def test_impossible_settings_are_one_line(name: str, value: str, word: str) -> None:
    """A trace of nothing, a bound that no page fits, a key of no known cost."""
    with pytest.raises(UserError, match=word):
        build_plan(RunRequest(STUDY, sets={name: value}), {})


def test_a_timeout_that_is_no_level_is_refused() -> None:
    """Below zero as anything else that the design does not have."""
    with pytest.raises(UserError, match="-5: no such level"):
        build_plan(RunRequest(STUDY, levels={"timeout": ["-5"]}), {})


def test_a_bad_capture_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """One line, and the paper's traces are not measured in its place."""
    (tmp_path / "x.pcap").write_text("nothing")
    with pytest.raises(UserError, match="is no capture of packets"):
        build_plan(RunRequest(STUDY, files={"trace": [tmp_path / "x.pcap"]}), {})


def test_a_trace_whose_messages_no_queue_takes_is_refused(tmp_path: Path) -> None:
    """A bound smaller than a message, in one line, with what to do."""
    packet = bytes.fromhex("4500753000000000401100000a0000010a000002") + bytes(29_980)
    frame = bytes(12) + b"\x08\x00" + packet
    made_up_captures.written(tmp_path / "mine.pcap", [(1, frame), (2, frame)])
    asked = RunRequest(STUDY, files={"trace": [tmp_path / "mine.pcap"]})
    with pytest.raises(UserError, match="mine: has a message of 30000 bytes, more than the queue's "
                       "bound; add --set bound_bytes=30000"):
        build_plan(asked, {})
    assert build_plan(dataclasses.replace(asked, sets={"bound_bytes": "30000"}), {}).cells
    (tmp_path / "c1.yml").write_text(
        "id: C1\nname: a channel\nlayers:\n  channel: {protocol: adp}\n")
    with pytest.raises(UserError, match="write queue_bytes: 30000 in policy C1"):
        build_plan(dataclasses.replace(asked, levels={"scenario": ["N2"]}, files={
            **asked.files, "policy": [tmp_path / "c1.yml"]}), {})


def test_testbeds_are_shared_by_what_they_compute_on() -> None:
    """One a trace and device; all of them are valid networks of three hosts."""
    made = build_plan(RunRequest(STUDY), {})
    groups = {(cell.ids["trace"], cell.ids["technology"]) for cell in made.cells}
    assert len(made.testbeds) == len(groups)
    for testbed in made.testbeds.values():
        assert set(testbed.spec.devices) == set(testbed.spec.network.nodes)
        assert from_json(Network, to_json(testbed.spec.network)) == testbed.spec.network


def test_what_is_measured_in_real_time_takes_no_other_clock() -> None:
    """It is left out unless asked for; virtual time, where computing is free, is refused."""
    asked = RunRequest(STUDY, "beside", levels={"trace": ["ALL"]})
    made = build_plan(asked, {})
    assert made.settings.clock == "real"
    protocols = [cell.ids["protocol"] for cell in made.cells]
    assert sorted(protocols) == ["esp", "modern", "modern", "none", "wireguard"]
    with pytest.raises(UserError, match="not measured by the virtual clock; add --clock real"):
        build_plan(asked, {"clock": "virtual"})
    with pytest.raises(UserError, match="no cell of these levels"):
        build_plan(RunRequest(STUDY, levels={"protocol": ["wireguard"]}), {})
    assert "real" not in {cell.ids["technology"] for cell
                          in build_plan(RunRequest(STUDY), {}).cells}


def test_controls_are_the_studys() -> None:
    """Those that the issue asks for, and one or more for every check of the wires."""
    assert set(ATTACKS) == {"forged-owner", "stale-channel", "replayed", "altered",
                            "unprotected-body", "relayed-owner"}
    assert {check for fault in (*ATTACKS.values(), *FLOWING.values()) for check in fault.fails} == {
        "channel", "owner", "impostors", "scope", "nothing-else", "fresh", "intact", "piggybacked",
        "counted", "in-time", "on-the-wire"}
    assert set(FAULTS) == {*ATTACKS, *FLOWING, *ON_AIR, "beside-tunnel",
                           "longer-timeout-in-real-time"}
    assert STUDY.faults is FAULTS
    assert dataclasses.is_dataclass(cells.FACTORS[0])
