"""Signal strength from distance: what a moving station hears of every access point.

Mininet-WiFi's propagation model says what reaches the station, the kernel's radios report it. So
whatever reads a signal sees it fall and rise with the distance: `iw`, captures, and wpa_supplicant,
which moves the station when it finds a better access point.
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
    """Sets the signal, in dBm, that is reported of the frames of one access point.

    Its radio has a file for it in debugfs, to which the kernel adds the transmit power; it takes
    -100 to -1. Raises RuntimeError before Linux 5.18, which has none. (There is only the power
    then, and by it nothing weaker than -50 dBm, which wpa_supplicant 2.10 does not leave.)
    """

    def __init__(self, access_point: Node) -> None:
        self._file = RADIOS / phy_of(access_point) / "hwsim" / "rx_rssi"
        if not self._file.exists():
            raise RuntimeError(f"{self._file} is not there: no signal can be set; take Linux 5.18 "
                               "or later")
        self._power = round(access_point.wintfs[0].txpower)
        self._last: int | None = None

    def set(self, signal: float) -> None:
        """Have the kernel report this for every frame from now on, as near as it can."""
        value = round(min(max(signal - self._power, -100), -1))
        if value != self._last:
            self._last = value
            # The kernel takes no minus sign here, but every number of 64 bits.
            self._file.write_text(f"{value % 2**64}\n")


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
