"""Iperf3's server as a service, on the nodes where streams end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from measure import iperf
from measure.process import Daemon
from measure.services.daemons import Daemons
from measure.workload import Site


class Iperf3(Daemons):
    """A server that takes one stream after another, on each of these nodes."""

    name = "iperf3"

    def __init__(self, site: Site, nodes: Iterable[str]) -> None:
        super().__init__(site)
        self._nodes = list(dict.fromkeys(nodes))

    def nodes(self) -> Sequence[str]:
        """Where streams end."""
        return self._nodes

    def launch(self, node: str) -> Daemon:
        """Start the server of one node."""
        return iperf.server(self.site.testbed, node, self.site.log(self.name, node))
