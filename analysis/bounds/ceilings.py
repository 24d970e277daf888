"""Theoretical ceilings of a policy in a scenario: what the shared air could carry at most.

A packet crosses the air once for every radio on its path, each time in ESP and with the cipher's
bytes as the policy says, and pays the medium's airtime each time (docs/medium.md). Wires are as
quick as the processor; they only limit how long a packet may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from analysis.bounds.packets import (
    IP_IN_IP_BYTES,
    IPV4_BYTES,
    TCP_IP_BYTES,
    UDP_BYTES,
    Esp,
    esp_of,
    fragments,
)
from policies import Policy
from topologies.model import Medium, Scenario

LLC_BYTES = 8
_AIR_MTU_BYTES = 1500
#: Linux acknowledges every second segment, as Medium.tcp_ceiling_bps counts.
_SEGMENTS_PER_ACK = 2


@dataclass(frozen=True)
class Hop:
    """One crossing of the air: on which channel, and in which ESP, if any."""

    channel: int
    esp: Esp | None

    def packet_bytes(self, inner_bytes: int) -> int:
        """Length of the IP packet on the air."""
        return self.esp.packet_bytes(inner_bytes) if self.esp else inner_bytes


@dataclass(frozen=True)
class Ceiling:
    """The highest goodput, and the air's time that it takes.

    `airtime_us` is that of one datagram, or of one segment with its share of an acknowledgement, on
    the busiest channel and over all of its crossings. `payload_bytes` is what it carries.
    """

    bps: float
    airtime_us: float
    payload_bytes: int


@dataclass(frozen=True)
class Path:
    """Where a cell's packets go: crossings of the air, and the longest packet not split anywhere.

    `cipher_bytes` is what the policy's cipher adds to a frame.
    """

    hops: tuple[Hop, ...]
    limit_bytes: int
    cipher_bytes: int

    def split(self, packet_bytes: int) -> tuple[int, ...]:
        """Lengths of the parts in which a packet goes, one where it is short enough."""
        return fragments(packet_bytes, self.limit_bytes)

    def udp(self, medium: Medium, payload_bytes: int) -> Ceiling:
        """Datagrams back to back, more of them offered than the air takes."""
        packets = self.split(payload_bytes + UDP_BYTES + IPV4_BYTES)
        airtime_us = self._busiest_us(medium, packets, ())
        return Ceiling(payload_bytes * 8 / airtime_us * 1e6, airtime_us, payload_bytes)

    def tcp(self, medium: Medium) -> Ceiling:
        """One connection whose window always suffices, in segments as long as the path allows.

        An estimate, as Medium.tcp_ceiling_bps: every second segment is acknowledged.
        """
        segment_bytes = self.limit_bytes - TCP_IP_BYTES
        turn_us = self._busiest_us(medium, (self.limit_bytes,) * _SEGMENTS_PER_ACK,
                                   (TCP_IP_BYTES,))
        airtime_us = turn_us / _SEGMENTS_PER_ACK
        return Ceiling(segment_bytes * 8 / airtime_us * 1e6, airtime_us, segment_bytes)

    def _busiest_us(self, medium: Medium, there: Iterable[int], back: Iterable[int]) -> float:
        """Airtime of packets that are sent there and back, on the channel that has most of it."""
        spent: dict[int, float] = {}
        last = len(self.hops) - 1
        for number, hop in enumerate(self.hops):
            # What is lost for good later on has taken the air's time before.
            onwards, homewards = ((1 - medium.residual_loss)**count
                                  for count in (last - number, number))
            time_us = (sum(self.airtime_us(medium, hop, size) for size in there) / onwards
                       + sum(self.airtime_us(medium, hop, size) for size in back) / homewards)
            spent[hop.channel] = spent.get(hop.channel, 0.0) + time_us
        return max(spent.values())

    def airtime_us(self, medium: Medium, hop: Hop, inner_bytes: int) -> float:
        """Mean airtime of one packet on one hop, with what the medium's losses cost."""
        return medium.delivery_us(hop.packet_bytes(inner_bytes) + LLC_BYTES + self.cipher_bytes)


def path(policy: Policy, scenario: Scenario) -> Path:
    """The path of a cell's streams, from the mobile node to its peer."""
    link = policy.layers.link
    return Path(_hops(policy, scenario), _limit_bytes(policy, scenario),
                link.frame_expansion_bytes if link else 0)


def _hops(policy: Policy, scenario: Scenario) -> tuple[Hop, ...]:
    """Crossings of the air in the order of the path; all traffic passes the agents."""
    nodes = scenario.network.nodes
    points = [scenario.access_point]
    if nodes[scenario.peer].kind == "station":
        points.append(scenario.home_of(scenario.peer))
    esp = esp_of(policy)
    # A tunnel takes whatever a mobile node sends; without one, only what is for the agent itself.
    if esp and not esp.tunnel and scenario.peer != scenario.agent:
        esp = None
    return tuple(Hop(nodes[point].channel or 0, esp) for point in points)


def _limit_bytes(policy: Policy, scenario: Scenario) -> int:
    """The longest IP packet of the mobile node's that nobody on the path has to split."""
    esp, between = _hops(policy, scenario)[0].esp, between_agents(policy, scenario)
    on_air = room = _AIR_MTU_BYTES
    if between is not None:
        wire = _wire_mtu_bytes(scenario)
        room = between.esp.largest_inner_bytes(wire) if between.esp else wire
        if between.ip_in_ip:  # what comes from the air is wrapped as it is
            on_air = min(on_air, room - IP_IN_IP_BYTES)
    sent = esp.largest_inner_bytes(on_air) if esp else on_air
    # Without a tunnel to the home agent, this one unpacks it before it goes on.
    return sent if between is not None and between.ip_in_ip else min(sent, room)


@dataclass(frozen=True)
class Between:
    """What is around a packet on the wire between the agents."""

    ip_in_ip: bool
    esp: Esp | None

    def packet_bytes(self, from_air_bytes: int) -> int:
        """Length of the IP packet there."""
        inner = from_air_bytes + IP_IN_IP_BYTES * self.ip_in_ip
        return self.esp.packet_bytes(inner) if self.esp else inner


def between_agents(policy: Policy, scenario: Scenario) -> Between | None:
    """What the agents put around packets between them; None where none pass there."""
    peer = scenario.network.nodes[scenario.peer].agent or scenario.peer
    away = scenario.foreign_agent not in (None, scenario.agent)
    if not away and peer == scenario.agent:
        return None
    esp = esp_of(policy)
    # Between agents there is always a tunnel, whatever mobile nodes have.
    return Between(away, Esp(esp.block_bytes, esp.vector_bytes, esp.check_bytes) if esp else None)


def _wire_mtu_bytes(scenario: Scenario) -> int:
    """The shortest limit of the wires to routers."""
    routers = set(scenario.network.of_kind("router"))
    return min((link.mtu_bytes for link in scenario.network.links
                if any(end.partition("/")[0] in routers for end in link.ends)),
               default=_AIR_MTU_BYTES)
