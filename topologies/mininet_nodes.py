"""Create the nodes and emulated radios of a network with plain Mininet.

`MininetNodes` takes the description of a network (`topologies.model`). Each station gets namespaces
of its own, and all access points are in one common namespace. `topologies.mininet_wifi_nodes` does
the same with Mininet-WiFi. `topologies.builder` uses one of them.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from typing import Any

from mininet.net import Mininet
from mininet.node import Node

from topologies import hwsim, model
from topologies.hwsim import Radios
from topologies.interfaces import set_sysctls
from topologies.namespaces import Namespaces, network_of
from topologies.netlink import GenericNetlink, encode_attribute

# Access points share a namespace, so none may answer or route for another.
_APART = ("net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.default.arp_ignore=1",
          "net.ipv4.conf.all.arp_announce=2", "net.ipv4.conf.default.arp_announce=2",
          "net.ipv4.ip_forward=0")
#: Programs that Mininet's nodes need.
_PROGRAMS = ("mnexec", "ifconfig")
#: Constants of nl80211: NL80211_CMD_NEW_INTERFACE, its attributes, and the type "managed".
_NEW_INTERFACE, _RADIO, _NAME, _TYPE, _ADDRESS, _MANAGED = 7, 1, 4, 5, 6, 2


class SharedNamespaceNode(Node):  # type: ignore[misc]
    """A Mininet node in the one namespace that all access points of a network are in.

    The emulation of the medium cannot cross namespaces. So interfaces need unique names, and each
    access point uses only its own addresses and wire.
    """

    inNamespace: bool  # noqa: N815 - Mininet's name

    def __init__(self, name: str, namespace_owner: SharedNamespaceNode | None = None,
                 **params: Any) -> None:
        self._beside = namespace_owner
        super().__init__(name, **{**params, "inNamespace": True})

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Start the node's shell: the first node's in a new namespace, the others' in the same."""
        if self._beside is None:
            super().startShell(mnopts)
            with network_of(self.pid):
                set_sysctls(_APART)
            return
        self._share_namespace(self._beside.pid)

    def _share_namespace(self, pid: int) -> None:
        """Start the node's shell in the namespaces of a process."""
        # For Mininet, `inNamespace` means to create a namespace.
        self.inNamespace = False
        super().startShell(f"-cda{pid}")
        self.inNamespace = True


class LazyShellNode(Node):  # type: ignore[misc]
    """A Mininet node that consists of namespaces. Its shell starts with its first command.

    A shell takes 50 ms to start in a guest, and commands through netlink do not need one.
    """

    inNamespace: bool  # noqa: N815 - Mininet's name
    #: The node's own namespaces; None if they are another node's.
    _own: Namespaces | None = None

    @classmethod
    def setup(cls) -> None:
        """Check that the programs that Mininet needs exist. Mininet reports what is missing."""
        if not all(map(shutil.which, _PROGRAMS)):
            super().setup()

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Create the node's namespaces."""
        self._own = Namespaces()
        self.pid = self._own.pid

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command in the node's shell and return its output."""
        self._need_shell()
        return super().cmd(*args, **kwargs)

    def sendCmd(self, *args: Any, **kwargs: Any) -> None:  # noqa: N802 - Mininet's name
        """Send a command to the node's shell without waiting."""
        self._need_shell()
        super().sendCmd(*args, **kwargs)

    def terminate(self) -> None:
        """End the node's shell if there is one, and release the namespaces."""
        super().terminate()
        if self._own is not None:
            self._own.let_go()

    def _need_shell(self) -> None:
        if self.shell:
            return
        own, pid, self.inNamespace = self.inNamespace, self.pid, False
        try:
            super().startShell(f"-cda{pid}")
        finally:
            self.inNamespace, self.pid = own, pid


class RadioNode(LazyShellNode):
    """A Mininet node that has emulated radios, each with one interface."""

    def add_radio(self, radios: hwsim.Radios, interface: str, address: str, phy: str) -> None:
        """Create a radio with a MAC address, move it to this node and give it one interface."""
        radios.add_radio(phy, address)
        number = hwsim.move_radio(phy, self.pid)
        try:
            with network_of(self.pid), GenericNetlink("nl80211") as netlink:
                netlink.send_command(_NEW_INTERFACE,
                                     encode_attribute(_RADIO, struct.pack("=I", number))
                                     + encode_attribute(_NAME, interface.encode() + b"\0")
                                     + encode_attribute(_TYPE, struct.pack("=I", _MANAGED))
                                     + encode_attribute(_ADDRESS,
                                                        bytes.fromhex(address.replace(":", ""))))
        except OSError as error:
            raise hwsim.RadioError(f"{self.name}: {interface}: {error.strerror}") from None


class Station(RadioNode):
    """A mobile node: one radio, with its addresses on the radio's interface."""


class AccessPoint(SharedNamespaceNode, RadioNode):
    """An access point: a bridge between its wire and, once hostapd runs, its radio."""

    def _share_namespace(self, pid: int) -> None:
        self.pid = pid


# --- Creation with plain Mininet and the kernel, on any testbed machine ---

#: Gives the radio of a node, which is there already: the node's name, a process of its namespace,
#: and the interface's name and MAC address.
RadioSource = Callable[[str, int, str, str], None]


class MininetNodes:
    """A creator of a network's nodes and radios with plain Mininet.

    A context manager: the radios vanish when it closes. With `place_radio`, radios of this machine
    are used instead of emulated ones.
    """

    def __init__(self, network: model.Network, place_radio: RadioSource | None = None) -> None:
        self._network = network
        self.net = Mininet(controller=None, build=False)
        self._place_radio = place_radio
        # Wired networks are also built on kernels without radios.
        self._radios = Radios() if network.has_radios and place_radio is None else None

    def __enter__(self) -> MininetNodes:
        return self

    def __exit__(self, *_: object) -> None:
        if self._radios is not None:
            self._radios.__exit__()

    def add_nodes(self) -> None:
        """Create a namespace for every node, and a common one for all access points."""
        first: AccessPoint | None = None
        for name, node in self._network.nodes.items():
            if node.has_duty("access_point"):
                host = self.net.addHost(name, cls=AccessPoint, ip=None, namespace_owner=first)
                first = first or host
            else:
                self.net.addHost(name, cls=Station if node.has_duty("station") else LazyShellNode,
                                 ip=None)

    def add_radios(self) -> None:
        """Create every radio, with its interface in its node's namespace.

        The interfaces are down.
        """
        for name, node in self._network.nodes.items():
            for port, interface in node.interfaces.items():
                if interface.radio and self._place_radio is not None:
                    self._place_radio(name, self.net[name].pid, port, interface.radio)
                elif interface.radio and self._radios is not None:
                    self.net[name].add_radio(self._radios, port, interface.radio,
                                             phy=f"qop{os.getpid()}-{name}")
