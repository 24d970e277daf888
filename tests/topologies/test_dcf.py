"""Tests of 802.11's DCF outside of the guest: the same C code against Bianchi's model and ns-3."""

from __future__ import annotations

import dataclasses
import errno
import importlib.util
import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import dcf as bench_dcf
from bench import ns3_comparison
from topologies import loader, queueing_disciplines, yaml_reader
from topologies.loader import load_medium
from topologies.medium_model import Medium

NS3 = bench_dcf.read_ns3_answers()
MEDIA = [name for name in loader.medium_names()
         if not name.startswith("802.11n") and not load_medium(name).phy
         and load_medium(name).signal is None]
AGGREGATED = [name for name in loader.medium_names() if load_medium(name).aggregate > 1]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guest's air as a program."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    return bench_dcf.compile_dcf_program(tmp_path_factory.mktemp("dcf"))


@pytest.fixture(scope="session")
def like_ns3(program: Path) -> Path:
    """The same with what ns-3 does otherwise."""
    return bench_dcf.compile_dcf_program(program.parent, like_ns3=True)


def run(program: Path, medium: Medium, payload_bytes: int, **settings: float) -> dict[str, float]:
    """A cell of stations in the guest's air."""
    return bench_dcf.run_dcf_program(program,
                                     {**bench_dcf.make_frame_settings(medium, payload_bytes),
                                      **settings})


def heard(stations: int, between: int = 1000, of_first: int = 1000) -> bench_dcf.Powers:
    """Powers in a cell whose station 0 receives: of stations among each other, and of the first.

    Station 0 hears each, and each hears it, at 1000; 100 is what is heard at all.
    """
    return {(sender, listener): (1000 if 0 in (sender, listener) else between)
            * (of_first // 1000 if sender == 1 else 1)
            for sender in range(stations + 1) for listener in range(stations + 1)
            if sender != listener}


def placed(program: Path, powers: bench_dcf.Powers, stations: int,
           **settings: float) -> dict[str, Any]:
    """Stations of 802.11b-short that send to station 0, where powers are these."""
    return bench_dcf.run_dcf_program(program, {
        **bench_dcf.make_frame_settings(load_medium("802.11b-short"), 1470), "stations": stations
        + 1,
        "receives": 1, "senses": 100, "seconds": 40, **settings}, powers)


def test_who_hears_everybody_needs_no_positions(program: Path) -> None:
    """With powers by which all hear all, every number is the same to the last digit."""
    medium = load_medium("802.11b-short")
    for stations in (1, 2, 10):
        usual = run(program, medium, 1470, stations=stations, seconds=40)
        assert placed(program, heard(stations), stations) == usual


def test_hidden_stations_collide(program: Path) -> None:
    """Who does not hear others overlaps them: two get two thirds at most, ten next to nothing.

    Vulnerable is twice a frame's length, not a slot (Tobagi, Kleinrock, 1975).
    """
    for stations, share in ((2, 0.67), (10, 0.1)):
        all_heard = placed(program, heard(stations), stations)["delivered_per_s"]
        hidden = placed(program, heard(stations, between=1), stations)
        assert 0 < hidden["delivered_per_s"] < share * all_heard
        assert hidden["collision_share"] > 0.4


def test_the_stronger_comes_through(program: Path) -> None:
    """A station 20 dB stronger than others loses nothing to collisions, where 10 dB capture."""
    powers = heard(10, of_first=100_000)
    captures = placed(program, powers, 10, capture=2560)["each_per_s"]
    none = placed(program, powers, 10)["each_per_s"]
    assert captures[0] > 2 * max(captures[1:])
    assert max(none) < 1.3 * min(none)


def test_beacons_take_their_time(program: Path) -> None:
    """A saturated sender loses what beacons take: DIFS, some backoff, preamble and bits each."""
    beacon_us = 96 + 100 * 8 / 2
    without, having = (placed(program, heard(1), 1, **settings)["delivered_per_s"] for settings in (
        {}, {"beacons": 1, "beacon_every_ns": 102.4e6, "beacon_ns": beacon_us * 1e3}))
    assert (beacon_us + 50) / 102.4e3 < 1 - having / without < (beacon_us + 2 * 360) / 102.4e3


@pytest.mark.parametrize("name", AGGREGATED)
@pytest.mark.parametrize("together", [2, 8, 64])
def test_aggregates_are_as_long_as_their_parts(program: Path, name: str, together: int) -> None:
    """A lone sender's frames a second: one preamble, one backoff, one acknowledgement for all."""
    medium = load_medium(name)
    together = min(together, medium.queue_frames)
    measured = bench_dcf.run_dcf_program(program, {
        **bench_dcf.make_aggregation_settings(medium, 1470), "aggregate": together, "stations": 1,
        "seconds": 20})
    shorter = dataclasses.replace(medium, aggregate=together)
    assert measured["delivered_per_s"] == pytest.approx(
        1e6 / shorter.delivery_us(1470 + 36), rel=0.005)


@pytest.mark.parametrize(("name", "mbps"), [("802.11n-aggregated", 60.1), ("802.11n-300", 247.8)])
def test_ceilings_of_aggregates_by_hand(name: str, mbps: float) -> None:
    """32 of 1470 bytes: each 1536 bytes on the air with its checksum, padding and delimiter."""
    medium = load_medium(name)
    symbols = -(-(32 * 8 * (1536 + 4) + 22) // round(medium.rate_bps * medium.symbol_us / 1e6))
    turn_us = (37 + 67.5 + medium.preamble_us + symbols * medium.symbol_us + 6 + 10
               + medium.block_ack_us)
    assert medium.udp_ceiling_bps(1470) == pytest.approx(32 * 1470 * 8 / turn_us * 1e6)
    assert medium.udp_ceiling_bps(1470) == pytest.approx(mbps * 1e6, rel=0.01)


@pytest.mark.parametrize("name", ["802.11ac", "802.11ax"])
def test_aggregates_of_short_frames_are_spaced(program: Path, name: str) -> None:
    """Frames of 100 bytes begin 8 us apart, so that an aggregate is longer than their bytes."""
    medium = load_medium(name)
    measured = bench_dcf.run_dcf_program(program, {
        **bench_dcf.make_aggregation_settings(medium, 100), "stations": 1, "seconds": 5})
    assert measured["delivered_per_s"] == pytest.approx(1e6 / medium.delivery_us(136), rel=0.005)
    assert measured["delivered_per_s"] < 0.75e6 / dataclasses.replace(
        medium, mpdu_spacing_us=0.0).delivery_us(136)


@pytest.mark.parametrize("stations", [1, 2, 5, 10])
@pytest.mark.parametrize("name", AGGREGATED)
def test_saturation_with_aggregates_is_the_models(program: Path, name: str,
                                                  stations: int) -> None:
    """Frames a second and collisions of full aggregates: Bianchi's model, of two the exact one."""
    medium = load_medium(name)
    model = ns3_comparison.solve_model(medium, 1470, stations)
    together = medium.frames_together(1470 + 36)
    # Of long aggregates there are few in a second, and collisions are counted in aggregates.
    seconds = 4e4 * together / model.delivered_per_s
    measured = bench_dcf.run_dcf_program(program, {
        **bench_dcf.make_aggregation_settings(medium, 1470), "stations": stations,
        "seconds": seconds})
    assert measured["delivered_per_s"] == pytest.approx(model.delivered_per_s, rel=0.01)
    assert measured["collision_share"] == pytest.approx(model.collision_share, rel=0.03)


@pytest.mark.parametrize("row", bench_dcf.read_ns3_aggregates(),
                         ids=lambda row: "{medium}-{stations}".format(**row))
def test_aggregates_as_ns3(program: Path, row: dict[str, Any]) -> None:
    """Within 1 % of ns-3's frames a second, and of its collisions within their chance.

    ns-3's frames last as long as those here, with its preambles and its block acknowledgement.
    """
    settings, lasts_us = bench_dcf.make_ns3_aggregation_settings(row)
    assert lasts_us == pytest.approx(row["frame_us"], abs=0.05)
    measured = bench_dcf.run_dcf_program(program, {
        **settings, "stations": row["stations"], "seconds": row["seconds"]})
    assert measured["delivered_per_s"] == pytest.approx(row["delivered_per_s"], rel=0.01)
    assert measured["collision_share"] == pytest.approx(row["collision_share"], rel=0.06, abs=0.002)


def test_an_air_of_queues_has_nothing_that_contention_is_asked_for() -> None:
    """Where no kernel of ours is, a medium with positions is one without, and can be made."""
    turns = load_medium("802.11b-positions").without_contention
    assert (turns.air, turns.signal, turns.management, turns.beacon_bytes) == (
        "queue", None, False, 0)


def test_only_what_was_lost_is_sent_again(program: Path) -> None:
    """One frame in ten lost: a block acknowledgement repeats those, and not what came."""
    medium = load_medium("802.11n-aggregated")
    cell = {**bench_dcf.make_aggregation_settings(medium, 1470), "stations": 1, "seconds": 20}
    whole, lossy = (bench_dcf.run_dcf_program(program, {**cell, "loss": loss}) for loss
                    in (0.0, 0.1))
    assert 0.88 < lossy["delivered_per_s"] / whole["delivered_per_s"] < 0.9
    assert lossy["given_up"] == 0


@pytest.mark.parametrize("stations", [1, 2, 10, 20, 50])
@pytest.mark.parametrize("name", MEDIA)
def test_saturation_is_the_models(program: Path, name: str, stations: int) -> None:
    """Throughput and transmissions in vain within 1 % of Bianchi's model, of two of the exact one.

    The model takes stations for independent, which few are least; five are off by 2 %.
    """
    medium = load_medium(name)
    for payload_bytes in (64, 1470):
        model = ns3_comparison.solve_model(medium, payload_bytes, stations)
        # Two collide seldom; short frames on a quick channel are soon many enough.
        seconds = min(100, 1e5 / model.delivered_per_s) * (4 if stations == 2 else 1)
        measured = run(program, medium, payload_bytes, stations=stations, seconds=seconds)
        assert measured["delivered_per_s"] == pytest.approx(model.delivered_per_s, rel=0.01)
        assert measured["collision_share"] == pytest.approx(model.collision_share, rel=0.011)


def test_two_are_not_independent() -> None:
    """By the exact solution they collide more often than by Bianchi's model.

    With windows of one slot that never grow, both send always, and each transmission is in vain.
    """
    medium = load_medium("802.11g")
    exact, model = (of(medium, 1470) for of in (
        bench_dcf.solve_saturated, lambda *cell: bench_dcf.solve_bianchi(*cell, 2)))
    assert 1.05 < exact.collision_share / model.collision_share < 1.15
    without = dataclasses.replace(medium, cw_min=0, cw_max=0, retries=0)
    assert bench_dcf.solve_saturated(without, 1470) == bench_dcf.Saturation(0.0, 1.0)


def test_two_that_draw_from_two_slots_by_hand() -> None:
    """Nothing repeated, windows of two: a state for each slot that is left, solved on paper.

    After a frame one draws 0 or 1, and the other has 1 left: half of the rounds it comes first and
    the other keeps 1; half they collide. After that both draw: half they collide again, half one
    comes first, and 1 is left. So half of all rounds are collisions.
    """
    medium = dataclasses.replace(load_medium("802.11g"), cw_min=1, cw_max=1, retries=0)
    exact = bench_dcf.solve_saturated(medium, 1470)
    assert exact.collision_share == pytest.approx(2 / 3)
    own = bench_dcf.make_frame_settings(medium, 1470)
    # Where one has 1 left, half pass that slot; of those in which both draw, a quarter.
    slots = 0.5 * 0.5 + 0.5 * (0.25 + own["timeout_slots"])
    mean_ns = (own["difs_ns"] + own["frame_ns"] + slots * own["slot_ns"]
               + 0.5 * own["after_frame_ns"] + 0.5 * own["after_garbled_ns"])
    assert exact.delivered_per_s == pytest.approx(0.5 / mean_ns * 1e9)


def test_one_station_is_the_ceiling() -> None:
    """The model of one station is the maximum of Jun, Peddabachagari and Sichitiu."""
    for name in MEDIA:
        medium = load_medium(name)
        assert bench_dcf.solve_bianchi(medium, 1470,
                                       1).delivered_per_s * 1470 * 8 == pytest.approx(
            medium.udp_ceiling_bps(1470), rel=1e-5)


@pytest.mark.parametrize("row", NS3, ids=lambda row: "{medium}-{payload_bytes}-{stations}-{load}"
                         .format(**row))
def test_as_ns3(program: Path, like_ns3: Path, row: dict[str, Any]) -> None:
    """Within 2 % of ns-3 when saturated; delay, mean and 99th percentile, within 5 % when not.

    And what chance makes of runs as many and as long as ns-3's, told by those here: of frames a
    second a part of that, and nothing of mean delays; at 0.9, where the backoff that ns-3 leaves
    out takes up to 4 %, nothing where this does as ns-3. `load` is a share of what saturated
    stations get together.
    """
    said = ns3_comparison.compare_with_ns3(program, row)
    within = {**dict.fromkeys(ns3_comparison.SATURATED, 0.02),
              **dict.fromkeys(ns3_comparison.DELAYS, 0.05)}
    for name in ns3_comparison.DELAYS if row["load"] else said:
        assert abs(said[name].apart) < within[name] + said[name].chance
    assert said["delivered_per_s"].chance < 0.02
    if row["load"] == 0.9:
        said = ns3_comparison.compare_with_ns3(like_ns3, row)
    if row["load"]:
        assert abs(said["delay_mean_us"].apart) < within["delay_mean_us"]


@pytest.mark.parametrize("cell", ns3_comparison.read_two_hop_answers(),
                         ids=lambda cell: "{medium}-{payload_bytes}".format(**cell.row))
def test_two_hops_as_ns3(program: Path, cell: ns3_comparison.TwoHopAnswers) -> None:
    """Through an access point within 1 % of ns-3, where frames last as long as here.

    Its queue fills as fast as it empties, so at times it has nothing to send: it carries less than
    half of what two senders get that always have a frame.
    """
    medium = bench_dcf.to_ns3_medium(cell.row)
    own = bench_dcf.make_frame_settings(medium, cell.row["payload_bytes"])
    # ns-3 has whole microseconds of a frame.
    assert (cell.row["frame_us"], cell.row["ack_us"]) == pytest.approx(
        (own["frame_ns"] / 1e3, medium.ack_us), abs=0.5)
    assert len(cell.per_s) > 2 and cell.error < 0.003
    runs = [ns3_comparison.run_two_hops(program, cell.row, seed) for seed in ns3_comparison.SEEDS]
    relayed_per_s = sum(run["relayed_per_s"] for run in runs) / len(runs)
    assert relayed_per_s == pytest.approx(cell.mean_per_s, rel=0.01)
    halved = bench_dcf.solve_saturated(medium, cell.row["payload_bytes"]).delivered_per_s / 2
    assert 0.98 < relayed_per_s / halved < 0.998


def test_an_access_point_relays_what_it_is_brought(program: Path) -> None:
    """With room for two frames it drops more of them, and carries less."""
    cell = bench_dcf.make_frame_settings(load_medium("802.11g"), 1470)
    usual, cramped = (bench_dcf.run_dcf_program(program, {
        **cell, "stations": 2, "relays": 1, "seconds": 20, "queue_frames": room})
        for room in (50, 2))
    for said in (usual, cramped):
        relayed, brought = (20 * each for each in said["each_per_s"])
        assert 0 <= brought - relayed - said["dropped"] - said["given_up"] <= 50
    assert cramped["each_per_s"][0] < 0.9 * usual["each_per_s"][0]


def test_what_ns3_does_otherwise(program: Path, like_ns3: Path) -> None:
    """Who is overtaken while it waits for DIFS draws a backoff: near saturation 4 % later.

    Frames come to both at the same times, a million of them.
    """
    core = (bench_dcf.SOURCE.parents[1] / bench_dcf.CORE).read_text()
    assert core.count(bench_dcf.OVERTAKEN[0]) == 1
    [row] = [row for row in NS3 if (row["medium"], row["load"]) == ("802.11g", 0.9)]
    settings = {**bench_dcf.make_frame_settings(bench_dcf.to_ns3_medium(row),
                                                row["payload_bytes"]),
                "stations": row["stations"], "gap_ns": row["gap_s"] * 1e9,
                "seconds": 1e6 / row["delivered_per_s"]}
    here, as_ns3 = (bench_dcf.run_dcf_program(of, settings)["delay_mean_us"] for of
                    in (program, like_ns3))
    assert 1.02 < here / as_ns3 < 1.07


def test_a_lone_frame_takes_preamble_and_bits(program: Path) -> None:
    """On a channel that is idle nearly always: no backoff, and no acknowledgement to wait for."""
    for name in MEDIA:
        medium = load_medium(name)
        measured = run(program, medium, 64, stations=1, gap_ns=1e9, seconds=2000)
        assert measured["delay_mean_us"] == pytest.approx(medium.latency_us(64 + 36), rel=0.02)


def test_equals_get_equal_shares(program: Path) -> None:
    """Jain's index above 0.99: over a second of two stations, over twenty of ten.

    In a second, ten stations have 60 to 230 frames each, and luck is in that; in ns-3, too.
    """
    for name in MEDIA:
        assert run(program, load_medium(name), 1470, stations=2, seconds=40)["jain_1s"] > 0.99
    ten = run(program, load_medium("802.11g"), 1470, stations=10, seconds=20)
    assert ten["jain"] > 0.99 > ten["jain_1s"] > 0.96


def test_the_same_seed_is_the_same_air(program: Path) -> None:
    """Every number repeats with the seed, and with another none does."""
    first, again, other = (run(program, load_medium("802.11g"), 256, stations=5, seconds=5,
                               seed=seed) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(("changes", "share"), [({"eifs": True}, 0.99), ({"cw_max": 31}, 0.97)])
def test_what_a_file_says_is_heeded(program: Path, changes: dict[str, Any], share: float) -> None:
    """Waiting for EIFS after collisions, or windows that do not grow, costs ten stations air."""
    medium = load_medium("802.11b-short")
    usual, changed = (run(program, air, 1470, stations=10, seconds=30)["delivered_per_s"]
                      for air in (medium, dataclasses.replace(medium, **changes)))
    assert changed < share * usual
    assert changed == pytest.approx(bench_dcf.solve_bianchi(
        dataclasses.replace(medium, **changes), 1470, 10).delivered_per_s, rel=0.015)


def test_losses_and_retries(program: Path) -> None:
    """A frame that one station may send three times is lost with the cube of the probability."""
    measured = run(program, dataclasses.replace(load_medium("802.11g"), retries=2), 64, stations=1,
                   loss=0.3, seconds=60)
    lost = measured["given_up"] / (measured["given_up"] + 60 * measured["delivered_per_s"])
    assert lost == pytest.approx(0.3**3, rel=0.05)


def test_the_kernel_is_told_what_the_file_says() -> None:
    """Options are where dcf_netlink.h has them, as long as the C structures are."""
    medium = dataclasses.replace(load_medium("802.11g"), loss_percent=50)
    request = queueing_disciplines.build_dcf_request(7, 1 << 16, queueing_disciplines.DcfChannel(
        medium, stations=6, access_points=(3, 4), cipher_bytes=8, seed=9))
    assert (request.kind, request.flags) == (36, 0x604)
    body = request.body
    assert body[20:28] == struct.pack("=HH4s", 8, 1, b"dcf\0")
    told_bytes, timing_bytes = 4 + 144, 4 + 96
    assert struct.unpack_from("=HHHH", body, 28) == (
        4 + told_bytes + timing_bytes, 0x8002, told_bytes, 1)
    told = struct.unpack_from("=11Q10IIIQ", body, 36)
    assert told == (9000, 28000, 0, 4000, 10000 + 34000, 0, 10000, 10000 + 38000, 0, 0, 0,
                    15, 1023, 6, 0x80000000, 50, 4, 0, 1, 0, 0, 6, 0, 9)
    assert struct.unpack_from("=HH", body, 180) == (timing_bytes, 2)
    timing = struct.unpack_from("=QQ6IQQ6IQii", body, 184)
    assert timing == (26000, 54_000_000, 216, 4000, 22, 0, 8 * 65535, 0,
                      26000, 6_000_000, 24, 4000, 22, 0, 0, 0, 0b1100, 28 + 8 + 8 - 14,
                      28 + 8 + 8 - 14)


def test_the_kernel_is_told_of_aggregates() -> None:
    """Rates with their limits, of frames to all OFDM's, and that a lone frame has a delimiter."""
    medium = load_medium("802.11ac")
    body = queueing_disciplines.build_dcf_request(7, 1 << 16, queueing_disciplines.DcfChannel(
        medium, stations=6, access_points=(3,), cipher_bytes=16, more_group_bytes=4, seed=9)).body
    told = struct.unpack_from("=11Q10IIIQ", body, 36)
    assert told[:8] == (9000, 43000, 0, 4000, 16000 + 28000, 0, 16000, 16000 + 32000)
    assert told[11:20] == (15, 1023, 6, 0, 256, 5, 0, 64, 1)
    timing = struct.unpack_from("=QQ6IQQ6IQii", body, 184)
    # (5484 - 44) us are 1360 steps of 4 us: 1511 symbols of 3120 bits, less SERVICE and tail.
    longest_bits = (1511 * 3120 - 28) // 32 * 32
    assert timing[:8] == (44000, 866_666_667, 3120, 3600, 28, 4000, longest_bits, 8 * 868)
    assert timing[8:16] == (20000, 6_000_000, 24, 4000, 22, 0, 0, 0)
    assert timing[16:] == (0b100, 30 + 8 + 16 - 14, 28 + 8 + 16 + 4 - 14)  # TKIP for frames to all


def test_the_kernel_is_told_where_stations_are() -> None:
    """Powers of all pairs, and a link's rate and losses, which grow with a frame's length."""
    medium = load_medium("802.11b-positions")
    assert medium.signal is not None
    near, far = (medium.signal.received_dbm(metres, 2.412e9) for metres in (10, 70))
    powers = {(3, 4): near, (4, 3): near, (3, 5): far, (5, 3): far}
    channel = queueing_disciplines.DcfChannel(medium, stations=5, access_points=(3,),
                                              cipher_bytes=0,
                                              seed=9, received_dbm=powers,
                                              links=((4, 3), (5, 3)),
                                              addresses={3: "02:00:00:00:a0:00"})
    request = queueing_disciplines.build_dcf_request(7, 1 << 16, channel).body
    at = 184 + 96
    assert struct.unpack_from("=HH", request, at) == (4 + 25 * 8, 3)
    rows = struct.unpack_from("=25Q", request, at + 4)
    assert rows[2 * 5 + 3] == queueing_disciplines.power_units(near) > rows[
        2 * 5 + 4] == queueing_disciplines.power_units(far) > 0
    assert rows[0] == 0
    at += 4 + 25 * 8
    assert struct.unpack_from("=HH", request, at) == (4 + 2 * 184, 4)
    for number, (station, rate_bps) in enumerate(((4, 11_000_000), (5, 2_000_000))):
        link = struct.unpack_from("=IIQQ6I33I", request, at + 4 + 184 * number)
        assert (link[0], link[1], link[3]) == (station, 3, rate_bps)
        assert list(link[10:]) == sorted(link[10:])
    at += 4 + 2 * 184
    assert struct.unpack_from("=HH", request, at) == (4 + 5 * 8, 5)
    assert request[at + 4 + 16:at + 4 + 22] == bytes.fromhex("02000000a000")


@pytest.mark.parametrize(("number", "said"), [
    (errno.ENOMEM, "no memory for a channel of 51 stations; take fewer"),
    (errno.ENOENT, "no 802.11 DCF; write 'air: queue' in the medium's file")])
def test_what_the_kernel_refuses_is_one_line(monkeypatch, number: int, said: str) -> None:
    """Too many stations for a guest's memory, or a kernel that is not the guest's: what to do."""
    def refuse(*_: object) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr(queueing_disciplines, "send_request", refuse)
    with pytest.raises(RuntimeError, match=said) as caught:
        queueing_disciplines.make_channel(1, "air1", 1 << 16, queueing_disciplines.DcfChannel(
            load_medium("802.11g"), stations=51, access_points=(3,), cipher_bytes=0,
            seed=1))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("line", "said"), [
    ("cw_max: 7", "cw_max"), ("slot_us: 0", "slot_us"), ("rate_bps: 0", "rate_bps"),
    ("air: fresh", "air must be"), ("basic_rate_bps: 0", "basic_rate_bps"),
    ("retries: 6\naggregate: 51", "aggregate must be from 1 to 50"),
    ("air: queue\nmanagement: true", "need air: dcf"),
    ("retries: 6\nsignal: {rates_bps: [7000000]}", "rates_bps: 7000000; choose from"),
    ("retries: 6\nbeacon_bytes: 100\nbeacon_interval_ms: 0", "beacon_interval_ms"),
    ("retries: 6\nbeacon_bytes: 100\nbeacon_interval_ms: 0.01", "longer than a beacon"),
    ("slot_us: 0.0001", "slot_us must be 0.001 or more"), ("cw_min: 2000", "from cw_min, 2000"),
    ("retries: 5000000000", "retries must be at most 255"),
    ("rate_bps: 100000000000000000000", "rate_bps must be at most 1000000000000"),
    ("rate_bps: 1", "at 1 bit/s a symbol has not one bit"),
    ("ack_rate_bps: 1", "at 1 bit/s a symbol has not one bit"),
    ("symbol_us: 0.0001", "a symbol has not one bit"),
    ("service_bits: 99999999999", "service_bits must be at most"),
    ("retries: 6\nmac_bytes: 99999999999", "mac_bytes must be at most"),
    ("retries: 6\naggregate_bytes: 9999999999", "aggregate_bytes must be at most")])
def test_bad_media_are_one_line(tmp_path: Path, line: str, said: str) -> None:
    """What no channel can be is refused where it is read."""
    field = line.partition(":")[0]
    text = (yaml_reader.ROOT / "media" / "802.11g.yml").read_text()
    (tmp_path / "bad.yml").write_text("\n".join(
        line if entry.startswith(f"{field}:") else entry for entry in text.splitlines()) + "\n")
    with pytest.raises(loader.TopologyError, match=said) as caught:
        load_medium(str(tmp_path / "bad.yml"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", ["rate_bps", "ack_rate_bps", "basic_rate_bps"])
@pytest.mark.parametrize("name", ["802.11b-positions", "802.11g-positions"])
def test_media_with_beacons_have_rates(tmp_path: Path, name: str, field: str) -> None:
    """A beacon at 0 bit/s, or as acknowledgements are sent at none, ended in a traceback."""
    text = (yaml_reader.ROOT / "media" / f"{name}.yml").read_text()
    (tmp_path / "bad.yml").write_text("\n".join(
        line for line in text.splitlines()
        if not line.startswith(("basic_rate_bps:", f"{field}:"))) + f"\n{field}: 0\n")
    with pytest.raises(loader.TopologyError, match=f"{field}: 0; write 1 or more"):
        load_medium(str(tmp_path / "bad.yml"))


@pytest.mark.parametrize(("line", "said"), [
    ("transmit_dbm: 99999.0", "transmit_dbm must be from -100 to 100"),
    ("exponent: 500.0", "exponent must be from 1 to 10"),
    ("noise_dbm: 9999.0", "noise_dbm must be"), ("sense_dbm: 9999.0", "sense_dbm must be"),
    ("capture_db: 90.0", "capture_db must be from 0 to 60"), ("rates_bps: []", "none; choose")])
def test_signals_that_no_radio_has_are_one_line(tmp_path: Path, line: str, said: str) -> None:
    """Powers that no number holds ended in a traceback, later."""
    field = line.partition(":")[0]
    body = [entry for entry in (yaml_reader.ROOT / "media/802.11b-positions.yml").read_text()
            .splitlines() if entry.strip().partition(":")[0] != field]
    at = next(n for n, entry in enumerate(body) if entry.startswith("signal:")) + 1
    (tmp_path / "bad.yml").write_text("\n".join([*body[:at], f"  {line}", *body[at:]]) + "\n")
    with pytest.raises(loader.TopologyError, match=said) as caught:
        load_medium(str(tmp_path / "bad.yml"))
    assert "\n" not in str(caught.value)


def test_ns3_answers_as_recorded(tmp_path: Path) -> None:
    """The reference itself, for who has it: `pip install ns3==3.44.post0` and a C++ compiler."""
    spec = importlib.util.find_spec("ns3")
    if spec is None or not spec.submodule_search_locations or not shutil.which("c++"):
        pytest.skip("ns-3 is not installed")
    [place] = spec.submodule_search_locations
    libraries = sorted(path.name for path in Path(place, "lib64").glob("libns3*-*.so"))
    linked = [f"-l:{name}" for name in libraries if name.rsplit("-", 1)[1] in {
        f"{part}.so" for part in ("core", "network", "wifi", "mobility", "propagation", "antenna",
                                  "spectrum", "stats")}]
    subprocess.run(["c++", "-std=c++2b", "-O1", f"-I{place}/include", str(bench_dcf.NS3_SOURCE),
                    "-o", str(tmp_path / "cell"), f"-L{place}/lib64", *linked,
                    f"-Wl,-rpath,{place}/lib64"], check=True)
    for row in (next(row for row in NS3 if not row["load"] and row["stations"] == 10),
                next(rows[0] for rows in bench_dcf.read_ns3_runs(hops=2)
                     if rows[0]["seconds"] < 10)):
        said = subprocess.run([str(tmp_path / "cell"), f"--hops={row.get('hops', 1)}", *(
            f"--{name}={row[key]}" for name, key in (
                ("medium", "medium"), ("payload", "payload_bytes"), ("stations", "stations"),
                ("satrate", "send_every_s"), ("seconds", "seconds")))], text=True,
            capture_output=True, check=True)
        assert json.loads(said.stdout)["delivered_per_s"] == pytest.approx(row["delivered_per_s"],
                                                                          rel=0.01)
