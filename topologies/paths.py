"""Compute delay, rate and losses of paths through an emulated network, and the range of radios.

`path_between` takes nodes of a network (`topologies.model`), and returns a `NetworkPath`, from
which time limits of measurements are computed. `explain_unreachable` says why a station is out of
reach of an access point. Standard library only: both are needed inside the guest (virtual machine)
and outside.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from topologies.medium import frequency_mhz
from topologies.medium_model import distance_m
from topologies.model import ACCESS_POINT, STATION, Link, Medium, Network, Node, node_of

#: Size in bytes of a usual frame, in which queue lengths are counted.
_FRAME_BYTES = 1538


@dataclass(frozen=True)
class NetworkPath:
    """The delay, rate and loss of a path between two nodes, equal in both directions.

    `delay_s` is a packet's delay besides queueing. `rate_bps` is the rate of the slowest part
    (infinity if no part has a rate). `loss` is the fraction of packets that are lost (0 to 1).
    `queue_s` is a packet's waiting time if all queues on the path are full. `jitter_s` is the most
    by which a packet's delay differs from `delay_s`.
    """

    delay_s: float = 0.0
    rate_bps: float = math.inf
    loss: float = 0.0
    queue_s: float = 0.0
    jitter_s: float = 0.0

    def __add__(self, other: NetworkPath) -> NetworkPath:
        """Return the path that consists of both paths, one after the other."""
        return NetworkPath(self.delay_s + other.delay_s, min(self.rate_bps, other.rate_bps),
                           1 - (1 - self.loss) * (1 - other.loss), self.queue_s + other.queue_s,
                           self.jitter_s + other.jitter_s)

    def round_trip_s(self, there_bytes: float, back_bytes: float) -> float:
        """Return the time of a packet and its answer on a path without other traffic, in s."""
        return 2 * self.delay_s + (there_bytes + back_bytes) * 8 / self.rate_bps

    @property
    def exchange_loss(self) -> float:
        """Return the probability that a packet or its answer is lost."""
        return 1 - (1 - self.loss) ** 2


def link_path(link: Link) -> NetworkPath:
    """Return delay, rate and loss of one wire.

    The waiting time `queue_s` includes the wire's jitter.
    """
    jitter_s = link.jitter_ms / 1e3
    rate_bps = link.slowest_rate_bps
    if rate_bps is None:
        return NetworkPath(link.delay_ms / 1e3, loss=link.loss_percent / 100, queue_s=jitter_s,
                           jitter_s=jitter_s)
    return NetworkPath(link.delay_ms / 1e3, rate_bps, link.loss_percent / 100,
                       link.queue_packets * (_FRAME_BYTES + link.overhead_bytes) * 8
                       / rate_bps + jitter_s, jitter_s)


def air_path(medium: Medium | None) -> NetworkPath:
    """Return delay, rate and loss between a station and its access point."""
    if medium is None:
        return NetworkPath()
    return NetworkPath(rate_bps=medium.tcp_ceiling_bps() / 2, loss=medium.residual_loss)


def path_between(network: Network, medium: Medium | None, *nodes: str) -> NetworkPath:
    """Return delay, rate and loss from the first node to the last, through the nodes between.

    Between two of them, the path with the fewest links is used. Unreachable nodes are skipped.
    """
    path = NetworkPath()
    for start, end in itertools.pairwise(nodes):
        for step in _find_steps(network, start, end):
            path += air_path(medium) if step is None else link_path(step)
    return path


def _find_steps(network: Network, start: str, end: str) -> Sequence[Link | None]:
    """Return the links from one node to another, None for the air."""
    ways: dict[str, tuple[Link | None, ...]] = {start: ()}
    waiting = [start]
    for name in waiting:
        for other, step in _find_neighbours(network, name):
            if other not in ways:
                ways[other] = (*ways[name], step)
                waiting.append(other)
    return ways.get(end, ())


def _find_neighbours(network: Network, name: str) -> Sequence[tuple[str, Link | None]]:
    """Return a node's neighbours, each with the link to it, None for the air."""
    neighbours: list[tuple[str, Link | None]] = []
    for link in network.links:
        ends = [node_of(end) for end in link.ends]
        if name in ends:
            neighbours.append((ends[1 - ends.index(name)], link))
    nodes = network.nodes
    own, other = (STATION,
                  ACCESS_POINT) if nodes[name].has_duty(STATION) else (ACCESS_POINT, STATION)
    if nodes[name].has_duty(own):
        neighbours += [(cell, None) for cell in network.of_duty(other)
                       if nodes[cell].agent == nodes[name].agent]
    return neighbours


# --- Reach of a medium's signal ---

def explain_unreachable(medium: Medium | None, station: Node, access_point: Node) -> str:
    """Return why no frame can pass between a station and an access point, "" if frames can."""
    if medium is None or medium.signal is None or not (station.position and access_point.position):
        return ""
    metres = distance_m(station.position, access_point.position)
    received_dbm = medium.signal.received_dbm(
        metres, frequency_mhz(access_point.channel or 1) * 1e6)
    if medium.signal.reaches(received_dbm):
        return ""
    signal = medium.signal
    why = f"its radios hear nothing below {signal.sense_dbm:g} dBm" \
        if received_dbm < signal.sense_dbm else f"its noise is {signal.noise_dbm:g} dBm"
    return f"{metres:.0f} m away, {received_dbm:.1f} dBm arrive by medium {medium.name}, and {why}"
