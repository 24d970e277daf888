"""Delay, rate and losses of a path through a network.

Only the standard library is used: time limits are computed from them inside the machine and
outside.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from topologies.model import ACCESS_POINT, STATION, Link, Medium, Network, node_of

#: Size in bytes of a usual frame, in which queue lengths are counted.
_FRAME_BYTES = 1538


@dataclass(frozen=True)
class NetworkPath:
    """A path between two nodes, equal in both directions.

    `delay_s` is a packet's delay besides queueing. `rate_bps` is the rate of the slowest part
    (infinity if no part has a rate). `loss` is the share of packets that are lost (0 to 1).
    `queue_s` is a packet's waiting time if all queues on the path are full.
    """

    delay_s: float = 0.0
    rate_bps: float = math.inf
    loss: float = 0.0
    queue_s: float = 0.0

    def __add__(self, other: NetworkPath) -> NetworkPath:
        """Return the concatenation of both paths."""
        return NetworkPath(self.delay_s + other.delay_s, min(self.rate_bps, other.rate_bps),
                           1 - (1 - self.loss) * (1 - other.loss), self.queue_s + other.queue_s)

    def round_trip_s(self, there_bytes: float, back_bytes: float) -> float:
        """Return the time of a packet and its answer on an empty path, in seconds."""
        return 2 * self.delay_s + (there_bytes + back_bytes) * 8 / self.rate_bps

    @property
    def exchange_loss(self) -> float:
        """Return the share of exchanges that lose the packet or its answer."""
        return 1 - (1 - self.loss) ** 2


def link_path(link: Link) -> NetworkPath:
    """Return the path of one wire."""
    if link.rate_bps is None:
        return NetworkPath(link.delay_ms / 1e3, loss=link.loss_percent / 100)
    return NetworkPath(link.delay_ms / 1e3, link.rate_bps, link.loss_percent / 100,
                       link.queue_packets * (_FRAME_BYTES + link.overhead_bytes) * 8
                       / link.rate_bps)


def air_path(medium: Medium | None) -> NetworkPath:
    """Return the path between a station and its access point, which both share."""
    if medium is None:
        return NetworkPath()
    return NetworkPath(rate_bps=medium.tcp_ceiling_bps() / 2, loss=medium.residual_loss)


def path_between(network: Network, medium: Medium | None, *nodes: str) -> NetworkPath:
    """Return the path from the first node to the last, through the nodes between them.

    Between two of them, the path with the fewest links is used. Unreachable nodes are skipped.
    """
    whole = NetworkPath()
    for start, end in itertools.pairwise(nodes):
        for step in _find_steps(network, start, end):
            whole += air_path(medium) if step is None else link_path(step)
    return whole


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
    beside: list[tuple[str, Link | None]] = []
    for link in network.links:
        ends = [node_of(end) for end in link.ends]
        if name in ends:
            beside.append((ends[1 - ends.index(name)], link))
    nodes = network.nodes
    own, other = (STATION,
                  ACCESS_POINT) if nodes[name].has_duty(STATION) else (ACCESS_POINT, STATION)
    if nodes[name].has_duty(own):
        beside += [(cell, None) for cell in network.of_duty(other)
                   if nodes[cell].agent == nodes[name].agent]
    return beside
