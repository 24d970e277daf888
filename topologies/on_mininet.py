"""Create nodes and radios with plain Mininet and the kernel, which works on any testbed machine."""

from __future__ import annotations

import os

from mininet.net import Mininet

from topologies import model
from topologies.nodes import AccessPoint, BareNode, Station
from topologies.radio import Radios


class OnMininet:
    """A creator of a network's nodes and radios.

    A context manager: the radios vanish when it closes.
    """

    def __init__(self, network: model.Network) -> None:
        self._network = network
        self.net = Mininet(controller=None, build=False)
        # Wired networks are also built on kernels without radios.
        self._radios = Radios() if network.has_radios else None

    def __enter__(self) -> OnMininet:
        return self

    def __exit__(self, *_: object) -> None:
        if self._radios is not None:
            self._radios.__exit__()

    def add_nodes(self) -> None:
        """Create a namespace for every node, and a common one for all access points."""
        first: AccessPoint | None = None
        for name, node in self._network.nodes.items():
            if node.has_duty("access_point"):
                made = self.net.addHost(name, cls=AccessPoint, ip=None, namespace_owner=first)
                first = first or made
            else:
                self.net.addHost(name, cls=Station if node.has_duty("station") else BareNode,
                                 ip=None)

    def add_radios(self) -> None:
        """Create every radio, with its interface in its node's namespace.

        The interfaces are down.
        """
        for name, node in self._network.nodes.items():
            for port, interface in node.interfaces.items():
                if interface.radio and self._radios is not None:
                    self.net[name].add_radio(self._radios, port, interface.radio,
                                             phy=f"qop{os.getpid()}-{name}")
