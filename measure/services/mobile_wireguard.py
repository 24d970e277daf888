"""WireGuard tunnels between mobile nodes and their agents, for all traffic of a node.

As with ESP, a node has one address inside and outside of the tunnel. A rule sends all packets to
the WireGuard device, except the tunnel's own packets. These carry a mark and are routed as without
a tunnel: on the link at home, by Mobile IP when away. Mobile IP's own messages stay outside the
tunnel.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from measure.services.wireguard import (
    DEVICE,
    MARK,
    WireGuardEnd,
    WireGuardKey,
    WireGuardPeer,
    WireGuardTunnels,
    make_key,
)
from measure.workload import Site

_FILE = "wireguard.json"
#: Rule priorities: after local addresses and before Mobile IP's own rule, to which the tunnel's
#: packets go on.
_MARKED, _TO_TUNNEL, _BEYOND = "400", "401", "434"
#: Priority of the main table's rule, used where no Mobile IP runs.
_MAIN = "32766"
_TABLE = str(MARK)
#: MTU that leaves room for the outer headers in 1500 bytes; WireGuard's default of 1420 is for
#: IPv6.
_MTU_BYTES = "1440"


class MobileWireGuard:
    """A service for tunnels where the policy's files require them.

    Each authentication gets new tunnels.
    """

    name = "mobile wireguard"
    needs: Sequence[str] = ()

    def __init__(self, site: Site) -> None:
        self._site = site
        self._tunnels: WireGuardTunnels | None = None
        self._keys: dict[str, WireGuardKey] = {}
        self._said: dict[str, dict[str, Any]] = {}

    def start(self) -> None:
        """Create the keys, the routing rules and the tunnels.

        Raises:
            MeasureError: The kernel refuses a device.
        """
        self._said = {node: json.loads((self._site.mount / node / _FILE).read_text())
                      for node in self._site.nodes_with_file(_FILE)}
        self._keys = {node: make_key() for node in self._said}
        for node in self._said:
            for rule in self._rules(node):
                self._site.testbed.run_command(node, ["ip", "rule", "add", *rule])
        self.renew_tunnels()

    def wait_ready(self) -> None:
        """Return at once: a device takes packets as soon as it is up."""

    def stop(self) -> None:
        """Remove the devices and routing rules."""
        if self._tunnels is not None:
            self._tunnels.stop()
            self._tunnels = None
        for node in self._said:
            for rule in self._rules(node):
                self._site.testbed.run_command(node, ["ip", "rule", "del", *rule])
        self._said = {}

    def renew_tunnels(self) -> None:
        """Replace the tunnels by new ones without sessions.

        The next packet starts a handshake.

        Raises:
            MeasureError: The kernel refuses a device.
        """
        if not self._said:
            return
        if self._tunnels is not None:
            self._tunnels.stop()
        self._tunnels = WireGuardTunnels(
            self._site, {node: self._create_end(node) for node in self._said},
            table=_TABLE, mtu_bytes=_MTU_BYTES)
        self._tunnels.start()

    @property
    def roams(self) -> bool:
        """Return whether the policy's tunnels follow their nodes, from the rendered files."""
        return any(json.loads((self._site.mount / node / _FILE).read_text())["roams"]
                   for node in self._site.nodes_with_file(_FILE))

    def renew_source(self, node: str) -> None:
        """Make a node's tunnel select its source address again.

        Raises:
            MeasureError: The kernel refuses the change.
        """
        if self._tunnels is not None and node in self._said:
            self._tunnels.renew_endpoints(node)

    def read_state(self, node: str) -> list[dict[str, Any]]:
        """Return the kernel's state of a node's peers, empty without a tunnel."""
        return [asdict(state) for state in self._tunnels.read_state(node)] \
            if self._tunnels is not None and node in self._said else []

    def device_name(self, node: str) -> str:
        """Return the name of a node's device, or "" without a tunnel."""
        return DEVICE if node in self._said else ""

    def _create_end(self, node: str) -> WireGuardEnd:
        said = self._said[node]
        is_mobile = said["duty"] == "mobile"
        peers = [WireGuardPeer(self._keys[peer["name"]].public,
                               ["0.0.0.0/0"] if is_mobile else [f"{peer['address']}/32"],
                               address=peer["address"])
                 for peer in said["peers"] if peer["name"] in self._keys]
        address = f"{said['address']}/32" if is_mobile else ""
        return WireGuardEnd(self._keys[node], address, peers, mark=MARK)

    def _rules(self, node: str) -> list[list[str]]:
        """Return the arguments of a node's `ip rule` commands.

        The first rule lets the tunnel's own packets pass. The others send packets from, or to, the
        mobile node into the tunnel.
        """
        said = self._said[node]
        targets: list[list[str]] = [[]] if said["duty"] == "mobile" else [
            ["to", peer["address"]] for peer in said["peers"]]
        beyond = _MAIN if said["roams"] else _BEYOND
        return [["priority", _MARKED, "fwmark", str(MARK), "goto", beyond],
                *(["priority", _TO_TUNNEL, *target, "lookup", _TABLE] for target in targets)]
