"""Compute the path of a drive, the signals along the path, and where a station has to roam.

The signal follows from positions and the radio medium, as the guest's kernel applies it. A station
roams if a background scan finds another access point that is clearly better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from topologies.medium import frequency_mhz
from topologies.medium_model import Medium, distance_m
from topologies.model import ACCESS_POINT, Scenario

#: Longest distance between two positions of which the kernel is told, in m: 0.1 dB at 20 m.
_STEP_M = 0.5
#: Difference from which on wpa_supplicant 2.10 roams, whatever the current signal.
CLEARLY_BETTER_DB = 5.0
#: Signal that stands for an access point which was not heard.
UNHEARD_DBM = -128.0


@dataclass(frozen=True)
class Step:
    """A position (m) of the mobile node, from a time (s since the start of the drive) on."""

    at_s: float
    position: Sequence[float]


def list_steps(scenario: Scenario) -> list[Step]:
    """Return the positions of a scenario's mobile node, in order of time."""
    drive, start = scenario.mobility, scenario.network.nodes[scenario.mobile_node].position
    assert drive is not None and start is not None
    count = max(1, round(distance_m(start, drive.to) / _STEP_M))
    length_s = drive.stop_s - drive.start_s
    times = [drive.start_s + length_s * step / count for step in range(1, count + 1)]
    return [Step(0.0, list(start)), *(Step(at_s, drive.position_at(start, at_s)) for at_s in times)]


def signals_at(scenario: Scenario, medium: Medium,
               position: Sequence[float]) -> Mapping[str, float]:
    """Return the signal (dBm) of each access point at a position of the mobile node."""
    assert medium.signal is not None
    nodes = scenario.network.nodes
    return {name: medium.signal.received_dbm(
        distance_m(position, nodes[name].position or ()),
        frequency_mhz(nodes[name].channel or 0) * 1e6)
        for name in scenario.network.of_duty(ACCESS_POINT)}


def expected_visits(scenario: Scenario, medium: Medium) -> list[str]:
    """Return the access points that the station has to visit, in order.

    It starts at the strongest one. It leaves one whose signal is below its threshold for one that
    is clearly better.
    """
    return list(_find_visits(scenario, medium))


def _find_visits(scenario: Scenario, medium: Medium) -> Iterator[str]:
    roaming = scenario.network.nodes[scenario.mobile_node].roaming
    assert roaming is not None
    current = ""
    for step in list_steps(scenario):
        signals = signals_at(scenario, medium, step.position)
        best = max(signals, key=lambda name: signals[name])
        if not current or (signals[current] < roaming.threshold_dbm
                           and signals[best] - signals[current] >= CLEARLY_BETTER_DB):
            current = best
            yield current


def range_m(medium: Medium, channel: int, dbm: float) -> float:
    """Return the distance (m) at which an access point's signal is as strong as `dbm`."""
    signal = medium.signal
    assert signal is not None
    at_1_m = signal.received_dbm(1.0, frequency_mhz(channel) * 1e6)
    return float(10 ** ((at_1_m - dbm) / (10 * signal.exponent)))
