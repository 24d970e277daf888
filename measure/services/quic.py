"""Build QUIC tunnels between mobile nodes and home agents, and control their programs.

`MobileQuic` starts `measure.services.quic_tunnel` on each node with a rendered `quic.json`. All
packets of a mobile node then go through its tunnel, by the same routing rules as WireGuard's. Each
authentication gets a new connection. Certificates and tokens are made for each testbed. TLS secrets
of all connections are read for the judge. `MobileQuic` takes a `Site`: a running network with the
settings of its run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure.agent.workload import Site
from measure.packets.quic import QUIC_PORT
from measure.services.programs import HostProgram, program_environment
from measure.services.wireguard import MARK, TUNNEL_TABLE, tunnel_rules

_FILE = "quic.json"
_DEVICE = "quic0"
_TOKEN_BYTES = 32
#: IP, UDP and QUIC headers, a DATAGRAM frame's header and the tag have room in 1500 bytes.
_MTU = "1440"
_PROGRAM = "measure.services.quic_tunnel"
#: Validity of the agents' certificates in days, before and after they are made.
_DAYS = 30


class MobileQuic:
    """The service that runs QUIC tunnels of mobile nodes, if the policy has them."""

    name = "quic"
    needs: Sequence[str] = ()

    def __init__(self, site: Site) -> None:
        self._site = site
        self._settings: dict[str, dict[str, Any]] = {}
        self._programs: dict[str, HostProgram] = {}
        #: Nodes whose packets are routed into their tunnels.
        self._routed: list[str] = []

    def start(self) -> None:
        """Start the program of each endpoint, and route mobile nodes' packets into the tunnels.

        Raises:
            MeasureError: A program ended early.
        """
        self._settings = {node: json.loads((self._site.mount / node / _FILE).read_text())
                          for node in self._site.nodes_with_file(_FILE)}
        certificates = {node: make_certificate(self._site.run_folder(node), node)
                        for node, settings in self._settings.items()
                        if settings["duty"] == "gateway"}
        tokens = {settings["address"]: os.urandom(_TOKEN_BYTES).hex()
                  for settings in self._settings.values() if settings["duty"] == "mobile"}
        for node, settings in self._settings.items():
            self._start_program(node, self._describe_end(node, settings, certificates, tokens))
            self._route_packets(node)

    def wait_ready(self) -> None:
        """Return at once: the programs have printed that they are ready."""

    def stop(self) -> None:
        """End the programs, which removes their devices and routes, and remove routing rules."""
        while self._programs:
            self._programs.popitem()[1].kill()
        while self._routed:
            node = self._routed.pop()
            for rule in tunnel_rules(self._settings[node], has_mobile_ip=False):
                self._site.testbed.run_command(node, ["ip", "rule", "del", *rule])
        self._settings = {}

    @property
    def is_used(self) -> bool:
        """Return whether the policy makes any node an endpoint of a QUIC tunnel."""
        return bool(self._site.nodes_with_file(_FILE))

    def open_connection(self, node: str) -> None:
        """Open the QUIC connection of a mobile node, and wait until its agent accepts the node.

        Raises:
            MeasureError: The agent does not accept the node in time.
        """
        if node in self._programs:
            self._programs[node].run_command("connect")

    def forget_connection(self, node: str) -> None:
        """Delete a mobile node's QUIC connection at both endpoints of its tunnel.

        Raises:
            MeasureError: A program has ended.
        """
        if node not in self._programs:
            return
        address = self._settings[node]["address"]
        for name in (node, *(peer["name"] for peer in self._settings[node]["peers"])):
            self._programs[name].run_command(f"reset {address}")

    def read_state(self, node: str) -> dict[str, int]:
        """Return the counters of a node's program, empty without a tunnel.

        Raises:
            MeasureError: The program has ended.
        """
        if node not in self._programs:
            return {}
        self._programs[node].run_command("state")
        counters: dict[str, int] = json.loads(self._file_path(node, "state.json").read_text())
        return counters

    def read_tls_keys(self) -> dict[str, list[str]]:
        """Return the TLS secrets that each program has logged so far."""
        return {node: file.read_text().splitlines() for node in self._programs
                if (file := self._file_path(node, "secrets")).exists()}

    def device_name(self, node: str) -> str:
        """Return the name of a node's TUN device, or "" without a tunnel."""
        return _DEVICE if node in self._programs else ""

    def _file_path(self, node: str, name: str) -> Path:
        return self._site.run_folder(node) / f"quic-{name}"

    def _describe_end(self, node: str, settings: dict[str, Any], certificates: dict[str, Path],
                      tokens: dict[str, str]) -> dict[str, Any]:
        """Return the settings of a node's program (`TunnelSettings`)."""
        is_mobile = settings["duty"] == "mobile"
        [gateway] = [settings["peers"][0]] if is_mobile else [
            {"name": node, "address": settings["address"]}]
        users = [settings["address"]] if is_mobile else [
            peer["address"] for peer in settings["peers"]]
        certificate = certificates[gateway["name"]]
        return {
            "duty": settings["duty"], "device": _DEVICE, "mark": MARK,
            "address": gateway["address"], "port": QUIC_PORT, "name": gateway["name"],
            "certificate": str(certificate),
            "key": "" if is_mobile else str(certificate.with_suffix(".key")),
            "secrets": str(self._file_path(node, "secrets")),
            "state": str(self._file_path(node, "state.json")),
            "users": {user: tokens[user] for user in users if user in tokens},
            "reconnects": settings["reconnects"]}

    def _start_program(self, node: str, described: dict[str, Any]) -> None:
        file = self._file_path(node, "settings.json")
        file.write_text(json.dumps(described))
        self._programs[node] = HostProgram(
            f"QUIC tunnel on {node}",
            self._site.testbed.node_command(node, [sys.executable, "-m", _PROGRAM, str(file)]),
            self._site.log_path(self.name, node), program_environment())

    def _route_packets(self, node: str) -> None:
        settings, run = self._settings[node], self._site.testbed.run_command
        is_mobile = settings["duty"] == "mobile"
        if is_mobile:
            run(node, ["ip", "address", "add", f"{settings['address']}/32", "dev", _DEVICE])
        run(node, ["ip", "link", "set", _DEVICE, "mtu", _MTU, "up"])
        for target in ["default"] if is_mobile else [
                f"{peer['address']}/32" for peer in settings["peers"]]:
            run(node, ["ip", "route", "replace", target, "dev", _DEVICE, "table", TUNNEL_TABLE])
        for rule in tunnel_rules(settings, has_mobile_ip=False):
            run(node, ["ip", "rule", "add", *rule])
        self._routed.append(node)


def make_certificate(folder: Path, name: str) -> Path:
    """Write a self-signed certificate of P-256 and its key to a folder, and return its path.

    Args:
        folder: The folder.
        name: The node's name, which clients require.
    """
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    certificate = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(
        key.public_key()).serial_number(x509.random_serial_number()).not_valid_before(
        now - timedelta(days=_DAYS)).not_valid_after(now + timedelta(days=_DAYS)).add_extension(
        x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False).sign(
        key, hashes.SHA256())
    file = folder / "quic-agent.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    file.with_suffix(".key").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()))
    return file
