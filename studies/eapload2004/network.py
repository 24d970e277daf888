"""Build the network of the 2004 paper's Figure 4, which the study eapload2004 emulates.

`figure_4` returns nodes and links: station and access point in the visited network, and RADIUS
server and load generator in another one. The delay between them is half the given round-trip time
in each direction. Options add a RADIUS proxy, move the server into the visited network, or add a
subscriber server (HSS). The paper is Kambourakis, Rouskas and Gritzalis (2004).
"""

from __future__ import annotations

from dataclasses import replace

from measure.services.radius import HSS
from topologies.model import (
    ACCESS_POINT,
    HOME_AGENT,
    ROUTER,
    STATION,
    Interface,
    Link,
    Network,
    Node,
)

STATION_NODE, AP, ROUTER_NODE, GATEWAY_NODE = "mn", "ap", "router", "gateway"
SERVER, LOAD, PROXY, HSS_NODE = "server", "load", "proxy", "hss"
#: Interfaces for captures: at the station, on both sides of the access point, at the server.
RADIO, AP_RADIO, AP_WIRE = "wlan0", "wlan-v", "eth-v"
SERVER_WIRE, LOAD_WIRE, HSS_WIRE = "core", "lan", "hss"
#: The router's end of the wire between the two networks.
FAR_WIRE = "far"
_VISITED, _AAA, _GATEWAY = "10.1.0.1", "10.2.0.1", "10.9.0.254"
_SERVER, _LAN, _BESIDE = "10.9.0.1", "10.9.1.1", "10.9.2.1"


def figure_4(rtt_ms: float, *, path: str = "direct", hss_ms: float | None = None) -> Network:
    """Build the network of the experiment.

    Args:
        rtt_ms: round-trip time between the two networks (ms).
        path: `direct`, or `proxied`: requests go through a RADIUS proxy of the visited network
            (Figure 1). With `near`, the server is in the visited network.
        hss_ms: round-trip time from the server to a subscriber server (ms), or None without one.
    """
    drawn = _figure_4(rtt_ms)
    if path == "proxied":
        _add_proxy(drawn)
    elif path == "near":
        _bring_near(drawn)
    if hss_ms is not None:
        drawn.nodes[SERVER].interfaces[HSS_WIRE] = Interface(f"{_BESIDE}/24")
        drawn.nodes[HSS_NODE] = Node([HSS], {"eth0": Interface("10.9.2.20/24")}, gateway=_BESIDE)
        drawn.links.append(Link([f"{SERVER}/{HSS_WIRE}", f"{HSS_NODE}/eth0"],
                                delay_ms=hss_ms / 2))
    return drawn


def _figure_4(rtt_ms: float) -> Network:
    """Build the network of Figure 4, with a delay of half the round-trip time in each direction."""
    nodes = {
        STATION_NODE: Node([STATION], {RADIO: Interface("10.1.0.11/32", radio="02:00:00:00:04:01")},
                           gateway=_VISITED, agent=SERVER, position=[40.0, 50.0]),
        AP: Node([ACCESS_POINT],
                 {AP_RADIO: Interface(radio="02:00:00:00:04:00", bridge="br-v"),
                  AP_WIRE: Interface(bridge="br-v"), "br-v": Interface("10.1.0.2/24")},
                 gateway=_VISITED, agent=SERVER, ssid="visited", channel=1, position=[50.0, 50.0]),
        ROUTER_NODE: Node([ROUTER], {"visited": Interface(f"{_VISITED}/24"),
                                     FAR_WIRE: Interface("10.8.0.1/24")}, forwarding=True,
                          routes={"10.9.0.0/16": "10.8.0.2"}),
        GATEWAY_NODE: Node([ROUTER], {"near": Interface("10.8.0.2/24"),
                                      "inner": Interface(f"{_GATEWAY}/24")}, forwarding=True,
                           routes={"10.1.0.0/24": "10.8.0.1"}),
        SERVER: Node([HOME_AGENT], {SERVER_WIRE: Interface(f"{_SERVER}/24"),
                                    LOAD_WIRE: Interface(f"{_LAN}/24")},
                     gateway=_GATEWAY, serves="10.9.0.0/16", forwarding=True),
        LOAD: Node(["radius_client"], {"eth0": Interface("10.9.1.20/24")}, gateway=_LAN,
                   agent=SERVER)}
    return Network("figure-4", nodes, [
        Link([f"{AP}/{AP_WIRE}", f"{ROUTER_NODE}/visited"]),
        # The delay is between two routers: a capture at an end of this wire shows packets after
        # their delay.
        Link([f"{ROUTER_NODE}/{FAR_WIRE}", f"{GATEWAY_NODE}/near"], delay_ms=rtt_ms / 2),
        Link([f"{GATEWAY_NODE}/inner", f"{SERVER}/{SERVER_WIRE}"]),
        Link([f"{SERVER}/{LOAD_WIRE}", f"{LOAD}/eth0"])])


def _add_proxy(drawn: Network) -> None:
    """Add a RADIUS proxy to the visited network, which forwards requests to the server."""
    nodes = drawn.nodes
    for asker in (STATION_NODE, AP):
        nodes[asker] = replace(nodes[asker], agent=PROXY)
    nodes[ROUTER_NODE].interfaces["aaa"] = Interface(f"{_AAA}/24")
    nodes[GATEWAY_NODE].routes["10.2.0.0/24"] = "10.8.0.1"
    nodes[PROXY] = Node([HOME_AGENT], {"eth0": Interface("10.2.0.2/24")}, gateway=_AAA,
                        agent=SERVER)
    drawn.links.insert(0, Link([f"{ROUTER_NODE}/aaa", f"{PROXY}/eth0"]))


def _bring_near(drawn: Network) -> None:
    """Move server and load generator to the visited network. The other keeps its gateway."""
    nodes = drawn.nodes
    nodes[ROUTER_NODE].interfaces["aaa"] = Interface(f"{_AAA}/24")
    nodes[SERVER].interfaces[SERVER_WIRE] = Interface("10.2.0.2/24")
    nodes[SERVER] = replace(nodes[SERVER], gateway=_AAA, serves="10.2.0.0/24")
    del nodes[GATEWAY_NODE].interfaces["inner"]
    drawn.links[2] = Link([f"{ROUTER_NODE}/aaa", f"{SERVER}/{SERVER_WIRE}"])
