"""The study's part inside the machine: users log in, and packets and processors are watched.

Nothing is judged here. Clients compute for nothing (their nodes' processors are counted, though):
however many they are, they would all be on one node.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure.capture import Detail, Point, capturing, settle
from measure.errors import MeasureError
from measure.services.mit_krb5 import (
    GSS_PORT,
    PROXY_PORT,
    GssServer,
    IakerbServer,
    MitKdc,
    library_environment,
)
from measure.workload import Service, Session, Site
from studies.krb5today.controls import CONTROLS, NOTHING, LoginControl
from studies.krb5today.mechanisms import (
    LOCAL,
    MECHANISMS,
    USER,
    LoginMechanism,
    identity,
    login,
    service,
)

_WHOLE = Detail(snap_bytes=4096, buffer_kib=2048, in_blocks=True)
_HOME, _SERVER, _PORT = "client", "app", "wire"
_KDCS = ("local", "remote", "app")
#: Where PKINIT is installed.
ROOT = Path("/")
_PLUGIN = "usr/lib/*/krb5/plugins/preauth/pkinit.so"
#: Longer than any login takes that is not lost.
_LOGIN_S = 600.0
#: By then nothing is on a wire any more, not even what was sent again; where waiting takes time,
#: nobody waits for the slowest one.
_DRAINED_S, _REAL_DRAINED_S = 20.0, 0.5
#: And later fragments of datagrams, which have no ports.
_KERBEROS = f"port 88 or tcp port {GSS_PORT} or tcp port {PROXY_PORT} or ip[6:2] & 0x1fff != 0"


class Workload:
    """Three realms, an application server, and users who log in."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._kdc = MitKdc(site)
        self._servers = [GssServer(site), IakerbServer(site)]
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """KDCs, and the application server as such and as a proxy."""
        return [self._kdc, *self._servers]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """One repetition: every customer's logins, one after the other."""
        mechanism, raw = MECHANISMS[task["mechanism"]], session.raw
        raw |= {"captures": [], "logins": [], "lacking": lacking(mechanism), "addresses": {
            node: self._site.network.nodes[node].address for node in (task["node"], *_KDCS)}}
        if raw["lacking"]:
            return
        self._introduce(task["node"])
        clients = [LoginClient(self._site, task["node"], mechanism, number)
                   for number in range(task["customers"])]
        clients[0].prepare()
        clients[0].once()  # what is read from disk and looked up for the first time
        clients[0].drain()
        for node in self._kdc.nodes():
            self._kdc.keys(node, out)
        shutil.copy(self._site.mount / _HOME / "pkinit" / "ca.pem", out)
        with ExitStack() as stack:
            points = [Point(node, node, _PORT, _KERBEROS)
                      for node in (task["node"], "local", _SERVER)]
            stack.enter_context(capturing(self._site.testbed, points, _WHOLE, part="logins",
                                          out=out, logs=self._site.logs, summaries=raw["captures"]))
            before = self._work(task["node"])
            session.stamp("start")
            _all(clients, task["logins"])
            session.stamp("end")
            after = self._work(task["node"])
            settle()
        raw["logins"] = [entry for client in clients for entry in client.logins]
        raw["work_s"] = {node: after[node] - before[node] for node in before}

    def _introduce(self, node: str) -> None:
        """Have the client's node compute for nothing, where computing takes time at all.

        The sample application writes a byte before each token; without delayed acknowledgements,
        Nagle's algorithm makes that a round trip, and not 40 ms.
        """
        testbed, nodes = self._site.testbed, self._site.network.nodes
        if self._site.clock == "processor":
            testbed.run(node, ["sysctl", "-qw", "net.core.processor_permille=0 0 0 0"])
        for end in (node, _SERVER):
            testbed.run(end, ["ip", "route", "replace", "default", "via", nodes[end].gateway or "",
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


class LoginClient:
    """A user at a node, with tickets of its own."""

    def __init__(self, site: Site, node: str, mechanism: LoginMechanism, number: int) -> None:
        self._site, self._node, self._number = site, node, number
        self._control = CONTROLS.get(site.fault, NOTHING)
        self._pkinit = str(site.mount / _HOME / "pkinit")
        self._folder = site.run_folder(_HOME)
        self._mechanism = _instead(mechanism, self._control)
        self._cache = f"FILE:{self._folder}/tickets-{number}"
        self._armour = f"FILE:{self._folder}/armour"
        self.logins: list[dict[str, Any]] = []

    def prepare(self) -> None:
        """Get what a login takes for granted: the armour."""
        if self._mechanism.is_armoured:
            self._do(["kinit", "-c", self._armour, "-n", f"@{LOCAL}"], self._environment())

    def once(self) -> dict[str, Any]:
        """Log in once, from no ticket at all; what became of it."""
        Path(self._cache.partition(":")[2]).unlink(missing_ok=True)
        began_ns = time.time_ns()
        said = [self._do(argv, environment) for argv, environment in self._steps()]
        return {"customer": self._number, "began_ns": began_ns, "ended_ns": time.time_ns(),
                "status": max(status for status, _ in said),
                "said": "; ".join(words for _, words in said if words)[:300]}

    def log_in(self, count: int, *, is_lone: bool) -> None:
        """So many times; alone, each on wires that are empty."""
        for _ in range(count):
            self.logins.append(self.once())
            if is_lone:
                self.drain()

    def drain(self) -> None:
        """Wait until nothing of a login is on its way any more."""
        time.sleep(_REAL_DRAINED_S if self._site.clock == "real" else _DRAINED_S)

    def _steps(self) -> list[tuple[list[str], dict[str, str]]]:
        """The commands of a login, with what is in their environment."""
        mechanism, steps = self._mechanism, list[tuple[list[str], dict[str, str]]]()
        shown = (self._control.certificate, self._control.key)
        if not mechanism.is_proxied:
            steps.append((login(mechanism, self._pkinit, shown, self._cache, self._armour),
                          self._environment()))
        if mechanism.target:
            steps.append((self._gss(mechanism), self._environment(
                knows_kdcs=not mechanism.is_proxied)))
        return steps

    def _gss(self, mechanism: LoginMechanism) -> list[str]:
        """The command that authenticates to the application server; by IAKERB also logs in."""
        how = ["-iakerb", "-user", USER, "-pass", "none"] if mechanism.is_proxied else []
        host = service(mechanism.target).partition("/")[2]
        port = PROXY_PORT if mechanism.is_proxied else GSS_PORT
        return ["gss-client", "-port", str(port), *how, "-nw", "-nx", "-nm",
                self._site.network.nodes[_SERVER].address, f"host@{host}", "hello"]

    def _environment(self, *, knows_kdcs: bool = True) -> dict[str, str]:
        """Settings and cache; by IAKERB the library itself shows the certificate."""
        lines = ["[libdefaults]"]
        if self._control.trusts_rogue:
            lines += [f"pkinit_anchors = FILE:{self._pkinit}/{name}.pem"
                      for name in ("rogue-ca", "ca")]
        if self._control.clock:
            lines.append("kdc_timesync = 0")
        if self._mechanism.is_proxied:
            shown = identity(self._pkinit, (self._control.certificate, self._control.key))
            lines.append(f"pkinit_identities = {shown}")
        own = self._folder / f"own-{self._number}.conf"
        own.write_text("\n".join(lines) + "\n")
        return {**os.environ, "KRB5CCNAME": self._cache,
                **library_environment(self._site, _HOME, knows_kdcs=knows_kdcs, before=[own])}

    def _do(self, argv: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
        if self._control.clock:
            argv = ["faketime", "-f", self._control.clock, *argv]
        typed = self._site.secrets["kerberos"]["user_password"] + "\n" \
            if self._mechanism.initial == "spake" or self._control.types else ""
        try:
            done = subprocess.run(self._site.testbed.command(self._node, argv), input=typed,
                                  env=environment, text=True, capture_output=True,
                                  timeout=_LOGIN_S, check=False)
        except subprocess.TimeoutExpired:
            raise MeasureError("stream", f"{argv[0]} has no end within {_LOGIN_S:g} s") from None
        words = " ".join((done.stderr or done.stdout if done.returncode else "").split())
        return done.returncode, words


def _all(clients: Sequence[LoginClient], logins: int) -> None:
    """All of them at once, each one login after the other."""
    if len(clients) == 1:
        clients[0].log_in(logins, is_lone=True)
        return
    threads = [threading.Thread(target=client.log_in, args=(logins,), kwargs={"is_lone": False})
               for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _instead(mechanism: LoginMechanism, control: LoginControl) -> LoginMechanism:
    """What is really done: the cell's mechanism, unless a control does another."""
    if control.instead == "around":
        return LoginMechanism("around the proxy", "pkinit", target=LOCAL)
    return MECHANISMS.get(control.instead, mechanism)


def lacking(mechanism: LoginMechanism) -> str:
    """Why the installed krb5 cannot do it; "" if it can."""
    plugins = [file.read_bytes() for file in ROOT.glob(_PLUGIN)]
    return "" if all(mechanism.needs in plugin for plugin in plugins) else mechanism.lacking


def _counted(pid: int) -> float:
    """Seconds of work that the kernel counted for the node of a process."""
    lines = map(str.split, Path(f"/proc/{pid}/net/processor").read_text().splitlines())
    return sum(int(value) for name, value in lines if name.startswith("work_")) / 1e9
