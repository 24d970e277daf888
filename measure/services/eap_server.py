"""Services for EAP-AKA: hostapd as the authentication server, and its subscriber server.

The subscriber server (HSS) runs on its own node of a study's network. Without such a node, it runs
on the first node whose hostapd needs one, and all others use it. One server is needed because a
card counts the challenges of one server.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from measure.process import Daemon
from measure.services.daemons import Daemons
from measure.services.launcher import program_environment
from topologies.model import HOME_AGENT

#: Duty of the node that runs a study's subscriber server.
HSS = "hss"
#: Methods that need a card, in the rendered list: AKA, or AKA' with an apostrophe.
_BY_CARD = re.compile(r"^\"\d\"\* AKA('?)$", re.MULTILINE)


class SubscriberServers(Daemons):
    """The subscriber server, on an HSS node or on a node whose hostapd needs one."""

    name = "hss"
    file = "eap_server"

    def list_nodes(self) -> Sequence[str]:
        """Return the HSS nodes, or else the first node whose hostapd uses a card."""
        return self.site.network.of_duty(HSS) or [*self._card_methods()][:1]

    def launch_on(self, node: str) -> Daemon:
        """Start the server with the run's one subscriber."""
        subscriber = self.site.secrets["hss"]
        return self._run_program(node, "serve", {
            "address": self._address(node),
            "separates": any(self._card_methods().values()),
            "subscribers": {self.site.secrets["network"]["imsi"]: dict(subscriber)}})

    def _card_methods(self) -> Mapping[str, bool]:
        """Return the nodes whose hostapd uses a card, and whether by EAP-AKA'."""
        listed = {node: _BY_CARD.search((self.site.mount / node / self.file
                                         / "eap_users").read_text())
                  for node in self.site.nodes_with_file(self.file)}
        return {node: bool(method[1]) for node, method in listed.items() if method}

    def _address(self, node: str) -> str:
        """Return the address of a node's subscriber server.

        A home agent listens on its outer address, where the other agents can reach it.
        """
        place = self.site.network.nodes[node]
        return place.outer_address if place.has_duty(HOME_AGENT) else place.address

    def _run_program(self, node: str, what: str, config: Mapping[str, Any]) -> Daemon:
        file = self.site.run_folder(node) / f"{what}.json"
        file.write_text(json.dumps(config))
        return self.run_daemon(node,
                               [sys.executable, "-m", "protocols.aka.program", what, str(file)],
                               r"ready", program_environment())


class SubscriberGateways(SubscriberServers):
    """A gateway on each hostapd's node, from hostapd's socket to the subscriber server."""

    name = "hss-gateway"

    def list_nodes(self) -> Sequence[str]:
        """Return the nodes whose hostapd uses a card."""
        return [*self._card_methods()]

    def launch_on(self, node: str) -> Daemon:
        """Start the gateway on the socket that hostapd connects to."""
        [server] = super().list_nodes()
        return self._run_program(node, "gateway", {
            "socket": str(self.site.run_folder(node) / "hss.sock"),
            "server": self._address(server)})


class EapServer(Daemons):
    """An authentication server on every node that has its configuration."""

    name = "eap_server"
    file = "eap_server"
    needs: Sequence[str] = (SubscriberGateways.name,)

    def launch_on(self, node: str) -> Daemon:
        """Start the server of one node."""
        folder = self.site.mount / node / self.file
        return self.run_daemon(node, ["hostapd", str(folder / "eap_server.conf")], r"AP-ENABLED")
