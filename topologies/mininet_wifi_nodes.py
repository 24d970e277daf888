"""Create the nodes and emulated radios of a network with Mininet-WiFi, if it is installed.

`MininetWifiNodes` takes the description of a network (`topologies.model`). Only the part of
Mininet-WiFi before `build` is used: nodes, and radios with their interfaces. The project starts
hostapd and other daemons, and emulates the radio channel. Mininet-WiFi's `stop` is not called,
because it ends every hostapd of the machine.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from mininet.node import Node
from mn_wifi.module import Mac80211Hwsim
from mn_wifi.net import Mininet_wifi
from mn_wifi.node import AP

from topologies import hwsim, model
from topologies.mininet_nodes import SharedNamespaceNode

#: Folder in which Mininet-WiFi finds its radios: all of the machine's, in any namespace.
_ALL_RADIOS = Path("/sys/kernel/debug/ieee80211")
#: Pattern of its radio names, which begin with the creating process's number.
_ITS_NAME = re.compile(r"mn(\d{5,})p\d+s\d+")
# A namespace returns its radios a moment after its last process has ended.
_BACK_S = 5.0
_POLL_S = 0.02


class MininetWifiAccessPoint(SharedNamespaceNode, AP):  # type: ignore[misc]
    """Mininet-WiFi's access point, in the one namespace of all access points."""


class MininetWifiNodes:
    """A creator of a network's nodes and radios with Mininet-WiFi.

    A context manager: the radios vanish when it closes.
    """

    def __init__(self, network: model.Network) -> None:
        self._network = network
        # Otherwise Mininet-WiFi logs all debug messages of all libraries to a file.
        logging.basicConfig(handlers=[logging.NullHandler()])
        # The module exists: it must be neither loaded nor removed.
        Mac80211Hwsim.externally_managed = True
        self.net = Mininet_wifi(controller=None, build=False, allAutoAssociation=False)

    def __enter__(self) -> MininetWifiNodes:
        _remove_radios_of_the_dead()
        return self

    def __exit__(self, *_: object) -> None:
        # Mininet-WiFi keeps radios in a class attribute: clear it for the next network.
        Mac80211Hwsim.hwsim_ids = []
        _remove_radios(os.getpid())

    def add_nodes(self) -> None:
        """Create a namespace for every node, and a common one for all access points."""
        with _lines_to_standard_error():
            for number, (name, node) in enumerate(self._network.nodes.items(), 1):
                self._add_node(name, node, number)

    def add_radios(self) -> None:
        """Create every radio, with its interface in its node's namespace.

        The interfaces are down.
        """
        if not _ALL_RADIOS.exists():
            raise hwsim.RadioError(
                f"Mininet-WiFi looks for radios below {_ALL_RADIOS}, which is not there; give "
                "'modprobe mac80211_hwsim radios=0' and 'mount -t debugfs debugfs "
                "/sys/kernel/debug'")
        with _lines_to_standard_error(), hwsim.put_into_path():
            try:
                self.net.configureNodes()
            except SystemExit:
                raise hwsim.RadioError(
                    "Mininet-WiFi could not make its radios; what it said is in the machine's "
                    "log") from None
        for name, node in self._network.nodes.items():
            for port, interface in node.interfaces.items():
                if interface.radio:
                    self._take_over(name, port, interface.radio)

    def _add_node(self, name: str, node: model.Node, number: int) -> None:
        radios = {port: i.radio for port, i in node.interfaces.items() if i.radio}
        mac = list(radios.values())
        if node.has_duty("station"):
            station = self.net.addStation(name, ip=None, ip6=None, mac=mac)
        elif node.has_duty("access_point"):
            # With `link` set, an access point gets no hostapd from Mininet-WiFi. Its number is for
            # switches; without one the name would need digits.
            station = self.net.addAccessPoint(
                name, cls=MininetWifiAccessPoint, namespace_owner=self.net.aps[0] if self.net.aps
                else None,
                dpid=f"{number:x}", link=None, ssid=node.ssid, channel=str(node.channel), mac=mac)
        else:
            self.net.addHost(name, cls=Node, ip=None)
            return
        # Interfaces have the network's names, not NODE-wlan0.
        station.params["wlan"] = list(radios)

    def _take_over(self, name: str, port: str, address: str) -> None:
        """Check the address that Mininet-WiFi gave an interface, and leave it to its daemon."""
        node = self.net[name]
        node.cmd(f"ip link set dev {port} down")
        has = node.cmd(f"cat /sys/class/net/{port}/address").strip()
        if has != address:
            raise hwsim.RadioError(
                f"{name}: Mininet-WiFi made no interface {port} with address {address} ({has})")


def _radios_of(pid: int) -> list[str]:
    return [path.name for path in sorted(_ALL_RADIOS.glob("mn*"))
            if (match := _ITS_NAME.fullmatch(path.name)) and int(match[1]) == pid]


def _remove_radios(pid: int) -> None:
    """Remove the radios of a process after its end, when its namespaces return them."""
    until = time.monotonic() + _BACK_S
    with hwsim.Hwsim() as radios:
        while left := _radios_of(pid):
            for name in left:
                if (hwsim.CURRENT_NAMESPACE / name).exists():
                    radios.remove_radio(name)
            if time.monotonic() > until:
                return  # another process is in that namespace; the next testbed tries again
            time.sleep(_POLL_S)


def _remove_radios_of_the_dead() -> None:
    """Remove radios that killed processes left behind."""
    matches = (_ITS_NAME.fullmatch(path.name) for path in _ALL_RADIOS.glob("mn*"))
    for maker in {int(match[1]) for match in matches if match}:
        if not Path("/proc", str(maker)).exists():
            _remove_radios(maker)


@contextlib.contextmanager
def _lines_to_standard_error() -> Iterator[None]:
    """Send the output of Mininet-WiFi's commands to standard error inside the context.

    A worker's standard output is read by the harness, line by line.
    """
    sys.stdout.flush()
    standard_output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(standard_output, 1)
        os.close(standard_output)
