"""Service for RadSec: a proxy on each access point carries RADIUS in TLS.

The proxy connects once, at the first request, and keeps the connection. A first request is
therefore sent before anything is measured, as in a busy network. The capture of the TLS handshake
is kept for every repetition: no later packet shows who the peer is.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measure.capture import WHOLE, capturing
from measure.eap_keys import PORT, RADSEC_PORT
from measure.errors import MeasureError
from measure.points import wire_point
from measure.process import Daemon
from measure.services.daemons import Daemons
from measure.services.freeradius import FreeRadius
from measure.services.macsec import WireKeys
from measure.time_limits import TimeLimits
from measure.workload import Site
from topologies.namespaces import network_of

#: Prefix of the captures of TLS handshakes; the access point's name follows.
PART = "radsec"
_ACCESS_REQUEST, _USER_NAME = 1, 1
_ASKING = b"radius-proxy"
_SETTLE_S = 0.25


@dataclass(frozen=True)
class Connected:
    """A new TLS connection: its lines of the server's key log, and its capture."""

    keys: Sequence[str]
    summary: Mapping[str, Any]
    octets: bytes


class RadiusProxies(Daemons):
    """A proxy on every access point that has its configuration."""

    name = "radius_proxy"
    file = "radius_proxy"
    needs: Sequence[str] = (FreeRadius.name, WireKeys.name)

    def __init__(self, site: Site, servers: FreeRadius) -> None:
        super().__init__(site)
        self._servers = servers
        #: TLS connections by access point, filled by `wait_ready`.
        self.connections: dict[str, Connected] = {}

    def launch_on(self, node: str) -> Daemon:
        """Start the proxy of one access point."""
        return self.run_daemon(node, ["freeradius", "-f", "-l", "stdout", "-d",
                                      str(self.site.mount / node / self.file), "-n", "proxy"],
                               r"Ready to process requests")

    def wait_ready(self) -> None:
        """Wait until the proxies run, then make each connect to its server.

        Raises:
            MeasureError: A proxy is not ready, or gets no answer from the server.
        """
        super().wait_ready()
        if self._servers.name in self.site.withhold:
            return
        for node in self.daemons:
            self.connections[node] = self._capture_connection(node)

    def _capture_connection(self, node: str) -> Connected:
        known, taken = len(self._read_keys()), list[dict[str, object]]()
        point = wire_point(self.site.network, node, node, f"tcp port {RADSEC_PORT}")
        folder = self.site.run_folder(node)
        with capturing(self.site.testbed, [point], WHOLE, part=PART, out=folder,
                       logs=self.site.logs, summaries=taken):
            self._send_first_request(node)
            time.sleep(_SETTLE_S)  # time for tcpdump to read the packets that have arrived
        keys = self._read_keys()[known:]
        if not keys:
            raise MeasureError("testbed", f"{self.name} on {node}: no TLS connection to the "
                               f"authentication server: {self.daemons[node].find_cause()} (log: "
                               f"{self.daemons[node].log.name})")
        [summary] = taken
        return Connected(keys, summary, (folder / str(summary["file"])).read_bytes())

    def _read_keys(self) -> list[str]:
        return [line for lines in self._servers.read_tls_keys().values() for line in lines]

    def _send_first_request(self, node: str) -> None:
        """Send an Access-Request for an unknown user and wait for the server's answer."""
        bridge = next(i.bridge for i in self.site.network.nodes[node].interfaces.values()
                      if i.radio)
        address = self.site.network.nodes[node].interfaces[bridge or ""].ip
        limit_s = TimeLimits.for_testbed(self.site.testbed).tls_s
        name = bytes((_USER_NAME, 2 + len(_ASKING))) + _ASKING
        with network_of(self.site.testbed.node(node).pid):
            asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with asking:
            asking.bind((address, 0))
            asking.settimeout(limit_s)
            asking.sendto(bytes((_ACCESS_REQUEST, 0)) + (20 + len(name)).to_bytes(2, "big")
                          + os.urandom(16) + name, (address, PORT))
            try:
                asking.recv(4096)
            except TimeoutError:
                raise MeasureError("testbed", f"{self.name} on {node}: no answer from the "
                                   f"authentication server within {limit_s:.3g} s: "
                                   f"{self.daemons[node].find_cause()} (log: "
                                   f"{self.daemons[node].log.name})") from None
