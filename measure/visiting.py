"""Give a mobile node whose tunnel follows it an address in the visited subnet.

The home address moves to a dummy device and stays the programs' source address, inside the tunnel.
The visited address is the tunnel's own. It is assigned at once, without DHCP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topologies.model import Node
from topologies.visited import VisitedSubnet

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

#: Device of the home address while away; charon is configured not to send from it.
_DEVICE = "home0"
#: Routing table, other than charon's own (220), whose rule comes first.
_TABLE = "403"
#: Rule priorities after those that send packets into WireGuard's tunnel.
_TO_AGENT, _PRIORITY = "402", "403"


class VisitingAddress:
    """Addresses and routes of one mobile node, at home and away."""

    def __init__(self, testbed: Testbed, name: str, node: Node) -> None:
        self._testbed, self._name, self._node = testbed, name, node
        #: The visited subnet, None at home.
        self.visit: VisitedSubnet | None = None

    def configure_visit(self, visit: VisitedSubnet) -> None:
        """Configure the node for a visited subnet: an address, and routes by its gateway."""
        home, radio = f"{self._node.address}/32", self._node.radio_interface
        out = ["default", "via", visit.gateway, "dev", radio, "onlink"]
        self._run_ip("link", "add", _DEVICE, "type", "dummy")
        self._run_ip("link", "set", _DEVICE, "up")
        self._run_ip("address", "add", home, "dev", _DEVICE)
        self._run_ip("address", "add", visit.address, "dev", radio)
        self._run_ip("address", "del", home, "dev", radio)
        self._run_ip("route", "replace", *out)
        self._run_ip("route", "del", self._node.gateway or "", "dev", radio)
        # Sockets without a bound address use the home address, and so the tunnel.
        self._run_ip("route", "replace", *out, "src", self._node.address, "table", _TABLE)
        for rule in self._rules(visit):
            self._run_ip("rule", "add", *rule)
        self.visit = visit

    def restore_home(self) -> None:
        """Restore the node's home configuration, if it is away."""
        if self.visit is None:
            return
        home, radio = f"{self._node.address}/32", self._node.radio_interface
        gateway = self._node.gateway or ""
        for rule in self._rules(self.visit):
            self._run_ip("rule", "del", *rule)
        self._run_ip("route", "flush", "table", _TABLE)
        self._run_ip("link", "del", _DEVICE)
        self._run_ip("address", "add", home, "brd", "+", "dev", radio)
        self._run_ip("route", "replace", gateway, "dev", radio)
        self._run_ip("route", "replace", "default", "via", gateway, "dev", radio, "onlink")
        self._run_ip("address", "del", self.visit.address, "dev", radio)
        self.visit = None

    @staticmethod
    def _rules(visit: VisitedSubnet) -> list[list[str]]:
        """Return the routing rules of the visited subnet.

        All packets use the visited table, except the tunnel's own packets to the agent.
        """
        return [*(["priority", _TO_AGENT, "to", address, "lookup", "main"]
                  for address in visit.agent), ["priority", _PRIORITY, "lookup", _TABLE]]

    def _run_ip(self, *words: str) -> None:
        self._testbed.run_command(self._name, ["ip", *words])
