"""Create the secrets of a run: passwords, pre-shared keys and RADIUS secrets.

`make_secrets` returns random secrets for the daemons' configuration files. With a negative control
(a deliberate fault, which must be detected), some secrets are wrong on purpose. `find_secret`
returns one of them by its place and name.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterable
from dataclasses import asdict

from measure.packets import sae_pk
from studies.study import Fault, StudyError

#: IMSI of the test network (mobile country code 001).
_IMSI = "001010123456789"
Secrets = dict[str, dict[str, str]]
#: Places with a copy of the network's secrets.
_NETWORK_PLACES = ("network", "station")
_SAE_KEYS_LOCK = threading.Lock()


def make_secrets(fault: Fault | None = None) -> Secrets:
    """Return new random secrets for the daemons (`qop.secrets`, docs/ansible.md) and Mobile IP.

    Args:
        fault: A negative control, whose secrets replace the correct ones.

    Raises:
        StudyError: The control names a secret that does not exist.
    """
    network = {"wep_key": secrets.token_hex(13), "passphrase": secrets.token_hex(16),
               # Key pairs of SAE-PK by SSID, in JSON; made where a policy needs them.
               "sae_pk": "",
               "eap_identity": "mobile-node", "eap_password": secrets.token_hex(16),
               "radius_secret": secrets.token_hex(16), "ike_secret": secrets.token_hex(16),
               # A subscriber's permanent identity (IMSI) and temporary identity (P-TMSI). `denied`
               # names the subscriber to reject.
               "imsi": _IMSI, "p_tmsi": f"c0{secrets.token_hex(3)}", "denied": ""}
    # The MACsec key. A control may replace the nodes' copy.
    wires = {"cak": secrets.token_hex(16)}
    subscriber = {"key_hex": secrets.token_hex(16), "opc_hex": secrets.token_hex(16)}
    # Not secret: words by which a control gives a node another certificate or key. `trust`: the CA
    # that a station believes. `certificate`: that of the station or the RADIUS server, "expired",
    # "issuer-expired" (the one above it) or, of stations, "revoked". `peers`: IPsec keys that
    # an agent knows. `cross`: certificate of the visited network's server. `proxies`: how a RadSec
    # proxy verifies its server. `revocation`: whether a RADIUS server checks it. `vlans`: whether
    # access points put stations into VLANs. `radsec_group`: the group of RADIUS inside TLS, that of
    # the policy or P-256. `server_name`: whether a station checks the name in the RADIUS server's
    # certificate.
    made: Secrets = {"network": network,
                     "station": {**network, "trust": "ca", "certificate": "valid",
                                 "server_name": "checked"},
                     "gateway": {"peers": "known", "cross": "known", "proxies": "known",
                                 "revocation": "checked", "vlans": "used",
                                 "radsec_group": "policy", "certificate": "valid", **wires},
                     "wires": wires,
                     "subscriber": subscriber, "hss": dict(subscriber),
                     "card": {**subscriber, "sqn": "0"},
                     "mobile_ip": dict.fromkeys(("key_hex", "node_key_hex"),
                                                secrets.token_hex(16)),
                     "kerberos": {"user": "alice", **{
                         f"{whose}_password": secrets.token_hex(16)
                         for whose in ("user", "service", "cross_realm")}}}
    for path, instead in (fault.secrets if fault else {}).items():
        value = find_secret(made, path, "a negative control spoils")
        place, _, name = path.partition(".")
        made[place][name] = instead or secrets.token_hex(len(value) // 2)
    return made


def add_sae_keys(run_secrets: Secrets, ssids: Iterable[str]) -> None:
    """Add a key pair of SAE-PK for each network of a run that has none yet.

    Args:
        run_secrets: The secrets of a run, which are changed.
        ssids: Names of networks.
    """
    with _SAE_KEYS_LOCK:
        known = json.loads(run_secrets["network"]["sae_pk"] or "{}")
        for ssid in ssids:
            if ssid not in known:
                known[ssid] = asdict(sae_pk.make_key_pair(ssid))
        for place in _NETWORK_PLACES:
            run_secrets[place]["sae_pk"] = json.dumps(known)


def find_secret(run_secrets: Secrets, path: str, who: str) -> str:
    """Return the secret at the path "place.name".

    Args:
        run_secrets: The secrets of a run.
        path: Where the secret is, as "place.name".
        who: Start of the error's text, which names the user of the secret.

    Raises:
        StudyError: There is no such secret.
    """
    place, _, name = path.partition(".")
    if name not in run_secrets.get(place, {}):
        known = (f"{place}.{name}" for place, names in run_secrets.items() for name in names)
        raise StudyError(f"{who} the secret {path!r}, which there is not; "
                         f"choose from {', '.join(known)}")
    return run_secrets[place][name]
