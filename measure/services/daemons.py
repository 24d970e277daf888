"""Start and stop the daemons of a test network in the right order.

A service is a daemon or a group of daemons, and may need others. `ServiceStarter` takes services,
starts each after those that it needs, and stops them at the end. `DaemonService` is the base class
of services that run one program on several nodes. `explain_failures` adds to an error the cause
that the daemons' logs state. `last_kill_message` finds a program that the kernel killed. The module
runs in the guest and needs the standard library only. A `Site` is a running network with the
settings of its run.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon
from measure.agent.workload import Service, Site

# --- Start of services by their needs, and stop in reverse order ---

class ServiceStarter:
    """A context manager that starts a testbed's daemons (services), and stops them at its end.

    `withhold` names services that are left out on purpose (a negative control). Services that need
    one of them start without it.

    Raises:
        MeasureError: `withhold` names a service that does not exist.
    """

    def __init__(self, services: Sequence[Service], withhold: Collection[str] = ()) -> None:
        names = [service.name for service in services]
        for name in withhold:
            if name not in names:
                raise MeasureError("testbed", f"the control leaves out {name}, which is no service "
                                   f"of this testbed; there are {', '.join(names)}")
        self._services = [service for service in services if service.name not in withhold]
        self._withheld = set(withhold)
        self._stack = ExitStack()

    def __enter__(self) -> ServiceStarter:
        with self._stack:
            for wave in order_services(self._services, self._withheld):
                for service in wave:
                    # Before `start`, so that the rest of a failed start is stopped, too.
                    self._stack.callback(service.stop)
                    service.start()
                for service in wave:
                    service.wait_ready()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def order_services(services: Sequence[Service],
                   provided: Collection[str] = ()) -> list[list[Service]]:
    """Group services so that all services of a group can start in parallel.

    Each service comes after those that it needs.

    Args:
        services: The services to start.
        provided: Names of services that count as ready.

    Raises:
        MeasureError: Two services share a name, or needs cannot be met.
    """
    names = [service.name for service in services]
    for service in services:
        if names.count(service.name) > 1:
            raise MeasureError("testbed", f"two services are called {service.name}")
        for need in service.needs:
            if need not in names and need not in provided:
                raise MeasureError("testbed", f"service {service.name} needs {need}, which is no "
                                   "service of this study")
    ready, waiting, ordered = set(provided), list(services), []
    while waiting:
        wave = [service for service in waiting if ready.issuperset(service.needs)]
        if not wave:
            raise MeasureError("testbed", "services need each other: "
                               f"{', '.join(service.name for service in waiting)}")
        ordered.append(wave)
        ready.update(service.name for service in wave)
        waiting = [service for service in waiting if service not in wave]
    return ordered


# --- Kernel messages about killed programs ---

_KMSG = Path("/dev/kmsg")
#: Least urgent level that counts (`KERN_WARNING`), and the number of levels.
_WARNING, _LEVELS = 4, 8


def last_kill_message(kmsg: Path = _KMSG) -> str:
    """Return the kernel's last message about a program that it killed, such as out of memory.

    The result is "" if there is none, or if the log is not readable.
    """
    try:
        descriptor = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    found = ""
    try:
        while record := os.read(descriptor, 8192):  # one message per read
            for line in record.decode(errors="replace").splitlines():
                found = _parse_kill_message(line) or found
    except OSError:
        pass  # no more messages, or one was overwritten meanwhile
    finally:
        os.close(descriptor)
    return found


def _parse_kill_message(line: str) -> str:
    """Return the text of a kernel log record if it is about a killed program, else "".

    The record's format is `PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT`.
    """
    head, semicolon, text = line.partition(";")
    priority = head.split(",")[0]
    is_urgent = semicolon and priority.isdecimal() and int(priority) % _LEVELS <= _WARNING
    return text.strip() if is_urgent and "kill" in text.lower() else ""


# --- Base class of daemons on nodes ---

class DaemonService:
    """A program that runs as a daemon on several nodes.

    Base class of a study's own services.

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
    def suspend_daemon(self, nodes: Iterable[str]) -> Iterator[None]:
        """Stop the daemons on some nodes with SIGSTOP inside the context.

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
        """Kill the daemon on one node, as a deliberate fault (negative control)."""
        self.daemons[node].process.kill()
        self.daemons[node].process.wait()

    def restart_ended(self) -> None:
        """Start every daemon again that has ended.

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
        """Start a program on a node, and return it as a daemon.

        A program of the user's (`--programs`) takes the place of Debian's.

        Args:
            node: The node's name.
            argv: The command.
            ready: Regular expression; a line of output that matches shows that the daemon is ready.
            environment: Variables in addition to the worker's own.
        """
        self.site.run_folder(node)
        argv = [self.site.programs.get(Path(argv[0]).name, argv[0]), *argv[1:]]
        return Daemon(f"{self.name} on {node}", self.site.testbed.node_command(node, argv),
                      self.site.log_path(self.name, node), ready,
                      env={**os.environ, **(environment or {})})


# --- Causes of a failure, from the daemons' logs ---

#: Services whose logs can explain a failure, by stage; other stages have none.
_OF_ASSOCIATION = ("wpa_supplicant", "hostapd", "radius_proxy", "freeradius", "eap_server")
_ASKED = {"testbed": _OF_ASSOCIATION, "link": _OF_ASSOCIATION, "dot1x": _OF_ASSOCIATION,
          "dhcp": ("udhcpc", "dnsmasq"), "slaac": ("dnsmasq",), "ike": ("charon",)}
_MOST_CAUSES = 3


@contextmanager
def explain_failures(services: Sequence[DaemonService]) -> Iterator[None]:
    """Add the cause that daemons' logs state to a MeasureError inside the context."""
    since = {daemon: daemon.position() for service in services
             for daemon in service.daemons.values()}
    try:
        yield
    except MeasureError as error:
        cause = "" if error.cause else _find_cause(services, error, since)
        if not cause:
            raise
        raise MeasureError(error.stage, error.reason, cause) from error


def _find_cause(services: Sequence[DaemonService], error: MeasureError,
                since: Mapping[Daemon, int]) -> str:
    """Return the causes of a failure that daemons' logs state since the context began.

    If only weak statements are found, the last one counts: the server's.
    """
    names = _ASKED.get(error.stage, ())
    daemons = [daemon for service in services if service.name in names
               for daemon in dict.fromkeys(service.daemons.values())]
    for takes_weak in (False, True):
        causes = [f"{daemon.name}: {cause}" for daemon in daemons if (
            cause := daemon.cause_since(since.get(daemon, 0), takes_weak=takes_weak))
            and cause not in error.reason]
        if causes:
            return "; ".join(causes[-1:] if takes_weak else causes[:_MOST_CAUSES])
    return ""
