"""Run RADIUS servers in a test network: FreeRADIUS, hostapd as a server, and RadSec proxies.

Each service takes a `Site`: a running network with the settings of its run. `FreeRadius` is the
authentication server, except where a policy names hostapd (`EapServer`). EAP-AKA needs hostapd,
with a server for SIM card keys behind it (`SubscriberServers`). `RadiusProxies` runs a proxy on
each access point, which carries RADIUS in TLS (RadSec). If captures must be decrypted, the servers
log their TLS keys. `probe_server` tests whether a server answers requests without a
Message-Authenticator.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon
from measure.agent.time_limits import TimeLimits
from measure.agent.workload import Site
from measure.capture.tcpdump import WHOLE, capture_packets, wire_point
from measure.packets.eap import PROBE_USER, RADIUS_PORT, RADSEC_PORT, build_access_request
from measure.services import replaced_programs
from measure.services.daemons import DaemonService
from measure.services.macsec import MacsecKeyAgreement
from measure.services.programs import program_environment
from topologies.model import HOME_AGENT
from topologies.namespaces import network_of

# --- A client's socket ---

@contextmanager
def open_client_socket(site: Site, access_point: str, port: int = 0) -> Iterator[socket.socket]:
    """Open a UDP socket at the address from which an access point asks RADIUS servers.

    Its timeout is the time in which a server surely answers.

    Args:
        site: The running testbed.
        access_point: Name of the access point.
        port: The socket's port; the kernel chooses one instead of 0.
    """
    node = site.network.nodes[access_point]
    with network_of(site.testbed.node(access_point).pid):
        asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with asking:
        asking.bind((node.interfaces[node.radio_bridge].ip, port))
        asking.settimeout(TimeLimits.for_testbed(site.testbed).tls_s)
        yield asking


# --- FreeRADIUS ---

#: Control in which a RADIUS server runs that is down.
FIRST_SERVER_RUNS = "first-server-runs"


def radius_command(site: Site, folder: Path, name: str) -> list[str]:
    """Return the command that starts FreeRADIUS with the file NAME.conf of a folder.

    A program of the user's (`--programs`) loads its own modules.
    """
    if "freeradius" in site.programs:
        replaced_programs.use_own_modules(site.programs["freeradius"], folder / f"{name}.conf")
    return ["freeradius", "-f", "-l", "stdout", "-d", str(folder), "-n", name]


class FreeRadius(DaemonService):
    """The service that runs FreeRADIUS, on every node that has its configuration file.

    With `tells_keys`, it logs its TLS keys.
    """

    name = "freeradius"
    file = "freeradius"

    def __init__(self, site: Site, *, tells_keys: bool = False) -> None:
        super().__init__(site)
        self._tells_keys = tells_keys

    def list_nodes(self) -> Sequence[str]:
        """Return the nodes that run FreeRADIUS, without those whose server is down."""
        has_all = self.site.fault == FIRST_SERVER_RUNS
        return [node for node in super().list_nodes()
                if has_all or not self.site.network.nodes[node].is_down]

    def launch_on(self, node: str) -> Daemon:
        """Start FreeRADIUS on one node.

        Without the folder for sessions, FreeRADIUS would resume no TLS session.
        """
        (self.site.run_folder(node) / "sessions").mkdir(exist_ok=True)
        return self.run_daemon(node, radius_command(self.site, self.site.mount / node / self.file,
                                                    "radiusd"),
                               r"Ready to process requests",
                               {"SSLKEYLOGFILE": str(self._key_log_path(node))} if self._tells_keys
                               else {})

    def _key_log_path(self, node: str) -> Path:
        return self.site.run_folder(node) / "tls-keys.log"

    def read_tls_keys(self) -> dict[str, list[str]]:
        """Return the TLS keys that each server has logged so far (SSLKEYLOGFILE, for Wireshark)."""
        logs = {node: self._key_log_path(node) for node in self.daemons}
        return {node: log.read_text().splitlines() if log.exists() else []
                for node, log in logs.items()}


# --- RadSec: RADIUS inside TLS ---
# A proxy connects once, at the first request, and keeps the connection. So a first request is sent
# before anything is measured, as in a busy network. The capture of the TLS handshake is kept for
# every repetition, because no later packet shows who the peer is.

#: Prefix of the captures of TLS handshakes; the access point's name follows.
RADSEC_PART = "radsec"
_ACCESS_REQUEST, _USER_NAME = 1, 1
_ASKING = b"radius-proxy"
_SETTLE_S = 0.25


@dataclass(frozen=True)
class RadSecConnection:
    """A new TLS connection of a RadSec proxy: its lines in the server's key log, and a capture."""

    keys: Sequence[str]
    summary: Mapping[str, Any]
    octets: bytes


class RadiusProxies(DaemonService):
    """The service that runs a RadSec proxy (RADIUS in TLS) on every access point."""

    name = "radius_proxy"
    file = "radius_proxy"
    needs: Sequence[str] = (FreeRadius.name, MacsecKeyAgreement.name)

    def __init__(self, site: Site, servers: FreeRadius) -> None:
        super().__init__(site)
        self._servers = servers
        #: TLS connections by access point, filled by `wait_ready`.
        self.connections: dict[str, RadSecConnection] = {}

    def launch_on(self, node: str) -> Daemon:
        """Start the RadSec proxy of one access point."""
        return self.run_daemon(node, radius_command(self.site, self.site.mount / node / self.file,
                                                    "proxy"),
                               r"Ready to process requests")

    def wait_ready(self) -> None:
        """Wait until the RadSec proxies run, then make each connect to its server.

        Raises:
            MeasureError: A proxy is not ready, or gets no answer from the server.
        """
        super().wait_ready()
        if self._servers.name in self.site.withhold:
            return
        for node in self.daemons:
            self.connections[node] = self._capture_connection(node)

    def _capture_connection(self, node: str) -> RadSecConnection:
        known, taken = len(self._read_keys()), list[dict[str, object]]()
        point = wire_point(self.site.network, node, node, f"tcp port {RADSEC_PORT}")
        folder = self.site.run_folder(node)
        with capture_packets(self.site.testbed, [point], WHOLE, part=RADSEC_PART, out=folder,
                             logs=self.site.logs, summaries=taken):
            self._send_first_request(node)
            time.sleep(_SETTLE_S)  # time for tcpdump to read the packets that have arrived
        keys = self._read_keys()[known:]
        if not keys:
            raise MeasureError("testbed", f"{self.name} on {node}: no TLS connection to the "
                               f"authentication server: {self.daemons[node].find_cause()} (log: "
                               f"{self.daemons[node].log.name})")
        [summary] = taken
        return RadSecConnection(keys, summary, (folder / str(summary["file"])).read_bytes())

    def _read_keys(self) -> list[str]:
        return [line for lines in self._servers.read_tls_keys().values() for line in lines]

    def _send_first_request(self, node: str) -> None:
        """Send an Access-Request for an unknown user through a proxy, and wait for the answer."""
        name = bytes((_USER_NAME, 2 + len(_ASKING))) + _ASKING
        with open_client_socket(self.site, node) as asking:
            address, _ = asking.getsockname()
            asking.sendto(bytes((_ACCESS_REQUEST, 0)) + (20 + len(name)).to_bytes(2, "big")
                          + os.urandom(16) + name, (address, RADIUS_PORT))
            try:
                asking.recv(4096)
            except TimeoutError:
                raise MeasureError("testbed", f"{self.name} on {node}: no answer from the "
                                   f"authentication server within {asking.gettimeout():.3g} s: "
                                   f"{self.daemons[node].find_cause()} (log: "
                                   f"{self.daemons[node].log.name})") from None


# --- Message-Authenticator: a server that requires it drops a request without it ---

#: Name of the capture point of the two requests.
PROBE_POINT = "radius"
#: Numbers of the two requests: without a Message-Authenticator, and with it.
_UNSIGNED, _SIGNED = 1, 2
#: Answers to read at most: the server may send each of the two again.
_MOST_ANSWERS = 10


def probe_server(site: Site, access_point: str, out: Path) -> tuple[dict[str, Any], bytes]:
    """Send a RADIUS server a request without a Message-Authenticator, then one with it.

    The requests come from the access point's address, for an unknown user and without EAP. The
    capture behind the access point shows which of them the server answers.

    Returns:
        The capture's entry for the record (such as file and point), and the content of its file.

    Raises:
        MeasureError: The capture cannot be made.
    """
    network = site.network
    server = network.nodes[network.radius_server_of(access_point) or ""].address
    secret = site.secrets["network"]["radius_secret"].encode()
    taken: list[dict[str, Any]] = []
    point = wire_point(network, PROBE_POINT, access_point, f"udp port {RADIUS_PORT}")
    with capture_packets(site.testbed, [point], WHOLE, part="port", out=out, logs=site.logs,
                         summaries=taken):
        with open_client_socket(site, access_point) as asking, suppress(TimeoutError):
            for number, key in ((_UNSIGNED, b""), (_SIGNED, secret)):
                asking.sendto(build_access_request(number, PROBE_USER, os.urandom(16), key),
                              (server, RADIUS_PORT))
            for _ in range(_MOST_ANSWERS):
                if asking.recv(4096)[1:2] == bytes((_SIGNED,)):
                    break
        time.sleep(_SETTLE_S)  # time for an answer that must not come, and for tcpdump
    [summary] = taken
    return summary, (out / summary["file"]).read_bytes()


# --- EAP-AKA: hostapd as the authentication server, and its subscriber server ---
# The subscriber server (HSS) runs on its own node, or else on the first node whose hostapd needs
# one. All other nodes use that server: a card counts the challenges of one server only.

#: Duty of the node that runs a study's subscriber server.
HSS = "hss"
#: Methods that need a card, in the rendered list: AKA, or AKA' with an apostrophe.
_BY_CARD = re.compile(r"^\"\d\"\* AKA('?)$", re.MULTILINE)


class SubscriberServers(DaemonService):
    """The service that runs the subscriber server for EAP-AKA (HSS: keys of SIM cards).

    It runs on an HSS node, or on a node whose hostapd needs it.
    """

    name = "hss"
    file = "eap_server"

    def list_nodes(self) -> Sequence[str]:
        """Return the HSS nodes, or else the first node whose hostapd uses EAP-AKA."""
        return self.site.network.of_duty(HSS) or [*self._card_methods()][:1]

    def launch_on(self, node: str) -> Daemon:
        """Start the subscriber server, which knows one SIM card."""
        subscriber = self.site.secrets["hss"]
        return self._run_program(node, "serve", {
            "address": self._address(node),
            "separates": any(self._card_methods().values()),
            "subscribers": {self.site.secrets["network"]["imsi"]: dict(subscriber)}})

    def _card_methods(self) -> Mapping[str, bool]:
        """Return the nodes whose hostapd uses a SIM card, and whether by EAP-AKA'."""
        listed = {node: _BY_CARD.search((self.site.mount / node / self.file
                                         / "eap_users").read_text())
                  for node in self.site.nodes_with_file(self.file)}
        return {node: bool(method[1]) for node, method in listed.items() if method}

    def _address(self, node: str) -> str:
        """Return the address of a node's subscriber server.

        A home agent listens on its outer address, where the other agents can reach it.
        """
        place = self.site.network.nodes[node]
        return place.outer_address if place.has_duty(HOME_AGENT) else place.address

    def _run_program(self, node: str, what: str, config: Mapping[str, Any]) -> Daemon:
        file = self.site.run_folder(node) / f"{what}.json"
        file.write_text(json.dumps(config))
        return self.run_daemon(node,
                               [sys.executable, "-m", "protocols.aka.program", what, str(file)],
                               r"ready", program_environment())


class SubscriberGateways(SubscriberServers):
    """The service that connects each hostapd to the subscriber server (HSS).

    On each node, a program forwards messages between hostapd's socket for EAP-SIM (`eap_sim_db`)
    and the server, which may run on another node.
    """

    name = "hss-gateway"

    def list_nodes(self) -> Sequence[str]:
        """Return the nodes whose hostapd uses EAP-AKA, and so needs a gateway."""
        return [*self._card_methods()]

    def launch_on(self, node: str) -> Daemon:
        """Start the gateway on the socket to which a node's hostapd connects."""
        [server] = super().list_nodes()
        return self._run_program(node, "gateway", {
            "socket": str(self.site.run_folder(node) / "hss.sock"),
            "server": self._address(server)})


class EapServer(DaemonService):
    """The service that runs hostapd as a RADIUS server, on every node with its configuration."""

    name = "eap_server"
    file = "eap_server"
    needs: Sequence[str] = (SubscriberGateways.name,)

    def launch_on(self, node: str) -> Daemon:
        """Start hostapd as a RADIUS server on one node."""
        folder = self.site.mount / node / self.file
        return self.run_daemon(node, ["hostapd", str(folder / "eap_server.conf")], r"AP-ENABLED")
