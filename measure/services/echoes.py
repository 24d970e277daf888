"""The mobile nodes' sockets for echoes as a service: open before anything is timed."""

from __future__ import annotations

from collections.abc import Sequence

from measure.echo import EchoSocket
from measure.workload import Site
from topologies.model import STATION


class EchoSockets:
    """A socket on every station."""

    name = "echoes"
    needs: Sequence[str] = ()

    def __init__(self, site: Site) -> None:
        self._site = site
        self.sockets: dict[str, EchoSocket] = {}

    def start(self) -> None:
        """Open them."""
        for name in self._site.network.of_duty(STATION):
            self.sockets[name] = EchoSocket(self._site.testbed.node(name).pid)

    def ready(self) -> None:
        """Nothing more: a socket is there when it is open."""

    def stop(self) -> None:
        """Close them, or their nodes' namespaces would stay."""
        while self.sockets:
            self.sockets.popitem()[1].close()
