"""Make a gateway translate the addresses of packets from its subnets (NAPT, RFC 3022).

`setup_commands` returns the commands that set up a node's translation by nftables. The kernel's
connection tracking has a mapping for each flow, and deletes it after a time without packets.
`delete_mappings` deletes all mappings of a node at once, as a router does when it restarts. The
next packet of a flow then gets another random port.
"""

from __future__ import annotations

import socket
import struct

from topologies.model import Node
from topologies.namespaces import network_of
from topologies.netlink import ACK, NetlinkSocket

# linux/netfilter/nfnetlink.h and nfnetlink_conntrack.h.
_NETLINK_NETFILTER, _CONNTRACK, _DELETE = 12, 1, 2
_TIMEOUTS = ("udp_timeout", "udp_timeout_stream")


def setup_commands(node: Node) -> list[str]:
    """Return the shell commands that make a gateway translate addresses, none without `nat`.

    Packets of the gateway itself already have the address of its outer interface.
    """
    if node.nat is None:
        return []
    rules = [f'add rule ip nat out oifname "{node.nat.outside}" ip saddr {interface.address} '
             f"ip saddr != {interface.ip} masquerade random"
             for port, interface in node.interfaces.items()
             if interface.address and port != node.nat.outside]
    table = ["add table ip nat",
             "add chain ip nat out { type nat hook postrouting priority 100; }", *rules]
    return [f"nft '{'; '.join(table)}'",
            *(f"sysctl -qw net.netfilter.nf_conntrack_{name}={node.nat.udp_timeout_s}"
              for name in _TIMEOUTS)]


def delete_mappings(pid: int) -> None:
    """Delete all mappings of the router in a process's network namespace.

    Raises:
        OSError: The kernel refuses.
    """
    with network_of(pid), NetlinkSocket(_NETLINK_NETFILTER) as netlink:
        netlink.send_request(_CONNTRACK << 8 | _DELETE, ACK,
                             struct.pack("=BBH", socket.AF_INET, 0, 0))
