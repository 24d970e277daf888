"""Base class of services that run one program on several nodes.

Each process is ended by its own pid.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from measure.errors import MeasureError
from measure.kernel_log import last_kill_message
from measure.process import Daemon
from measure.workload import Site


class Daemons:
    """A program on every node that runs it. Base class of a study's own services.

    `list_nodes` states where it runs: by default where `file` was rendered. `launch_on` starts it
    on one node.
    """

    name: str
    needs: Sequence[str] = ()
    #: The rendered file whose presence makes a node run the program.
    file: str = ""

    def __init__(self, site: Site) -> None:
        self.site = site
        #: Running daemons by node, filled by `start`.
        self.daemons: dict[str, Daemon] = {}

    def list_nodes(self) -> Sequence[str]:
        """Return the nodes that run the program."""
        return self.site.nodes_with_file(self.file)

    def launch_on(self, node: str) -> Daemon:
        """Start the program on one node.

        Args:
            node: The node's name.

        Returns:
            The started daemon; it need not be ready yet.
        """
        raise NotImplementedError

    def start(self) -> None:
        """Start the program on every node that runs it."""
        for node in self.list_nodes():
            self.daemons[node] = self.launch_on(node)

    def wait_ready(self) -> None:
        """Wait until the program serves on every node.

        Raises:
            MeasureError: A daemon ended, or was not ready in time.
        """
        for daemon in self.daemons.values():
            daemon.wait_ready()

    def stop(self) -> None:
        """End all daemons, in reverse order of their start."""
        while self.daemons:
            _, daemon = self.daemons.popitem()
            daemon.stop()

    @contextmanager
    def suspended(self, nodes: Iterable[str]) -> Iterator[None]:
        """Stop the daemons on these nodes with SIGSTOP inside the context.

        They answer nothing meanwhile. Nodes that do not run the program are ignored.
        """
        held = [self.daemons[node].pid for node in nodes if node in self.daemons]
        for pid in held:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in held:
                os.kill(pid, signal.SIGCONT)

    def kill_on(self, node: str) -> None:
        """Kill the daemon on one node (a negative control)."""
        self.daemons[node].process.kill()
        self.daemons[node].process.wait()

    def restart_ended(self) -> None:
        """Start every daemon that has ended again.

        Raises:
            MeasureError: A daemon is not ready in time.
        """
        for node, daemon in self.daemons.items():
            if daemon.process.poll() is not None:
                daemon.stop()
                self.daemons[node] = self.launch_on(node).wait_ready()

    def check_alive(self) -> None:
        """Check that all daemons run.

        Raises:
            MeasureError: A daemon has ended; the text has its status, cause and log.
        """
        for daemon in self.daemons.values():
            if (status := daemon.process.poll()) is not None:
                whose = f" (killed; the kernel: {last_kill_message() or 'nothing'})" \
                    if status == -signal.SIGKILL else ""
                raise MeasureError("testbed", f"{daemon.name} ended with status {status}{whose}: "
                                   f"{daemon.find_cause()} (log: {daemon.log.name})")

    def run_daemon(self, node: str, argv: Sequence[str], ready: str,
                   environment: Mapping[str, str] | None = None) -> Daemon:
        """Start a process on a node and return it as a daemon.

        Args:
            node: The node's name.
            argv: The command.
            ready: Regular expression; a line of output that matches shows that the daemon is ready.
            environment: Variables in addition to the worker's own.
        """
        self.site.run_folder(node)
        return Daemon(f"{self.name} on {node}", self.site.testbed.node_command(node, argv),
                      self.site.log_path(self.name, node), ready,
                      env={**os.environ, **(environment or {})})
