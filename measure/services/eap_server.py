"""Hostapd as the authentication server, and the subscriber server that its EAP-AKA asks."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measure.process import Daemon
from measure.services.daemons import Daemons
from measure.services.launcher import environment

#: Duty of a node with a study's subscriber server.
HSS = "hss"


class SubscriberServers(Daemons):
    """The subscriber server, on every node of that duty."""

    name = "hss"

    def nodes(self) -> Sequence[str]:
        """Nodes of that duty."""
        return self.site.network.of_duty(HSS)

    def launch(self, node: str) -> Daemon:
        """Start it with the run's one subscriber."""
        subscriber = self.site.secrets["subscriber"]
        return self._program(node, "serve", {
            "address": self.site.network.nodes[node].address,
            "subscribers": {self.site.secrets["network"]["imsi"]: dict(subscriber)}})

    def _program(self, node: str, what: str, config: Mapping[str, Any]) -> Daemon:
        file = self.site.run_folder(node) / f"{what}.json"
        file.write_text(json.dumps(config))
        return self.daemon(node, [sys.executable, "-m", "protocols.aka.program", what, str(file)],
                           r"ready", {"PYTHONPATH": environment()["PYTHONPATH"],
                                      "PYTHONDONTWRITEBYTECODE": "1"})


class SubscriberGateways(SubscriberServers):
    """What passes on between hostapd's socket and the subscriber server, beside each hostapd."""

    name = "hss-gateway"
    file = "eap_server"

    def nodes(self) -> Sequence[str]:
        """Nodes with such a server, where there is somebody to ask."""
        return self.site.having(self.file) if self.site.network.of_duty(HSS) else ()

    def launch(self, node: str) -> Daemon:
        """Start it; its socket is where hostapd looks for one."""
        [server] = self.site.network.of_duty(HSS)
        return self._program(node, "gateway", {
            "socket": str(self.site.run_folder(node) / "hss.sock"),
            "server": self.site.network.nodes[server].address})


class EapServer(Daemons):
    """The server on every node that has its configuration."""

    name = "eap_server"
    file = "eap_server"
    needs: Sequence[str] = (SubscriberGateways.name,)

    def launch(self, node: str) -> Daemon:
        """Start the server of one node."""
        return self.daemon(node, ["hostapd", str(self._config(node))], r"AP-ENABLED")

    def _config(self, node: str) -> Path:
        return self.site.mount / node / self.file / "eap_server.conf"
