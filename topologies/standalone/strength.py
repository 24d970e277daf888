"""Signal strength from distance: what a moving station hears of every access point.

Mininet-WiFi's propagation model says what reaches the station, the kernel's radios report it. So
whatever reads a signal sees it fall and rise with the distance: `iw`, captures, and wpa_supplicant,
which moves the station when it finds a better access point.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mininet.node import Node
from mn_wifi.net import Mininet_wifi

from topologies.model import Scenario
from topologies.standalone.network import phy_of, radio_of, run

_INTERVAL_S = 0.2
_DEBUGFS = Path("/sys/kernel/debug/ieee80211")
# What is added to a signal where only the transmit power can be set: cells meet at about -80 dBm.
_SHIFT_DB = 40


def shift_db() -> int:
    """What reported signals lie above Mininet-WiFi's: 0, unless only the power can be set."""
    return 0 if any(_DEBUGFS.glob("*/hwsim/rx_rssi")) else _SHIFT_DB


class Dial:
    """Sets what is reported of the frames of one access point. Units are dBm.

    Since Linux 5.18 a radio has a file for it, `rx_rssi` in debugfs, to which the kernel adds the
    transmit power. Before, there is only the power, of 0 to 20, and 50 less is reported; what the
    model says is then shifted into that range.
    """

    def __init__(self, access_point: Node) -> None:
        self._node = access_point
        self._interface = radio_of(access_point)
        self._file = _DEBUGFS / phy_of(access_point) / "hwsim" / "rx_rssi"
        self.by_power = not self._file.exists()
        self._power = round(access_point.wintfs[0].txpower)
        self.last: int | None = None

    def set(self, signal: float) -> None:
        """Have the kernel report this for every frame from now on, as near as it can."""
        if self.by_power:
            value = round(min(max(signal + _SHIFT_DB + 50, 0), 20))
        else:
            value = round(min(max(signal - self._power, -100), -1))
        if value == self.last:
            return
        self.last = value
        if self.by_power:
            run(self._node, ["iw", "dev", self._interface, "set", "txpower", "fixed",
                             str(100 * value)])
        else:
            self._file.write_text(f"{value}\n")


@contextmanager
def following(net: Mininet_wifi, scenario: Scenario) -> Iterator[None]:
    """Keep every access point's signal true to the mobile node's distance while this holds.

    The kernel has one value for all who hear a transmitter, so it is the mobile node's: the other
    stations of a cell see theirs change with it.
    """
    station = net[scenario.mobile_node]
    dials = {point: Dial(point) for point in net.aps}
    ended = threading.Event()

    def update() -> None:
        heard = station.wintfs[0]
        for point, dial in dials.items():
            dial.set(heard.get_rssi(point.wintfs[0], station.get_distance_to(point)))

    def follow() -> None:
        while not ended.wait(_INTERVAL_S):
            update()

    update()
    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
