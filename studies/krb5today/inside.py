"""The study's part inside the machine: users log in, and packets and processors are watched.

Nothing is judged here. Clients compute for nothing (their nodes' processors are counted, though):
however many they are, they would all be on one node.
"""

from __future__ import annotations

import shutil
import threading
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
from studies.krb5today.clients import SERVER, LoginClient, lacking
from studies.krb5today.controls import CONTROLS, NOTHING
from studies.krb5today.mechanisms import MECHANISMS, LoginMechanism
from topologies.model import Scenario, from_json
from topologies.shapes import STAR_PORT

_WHOLE = Detail(snap_bytes=4096, buffer_kib=2048, in_blocks=True)
_KDCS = ("local", "remote", "app")
#: Those that a client has nothing to do with that goes by the proxy.
_PAST = ("local", "remote")
#: And later fragments of datagrams, which have no ports.
_KERBEROS = f"port 88 or tcp port {GSS_PORT} or tcp port {PROXY_PORT} or ip[6:2] & 0x1fff != 0"


class _ControlledKdc(MitKdc):
    """A KDC that trusts another authority, too, where that is the control."""

    def launch_on(self, node: str) -> Daemon:
        """Start it, with what it trusts."""
        if CONTROLS.get(self.site.fault, NOTHING).is_believed:
            settings = self.site.mount / node / self.file
            rogue = next(self.site.mount.glob("*/pkinit/rogue-ca.pem"))
            own = "\t\tpkinit_dh_min_bits"
            settings.write_text(settings.read_text().replace(
                own, f"\t\tpkinit_anchors = FILE:{rogue}\n{own}"))
        return super().launch_on(node)


class Workload:
    """Three realms, an application server, and users who log in."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._kdc = _ControlledKdc(site)
        self._servers = [GssServer(site), IakerbServer(site)]
        self._air = OverAir(site) if site.network.has_radios else None
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """KDCs, and the application server as such and as a proxy; and what the air takes."""
        return [*(self._air.services() if self._air else ()), self._kdc, *self._servers]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """One repetition: every customer's logins, one after the other."""
        mechanism, raw = MECHANISMS[task["mechanism"]], session.raw
        raw |= {"captures": [], "logins": [], "lacking": lacking(mechanism), "addresses": {
            node: self._site.network.nodes[node].address for node in (task["node"], *_KDCS)}}
        if raw["lacking"]:
            return
        clients = [LoginClient(self._site, task["node"], mechanism, number, curve=task["curve"])
                   for number in range(task["customers"])]
        for node in self._kdc.list_nodes():
            self._kdc.export_keys(node, out)
        for name in ("ca.pem", "user.key"):  # by the key, the judge reads what RSA mode hides
            shutil.copy(clients[0].home / "pkinit" / name, out)
        with ExitStack() as stack:
            stay = stack.enter_context(self._air.connected(
                from_json(Scenario, task["scenario"]), out, session,
                has_port=task["has_port"])) if self._air else None
            self._introduce(task["node"])
            clients[0].prepare()
            clients[0].once()  # what is read from disk and looked up for the first time
            clients[0].drain()
            stack.enter_context(capturing(
                self._site.testbed, self._points(task["node"], mechanism), _WHOLE, part="logins",
                out=out, logs=self._site.logs, summaries=raw["captures"]))
            before = self._work(task["node"])
            session.stamp("start")
            _all(clients, task["logins"], stay)
            session.stamp("end")
            after = self._work(task["node"])
            settle_captures()
        raw["logins"] = [entry for client in clients for entry in client.logins]
        raw["work_s"] = {node: after[node] - before[node] for node in before}

    def _points(self, client: str, mechanism: LoginMechanism) -> list[Point]:
        """Where logins show: at the client; of one on the air, where its tunnels have ended.

        There, whoever is at home to talk to is the local KDC's node: only Kerberos is taken.
        """
        nodes = [client, "local", SERVER]
        if self._air is None:
            return [Point(node, node, STAR_PORT, self._shown(client, mechanism)) for node in nodes]
        address = self._site.network.nodes[client].address
        return [*host_points(address, _KDCS, STAR_PORT, _KERBEROS),
                *(Point(node, node, STAR_PORT, _KERBEROS) for node in nodes[1:])]

    def _shown(self, client: str, mechanism: LoginMechanism) -> str:
        """What is captured: Kerberos; by a proxy, all that client and KDCs say past it, too."""
        if not mechanism.is_proxied:
            return _KERBEROS
        own, *kdcs = (self._site.network.nodes[node].address for node in (client, *_PAST))
        past = " or ".join(f"ip host {kdc}" for kdc in kdcs)
        return f"({_KERBEROS}) or (ip host {own} and ({past}))"

    def _introduce(self, node: str) -> None:
        """Have the client's node compute for nothing, where computing takes time at all.

        The sample application writes a byte before each token; without delayed acknowledgements,
        Nagle's algorithm makes that a round trip, and not 40 ms.
        """
        testbed, nodes = self._site.testbed, self._site.network.nodes
        if self._site.clock == "processor":
            testbed.run_command(node, ["sysctl", "-qw", "net.core.processor_permille=0 0 0 0"])
        for end in (SERVER,) if self._air else (node, SERVER):
            testbed.run_command(end, ["ip", "route", "replace", "default", "via", nodes[end].gateway
                                      or "",
                                      "quickack", "1"])

    def _work(self, client: str) -> dict[str, float]:
        """Seconds that each node has computed; in real time, that each KDC has."""
        if self._site.clock == "processor":
            return {node: _counted(self._site.testbed.node(node).pid)
                    for node in (client, *_KDCS)}
        if self._site.clock == "real":
            return {node: int(Path(f"/proc/{daemon.pid}/schedstat").read_text().split()[0]) / 1e9
                    for node, daemon in self._kdc.daemons.items()}
        return {}


def _all(clients: Sequence[LoginClient], logins: int, stay: Stay | None) -> None:
    """All of them at once, each one login after the other; who moves, as often before and after."""
    if len(clients) == 1:
        clients[0].log_in(logins, is_lone=True)
        if stay is not None and stay.moves:
            stay.move_away()
            clients[0].log_in(logins, is_lone=True, is_away=True)
        return
    threads = [threading.Thread(target=client.log_in, args=(logins,), kwargs={"is_lone": False})
               for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _counted(pid: int) -> float:
    """Seconds of work that the kernel counted for the node of a process."""
    lines = map(str.split, Path(f"/proc/{pid}/net/processor").read_text().splitlines())
    return sum(int(value) for name, value in lines if name.startswith("work_")) / 1e9
