"""The paper's Figure 4: an access point in one network, the server and who loads it in another."""

from __future__ import annotations

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
SERVER, LOAD, PROXY = "server", "load", "proxy"
#: Where authentications are watched: at the station, behind the access point, at the server.
RADIO, AP_WIRE, SERVER_WIRE, LOAD_WIRE = "wlan0", "eth-v", "core", "lan"
_VISITED, _AAA, _GATEWAY = "10.1.0.1", "10.2.0.1", "10.9.0.254"
_SERVER, _LAN = "10.9.0.1", "10.9.1.1"


def figure_4(rtt_ms: float, *, is_proxied: bool = False) -> Network:
    """The experiment's nodes, with a round trip between the two networks.

    The server is its network's agent; the supplicant has it as its own, as at home. With a proxy,
    as in Figure 1, the access point asks that of its own network, which asks the server.
    """
    asked = PROXY if is_proxied else SERVER
    nodes = {
        STATION_NODE: Node([STATION], {RADIO: Interface("10.1.0.11/32", radio="02:00:00:00:04:01")},
                           gateway=_VISITED, agent=asked, position=[40.0, 50.0]),
        AP: Node([ACCESS_POINT],
                 {"wlan-v": Interface(radio="02:00:00:00:04:00", bridge="br-v"),
                  AP_WIRE: Interface(bridge="br-v"), "br-v": Interface("10.1.0.2/24")},
                 gateway=_VISITED, agent=asked, ssid="visited", channel=1, position=[50.0, 50.0]),
        ROUTER_NODE: Node([ROUTER], {"visited": Interface(f"{_VISITED}/24"),
                                     "far": Interface("10.8.0.1/24")}, forwarding=True,
                          routes={"10.9.0.0/16": "10.8.0.2"}),
        GATEWAY_NODE: Node([ROUTER], {"near": Interface("10.8.0.2/24"),
                                      "inner": Interface(f"{_GATEWAY}/24")}, forwarding=True,
                           routes={"10.1.0.0/24": "10.8.0.1"}),
        SERVER: Node([HOME_AGENT], {SERVER_WIRE: Interface(f"{_SERVER}/24"),
                                    LOAD_WIRE: Interface(f"{_LAN}/24")},
                     gateway=_GATEWAY, serves="10.9.0.0/16", forwarding=True),
        LOAD: Node(["radius_client"], {"eth0": Interface("10.9.1.20/24")}, gateway=_LAN,
                   agent=SERVER)}
    links = []
    if is_proxied:
        nodes[ROUTER_NODE].interfaces["aaa"] = Interface(f"{_AAA}/24")
        nodes[GATEWAY_NODE].routes["10.2.0.0/24"] = "10.8.0.1"
        nodes[PROXY] = Node([HOME_AGENT], {"eth0": Interface("10.2.0.2/24")}, gateway=_AAA,
                            agent=SERVER)
        links = [Link([f"{ROUTER_NODE}/aaa", f"{PROXY}/eth0"])]
    return Network("figure-1" if is_proxied else "figure-4", nodes, [
        *links,
        Link([f"{AP}/{AP_WIRE}", f"{ROUTER_NODE}/visited"]),
        # Between two routers: what an end of it is captured at has been delayed already.
        Link([f"{ROUTER_NODE}/far", f"{GATEWAY_NODE}/near"], delay_ms=rtt_ms / 2),
        Link([f"{GATEWAY_NODE}/inner", f"{SERVER}/{SERVER_WIRE}"]),
        Link([f"{SERVER}/{LOAD_WIRE}", f"{LOAD}/eth0"])])
