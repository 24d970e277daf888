"""Charon as a service, and the tunnels between gateways that must stand before anything runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from measure import ike
from measure.causes import find_cause, last_line
from measure.errors import MeasureError
from measure.process import Daemon
from measure.services.daemons import Daemons
from measure.time_limits import TimeLimits
from measure.workload import Site
from topologies.namespaces import mount_in_memory

#: Daemon and the program that tells it what to do: Debian's, and those of the strongSwan with
#: ML-KEM, which a study brings.
_DEBIANS = ("/usr/lib/ipsec/charon", "swanctl")
_WITH_MLKEM = ("/opt/strongswan6/libexec/ipsec/charon", "/opt/strongswan6/sbin/swanctl")
# 8 s were seen, where the processor is emulated and shared.
_LOAD_S = 30.0


class Charon(Daemons):
    """An IKE daemon, with its connections loaded, on every node that has its configuration."""

    name = "charon"
    file = "strongswan.conf"

    def socket(self, node: str) -> Path:
        """Where the charon of a node listens for vici."""
        return self.site.mount / node / "run" / "charon.vici"

    @property
    def follows(self) -> bool:
        """Whether tunnels follow their nodes (MOBIKE), by what was rendered."""
        return any("mobike = yes" in self._connections(node) for node in self.nodes())

    def launch(self, node: str) -> Daemon:
        """Start the daemon of one node."""
        # Charon keeps its pid file in /run: every node needs a /run of its own.
        mount_in_memory(self.site.testbed.node(node).pid, "/run")
        return self.daemon(node, [self._programs(node)[0]], r"spawning \d+ worker threads",
                           {"STRONGSWAN_CONF": str(self.site.mount / node / self.file)})

    def ready(self) -> None:
        """Wait until they run, and load what each is to do."""
        super().ready()
        for node in self.daemons:
            self._load_connections(node)

    def _connections(self, node: str) -> str:
        return (self.site.mount / node / "swanctl/swanctl.conf").read_text()

    def _programs(self, node: str) -> tuple[str, str]:
        """By what was rendered: what is proposed, only one of them may know."""
        return _WITH_MLKEM if "mlkem" in self._connections(node) else _DEBIANS

    def _load_connections(self, node: str) -> None:
        home = self.site.mount / node
        since = self.daemons[node].position()
        done = subprocess.run(
            [self._programs(node)[1], "--load-all", "--noprompt", "--uri", f"unix://{self.socket(node)}"],
            env={**os.environ, "STRONGSWAN_CONF": str(home / self.file),
                 "SWANCTL_DIR": str(home / "swanctl")},
            capture_output=True, text=True, timeout=_LOAD_S, check=False)
        if done.returncode:
            said = [*done.stderr.splitlines(), *done.stdout.splitlines()]
            cause = [find_cause("swanctl", said, most=1) or last_line(said),
                     self.daemons[node].cause_since(since)]
            raise MeasureError("testbed", f"swanctl on {node}: {'; '.join(filter(None, cause))} "
                               f"(log: {self.daemons[node].log.name})")


class IpsecTunnels:
    """Tunnels that one gateway opens to its peers once all of them are up."""

    name = "tunnels"
    needs: Sequence[str] = (Charon.name,)

    def __init__(self, site: Site, charon: Charon, duty: str, children: Sequence[str]) -> None:
        self._site = site
        self._charon = charon
        self._duty = duty
        self._children = children

    def start(self) -> None:
        """Negotiate the children of the first gateway; nothing where fewer than two have IPsec."""
        gateways = self._site.having(Charon.file, self._duty)
        if len(gateways) < 2:
            return
        limit_s = TimeLimits.of(self._site.testbed).ike_between_s(*gateways)
        with ike.session(self._charon.socket(gateways[0]), limit_s) as session:
            for child in self._children:
                ike.initiate(session, child, limit_s,
                             self._site.log(Charon.name, gateways[0]))

    def ready(self) -> None:
        """Nothing more: a negotiation has ended when it returns."""

    def stop(self) -> None:
        """Nothing: tunnels end with their daemons."""
