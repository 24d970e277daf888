"""Service for hostapd, with a control connection to each access point."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from measure.process import Daemon
from measure.services.daemons import Daemons
from measure.workload import Site
from measure.wpa_ctrl import ControlSocket

#: Configuration line of opportunistic key caching: access points of one process share cached PMKs.
_SHARES_KEYS = "\nokc=1\n"


class Hostapd(Daemons):
    """An access point on every node that has its configuration."""

    name = "hostapd"
    file = "hostapd.conf"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.controls: dict[str, ControlSocket] = {}
        self._connections = ExitStack()

    def launch_on(self, node: str) -> Daemon:
        """Start the access point of one node.

        Access points that share cached keys run in one process.
        """
        sharing = [name for name in self.list_nodes() if _SHARES_KEYS
                   in self._config_path(name).read_text()]
        if node not in sharing:
            return self.run_daemon(node, ["hostapd", str(self._config_path(node))], r"AP-ENABLED")
        if node != sharing[0]:
            return self.daemons[sharing[0]]
        for name in sharing:
            self.site.run_folder(name)
        last = self.site.network.nodes[sharing[-1]].radio_interface
        return self.run_daemon(node,
                               ["hostapd", *(str(self._config_path(name)) for name in sharing)],
                               rf"^{last}: AP-ENABLED")

    def _config_path(self, node: str) -> Path:
        return self.site.mount / node / self.file

    def wait_ready(self) -> None:
        """Wait until the access points are up, then connect to their control sockets."""
        super().wait_ready()
        for name in self.daemons:
            interface = self.site.network.nodes[name].radio_interface
            self.controls[name] = self._connections.enter_context(
                ControlSocket(self.site.run_folder(name) / "hostapd" / interface,
                              f"hostapd on {name}"))

    def stop(self) -> None:
        """Close the connections and end the access points."""
        self._connections.close()
        super().stop()

    def wait_authorized(self, node: str, mac: str, deadline_s: float) -> bool:
        """Return whether an access point authorises a station before the deadline (monotonic)."""
        while event := self.controls[node].wait_event({"AP-STA-CONNECTED"}, deadline_s):
            if event.text.startswith(mac):
                return True
        return False

    def expire_station(self, node: str, mac: str) -> None:
        """Make an access point drop a station that has left, as its inactivity timer would.

        The access point keeps the station's cached keys.
        """
        self.controls[node].request(f"DISASSOCIATE {mac} tx=0")
        self.controls[node].drop_events()

    def forget_station(self, mac: str) -> None:
        """Make every access point deauthenticate and forget a station."""
        for control in self.controls.values():
            control.drop_events()
            control.request(f"DEAUTHENTICATE {mac}")
            control.drop_events()

    def update_admitted(self, node: str, admitted: set[str]) -> None:
        """Update the set of authorised stations from an access point's pending events.

        Call this regularly when many stations join. Unread events fill the control socket, and
        hostapd then blocks until they are read.
        """
        for event in self.controls[node].read_pending():
            if event.name == "AP-STA-CONNECTED":
                admitted.add(event.text.split()[0])
            elif event.name == "AP-STA-DISCONNECTED":
                admitted.discard(event.text.split()[0])
