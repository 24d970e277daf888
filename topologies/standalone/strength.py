"""Set signal strengths from distance: what a moving station hears of every access point.

Mininet-WiFi's propagation model computes the signal, and the kernel's radios report it. So every
reader of a signal sees it change with the distance: `iw`, captures, and wpa_supplicant, which
moves the station when it finds a better access point.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mininet.node import Node
from mn_wifi.net import Mininet_wifi

from topologies.model import Scenario
from topologies.standalone.network import RADIOS, phy_of

_INTERVAL_S = 0.2


class Dial:
    """A setter of the signal in dBm that is reported for one access point.

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
        """Set the signal that the kernel reports for every frame from now on, within its range."""
        value = round(min(max(signal - self._power, -100), -1))
        if value != self._last:
            self._last = value
            # The kernel accepts no minus sign here, but any 64-bit number.
            self._file.write_text(f"{value % 2**64}\n")


@contextmanager
def follow_station(net: Mininet_wifi, scenario: Scenario) -> Iterator[None]:
    """Keep every access point's signal at the mobile node's distance inside the context.

    The kernel has one value for all receivers of a transmitter, so the mobile node's is used. The
    signals of other stations of a cell change with it.
    """
    station = net[scenario.mobile_node]
    dials = {point: Dial(point) for point in net.aps}
    ended = threading.Event()

    def update() -> None:
        heard = station.wintfs[0]
        for point, dial in dials.items():
            dial.set_signal(heard.get_rssi(point.wintfs[0], station.get_distance_to(point)))

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
