"""Tests of what captures must hold: recordings do, and one packet less than was counted is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from measure.capture import tshark
from measure.capture.tshark import ESP, Packet
from measure.checks import packet_counts
from measure.checks.observation import Observation, build_observation
from measure.services import iperf
from policies.layers import MPTCP, QUIC
from recorded import ELSEWHERE, IDS, observed
from topologies.loader import load_scenario


def judged(seen: Observation) -> tuple[bool, str]:
    """Whether the check holds, and what it says."""
    (check,) = packet_counts.check_packet_counts(seen)
    return check.ok, check.detail


def without(capture: str, match: Callable[[Packet], Any], recording: str,
            left: int = 0) -> Observation:
    """A recording whose capture lacks the packets that match, as though they had passed unseen.

    Tcpdump's count is lowered with it: a capture that was not there in time counts nothing.
    """
    seen = observed(recording)
    packets = list(seen.packets_of(capture))
    for packet in [p for p in packets if match(p)][left:]:
        packets.remove(packet)
    for entry in seen.raw["captures"]:
        if entry["file"] == f"{capture}.pcap":
            entry["captured"] = len(packets)
    return replace(seen, captures={**seen.captures, capture: packets})


@pytest.mark.parametrize("recording", [*IDS, *ELSEWHERE])
def test_recordings_hold_what_was_counted(recording: str) -> None:
    """Files, the stream's datagrams, and with IPsec its packets both ways."""
    ok, detail = judged(observed(recording))
    assert ok, detail
    assert "datagrams at the peer" in detail
    assert ("ESP packets" in detail) == (recording[:2] in {"P3", "P4"} or recording[:3] == "P12"
                                         or recording == "P9")


def test_a_file_cut_at_a_packet_is_seen() -> None:
    """Tcpdump has counted one more than the file has."""
    seen = observed("P5")
    cut = {**seen.captures, "auth-air": seen.packets_of("auth-air")[:-1]}
    ok, detail = judged(replace(seen, captures=cut))
    assert not ok
    assert "packets in auth-air" in detail


@pytest.mark.parametrize(("capture", "recording", "match", "said"), [
    ("traffic-peer", "P5", lambda p: p.udp_dst == iperf.PORT, "datagrams at the peer"),
    ("traffic-air", "P2", lambda p: p.length >= 1400, "on the air"),
    ("traffic-wire", "P12", lambda p: p.esp_spi, "ESP packets from"),
    ("auth-wire", "P3", lambda p: p.esp_spi, "ESP packets from"),
    ("auth-foreign", "P12-R1", lambda p: p.esp_spi, "ESP packets from"),
], ids=["peer", "air", "wire", "wire before", "wire away"])
def test_packets_that_no_capture_has_are_missed(
        capture: str, recording: str, match: Callable[[Packet], Any], said: str) -> None:
    """A stream that passed with its capture not running: what was counted elsewhere is missing."""
    ok, detail = judged(without(capture, match, recording))
    assert not ok
    assert said in detail


@pytest.mark.parametrize(("tunnel", "kept", "holds"), [
    ("", 1, False), (MPTCP, 1, True), (MPTCP, 5, False)])
def test_tunnel_in_one_connection_is_counted_by_bytes(tunnel: str, kept: int, *,
                                                      holds: bool) -> None:
    """Every frame of the streams has two packets, and the next `kept` of them are left out."""
    seen = replace(observed("P5"), follows_by=tunnel)
    air = list(seen.packets_of("traffic-air"))
    large = [packet for packet in air if packet.length >= 1400]
    joined = [replace(packet, length=2 * packet.length + 200) for packet in large[::1 + kept]]
    rest = [packet for packet in air if packet.length < 1400]
    for entry in seen.raw["captures"]:
        if entry["file"] == "traffic-air.pcap":
            entry["captured"] = len(joined) + len(rest)
    frames = sorted([*joined, *rest], key=lambda packet: packet.time_s)
    ok, detail = judged(replace(seen, captures={**seen.captures, "traffic-air": frames}))
    assert ok is holds, detail


@pytest.mark.parametrize("parts", [
    pytest.param(([572], [572], [324]), id="MTU of 576 bytes"),
    pytest.param(([756], [692]), id="MTU of 760 bytes, fragments of similar lengths"),
    pytest.param(([996], [452]), id="MTU of 1000 bytes")])
@pytest.mark.parametrize("missing", [0, 1])
def test_datagrams_in_fragments_are_counted(parts: tuple[list[int], ...], missing: int) -> None:
    """The mobile node sends each datagram of 1400 bytes in fragments, in frames of their own."""
    check_fragments(parts, missing, "")


@pytest.mark.parametrize("missing", [0, 1])
def test_fragments_that_quic_joins_are_counted(missing: int) -> None:
    """QUIC sends two fragments of a datagram in one packet, and the third one in another."""
    check_fragments(([572], [572, 324]), missing, QUIC)


def check_fragments(parts: tuple[list[int], ...], missing: int, tunnel: str) -> None:
    """Check that the frames of all datagrams hold, and that those of one fewer do not.

    Each entry of `parts` is a frame of a datagram: the lengths of the IP packets inside it.
    """
    seen = observed("P5")
    start_s, (size_bytes, received) = seen.raw["stamps"]["udp_start"], iperf.udp_totals(
        seen.raw["iperf_udp"])
    assert size_bytes == 1400
    air = [p for p in seen.packets_of("traffic-air") if p.time_s < start_s]
    model = next(p for p in seen.packets_of("traffic-air") if p.length >= 1400)
    peer = [replace(p, ip_bytes=parts[0][0]) if p.udp_dst == iperf.PORT else p
            for p in seen.packets_of("traffic-peer")]
    sent = [replace(model, time_s=start_s, length=sum(part) + 130) for part in parts]
    air += sent * (received - missing)
    for entry in seen.raw["captures"]:
        entry["captured"] = min(entry["captured"], len(air))
    ok, detail = judged(replace(seen, follows_by=tunnel, captures={
        **seen.captures, "traffic-air": air, "traffic-peer": peer}))
    assert ok is (not missing), detail
    assert "frames of a datagram's size" in detail


@pytest.mark.parametrize(("scenario", "counted", "holds"), [
    ("E1", 2 + 3 + 4, True), ("E1", 2 + 3 + 5, False), ("R1", 4, True), ("R1", 5, False)])
def test_esp_of_a_move_during_traffic_is_counted_once(
        scenario: str, counted: int, *, holds: bool) -> None:
    """In E1 the tunnel stays: 2 packets before the traffic, 3 at home and 4 away, on one wire.

    In R1 it is negotiated anew, and its packets are those behind the second access point. Each
    packet of the move is in the captures of the move, too.
    """
    blank = tshark.parse_packets("9\t60\n")[0]
    ends = ("10.1.0.12", "10.1.0.1")
    before, home, away = ([replace(blank, ip_src=ends[0], ip_dst=ends[1], ip_proto=ESP,
                                   esp_spi="0x1", time_s=at_s)] * count
                          for at_s, count in ((1.0, 2), (3.0, 3), (6.0, 4)))
    passing = [*home, *away] if scenario == "E1" else home
    sas = {"a2": [{"src": ends[0], "dst": ends[1], "packets": counted}]}
    raw = {"stamps": {"foreign_start": 5.0}, "kernel": {"after_traffic": sas}, "captures": []}
    ok, detail = judged(build_observation(load_scenario(scenario), raw, {
        "auth-wire": before, "auth-foreign": away[:1], "traffic-wire": passing,
        "traffic-foreign": away}))
    assert ok is holds, detail


@pytest.mark.parametrize(("lost", "source", "ip_bytes", "holds"), [
    (0, "", 1500, True), (1, "", 1500, False), (0, "10.9.9.9", 1500, False),
    (0, "", 1380, True), (1, "", 1380, False)])
def test_datagrams_in_transport_mode_are_counted_as_esp(
        lost: int, source: str, ip_bytes: int, *, holds: bool) -> None:
    """The kernel shows ESP at the peer, whole or the first fragments, and it is the node's."""
    seen = observed("P3")
    _, received = iperf.udp_totals(seen.raw["iperf_udp"])
    model = next(p for p in seen.packets_of("traffic-peer") if p.udp_dst == iperf.PORT)
    packet = replace(model, udp_dst=None, ip_proto=ESP, esp_spi="0x1", ip_bytes=ip_bytes,
                     time_s=seen.raw["stamps"]["udp_start"],
                     ip_src=source or seen.home_address)
    arrived = [packet] * received
    for entry in seen.raw["captures"]:
        if entry["file"] == "traffic-peer.pcap":
            entry["captured"] = len(arrived) - lost
    ok, detail = judged(replace(seen, captures={
        **seen.captures, "traffic-peer": arrived[:len(arrived) - lost]}))
    assert ok == holds, detail
    assert "datagrams at the peer" in detail


@pytest.mark.parametrize("recording", ["P1", "P12", "P1-R2"])
@pytest.mark.parametrize(("one_in", "segments", "enough"), [(1, 7, 7), (16, 1600, 62)])
def test_tcp_is_held_to_the_bytes_that_arrived(recording: str, one_in: int, segments: int,
                                               enough: int) -> None:
    """No frame less than these take in segments of the connection's size, or a sample of them.

    Recordings have no frame of TCP's left: the UDP stream's stand for them, a little earlier.
    """
    seen = observed(recording)
    stamps, air = seen.raw["stamps"], seen.packets_of("traffic-air")
    model = next(p for p in air if p.is_data and p.transmitter == seen.mac and p.length >= 1400)
    for entry in seen.raw["captures"]:
        entry["one_in"] = one_in
    report = seen.raw["iperf_tcp"]
    report["end"]["sum_received"]["bytes"] = segments * report["start"]["tcp_mss_default"] + 1
    acknowledgements = [replace(model, time_s=stamps["tcp_start"], length=120)] * segments
    for count in (enough, enough - 1):
        during = [replace(model, time_s=stamps["tcp_start"])] * count
        ok, detail = judged(replace(seen, captures={
            **seen.captures, "traffic-air": [*during, *acknowledgements, *air]}))
        assert ok == (count == enough), detail
        said = f"{count} frames with TCP's data on the air in iperf3's time of at least {enough}"
        assert said in detail


@pytest.mark.parametrize(("said", "holds"), [(1.0, True), (0.8, False), (0.5, False)])
def test_tcp_cannot_have_taken_less_time_than_its_frames(said: float, *, holds: bool) -> None:
    """A server that says a shorter time, and so a higher goodput, has too few frames in it."""
    seen = observed("P12")
    stamps, air, report = seen.raw["stamps"], seen.packets_of("traffic-air"), seen.raw["iperf_tcp"]
    model = next(p for p in air if p.is_data and p.transmitter == seen.mac and p.length >= 1400)
    received, count = report["end"]["sum_received"], 100
    lasted_s = (stamps["udp_start"] - stamps["tcp_start"]) / 2
    received["bytes"] = count * report["start"]["tcp_mss_default"]
    received["seconds"] = said * lasted_s
    # What a program says before its stream is shorter, and is not the stream's beginning.
    talk = [replace(model, time_s=stamps["tcp_start"], length=350)]
    during = [replace(model, time_s=stamps["tcp_start"] + lasted_s * (0.5 + each / (count - 1)))
              for each in range(count)]
    ok, detail = judged(replace(seen, captures={
        **seen.captures, "traffic-air": [*talk, *during, *air]}))
    assert ok is holds, detail
    assert "in iperf3's time" in detail


@pytest.mark.parametrize(("total", "one_in", "least"), [
    (0, 1, 0), (500, 1, 500), (0, 16, 0), (100, 16, 0), (1600, 16, 62)])
def test_samples_have_a_floor(total: int, one_in: int, least: int) -> None:
    """Four standard deviations of the binomial below the mean; without sampling, every one."""
    assert packet_counts.least_sampled(total, one_in) == least


def test_a_sampled_stream_may_lack_most_packets_and_not_all() -> None:
    """A sixteenth of the tunnel's packets will do, and none of them will not."""
    seen = without("traffic-wire", lambda p: p.esp_spi and p.time_s, "P12", left=4)
    for entry in seen.raw["captures"]:
        if entry["file"] == "traffic-wire.pcap":
            entry["one_in"] = 16
    for states in seen.raw["kernel"]["after_traffic"].values():
        for state in states:
            state["packets"] = 1600
    ok, detail = judged(seen)
    assert not ok
    assert "of at least" in detail
    for states in seen.raw["kernel"]["after_traffic"].values():
        for state in states:
            state["packets"] = 30
    assert judged(seen)[0]
