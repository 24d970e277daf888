"""A visited subnet gives a mobile node an address, where no agent takes it in."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

#: Set in an address that a visitor gets: 10.1.0.12 is 10.2.0.140 as one of 10.2.0.0/24.
_VISITORS = 128


@dataclass(frozen=True)
class VisitedSubnet:
    """Where a node is in another subnet: its address there, with a prefix, and the way out.

    `agent` has the addresses of its home agent, which its tunnel ends at.
    """

    address: str
    gateway: str
    agent: tuple[str, ...]

    @property
    def ip(self) -> str:
        """The address without its prefix length."""
        return self.address.partition("/")[0]


def visited(home_address: str, gateway: str, agent: Sequence[str]) -> VisitedSubnet:
    """What a node of a home address has behind a gateway, whose address comes with its prefix."""
    there = ipaddress.IPv4Interface(gateway)
    host = int(ipaddress.IPv4Address(home_address)) & int(there.hostmask)
    address = there.network.network_address + (host | _VISITORS)
    return VisitedSubnet(f"{address}/{there.network.prefixlen}", str(there.ip), tuple(agent))
