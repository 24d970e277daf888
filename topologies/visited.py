"""Address of a mobile node in a visited subnet that has no agent for it."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

#: Bit that is set in a visitor's address: 10.1.0.12 becomes 10.2.0.140 in 10.2.0.0/24.
_VISITORS = 128


@dataclass(frozen=True)
class VisitedSubnet:
    """A node's address in a visited subnet, with its prefix and gateway.

    `agent` are the addresses of its home agent, at which its tunnel ends.
    """

    address: str
    gateway: str
    agent: tuple[str, ...]

    @property
    def ip(self) -> str:
        """Return the address without its prefix length."""
        return self.address.partition("/")[0]


def visited_subnet(home_address: str, gateway: str, agent: Sequence[str]) -> VisitedSubnet:
    """Return the address data of a mobile node in a visited subnet.

    Args:
        home_address: The node's home address.
        gateway: The gateway's address with its prefix.
        agent: Addresses of the home agent.
    """
    there = ipaddress.IPv4Interface(gateway)
    host = int(ipaddress.IPv4Address(home_address)) & int(there.hostmask)
    address = there.network.network_address + (host | _VISITORS)
    return VisitedSubnet(f"{address}/{there.network.prefixlen}", str(there.ip), tuple(agent))
