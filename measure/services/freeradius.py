"""Service for FreeRADIUS."""

from __future__ import annotations

from pathlib import Path

from measure.process import Daemon
from measure.services.daemons import Daemons
from measure.workload import Site


class FreeRadius(Daemons):
    """An authentication server on every node that has its configuration."""

    name = "freeradius"
    file = "freeradius"

    def __init__(self, site: Site, *, tells_keys: bool = False) -> None:
        super().__init__(site)
        self._tells_keys = tells_keys

    def launch_on(self, node: str) -> Daemon:
        """Start the server of one node.

        Without the folder for sessions, FreeRADIUS would resume no TLS session.
        """
        (self.site.run_folder(node) / "sessions").mkdir(exist_ok=True)
        return self.run_daemon(node, ["freeradius", "-f", "-l", "stdout", "-d",
                                      str(self.site.mount / node / self.file), "-n", "radiusd"],
                               r"Ready to process requests",
                               {"SSLKEYLOGFILE": str(self._key_log_path(node))} if self._tells_keys
                               else {})

    def _key_log_path(self, node: str) -> Path:
        return self.site.run_folder(node) / "tls-keys.log"

    def read_tls_keys(self) -> dict[str, list[str]]:
        """Return the TLS keys of each server so far, as SSLKEYLOGFILE lines for Wireshark."""
        logs = {node: self._key_log_path(node) for node in self.daemons}
        return {node: log.read_text().splitlines() if log.exists() else []
                for node, log in logs.items()}
