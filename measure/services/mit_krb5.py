"""Run MIT Kerberos in a test network: a key distribution centre (KDC) and application servers.

`MitKdc` creates a realm's database and starts the KDC on every node with its configuration.
`GssServer` is an application server with GSS-API, and `IakerbServer` also passes messages on for
clients without a KDC. `library_environment` returns the environment variables for client programs.
Each class takes a `Site`: a running network with the settings of its run. A study of logins
uses this module.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon
from measure.agent.workload import Site
from measure.services.daemons import DaemonService

#: TCP ports of the GSS-API application server, and of the IAKERB proxy server.
GSS_PORT, PROXY_PORT = 4444, 4445
_DATABASE_S = 60.0
#: Master password of a database that lasts one run and has no secrets but the run's.
_MASTER = "master"


class MitKdc(DaemonService):
    """The service that runs a KDC with a new database, on every node with its configuration."""

    name = "kdc"
    file = "kdc/kdc.conf"

    def launch_on(self, node: str) -> Daemon:
        """Create the database and keytabs of a node's realm, then start its KDC."""
        environment = self._environment(node)
        realm = read_realm(self.site, node)
        for other in self.site.network.nodes:
            if (self.site.mount / other).is_dir():
                self.site.run_folder(other)  # kadmin writes the node's keytab there
        # Run outside the node: creating a database must not count as the KDC's work.
        self._run_admin(["kdb5_util", "-r", realm, "create", "-s", "-P", _MASTER], "", environment,
                        node)
        commands = (self.site.mount / node / "kdc" / "principals").read_text()
        self._run_admin(["kadmin.local", "-r", realm], commands, environment, node)
        return self.run_daemon(node, ["krb5kdc", "-n", "-r", realm, "-P",
                                      str(self.site.run_folder(node) / "kdc.pid")],
                               r"commencing operation", environment)

    def export_keys(self, node: str, folder: Path) -> None:
        """Copy all keys of a realm into `folder/REALM.keytab`, to decrypt captures with."""
        realm = read_realm(self.site, node)
        environment = self._environment(node)
        listed = self._run_admin(["kadmin.local", "-r", realm, "listprincs"], "", environment, node)
        names = [name for name in listed.split() if "@" in name and not name.startswith("K/M@")
                 and not name.startswith("WELLKNOWN/")]
        self._run_admin(["kadmin.local", "-r", realm, "ktadd", "-norandkey", "-k",
                         str(folder / f"{realm}.keytab"), *names], "", environment, node)

    def _environment(self, node: str) -> dict[str, str]:
        place = self.site.mount / node / "kdc"
        return {"KRB5_CONFIG": str(place / "krb5.conf"),
                "KRB5_KDC_PROFILE": str(place / "kdc.conf")}

    def _run_admin(self, argv: Sequence[str], commands: str, environment: Mapping[str, str],
                   node: str) -> str:
        done = subprocess.run(argv, input=commands, env={**os.environ, **environment}, text=True,
                              capture_output=True, timeout=_DATABASE_S, check=False)
        with self.site.log_path("database", node).open("a") as log:
            log.write(done.stdout + done.stderr)
        if done.returncode:
            words = (done.stderr.strip().splitlines() or ["no word"])[-1]
            raise MeasureError("testbed", f"{argv[0]} for {node} failed: {words} (log: "
                               f"{node}-database.log)")
        return done.stdout


class GssServer(DaemonService):
    """The service that runs an application server with Kerberos authentication (GSS-API).

    It runs on every Kerberos server node that has a krb5.conf.
    """

    name = "gss-server"
    needs: Sequence[str] = (MitKdc.name,)
    options: Sequence[str] = ("-port", str(GSS_PORT))

    def list_nodes(self) -> Sequence[str]:
        """Return the Kerberos server nodes that have a krb5.conf."""
        return [node for node in self.site.network.of_duty("kerberos_server")
                if (self.site.mount / node / "krb5" / "krb5.conf").exists()]

    def launch_on(self, node: str) -> Daemon:
        """Start the application server for the services in the node's keytab."""
        return self.run_daemon(
            # Line buffering: the server's output appears at once.
            node, ["stdbuf", "-oL", "gss-server", *self.options, "-verbose", "host"], r"starting",
            {**library_environment(self.site, node),
             "KRB5_KTNAME": f"FILE:{self.site.run_folder(node) / 'keytab'}"})


class IakerbServer(GssServer):
    """An application server that passes Kerberos messages on for clients without a KDC (IAKERB)."""

    name = "iakerb-server"
    options: Sequence[str] = ("-port", str(PROXY_PORT), "-iakerb")


def read_realm(site: Site, kdc: str) -> str:
    """Return the Kerberos realm of a node's KDC, from its configuration file."""
    lines = (site.mount / kdc / "kdc" / "krb5.conf").read_text().splitlines()
    return next(line.partition("=")[2].strip() for line in lines if "default_realm" in line)


def library_environment(site: Site, node: str, *, knows_kdcs: bool = True,
                        before: Sequence[Path] = ()) -> dict[str, str]:
    """Return environment variables with which programs on a node use the krb5 settings.

    Args:
        site: The running testbed.
        node: The node's name.
        knows_kdcs: Whether the settings include the KDCs' addresses.
        before: Files of settings that take precedence.
    """
    place = site.mount / node / "krb5"
    files = [*before, place / "krb5.conf", *([place / "kdcs.conf"] if knows_kdcs else [])]
    return {"KRB5_CONFIG": ":".join(map(str, files))}
