"""Service for wpa_supplicant, with a control connection to each station's interface."""

from __future__ import annotations

from contextlib import ExitStack

from measure.errors import MeasureError
from measure.process import Daemon
from measure.services.daemons import Daemons
from measure.workload import Site
from measure.wpa_ctrl import ControlSocket


class WpaSupplicant(Daemons):
    """A supplicant on every node that has its configuration."""

    name = "wpa_supplicant"
    file = "wpa_supplicant.conf"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.controls: dict[str, ControlSocket] = {}
        self._connections = ExitStack()

    def launch_on(self, node: str) -> Daemon:
        """Start the supplicant of one node."""
        # Started without an interface: adding one through the global socket returns when the
        # interface's own control socket exists.
        return self.run_daemon(node, ["wpa_supplicant", "-g", self._global_socket(node)],
                               r"Successfully initialized wpa_supplicant")

    def wait_ready(self) -> None:
        """Wait until the supplicants run, add their interfaces and connect to them."""
        super().wait_ready()
        for name in self.daemons:
            self.controls[name] = self._connections.enter_context(self._add_interface(name))

    def stop(self) -> None:
        """Close the connections and end the supplicants."""
        self._connections.close()
        super().stop()

    def _global_socket(self, node: str) -> str:
        return str(self.site.run_folder(node) / "global")

    def _add_interface(self, name: str) -> ControlSocket:
        home = self.site.mount / name
        interface = self.site.network.nodes[name].radio_interface
        daemon = self.daemons[name]
        since = daemon.position()
        with ControlSocket(home / "run" / "global", f"wpa_supplicant on {name}") as everything:
            try:
                everything.send_command(f"INTERFACE_ADD {interface}\t{home / self.file}\tnl80211"
                                        f"\t{home / 'run' / 'wpa_supplicant'}")
            except MeasureError as error:
                cause = daemon.cause_since(since) or error.reason
                raise MeasureError("testbed", f"{daemon.name} does not take {interface} with its "
                                   f"configuration: {cause} (log: {daemon.log.name})") from None
        return ControlSocket(home / "run" / "wpa_supplicant" / interface,
                             f"wpa_supplicant on {name}")
