"""Mininet nodes with radios: stations in namespaces of their own, access points in a common one."""

from __future__ import annotations

from typing import Any

from mininet.node import Node

from topologies import radio

# Access points beside each other: none answers or routes for another.
_APART = ("net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.default.arp_ignore=1",
          "net.ipv4.conf.all.arp_announce=2", "net.ipv4.conf.default.arp_announce=2",
          "net.ipv4.ip_forward=0")


class Together(Node):  # type: ignore[misc]
    """An access point's place, whoever makes its radio: one namespace for all of a testbed.

    What emulates the air cannot reach across namespaces. So interfaces need names of their own,
    and each access point keeps to its own addresses and wire.
    """

    def __init__(self, name: str, beside: Together | None = None, **params: Any) -> None:
        self._beside = beside
        super().__init__(name, **{**params, "inNamespace": True})

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Start the node's shell: the first in a namespace of its own, the others in that one."""
        if self._beside is None:
            super().startShell(mnopts)
            self.cmd("sysctl -qw " + " ".join(_APART))
            return
        # To Mininet, being in a namespace means to make one.
        self.inNamespace = False
        super().startShell(f"-cda{self._beside.pid}")
        self.inNamespace = True

    def add_bridge(self, name: str, wired: list[str]) -> None:
        """Make bridge `name` with the wired interfaces; hostapd adds the radio's."""
        steps = [f"ip link add {name} type bridge forward_delay 0 mcast_snooping 0"]
        steps += [f"ip link set {port} master {name} up" for port in wired]
        self.cmd("; ".join([*steps, f"ip link set {name} up"]))


class RadioNode(Node):  # type: ignore[misc]
    """A Mininet node that owns hwsim radios, each with one interface."""

    def add_radio(self, radios: radio.Radios, interface: str, address: str, phy: str) -> None:
        """Make radio `phy` with a MAC address, move it here and give it one interface."""
        radios.add(phy, address)
        radio.move(phy, self.pid)
        said = self.cmd(f"iw phy {phy} interface add {interface} type managed addr {address}")
        if said.strip():
            raise radio.RadioError(f"{self.name}: {interface}: {said.strip()}")


class Station(RadioNode):
    """A mobile node: one radio, its addresses on the radio's interface."""


class AccessPoint(Together, RadioNode):
    """An access point: a bridge between its wire and, once hostapd runs, its radio."""
