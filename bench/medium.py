"""`qop bench medium`: compare the emulated air with the throughput that 802.11 timing allows.

The code of the emulated air first runs outside of guests, compared with models and with results of
the simulator ns-3. Then every trial is a small open network in a guest of its own, loaded with UDP.
Some trials have positions: rates fall with distance, and hidden stations do not hear each other.
All trials but those in real time use virtual time, where other load takes no airtime.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from bench import dcf as bench_dcf
from bench import ns3_comparison
from bench.dcf import solve_bianchi
from bench.medium_trial import (
    MediumTrial,
    RatioLine,
    make_cell,
    make_network,
    make_one_cell_network,
    make_overload,
    make_two_cell_network,
    repeat_trial,
    run_trial,
)
from bench.ns3_comparison import format_comparison, solve_model
from guest import image
from harness.engine import setup
from harness.errors import UserError
from topologies import queueing_disciplines
from topologies.loader import load_medium
from topologies.medium import frequency_mhz
from topologies.medium_model import distance_m
from topologies.model import Medium, Network

# --- Trials with positions: rates by distance, and hidden stations ---

PLACED_MEDIUM, PLACED_PAYLOAD_BYTES, PLACED_SECONDS = "802.11b-positions", 1470, 10.0
#: Distances to the access point in metres: near, far and at the edge.
DISTANCES_M = (10, 40, 58)
_CELL_CENTRE_M = (50.0, 50.0, 0.0)
#: Positions of two stations: on opposite sides of the access point, which both reach but not each
#: other; and both on one side.
HIDDEN_PLACES_M, ADJACENT_PLACES_M = ((-50.0, 0.0), (50.0, 0.0)), ((50.0, 0.0), (50.0, 1.0))
_FREQUENCY_HZ = frequency_mhz(1) * 1e6


def make_quiet_medium() -> Medium:
    """Return a medium (802.11 timing) without beacons and management frames.

    The calculation of its throughput does not include them.
    """
    return replace(load_medium(PLACED_MEDIUM), beacon_bytes=0, management=False)


def place_stations(places: Sequence[tuple[float, float]]) -> Network:
    """Return a network of one access point, with stations at these positions.

    `places` are metres east and north of the access point.
    """
    network = make_network(make_cell("a", 1, len(places), channel=1))
    where = {f"a{number}": [_CELL_CENTRE_M[0] + east, _CELL_CENTRE_M[1] + north, 0.0]
             for number, (east, north) in enumerate(places, 1)}
    return replace(network, nodes={name: replace(node, position=where.get(
        name, list(_CELL_CENTRE_M) if name == "ap-a" else None)) for name, node
                                in network.nodes.items()})


async def compare_distances(runs: int, built: image.GuestImage, processor: int) -> list[RatioLine]:
    """Compare the goodput of one sender at several distances with the highest possible.

    Frames that noise destroys are sent again, which reduces the highest possible goodput.
    """
    medium, ratios = make_quiet_medium(), []
    assert medium.signal is not None
    for metres in DISTANCES_M:
        rate_bps, loss = compute_link_quality(medium, metres)
        there = replace(medium, rate_bps=rate_bps, signal=None, loss_percent=100 * loss)
        flow = make_overload(there, "a1", "ha-a", PLACED_PAYLOAD_BYTES)
        trial = MediumTrial(place_stations([(float(metres), 0.0)]), medium, [[flow]],
                            seconds=PLACED_SECONDS)
        samples = [outcome.goodput_bps[0][0] / there.udp_ceiling_bps(PLACED_PAYLOAD_BYTES)
                   for outcome in await repeat_trial(trial, runs, built, processor, "virtual")]
        ratios.append(
            RatioLine(f"{PLACED_MEDIUM}, {metres} m, {rate_bps / 1e6:g} Mbit/s / its ceiling",
                      samples, 0.98, 1.02))
    return ratios


async def compare_hidden(runs: int, built: image.GuestImage, processor: int) -> list[RatioLine]:
    """Compare the throughput of hidden stations, and of stations that hear each other.

    The expected values come from runs of the program outside of guests. Both stations always have a
    frame. Frames of hidden stations overlap at the access point, so they get less.
    """
    medium, ratios = make_quiet_medium(), []
    with tempfile.TemporaryDirectory(prefix="qop-dcf-") as folder:
        program = bench_dcf.compile_dcf_program(Path(folder))
        should = {places: run_placed_stations(program, medium, places) for places
                  in (HIDDEN_PLACES_M, ADJACENT_PLACES_M)}
    for places, words in ((HIDDEN_PLACES_M, "do not hear"), (ADJACENT_PLACES_M, "hear")):
        trial = MediumTrial(place_stations(places), medium, crowd_bytes=PLACED_PAYLOAD_BYTES,
                            seconds=PLACED_SECONDS)
        samples = [sum(outcome.crowd_per_s.values()) / should[places]
                   for outcome in await repeat_trial(trial, runs, built, processor, "virtual")]
        ratios.append(
            RatioLine(f"{PLACED_MEDIUM}, two that {words} each other / outside of a guest",
                      samples, 0.95, 1.05))
    return ratios


def run_placed_stations(program: Path, medium: Medium,
                        places: Sequence[tuple[float, float]]) -> float:
    """Return how many frames per second saturated stations at several positions deliver.

    Saturated stations always have a frame to send. The emulated air runs outside of a guest.

    Args:
        program: The compiled program of the emulated air.
        medium: A medium with a signal that depends on distance.
        places: Positions in m; the access point is at (0, 0). Their distances to it must be equal,
            because rate and loss of all stations follow from the first one.
    """
    assert medium.signal is not None
    rate_bps, loss = compute_link_quality(medium, distance_m(places[0], (0.0, 0.0)))
    result = bench_dcf.run_dcf_program(program, {
        **bench_dcf.make_frame_settings(replace(medium, rate_bps=rate_bps), PLACED_PAYLOAD_BYTES),
        "stations": len(places) + 1, "receives": 1, "loss": loss, "seconds": 400},
        compute_received_powers(medium, places))
    return float(result["delivered_per_s"])


def compute_received_powers(medium: Medium,
                            places: Sequence[tuple[float, float]]) -> bench_dcf.Powers:
    """Return the power that each station receives from each other one. Number 0 is the AP."""
    assert medium.signal is not None
    there: Mapping[int, tuple[float, float]] = dict(enumerate([(0.0, 0.0), *places]))
    return {(one, other): queueing_disciplines.power_units(medium.signal.received_dbm(
        distance_m(there[one], there[other]), _FREQUENCY_HZ))
        for one, other in itertools.permutations(there, 2)}


def compute_link_quality(medium: Medium, metres: float) -> tuple[int, float]:
    """Return the rate in bit/s at a distance, and the fraction of long frames lost to noise."""
    assert medium.signal is not None
    dbm = medium.signal.received_dbm(metres, _FREQUENCY_HZ)
    rate_bps = medium.signal.best_rate_bps(dbm)
    frame_bytes = medium.mac_bytes + bench_dcf.HEADER_BYTES + PLACED_PAYLOAD_BYTES
    return rate_bps, medium.signal.frame_loss(rate_bps, dbm, frame_bytes)


# --- Trials without positions, and the bench ---

PAYLOADS_BYTES = (1470, 256)
#: Number of frames of a load: the random error is then 0.2 %.
FRAMES = 6000
#: Media with aggregation. Aggregates of a single sender are not always full (docs/medium.md).
AGGREGATED = ("802.11n-aggregated", "802.11n-300", "802.11n-ht20", "802.11n-ht40", "802.11ac",
              "802.11ax-20", "802.11ax")
#: Settings for the processor time of a frame: medium, number of frames at the slower medium's
#: rate, and seconds between bursts. With the first, three of four datagrams find no room in the
#: queue. With the second, none is lost; with the third, about as many arrive as aggregates carry.
PROCESSOR_FRAMES = (("802.11b-short", 20_000, 0.02), ("802.11n-300", 60_000, 0.02),
                    ("802.11n-300", 60_000, 0.002))
#: Bound above 1 by the variation of one measurement on a quiet machine.
PROCESSOR_MOST = 1.05
STATION_COUNTS = (("802.11b-short", 10), ("802.11b-short", 50))
REAL_S = 3.0

_Part = Callable[[int, image.GuestImage, int], Coroutine[Any, Any, list[RatioLine]]]


async def compare_one_sender(name: str, runs: int, built: image.GuestImage,
                             processor: int) -> list[RatioLine]:
    """Compare the goodput of one sender with the highest possible.

    Its goodput relayed through its access point is compared, too.
    """
    medium = load_medium(name)
    loads = [make_overload(medium, "a1", "ha-a", payload) for payload in PAYLOADS_BYTES]
    trial = MediumTrial(make_one_cell_network(), medium, [[flow] for flow in loads],
                        seconds=compute_airtime_s(medium, FRAMES))
    outcomes = await repeat_trial(trial, runs, built, processor, "virtual")
    return [*(RatioLine(f"{name}, UDP {flow.payload_bytes} bytes, to its agent / ceiling", [
        outcome.goodput_bps[number][0] / medium.udp_ceiling_bps(flow.payload_bytes)
        for outcome in outcomes], 0.99, 1.01) for number, flow in enumerate(loads)),
        *await ns3_comparison.compare_two_hops(name, runs, built, processor)]


async def compare_in_real_time(runs: int, built: image.GuestImage,
                               processor: int) -> list[RatioLine]:
    """Compare one hop and two hops in real time, where a late machine reduces the goodput."""
    medium = load_medium(ns3_comparison.REAL)
    flow = make_overload(medium, "a1", "ha-a")
    trial = MediumTrial(make_one_cell_network(), medium, [[flow]], seconds=REAL_S)
    samples = [outcome.goodput_bps[0][0] / medium.udp_ceiling_bps(flow.payload_bytes)
               for outcome in await repeat_trial(trial, runs, built, processor)]
    return [RatioLine(f"{ns3_comparison.REAL}, in real time, one hop / ceiling", samples, 0.98,
                      1.02),
            *await ns3_comparison.compare_two_hops_in_real_time(runs, built, processor)]


async def compare_aggregation(runs: int, built: image.GuestImage,
                              processor: int) -> list[RatioLine]:
    """Compare one sender with frame aggregation with the goodput of full aggregates."""
    ratios = []
    for name in AGGREGATED:
        medium = load_medium(name)
        flow = make_overload(medium, "a1", "ha-a")
        trial = MediumTrial(make_one_cell_network(), medium, [[flow]],
                            seconds=compute_airtime_s(medium, 4 * FRAMES))
        samples = [outcome.goodput_bps[0][0] / medium.udp_ceiling_bps(flow.payload_bytes)
                   for outcome in await repeat_trial(trial, runs, built, processor, "virtual")]
        ratios.append(RatioLine(f"{name}, frames together / ceiling", samples, 0.90, 1.02))
    return ratios


def compute_airtime_s(medium: Medium, frames: int) -> float:
    """Return the airtime of a number of long frames from one sender, in seconds."""
    return frames * PAYLOADS_BYTES[0] * 8 / medium.udp_ceiling_bps(PAYLOADS_BYTES[0])


@functools.cache
def compute_two_station_bps(medium: Medium, payload_bytes: int) -> float:
    """Return the total goodput of two stations that always send, in bit/s."""
    return solve_model(medium, payload_bytes, 2).delivered_per_s * payload_bytes * 8


async def compare_station_counts(runs: int, built: image.GuestImage,
                                 processor: int) -> list[RatioLine]:
    """Compare many saturated stations at one access point with Bianchi's model."""
    ratios = []
    for name, stations in STATION_COUNTS:
        medium = load_medium(name)
        trial = MediumTrial(make_network(make_cell("a", 1, stations, channel=1)), medium,
                            crowd_bytes=PAYLOADS_BYTES[0], seconds=5.0)
        should = solve_bianchi(medium, PAYLOADS_BYTES[0], stations).delivered_per_s
        samples = [sum(outcome.crowd_per_s.values()) / should
                   for outcome in await repeat_trial(trial, runs, built, processor, "virtual")]
        ratios.append(RatioLine(f"{name}, {stations} stations / model", samples, 0.98, 1.02))
    return ratios


async def compare_frame_cost(runs: int, built: image.GuestImage, core: int) -> list[RatioLine]:
    """Compare the CPU time that a frame costs with emulated contention and with plain queues.

    The time is a guest's while many stations send, measured in turns. It is divided by the frames
    that arrived, because with aggregates more frames arrive than queues let pass.
    """
    ratios = []
    for name, frames, pause_s in PROCESSOR_FRAMES:
        medium = load_medium(name)
        samples = []
        for _ in range(runs):
            contended, queued = [await measure_frame_s(air, frames, pause_s, built, core)
                                 for air in (medium, medium.without_contention)]
            samples.append(contended / queued)
        ratios.append(
            RatioLine(f"{name}, a burst each {pause_s * 1e3:g} ms, processor of a frame / "
                      "by queues", samples, 0.0, PROCESSOR_MOST))
    return ratios


async def measure_frame_s(medium: Medium, frames: int, pause_s: float, built: image.GuestImage,
                          core: int) -> float:
    """Return the CPU seconds that a guest used for each frame that arrived."""
    lasts_s = compute_airtime_s(medium.without_contention, frames)
    outcome = await run_trial(MediumTrial(make_network(make_cell("a", 1, 2, channel=1)), medium,
                                          seconds=lasts_s,
                                          crowd_bytes=PAYLOADS_BYTES[0], crowd_pause_s=pause_s),
                              built, core, "virtual")
    # One more second passes before the frames are counted.
    return outcome.crowd_processor_s / sum(outcome.crowd_per_s.values()) / (lasts_s + 1)


async def compare_two_media(runs: int, built: image.GuestImage, processor: int) -> list[RatioLine]:
    """Compare the total goodput of two access points with that of one.

    On two channels their total is twice as much; on one channel it is that of two stations.
    """
    medium = load_medium("802.11b-short")
    flows = [make_overload(medium, f"{letter}1", f"ha-{letter}") for letter in "ab"]
    ratios = []
    two = compute_two_station_bps(medium,
                                  PAYLOADS_BYTES[0]) / medium.udp_ceiling_bps(PAYLOADS_BYTES[0])
    for channel, shares in ((6, 2.0), (1, two)):
        trial = MediumTrial(make_two_cell_network(channel), medium, [flows[:1], flows],
                            seconds=compute_airtime_s(medium, FRAMES))
        samples = []
        for outcome in await repeat_trial(trial, runs, built, processor, "virtual"):
            [alone], both = outcome.goodput_bps
            samples.append(sum(both) / alone / shares)
        ratios.append(RatioLine(f"two access points, channels 1 and {channel} / "
                                f"{'twice one alone' if channel == 6 else 'what two get'}",
                                samples, 0.99, 1.01))
    return ratios


def run_bench(runs: int) -> None:
    """Run all trials of the emulated air, and print the table of ratios line by line.

    Raises:
        UserError: A bound is missed.
    """
    embedded = setup.make_embedded_machine()
    built, processor = embedded.image, embedded.processors[-1]
    parts: list[_Part] = [*(functools.partial(compare_one_sender, name) for name
                            in ns3_comparison.PROFILES),
                          compare_two_media, compare_station_counts,
                          compare_aggregation, compare_distances, compare_hidden,
                          compare_frame_cost, compare_in_real_time]
    ratios = []
    for line in format_comparison():
        click.echo(line)
    for part in parts:
        new = asyncio.run(part(runs, built, processor))
        click.echo("\n".join(ratio.format_line() for ratio in new))
        ratios += new
    missed = sum(not ratio.is_within_bounds for ratio in ratios)
    if missed:
        raise UserError(f"bench medium: {missed} of {len(ratios)} bounds missed; a busy machine "
                        "can be the reason, so try again", status=1)
