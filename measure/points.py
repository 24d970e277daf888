"""Points are where captures are taken in the mobile world: air, mobile nodes, wires between.

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

#: Of programs of a study's own over the air: the part that getting on, staying and
#: moving are.
PART = "air"
#: What the captures of getting on at home, of the traffic, and of the move begin with.
AUTH, TRAFFIC, MOVE = "auth", "traffic", "move"
#: What a mobile node's interface is watched for while it gets on.
AUTH_FILTER = ("ether proto 0x888e or arp or icmp or udp port 434 or udp port 500 "
               "or udp port 4500 or udp port 51820")
#: Below MACsec: the wire behind the first access point in use, and behind the second.
BELOW = ("macsec", "macsecforeign")
#: The interface that shows every frame on the air.
AIR = "hwsim0"


def auth_points(scenario: Scenario, *, has_macsec: bool = False) -> Sequence[Point]:
    """Where getting on shows: the air, the mobile node, the wire behind each access point used.

    With MACsec, the wires below it come first: those captures begin before and end after what they
    carry is captured.
    """
    nodes = scenario.network.nodes
    used = [scenario.home, *([scenario.roams_to] if scenario.roams_to else [])]
    points = [*(_below(scenario.network, used) if has_macsec else ()), Point("air", None, AIR),
              Point("mn", scenario.mobile_node, nodes[scenario.mobile_node].radio_interface,
                    AUTH_FILTER),
              wire_point(scenario.network, "wire", scenario.home)]
    if scenario.roams_to:
        points.append(wire_point(scenario.network, "foreign", scenario.roams_to))
    return points


def path_points(site: Site, scenario: Scenario, *, has_ipsec: bool, one_in: int = 1,
                access_points: Sequence[str] = ()) -> list[Point]:
    """Where traffic shows between mobile node and peer: the air, and every wire that is passed.

    Those are the wire behind the access point in use (or those behind `access_points`), behind
    the peer's where it is another one, and the agents'.
    """
    air = sampling.air(one_in, has_link=bool(site.testbed.cipher_bytes), has_ipsec=has_ipsec)
    wire = sampling.wire(one_in, has_ipsec=has_ipsec)
    used = list(access_points or [scenario.access_point])
    places = list(zip(("wire", "foreign"), used, strict=False))
    # Where the stream comes back onto the air, behind another access point.
    if site.network.nodes[scenario.peer].has(STATION) and \
            (far := scenario.home_of(scenario.peer)) not in used:
        places.append(("far", far))
    places += [("core", router) for router in scenario.network.of_duty(ROUTER)]
    below = _below(site.network, used, one_in) if site.testbed.macsec else []
    return [*below, Point("air", None, AIR, air, one_in), *(
        wire_point(site.network, name, node, wire, one_in) for name, node in places)]


def _below(network: Network, used: Sequence[str], one_in: int = 1) -> list[Point]:
    """Where the wires behind access points show as they are below MACsec."""
    points = (wire_point(network, name, node, sampling.macsec(one_in), one_in)
              for name, node in zip(BELOW, used, strict=False))
    return [replace(point, interface=wires.below(point.interface)) for point in points]


def wire_point(network: Network, name: str, node: str, expression: str = "",
               one_in: int = 1) -> Point:
    """A node's first wire: it shows what is on it, and nothing that is unpacked elsewhere."""
    interface, _ = network.link_of(node)
    return Point(name, node, interface, expression, one_in)
