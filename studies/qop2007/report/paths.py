"""Path of a cell's streams from mobile node to peer, to compute ceilings."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.bounds.ceilings import Hop, Path
from analysis.bounds.packets import IP_IN_IP_BYTES, Esp, esp_of
from policies import Policy
from topologies.model import ROUTER, STATION, Scenario

_MTU_BYTES = 1500


def stream_path(policy: Policy, scenario: Scenario) -> Path:
    """Return the path of a cell's streams, from the mobile node to its peer."""
    link = policy.layers.link
    return Path(_air_hops(policy, scenario), _limit_bytes(policy, scenario),
                link.frame_expansion_bytes if link else 0)


def _air_hops(policy: Policy, scenario: Scenario) -> tuple[Hop, ...]:
    """Return the crossings of the air in the order of the path. All traffic passes the agents."""
    nodes = scenario.network.nodes
    crossings = [(scenario.access_point, scenario.mobile_node, scenario.access_point)]
    if nodes[scenario.peer].has_duty(STATION):
        point = scenario.home_of(scenario.peer)
        crossings.append((point, point, scenario.peer))
    esp = esp_of(policy)
    # In tunnel mode, ESP takes all packets of a mobile node. Otherwise it takes only those to the
    # agent.
    if esp and not esp.tunnel and scenario.peer != scenario.agent:
        esp = None
    return tuple(Hop(nodes[point].channel or 0, esp, sender, receiver)
                 for point, sender, receiver in crossings)


def _limit_bytes(policy: Policy, scenario: Scenario) -> int:
    """Return the longest IP packet of the mobile node that is not split on the path."""
    esp, between = _air_hops(policy, scenario)[0].esp, headers_between_agents(policy, scenario)
    on_air = room = _MTU_BYTES
    if between is not None:
        wire = _wire_mtu_bytes(scenario)
        room = between.esp.largest_inner_bytes(wire) if between.esp else wire
        if between.ip_in_ip:  # The foreign agent wraps a packet as it came from the air.
            on_air = min(on_air, room - IP_IN_IP_BYTES)
    sent = esp.largest_inner_bytes(on_air) if esp else on_air
    # Without a tunnel to the home agent, this agent unpacks the packet before it forwards it.
    return sent if between is not None and between.ip_in_ip else min(sent, room)


@dataclass(frozen=True)
class Between:
    """Headers around a packet on the wire between the agents."""

    ip_in_ip: bool
    esp: Esp | None

    def packet_bytes(self, from_air_bytes: int) -> int:
        """Return the length of the IP packet on that wire (bytes)."""
        inner = from_air_bytes + IP_IN_IP_BYTES * self.ip_in_ip
        return self.esp.packet_bytes(inner) if self.esp else inner


def headers_between_agents(policy: Policy, scenario: Scenario) -> Between | None:
    """Return the headers that agents add between them, or None if no packet passes there."""
    peer = scenario.network.nodes[scenario.peer].agent or scenario.peer
    away = scenario.foreign_agent not in (None, scenario.agent)
    if not away and peer == scenario.agent:
        return None
    esp = esp_of(policy)
    # Between agents there is always a tunnel, also without one of the mobile nodes.
    return Between(away, Esp(esp.block_bytes, esp.vector_bytes, esp.check_bytes) if esp else None)


def _wire_mtu_bytes(scenario: Scenario) -> int:
    """Return the smallest MTU of the wires to routers."""
    routers = set(scenario.network.of_duty(ROUTER))
    return min((link.mtu_bytes for link in scenario.network.links
                if any(end.partition("/")[0] in routers for end in link.ends)),
               default=_MTU_BYTES)
