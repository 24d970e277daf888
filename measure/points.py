"""Capture points of the mobile networks: the air, mobile nodes and the wires between them.

Standard library only: this runs inside the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from measure import sampling
from measure.capture import Point
from measure.workload import Site
from topologies import wires
from topologies.model import ROUTER, STATION, Network, Scenario

#: Name of the part with authentication and handoff, for studies that run their own programs on the
#: air.
PART = "air"
#: Prefixes of captures: authentication at home, traffic, and handoff.
AUTH, TRAFFIC, MOVE = "auth", "traffic", "move"
#: Capture filter on a mobile node's interface during an authentication.
AUTH_FILTER = ("ether proto 0x888e or arp or icmp or udp port 434 or udp port 500 "
               "or udp port 4500 or udp port 51820")
#: Points below MACsec: the wire behind the first access point in use, and behind the second.
BELOW = ("macsec", "macsecforeign")
#: Monitor interface that shows every frame on the air.
AIR = "hwsim0"


def auth_points(scenario: Scenario, *, has_macsec: bool = False) -> Sequence[Point]:
    """Return the capture points of an authentication: air, mobile node and used wires.

    With MACsec, the points below MACsec come first: their captures start before, and end after, the
    captures of the frames inside.
    """
    nodes = scenario.network.nodes
    used = [scenario.home, *([scenario.roams_to] if scenario.roams_to else [])]
    points = [*(_macsec_points(scenario.network, used) if has_macsec else ()),
              Point("air", None, AIR),
              Point("mn", scenario.mobile_node, nodes[scenario.mobile_node].radio_interface,
                    AUTH_FILTER),
              wire_point(scenario.network, "wire", scenario.home)]
    if scenario.roams_to:
        points.append(wire_point(scenario.network, "foreign", scenario.roams_to))
    return points


def path_points(site: Site, scenario: Scenario, *, has_ipsec: bool, one_in: int = 1,
                access_points: Sequence[str] = ()) -> list[Point]:
    """Return the capture points between mobile node and peer: the air and every wire passed.

    The wires are those behind the access point in use (or behind all of `access_points`) and
    between the agents. If the peer has another access point, the wire behind it is added.
    """
    air = sampling.air_filter(one_in, has_link=bool(site.testbed.cipher_bytes), has_ipsec=has_ipsec)
    wire = sampling.wire_filter(one_in, has_ipsec=has_ipsec)
    used = list(access_points or [scenario.access_point])
    places = list(zip(("wire", "foreign"), used, strict=False))
    # Where the stream returns to the air, behind another access point.
    if site.network.nodes[scenario.peer].has_duty(STATION) and \
            (far := scenario.home_of(scenario.peer)) not in used:
        places.append(("far", far))
    places += [("core", router) for router in scenario.network.of_duty(ROUTER)]
    below = _macsec_points(site.network, used, one_in) if site.testbed.macsec else []
    return [*below, Point("air", None, AIR, air, one_in), *(
        wire_point(site.network, name, node, wire, one_in) for name, node in places)]


def _macsec_points(network: Network, used: Sequence[str], one_in: int = 1) -> list[Point]:
    """Return the points below MACsec on the wires behind access points."""
    points = (wire_point(network, name, node, sampling.macsec_filter(one_in), one_in)
              for name, node in zip(BELOW, used, strict=False))
    return [replace(point, interface=wires.physical_name(point.interface)) for point in points]


def wire_point(network: Network, name: str, node: str, expression: str = "",
               one_in: int = 1) -> Point:
    """Return the capture point on a node's first wire.

    Packets that are decapsulated elsewhere do not show there.
    """
    interface, _ = network.link_of(node)
    return Point(name, node, interface, expression, one_in)
