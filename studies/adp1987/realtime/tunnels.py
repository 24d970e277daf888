"""Tunnels below the messages: none, WireGuard or ESP.

The keys of ESP come from IKEv2. Each repetition makes its tunnel and removes it, so that each one
measures the handshake.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from measure import ike, kernel
from measure.services.charon import Charon
from measure.services.starting import Starter
from measure.services.wireguard import WireGuardEnd, WireGuardPeer, WireGuardTunnels, make_key
from measure.time_limits import TimeLimits
from measure.workload import Site

_ENDS = {"alpha": "beta", "beta": "alpha"}
#: Addresses inside of the WireGuard tunnel.
INNER = {"alpha": "10.77.0.1", "beta": "10.77.0.2"}
_CHILD = "messages"
#: Algorithms of the modern protocol and of WireGuard: X25519, ChaCha20-Poly1305, Ed25519.
_IKE_PROPOSAL, _ESP_PROPOSAL = "chacha20poly1305-prfsha256-x25519", "chacha20poly1305"
_STRONGSWAN = """charon {{
  load = random nonce sha1 sha2 hmac kdf openssl pem pkcs1 pkcs8 pubkey curve25519 kernel-netlink \
socket-default vici
  install_routes = no
  install_virtual_ip = no
  plugins {{ vici {{ socket = unix://{socket} }} }}
  filelog {{ qop {{ path = stderr
    default = 1
    flush_line = yes }} }}
}}
"""
_SWANCTL = """connections {{ host {{
  version = 2
  local_addrs = {here}
  remote_addrs = {there}
  proposals = {ike}
  mobike = no
  encap = no
  send_certreq = no
  send_cert = never
  dpd_delay = 0
  rekey_time = 0
  local {{ auth = pubkey
    pubkeys = {name}.pem
    id = fqdn:{name} }}
  remote {{ auth = pubkey
    pubkeys = {peer}.pem
    id = fqdn:{peer} }}
  children {{ {child} {{
    mode = transport
    esp_proposals = {esp}
    local_ts = {here}/32
    remote_ts = {there}/32
    rekey_time = 0
    start_action = none }} }}
}} }}
"""


class Tunnels:
    """The tunnels of a testbed, one per repetition."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.charon = Charon(site)
        self._addresses = {node: site.network.nodes[node].address for node in _ENDS}
        self._write_configs()

    @contextmanager
    def keep_tunnel(self, protocol: str, raw: dict[str, Any]) -> Iterator[None]:
        """Keep the tunnel of a protocol while the context lasts.

        The kernels' states at the end are stored in `raw`.
        """
        if protocol == "wireguard":
            with self._wireguard_tunnel(raw):
                yield
        elif protocol == "esp":
            with self._esp_tunnel(raw):
                yield
        else:
            yield

    def start_handshake(self, protocol: str) -> None:
        """Start the handshake before the first message."""
        if protocol == "esp":
            limit_s = TimeLimits.for_testbed(self._site.testbed).ike_between_s(*_ENDS)
            with ike.open_session(self.charon.socket_path("alpha"), limit_s) as session:
                ike.negotiate_tunnel(session, _CHILD, limit_s,
                                     self._site.log_path(self.charon.name, "alpha"))
        elif protocol == "wireguard":
            # The kernel makes the WireGuard handshake for the first packet through the tunnel.
            self._site.testbed.run_command("alpha", ["ping", "-nqc", "1", INNER["beta"]])

    @contextmanager
    def _wireguard_tunnel(self, raw: dict[str, Any]) -> Iterator[None]:
        keys = {node: make_key() for node in _ENDS}
        tunnels = WireGuardTunnels(self._site, {
            node: WireGuardEnd(keys[node], f"{INNER[node]}/24", [WireGuardPeer(
                keys[peer].public, [f"{INNER[peer]}/32"], self._addresses[peer])])
            for node, peer in _ENDS.items()})
        with Starter([tunnels]):
            yield
            raw["wireguard"] = {node: [asdict(state) for state in tunnels.read_state(node)]
                                for node in _ENDS}

    @contextmanager
    def _esp_tunnel(self, raw: dict[str, Any]) -> Iterator[None]:
        try:
            yield
            raw["esp"] = {node: kernel.xfrm_states(self._site.testbed, node) for node in _ENDS}
        finally:
            for node in _ENDS:
                with ike.open_session(self.charon.socket_path(node)) as session:
                    ike.delete_sas(session)

    def bypass_tunnel(self, protocol: str) -> None:
        """Remove the ESP policies, so that messages bypass the tunnel (negative control).

        For other protocols nothing is done here.
        """
        if protocol == "esp":
            for node in _ENDS:
                self._site.testbed.run_command(node, ["ip", "xfrm", "policy", "flush"])

    def _write_configs(self) -> None:
        """Write the configuration files of charon, with the testbed's own keys."""
        keys = {node: Ed25519PrivateKey.generate() for node in _ENDS}
        for node, peer in _ENDS.items():
            home = self._site.mount / node
            self._site.run_folder(node)
            for folder in ("private", "pubkey"):
                (home / "swanctl" / folder).mkdir(parents=True, exist_ok=True)
            (home / "swanctl" / "private" / f"{node}.pem").write_bytes(keys[node].private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption()))
            for name, key in keys.items():
                (home / "swanctl" / "pubkey" / f"{name}.pem").write_bytes(
                    key.public_key().public_bytes(
                        serialization.Encoding.PEM,
                        serialization.PublicFormat.SubjectPublicKeyInfo))
            (home / "swanctl" / "swanctl.conf").write_text(_SWANCTL.format(
                here=self._addresses[node], there=self._addresses[peer], name=node, peer=peer,
                ike=_IKE_PROPOSAL, esp=_ESP_PROPOSAL, child=_CHILD))
            (home / Charon.file).write_text(
                _STRONGSWAN.format(socket=self.charon.socket_path(node)))


def message_addresses(site: Site, protocol: str, *, bypasses_tunnel: bool) -> Sequence[str]:
    """Return the addresses of alpha and beta that the messages use."""
    through = protocol == "wireguard" and not bypasses_tunnel
    return [INNER[node] if through else site.network.nodes[node].address for node in _ENDS]
