"""Run strongSwan's charon on the nodes of a test network, and negotiate IPsec tunnels.

`Charon` starts a daemon on every node that has a configuration for it, and loads the connections.
`IpsecTunnels` negotiates the tunnels between gateways, which must be up before anything is
measured. Both take a `Site`: a running network with the settings of its run. `negotiate_tunnel`,
`list_ike_sas` and `delete_sas` control one charon through its vici socket, for mobile nodes, too.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import vici
from vici.exception import CommandException

from measure.agent.errors import MeasureError, find_cause, last_line
from measure.agent.process import Daemon, wait_at_most
from measure.agent.time_limits import TimeLimits
from measure.agent.workload import Site
from measure.services.daemons import DaemonService
from measure.services.other_releases import find_daemon_root
from topologies.namespaces import mount_in_memory

# --- Control of charon through vici ---

#: Time to wait for charon's answer in addition to the negotiation, in s.
_REPLY_S = 15.0
#: Interval between two looks for new keys of a child SA, in s.
_RENEWAL_POLL_S = 0.02
#: Log level of a vici command: no messages.
_SILENT = "-1"


@contextmanager
def open_session(path: Path, negotiation_s: float = 0.0) -> Iterator[vici.Session]:
    """Open a vici session on the socket of a charon.

    charon logs line by line while it negotiates, and is timed meanwhile.

    Args:
        path: The vici socket.
        negotiation_s: Time limit of a negotiation in s.

    Raises:
        MeasureError: charon does not answer.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    wait_at_most(sock, _REPLY_S + negotiation_s)
    try:
        sock.connect(str(path))
        yield vici.Session(sock)
    except BlockingIOError:
        raise MeasureError("ike", f"charon at {path} does not answer (timed out)") from None
    except OSError as error:
        raise MeasureError("ike", f"charon at {path} does not answer ({error})") from error
    finally:
        sock.close()


def negotiate_tunnel(charon: vici.Session, child: str, timeout_s: float, log: Path) -> None:
    """Make charon negotiate an IKE SA and a child SA, and wait for both.

    charon's log is read only after a failure. A listener would compute between charon's messages,
    which are timed.

    Raises:
        MeasureError: The negotiation failed; the text has the cause from charon's log.
    """
    size_before = log.stat().st_size if log.exists() else 0
    try:
        charon.request("initiate", {"child": child, "timeout": str(round(timeout_s * 1000)),
                                    "loglevel": _SILENT})
    except CommandException as error:
        text = log.read_bytes()[size_before:].decode("utf-8", "replace") if log.exists() else ""
        raise MeasureError("ike", "IKE negotiation failed: "
                           f"{find_cause('charon', text.splitlines(), most=1) or error}") from error


def delete_sas(charon: vici.Session, peer: str = "") -> None:
    """Delete the IKE SAs with one peer (or all) without waiting for the peer."""
    for entry in list(charon.list_sas()):
        for sa in entry.values():
            if peer and _to_text(sa["remote-host"]) != peer:
                continue
            # By ID: SAs of one name may have other peers. With a timeout, IKEv2 would wait for an
            # answer that cannot come.
            try:
                list(charon.terminate({"ike-id": _to_text(sa["uniqueid"]), "force": "yes"}))
            except CommandException:
                continue


def list_ike_sas(charon: vici.Session) -> list[dict[str, Any]]:
    """Return charon's IKE SAs with their algorithms, as plain text values."""
    return [{"name": name, **_to_plain(sa)} for entry in charon.list_sas()
            for name, sa in entry.items()]


def renew_child(charon: vici.Session, child: str, limit_s: float) -> None:
    """Make charon negotiate new keys of a child SA, and wait for the new SA.

    Raises:
        MeasureError: There is no new SA in time.
    """
    known = _child_numbers(charon, child)
    charon.request("rekey", {"child": child})
    until = time.monotonic() + limit_s
    while not (new := _child_numbers(charon, child)) or new & known:
        if time.monotonic() > until:
            raise MeasureError("ike", f"the keys of {child} were not renewed within "
                               f"{limit_s:.3g} s")
        time.sleep(_RENEWAL_POLL_S)


def _child_numbers(charon: vici.Session, child: str) -> set[str]:
    """Return the unique ids of all SAs of a child, such as an SA that is being renewed."""
    return {_to_text(each["uniqueid"]) for entry in charon.list_sas() for sa in entry.values()
            for each in sa["child-sas"].values() if _to_text(each["name"]) == child}


def has_tunnel(charon: vici.Session, peers: Collection[str]) -> bool:
    """Return whether a child SA with one of these addresses is installed."""
    return any(_to_text(child["state"]) == "INSTALLED"
               for entry in charon.list_sas() for sa in entry.values()
               if _to_text(sa["remote-host"]) in peers for child in sa["child-sas"].values())


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_to_plain(entry) for entry in value]
    return _to_text(value)


def _to_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


# --- Services: the daemons, and tunnels between gateways ---

#: The daemon and its control program: Debian's, and those of a strongSwan with ML-KEM, which images
#: have where Debian's lacks it.
_DEBIANS = ("/usr/lib/ipsec/charon", "swanctl")
_WITH_MLKEM = ("/opt/strongswan6/libexec/ipsec/charon", "/opt/strongswan6/sbin/swanctl")
# 8 s were measured on an emulated, shared processor.
_LOAD_S = 30.0


class Charon(DaemonService):
    """The service that runs charon, on every node that has its configuration file."""

    name = "charon"
    file = "strongswan.conf"

    def socket_path(self, node: str) -> Path:
        """Return the path of the vici socket of a node's charon."""
        return self.site.mount / node / "run" / "charon.vici"

    @property
    def uses_mobike(self) -> bool:
        """Return whether the rendered connections enable MOBIKE."""
        return any("mobike = yes" in self._read_connections(node) for node in self.list_nodes())

    def launch_on(self, node: str) -> Daemon:
        """Start charon on one node."""
        # charon keeps its pid file in /run, so every node needs its own /run.
        root = find_daemon_root(self.site.daemon_releases, "charon")
        places = ["/run", *([str(root / "run")] if root else [])]
        for place in places:
            mount_in_memory(self.site.testbed.node(node).pid, place)
        return self.run_daemon(node, [self._find_programs(node)[0]], r"spawning \d+ worker threads",
                               {"STRONGSWAN_CONF": str(self.site.mount / node / self.file)})

    def wait_ready(self) -> None:
        """Wait until charon runs on all nodes, then load its connections."""
        super().wait_ready()
        for node in self.daemons:
            self._load_connections(node)

    def _read_connections(self, node: str) -> str:
        return (self.site.mount / node / "swanctl/swanctl.conf").read_text()

    def _find_programs(self, node: str) -> tuple[str, str]:
        """Return the paths of charon and swanctl that support the policy's proposals.

        There may be two builds of them.
        """
        return _WITH_MLKEM if ("mlkem" in self._read_connections(node)
                               and Path(_WITH_MLKEM[0]).exists()) else _DEBIANS

    @contextmanager
    def replace_proposals(self, node: str, setting: str, value: str) -> Iterator[None]:
        """Give a node's connection with its peer other proposals inside the context.

        Args:
            node: The node.
            setting: `proposals` of IKE, or `esp_proposals`.
            value: The only proposal.

        Raises:
            MeasureError: charon does not take it.
        """
        file = self.site.mount / node / "swanctl/swanctl.conf"
        own = file.read_text()
        try:
            file.write_text(re.sub(rf"^(\s*{setting} =).*$", rf"\1 {value}", own,
                                   flags=re.MULTILINE))
            self._load_connections(node)
            yield
        finally:
            file.write_text(own)
            self._load_connections(node)

    def _load_connections(self, node: str) -> None:
        home = self.site.mount / node
        since = self.daemons[node].position()
        done = subprocess.run(
            [self._find_programs(node)[1], "--load-all", "--noprompt", "--uri",
             f"unix://{self.socket_path(node)}"],
            env={**os.environ, "STRONGSWAN_CONF": str(home / self.file),
                 "SWANCTL_DIR": str(home / "swanctl")},
            capture_output=True, text=True, timeout=_LOAD_S, check=False)
        if done.returncode:
            output = [*done.stderr.splitlines(), *done.stdout.splitlines()]
            cause = [find_cause("swanctl", output, most=1) or last_line(output),
                     self.daemons[node].cause_since(since)]
            raise MeasureError("testbed", f"swanctl on {node}: {'; '.join(filter(None, cause))} "
                               f"(log: {self.daemons[node].log.name})")


class IpsecTunnels:
    """IPsec tunnels between gateways. The first gateway opens them once all gateways run."""

    name = "tunnels"
    needs: Sequence[str] = (Charon.name,)

    def __init__(self, site: Site, charon: Charon, gateways: Collection[str],
                 children: Sequence[str]) -> None:
        self._site = site
        self._charon = charon
        self._gateways = gateways
        self._children = children

    def start(self) -> None:
        """Negotiate the tunnels (child SAs) of the first gateway.

        With fewer than two gateways that have IPsec, no tunnel is needed.
        """
        gateways = [name for name in self._site.nodes_with_file(Charon.file)
                    if name in self._gateways]
        if len(gateways) < 2:
            return
        limit_s = TimeLimits.for_testbed(self._site.testbed).ike_between_s(*gateways)
        with open_session(self._charon.socket_path(gateways[0]), limit_s) as session:
            for child in self._children:
                negotiate_tunnel(session, child, limit_s,
                                 self._site.log_path(Charon.name, gateways[0]))

    def wait_ready(self) -> None:
        """Return at once: `start` returns after the negotiation."""

    def stop(self) -> None:
        """Return at once: the tunnels end with their daemons."""
