"""A mobile node whose tunnel follows it takes an address of the subnet that it visits.

Its home address stays, on a device of its own, and is what programs send from: into the tunnel. The
address that is taken is its tunnel's. It is there at once: no DHCP is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topologies.model import Node
from topologies.visited import VisitedSubnet

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

#: Where the home address is meanwhile; charon is told not to send from there.
_DEVICE = "home0"
#: Not charon's own (220), whose rule comes first.
_TABLE = "403"
#: After the rules by which packets go into WireGuard's tunnel.
_TO_AGENT, _PRIORITY = "402", "403"


class VisitingAddress:
    """The addresses and routes of one mobile node, at home and away."""

    def __init__(self, testbed: Testbed, name: str, node: Node) -> None:
        self._testbed, self._name, self._node = testbed, name, node
        #: Where it is, None at home.
        self.visit: VisitedSubnet | None = None

    def take(self, visit: VisitedSubnet) -> None:
        """Be in another subnet: with an address of it, and a way out through its gateway."""
        home, radio = f"{self._node.address}/32", self._node.radio_interface
        out = ["default", "via", visit.gateway, "dev", radio, "onlink"]
        self._run("link", "add", _DEVICE, "type", "dummy")
        self._run("link", "set", _DEVICE, "up")
        self._run("address", "add", home, "dev", _DEVICE)
        self._run("address", "add", visit.address, "dev", radio)
        self._run("address", "del", home, "dev", radio)
        self._run("route", "replace", *out)
        self._run("route", "del", self._node.gateway or "", "dev", radio)
        # What no program has bound comes from home, and so goes into the tunnel.
        self._run("route", "replace", *out, "src", self._node.address, "table", _TABLE)
        for rule in self._rules(visit):
            self._run("rule", "add", *rule)
        self.visit = visit

    def give_back(self) -> None:
        """Be at home again, if it is not: as the network was built."""
        if self.visit is None:
            return
        home, radio = f"{self._node.address}/32", self._node.radio_interface
        gateway = self._node.gateway or ""
        for rule in self._rules(self.visit):
            self._run("rule", "del", *rule)
        self._run("route", "flush", "table", _TABLE)
        self._run("link", "del", _DEVICE)
        self._run("address", "add", home, "brd", "+", "dev", radio)
        self._run("route", "replace", gateway, "dev", radio)
        self._run("route", "replace", "default", "via", gateway, "dev", radio, "onlink")
        self._run("address", "del", self.visit.address, "dev", radio)
        self.visit = None

    @staticmethod
    def _rules(visit: VisitedSubnet) -> list[list[str]]:
        """All goes by the table, but for what the tunnel itself says to the agent."""
        return [*(["priority", _TO_AGENT, "to", address, "lookup", "main"]
                  for address in visit.agent), ["priority", _PRIORITY, "lookup", _TABLE]]

    def _run(self, *words: str) -> None:
        self._testbed.run(self._name, ["ip", *words])
