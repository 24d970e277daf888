"""The generator beside `eapol_test`: turns of either at the same server, and what each cost it.

Runs inside the machine. `eapol_test` is hostap's own peer and RADIUS client; it does one
authentication after the other.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from measure.eap_keys import PORT
from measure.errors import MeasureError
from measure.kernel import processor_seconds_of
from measure.workload import Site
from studies.eapload2004 import network

#: Whatever drifts meanwhile, either has as much of it.
TURNS = 20
OURS, THEIRS = "ours", "eapol_test"
_LIMIT_S = 120


class ReferenceLoad:
    """Both drivers in turn; `server_pid` is the process whose work counts."""

    def __init__(self, site: Site, address: str, server_pid: int) -> None:
        self._site, self._address, self._pid = site, address, server_pid

    def compared(self, count: int, ours: Callable[[int], None],
                 charged: Callable[[], float]) -> dict[str, Any]:
        """Authentications, and seconds charged and computed at the server, by driver."""
        totals = {name: {"authentications": 0, "charged_s": 0.0, "processor_s": 0.0}
                  for name in (OURS, THEIRS)}
        each = max(2, count // TURNS)
        for _ in range(TURNS):
            for name, load in ((OURS, ours), (THEIRS, self._theirs)):
                charged_s, processor_s = charged(), self._processor_s()
                load(each)
                total = totals[name]
                total["authentications"] += each
                total["charged_s"] += charged() - charged_s
                total["processor_s"] += self._processor_s() - processor_s
        return totals

    def _theirs(self, count: int) -> None:
        argv = self._site.testbed.command(network.LOAD, [
            "eapol_test", "-c", str(self._config()), "-a", self._address, "-p", str(PORT),
            "-s", self._site.secrets["network"]["radius_secret"], "-t", str(_LIMIT_S), "-r",
            str(count - 1)])
        with self._site.log("eapol_test", network.LOAD).open("ab") as log:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  check=False, env=self._environment())
        if done.returncode:
            raise MeasureError("load", f"eapol_test ended with status {done.returncode} (log: "
                               f"{network.LOAD}-eapol_test.log)")

    def _config(self) -> Path:
        pki = self._site.mount / network.LOAD / "pki"
        settings = {"key_mgmt": "IEEE8021X", "eap": "TLS", "identity": f'"{network.LOAD}"',
                    "ca_cert": f'"{pki}/ca.pem"', "client_cert": f'"{pki}/cert.pem"',
                    "private_key": f'"{pki}/key.pem"', "fragment_size": "1200",
                    "openssl_ciphers": '"DEFAULT@SECLEVEL=0"'}
        lines = "".join(f"\t{name}={value}\n" for name, value in settings.items())
        file = self._site.run_folder(network.LOAD) / "eapol_test.conf"
        # Each authentication is to be a full one.
        file.write_text(f"fast_reauth=0\nnetwork={{\n{lines}}}\n")
        return file

    def _environment(self) -> Mapping[str, str]:
        return {**os.environ,
                "OPENSSL_CONF": str(self._site.run_folder(network.SERVER) / "openssl.cnf")}

    def _processor_s(self) -> float:
        """What the server computed so far, in the program and in the kernel for it."""
        return sum(processor_seconds_of(self._pid))
