"""Print the state of a station every second, with a ping to its peer.

The station stands or drives meanwhile.
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
from mn_wifi.net import Mininet_wifi

from topologies.model import Scenario
from topologies.standalone.daemons import StationState
from topologies.standalone.network import as_position, node_command, radio_of, run_command

_PING_S = 0.2
#: Seconds that a ping continues if no station drives, and after a drive.
STANDING_S = 4
_SIGNAL = re.compile(r"signal: (-?\d+) dBm")
_ROW = "{:>5}  {:>13}  {:>8}  {:<14} {:<22} {}\n"


@dataclass
class Echoes:
    """The number of echo requests with a reply and without one."""

    answered: int = 0
    lost: int = 0

    def __str__(self) -> str:
        return f"{self.answered} of {self.answered + self.lost} answered"


@contextmanager
def run_ping(net: Mininet_wifi, name: str, address: str) -> Iterator[Echoes]:
    """Ping from a node inside the context, and yield the running counts."""
    argv = ["ping", "-n", "-O", "-i", str(_PING_S), address]
    process = subprocess.Popen(node_command(net[name], argv), stdout=subprocess.PIPE, text=True,
                               start_new_session=True)
    echoes = Echoes()

    def count() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            echoes.answered += "bytes from" in line
            echoes.lost += "no answer yet" in line

    reader = threading.Thread(target=count, daemon=True)
    reader.start()
    try:
        yield echoes
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=10)
        reader.join()


def watch_station(net: Mininet_wifi, scenario: Scenario, station: StationState) -> bool:
    """Ping the peer while the station drives and some seconds more. Return whether all is well.

    One line a second shows the mobile node's position, signal, access point and agent. The signal
    is the kernel's, the access point wpa_supplicant's, the agent that of the last accepted
    registration. All is well if the node is at the scenario's access point and the peer answers.
    """
    names = {node.address: name for name, node in scenario.network.nodes.items()
             if node.has_duty("home_agent")}
    seconds = STANDING_S + (scenario.mobility.stop_s if scenario.mobility else 0)
    output(_ROW.format("t", "position", "signal", "access point", "registered with",
                       f"ping to {scenario.peer}"))
    started = time.monotonic()
    before = now = Echoes()
    with run_ping(net, station.name, scenario.network.nodes[scenario.peer].address) as echoes:
        for second in range(1, seconds + 1):
            time.sleep(max(0.0, started + second - time.monotonic()))
            before, now = now, replace(echoes)
            output(_ROW.format(
                f"{second} s", position_of(net, station.name), signal_of(net, station.name),
                station.access_point or "none", describe_registration(station, names),
                Echoes(now.answered - before.answered, now.lost - before.lost)))
    tell_moves(station, names)
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
    """Call `net.build()`, which starts the mobility.

    Mininet-WiFi draws at each step of a node. Without a screen, drawing would only slow it down.
    """
    draws = net.draw
    net.draw = draws and _has_screen()
    net.build()
    net.draw = draws


def save_plot(net: Mininet_wifi, file: str) -> None:
    """Save Mininet-WiFi's plot as a picture of the current positions if it has no window."""
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
    """Return the signal of a station's access point as its kernel reports it."""
    said = _SIGNAL.search(run_command(net[name], ["iw", "dev", radio_of(net[name]), "link"]))
    return f"{said[1]} dBm" if said else "none"


def describe_registration(station: StationState, names: dict[str, str]) -> str:
    """Return the agent of the last accepted registration, with the care-of address if away."""
    if not station.registered:
        return "none"
    last = station.registered[-1]
    return names.get(last.agent, last.agent) + (f", {last.care_of}" if last.care_of else ", home")


def tell_moves(station: StationState, names: dict[str, str]) -> None:
    """Print every move of the link after the first, and the time of its registration."""
    for move in station.associated[1:]:
        after = next((done for done in station.registered if done.at_s >= move.at_s), None)
        registered = (f"registered with {names.get(after.agent, after.agent)} "
                      f"{1000 * (after.at_s - move.at_s):.0f} ms later" if after
                      else "not registered since")
        output(f"{station.name} moved to {move.access_point} by itself; {registered}\n")
