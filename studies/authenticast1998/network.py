"""Network of server, router and clients: links of 155 Mbit/s and a device per node."""

from __future__ import annotations

from topologies.model import ROUTER, Interface, Link, Network, Node

#: MTU of IP over ATM in bytes (RFC 1626).
MTU_BYTES = 9180
RATE_BPS = 155_520_000.0
DELAY_MS = 0.1
SERVER, CLIENT = "server", "client"


def client_name(number: int) -> str:
    """Return the name of a client, numbered from 1."""
    return f"c{number}"


def build_star(clients: int) -> Network:
    """Build a star: server and clients on separate links to a router."""
    nodes = {
        SERVER: Node([SERVER], {"wire": Interface("10.0.0.2/24")}, gateway="10.0.0.1"),
        ROUTER: Node([ROUTER], {"uplink": Interface("10.0.0.1/24")}, forwarding=True)}
    links = [_make_link(f"{SERVER}/wire", f"{ROUTER}/uplink")]
    for number in range(1, clients + 1):
        name = client_name(number)
        nodes[ROUTER].interfaces[f"d{number}"] = Interface(f"10.0.{number}.1/24")
        nodes[name] = Node([CLIENT], {"wire": Interface(f"10.0.{number}.2/24")},
                           gateway=f"10.0.{number}.1")
        links.append(_make_link(f"{ROUTER}/d{number}", f"{name}/wire"))
    return Network(f"star-{clients}", nodes, links)


def _make_link(left: str, right: str) -> Link:
    return Link([left, right], mtu_bytes=MTU_BYTES, rate_bps=RATE_BPS, delay_ms=DELAY_MS,
                queue_packets=1000)
