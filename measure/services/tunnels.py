"""Build tunnels of programs between mobile nodes and home agents, by QUIC or Multipath TCP.

`MobileQuic` and `MobileMptcp` start a program on each node with a rendered `quic.json` or
`mptcp.json` (`measure.services.tunnel_program`). All packets of a mobile node then go through its
tunnel, by the same routing rules as WireGuard's. Each authentication gets a new connection. Both
take a `Site`: a running network with the settings of its run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measure.agent.workload import Site
from measure.packets.mptcp import MPTCP_PORT
from measure.packets.quic import QUIC_PORT
from measure.services.programs import HostProgram, program_environment
from measure.services.wireguard import MARK, TUNNEL_TABLE, tunnel_rules

_TOKEN_BYTES = 32
#: Longest packet inside. IP, UDP and QUIC headers, a DATAGRAM frame's header and the tag have room
#: in 1500 bytes. In TCP's stream, packets may be of any length.
_MTU = "1440"
#: Validity of the agents' certificates in days, before and after they are made.
_DAYS = 30


class MobileTunnels:
    """The service that runs one kind of tunnel for mobile nodes, if the policy has it.

    A subclass names the protocol (`name`), which is also the name of its rendered file, and the
    `title` of its program's messages.
    """

    name = ""
    title = ""
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
        self._settings = {node: json.loads((self._site.mount / node / self._file_name).read_text())
                          for node in self._site.nodes_with_file(self._file_name)}
        self.prepare_keys(self._settings)
        for node, settings in self._settings.items():
            is_mobile = settings["duty"] == "mobile"
            [gateway] = [settings["peers"][0]] if is_mobile else [
                {"name": node, "address": settings["address"]}]
            self._start_program(node, {
                "duty": settings["duty"], "device": self._device_name, "mark": MARK,
                "address": gateway["address"], "state": str(self.file_path(node, "state.json")),
                **self.describe_end(node, settings, gateway["name"], [settings["address"]]
                                    if is_mobile else [
                                        peer["address"] for peer in settings["peers"]])})
            self.route_packets(node)

    def wait_ready(self) -> None:
        """Do nothing, because `start` has waited until the programs were ready."""

    def stop(self) -> None:
        """End the programs, which removes their devices and routes, and remove routing rules."""
        while self._programs:
            self._programs.popitem()[1].kill()
        while self._routed:
            node = self._routed.pop()
            for rule in self.list_rules(self._settings[node]):
                self._site.testbed.run_command(node, ["ip", "rule", "del", *rule])
        self._settings = {}

    @property
    def is_used(self) -> bool:
        """Return whether the policy makes any node an endpoint of such a tunnel."""
        return bool(self._site.nodes_with_file(self._file_name))

    def open_connection(self, node: str) -> None:
        """Open the connection of a mobile node, and wait until its agent accepts the node.

        Raises:
            MeasureError: The agent does not accept the node in time.
        """
        if node in self._programs:
            self._programs[node].run_command("connect")

    def follow_address(self, node: str) -> None:
        """Move a mobile node's connection to the node's new address, without waiting for it.

        Nothing is to be done for a program that notices the new address by itself.

        Raises:
            MeasureError: The program has ended.
        """

    def forget_connection(self, node: str) -> None:
        """Delete a mobile node's connection at both endpoints of its tunnel.

        Raises:
            MeasureError: A program has ended.
        """
        if node not in self._programs:
            return
        address = self._settings[node]["address"]
        for name in (node, *(peer["name"] for peer in self._settings[node]["peers"])):
            self._programs[name].run_command(f"reset {address}")

    def read_state(self, node: str) -> dict[str, Any]:
        """Return the counters and state of a node's program, empty without a tunnel.

        Raises:
            MeasureError: The program has ended.
        """
        if node not in self._programs:
            return {}
        self._programs[node].run_command("state")
        state: dict[str, Any] = json.loads(self.file_path(node, "state.json").read_text())
        return state

    def device_name(self, node: str) -> str:
        """Return the name of a node's TUN device, or "" without a tunnel."""
        return self._device_name if node in self._programs else ""

    def prepare_keys(self, settings: Mapping[str, Mapping[str, Any]]) -> None:
        """Make what the endpoints authenticate by, from the settings of all nodes."""

    def describe_end(self, node: str, settings: Mapping[str, Any], gateway: str,
                     users: Sequence[str]) -> dict[str, Any]:
        """Return the protocol's own settings of a node's program.

        Args:
            node: The node's name.
            settings: Content of the node's rendered file.
            gateway: Name of the home agent.
            users: Inner addresses of the mobile nodes at this endpoint.
        """
        raise NotImplementedError

    def list_rules(self, settings: Mapping[str, Any]) -> list[list[str]]:
        """Return the arguments of the `ip rule` commands of a node."""
        return tunnel_rules(settings, has_mobile_ip=False)

    def file_path(self, node: str, name: str) -> Path:
        """Return the path of a file that a node's tunnel program uses, such as its settings."""
        return self._site.run_folder(node) / f"{self.name}-{name}"

    @property
    def _file_name(self) -> str:
        return f"{self.name}.json"

    @property
    def _device_name(self) -> str:
        return f"{self.name}0"

    def _start_program(self, node: str, described: Mapping[str, Any]) -> None:
        file = self.file_path(node, "settings.json")
        file.write_text(json.dumps(described))
        argv = [sys.executable, "-m", f"measure.services.{self.name}_tunnel", str(file)]
        self._programs[node] = HostProgram(
            f"{self.title} tunnel on {node}", self._site.testbed.node_command(node, argv),
            self._site.log_path(self.name, node), program_environment())

    def route_packets(self, node: str) -> None:
        """Route the packets of mobile nodes into the tunnel at one of its ends."""
        settings, run = self._settings[node], self._site.testbed.run_command
        is_mobile, device = settings["duty"] == "mobile", self._device_name
        if is_mobile:
            run(node, ["ip", "address", "add", f"{settings['address']}/32", "dev", device])
        run(node, ["ip", "link", "set", device, "mtu", _MTU, "up"])
        for target in ["default"] if is_mobile else [
                f"{peer['address']}/32" for peer in settings["peers"]]:
            run(node, ["ip", "route", "replace", target, "dev", device, "table", TUNNEL_TABLE])
        for rule in self.list_rules(settings):
            run(node, ["ip", "rule", "add", *rule])
        self._routed.append(node)


# --- QUIC ---

class MobileQuic(MobileTunnels):
    """The service that runs QUIC tunnels of mobile nodes, if the policy has them.

    Certificates and tokens are made for each testbed. TLS secrets of all connections are read for
    the judge.
    """

    name = "quic"
    title = "QUIC"

    _certificates: Mapping[str, Path]
    _tokens: Mapping[str, str]

    def prepare_keys(self, settings: Mapping[str, Mapping[str, Any]]) -> None:
        """Make the certificates of the agents, and the tokens of the mobile nodes."""
        self._certificates = {node: make_certificate(self._site.run_folder(node), node)
                              for node, end in settings.items() if end["duty"] == "gateway"}
        self._tokens = {end["address"]: os.urandom(_TOKEN_BYTES).hex()
                        for end in settings.values() if end["duty"] == "mobile"}

    def describe_end(self, node: str, settings: Mapping[str, Any], gateway: str,
                     users: Sequence[str]) -> dict[str, Any]:
        """Return the settings of `QuicSettings` that other tunnels do not have."""
        certificate = self._certificates[gateway]
        return {"port": QUIC_PORT, "name": gateway, "certificate": str(certificate),
                "key": "" if settings["duty"] == "mobile" else str(certificate.with_suffix(".key")),
                "secrets": str(self.file_path(node, "secrets")),
                "users": {user: self._tokens[user] for user in users if user in self._tokens},
                "reconnects": settings["reconnects"]}

    def read_tls_keys(self) -> dict[str, list[str]]:
        """Return the TLS secrets that each program has logged so far."""
        return {node: file.read_text().splitlines() for node in self._programs
                if (file := self.file_path(node, "secrets")).exists()}


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


# --- Multipath TCP ---

#: Rule before those of tunnels, and routing table of a connection's packets from the home address.
_HOME_RULE, _HOME_TABLE = "399", "51821"


class MobileMptcp(MobileTunnels):
    """The service that runs tunnels by Multipath TCP of mobile nodes, if the policy has them.

    As on any node with several addresses, packets of a subflow leave by the network of its own
    address. In a visited network, those from the home address therefore do not reach the agent.
    """

    name = "mptcp"
    title = "MPTCP"

    def describe_end(self, node: str, settings: Mapping[str, Any],
                     gateway: str, users: Sequence[str]) -> dict[str, Any]:
        """Return the settings of `MptcpSettings` that other tunnels do not have."""
        return {"port": MPTCP_PORT, "users": list(users)}

    def list_rules(self, settings: Mapping[str, Any]) -> list[list[str]]:
        """Return the rules of a tunnel, after one for the connection's packets from home."""
        rules = super().list_rules(settings)
        return [["priority", _HOME_RULE, "from", settings["address"], "fwmark", str(MARK),
                 "lookup", _HOME_TABLE], *rules] if settings["duty"] == "mobile" else rules

    def follow_address(self, node: str) -> None:
        """Tell the program of a mobile node that the node has a new address.

        Raises:
            MeasureError: The program has ended.
        """
        if node in self._programs:
            self._programs[node].run_command("follow")

    def route_packets(self, node: str) -> None:
        """Route packets into the tunnel, and those of a node's home address to its home network."""
        if self._settings[node]["duty"] == "mobile":
            place = self._site.network.nodes[node]
            self._site.testbed.run_command(node, [
                "ip", "route", "replace", "default", "via", place.gateway or "", "dev",
                place.radio_interface, "onlink", "table", _HOME_TABLE])
        super().route_packets(node)
