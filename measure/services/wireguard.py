"""Build WireGuard tunnels between nodes, and between mobile nodes and home agents.

`WireGuardTunnels` takes an end for each node: key, inner address and peers (`WireGuardEnd`). It
creates the kernel's device with keys, peers and routes, through netlink. Stopping removes it with
its session keys. After a restart the first packet starts a new handshake. `MobileWireGuard` routes
all traffic of mobile nodes through such tunnels, if the policy has WireGuard. Both take a `Site`: a
running network with the settings of its run.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from subprocess import CalledProcessError
from typing import Any

from measure.agent.errors import MeasureError
from measure.agent.workload import Site
from measure.packets.wireguard import WIREGUARD_PORT
from topologies.model import HOME_AGENT
from topologies.namespaces import network_of
from topologies.netlink import (
    GenericNetlink,
    encode_attribute,
    encode_nested,
    iterate_attributes,
    parse_attributes,
)

_KEY_BYTES = 32
#: Firewall mark of the tunnels' own packets, for rules that tell them from the inner packets.
MARK = 51820
# Commands and attributes of a device, a peer and a network: linux/wireguard.h.
_GET_DEVICE, _SET_DEVICE = 0, 1
_NAME, _PRIVATE_KEY, _LISTEN_PORT, _MARK, _PEERS = 2, 3, 6, 7, 8
_PUBLIC_KEY, _PRESHARED_KEY, _FLAGS, _ENDPOINT, _KEEPALIVE, _LAST_HANDSHAKE = 1, 2, 3, 4, 5, 6
_RECEIVED_BYTES, _SENT_BYTES, _ALLOWED = 7, 8, 9
_FAMILY, _ADDRESS, _PREFIX = 1, 2, 3
_REPLACE_ALLOWED = 2
#: Name of a node's WireGuard device.
DEVICE = "wg0"


@dataclass(frozen=True)
class WireGuardKey:
    """A static WireGuard key pair, in base64 as in WireGuard's tools."""

    private: str
    public: str


@dataclass(frozen=True)
class WireGuardPeer:
    """A remote WireGuard peer: public key, endpoint, and the inner addresses behind it.

    `allowed` are the prefixes behind the peer (AllowedIPs). A peer without an `address` must send
    the first packet. `keepalive_s` of 0 disables keepalives. `preshared_key` is in base64, ""
    without one.
    """

    public_key: str
    allowed: Sequence[str]
    address: str = ""
    port: int = WIREGUARD_PORT
    keepalive_s: int = 0
    preshared_key: str = ""


@dataclass(frozen=True)
class WireGuardEnd:
    """A node's end of WireGuard tunnels: key, inner address (with a prefix) and peers.

    An end without an `address` uses another interface's address. `mark` is the firewall mark of the
    tunnel's own packets.
    """

    key: WireGuardKey
    address: str
    peers: Sequence[WireGuardPeer]
    port: int = WIREGUARD_PORT
    mark: int = 0


@dataclass(frozen=True)
class WireGuardState:
    """The kernel's state of a WireGuard peer.

    `handshake_s` is wall-clock time, None before the first handshake. `endpoint` is the source of
    the peer's last packet, or the configured address.
    """

    public_key: str
    handshake_s: float | None
    received_bytes: int
    sent_bytes: int
    endpoint: str = ""
    keepalive_s: int = 0
    has_preshared_key: bool = False
    endpoint_port: int = 0


class WireGuardTunnels:
    """The service that builds WireGuard tunnels between nodes, with routes behind the peers.

    The routes are in the main table, or in another table that rules select. `device` is the name of
    the interface, `mtu_bytes` its MTU ("": the kernel's choice).
    """

    name = "wireguard"
    needs: Sequence[str] = ()

    def __init__(self, site: Site, ends: Mapping[str, WireGuardEnd], device: str = DEVICE, *,
                 table: str = "main", mtu_bytes: str = "") -> None:
        self._site, self._ends, self._device = site, ends, device
        self._table, self._mtu = table, ["mtu", mtu_bytes] if mtu_bytes else []
        self._made: list[str] = []

    def start(self) -> None:
        """Create the WireGuard device of every node.

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
        """Remove the WireGuard devices with their sessions and routes."""
        while self._made:
            self._site.testbed.run_command(self._made.pop(), ["ip", "link", "del", self._device])

    def read_state(self, node: str) -> list[WireGuardState]:
        """Return the kernel's state of a node's WireGuard peers.

        Raises:
            MeasureError: The kernel refuses the query.
        """
        with self._open_netlink(node) as netlink:
            messages = netlink.list_entries(_GET_DEVICE, self._encode_name())
        return [_parse_state(peer) for message in messages
                for _, peer in iterate_attributes(message.get(_PEERS, b""))]

    def renew_endpoints(self, node: str) -> None:
        """Set the endpoints of a node's peers again, which clears the cached source address.

        Otherwise the kernel keeps sending from that address while any interface has it.
        """
        with self._open_netlink(node) as netlink:
            self._set_peers(netlink, self._ends[node].peers)

    def start_keepalives(self, node: str, interval_s: int) -> None:
        """Make a node send keepalives to its peers at an interval, the first one at once."""
        with self._open_netlink(node) as netlink:
            self._set_peers(netlink, [replace(peer, keepalive_s=interval_s)
                                      for peer in self._ends[node].peers])

    def _create_device(self, node: str, end: WireGuardEnd) -> None:
        run = self._site.testbed.run_command
        run(node, ["ip", "link", "add", self._device, "type", "wireguard"])
        self._made.append(node)
        with self._open_netlink(node) as netlink:
            netlink.send_command(_SET_DEVICE, self._encode_name() + _encode_end(end))
            self._set_peers(netlink, end.peers)
        if end.address:
            run(node, ["ip", "address", "add", end.address, "dev", self._device])
        run(node, ["ip", "link", "set", self._device, *self._mtu, "up"])
        for peer in end.peers:
            for network in peer.allowed:
                run(node, ["ip", "route", "replace", network, "dev", self._device,
                           "table", self._table])

    def _set_peers(self, netlink: GenericNetlink, peers: Sequence[WireGuardPeer]) -> None:
        for peer in peers:
            netlink.send_command(_SET_DEVICE, self._encode_name()
                                 + encode_nested(_PEERS, _encode_peer(peer)))

    def _encode_name(self) -> bytes:
        return encode_attribute(_NAME, self._device.encode() + b"\0")

    @contextmanager
    def _open_netlink(self, node: str) -> Iterator[GenericNetlink]:
        """Open a WireGuard netlink socket in a node's namespace.

        Raises:
            MeasureError: The kernel refuses an operation.
        """
        try:
            # A socket stays in the namespace in which it was created.
            with network_of(self._site.testbed.node(node).pid):
                netlink = GenericNetlink("wireguard")
            with netlink:
                yield netlink
        except OSError as error:
            raise self._kernel_error(node, str(error)) from None

    def _kernel_error(self, node: str, reason: str) -> MeasureError:
        return MeasureError("testbed", f"WireGuard on {node}: {reason}; the kernel needs "
                            "CONFIG_WIREGUARD, and its module loaded")


def make_key() -> WireGuardKey:
    """Return a new WireGuard key pair."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = os.urandom(_KEY_BYTES)
    public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    return WireGuardKey(*(base64.b64encode(key).decode() for key in (private, public)))


def _encode_end(end: WireGuardEnd) -> bytes:
    """Return the netlink attributes of a WireGuard device: its key, port and firewall mark."""
    encoded = (encode_attribute(_PRIVATE_KEY, base64.b64decode(end.key.private))
               + encode_attribute(_LISTEN_PORT, struct.pack("=H", end.port)))
    return encoded + (encode_attribute(_MARK, struct.pack("=I", end.mark)) if end.mark else b"")


def _encode_peer(peer: WireGuardPeer) -> bytes:
    """Return the netlink attributes of a WireGuard peer, which replace its inner addresses."""
    networks = map(ipaddress.IPv4Network, peer.allowed)
    encoded = [encode_attribute(_PUBLIC_KEY, base64.b64decode(peer.public_key)),
               encode_attribute(_FLAGS, struct.pack("=I", _REPLACE_ALLOWED)),
               encode_nested(_ALLOWED, *(
                   encode_nested(0, encode_attribute(_FAMILY, struct.pack("=H", socket.AF_INET)),
                                 encode_attribute(_ADDRESS, network.network_address.packed),
                                 encode_attribute(_PREFIX, bytes([network.prefixlen])))
                   for network in networks))]
    if peer.address:
        address = socket.inet_aton(peer.address)
        encoded.append(encode_attribute(_ENDPOINT, struct.pack("=H", socket.AF_INET)
                                        + struct.pack("!H4s8x", peer.port, address)))
    if peer.preshared_key:
        encoded.append(encode_attribute(_PRESHARED_KEY, base64.b64decode(peer.preshared_key)))
    if peer.keepalive_s:
        encoded.append(encode_attribute(_KEEPALIVE, struct.pack("=H", peer.keepalive_s)))
    return encode_nested(0, *encoded)


def _parse_state(peer: bytes) -> WireGuardState:
    found = parse_attributes(peer)
    seconds, nanoseconds = struct.unpack("=qq", found.get(_LAST_HANDSHAKE, bytes(16)))
    received, sent = (int.from_bytes(found[kind], sys.byteorder)
                      for kind in (_RECEIVED_BYTES, _SENT_BYTES))
    endpoint = found.get(_ENDPOINT, b"")
    return WireGuardState(base64.b64encode(found[_PUBLIC_KEY]).decode(),
                          seconds + nanoseconds / 1e9 or None, received, sent,
                          socket.inet_ntoa(endpoint[4:8]) if endpoint else "",
                          int.from_bytes(found.get(_KEEPALIVE, b""), sys.byteorder),
                          any(found.get(_PRESHARED_KEY, b"")),
                          int.from_bytes(endpoint[2:4], "big"))


# --- Tunnels between mobile nodes and their agents, for all traffic of a node ---
# As with ESP, a node has one address inside and outside of the tunnel. A rule sends all packets to
# the WireGuard device, except the tunnel's own. These carry a mark and are routed as without a
# tunnel: on the link at home, by Mobile IP when away. Mobile IP's messages stay outside the tunnel.

_FILE = "wireguard.json"
#: Rule priorities: after local addresses and before Mobile IP's own rule, to which the tunnel's
#: packets go on.
_MARKED, _TO_TUNNEL, _BEYOND = "400", "401", "434"
#: Priority of the main table's rule, used where no Mobile IP runs.
_MAIN = "32766"
#: Routing table that leads into a node's tunnel.
TUNNEL_TABLE = str(MARK)


def tunnel_rules(settings: Mapping[str, Any], *, has_mobile_ip: bool) -> list[list[str]]:
    """Return the arguments of the `ip rule` commands at one endpoint of a tunnel.

    The first rule lets the tunnel's own packets, which have a firewall mark, bypass the tunnel. At
    a mobile node, another rule routes all other packets into the tunnel. At an agent, one rule for
    each mobile node routes the packets to this node into the tunnel.

    Args:
        settings: The endpoint's JSON file from Ansible. `duty` is `mobile` at a mobile node, and
            `peers` lists the other endpoints.
        has_mobile_ip: Whether Mobile IP forwards the tunnel's packets.
    """
    targets: list[list[str]] = [[]] if settings["duty"] == "mobile" else [
        ["to", peer["address"]] for peer in settings["peers"]]
    beyond = _BEYOND if has_mobile_ip else _MAIN
    return [["priority", _MARKED, "fwmark", str(MARK), "goto", beyond],
            *(["priority", _TO_TUNNEL, *target, "lookup", TUNNEL_TABLE] for target in targets)]


class MobileWireGuard:
    """The service that builds WireGuard tunnels of mobile nodes, if the policy has them.

    Each authentication gets new tunnels.
    """

    name = "mobile wireguard"
    needs: Sequence[str] = ()

    def __init__(self, site: Site) -> None:
        self._site = site
        self._tunnels: WireGuardTunnels | None = None
        self._keys: dict[str, WireGuardKey] = {}
        self._settings: dict[str, dict[str, Any]] = {}
        #: Pre-shared keys by mobile node.
        self._preshared_keys: dict[str, str] = {}

    def start(self) -> None:
        """Create the keys, the routing rules and the WireGuard tunnels.

        Raises:
            MeasureError: The kernel refuses a device.
        """
        self._settings = {node: json.loads((self._site.mount / node / _FILE).read_text())
                          for node in self._site.nodes_with_file(_FILE)}
        self._keys = {node: make_key() for node in self._settings}
        self._preshared_keys = {
            node: base64.b64encode(os.urandom(_KEY_BYTES)).decode()
            for node, settings in self._settings.items()
            if settings["has_preshared_key"] and settings["duty"] == "mobile"}
        for node in self._settings:
            for rule in self._list_rules(node):
                self._site.testbed.run_command(node, ["ip", "rule", "add", *rule])
        self.renew_tunnels()

    def wait_ready(self) -> None:
        """Return at once: a device takes packets as soon as it is up."""

    def stop(self) -> None:
        """Remove the WireGuard devices and routing rules."""
        if self._tunnels is not None:
            self._tunnels.stop()
            self._tunnels = None
        for node in self._settings:
            for rule in self._list_rules(node):
                self._site.testbed.run_command(node, ["ip", "rule", "del", *rule])
        self._settings = {}

    def renew_tunnels(self) -> None:
        """Replace the WireGuard tunnels by new ones without sessions.

        The next packet starts a handshake.

        Raises:
            MeasureError: The kernel refuses a device.
        """
        if not self._settings:
            return
        if self._tunnels is not None:
            self._tunnels.stop()
        self._tunnels = WireGuardTunnels(
            self._site, {node: self._create_end(node) for node in self._settings},
            table=TUNNEL_TABLE, mtu_bytes=str(max(
                settings["mtu_bytes"] for settings in self._settings.values())))
        self._tunnels.start()

    @property
    def roams(self) -> bool:
        """Return whether the policy's tunnels move with their nodes to other subnets."""
        return any(json.loads((self._site.mount / node / _FILE).read_text())["roams"]
                   for node in self._site.nodes_with_file(_FILE))

    def renew_source(self, node: str) -> None:
        """Make a node's WireGuard tunnel select its source address again.

        Raises:
            MeasureError: The kernel refuses the change.
        """
        if self._tunnels is not None and node in self._settings:
            self._tunnels.renew_endpoints(node)

    def start_keepalives(self, node: str) -> None:
        """Make a mobile node send keepalives, if the policy has them.

        The node must have a link. Otherwise the handshake that the first keepalive starts is lost,
        and repeated only after 5 s.

        Raises:
            MeasureError: The kernel refuses the change.
        """
        interval_s = self._settings.get(node, {}).get("keepalive_s", 0)
        if self._tunnels is not None and interval_s:
            self._tunnels.start_keepalives(node, interval_s)

    def read_state(self, node: str) -> list[dict[str, Any]]:
        """Return the kernel's state of a node's WireGuard peers, empty without a tunnel."""
        return [asdict(state) for state in self._tunnels.read_state(node)] \
            if self._tunnels is not None and node in self._settings else []

    def device_name(self, node: str) -> str:
        """Return the name of a node's WireGuard device, or "" without a tunnel."""
        return DEVICE if node in self._settings else ""

    def _create_end(self, node: str) -> WireGuardEnd:
        settings = self._settings[node]
        is_mobile = settings["duty"] == "mobile"
        peers = [WireGuardPeer(self._keys[peer["name"]].public,
                               ["0.0.0.0/0"] if is_mobile else [f"{peer['address']}/32"],
                               address=peer["address"],
                               preshared_key=self._preshared_keys.get(
                                   node if is_mobile else peer["name"], ""))
                 for peer in settings["peers"] if peer["name"] in self._keys]
        address = f"{settings['address']}/32" if is_mobile else ""
        return WireGuardEnd(self._keys[node], address, peers, mark=MARK)

    def _list_rules(self, node: str) -> list[list[str]]:
        settings = self._settings[node]
        return tunnel_rules(settings, has_mobile_ip=bool(
            self._site.network.of_duty(HOME_AGENT)) and not settings["roams"])
