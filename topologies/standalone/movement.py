"""Move a station in an example script, set its signal by distance, and print its state.

The scripts are those in topologies/examples, with Mininet-WiFi. `watch_station` prints a line every
second while a ping to the peer runs, and returns whether the scenario succeeded. The station
stands, or drives as Mininet-WiFi moves it. `follow_station` sets the signal of every access point
by its distance from the mobile node.
"""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from mininet.log import output
from mininet.node import Node
from mn_wifi.net import Mininet_wifi

from topologies.model import Scenario
from topologies.standalone.daemons import StationState
from topologies.standalone.network import (
    RADIOS,
    as_position,
    node_command,
    phy_of,
    radio_of,
    run_command,
)

# --- Signals by distance ---
# Mininet-WiFi's propagation model computes the signal, and the kernel's radios report it. So `iw`,
# captures and wpa_supplicant see it change with the distance. wpa_supplicant moves the station when
# it finds a better access point.

_INTERVAL_S = 0.2


class SignalSetter:
    """A setter of the signal strength (dBm) that the kernel reports for one access point.

    Its radio has a debugfs file for it, to which the kernel adds the transmit power; the file
    accepts -100 to -1. Raises RuntimeError before Linux 5.18, which has no such file. (Without it
    only the transmit power could be set. That allows no signal weaker than -50 dBm, which
    wpa_supplicant 2.10 does not leave.)
    """

    def __init__(self, access_point: Node) -> None:
        self._file = RADIOS / phy_of(access_point) / "hwsim" / "rx_rssi"
        if not self._file.exists():
            raise RuntimeError(f"{self._file} is not there: no signal can be set; take Linux 5.18 "
                               "or later")
        self._power = round(access_point.wintfs[0].txpower)
        self._last: int | None = None

    def set_signal(self, signal: float) -> None:
        """Set the signal strength that the kernel reports for every frame from now on."""
        value = round(min(max(signal - self._power, -100), -1))
        if value != self._last:
            self._last = value
            # The kernel accepts no minus sign here, but any 64-bit number.
            self._file.write_text(f"{value % 2**64}\n")


@contextmanager
def follow_station(net: Mininet_wifi, scenario: Scenario) -> Iterator[None]:
    """Set every access point's signal strength by its distance from the mobile node.

    The kernel has one value for all receivers of a transmitter, so the mobile node's is used. The
    signals of other stations at an access point change with it.
    """
    station = net[scenario.mobile_node]
    dials = {point: SignalSetter(point) for point in net.aps}
    ended = threading.Event()

    def update_signals() -> None:
        interface = station.wintfs[0]
        for point, dial in dials.items():
            dial.set_signal(interface.get_rssi(point.wintfs[0], station.get_distance_to(point)))

    def follow_moves() -> None:
        while not ended.wait(_INTERVAL_S):
            update_signals()

    update_signals()
    thread = threading.Thread(target=follow_moves, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# --- Drive, ping and state ---

_PING_S = 0.2
#: Seconds that a ping continues if no station drives, and after a drive.
STANDING_S = 4
_SIGNAL = re.compile(r"signal: (-?\d+) dBm")
_ROW = "{:>5}  {:>13}  {:>8}  {:<14} {:<22} {}\n"


@dataclass
class PingCounts:
    """The number of ping requests with a reply and without one."""

    answered: int = 0
    lost: int = 0

    def __str__(self) -> str:
        return f"{self.answered} of {self.answered + self.lost} answered"


@contextmanager
def run_ping(net: Mininet_wifi, name: str, address: str) -> Iterator[PingCounts]:
    """Ping an address from a node inside the context, and yield the running counts."""
    argv = ["ping", "-n", "-O", "-i", str(_PING_S), address]
    process = subprocess.Popen(node_command(net[name], argv), stdout=subprocess.PIPE, text=True,
                               start_new_session=True)
    echoes = PingCounts()

    def count_echoes() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            echoes.answered += "bytes from" in line
            echoes.lost += "no answer yet" in line

    reader = threading.Thread(target=count_echoes, daemon=True)
    reader.start()
    try:
        yield echoes
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=10)
        reader.join()


def watch_station(net: Mininet_wifi, scenario: Scenario, station: StationState) -> bool:
    """Ping the peer while the station drives, and return whether the scenario succeeded.

    One line a second shows the mobile node's position, signal, access point and agent. The signal
    is the kernel's, the access point wpa_supplicant's, the agent that of the last accepted
    registration. The scenario succeeded if the node is at the scenario's access point and the peer
    answers.
    """
    names = {node.address: name for name, node in scenario.network.nodes.items()
             if node.has_duty("home_agent")}
    seconds = STANDING_S + (scenario.mobility.stop_s if scenario.mobility else 0)
    output(_ROW.format("t", "position", "signal", "access point", "registered with",
                       f"ping to {scenario.peer}"))
    started = time.monotonic()
    before = now = PingCounts()
    with run_ping(net, station.name, scenario.network.nodes[scenario.peer].address) as echoes:
        for second in range(1, seconds + 1):
            time.sleep(max(0.0, started + second - time.monotonic()))
            before, now = now, replace(echoes)
            output(_ROW.format(
                f"{second} s", position_of(net, station.name), signal_of(net, station.name),
                station.access_point or "none", describe_registration(station, names),
                PingCounts(now.answered - before.answered, now.lost - before.lost)))
    print_moves(station, names)
    output(f"ping: {echoes}\n")
    return station.access_point == scenario.access_point and now.answered > before.answered


def add_mobility(net: Mininet_wifi, scenario: Scenario) -> None:
    """Configure the mobile node's drive in Mininet-WiFi. It starts with `net.build()`."""
    start = scenario.network.nodes[scenario.mobile_node].position
    drive = scenario.mobility
    assert start is not None and drive is not None
    station = net[scenario.mobile_node]
    net.startMobility(time=0)
    net.mobility(station, "start", time=drive.start_s, position=as_position(start))
    net.mobility(station, "stop", time=drive.stop_s, position=as_position(drive.to))
    net.stopMobility(time=drive.stop_s + 1)


def start_network(net: Mininet_wifi) -> None:
    """Start Mininet-WiFi's network with `net.build()`, which starts the mobility.

    Mininet-WiFi draws at each step of a node. Without a screen, drawing would only slow it down.
    """
    draws = net.draw
    net.draw = draws and _has_screen()
    net.build()
    net.draw = draws


def save_plot(net: Mininet_wifi, file: str) -> None:
    """Save Mininet-WiFi's plot of the current positions as a picture, if it has no window."""
    if not net.draw or _has_screen():
        return
    from matplotlib import pyplot as plt

    net.check_dimension(net.get_mn_wifi_nodes())
    plt.figure(1).savefig(file, bbox_inches="tight")
    output(f"plot: {file}\n")


def _has_screen() -> bool:
    from matplotlib import pyplot as plt

    return plt.get_backend().lower() != "agg"


def position_of(net: Mininet_wifi, name: str) -> str:
    """Return a node's current position in metres."""
    return ", ".join(f"{value:g}" for value in net[name].position[:2])


def signal_of(net: Mininet_wifi, name: str) -> str:
    """Return the signal strength of a station's access point, as the kernel reports it."""
    match = _SIGNAL.search(run_command(net[name], ["iw", "dev", radio_of(net[name]), "link"]))
    return f"{match[1]} dBm" if match else "none"


def describe_registration(station: StationState, names: dict[str, str]) -> str:
    """Return the agent of the last accepted registration, with the care-of address if away."""
    if not station.registered:
        return "none"
    last = station.registered[-1]
    return names.get(last.agent, last.agent) + (f", {last.care_of}" if last.care_of else ", home")


def print_moves(station: StationState, names: dict[str, str]) -> None:
    """Print every change of the access point, and the time of its Mobile IP registration."""
    for move in station.associated[1:]:
        after = next((done for done in station.registered if done.at_s >= move.at_s), None)
        registered = (f"registered with {names.get(after.agent, after.agent)} "
                      f"{1000 * (after.at_s - move.at_s):.0f} ms later" if after
                      else "not registered since")
        output(f"{station.name} moved to {move.access_point} by itself; {registered}\n")
