"""Service for the mobile nodes' ICMP echo sockets, which opens them before anything is timed."""

from __future__ import annotations

from collections.abc import Sequence

from measure.echo import EchoSocket
from measure.workload import Site
from topologies.model import STATION


class EchoSockets:
    """An echo socket on every station."""

    name = "echoes"
    needs: Sequence[str] = ()

    def __init__(self, site: Site) -> None:
        self._site = site
        self.sockets: dict[str, EchoSocket] = {}

    def start(self) -> None:
        """Open the sockets."""
        for name in self._site.network.of_duty(STATION):
            self.sockets[name] = EchoSocket(self._site.testbed.node(name).pid)

    def wait_ready(self) -> None:
        """Return at once: a socket is ready when it is open."""

    def stop(self) -> None:
        """Close the sockets, because open sockets keep the nodes' namespaces alive."""
        while self.sockets:
            self.sockets.popitem()[1].close()
