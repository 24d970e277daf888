"""Attack stations by an evil twin: a rogue access point with the real one's SSID and BSSID.

Studies use it to show whether a policy protects stations from such an access point.
`replace_by_twin` starts hostapd as the twin in place of the real access point, and restores the
real one afterwards. The twin knows no secret of the network. With EAP it is also an authentication
server, with a self-signed certificate. With EAP-MD5, which derives no keys and has no server
certificate, the twin accepts every station. A twin of a WPA3 network may offer WPA2's passphrase
handshake alone (downgrade). It cannot finish the handshake, but the station's first answer shows
whether a guessed passphrase is right.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon
from measure.agent.workload import Site
from measure.services.hostap import Hostapd, WpaSupplicant
from measure.services.programs import program_environment

_PROGRAM = "measure.attacks.evil_twin_responder"
#: Invented keys, as an attacker would choose them who does not know the network's keys.
_SECRETS = {"wpa_passphrase": "nobody told the twin", "wep_key0": "746865207477696e2773206b65"}
#: Settings that only the real access point has: its bridge, its server, and the keys that access
#: points share.
_OF_THE_NETWORK = re.compile(
    r"bridge|(auth_server|radius_client|own_ip|owe_transition)_\w+|r[01]kh|okc")
#: Settings that WPA2's handshake lacks, and what a downgrading twin offers.
_NOT_OF_WPA2 = re.compile(
    r"(sae|owe|wep|eap)_\w+|ocv|beacon_prot|group_mgmt_cipher|transition_disable|wpa_pairwise|"
    r"ieee8021x|server_cert|private_key")
_WPA2 = {"wpa": "2", "wpa_key_mgmt": "WPA-PSK", "rsn_pairwise": "CCMP", "ieee80211w": "0",
         "wpa_passphrase": _SECRETS["wpa_passphrase"]}
_SERVES, _EAP = "ieee8021x", re.compile(r"^\s*eap=(\w+)", re.MULTILINE)
_METHODS = "PEAP,TTLS,TLS,PWD"
#: Key size: no policy requires a stronger one.
_CERTIFICATE = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384",
                "-nodes", "-days", "30", "-subj", "/CN=radius")
_CERTIFICATE_S = 20.0


@contextmanager
def replace_by_twin(site: Site, hostapd: Hostapd, access_point: str,
                    mobile_node: str, *, has_wpa2_only: bool = False) -> Iterator[None]:
    """Replace an access point by its evil twin inside the context.

    Args:
        site: The running testbed.
        hostapd: The service of the real access point.
        access_point: The node that the twin replaces.
        mobile_node: The station; its configuration shows the EAP method.
        has_wpa2_only: Whether the twin offers WPA2's passphrase handshake alone.

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
    if has_wpa2_only:
        settings, says_yes = downgrade_settings(settings), False
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
    """Return the settings of the twin's hostapd: the real ones with invented keys.

    The real access point's bridge, authentication server and shared keys are left out.

    Args:
        real: Text of the real access point's hostapd.conf.
        folder: Folder for the twin's sockets, certificate and users.
        says_yes: Whether the twin accepts every station instead of running an EAP server.
    """
    own_network, _, _ = real.partition("\nbss=")
    lines = (line.partition("=") for line in own_network.splitlines() if not line.startswith("#"))
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


def downgrade_settings(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return a twin's settings with WPA2's passphrase handshake as its only key management."""
    usable = {name: value for name, value in settings.items() if not _NOT_OF_WPA2.fullmatch(name)}
    return {**usable, **_WPA2}


def _make_certificate(folder: Path) -> None:
    """Write a self-signed certificate for the twin's EAP server, and a list that admits anyone."""
    (folder / "users").write_text(f'* {_METHODS}\n"t" MSCHAPV2 "nobody told the twin" [2]\n')
    try:
        subprocess.run([*_CERTIFICATE, "-keyout", str(folder / "key.pem"), "-out",
                        str(folder / "cert.pem")], capture_output=True, check=True,
                       timeout=_CERTIFICATE_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise MeasureError("testbed", "the twin's certificate cannot be made by openssl "
                           f"({error})") from error
