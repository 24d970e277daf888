"""Trials of the emulated medium with positions: rates by distance, and hidden stations."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from guest import image
from harness.selftest import contention
from harness.selftest.medium_trial import (
    MediumTrial,
    Ratio,
    make_cell,
    make_network,
    make_overload,
    repeat_trial,
)
from topologies import dcf
from topologies.loader import load_medium
from topologies.medium import frequency_mhz
from topologies.model import Medium, Network
from topologies.signal import distance_m

NAME, PAYLOAD_BYTES, SECONDS = "802.11b-positions", 1470, 10.0
#: Distances to the access point in metres: near, far and at the edge.
DISTANCES_M = (10, 40, 58)
_CELL = (50.0, 50.0, 0.0)
#: Positions of two stations: on opposite sides of the access point, which both reach but not each
#: other; and both on one side.
APART, BESIDE = ((-50.0, 0.0), (50.0, 0.0)), ((50.0, 0.0), (50.0, 1.0))
_FREQUENCY_HZ = frequency_mhz(1) * 1e6


def quiet_medium() -> Medium:
    """Return the medium without beacons and management frames, which the calculation lacks."""
    return replace(load_medium(NAME), beacon_bytes=0, management=False)


def place_stations(places: Sequence[tuple[float, float]]) -> Network:
    """Return a cell with stations at these places.

    `places` are metres east and north of the access point.
    """
    made = make_network(make_cell("a", 1, len(places), channel=1))
    where = {f"a{number}": [_CELL[0] + east, _CELL[1] + north, 0.0]
             for number, (east, north) in enumerate(places, 1)}
    return replace(made, nodes={name: replace(node, position=where.get(
        name, list(_CELL) if name == "ap-a" else None)) for name, node in made.nodes.items()})


async def by_distance(runs: int, built: image.Image, processor: int) -> list[Ratio]:
    """Compare a single sender at several distances with the ceiling of its rate there.

    The ceiling is reduced by the frames lost to noise, which are sent again.
    """
    medium, ratios = quiet_medium(), []
    assert medium.signal is not None
    for metres in DISTANCES_M:
        rate_bps, loss = link_quality(medium, metres)
        there = replace(medium, rate_bps=rate_bps, signal=None, loss_percent=100 * loss)
        flow = make_overload(there, "a1", "ha-a", PAYLOAD_BYTES)
        trial = MediumTrial(place_stations([(float(metres), 0.0)]), medium, [[flow]],
                            seconds=SECONDS)
        samples = [outcome.goodput_bps[0][0] / there.udp_ceiling_bps(PAYLOAD_BYTES)
                   for outcome in await repeat_trial(trial, runs, built, processor, "virtual")]
        ratios.append(Ratio(f"{NAME}, {metres} m, {rate_bps / 1e6:g} Mbit/s / its ceiling",
                            samples, 0.98, 1.02))
    return ratios


async def compare_hidden(runs: int, built: image.Image, processor: int) -> list[Ratio]:
    """Compare two hidden stations, and two that hear each other, with runs outside of guests.

    Both always have a frame. Frames of hidden stations overlap at the access point, so they get
    less.
    """
    medium, ratios = quiet_medium(), []
    with tempfile.TemporaryDirectory(prefix="qop-dcf-") as folder:
        program = contention.compile_trial(Path(folder))
        should = {places: run_outside(program, medium, places) for places in (APART, BESIDE)}
    for places, words in ((APART, "do not hear"), (BESIDE, "hear")):
        trial = MediumTrial(place_stations(places), medium, crowd_bytes=PAYLOAD_BYTES,
                            seconds=SECONDS)
        samples = [sum(outcome.crowd_per_s.values()) / should[places]
                   for outcome in await repeat_trial(trial, runs, built, processor, "virtual")]
        ratios.append(Ratio(f"{NAME}, two that {words} each other / outside of a guest",
                            samples, 0.95, 1.05))
    return ratios


def run_outside(program: Path, medium: Medium, places: Sequence[tuple[float, float]]) -> float:
    """Return the frames in a second of saturated stations at these places, outside of a guest.

    All are as far from the access point as the first one.
    """
    assert medium.signal is not None
    rate_bps, loss = link_quality(medium, distance_m(places[0], (0.0, 0.0)))
    said = contention.run_trial(program, {
        **contention.frame_settings(replace(medium, rate_bps=rate_bps), PAYLOAD_BYTES),
        "stations": len(places) + 1, "receives": 1, "loss": loss, "seconds": 400},
        received_powers(medium, places))
    return float(said["delivered_per_s"])


def received_powers(medium: Medium, places: Sequence[tuple[float, float]]) -> contention.Powers:
    """Return the power that each station receives from each other. Number 0 is the access point."""
    assert medium.signal is not None
    there: Mapping[int, tuple[float, float]] = dict(enumerate([(0.0, 0.0), *places]))
    return {(one, other): dcf.power_units(medium.signal.received_dbm(
        distance_m(there[one], there[other]), _FREQUENCY_HZ))
        for one, other in itertools.permutations(there, 2)}


def link_quality(medium: Medium, metres: float) -> tuple[int, float]:
    """Return the rate in bit/s at a distance, and the loss of long frames.

    The loss is the share of frames that noise destroys.
    """
    assert medium.signal is not None
    dbm = medium.signal.received_dbm(metres, _FREQUENCY_HZ)
    rate_bps = medium.signal.best_rate_bps(dbm)
    frame_bytes = medium.mac_bytes + contention.HEADER_BYTES + PAYLOAD_BYTES
    return rate_bps, medium.signal.frame_loss(rate_bps, dbm, frame_bytes)
