"""Start hostapd, wpa_supplicant and Mobile IP for an example script, on an open network.

The scripts are those in topologies/examples. `run_daemons` takes the network and its scenario
(which node talks to which). It starts the daemons and waits until every station has joined its home
access point. It yields the state of each station (`StationState`), which the daemons' output lines
update.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mininet.log import info
from mn_wifi.net import Mininet_wifi

from topologies.model import Node, Scenario
from topologies.standalone.network import node_command, radio_of

_ROOT = Path(__file__).parent.parent.parent
_READY_S = 20.0
_SPI = 256
# Below this signal in dBm a station that may roam searches for a better access point, at this
# interval in seconds. wpa_supplicant 2.10 leaves only an access point that is weaker than -67 dBm,
# 25 dB above the noise.
_THRESHOLD_DBM = -70
_EVERY_S = 2
_HOSTAPD = """\
interface={interface}
bridge={bridge}
driver=nl80211
ctrl_interface={control}
ssid={ssid}
hw_mode=b
channel={channel}
ap_isolate=1
"""
_SUPPLICANT = """\
ctrl_interface={control}
p2p_disabled=1
network={{
    ssid="{ssid}"
    key_mgmt=NONE
    scan_freq={frequencies}
    {choice}
}}
"""


class DaemonError(RuntimeError):
    """An error: a daemon did not start, or a station did not associate. The text is one line."""


class StandaloneDaemon:
    """A program on a node, whose output lines are logged and passed on."""

    def __init__(self, what: str, node: object, argv: list[str], log: Path,
                 on_line: Callable[[str], None] = lambda _: None) -> None:
        self.what = what
        self._log = log
        self._on_line = on_line
        self._news = threading.Condition()
        self._lines: list[str] = []
        self.process = subprocess.Popen(
            node_command(node, argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            # Ctrl-C on Mininet's command line is for the programs that run there.
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(_ROOT)})
        self._reader = threading.Thread(target=self._read_lines, daemon=True)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        """Wait for an output line of the program that contains `text`.

        Raises:
            DaemonError: No such line appears in time.
        """
        with self._news:
            if not self._news.wait_for(lambda: any(text in line for line in self._lines)
                                       or self.process.poll() is not None, _READY_S) or not any(
                                           text in line for line in self._lines):
                last = self._lines[-1] if self._lines else "it says nothing"
                raise DaemonError(f"{self.what}: no {text!r} within {_READY_S:g} s; it said last: "
                                  f"{last}")

    def send_command(self, order: str) -> None:
        """Send a command to the program's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": order}) + "\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """End the program and wait for its end."""
        self.process.terminate()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        with self._log.open("w") as log:
            for line in self.process.stdout:
                log.write(line)
                log.flush()
                with self._news:
                    self._lines.append(line.rstrip())
                    self._news.notify_all()
                self._on_line(line)
        with self._news:
            self._news.notify_all()


@dataclass(frozen=True)
class Association:
    """An association of a station with an access point. Times are of the monotonic clock."""

    at_s: float
    access_point: str


@dataclass(frozen=True)
class Registration:
    """An accepted Mobile IP registration. At home there is no care-of address."""

    at_s: float
    agent: str
    care_of: str | None


@dataclass
class StationState:
    """The access point and the Mobile IP registrations of a station, from its daemons' output."""

    name: str
    access_points: dict[str, str]  # names by BSSID
    mobile_ip: StandaloneDaemon | None = None
    associated: list[Association] = field(default_factory=list)
    registered: list[Registration] = field(default_factory=list)

    @property
    def access_point(self) -> str | None:
        """Return the access point with which the station is associated."""
        return self.associated[-1].access_point if self.associated else None

    def add_supplicant_line(self, line: str) -> None:
        """Note a new association in wpa_supplicant's output, and notify Mobile IP of it."""
        if "CTRL-EVENT-CONNECTED" not in line:
            return
        bssid = line.partition("Connection to ")[2].partition(" ")[0]
        self.associated.append(Association(time.monotonic(),
                                           self.access_points.get(bssid, bssid)))
        if self.mobile_ip is not None:
            self.mobile_ip.send_command("attached")

    def add_mobile_ip_line(self, line: str) -> None:
        """Note a registration in the output of the Mobile IP program."""
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") == "registered":
            self.registered.append(Registration(time.monotonic(), event["agent"],
                                                event["care_of"]))


class StandaloneDaemons:
    """All daemons of an example's scenario. A driving mobile node chooses its access point."""

    def __init__(self, net: Mininet_wifi, scenario: Scenario, folder: Path,
                 stack: ExitStack) -> None:
        self._net = net
        self._scenario = scenario
        self._folder = folder
        self._stack = stack
        self._keys = {name: secrets.token_hex(16) for name in scenario.network.of_duty("station")}
        nodes = scenario.network.nodes
        bssids = {nodes[name].interfaces[nodes[name].radio_interface].radio or "": name
                  for name in scenario.network.of_duty("access_point")}
        self.stations = {name: StationState(name, bssids) for name in self._keys}

    def start(self) -> None:
        """Start all daemons and wait until they are ready.

        Raises:
            DaemonError: A daemon does not start, or a station does not associate or register.
        """
        network = self._scenario.network
        agents = [self._start_agent(name) for name in network.of_duty("home_agent")]
        points = [self._start_access_point(name) for name in network.of_duty("access_point")]
        for daemon in agents:
            daemon.wait_for('"ready"')
        for daemon in points:
            daemon.wait_for("AP-ENABLED")
        for name, station in self.stations.items():
            station.mobile_ip = self._start_mobile_node(name, station)
            station.mobile_ip.wait_for('"ready"')
        for daemon in [self._start_supplicant(*item) for item in self.stations.items()]:
            daemon.wait_for("CTRL-EVENT-CONNECTED")
        for station in self.stations.values():
            assert station.mobile_ip is not None
            station.mobile_ip.wait_for('"registered"')

    def _start_daemon(self, what: str, name: str, argv: list[str],
                      on_line: Callable[[str], None] = lambda _: None) -> StandaloneDaemon:
        daemon = StandaloneDaemon(f"{what} on {name}", self._net[name], argv,
                                  self._folder / f"{name}-{what}.log", on_line)
        self._stack.callback(daemon.stop)
        return daemon

    def _write_file(self, name: str, text: str) -> str:
        path = self._folder / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    def _find_node(self, name: str) -> Node:
        return self._scenario.network.nodes[name]

    def _start_access_point(self, name: str) -> StandaloneDaemon:
        node = self._find_node(name)
        return self._start_daemon("hostapd", name,
                                  ["hostapd", self._write_file(f"{name}.conf", _HOSTAPD.format(
            interface=radio_of(self._net[name]), ssid=node.ssid, channel=node.channel,
            bridge=node.interfaces[node.radio_interface].bridge, control=self._folder / name))])

    def _start_supplicant(self, name: str, station: StationState) -> StandaloneDaemon:
        nodes = self._scenario.network.nodes
        home = nodes[self._scenario.home_of(name)]
        choice = f"bssid={home.interfaces[home.radio_interface].radio}"
        if name == self._scenario.mobile_node and self._scenario.mobility:
            choice = f'bgscan="simple:{_EVERY_S}:{_THRESHOLD_DBM}:{10 * _EVERY_S}"'
        channels = {nodes[point].channel or 1
                    for point in self._scenario.network.of_duty("access_point")}
        return self._start_daemon("wpa_supplicant", name, [
            "wpa_supplicant", "-i", radio_of(self._net[name]), "-c",
            self._write_file(f"{name}.conf", _SUPPLICANT.format(
                control=self._folder / name, ssid=home.ssid, choice=choice,
                frequencies=" ".join(str(2407 + 5 * channel) for channel in sorted(channels))))],
            station.add_supplicant_line)

    def _start_agent(self, name: str) -> StandaloneDaemon:
        node = self._find_node(name)
        return self._start_program("agent", name, {
            "interface": node.interface_of(node.address), "address": node.address,
            "care_of": node.outer_address, "wired_interface": node.interface_of(node.outer_address),
            "home": [{"address": self._find_node(station).address, "spi": _SPI, "key_hex": key}
                     for station, key in self._keys.items()
                     if self._find_node(station).agent == name]})

    def _start_mobile_node(self, name: str, station: StationState) -> StandaloneDaemon:
        node = self._find_node(name)
        return self._start_program("node", name, {
            "interface": radio_of(self._net[name]), "home_address": node.address,
            "home_agent": self._find_node(node.agent or "").address, "spi": _SPI,
            "key_hex": self._keys[name]}, station.add_mobile_ip_line)

    def _start_program(self, program: str, name: str, settings: dict[str, object],
                       on_line: Callable[[str], None] = lambda _: None) -> StandaloneDaemon:
        path = self._write_file(f"{name}-mobile-ip.json", json.dumps(settings))
        return self._start_daemon("mobile-ip", name, [
            sys.executable, "-m", f"topologies.mobile_ip.{program}", path], on_line)


@contextmanager
def run_daemons(net: Mininet_wifi, scenario: Scenario) -> Iterator[dict[str, StationState]]:
    """Run all daemons inside the context, after every station has joined at home.

    Their files are removed afterwards.

    Raises:
        DaemonError: A daemon does not start.
    """
    with tempfile.TemporaryDirectory(prefix="qop-") as folder, ExitStack() as stack:
        daemons = StandaloneDaemons(net, scenario, Path(folder), stack)
        daemons.start()
        info(f"logs, control sockets: {folder}\n")
        yield daemons.stations
