"""A service of daemons: one program on several nodes, each process ended by its own pid."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from measure.errors import MeasureError
from measure.kernel_log import last_killing
from measure.process import Daemon
from measure.workload import Site


class Daemons:
    """One program on every node that is to run it; a study's own services extend this.

    `nodes` says where it runs, by default where `file` was rendered; `launch` starts it on one.
    """

    name: str
    needs: Sequence[str] = ()
    #: The rendered file that makes a node run it.
    file: str = ""

    def __init__(self, site: Site) -> None:
        self.site = site
        #: By node; filled by `start`.
        self.daemons: dict[str, Daemon] = {}

    def nodes(self) -> Sequence[str]:
        """Nodes that run it."""
        return self.site.having(self.file)

    def launch(self, node: str) -> Daemon:
        """Start it on a node."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it on every node that runs it."""
        for node in self.nodes():
            self.daemons[node] = self.launch(node)

    def ready(self) -> None:
        """Wait until it serves on every node. Raises MeasureError."""
        for daemon in self.daemons.values():
            daemon.wait_ready()

    def stop(self) -> None:
        """End it everywhere, the last first."""
        while self.daemons:
            _, daemon = self.daemons.popitem()
            daemon.stop()

    @contextmanager
    def silent(self, nodes: Iterable[str]) -> Iterator[None]:
        """Hold it still on these nodes, where it runs there: it answers nothing meanwhile."""
        held = [self.daemons[node].pid for node in nodes if node in self.daemons]
        for pid in held:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in held:
                os.kill(pid, signal.SIGCONT)

    def kill(self, node: str) -> None:
        """End it on a node where it is (a negative control)."""
        self.daemons[node].process.kill()
        self.daemons[node].process.wait()

    def revive(self) -> None:
        """Start it anew wherever it has ended. Raises MeasureError."""
        for node, daemon in self.daemons.items():
            if daemon.process.poll() is not None:
                daemon.stop()
                self.daemons[node] = self.launch(node).wait_ready()

    def check_alive(self) -> None:
        """Raise MeasureError if it has ended on any node."""
        for daemon in self.daemons.values():
            if (status := daemon.process.poll()) is not None:
                whose = f" (killed; the kernel: {last_killing() or 'nothing'})" \
                    if status == -signal.SIGKILL else ""
                raise MeasureError("testbed", f"{daemon.name} ended with status {status}{whose}: "
                                   f"{daemon.cause()} (log: {daemon.log.name})")

    def daemon(self, node: str, argv: Sequence[str], ready: str,
               environment: Mapping[str, str] | None = None) -> Daemon:
        """A process on a node that is ready once its output matches; logged under the service."""
        self.site.run_folder(node)
        return Daemon(f"{self.name} on {node}", self.site.testbed.command(node, argv),
                      self.site.log(self.name, node), ready,
                      env={**os.environ, **(environment or {})})
