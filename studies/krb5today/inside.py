"""Workload in the guest: logins of users, with captures and processor times.

The module judges nothing. Computing of the clients takes no time, because all clients of a
repetition share one node. The processor time of this node is counted nevertheless.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure.capture import Detail, Point, capturing, settle_captures
from measure.over_air import OverAir, Stay, host_points
from measure.process import Daemon
from measure.services.mit_krb5 import (
    GSS_PORT,
    PROXY_PORT,
    GssServer,
    IakerbServer,
    MitKdc,
)
from measure.workload import Service, Session, Site
from studies.krb5today.clients import SERVER, LoginClient, log_in_at_once, missing_support
from studies.krb5today.controls import CONTROLS, NOTHING
from studies.krb5today.mechanisms import MECHANISMS, LoginMechanism
from topologies.model import Scenario, from_json
from topologies.shapes import STAR_PORT

_WHOLE = Detail(snap_bytes=4096, buffer_kib=2048, in_blocks=True)
_KDCS = ("local", "remote", "app")
#: KDCs that a client must not contact if it uses the proxy.
_PAST = ("local", "remote")
#: Capture filter for Kerberos. It includes later fragments of datagrams, which have no ports.
_KERBEROS = f"port 88 or tcp port {GSS_PORT} or tcp port {PROXY_PORT} or ip[6:2] & 0x1fff != 0"


class _ControlledKdc(MitKdc):
    """A KDC that trusts a further authority under a control."""

    def launch_on(self, node: str) -> Daemon:
        """Start the KDC on a node, with the further authority under a control."""
        if CONTROLS.get(self.site.fault, NOTHING).is_believed:
            settings = self.site.mount / node / self.file
            rogue = next(self.site.mount.glob("*/pkinit/rogue-ca.pem"))
            own = "\t\tpkinit_dh_min_bits"
            settings.write_text(settings.read_text().replace(
                own, f"\t\tpkinit_anchors = FILE:{rogue}\n{own}"))
        return super().launch_on(node)


class Workload:
    """Workload of three realms, an application server and users who log in."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._kdc = _ControlledKdc(site)
        self._servers = [GssServer(site), IakerbServer(site)]
        self._air = OverAir(site) if site.network.has_radios else None
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """Return the KDCs, the application server's programs and the services of the air."""
        return [*(self._air.services() if self._air else ()), self._kdc, *self._servers]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Measure one repetition, with consecutive logins of every customer."""
        mechanism, raw = MECHANISMS[task["mechanism"]], session.raw
        raw |= {"captures": [], "logins": [], "lacking": missing_support(mechanism), "addresses": {
            node: self._site.network.nodes[node].address for node in (task["node"], *_KDCS)}}
        if raw["lacking"]:
            return
        clients = [LoginClient(self._site, task["node"], mechanism, number, curve=task["curve"])
                   for number in range(task["customers"])]
        for node in self._kdc.list_nodes():
            self._kdc.export_keys(node, out)
        for name in ("ca.pem", "user.key"):  # with the key, the judge opens replies of RSA mode
            shutil.copy(clients[0].home / "pkinit" / name, out)
        with ExitStack() as stack:
            stay = stack.enter_context(self._air.connected(
                from_json(Scenario, task["scenario"]), out, session,
                has_port=task["has_port"])) if self._air else None
            self._prepare_nodes(task["node"])
            clients[0].prepare()
            clients[0].log_in_once()  # reads files and fills caches before the measurement
            clients[0].wait_until_drained()
            stack.enter_context(capturing(
                self._site.testbed, self._capture_points(task["node"], mechanism), _WHOLE,
                part="logins",
                out=out, logs=self._site.logs, summaries=raw["captures"]))
            before = self._processor_times(task["node"])
            session.stamp("start")
            _run_clients(clients, task["logins"], stay)
            session.stamp("end")
            after = self._processor_times(task["node"])
            settle_captures()
        raw["logins"] = [entry for client in clients for entry in client.logins]
        raw["work_s"] = {node: after[node] - before[node] for node in before}

    def _capture_points(self, client: str, mechanism: LoginMechanism) -> list[Point]:
        """Return the capture points: client, local KDC and application server.

        For a client on the air, the first points are at the KDCs, where its tunnels have ended. The
        local KDC's node is also the peer for other traffic, so only Kerberos is captured.
        """
        nodes = [client, "local", SERVER]
        if self._air is None:
            return [Point(node, node, STAR_PORT, self._capture_filter(client, mechanism)) for node
                    in nodes]
        address = self._site.network.nodes[client].address
        return [*host_points(address, _KDCS, STAR_PORT, _KERBEROS),
                *(Point(node, node, STAR_PORT, _KERBEROS) for node in nodes[1:])]

    def _capture_filter(self, client: str, mechanism: LoginMechanism) -> str:
        """Return the capture filter at the client.

        The filter selects Kerberos. With a proxy, it also selects all packets between the client
        and the KDCs that bypass the proxy.
        """
        if not mechanism.is_proxied:
            return _KERBEROS
        own, *kdcs = (self._site.network.nodes[node].address for node in (client, *_PAST))
        past = " or ".join(f"ip host {kdc}" for kdc in kdcs)
        return f"({_KERBEROS}) or (ip host {own} and ({past}))"

    def _prepare_nodes(self, node: str) -> None:
        """Make computing on the client's node free, and acknowledge segments at once.

        The processor clock charges for computing, so the node's charge is set to 0. The sample
        application writes a byte before each token. With delayed acknowledgements, Nagle's
        algorithm would add 40 ms. Without them, it adds a round trip.
        """
        testbed, nodes = self._site.testbed, self._site.network.nodes
        if self._site.clock == "processor":
            testbed.run_command(node, ["sysctl", "-qw", "net.core.processor_permille=0 0 0 0"])
        for end in (SERVER,) if self._air else (node, SERVER):
            testbed.run_command(end, ["ip", "route", "replace", "default", "via", nodes[end].gateway
                                      or "",
                              "quickack", "1"])

    def _processor_times(self, client: str) -> dict[str, float]:
        """Return the processor time used so far, by node (s).

        The processor clock counts it for the client and the KDCs. On the real clock, it is that of
        the KDCs' processes. On the virtual clock, none is counted.
        """
        if self._site.clock == "processor":
            return {node: _read_work_s(self._site.testbed.node(node).pid)
                    for node in (client, *_KDCS)}
        if self._site.clock == "real":
            return {node: int(Path(f"/proc/{daemon.pid}/schedstat").read_text().split()[0]) / 1e9
                    for node, daemon in self._kdc.daemons.items()}
        return {}


def _run_clients(clients: Sequence[LoginClient], logins: int, connection: Stay | None) -> None:
    """Run all clients at once, each with consecutive logins.

    A client with a handoff has as many logins before as after it.

    Raises:
        MeasureError: A client's command does not end in time.
    """
    if len(clients) == 1:
        clients[0].log_in(logins, is_lone=True)
        if connection is not None and connection.moves:
            connection.move_away()
            clients[0].log_in(logins, is_lone=True, is_away=True)
        return
    log_in_at_once(clients, logins)


def _read_work_s(pid: int) -> float:
    """Return the processor time (s) that the kernel counted for a process's node."""
    lines = map(str.split, Path(f"/proc/{pid}/net/processor").read_text().splitlines())
    return sum(int(value) for name, value in lines if name.startswith("work_")) / 1e9
