"""Mininet nodes with radios: a station and an access point in namespaces of their own."""

from __future__ import annotations

from typing import Any

from mininet.node import Node

from topologies import radio


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


class AccessPoint(RadioNode):
    """An access point: a bridge between its wire and, once hostapd runs, its radio."""

    def add_bridge(self, name: str, wired: list[str]) -> None:
        """Make bridge `name` with the wired interfaces; hostapd adds the radio's."""
        steps = [f"ip link add {name} type bridge forward_delay 0 mcast_snooping 0"]
        steps += [f"ip link set {port} master {name} up" for port in wired]
        self.cmd("; ".join([*steps, f"ip link set {name} up"]))


KINDS: dict[str, Any] = {"station": Station, "access_point": AccessPoint,
                         "home_agent": Node, "correspondent": Node}
