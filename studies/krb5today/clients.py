"""Let users log in from a node with the commands of MIT krb5, such as kinit.

`LoginClient` is one user with a ticket cache, and returns times and exit status of each login.
`log_in_at_once` lets several users log in at the same time. The module runs in the guest (the
virtual machine of the test network), and uses the standard library only. `studies.krb5today` lists
the terms.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measure.agent.errors import MeasureError
from measure.agent.workload import Site
from measure.services.mit_krb5 import GSS_PORT, PROXY_PORT, library_environment
from measure.services.programs import program_environment
from studies.krb5today.fault_injection import CONTROLS, NO_DEVIATION, LoginControl
from studies.krb5today.mechanisms import (
    APP,
    LOCAL,
    MECHANISMS,
    USER,
    LoginMechanism,
    login_command,
    pkinit_identity,
    service_principal,
)
from topologies.model import STATION

#: Node with the rendered settings of all clients on wires, and node of the application server.
_HOME, SERVER = "client", "app"
#: Root of the file system that PKINIT is installed in.
ROOT = Path("/")
_PLUGIN = "usr/lib/*/krb5/plugins/preauth/pkinit.so"
#: Timeout of a command (s): longer than any login whose packets are not lost.
_LOGIN_S = 600.0
#: Time after which no packet is on a wire, including retransmissions (s). The second one is for the
#: real clock, where waiting takes time; it does not suffice for the slowest wire.
_DRAINED_S, _REAL_DRAINED_S = 20.0, 0.5
#: Mechanisms that only controls use.
_INSTEAD = {"around": LoginMechanism("around the proxy", "pkinit", target=LOCAL),
            "through a login": LoginMechanism("through a login", "pkinit", realm=APP, target=APP),
            "in one realm": LoginMechanism("in one realm", "pkinit", target=LOCAL)}


class LoginClient:
    """A user on a node with a ticket cache."""

    def __init__(self, site: Site, node: str, mechanism: LoginMechanism, number: int, *,
                 curve: str) -> None:
        self._site, self._node, self._number, self._curve = site, node, number, curve
        self._control = CONTROLS.get(site.fault, NO_DEVIATION)
        #: Node whose rendered settings the client uses.
        self._named = node if site.network.nodes[node].has_duty(STATION) else _HOME
        self.home = site.mount / self._named
        self._pkinit = str(self.home / "pkinit")
        self._folder = site.run_folder(self._named)
        self._mechanism = _select_mechanism(mechanism, self._control)
        self._cache = f"FILE:{self._folder}/tickets-{number}"
        self._armour = f"FILE:{self._folder}/armour"
        self.logins: list[dict[str, Any]] = []

    def prepare(self) -> None:
        """Get the anonymous ticket that a login with FAST needs."""
        if self._mechanism.is_armoured:
            self._run_command(["kinit", "-c", self._armour, "-n", f"@{LOCAL}"],
                              self._build_environment())

    def log_in_once(self) -> dict[str, Any]:
        """Log in once, without any earlier ticket.

        Returns:
            Number of the user, times of begin and end (ns since 1970), highest exit status and
            error text of the commands.

        Raises:
            MeasureError: a command does not end in time.
        """
        Path(self._cache.partition(":")[2]).unlink(missing_ok=True)
        began_ns = time.time_ns()
        results = [self._run_command(argv, environment) for argv, environment
                in self._login_commands()]
        return {"customer": self._number, "began_ns": began_ns, "ended_ns": time.time_ns(),
                "status": max(status for status, _ in results),
                "said": "; ".join(words for _, words in results if words)[:300]}

    def log_in(self, count: int, *, is_lone: bool, is_away: bool = False) -> None:
        """Log in a number of times, and add the results to `logins`.

        Args:
            count: number of logins.
            is_lone: this user is the only one, and waits for empty wires after each login.
            is_away: the user's node is in the visited network.

        Raises:
            MeasureError: a command does not end in time, or an injected fault has no effect.
        """
        for _ in range(count):
            self.logins.append({**self.log_in_once(), "is_away": is_away})
            if self._control.tells:
                self._send_key()
            if self._control.babbles:
                self._send_malformed()
            if is_lone:
                self.wait_until_drained()

    def _send_key(self) -> None:
        """Send the session key to the KDC in a further request (injected fault).

        Raises:
            MeasureError: the KDC does not answer.
        """
        status, _ = self._run_command([
            sys.executable, "-m", "studies.krb5today.key_disclosure", LOCAL, USER,
            self._cache.partition(":")[2], self._site.network.nodes["local"].address],
            program_environment())
        if status:
            raise MeasureError("stream", f"the control {self._site.fault} did not get through")

    def _send_malformed(self) -> None:
        """Send a malformed message to the KDC (injected fault).

        Raises:
            MeasureError: the message cannot be sent.
        """
        program = ("import socket, sys\n"
                "socket.socket(type=socket.SOCK_DGRAM).sendto(b'qop', (sys.argv[1], 88))")
        status, _ = self._run_command([sys.executable, "-c", program,
                              self._site.network.nodes["local"].address], program_environment())
        if status:
            raise MeasureError("stream", f"the control {self._site.fault} did not get through")

    def wait_until_drained(self) -> None:
        """Wait until no packet of a login is under way."""
        time.sleep(_REAL_DRAINED_S if self._site.clock == "real" else _DRAINED_S)

    def _login_commands(self) -> list[tuple[list[str], dict[str, str]]]:
        """Return each command of a login with its environment variables."""
        mechanism, steps = self._mechanism, list[tuple[list[str], dict[str, str]]]()
        files = (self._control.certificate, self._control.key)
        if not mechanism.is_proxied:
            steps.append((login_command(mechanism, self._pkinit, files, self._cache, self._armour),
                          self._build_environment()))
        if mechanism.target:
            steps.append((self._gss_command(mechanism), self._build_environment(
                knows_kdcs=not mechanism.is_proxied)))
        return steps

    def _gss_command(self, mechanism: LoginMechanism) -> list[str]:
        """Return the command that authenticates to the application server.

        With IAKERB (login through the application server), this command also logs in.
        """
        how = ["-iakerb", "-user", USER, "-pass", "none"] if mechanism.is_proxied else []
        how += [] if self._control.is_mutual else ["-nomutual"]
        host = service_principal(mechanism.target).partition("/")[2]
        port = PROXY_PORT if mechanism.is_proxied else GSS_PORT
        return ["gss-client", "-port", str(port), *how, "-nw", "-nx", "-nm",
                self._site.network.nodes[SERVER].address, f"host@{host}", "hello"]

    def _build_environment(self, *, knows_kdcs: bool = True) -> dict[str, str]:
        """Return the environment variables with the settings of krb5 and the ticket cache.

        With IAKERB, the library itself presents the certificate, so its settings name it.
        """
        lines = ["[libdefaults]"]
        if self._control.trusts_rogue:
            lines += [f"pkinit_anchors = FILE:{self._pkinit}/{name}.pem"
                      for name in ("rogue-ca", "ca")]
        if self._control.clock:
            lines.append("kdc_timesync = 0")
        if self._mechanism.agreement == "ECDH":
            # The setting selects the client's group; the KDC accepts any group that is not weaker
            # than its minimum.
            lines.append(f"pkinit_dh_min_bits = {self._curve}")
        if self._mechanism.is_proxied:
            files = pkinit_identity(self._pkinit, (self._control.certificate, self._control.key))
            lines.append(f"pkinit_identities = {files}")
        own = self._folder / f"own-{self._number}.conf"
        own.write_text("\n".join(lines) + "\n")
        return {**os.environ, "KRB5CCNAME": self._cache,
                **library_environment(self._site, self._named, knows_kdcs=knows_kdcs, before=[own])}

    def _run_command(self, argv: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
        """Run a program of the user on the client's node.

        Returns:
            The exit status, and what the program printed if it failed ("" if not).

        Raises:
            MeasureError: the program has not ended in time.
        """
        if self._control.clock:
            argv = ["faketime", "-f", self._control.clock, *argv]
        typed = self._site.secrets["kerberos"]["user_password"] + "\n" \
            if self._mechanism.initial == "spake" or self._control.types else ""
        try:
            done = subprocess.run(self._site.testbed.node_command(self._node, argv), input=typed,
                                  env=environment, text=True, capture_output=True,
                                  timeout=_LOGIN_S, check=False)
        except subprocess.TimeoutExpired:
            raise MeasureError("stream", f"{argv[0]} has no end within {_LOGIN_S:g} s") from None
        words = " ".join((done.stderr or done.stdout if done.returncode else "").split())
        return done.returncode, words


def _select_mechanism(mechanism: LoginMechanism, control: LoginControl) -> LoginMechanism:
    """Return the login method to use: that of the injected fault, or else the measured one."""
    return {**MECHANISMS, **_INSTEAD}.get(control.instead, mechanism)


def missing_support(mechanism: LoginMechanism) -> str:
    """Return why the installed krb5 lacks a login method, or "" if it has the method."""
    plugins = [file.read_bytes() for file in ROOT.glob(_PLUGIN)]
    return "" if all(mechanism.needs in plugin for plugin in plugins) else mechanism.lacking


def log_in_at_once(clients: Sequence[LoginClient], logins: int) -> None:
    """Let several users log in at the same time, each a number of times.

    Raises:
        MeasureError: a user's command does not end in time.
    """
    with ThreadPoolExecutor(len(clients)) as pool:
        running = [pool.submit(client.log_in, logins, is_lone=False) for client in clients]
    for client in running:
        client.result()
