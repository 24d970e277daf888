"""Service for strongSwan's charon, and IPsec tunnels between gateways.

Tunnels between gateways must be up before anything is measured.
"""

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

#: The daemon and its control program: Debian's, and those of a strongSwan with ML-KEM, which a
#: study installs.
_DEBIANS = ("/usr/lib/ipsec/charon", "swanctl")
_WITH_MLKEM = ("/opt/strongswan6/libexec/ipsec/charon", "/opt/strongswan6/sbin/swanctl")
# 8 s were measured on an emulated, shared processor.
_LOAD_S = 30.0


class Charon(Daemons):
    """An IKE daemon with loaded connections, on every node that has its configuration."""

    name = "charon"
    file = "strongswan.conf"

    def socket_path(self, node: str) -> Path:
        """Return the path of a node's vici socket."""
        return self.site.mount / node / "run" / "charon.vici"

    @property
    def uses_mobike(self) -> bool:
        """Return whether the rendered connections enable MOBIKE."""
        return any("mobike = yes" in self._read_connections(node) for node in self.list_nodes())

    def launch_on(self, node: str) -> Daemon:
        """Start the daemon of one node."""
        # charon keeps its pid file in /run, so every node needs its own /run.
        mount_in_memory(self.site.testbed.node(node).pid, "/run")
        return self.run_daemon(node, [self._programs(node)[0]], r"spawning \d+ worker threads",
                               {"STRONGSWAN_CONF": str(self.site.mount / node / self.file)})

    def wait_ready(self) -> None:
        """Wait until all daemons run, then load their connections."""
        super().wait_ready()
        for node in self.daemons:
            self._load_connections(node)

    def _read_connections(self, node: str) -> str:
        return (self.site.mount / node / "swanctl/swanctl.conf").read_text()

    def _programs(self, node: str) -> tuple[str, str]:
        """Return charon and swanctl: the build that knows the rendered proposals."""
        return _WITH_MLKEM if "mlkem" in self._read_connections(node) else _DEBIANS

    def _load_connections(self, node: str) -> None:
        home = self.site.mount / node
        since = self.daemons[node].position()
        done = subprocess.run(
            [self._programs(node)[1], "--load-all", "--noprompt", "--uri",
             f"unix://{self.socket_path(node)}"],
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
    """Tunnels that one gateway opens to its peers when all of them are up."""

    name = "tunnels"
    needs: Sequence[str] = (Charon.name,)

    def __init__(self, site: Site, charon: Charon, duty: str, children: Sequence[str]) -> None:
        self._site = site
        self._charon = charon
        self._duty = duty
        self._children = children

    def start(self) -> None:
        """Negotiate the child SAs of the first gateway.

        With fewer than two gateways that have IPsec, no tunnel is needed.
        """
        gateways = self._site.nodes_with_file(Charon.file, self._duty)
        if len(gateways) < 2:
            return
        limit_s = TimeLimits.for_testbed(self._site.testbed).ike_between_s(*gateways)
        with ike.open_session(self._charon.socket_path(gateways[0]), limit_s) as session:
            for child in self._children:
                ike.negotiate_tunnel(session, child, limit_s,
                                     self._site.log_path(Charon.name, gateways[0]))

    def wait_ready(self) -> None:
        """Return at once: `start` returns after the negotiation."""

    def stop(self) -> None:
        """Return at once: the tunnels end with their daemons."""
