"""Tests of what bounded a throughput: lengths against captures, ceilings against the medium."""

from __future__ import annotations

import dataclasses
import struct
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recorded
from analysis.throughput_bounds import (
    COLLISIONS_LEAVE,
    LLC_BYTES,
    EspOverhead,
    esp_overhead,
    fragment_lengths,
)
from bench.dcf import solve_saturated
from bounded import SCENARIOS, SHORT, with_ipsec
from fabricated import POLICIES
from studies.qop2007.report.throughput_bounds import headers_between_agents, stream_path
from topologies.loader import load_medium, medium_names
from topologies.medium import frame_airtimes
from topologies.queueing_disciplines import build_size_table_request

DATAGRAM, ACK = 1400 + 8 + 20, 52
#: What the kernel's queue for the air counts in, and what Ethernet puts in front of a packet.
UNIT_US, ETHERNET = 0.25, 14

# --- lengths ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", sorted(
    folder.name for folder in recorded.FOLDER.iterdir() if (folder / "traffic-air.pcap").exists()))
def test_frames_have_the_length_that_was_captured(cell: str) -> None:
    """Datagrams and bare acknowledgements of ten policies and all scenarios but N1, on the air.

    A captured frame has a radiotap header in front, and no checksum (4 of the medium's 28 bytes).
    """
    policy, _, scenario = cell.partition("-")
    way = stream_path(POLICIES[policy], SCENARIOS[scenario or "N2"])
    packets = recorded.packets(cell, "traffic-air")
    found = Counter(packet.length - packet.radiotap_bytes for packet in packets if packet.is_data)
    for inner in (DATAGRAM, ACK):
        expected = way.hops[0].packet_bytes(inner) + 8 + way.cipher_bytes + SHORT.mac_bytes - 4
        assert found[expected] >= 5, (inner, expected, found)


@pytest.mark.parametrize("cell", ["P1-R1", "P12-R1", "P1-R2", "P3-N3"])
def test_packets_between_agents_have_the_length_that_was_captured(cell: str) -> None:
    """IP-in-IP, in the agents' own ESP under IPsec, on the wire between the subnets."""
    policy, _, scenario = cell.partition("-")
    way = stream_path(POLICIES[policy], SCENARIOS[scenario])
    between = headers_between_agents(POLICIES[policy], SCENARIOS[scenario])
    assert between is not None
    sizes = Counter(packet.length - ETHERNET
                    for packet in recorded.packets(cell, "traffic-core"))
    for inner in (DATAGRAM, ACK):
        from_air = way.hops[0].packet_bytes(inner) if between.ip_in_ip else inner
        assert sizes[between.packet_bytes(from_air)] >= 5, (inner, sizes)


@pytest.mark.parametrize(("proposal", "inner", "outer", "largest"), [
    ("3des-sha1", 1428, 1480, 1446), ("3des-md5", 52, 104, 1446),
    ("aes128-sha256", 1428, 1500, 1438), ("aes256-sha512", 100, 188, 1422),
    ("aes128gcm16", 1428, 1484, 1446), ("chacha20poly1305-curve25519", 1, 56, 1446)])
def test_esp_by_hand(proposal: str, inner: int, outer: int, largest: int) -> None:
    """RFC 4303: outer header, SPI and sequence, IV, padding to the block, two bytes, the ICV.

    For 3DES and SHA-1: 20 + 8 + 8 + 1428 + 2 + 2 (padding) + 12 = 1480, as captured; for AES-256
    and SHA-512: 20 + 8 + 16 + 100 + 10 + 2 + 32 = 188.
    """
    esp = esp_overhead(with_ipsec(proposal))
    assert esp is not None
    assert esp.packet_bytes(inner) == outer
    assert esp.largest_inner_bytes(1500) == largest


@given(st.sampled_from([(8, 8, 12), (16, 16, 16), (4, 8, 16)]), st.booleans(),
       st.integers(600, 2300))
def test_the_largest_inner_packet_just_fits(sizes: tuple[int, int, int], tunnel: Any,
                                            mtu: int) -> None:
    """Whatever the cipher: it fits, and one byte more does not."""
    esp = EspOverhead(*sizes, tunnel=tunnel)
    assert esp.packet_bytes(esp.largest_inner_bytes(mtu)) <= mtu
    assert esp.packet_bytes(esp.largest_inner_bytes(mtu) + 1) > mtu


@given(st.integers(21, 9000), st.integers(68, 2300))
def test_fragments_carry_the_packet(size: int, limit: int) -> None:
    """Nothing is lost, none is too long, all but the last carry multiples of eight bytes."""
    parts = fragment_lengths(size, limit)
    assert sum(part - 20 for part in parts) == size - 20
    assert max(parts) <= limit
    assert all((part - 20) % 8 == 0 for part in parts[:-1])


# --- ceilings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("medium", medium_names())
@pytest.mark.parametrize("policy", ["P1", "P2", "P3", "P4"])
def test_ceilings_are_what_the_emulated_air_charges(policy: str, medium: str) -> None:
    """A datagram's airtime is what the size table of the kernel's queue holds for its frame.

    It is read back from the netlink message that sets it, at the length that the queue sees: an
    Ethernet frame, without LLC and cipher, which the table adds.
    """
    way, air = stream_path(POLICIES[policy], SCENARIOS["N2"]), load_medium(medium)
    sizes = frame_airtimes(air, way.cipher_bytes)
    sent = build_size_table_request(1, "htb", 1 << 16, sizes).body
    padding = -(4 + 2 * len(sizes)) % 4
    table = struct.unpack_from(f"={len(sizes)}H", sent, len(sent) - padding - 2 * len(sizes))
    for inner, charged in ((DATAGRAM, way.udp_ceiling(air, 1400).airtime_us),
                           (ACK, way.airtime_us(air, way.hops[0], ACK))):
        units = table[ETHERNET + way.hops[0].packet_bytes(inner)]
        assert charged == pytest.approx(units * UNIT_US, abs=UNIT_US / 2 + 1e-9)
    units = table[ETHERNET + way.hops[0].packet_bytes(DATAGRAM)]
    assert way.udp_ceiling(air, 1400).bps == pytest.approx(
        1400 * 8e6 / (units * UNIT_US), rel=max(1e-3, 0.5 / units))


@pytest.mark.parametrize("medium", medium_names())
def test_ceilings_of_one_crossing_are_the_mediums_own(medium: str) -> None:
    """P1 and P2 in N2: Medium's formulas, which tests compare with published values."""
    air = load_medium(medium)
    for policy, cipher in (("P1", 0), ("P2", 8)):
        way = stream_path(POLICIES[policy], SCENARIOS["N2"])
        assert way.udp_ceiling(air, 1400).bps == pytest.approx(air.udp_ceiling_bps(1400, cipher))
        # The acknowledgement's backoff passes while the station counts down its own.
        segments = max(2, air.frames_together(1500 + LLC_BYTES + cipher))
        turn_us = segments * 1448 * 8e6 / air.tcp_ceiling_bps(cipher_bytes=cipher) \
            - air.backoff_us
        assert way.tcp_ceiling(air).bps == pytest.approx(segments * 1448 * 8e6 / turn_us)


@pytest.mark.parametrize(("medium", "segments", "mbps"), [
    ("802.11n-ht20", 28, 56.69), ("802.11ac", 64, 561.2), ("802.11g", 2, 23.92)])
def test_aggregate_of_segments_has_one_acknowledgement(medium: str, segments: int,
                                                       mbps: float) -> None:
    """A turn has the segments that go together, and an acknowledgement that goes alone."""
    air = load_medium(medium)
    assert max(2, air.frames_together(1508)) == segments
    turn_us = segments * air.delivery_us(1508) + air.without_aggregation.delivery_us(60)
    assert air.tcp_ceiling_bps() == pytest.approx(segments * 1448 * 8e6 / turn_us)
    assert air.tcp_ceiling_bps() == pytest.approx(mbps * 1e6, rel=1e-3)


def test_calls_are_not_aggregated() -> None:
    """A call's datagrams come one by one, so that aggregates do not help more calls."""
    way = stream_path(POLICIES["P1"], SCENARIOS["N2"])
    air = load_medium("802.11n-ht20")
    assert way.call_ceiling(air, 160).bps == way.call_ceiling(air.without_aggregation, 160).bps
    assert way.udp_ceiling(air, 160).bps > 3 * way.udp_ceiling(air.without_aggregation, 160).bps


def test_paths_cross_the_air_as_often_as_documented() -> None:
    """docs/topologies.md: once in N2, twice elsewhere, where two senders count down together."""
    crossings = {name: len(stream_path(POLICIES["P1"], scenario).hops)
                 for name, scenario in SCENARIOS.items()}
    once = {"E1", "E2", "R3", "R4", "N2", "N2-near", "N2-far", "N2-edge"}
    once |= {"campus-0ms", "campus-20ms", "campus-80ms", "D1", "D2"}
    assert crossings == {name: 1 if name in once else 2 for name in SCENARIOS}
    assert {"N1", "N3", "R1", "R1c6", "R2"} == crossings.keys() - once
    once, twice = (stream_path(POLICIES["P12"], SCENARIOS[name]).udp_ceiling(SHORT, 1400)
                   for name in ("N2", "R1"))
    assert (once.senders, twice.senders) == (1, 2)
    assert twice.airtime_us == pytest.approx(2 * once.airtime_us - SHORT.backoff_us)
    in_turns = stream_path(POLICIES["P12"],
                           SCENARIOS["R1"]).udp_ceiling(SHORT.without_contention, 1400)
    assert in_turns.bps == pytest.approx(once.bps / 2)


def test_two_channels_do_not_share_their_time() -> None:
    """With the access points on channels 1 and 6, N3 has the ceiling of one crossing."""
    scenario = SCENARIOS["N3"]
    nodes = scenario.network.nodes
    nodes = nodes | {"ap-b": dataclasses.replace(nodes["ap-b"], channel=6)}
    network = dataclasses.replace(scenario.network, nodes=nodes)
    apart = dataclasses.replace(scenario, network=network)
    for way, alone in ((stream_path(POLICIES[name], apart),
                        stream_path(POLICIES[name], SCENARIOS["N2"]))
                       for name in ("P1", "P3")):
        assert way.udp_ceiling(SHORT, 1400).bps == pytest.approx(alone.udp_ceiling(SHORT, 1400).bps)
        assert way.tcp_ceiling(SHORT).bps == pytest.approx(alone.tcp_ceiling(SHORT).bps)


def test_an_access_point_that_relays_draws_for_data_and_acknowledgements() -> None:
    """N1: of a turn's six frames the access point sends three; N3 and R1: each sender two at most.

    Stations that contend count down in the same slots, so the channel takes the backoffs of the
    sender that draws most.
    """
    for name, most, senders in (("N1", 3, 3), ("N3", 2, 4), ("R1", 2, 4)):
        way = stream_path(POLICIES["P1"], SCENARIOS[name])
        found = way.tcp_ceiling(SHORT)
        data, ack = (SHORT.airtime_us(size + LLC_BYTES) - SHORT.backoff_us
                     for size in (way.limit_bytes, ACK))
        turn_us = 4 * data + 2 * ack + most * SHORT.backoff_us
        assert found.airtime_us == pytest.approx(turn_us / 2)
        assert found.senders == senders


@pytest.mark.parametrize("medium", [name for name in medium_names()
                                    if load_medium(name).aggregate == 1
                                    and not load_medium(name).signal])
@pytest.mark.parametrize("payload", [64, 256, 1400, 1470])
def test_two_senders_stay_below_their_ceiling_and_near_it(medium: str, payload: int) -> None:
    """Half of what two stations get that always have a frame, solved exactly, with collisions."""
    air = load_medium(medium)
    ceiling = stream_path(POLICIES["P1"], SCENARIOS["N1"]).udp_ceiling(air, payload)
    exact_bps = solve_saturated(air, payload).delivered_per_s / 2 * payload * 8
    assert COLLISIONS_LEAVE <= round(exact_bps / ceiling.bps, 2) < 1


def test_luck_passes_a_ceiling_once_in_ten_thousand() -> None:
    """A lone sender's backoffs drawn: 0 to 31 slots a frame, for streams of 50 and 223 frames."""
    ceiling = stream_path(POLICIES["P1"], SCENARIOS["N2"]).udp_ceiling(SHORT, 1400)
    rng = np.random.default_rng(3)
    for frames in (50, 223):
        slots = rng.integers(0, SHORT.cw_min + 1, (60_000, frames)).sum(axis=1)
        taken_us = frames * ceiling.least_us + slots * SHORT.slot_us
        bps = frames * 1400 * 8e6 / taken_us
        assert bps.mean() == pytest.approx(ceiling.bps, rel=1e-3)
        assert (bps > ceiling.at_most_bps(frames)).sum() <= 18  # of 6 expected
        assert (bps > ceiling.bps).mean() > 0.4
    assert ceiling.at_most_bps(10**9) == pytest.approx(ceiling.bps, rel=1e-4)


def test_losses_make_streams_vary_by_more() -> None:
    """Attempts are geometric: those of 100 frames, each lost with 10 %, seldom pass the ceiling."""
    lossy = dataclasses.replace(SHORT, loss_percent=10)
    ceiling = stream_path(POLICIES["P1"], SCENARIOS["N2"]).udp_ceiling(lossy, 1400)
    rng = np.random.default_rng(4)
    attempts = rng.geometric(0.9, (20_000, 100)).sum(axis=1)
    slots = np.array([rng.integers(0, 32, count).sum() for count in attempts])
    bps = 100 * 1400 * 8e6 / (attempts * ceiling.least_us + slots * SHORT.slot_us)
    assert bps.mean() == pytest.approx(ceiling.bps, rel=5e-3)
    assert (bps > ceiling.at_most_bps(100)).sum() <= 10


def test_turns_let_pass_a_little_too_much_once_a_stream() -> None:
    """20 ms of a queue's channel, whatever the stream's length."""
    ceiling = stream_path(POLICIES["P1"],
                          SCENARIOS["N2"]).udp_ceiling(SHORT.without_contention, 1400)
    taken_us = 100 * 1400 * 8e6 / ceiling.at_most_bps(100)
    assert taken_us == pytest.approx(100 * ceiling.airtime_us - 20e3)


@pytest.mark.parametrize(("rate_bps", "interval_ms", "calls"), [
    (11_000_000, 20, 12), (1_000_000, 20, 3), (11_000_000, 10, 6)])
def test_calls_are_those_of_the_literature(rate_bps: int, interval_ms: int, calls: int) -> None:
    """G.711 in a cell of 802.11b with long preambles, acknowledged at 2 Mbit/s.

    Garg and Kappes, "Can I add a VoIP call?" (ICC 2003): 3 to 12 calls of 20 ms at 1 to 11 Mbit/s;
    "An Experimental Study of Throughput for UDP and VoIP Traffic in IEEE 802.11b Networks" (WCNC
    2003): six of 10 ms, measured.
    """
    air = dataclasses.replace(load_medium("802.11b-long"), rate_bps=rate_bps,
                              ack_rate_bps=2_000_000)
    call = stream_path(POLICIES["P1"], SCENARIOS["N2"]).call_ceiling(air, 8 * interval_ms + 12)
    assert int(interval_ms * 1e3 / call.airtime_us) == calls


def test_transport_mode_protects_what_is_for_the_agent() -> None:
    """Without a tunnel ESP has no second IP header, and nothing to do with other peers."""
    policy = with_ipsec("3des-sha1", "transport")
    assert stream_path(policy,
                       SCENARIOS["N2"]).hops[0].packet_bytes(DATAGRAM) == 20 + 8 + 8 + 1416 + 12
    assert stream_path(policy, SCENARIOS["N1"]).hops[0].packet_bytes(DATAGRAM) == DATAGRAM


@pytest.mark.parametrize(("policy", "scenario", "mtu", "longest"), [
    ("P1", "R1", 1700, 1500), ("P1", "R1", 1500, 1480), ("P3", "R1", 1700, 1446),
    ("P3", "R1", 1500, 1374), ("P1", "N3", 1400, 1400), ("P3", "N3", 1400, 1350),
    ("P3", "N2", 1400, 1446)])
def test_the_wire_may_shorten_packets(policy: str, scenario: str, mtu: int, longest: int) -> None:
    """By hand: 1500 - 20 of IP-in-IP; 3DES in 3DES: 1446 - 20 = 1426, of that 1376 - 2."""
    cell = SCENARIOS[scenario]
    links = [dataclasses.replace(link, mtu_bytes=mtu if "router" in str(link.ends) else 1500)
             for link in cell.network.links]
    cell = dataclasses.replace(cell, network=dataclasses.replace(cell.network, links=links))
    assert stream_path(POLICIES[policy], cell).limit_bytes == longest


def test_losses_cost_the_air_its_time() -> None:
    """Of transmissions lost with 10 %, one hop delivers 90 %; a second hop wastes the first's."""
    lossy = dataclasses.replace(SHORT, loss_percent=10, retries=0)
    frame_us = SHORT.airtime_us(DATAGRAM + LLC_BYTES) - SHORT.backoff_us
    for scenario, sent, drawn in (("N2", 1 / 0.9, 1 / 0.9), ("N1", 1 / 0.9 + 1 / 0.81, 1 / 0.81)):
        way = stream_path(POLICIES["P1"], SCENARIOS[scenario])
        assert way.udp_ceiling(lossy, 1400).airtime_us == pytest.approx(
            sent * frame_us + drawn * SHORT.backoff_us)


def test_a_datagram_too_long_for_the_tunnel_goes_in_two() -> None:
    """1472 bytes fill an Ethernet frame; in 3DES's tunnel the rest takes a second packet."""
    way = stream_path(POLICIES["P3"], SCENARIOS["N2"])
    assert way.split_packet(1500) == (1444, 76)
    two = sum(SHORT.airtime_us(esp + 8) for esp in (1496, 128))
    assert way.udp_ceiling(SHORT, 1472).airtime_us == pytest.approx(two)
