"""FreeRADIUS as a service, which can be held still so that it admits nobody."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from measure.process import Daemon
from measure.services.daemons import Daemons


class FreeRadius(Daemons):
    """An authentication server on every node that has its configuration."""

    name = "freeradius"
    file = "freeradius"

    def launch(self, node: str) -> Daemon:
        """Start the server of one node."""
        return self.daemon(node, ["freeradius", "-f", "-l", "stdout", "-d",
                                  str(self.site.mount / node / self.file), "-n", "radiusd"],
                           r"Ready to process requests")

    @contextmanager
    def silent(self, node: str) -> Iterator[None]:
        """Hold a node's server still, if there is one: it answers nothing meanwhile."""
        daemon = self.daemons.get(node)
        if daemon is None:
            yield
            return
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
