"""Comparison of the generator with eapol_test at the same server, in turn.

This module runs in the guest. `eapol_test` is hostap's own EAP peer and RADIUS client.
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

#: Pause before each authentication (s), as in eapol_test.
PAUSE_S = 0.1
OURS, THEIRS = "ours", "eapol_test"
#: Time limit of eapol_test for all authentications together, and for each (s).
_LIMIT_S, _EACH_S = 120, 1


class ReferenceLoad:
    """The two drivers, which run at the same time at one server."""

    def __init__(self, site: Site, address: str) -> None:
        self._site, self._address = site, address

    def compare_drivers(self, count: int, run_generator: Callable[[int], None]) -> None:
        """Run `count` authentications by each driver, so that disturbances affect both equally.

        Raises:
            MeasureError: eapol_test has failed.
        """
        argv = self._site.testbed.node_command(network.LOAD, [
            "eapol_test", "-c", str(self._write_config()), "-a", self._address, "-p", str(PORT),
            "-s", self._site.secrets["network"]["radius_secret"], "-t",
            str(_LIMIT_S + _EACH_S * count), "-r", str(count - 1)])
        with (self._site.log_path("eapol_test", network.LOAD).open("ab") as log,
              subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                               env=self._build_environment()) as theirs):
            run_generator(count)
        if theirs.returncode:
            raise MeasureError("load", f"eapol_test ended with status {theirs.returncode} (log: "
                               f"{network.LOAD}-eapol_test.log)")

    def _write_config(self) -> Path:
        pki = self._site.mount / network.LOAD / "pki"
        settings = {"key_mgmt": "IEEE8021X", "eap": "TLS", "identity": f'"{network.LOAD}"',
                    "ca_cert": f'"{pki}/ca.pem"', "client_cert": f'"{pki}/cert.pem"',
                    "private_key": f'"{pki}/key.pem"', "fragment_size": "1200",
                    "openssl_ciphers": '"DEFAULT@SECLEVEL=0"'}
        lines = "".join(f"\t{name}={value}\n" for name, value in settings.items())
        file = self._site.run_folder(network.LOAD) / "eapol_test.conf"
        # fast_reauth=0: each authentication is a full one.
        file.write_text(f"fast_reauth=0\nnetwork={{\n{lines}}}\n")
        return file

    def _build_environment(self) -> Mapping[str, str]:
        return {**os.environ,
                "OPENSSL_CONF": str(self._site.run_folder(network.SERVER) / "openssl.cnf")}
