"""Bring up the daemons a policy needs on every node, and take them down in reverse order.

They serve every scenario of their network; `enter` says which of them comes next.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from measure import ike, iperf
from measure.errors import MeasureError
from measure.process import Daemon
from measure.registration import Registration
from measure.station import IKE_S, Station
from measure.wpa_ctrl import Control
from topologies.builder import Testbed
from topologies.model import Node, Scenario

_CHARON = "/usr/lib/ipsec/charon"
# 8 s were seen, where the processor is emulated and shared.
_LOAD_S = 30.0
_AGENT_CHILDREN = ("home", "visit", "subnets")


@dataclass(frozen=True)
class MobileIp:
    """Settings of Mobile IP that are the same for every node of a testbed.

    Agents hold `key_hex`, mobile nodes `node_key_hex`: the same key, but for a negative control.
    """

    spi: int
    key_hex: str
    node_key_hex: str
    detection: str = "event"
    lifetime_s: int = 600
    advertisement_interval_s: float = 1.0


class Services:
    """The daemons of one policy on a built network. A context manager.

    A node runs the daemons it has configuration files for; `withhold` names daemons that are left
    out on purpose (a negative control).
    """

    def __init__(self, testbed: Testbed, scenarios: Sequence[Scenario], mount: Path, logs: Path,
                 mobile_ip: MobileIp, withhold: frozenset[str] = frozenset()) -> None:
        self.testbed = testbed
        self.scenarios = scenarios
        self.mount = mount
        self.logs = logs
        self._mobile_ip = mobile_ip
        self._withhold = withhold
        self._stack = ExitStack()
        self.daemons: dict[str, Daemon] = {}
        self.stations: dict[str, Station] = {}
        self.authenticators: dict[str, Control] = {}
        self._at_home: set[str] = set()
        self._measured: set[str] = set()

    def __enter__(self) -> Services:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def enter(self, scenario: Scenario) -> None:
        """Have the scenario's companions at home, and of the other stations none on the air."""
        staying = self._at_home & set(scenario.companions)
        for name in (self._at_home | self._measured) - staying - {scenario.mobile_node}:
            self.take_off(self.stations[name])
        self._at_home = staying
        self._measured = {scenario.mobile_node}
        for name in set(scenario.companions) - staying:
            # From nothing: an attempt that failed may have left it halfway.
            self.take_off(self.stations[name])
            self.stations[name].connect(self.testbed.network.nodes[scenario.home_of(name)])
            self._at_home.add(name)

    def take_off(self, station: Station) -> None:
        """Off the air, forgotten by every access point, and its earlier events with it."""
        station.leave()
        for authenticator in self.authenticators.values():
            authenticator.request(f"DEAUTHENTICATE {station.mac}")
        station.supplicant.forget()

    @property
    def has_dot1x(self) -> bool:
        """Whether the policy has an authentication server."""
        return bool(self._having("freeradius"))

    @property
    def has_ipsec(self) -> bool:
        """Whether the policy has tunnels between mobile nodes and home agents."""
        return bool(self._having("strongswan.conf", "home_agent"))

    def charon_socket(self, node: str) -> Path:
        """Where the charon of a node listens for vici."""
        return self.mount / node / "run" / "charon.vici"

    @contextmanager
    def silent_radius(self, agent: str) -> Iterator[None]:
        """Hold an agent's authentication server still, so that it admits nobody."""
        daemon = self.daemons[f"freeradius {agent}"]
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(daemon.pid, signal.SIGCONT)

    def _start(self) -> None:
        for node in self.testbed.network.nodes:
            (self.mount / node / "run").mkdir(parents=True, exist_ok=True)
        stations = self.testbed.network.of_kind("station")
        # Slow starters first, all at once; then wait for each.
        starting = [*self._radius(), *self._charons(), *self._agents()]
        registrations = {name: self._registration(name) for name in stations}
        supplicants = {name: self._supplicant_daemon(name) for name in stations}
        starting += [*self._access_points(), *self._iperf_servers()]
        for daemon in [*starting, *supplicants.values()]:
            daemon.wait_ready()
        for node in self._having("strongswan.conf"):
            self._load_connections(node)
        for name in stations:
            registrations[name].wait_ready()
            self.stations[name] = self._station(name, registrations[name])
        for name in self.testbed.network.of_kind("access_point"):
            self.authenticators[name] = self._authenticator(name)
        self._tunnel_between_agents()

    def _tunnel_between_agents(self) -> None:
        """The wired path is protected, too, wherever the policy has IPsec."""
        agents = self._having("strongswan.conf", "home_agent")
        if len(agents) < 2:
            return
        with ike.session(self.charon_socket(agents[0])) as session:
            for child in _AGENT_CHILDREN:
                ike.initiate(session, child, IKE_S)

    def _having(self, file: str, kind: str | None = None) -> list[str]:
        nodes = self.testbed.network.nodes
        return [name for name, node in nodes.items()
                if (self.mount / name / file).exists() and kind in (None, node.kind)]

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

    def _iperf_servers(self) -> list[Daemon]:
        peers = dict.fromkeys(scenario.peer for scenario in self.scenarios)
        return [self._add("iperf3", peer, iperf.server(self.testbed, peer,
                                                       self._log("iperf3", peer)))
                for peer in peers]

    def _agents(self) -> list[Daemon]:
        return [self._daemon("mobile-ip", name, self._python(
            "topologies.mobile_ip.agent", self._agent_settings(name)), r'"event": ?"ready"')
            for name in self.testbed.network.of_kind("home_agent")]

    def _agent_settings(self, name: str) -> Path:
        nodes = self.testbed.network.nodes
        node = nodes[name]
        own = next(port for port, i in node.interfaces.items()
                   if i.address and i.address.startswith(f"{node.address}/"))
        shared = self._mobile_ip
        return self._settings(name, {
            "interface": own, "address": node.address, "care_of": node.outer_address,
            "wired_interface": node.interface_of(node.outer_address),
            "home": [{"address": nodes[station].address, "spi": shared.spi,
                      "key_hex": shared.key_hex}
                     for station in self.testbed.network.of_kind("station")
                     if nodes[station].agent == name],
            "advertisement_interval_s": shared.advertisement_interval_s,
            "lifetime_s": shared.lifetime_s})

    def _registration(self, name: str) -> Registration:
        node = self.testbed.network.nodes[name]
        shared = self._mobile_ip
        settings = self._settings(name, {
            "interface": node.radio_interface, "home_address": node.address,
            "home_agent": self.testbed.network.nodes[node.agent or ""].address,
            "spi": shared.spi, "key_hex": shared.node_key_hex, "lifetime_s": shared.lifetime_s,
            "detection": shared.detection})
        argv = self.testbed.command(name, self._python("topologies.mobile_ip.node", settings))
        return self._stack.enter_context(
            Registration(name, argv, self._log("mobile-ip", name)))

    def _settings(self, node: str, values: dict[str, object]) -> Path:
        path = self.mount / node / "run" / "mobile-ip.json"
        path.write_text(json.dumps(values))
        return path

    def _python(self, module: str, settings: Path) -> list[str]:
        return [sys.executable, "-m", module, str(settings)]

    def _supplicant_daemon(self, node: str) -> Daemon:
        # Started without an interface, so that adding one through the global socket is answered
        # when the interface's own control socket is there.
        return self._daemon("wpa_supplicant", node, [
            "wpa_supplicant", "-g", str(self.mount / node / "run" / "global")],
            r"Successfully initialized wpa_supplicant")

    def _station(self, name: str, registration: Registration) -> Station:
        home = self.mount / name
        node = self.testbed.network.nodes[name]
        interface = node.radio_interface
        with Control(home / "run" / "global", f"wpa_supplicant on {name}") as everything:
            everything.command(f"INTERFACE_ADD {interface}\t{home / 'wpa_supplicant.conf'}\tnl80211"
                               f"\t{home / 'run' / 'wpa_supplicant'}")
        supplicant = self._stack.enter_context(
            Control(home / "run" / "wpa_supplicant" / interface, f"wpa_supplicant on {name}"))
        charon = self.charon_socket(name) if name in self._having("strongswan.conf") else None
        return Station(self.testbed, name, node, supplicant, registration, charon)

    def _authenticator(self, name: str) -> Control:
        node: Node = self.testbed.network.nodes[name]
        return self._stack.enter_context(
            Control(self.mount / name / "run" / "hostapd" / node.radio_interface,
                    f"hostapd on {name}"))

    def _load_connections(self, node: str) -> None:
        home = self.mount / node
        done = subprocess.run(
            ["swanctl", "--load-all", "--noprompt", "--uri", f"unix://{self.charon_socket(node)}"],
            env={**os.environ, "STRONGSWAN_CONF": str(home / "strongswan.conf"),
                 "SWANCTL_DIR": str(home / "swanctl")},
            capture_output=True, text=True, timeout=_LOAD_S, check=False)
        if done.returncode:
            raise MeasureError("testbed", f"swanctl on {node}: "
                               f"{(done.stderr or done.stdout).strip().splitlines()[-1]}")


def install(source: Path, mount: Path) -> None:
    """Put a policy's rendered files where its daemons look for them, in place of the last ones."""
    shutil.rmtree(mount, ignore_errors=True)
    shutil.copytree(source, mount)
    mount.chmod(0o755)
