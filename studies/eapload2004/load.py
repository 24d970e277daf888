"""Compute the capacity of a RADIUS server, and compare the load generator with `eapol_test`.

The capacity is the number of authentications per second that a saturated server completes.
`capacity_per_s` reads it from the generator's log. It is measured before the load, with other
measurements of the server alone (the calibration). From these the queueing model gets its inputs.

`eapol_test` is the test client of the hostap project. `ReferenceLoad` lets it and the load
generator send to one server at the same time, to show that both measure equal times.
`studies.eapload2004` lists the terms.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from measure.agent.errors import MeasureError
from measure.agent.workload import Site
from measure.load.generator import ROW
from measure.packets.eap import RADIUS_PORT
from studies.eapload2004 import network

# --- Capacity of a server, from the log of clients that authenticate again and again ---
# The judge uses it outside of the guest, too.

class JournalFiles(NamedTuple):
    """Names of the load generator's logs of a calibration, one for each of its three parts.

    A calibration measures the server without the load of the experiment (the background).

    - `alone`: a single client
    - `saturated`: as many clients at a time as saturate the server
    - `rested`: a single client that pauses before each authentication, so that the server is idle
    """

    alone: str
    saturated: str
    rested: str


BEFORE = JournalFiles("alone.json", "saturated.json", "rested.json")
#: Journals after the load, in real time: the speed of a machine changes within minutes.
AFTER = JournalFiles("alone-after.json", "saturated-after.json", "rested-after.json")
#: Part of the capture's name during the calibration: `auth-calibration.pcap`.
CALIBRATION = "calibration"
#: File with the times of a fixed calibration workload throughout the repetition.
YARDSTICK = "yardstick.json"
#: File with the server's TLS keys since the load began, to decrypt captures of TLS 1.3.
TLS_KEYS = "tls-keys.json"
#: Pauses before clients that find the server idle (s), used in turn.
PAUSES_S = (0.002, 0.006, 0.015, 0.04, 0.1)
_DUE, _RESPONSE = ROW.index("due_s"), ROW.index("response_s")


def capacity_per_s(journal: Path) -> float:
    """Return how many authentications per second a saturated server completed.

    Clients that share a processor keep it busy until the last one ends.
    """
    rows = json.loads(journal.read_text())["attempts"]
    return len(rows) / float(max(row[_DUE] + row[_RESPONSE] for row in rows))


# --- Comparison of the generator with eapol_test ---

#: Pause before each authentication (s), as in eapol_test.
PAUSE_S = 0.1
OURS, THEIRS = "ours", "eapol_test"
#: Time limit of eapol_test for all authentications together, and for each (s).
_LIMIT_S, _EACH_S = 120, 1


class ReferenceLoad:
    """A comparison of the load generator with `eapol_test`, in which both load one server."""

    def __init__(self, site: Site, address: str) -> None:
        self._site, self._address = site, address

    def compare_drivers(self, count: int, run_generator: Callable[[int], None]) -> None:
        """Run `count` authentications by each program, so that disturbances affect both equally.

        Raises:
            MeasureError: `eapol_test` has failed.
        """
        argv = self._site.testbed.node_command(network.LOAD, [
            "eapol_test", "-c", str(self._write_config()), "-a", self._address, "-p",
            str(RADIUS_PORT),
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
