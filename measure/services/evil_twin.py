"""Evil twin: a rogue access point with an access point's SSID, BSSID and channel.

The twin knows no secret of the network. With EAP it is also an authentication server, with a
self-signed certificate. With EAP-MD5, which derives no keys and has no server certificate, the twin
accepts every station.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from measure.errors import MeasureError
from measure.process import Daemon
from measure.services.hostapd import Hostapd
from measure.services.launcher import program_environment
from measure.services.wpa_supplicant import WpaSupplicant
from measure.workload import Site

_PROGRAM = "measure.services.twins_answers"
#: Invented keys, as an attacker would choose them who does not know the network's keys.
_SECRETS = {"wpa_passphrase": "nobody told the twin", "wep_key0": "746865207477696e2773206b65"}
#: Settings that only the real access point has: its bridge, its server, and the keys that access
#: points share.
_OF_THE_NETWORK = re.compile(r"bridge|(auth_server|radius_client|own_ip)_\w+|r[01]kh|okc")
_SERVES, _EAP = "ieee8021x", re.compile(r"^\s*eap=(\w+)", re.MULTILINE)
_METHODS = "PEAP,TTLS,TLS,PWD"
#: Key size: no policy requires a stronger one.
_CERTIFICATE = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384",
                "-nodes", "-days", "30", "-subj", "/CN=radius")
_CERTIFICATE_S = 20.0


@contextmanager
def replace_by_twin(site: Site, hostapd: Hostapd, access_point: str,
                    mobile_node: str) -> Iterator[None]:
    """Replace an access point by its evil twin inside the context.

    Args:
        site: The running testbed.
        hostapd: The service of the real access point.
        access_point: The node that the twin replaces.
        mobile_node: The station; its configuration shows the EAP method.

    Raises:
        MeasureError: The twin could not be started.
    """
    node = site.network.nodes[access_point]
    folder = site.run_folder(access_point) / "twin"
    folder.mkdir(exist_ok=True)
    real = (site.mount / access_point / Hostapd.file).read_text()
    method = _EAP.search((site.mount / mobile_node / WpaSupplicant.file).read_text())
    says_yes = method is not None and method[1] == "MD5"
    settings = twin_settings(real, folder, says_yes=says_yes)
    file = folder / Hostapd.file
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    if "server_cert" in settings:
        _make_certificate(folder)
    control = hostapd.controls[access_point]
    control.send_command("DISABLE")
    log = site.log_path("twin", access_point)
    try:
        site.testbed.run_command(access_point,
                                 ["ip", "link", "set", node.radio_interface, "nomaster"])
        answers = [sys.executable, "-m", _PROGRAM, node.radio_interface,
                   "eap" if says_yes else "arp"]
        nobodys = site.testbed.tool_environment or {}
        with (Daemon("the twin", site.testbed.tool_command(access_point, ["hostapd", str(file)]),
                     log,
                     r"AP-ENABLED", env={**os.environ, **nobodys}) as twin,
              Daemon("the twin's answers", site.testbed.tool_command(access_point, answers),
                     site.log_path("twin-answers", access_point), r"^ready",
                     env={**program_environment(), **nobodys}) as answering):
            twin.wait_ready()
            answering.wait_ready()
            yield
    finally:
        control.send_command("ENABLE")


def twin_settings(real: str, folder: Path, *, says_yes: bool) -> Mapping[str, str]:
    """Return the twin's hostapd settings: the real ones without what it cannot know.

    Args:
        real: Text of the real access point's hostapd.conf.
        folder: Folder for the twin's sockets, certificate and users.
        says_yes: Whether the twin accepts every station instead of running an EAP server.
    """
    lines = (line.partition("=") for line in real.splitlines() if not line.startswith("#"))
    settings = {name: value for name, is_one, value in lines
                if is_one and not _OF_THE_NETWORK.fullmatch(name)}
    settings |= {name: secret[:len(settings[name])] for name, secret in _SECRETS.items()
                 if name in settings}
    settings["ctrl_interface"] = str(folder / "hostapd")
    if _SERVES in settings and says_yes:
        del settings[_SERVES]
    elif _SERVES in settings:
        settings |= {"eap_server": "1", "eap_user_file": str(folder / "users"),
                     "server_cert": str(folder / "cert.pem"),
                     "private_key": str(folder / "key.pem")}
    return settings


def _make_certificate(folder: Path) -> None:
    """Write the EAP server's certificate, and a user list that accepts every user."""
    (folder / "users").write_text(f'* {_METHODS}\n"t" MSCHAPV2 "nobody told the twin" [2]\n')
    try:
        subprocess.run([*_CERTIFICATE, "-keyout", str(folder / "key.pem"), "-out",
                        str(folder / "cert.pem")], capture_output=True, check=True,
                       timeout=_CERTIFICATE_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise MeasureError("testbed", "the twin's certificate cannot be made by openssl "
                           f"({error})") from error
