"""WireGuard between mobile nodes and their agents: everything of a node's goes through its tunnel.

A node's address is the same inside and outside, as with ESP. So what is not the tunnel's own is
sent to the device by a rule, and what is, by its mark, goes on as though there were none: on the
link at home, and where Mobile IP leads it elsewhere. Mobile IP's messages are sent below all this.
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
#: After local addresses, before Mobile IP's own rule, which the tunnel's packets go on to.
_MARKED, _TO_TUNNEL, _BEYOND = "400", "401", "434"
#: The main table's rule: where no Mobile IP runs.
_MAIN = "32766"
_TABLE = str(MARK)
#: As much as leaves room for the outer headers in 1500 bytes; WireGuard's 1420 is for IPv6.
_MTU_BYTES = "1440"


class MobileWireGuard:
    """A service: tunnels wherever the policy's files say so, anew for each authentication."""

    name = "mobile wireguard"
    needs: Sequence[str] = ()

    def __init__(self, site: Site) -> None:
        self._site = site
        self._tunnels: WireGuardTunnels | None = None
        self._keys: dict[str, WireGuardKey] = {}
        self._said: dict[str, dict[str, Any]] = {}

    def start(self) -> None:
        """Make keys, and the rules by which packets go to the tunnels. Raises MeasureError."""
        self._said = {node: json.loads((self._site.mount / node / _FILE).read_text())
                      for node in self._site.having(_FILE)}
        self._keys = {node: make_key() for node in self._said}
        for node in self._said:
            for rule in self._rules(node):
                self._site.testbed.run(node, ["ip", "rule", "add", *rule])
        self.renew()

    def ready(self) -> None:
        """Nothing more: a device takes packets as soon as it is up."""

    def stop(self) -> None:
        """Remove devices and rules."""
        if self._tunnels is not None:
            self._tunnels.stop()
            self._tunnels = None
        for node in self._said:
            for rule in self._rules(node):
                self._site.testbed.run(node, ["ip", "rule", "del", *rule])
        self._said = {}

    def renew(self) -> None:
        """Have tunnels without sessions: the next packet begins one. Raises MeasureError."""
        if not self._said:
            return
        if self._tunnels is not None:
            self._tunnels.stop()
        self._tunnels = WireGuardTunnels(
            self._site, {node: self._end(node) for node in self._said},
            table=_TABLE, mtu_bytes=_MTU_BYTES)
        self._tunnels.start()

    @property
    def roams(self) -> bool:
        """Whether the policy's tunnels follow their nodes, by what was rendered."""
        return any(json.loads((self._site.mount / node / _FILE).read_text())["roams"]
                   for node in self._site.having(_FILE))

    def follow(self, node: str) -> None:
        """Have a node's tunnel choose anew which address it sends from. Raises MeasureError."""
        if self._tunnels is not None and node in self._said:
            self._tunnels.renew_endpoints(node)

    def state(self, node: str) -> list[dict[str, Any]]:
        """What a node's kernel has of its peers; nothing without a tunnel."""
        return [asdict(state) for state in self._tunnels.state(node)] \
            if self._tunnels is not None and node in self._said else []

    def device(self, node: str) -> str:
        """A node's device; "" without a tunnel."""
        return DEVICE if node in self._said else ""

    def _end(self, node: str) -> WireGuardEnd:
        said = self._said[node]
        is_mobile = said["duty"] == "mobile"
        peers = [WireGuardPeer(self._keys[peer["name"]].public,
                               ["0.0.0.0/0"] if is_mobile else [f"{peer['address']}/32"],
                               address=peer["address"])
                 for peer in said["peers"] if peer["name"] in self._keys]
        address = f"{said['address']}/32" if is_mobile else ""
        return WireGuardEnd(self._keys[node], address, peers, mark=MARK)

    def _rules(self, node: str) -> list[list[str]]:
        """The tunnel's own packets go on; the others from the mobile node, or to it, go in."""
        said = self._said[node]
        targets: list[list[str]] = [[]] if said["duty"] == "mobile" else [
            ["to", peer["address"]] for peer in said["peers"]]
        beyond = _MAIN if said["roams"] else _BEYOND
        return [["priority", _MARKED, "fwmark", str(MARK), "goto", beyond],
                *(["priority", _TO_TUNNEL, *target, "lookup", _TABLE] for target in targets)]
