"""Keys and passwords for one run, made afresh, and the negative controls that spoil one of them."""

from __future__ import annotations

import secrets

Secrets = dict[str, dict[str, str]]

#: Negative controls: what each spoils, in words for `--help`. RADIUS is spoilt by not starting it.
FAULTS = {
    "wrong-password": "the mobile node has another EAP password than the RADIUS server",
    "wrong-ca": "the mobile node trusts another certificate authority than the server's",
    "wrong-wep-key": "the mobile node has another static WEP key than the access point",
    "wrong-passphrase": "the mobile node has another WPA passphrase than the access point",
    "unknown-peer-key": "the gateway holds another public key for the mobile node",
    "wrong-mobile-ip-key": "the mobile node has another Mobile IP key than its home agent",
    "radius-down": "the RADIUS server does not run",
}


def make(fault: str | None = None) -> Secrets:
    """Secrets for `qop.secrets` (docs/architecture.md, seam 3), with one fault if asked for."""
    network = {"wep_key": secrets.token_hex(13), "passphrase": secrets.token_hex(16),
               "eap_identity": "mobile-node", "eap_password": secrets.token_hex(16),
               "radius_secret": secrets.token_hex(16)}
    mobile_ip_key = secrets.token_hex(16)
    made: Secrets = {"network": network, "station": {**network, "trust": "ca"},
                     "gateway": {"peers": "known"},
                     "mobile_ip": dict.fromkeys(("key_hex", "node_key_hex"), mobile_ip_key)}
    if fault == "wrong-password":
        made["station"]["eap_password"] = secrets.token_hex(16)
    elif fault == "wrong-ca":
        made["station"]["trust"] = "rogue"
    elif fault == "wrong-wep-key":
        made["station"]["wep_key"] = secrets.token_hex(13)
    elif fault == "wrong-passphrase":
        made["station"]["passphrase"] = secrets.token_hex(16)
    elif fault == "unknown-peer-key":
        made["gateway"]["peers"] = "unknown"
    elif fault == "wrong-mobile-ip-key":
        made["mobile_ip"]["node_key_hex"] = secrets.token_hex(16)
    return made


def withheld(fault: str | None) -> list[str]:
    """Daemons that a fault leaves out."""
    return ["freeradius"] if fault == "radius-down" else []
