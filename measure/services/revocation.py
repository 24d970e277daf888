"""Run OCSP responders, and try a revoked client certificate on a RADIUS server.

`OcspResponders` runs `openssl ocsp` (RFC 6960) on the network's node for it, or on the node of each
RADIUS server. `try_revoked_certificate` authenticates with the mobile node's revoked certificate
from an access point, as hostapd would ask for a station. It returns raw values and captures, which
`measure.checks.revocation` checks. Both take a `Site`: a running network with the settings of its
run. Standard library only: it runs in the guest.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from measure.agent.process import Daemon
from measure.agent.workload import Site
from measure.capture.tcpdump import (
    OCSP_PORT,
    WHOLE,
    capture_packets,
    ocsp_points,
    wire_point,
)
from measure.load import eap_client
from measure.load.eap_client import EapTlsError, EapTlsPeer, create_tls_context
from measure.packets.eap import RADIUS_PORT
from measure.services.daemons import DaemonService
from measure.services.radius import FreeRadius, open_client_socket
from topologies.model import Scenario

#: Days for which an answer of the responder is valid.
_DAYS = "7"
#: Folder of the revoked certificate in the mobile node's files.
_REVOKED_FOLDER = "revoked_pki"
#: UDP port from which the revoked certificate is tried. hostapd's are assigned by the kernel.
_SOURCE_PORT = 20_100
#: Calling-Station-Id of the requests.
_CALLING = "02-00-00-00-00-44"
#: Name of the capture point behind the access point, and prefix of the captures' names.
REVOKED_POINT, _PART = "revoked", "port"
#: Upper limit of requests, and how often each is sent.
_MOST_REQUESTS, _ATTEMPTS = 60, 3
#: Time for tcpdump to read the last packets, in s.
_SETTLE_S = 0.25


class OcspResponders(DaemonService):
    """The service that runs `openssl ocsp`, on every node with a responder's certificate."""

    name = "ocsp"
    file = "ocsp"

    def launch_on(self, node: str) -> Daemon:
        """Start the responder of one node."""
        folder = self.site.mount / node / self.file
        return self.run_daemon(node, [
            "openssl", "ocsp", "-port", str(OCSP_PORT), "-index", str(folder / "index"),
            "-CA", str(folder / "issuer.pem"), "-rsigner", str(folder / "responder.pem"),
            "-rkey", str(folder / "responder.key"), "-ndays", _DAYS, "-ignore_err"],
            r"waiting for OCSP client connections")


def try_revoked_certificate(site: Site, scenario: Scenario, version: str, realm: str,
                            servers: FreeRadius, out: Path,
                            ) -> tuple[dict[str, Any], list[tuple[dict[str, Any], bytes]]]:
    """Authenticate to the RADIUS server with the mobile node's revoked certificate.

    The requests come from the access point at home. Captures behind it and at the OCSP responder
    show the answers.

    Args:
        site: The running testbed.
        scenario: The scenario, with mobile node and access point.
        version: Version of TLS.
        realm: What the identity has behind an @, "" for nothing.
        servers: The RADIUS servers, whose logs have TLS keys and the cause of a refusal.
        out: Folder for captures.

    Returns:
        Raw values (the code of the last answer, TLS keys of the servers and their cause), and
        summary and content of each capture.

    Raises:
        MeasureError: The captures cannot be made.
    """
    points = [wire_point(scenario.network, REVOKED_POINT, scenario.home,
                         f"udp port {RADIUS_PORT} and udp port {_SOURCE_PORT}"),
              *(ocsp_points(scenario)[:1] if site.nodes_with_file(OcspResponders.file) else ())]
    known = {node: len(keys) for node, keys in servers.read_tls_keys().items()}
    begun = {daemon: daemon.position() for daemon in servers.daemons.values()}
    taken: list[dict[str, Any]] = []
    with capture_packets(site.testbed, points, WHOLE, part=_PART, out=out, logs=site.logs,
                         summaries=taken):
        code = _authenticate_user(site, scenario, version, "@".join(filter(None, (
            site.secrets["network"]["eap_identity"], realm))))
        time.sleep(_SETTLE_S)
    causes = [cause for daemon, position in begun.items()
              if (cause := daemon.cause_since(position))]
    keys = [key for node, lines in servers.read_tls_keys().items()
            for key in lines[known.get(node, 0):]]
    return ({"answer": code, "cause": "; ".join(causes), "tls_keys": keys},
            [(summary, (out / summary["file"]).read_bytes()) for summary in taken])


def _authenticate_user(site: Site, scenario: Scenario, version: str, user: str) -> int:
    """Return the code of the RADIUS server's last answer, 0 without an answer."""
    network = scenario.network
    secret = site.secrets["network"]["radius_secret"].encode()
    folder = site.mount / scenario.mobile_node / _REVOKED_FOLDER
    peer = EapTlsPeer(lambda: create_tls_context(folder, version), user)
    with open_client_socket(site, scenario.home, _SOURCE_PORT) as asking:
        address, _ = asking.getsockname()
        asking.connect((network.nodes[network.radius_server_of(scenario.home)].address,
                        RADIUS_PORT))
        message, state = peer.identity(), b""
        for number in range(_MOST_REQUESTS):
            answer = eap_client.parse_radius_packet(ask_server(
                asking, eap_client.build_access_request(
                    number, os.urandom(16), message, user=user, state=state, calling=_CALLING,
                    nas=address, secret=secret)))
            if answer is None or answer.code != eap_client.ACCESS_CHALLENGE:
                return answer.code if answer else 0
            try:
                message, state = peer.answer_request(answer.eap), answer.state
            except EapTlsError:
                return answer.code
    return 0


def ask_server(asking: socket.socket, request: bytes) -> bytes:
    """Send a request up to three times, and return the answer, or b"" if none comes.

    Late answers to other requests are ignored. They have another RADIUS identifier.
    """
    for _ in range(_ATTEMPTS):
        with suppress(OSError):
            asking.send(request)
            for _ in range(_MOST_REQUESTS):
                if (answer := asking.recv(4096))[1:2] == request[1:2]:
                    return answer
    return b""
