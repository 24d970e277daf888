"""Hostapd as the authentication server, and the subscriber server that its EAP-AKA asks.

The subscriber server is a node of its own in a study's network, or a program beside the first such
hostapd, which the others ask, too: a card counts the challenges of one server.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from measure.process import Daemon
from measure.services.daemons import Daemons
from measure.services.launcher import environment
from topologies.model import HOME_AGENT

#: Duty of a node with a study's subscriber server.
HSS = "hss"
#: In the rendered list of methods, those that a card decides by: EAP-AKA' has a sign more.
_BY_CARD = re.compile(r"^\"\d\"\* AKA('?)$", re.MULTILINE)


class SubscriberServers(Daemons):
    """The subscriber server, on a node of that duty or beside a hostapd that asks one."""

    name = "hss"
    file = "eap_server"

    def nodes(self) -> Sequence[str]:
        """Nodes of that duty; without any, the first whose hostapd decides by a card."""
        return self.site.network.of_duty(HSS) or [*self._by_card()][:1]

    def launch(self, node: str) -> Daemon:
        """Start it with the run's one subscriber."""
        subscriber = self.site.secrets["hss"]
        return self._program(node, "serve", {
            "address": self._address(node),
            "separates": any(self._by_card().values()),
            "subscribers": {self.site.secrets["network"]["imsi"]: dict(subscriber)}})

    def _by_card(self) -> Mapping[str, bool]:
        """Nodes whose hostapd decides by a card, and whether it does by EAP-AKA'."""
        listed = {node: _BY_CARD.search((self.site.mount / node / self.file
                                         / "eap_users").read_text())
                  for node in self.site.having(self.file)}
        return {node: bool(method[1]) for node, method in listed.items() if method}

    def _address(self, node: str) -> str:
        """Where the subscriber server of a node listens: an agent's, where others ask it."""
        place = self.site.network.nodes[node]
        return place.outer_address if place.has(HOME_AGENT) else place.address

    def _program(self, node: str, what: str, config: Mapping[str, Any]) -> Daemon:
        file = self.site.run_folder(node) / f"{what}.json"
        file.write_text(json.dumps(config))
        return self.daemon(node, [sys.executable, "-m", "protocols.aka.program", what, str(file)],
                           r"ready", environment())


class SubscriberGateways(SubscriberServers):
    """What passes on between hostapd's socket and the subscriber server, beside each hostapd."""

    name = "hss-gateway"

    def nodes(self) -> Sequence[str]:
        """Nodes whose hostapd decides by a card."""
        return [*self._by_card()]

    def launch(self, node: str) -> Daemon:
        """Start it; its socket is where hostapd looks for one."""
        [server] = super().nodes()
        return self._program(node, "gateway", {
            "socket": str(self.site.run_folder(node) / "hss.sock"),
            "server": self._address(server)})


class EapServer(Daemons):
    """The server on every node that has its configuration."""

    name = "eap_server"
    file = "eap_server"
    needs: Sequence[str] = (SubscriberGateways.name,)

    def launch(self, node: str) -> Daemon:
        """Start the server of one node."""
        folder = self.site.mount / node / self.file
        return self.daemon(node, ["hostapd", str(folder / "eap_server.conf")], r"AP-ENABLED")
