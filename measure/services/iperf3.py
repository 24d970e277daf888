"""Service for the iperf3 server, on the nodes where streams end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from measure import iperf
from measure.process import Daemon
from measure.services.daemons import Daemons
from measure.workload import Site

_LOOK_S = 0.01


class Iperf3(Daemons):
    """An iperf3 server on each of the given nodes, for one stream after another."""

    name = "iperf3"

    def __init__(self, site: Site, nodes: Iterable[str]) -> None:
        super().__init__(site)
        self._nodes = list(dict.fromkeys(nodes))

    def list_nodes(self) -> Sequence[str]:
        """Return the nodes where streams end."""
        return self._nodes

    def wait_idle(self, node: str, within_s: float) -> None:
        """Wait until a node's server accepts the next stream, or replace the server.

        After a broken stream, an iperf3 server waits for its client for a long time.

        Args:
            node: The server's node.
            within_s: Time until the server is replaced, in s.

        Raises:
            MeasureError: The new server is not ready in time.
        """
        until = time.monotonic() + within_s
        while time.monotonic() < until and self.daemons[node].process.poll() is None:
            if iperf.is_waiting(self.daemons[node].last_lines()):
                return
            time.sleep(_LOOK_S)
        self.daemons[node].stop()
        self.daemons[node] = self.launch_on(node).wait_ready()

    def launch_on(self, node: str) -> Daemon:
        """Start the server of one node."""
        return iperf.start_server(self.site.testbed, node, self.site.log_path(self.name, node))
