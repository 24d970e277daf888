"""Calibration of a network from two measurements: one customer alone, and saturation.

As in Harbitter and Menascé (2002, section 4.2), service times come from an unloaded testbed. The
demand at the bottleneck follows from the utilization law at saturation, D = c / X (Lazowska et al.
1984, 3.3). All other points are then predictions.
"""

from __future__ import annotations

from dataclasses import replace

from analysis.queueing.demands import demands_of
from analysis.queueing.errors import QueueingError
from analysis.queueing.network import CustomerClass, QueueingNetwork, QueueingStation, Visit
from analysis.queueing.prediction import find_bottleneck
from analysis.queueing.whatif import apply_settings

#: Name of the station and class for the time that no other station explains.
REST = "rest"


def calibrate_network(network: QueueingNetwork, *, alone_s: float, saturation_per_s: float,
                      chain: str | None = None, station: str | None = None) -> QueueingNetwork:
    """Return a network that matches the measurements of one customer and of saturation.

    The speed of `station` is changed so that it saturates at the measured throughput. The part of
    `alone_s` that is then missing becomes a constant delay, the station "rest".

    Args:
        network: The network.
        alone_s: Response time of a single customer, in seconds.
        saturation_per_s: Highest throughput of the chain, in cycles per second.
        chain: Name of the chain; None for the only chain.
        station: Name of the station to change; None for the bottleneck.

    Raises:
        QueueingError: The two measurements contradict each other or the network.
    """
    for name, value in (("alone_s", alone_s), ("saturation_per_s", saturation_per_s)):
        if not value > 0:
            raise QueueingError("calibration", f"{name} is {value:g}", "give more than 0")
    target = network.chain(chain)
    limit = find_bottleneck(network, target.name) if station is None else None
    name = station or (limit.station if limit else "")
    row, column = network.station(name), network.chains.index(target)
    demand = float(demands_of(network).demand_s[network.index[name], column])
    if row.discipline == "delay" or demand == 0:
        raise QueueingError(f"station {name!r}", "cannot be the bottleneck of the chain",
                            "name a queueing station that it visits")
    measured_s = row.servers / saturation_per_s
    scaled = apply_settings(network, {f"{name}.speed": demand / measured_s})
    rest = alone_s - float(demands_of(scaled).demand_s[:, column].sum())
    if rest < -1e-9 * alone_s:
        raise QueueingError(
            "calibration", f"one customer takes {alone_s:g} s, but its demands add up to "
            f"{alone_s - rest:g} s with {measured_s:g} s at {name} (from saturation)",
            "check both measurements, and the demands of the other stations")
    return scaled if rest <= 1e-9 * alone_s else _add_rest_station(scaled, target.name, rest)


def _add_rest_station(network: QueueingNetwork, chain: str, rest_s: float) -> QueueingNetwork:
    if REST in network.index:
        raise QueueingError(f"station {REST!r}", "is what calibration adds", "rename it")
    member = CustomerClass(REST, (Visit(REST, rest_s),))
    return QueueingNetwork(
        stations=(*network.stations, QueueingStation(REST, "delay")),
        chains=tuple(replace(entry, classes=(*entry.classes, member)) if entry.name == chain
                     else entry for entry in network.chains))
