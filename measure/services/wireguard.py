"""Service for WireGuard: the kernel's device on each node, with keys, peers and state.

`start` creates a tunnel, and `stop` removes it with its session keys. After a restart the kernel
makes a new handshake when the first packet needs the tunnel.
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
#: Firewall mark of the tunnels' own packets, for rules that tell them from the inner packets.
MARK = 51820
#: Name of a node's WireGuard device.
DEVICE = "wg0"


@dataclass(frozen=True)
class WireGuardKey:
    """A static key pair in base64, the format of WireGuard's tools."""

    private: str
    public: str


@dataclass(frozen=True)
class WireGuardPeer:
    """A remote peer: public key, endpoint, and the inner addresses behind it.

    A peer without an `address` must send the first packet. `keepalive_s` of 0 disables keepalives.
    """

    public_key: str
    allowed: Sequence[str]
    address: str = ""
    port: int = PORT
    keepalive_s: int = 0


@dataclass(frozen=True)
class WireGuardEnd:
    """A node's end of tunnels: key, inner address (with a prefix) and peers.

    An end without an `address` uses another interface's address. `mark` is the firewall mark of the
    tunnel's own packets.
    """

    key: WireGuardKey
    address: str
    peers: Sequence[WireGuardPeer]
    port: int = PORT
    mark: int = 0


@dataclass(frozen=True)
class WireGuardState:
    """Kernel state of a peer.

    `handshake_s` is wall-clock time, None before the first handshake. `endpoint` is the source of
    the peer's last packet, or the configured address.
    """

    public_key: str
    handshake_s: float | None
    received_bytes: int
    sent_bytes: int
    endpoint: str = ""


class WireGuardTunnels:
    """Tunnels between nodes, with routes to the networks behind the peers.

    The routes are in the main table, or in another table that rules select.
    """

    name = "wireguard"
    needs: Sequence[str] = ()

    def __init__(self, site: Site, ends: Mapping[str, WireGuardEnd], device: str = DEVICE, *,
                 table: str = "main", mtu_bytes: str = "") -> None:
        self._site, self._ends, self._device = site, ends, device
        self._table, self._mtu = table, ["mtu", mtu_bytes] if mtu_bytes else []
        self._made: list[str] = []

    def start(self) -> None:
        """Create the device of every node.

        Raises:
            MeasureError: The kernel refuses a device.
        """
        for node, end in self._ends.items():
            try:
                self._create_device(node, end)
            except CalledProcessError as error:
                raise self._kernel_error(node, (error.stderr or "").strip() or str(error)) from None

    def wait_ready(self) -> None:
        """Return at once: a device takes packets as soon as it is up."""

    def stop(self) -> None:
        """Remove the devices with their sessions and routes."""
        while self._made:
            self._site.testbed.run_command(self._made.pop(), ["ip", "link", "del", self._device])

    def read_state(self, node: str) -> list[WireGuardState]:
        """Return the kernel's state of a node's peers.

        Raises:
            MeasureError: The kernel refuses the query.
        """
        with self._open_netlink(node) as netlink:
            messages = netlink.info(self._device)
        return [_parse_state(peer) for message in messages
                for peer in message.get_attr("WGDEVICE_A_PEERS") or ()]

    def renew_endpoints(self, node: str) -> None:
        """Set the endpoints of a node's peers again, which clears the cached source address.

        Otherwise the kernel keeps sending from that address while any interface has it.
        """
        with self._open_netlink(node) as netlink:
            for peer in self._ends[node].peers:
                netlink.set(self._device, peer=_peer_attributes(peer))

    def _create_device(self, node: str, end: WireGuardEnd) -> None:
        run = self._site.testbed.run_command
        run(node, ["ip", "link", "add", self._device, "type", "wireguard"])
        self._made.append(node)
        with self._open_netlink(node) as netlink:
            netlink.set(self._device, private_key=end.key.private, listen_port=end.port,
                        **({"fwmark": end.mark} if end.mark else {}))
            for peer in end.peers:
                netlink.set(self._device, peer=_peer_attributes(peer))
        if end.address:
            run(node, ["ip", "address", "add", end.address, "dev", self._device])
        run(node, ["ip", "link", "set", self._device, *self._mtu, "up"])
        for peer in end.peers:
            for network in peer.allowed:
                run(node, ["ip", "route", "replace", network, "dev", self._device,
                           "table", self._table])

    @contextmanager
    def _open_netlink(self, node: str) -> Iterator[Any]:
        """Open a WireGuard netlink socket in a node's namespace.

        Raises:
            MeasureError: The kernel refuses an operation.
        """
        # The import takes half a second in a guest; testbeds without a tunnel skip it.
        from pyroute2 import WireGuard
        from pyroute2.netlink.exceptions import NetlinkError

        try:
            # A socket stays in the namespace in which it was created.
            with network_of(self._site.testbed.node(node).pid):
                netlink = WireGuard()
            with netlink:
                yield netlink
        except (NetlinkError, OSError) as error:
            raise self._kernel_error(node, str(error)) from None

    def _kernel_error(self, node: str, reason: str) -> MeasureError:
        return MeasureError("testbed", f"WireGuard on {node}: {reason}; the kernel needs "
                            "CONFIG_WIREGUARD, and its module loaded")


def make_key() -> WireGuardKey:
    """Return a new key pair."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = os.urandom(_KEY_BYTES)
    public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    return WireGuardKey(*(base64.b64encode(key).decode() for key in (private, public)))


def _peer_attributes(peer: WireGuardPeer) -> dict[str, Any]:
    attributes: dict[str, Any] = {"public_key": peer.public_key, "allowed_ips": [*peer.allowed],
                                  "replace_allowed_ips": True}
    if peer.address:
        attributes |= {"endpoint_addr": peer.address, "endpoint_port": peer.port}
    if peer.keepalive_s:
        attributes["persistent_keepalive"] = peer.keepalive_s
    return attributes


def _parse_state(peer: Any) -> WireGuardState:
    last = peer.get_attr("WGPEER_A_LAST_HANDSHAKE_TIME") or {}
    seconds = last.get("tv_sec", 0) + last.get("tv_nsec", 0) / 1e9
    key = peer.get_attr("WGPEER_A_PUBLIC_KEY")
    return WireGuardState(key["value"].decode() if isinstance(key, dict) else key.decode(),
                          seconds or None, peer.get_attr("WGPEER_A_RX_BYTES"),
                          peer.get_attr("WGPEER_A_TX_BYTES"),
                          (peer.get_attr("WGPEER_A_ENDPOINT") or {}).get("addr", ""))
