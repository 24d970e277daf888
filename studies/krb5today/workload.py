"""Let users log in by MIT krb5 in the guest, while packets and CPU times are recorded.

The guest is the virtual machine of the test network. `Workload.measure` runs one measurement
(repetition). Its captures are evaluated outside of the guest.

All users log in on one node of the network, although each user of a real network has an own
computer. They would delay each other if their computing took time there. So by the processor clock,
computing on this node takes no time, and only the KDCs are slowed down by their load. The CPU time
of the node is measured nevertheless, as the cost of a login for the client. `studies.krb5today`
lists the terms.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure.agent.process import Daemon
from measure.agent.workload import Service, Session, Site
from measure.capture.tcpdump import CaptureDetail, CapturePoint, capture_packets, settle_captures
from measure.mobile_node.attachment import AttachedNode, WirelessAccess, host_points
from measure.services.mit_krb5 import (
    GSS_PORT,
    PROXY_PORT,
    GssServer,
    IakerbServer,
    MitKdc,
)
from studies.krb5today.clients import SERVER, LoginClient, log_in_at_once, missing_support
from studies.krb5today.fault_injection import CONTROLS, NO_DEVIATION
from studies.krb5today.mechanisms import MECHANISMS, LoginMechanism
from topologies.model import Scenario, from_json
from topologies.shapes import STAR_PORT

_WHOLE = CaptureDetail(snap_bytes=4096, buffer_kib=2048, in_blocks=True)
_KDCS = ("local", "remote", "app")
#: KDCs that a client must not contact if it uses the proxy.
_PAST = ("local", "remote")
#: Capture filter for Kerberos. It includes later fragments of datagrams, which have no ports.
_KERBEROS = f"port 88 or tcp port {GSS_PORT} or tcp port {PROXY_PORT} or ip[6:2] & 0x1fff != 0"


class _ControlledKdc(MitKdc):
    """A KDC that trusts a further certificate authority if a fault is injected."""

    def launch_on(self, node: str) -> Daemon:
        """Start the KDC on a node, perhaps with the further authority."""
        if CONTROLS.get(self.site.fault, NO_DEVIATION).is_believed:
            settings = self.site.mount / node / self.file
            rogue = next(self.site.mount.glob("*/pkinit/rogue-ca.pem"))
            own = "\t\tpkinit_dh_min_bits"
            settings.write_text(settings.read_text().replace(
                own, f"\t\tpkinit_anchors = FILE:{rogue}\n{own}"))
        return super().launch_on(node)


class Workload:
    """A workload: three Kerberos realms, an application server, and users who log in."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._kdc = _ControlledKdc(site)
        self._servers = [GssServer(site), IakerbServer(site)]
        self._air = WirelessAccess(site) if site.network.has_radios else None
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """Return the services to start: KDCs, application server, and the services of the air."""
        return [*(self._air.list_services() if self._air else ()), self._kdc, *self._servers]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Run one repetition, in which every user logs in a number of times.

        Args:
            task: instructions for the repetition, as `Krb5Today.task` returns them.
            out: folder of the repetition, which gets the captures.
            session: raw values and time stamps of the repetition.
        """
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
            stay = stack.enter_context(self._air.attach_node(
                from_json(Scenario, task["scenario"]), out, session,
                has_port=task["has_port"])) if self._air else None
            self._prepare_nodes(task["node"])
            clients[0].prepare()
            clients[0].log_in_once()  # reads files and fills caches before the measurement
            clients[0].wait_until_drained()
            stack.enter_context(capture_packets(
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

    def _capture_points(self, client: str, mechanism: LoginMechanism) -> list[CapturePoint]:
        """Return where packets are captured: client, local KDC and application server.

        For a client over the air, the first captures are at the KDCs, behind its tunnels. Other
        traffic also goes to the local KDC's node, so only Kerberos is captured.
        """
        nodes = [client, "local", SERVER]
        if self._air is None:
            return [CapturePoint(node, node, STAR_PORT, self._capture_filter(client, mechanism))
                    for node
                    in nodes]
        address = self._site.network.nodes[client].address
        return [*host_points(address, _KDCS, STAR_PORT, _KERBEROS),
                *(CapturePoint(node, node, STAR_PORT, _KERBEROS) for node in nodes[1:])]

    def _capture_filter(self, client: str, mechanism: LoginMechanism) -> str:
        """Return the capture filter at the client, which selects Kerberos.

        With IAKERB (login through the application server), it also selects all packets directly
        between client and KDCs.
        """
        if not mechanism.is_proxied:
            return _KERBEROS
        own, *kdcs = (self._site.network.nodes[node].address for node in (client, *_PAST))
        past = " or ".join(f"ip host {kdc}" for kdc in kdcs)
        return f"({_KERBEROS}) or (ip host {own} and ({past}))"

    def _prepare_nodes(self, node: str) -> None:
        """Let computing on the client's node take no time, and acknowledge TCP segments at once.

        The sample application writes a byte before each token. With delayed acknowledgements,
        Nagle's algorithm would add 40 ms. Without them, it adds a round trip.
        """
        testbed, nodes = self._site.testbed, self._site.network.nodes
        if self._site.clock == "processor":
            testbed.run_command(node, ["sysctl", "-qw", "net.core.processor_permille=0 0 0 0"])
        for end in (SERVER,) if self._air else (node, SERVER):
            testbed.run_command(end, ["ip", "route", "replace", "default", "via", nodes[end].gateway
                                      or "",
                                      "quickack", "1"])

    def _processor_times(self, client: str) -> dict[str, float]:
        """Return the CPU time used so far, by node (s).

        The processor clock counts it for the client and the KDCs. With the real clock, it is that
        of the KDCs' processes. With the virtual clock, none is counted.
        """
        if self._site.clock == "processor":
            return {node: _read_work_s(self._site.testbed.node(node).pid)
                    for node in (client, *_KDCS)}
        if self._site.clock == "real":
            return {node: int(Path(f"/proc/{daemon.pid}/schedstat").read_text().split()[0]) / 1e9
                    for node, daemon in self._kdc.daemons.items()}
        return {}


def _run_clients(clients: Sequence[LoginClient], logins: int,
                 connection: AttachedNode | None) -> None:
    """Let all users log in at the same time, each a number of times.

    A user with a handoff logs in as often before as after it.

    Raises:
        MeasureError: a user's command does not end in time.
    """
    if len(clients) == 1:
        clients[0].log_in(logins, is_lone=True)
        if connection is not None and connection.has_pending_move:
            connection.move_away()
            clients[0].log_in(logins, is_lone=True, is_away=True)
        return
    log_in_at_once(clients, logins)


def _read_work_s(pid: int) -> float:
    """Return the CPU time (s) that the kernel has counted for the node of a process."""
    lines = map(str.split, Path(f"/proc/{pid}/net/processor").read_text().splitlines())
    return sum(int(value) for name, value in lines if name.startswith("work_")) / 1e9
