"""WireGuard as a service: the kernel's device on each node, its keys and peers, and its state.

A tunnel is made by `start` and gone with `stop`, and its keys' sessions with it: who starts it
again measures another handshake, which the kernel makes when the first packet wants through.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from subprocess import CalledProcessError
from typing import Any

from measure.errors import MeasureError
from measure.wireguard import PORT
from measure.workload import Site
from topologies.namespaces import network_of

_KEY_BYTES = 32
#: Of the packets that tunnels send, where rules have to tell them from those that go in.
MARK = 51820
#: What a node's device is called.
DEVICE = "wg0"


@dataclass(frozen=True)
class WireGuardKey:
    """A static key pair, as WireGuard's tools write them: base64."""

    private: str
    public: str


@dataclass(frozen=True)
class WireGuardPeer:
    """Another end: its public key, where it is, and which inner addresses are behind it.

    Without an `address` it has to speak first. `keepalive_s` of 0: no keepalives.
    """

    public_key: str
    allowed: Sequence[str]
    address: str = ""
    port: int = PORT
    keepalive_s: int = 0


@dataclass(frozen=True)
class WireGuardEnd:
    """A node's end of tunnels: its key, its inner address (with a prefix), and its peers.

    An end without an `address` has that of another interface. `mark` is what its own packets bear.
    """

    key: WireGuardKey
    address: str
    peers: Sequence[WireGuardPeer]
    port: int = PORT
    mark: int = 0


@dataclass(frozen=True)
class WireGuardState:
    """What the kernel says of a peer; `handshake_s` is the wall clock's, None before the first.

    `endpoint` is the address that its last packet came from, or that it was said to have.
    """

    public_key: str
    handshake_s: float | None
    received_bytes: int
    sent_bytes: int
    endpoint: str = ""


class WireGuardTunnels:
    """Tunnels between nodes; routes to what peers have behind them are set with them.

    In the main table, or in another one that rules lead to.
    """

    name = "wireguard"
    needs: Sequence[str] = ()

    def __init__(self, site: Site, ends: Mapping[str, WireGuardEnd], device: str = DEVICE, *,
                 table: str = "main", mtu_bytes: str = "") -> None:
        self._site, self._ends, self._device = site, ends, device
        self._table, self._mtu = table, ["mtu", mtu_bytes] if mtu_bytes else []
        self._made: list[str] = []

    def start(self) -> None:
        """Make the device of every node. Raises MeasureError."""
        for node, end in self._ends.items():
            try:
                self._make(node, end)
            except CalledProcessError as error:
                raise self._refused(node, (error.stderr or "").strip() or str(error)) from None

    def ready(self) -> None:
        """Nothing more: a device takes packets as soon as it is up."""

    def stop(self) -> None:
        """Remove the devices, and with them their sessions and routes."""
        while self._made:
            self._site.testbed.run(self._made.pop(), ["ip", "link", "del", self._device])

    def state(self, node: str) -> list[WireGuardState]:
        """What a node's kernel has of its peers. Raises MeasureError."""
        with self._netlink(node) as netlink:
            messages = netlink.info(self._device)
        return [_state(peer) for message in messages
                for peer in message.get_attr("WGDEVICE_A_PEERS") or ()]

    def renew_endpoints(self, node: str) -> None:
        """Say again where a node's peers are: the kernel forgets which address it sent from.

        While an address stays on any interface, it would go on to send from there.
        """
        with self._netlink(node) as netlink:
            for peer in self._ends[node].peers:
                netlink.set(self._device, peer=_attributes(peer))

    def _make(self, node: str, end: WireGuardEnd) -> None:
        run = self._site.testbed.run
        run(node, ["ip", "link", "add", self._device, "type", "wireguard"])
        self._made.append(node)
        with self._netlink(node) as netlink:
            netlink.set(self._device, private_key=end.key.private, listen_port=end.port,
                        **({"fwmark": end.mark} if end.mark else {}))
            for peer in end.peers:
                netlink.set(self._device, peer=_attributes(peer))
        if end.address:
            run(node, ["ip", "address", "add", end.address, "dev", self._device])
        run(node, ["ip", "link", "set", self._device, *self._mtu, "up"])
        for peer in end.peers:
            for network in peer.allowed:
                run(node, ["ip", "route", "replace", network, "dev", self._device,
                           "table", self._table])

    @contextmanager
    def _netlink(self, node: str) -> Iterator[Any]:
        """What speaks to the kernel in a node's namespace. Raises MeasureError."""
        # Half a second in a guest, which testbeds without a tunnel do not take.
        from pyroute2 import WireGuard
        from pyroute2.netlink.exceptions import NetlinkError

        try:
            # A socket stays in the namespace that it was made in.
            with network_of(self._site.testbed.node(node).pid):
                netlink = WireGuard()
            with netlink:
                yield netlink
        except (NetlinkError, OSError) as error:
            raise self._refused(node, str(error)) from None

    def _refused(self, node: str, reason: str) -> MeasureError:
        return MeasureError("testbed", f"WireGuard on {node}: {reason}; the kernel needs "
                            "CONFIG_WIREGUARD, and its module loaded")


def make_key() -> WireGuardKey:
    """A fresh key pair."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = os.urandom(_KEY_BYTES)
    public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    return WireGuardKey(*(base64.b64encode(key).decode() for key in (private, public)))


def _attributes(peer: WireGuardPeer) -> dict[str, Any]:
    attributes: dict[str, Any] = {"public_key": peer.public_key, "allowed_ips": [*peer.allowed],
                                  "replace_allowed_ips": True}
    if peer.address:
        attributes |= {"endpoint_addr": peer.address, "endpoint_port": peer.port}
    if peer.keepalive_s:
        attributes["persistent_keepalive"] = peer.keepalive_s
    return attributes


def _state(peer: Any) -> WireGuardState:
    last = peer.get_attr("WGPEER_A_LAST_HANDSHAKE_TIME") or {}
    seconds = last.get("tv_sec", 0) + last.get("tv_nsec", 0) / 1e9
    key = peer.get_attr("WGPEER_A_PUBLIC_KEY")
    return WireGuardState(key["value"].decode() if isinstance(key, dict) else key.decode(),
                          seconds or None, peer.get_attr("WGPEER_A_RX_BYTES"),
                          peer.get_attr("WGPEER_A_TX_BYTES"),
                          (peer.get_attr("WGPEER_A_ENDPOINT") or {}).get("addr", ""))
