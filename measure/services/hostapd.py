"""Hostapd as a service, with a control connection to each access point."""

from __future__ import annotations

from contextlib import ExitStack

from measure.process import Daemon
from measure.services.daemons import Daemons
from measure.workload import Site
from measure.wpa_ctrl import ControlSocket


class Hostapd(Daemons):
    """An access point on every node that has its configuration."""

    name = "hostapd"
    file = "hostapd.conf"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.controls: dict[str, ControlSocket] = {}
        self._connections = ExitStack()

    def launch(self, node: str) -> Daemon:
        """Start the access point of one node."""
        return self.daemon(node, ["hostapd", str(self.site.mount / node / self.file)],
                           r"AP-ENABLED")

    def ready(self) -> None:
        """Wait until the access points are up, and connect to their control sockets."""
        super().ready()
        for name in self.daemons:
            interface = self.site.network.nodes[name].radio_interface
            self.controls[name] = self._connections.enter_context(
                ControlSocket(self.site.run_folder(name) / "hostapd" / interface,
                              f"hostapd on {name}"))

    def stop(self) -> None:
        """Close the connections and end the access points."""
        self._connections.close()
        super().stop()

    def admitted(self, node: str, mac: str, deadline_s: float) -> bool:
        """Whether an access point lets a station's frames pass, waiting for it (monotonic)."""
        while event := self.controls[node].wait({"AP-STA-CONNECTED"}, deadline_s):
            if event.text.startswith(mac):
                return True
        return False

    def forget(self, mac: str) -> None:
        """Have no access point know a station any more."""
        for control in self.controls.values():
            control.request(f"DEAUTHENTICATE {mac}")
            # Unread events pile up; with no room for one more, hostapd waits for its reader.
            control.forget()
