"""Bring up the daemons a policy needs on every node, and take them down in reverse order."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from measure import iperf
from measure.errors import MeasureError
from measure.process import Daemon
from measure.wpa_ctrl import Control
from topologies.builder import Testbed
from topologies.model import Scenario

_CHARON = "/usr/lib/ipsec/charon"


class Services:
    """The daemons of one policy on a built network. A context manager.

    A node runs the daemons it has configuration files for; `withhold` names daemons that are left
    out on purpose (a negative control).
    """

    def __init__(self, testbed: Testbed, scenario: Scenario, mount: Path, logs: Path,
                 withhold: frozenset[str] = frozenset()) -> None:
        self.testbed = testbed
        self.scenario = scenario
        self.mount = mount
        self.logs = logs
        self._withhold = withhold
        self._stack = ExitStack()
        self.daemons: dict[str, Daemon] = {}

    def __enter__(self) -> Services:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def has_dot1x(self) -> bool:
        """Whether the policy has an authentication server."""
        return (self.mount / self.scenario.agent / "freeradius").is_dir()

    @property
    def has_ipsec(self) -> bool:
        """Whether the policy has a tunnel between mobile node and home agent."""
        return (self.mount / self.scenario.agent / "strongswan.conf").is_file()

    def charon_socket(self, node: str) -> Path:
        """Where the charon of a node listens for vici."""
        return self.mount / node / "run" / "charon.vici"

    @contextmanager
    def silent_radius(self) -> Iterator[None]:
        """Hold the authentication server still, so that nobody can be admitted meanwhile."""
        daemon = self.daemons[f"freeradius {self.scenario.agent}"]
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(daemon.pid, signal.SIGCONT)

    def _start(self) -> None:
        for node in self.testbed.network.nodes:
            (self.mount / node / "run").mkdir(parents=True, exist_ok=True)
        # Slow starters first, all at once; then wait for each.
        starting = [*self._radius(), *self._charons(), *self._access_points(),
                    self._add("iperf3", self.scenario.peer, iperf.server(
                        self.testbed, self.scenario.peer, self._log("iperf3", self.scenario.peer)))]
        supplicant = self._supplicant_daemon(self.scenario.mobile_node)
        for daemon in starting:
            daemon.wait_ready()
        supplicant.wait_ready()
        self.supplicant = self._supplicant(self.scenario.mobile_node)
        access_point = self.scenario.access_point
        interface = self.testbed.network.nodes[access_point].radio_interface
        self.authenticator = self._stack.enter_context(
            Control(self.mount / access_point / "run" / "hostapd" / interface,
                    f"hostapd on {access_point}"))
        for node in self._having("strongswan.conf"):
            self._load_connections(node)

    def _having(self, file: str) -> list[str]:
        return [node for node in self.testbed.network.nodes if (self.mount / node / file).exists()]

    def _log(self, daemon: str, node: str) -> Path:
        return self.logs / f"{node}-{daemon}.log"

    def _add(self, daemon: str, node: str, process: Daemon) -> Daemon:
        self.daemons[f"{daemon} {node}"] = self._stack.enter_context(process)
        return process

    def _daemon(self, daemon: str, node: str, argv: list[str], ready: str,
                environment: dict[str, str] | None = None) -> Daemon:
        return self._add(daemon, node, Daemon(
            f"{daemon} on {node}", self.testbed.command(node, argv), self._log(daemon, node),
            ready, env={**os.environ, **(environment or {})}))

    def _radius(self) -> list[Daemon]:
        if "freeradius" in self._withhold:
            return []
        return [self._daemon("freeradius", node, [
            "freeradius", "-f", "-l", "stdout", "-d", str(self.mount / node / "freeradius"),
            "-n", "radiusd"], r"Ready to process requests")
            for node in self._having("freeradius")]

    def _charons(self) -> list[Daemon]:
        daemons = []
        for node in self._having("strongswan.conf"):
            # Charon keeps its pid file in /run: every node needs a /run of its own.
            self.testbed.run(node, ["mount", "-t", "tmpfs", "tmpfs", "/run"])
            daemons.append(self._daemon(
                "charon", node, [_CHARON], r"spawning \d+ worker threads",
                {"STRONGSWAN_CONF": str(self.mount / node / "strongswan.conf")}))
        return daemons

    def _access_points(self) -> list[Daemon]:
        return [self._daemon("hostapd", node, ["hostapd", str(self.mount / node / "hostapd.conf")],
                             r"AP-ENABLED") for node in self._having("hostapd.conf")]

    def _supplicant_daemon(self, node: str) -> Daemon:
        # Started without an interface, so that adding one through the global socket is answered
        # when the interface's own control socket is there.
        return self._daemon("wpa_supplicant", node, [
            "wpa_supplicant", "-g", str(self.mount / node / "run" / "global")],
            r"Successfully initialized wpa_supplicant")

    def _supplicant(self, node: str) -> Control:
        home = self.mount / node
        interface = self.testbed.network.nodes[node].radio_interface
        with Control(home / "run" / "global", f"wpa_supplicant on {node}") as everything:
            everything.command(f"INTERFACE_ADD {interface}\t{home / 'wpa_supplicant.conf'}\tnl80211"
                               f"\t{home / 'run' / 'wpa_supplicant'}")
        return self._stack.enter_context(
            Control(home / "run" / "wpa_supplicant" / interface, f"wpa_supplicant on {node}"))

    def _load_connections(self, node: str) -> None:
        home = self.mount / node
        done = subprocess.run(
            ["swanctl", "--load-all", "--noprompt", "--uri", f"unix://{self.charon_socket(node)}"],
            env={**os.environ, "STRONGSWAN_CONF": str(home / "strongswan.conf"),
                 "SWANCTL_DIR": str(home / "swanctl")},
            capture_output=True, text=True, timeout=10, check=False)
        if done.returncode:
            raise MeasureError("testbed", f"swanctl on {node}: "
                               f"{(done.stderr or done.stdout).strip().splitlines()[-1]}")


def install(source: Path, mount: Path) -> None:
    """Put a policy's rendered files where its daemons look for them, in place of the last ones."""
    shutil.rmtree(mount, ignore_errors=True)
    shutil.copytree(source, mount)
    mount.chmod(0o755)
