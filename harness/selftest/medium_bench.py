"""`qop bench medium`: compare the emulated medium with the throughput by 802.11's timing.

The same code first runs outside of guests, compared with models and with answers of ns-3. Then
every trial is a small open network in a guest of its own, loaded with UDP. All parts but one use
virtual time, where other load takes no airtime.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import click

from guest import image
from harness.engine import setup
from harness.errors import UserError
from harness.selftest import placed, two_hops
from harness.selftest.contention import solve_bianchi
from harness.selftest.medium_trial import (
    MediumTrial,
    Ratio,
    make_cell,
    make_network,
    make_overload,
    one_cell,
    repeat_trial,
    run_trial,
    two_cells,
)
from harness.selftest.outside import side_by_side, solve_model
from topologies.loader import load_medium
from topologies.model import Medium

PAYLOADS_BYTES = (1470, 256)
#: Number of frames of a load: the random error is then 0.2 %.
FRAMES = 6000
#: Media with aggregation. Aggregates of a single sender are not always full (docs/medium.md).
AGGREGATED = ("802.11n-aggregated", "802.11n-300")
#: Settings for the processor time of a frame: medium, number of frames at the slower medium's
#: rate, and seconds between bursts. With the first, three of four datagrams find no room in the
#: queue. With the second, none is lost; with the third, about as many arrive as aggregates carry.
PROCESSOR_FRAMES = (("802.11b-short", 20_000, 0.02), ("802.11n-300", 60_000, 0.02),
                    ("802.11n-300", 60_000, 0.002))
#: Bound above 1 by the variation of one measurement on a quiet machine.
PROCESSOR_MOST = 1.05
CROWDS = (("802.11b-short", 10), ("802.11b-short", 50))
REAL_S = 3.0

_Part = Callable[[int, image.Image, int], Coroutine[Any, Any, list[Ratio]]]


async def one_sender(name: str, runs: int, built: image.Image,
                     processor: int) -> list[Ratio]:
    """Compare one sender with the ceiling, and its relayed goodput through its access point."""
    medium = load_medium(name)
    loads = [make_overload(medium, "a1", "ha-a", payload) for payload in PAYLOADS_BYTES]
    trial = MediumTrial(one_cell(), medium, [[flow] for flow in loads],
                        seconds=airtime_s(medium, FRAMES))
    outcomes = await repeat_trial(trial, runs, built, processor, "virtual")
    return [*(Ratio(f"{name}, UDP {flow.payload_bytes} bytes, to its agent / ceiling", [
        outcome.goodput_bps[number][0] / medium.udp_ceiling_bps(flow.payload_bytes)
        for outcome in outcomes], 0.99, 1.01) for number, flow in enumerate(loads)),
        *await two_hops.in_guests(name, runs, built, processor)]


async def in_real_time(runs: int, built: image.Image, processor: int) -> list[Ratio]:
    """Compare one hop and two hops in real time, where a late machine reduces the goodput."""
    medium = load_medium(two_hops.REAL)
    flow = make_overload(medium, "a1", "ha-a")
    trial = MediumTrial(one_cell(), medium, [[flow]], seconds=REAL_S)
    samples = [outcome.goodput_bps[0][0] / medium.udp_ceiling_bps(flow.payload_bytes)
               for outcome in await repeat_trial(trial, runs, built, processor)]
    return [Ratio(f"{two_hops.REAL}, in real time, one hop / ceiling", samples, 0.98, 1.02),
            *await two_hops.in_real_time(runs, built, processor)]


async def compare_aggregation(runs: int, built: image.Image, processor: int) -> list[Ratio]:
    """Compare one sender on a medium with aggregation with the ceiling of full aggregates."""
    ratios = []
    for name in AGGREGATED:
        medium = load_medium(name)
        flow = make_overload(medium, "a1", "ha-a")
        trial = MediumTrial(one_cell(), medium, [[flow]], seconds=airtime_s(medium, 4 * FRAMES))
        samples = [outcome.goodput_bps[0][0] / medium.udp_ceiling_bps(flow.payload_bytes)
                   for outcome in await repeat_trial(trial, runs, built, processor, "virtual")]
        ratios.append(Ratio(f"{name}, frames together / ceiling", samples, 0.90, 1.02))
    return ratios


def airtime_s(medium: Medium, frames: int) -> float:
    """Return the airtime in seconds of this number of a single sender's long frames."""
    return frames * PAYLOADS_BYTES[0] * 8 / medium.udp_ceiling_bps(PAYLOADS_BYTES[0])


@functools.cache
def two_bps(medium: Medium, payload_bytes: int) -> float:
    """Return the total goodput of two stations that always send, in bit/s."""
    return solve_model(medium, payload_bytes, 2).delivered_per_s * payload_bytes * 8


async def compare_crowds(runs: int, built: image.Image, processor: int) -> list[Ratio]:
    """Compare many stations of one cell, which all send all the time, with Bianchi's model."""
    ratios = []
    for name, stations in CROWDS:
        medium = load_medium(name)
        trial = MediumTrial(make_network(make_cell("a", 1, stations, channel=1)), medium,
                            crowd_bytes=PAYLOADS_BYTES[0], seconds=5.0)
        should = solve_bianchi(medium, PAYLOADS_BYTES[0], stations).delivered_per_s
        samples = [sum(outcome.crowd_per_s.values()) / should
                   for outcome in await repeat_trial(trial, runs, built, processor, "virtual")]
        ratios.append(Ratio(f"{name}, {stations} stations / model", samples, 0.98, 1.02))
    return ratios


async def frames_work(runs: int, built: image.Image, core: int) -> list[Ratio]:
    """Compare the processor time of a frame (user and system) with contention and with queues.

    The time is a guest's while a crowd sends, measured in turns. It is divided by the frames that
    arrived, because with aggregates more frames arrive than queues let pass.
    """
    ratios = []
    for name, frames, pause_s in PROCESSOR_FRAMES:
        medium = load_medium(name)
        samples = []
        for _ in range(runs):
            contended, queued = [await per_frame_s(air, frames, pause_s, built, core)
                                 for air in (medium, medium.in_turns)]
            samples.append(contended / queued)
        ratios.append(Ratio(f"{name}, a burst each {pause_s * 1e3:g} ms, processor of a frame / "
                            "by queues", samples, 0.0, PROCESSOR_MOST))
    return ratios


async def per_frame_s(medium: Medium, frames: int, pause_s: float, built: image.Image,
                      core: int) -> float:
    """Return the guest's processor seconds for each frame that arrived."""
    lasts_s = airtime_s(medium.in_turns, frames)
    outcome = await run_trial(MediumTrial(make_network(make_cell("a", 1, 2, channel=1)), medium,
                                          seconds=lasts_s,
                                          crowd_bytes=PAYLOADS_BYTES[0], crowd_pause_s=pause_s),
                              built, core, "virtual")
    # One more second passes before the frames are counted.
    return outcome.crowd_processor_s / sum(outcome.crowd_per_s.values()) / (lasts_s + 1)


async def two_media(runs: int, built: image.Image, processor: int) -> list[Ratio]:
    """Compare two access points with one.

    On two channels their total is twice as much; on one channel it is what two stations get.
    """
    medium = load_medium("802.11b-short")
    flows = [make_overload(medium, f"{letter}1", f"ha-{letter}") for letter in "ab"]
    ratios = []
    two = two_bps(medium, PAYLOADS_BYTES[0]) / medium.udp_ceiling_bps(PAYLOADS_BYTES[0])
    for channel, shares in ((6, 2.0), (1, two)):
        trial = MediumTrial(two_cells(channel), medium, [flows[:1], flows],
                            seconds=airtime_s(medium, FRAMES))
        samples = []
        for outcome in await repeat_trial(trial, runs, built, processor, "virtual"):
            [alone], both = outcome.goodput_bps
            samples.append(sum(both) / alone / shares)
        ratios.append(Ratio(f"two access points, channels 1 and {channel} / "
                            f"{'twice one alone' if channel == 6 else 'what two get'}",
                            samples, 0.99, 1.01))
    return ratios


def run_bench(runs: int) -> None:
    """Print the table line by line.

    Raises:
        UserError: A bound is missed.
    """
    embedded = setup.embedded_machine()
    built, processor = embedded.image, embedded.processors[-1]
    parts: list[_Part] = [*(functools.partial(one_sender, name) for name in two_hops.PROFILES),
                          two_media, compare_crowds,
                          compare_aggregation, placed.by_distance, placed.compare_hidden,
                          frames_work, in_real_time]
    ratios = []
    for line in side_by_side():
        click.echo(line)
    for part in parts:
        new = asyncio.run(part(runs, built, processor))
        click.echo("\n".join(ratio.format_line() for ratio in new))
        ratios += new
    missed = sum(not ratio.is_within_bounds for ratio in ratios)
    if missed:
        raise UserError(f"bench medium: {missed} of {len(ratios)} bounds missed; a busy machine "
                        "can be the reason, so try again", status=1)
