"""Tests of Multipath TCP in captures, and of the checks of a tunnel, on captures of moves in R3."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import made_up_captures
from measure.capture import pcap
from measure.capture.pcap import CapturedFrame
from measure.checks import mptcp as checks
from measure.checks.observation import Check, Observation, build_observation
from measure.packets import mptcp
from policies.layers import MPTCP
from topologies.loader import load_scenario

RECORDED = Path(__file__).parents[1] / "recorded" / "mptcp"
SCENARIO = load_scenario("R3")
HOME, AWAY, AGENT = "10.1.0.12", "10.2.0.140", "10.1.0.1"
SHAKEN, DATA = "MPTCP: handshake", "MPTCP: data are packets"
KERNELS = "MPTCP: kernels have the connection"
JOINED, GOES_ON = "MPTCP: new address joins the connection", "MPTCP: data sequence goes on"
Change = Callable[[CapturedFrame, mptcp.MptcpSegment], bytes | None]


def read_state(name: str) -> dict[str, object]:
    """Return when the node of a recording moved, and the kernels' state of its connections."""
    state: dict[str, object] = json.loads((RECORDED / f"{name}.json").read_text())
    return state


def keep_frame(frame: CapturedFrame, _: mptcp.MptcpSegment) -> bytes | None:
    """Return a frame as it was captured."""
    return frame.data


def observe_recording(folder: Path, name: str, change: Change = keep_frame) -> Observation:
    """Return a recording as a repetition's results, with frames changed, or left out for None."""
    state = read_state(name)
    moved_s = float(str(state["moved_s"]))
    frames = []
    for frame in pcap.read_frames(RECORDED / f"{name}.pcap"):
        segment = mptcp.parse_segment(frame)
        assert segment is not None
        if (data := change(frame, segment)) is not None:
            frames.append((frame.at_s, data))
    made_up_captures.written(folder / "auth-mn.pcap", frames, made_up_captures.ETHERNET)
    for point, is_away in (("wire", False), ("foreign", True)):
        made_up_captures.written(folder / f"auth-{point}.pcap", [
            frame for frame in frames if (frame[0] >= moved_s) == is_away],
            made_up_captures.ETHERNET)
    raw = {"stamps": {"foreign_start": moved_s}, "kernel": {}, "mptcp": state["mptcp"]}
    return replace(build_observation(SCENARIO, raw, {}).with_visit(AWAY, MPTCP), folder=folder)


def find_failing(observed: Observation) -> set[str]:
    """Return the names of the checks of a tunnel that do not hold."""
    return {check.check for check in checks.check_mptcp(observed) if not check.ok}


def flip_byte(data: bytes, place: int) -> bytes:
    """Return bytes with another value at a place."""
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1:]


def flip_after(data: bytes, found: bytes, offset: int = 0) -> bytes:
    """Return bytes with another value in a part of them."""
    return flip_byte(data, data.index(found) + offset)


def spoil_join(length: int, offset: int) -> Change:
    """Return a change of one byte in MP_JOIN of a length."""
    return lambda frame, segment: flip_after(frame.data, segment.join, offset) \
        if len(segment.join) + 2 == length else frame.data


def test_connection_that_moves_is_proven(tmp_path: Path) -> None:
    found: dict[str, Check] = {check.check: check for check in checks.check_mptcp(
        observe_recording(tmp_path, "joined"))}
    assert all(check.ok for check in found.values()), found
    assert {SHAKEN, DATA, KERNELS, JOINED, GOES_ON} <= found.keys()


def test_connection_opened_anew_is_no_move(tmp_path: Path) -> None:
    """The agent of the control refuses subflows, and the node opens another connection."""
    assert find_failing(observe_recording(tmp_path, "refused")) == {KERNELS, JOINED, GOES_ON}


def test_plain_tcp_is_no_multipath_connection(tmp_path: Path) -> None:
    """The agent of the control strips the options, and the tunnel works all the same."""
    assert find_failing(observe_recording(tmp_path, "stripped")) == {
        SHAKEN, DATA, KERNELS, JOINED, GOES_ON}


@pytest.mark.parametrize(("change", "fails"), [
    (spoil_join(12, 2), {JOINED, GOES_ON}),
    (spoil_join(12, 6), {JOINED, GOES_ON}),
    (spoil_join(16, 2), {JOINED, GOES_ON}),
    (spoil_join(24, 21), {JOINED, GOES_ON}),
    (lambda frame, segment: None if segment.join else frame.data, {JOINED, GOES_ON}),
    (lambda frame, segment: flip_after(frame.data, segment.keys[0])
     if segment.is_syn_ack and segment.keys else frame.data,
     {SHAKEN, DATA, KERNELS, JOINED, GOES_ON})],
    ids=["token", "nonce", "agent's HMAC", "node's HMAC", "no join", "key"])
def test_each_byte_of_the_proof_counts(change: Change, fails: set[str], tmp_path: Path) -> None:
    """A byte of the token, of a nonce, of either HMAC or of a key is another one."""
    assert find_failing(observe_recording(tmp_path, "joined", change)) == fails


def test_join_from_another_address_is_none_of_the_new_one(tmp_path: Path) -> None:
    observed = observe_recording(tmp_path, "joined")
    assert JOINED in find_failing(replace(observed, care_of="10.2.0.141"))


def test_lost_data_are_a_gap(tmp_path: Path) -> None:
    """Without the segments of one data sequence number, in either direction."""
    segments = mptcp.read_segments(RECORDED / "joined.pcap")
    moved_s = float(str(read_state("joined")["moved_s"]))
    for source in (AWAY, AGENT):
        first = next(each for each in segments if each.time_s > moved_s + 0.1
                     and each.source[0] == source and each.payload_bytes)
        folder = tmp_path / source
        folder.mkdir()
        assert {DATA, GOES_ON} <= find_failing(observe_recording(
            folder, "joined", lambda frame, segment, lost=first: None  # type: ignore[misc]
            if segment.payload and segment.payload in lost.payload else frame.data))


def test_changed_data_are_found(tmp_path: Path) -> None:
    """A packet of another node inside the tunnel."""
    inner = bytes(map(int, HOME.split(".")))
    assert DATA in find_failing(observe_recording(
        tmp_path, "joined", lambda frame, segment: flip_after(
            frame.data, segment.payload, segment.payload.index(inner) + 3)
        if inner in segment.payload and segment.payload_bytes > 40 else frame.data))


@pytest.mark.parametrize("place", [0, 1])
def test_kernel_with_another_token_is_found(place: int, tmp_path: Path) -> None:
    """At the mobile node, or at its agent."""
    observed = observe_recording(tmp_path, "joined")
    state = json.loads(json.dumps(observed.raw["mptcp"]))
    list(state.values())[place]["connections"][0]["token"] += 1
    assert find_failing(replace(observed, raw={**observed.raw, "mptcp": state})) == {KERNELS}


def test_packet_outside_of_the_tunnel_is_found(tmp_path: Path) -> None:
    """A packet of ICMP from the home address, behind the access point."""
    observed = observe_recording(tmp_path, "joined")
    made_up_captures.add_stray_icmp(tmp_path / "auth-wire.pcap")
    assert find_failing(observed) == {"MPTCP: tunnelled"}
