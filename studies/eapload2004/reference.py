"""The generator beside `eapol_test`: both at the same server, one authentication after the other.

Runs inside the machine. `eapol_test` is hostap's own peer and RADIUS client.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from measure.eap_keys import PORT
from measure.errors import MeasureError
from measure.workload import Site
from studies.eapload2004 import network

#: Before each authentication, as eapol_test has it.
PAUSE_S = 0.1
OURS, THEIRS = "ours", "eapol_test"
#: For all of them together is what eapol_test takes as its limit, and for each.
_LIMIT_S, _EACH_S = 120, 1


class ReferenceLoad:
    """Both drivers side by side, at the server of an address."""

    def __init__(self, site: Site, address: str) -> None:
        self._site, self._address = site, address

    def compare(self, count: int, ours: Callable[[int], None]) -> None:
        """So many authentications by each: whatever disturbs the server, either has as much."""
        argv = self._site.testbed.command(network.LOAD, [
            "eapol_test", "-c", str(self._config()), "-a", self._address, "-p", str(PORT),
            "-s", self._site.secrets["network"]["radius_secret"], "-t",
            str(_LIMIT_S + _EACH_S * count), "-r", str(count - 1)])
        with (self._site.log("eapol_test", network.LOAD).open("ab") as log,
              subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                               env=self._environment()) as theirs):
            ours(count)
        if theirs.returncode:
            raise MeasureError("load", f"eapol_test ended with status {theirs.returncode} (log: "
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
