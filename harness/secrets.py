"""Secrets for one run are made afresh here; a study's negative control spoils some of them."""

from __future__ import annotations

import secrets

from studies.study import Fault, StudyError

#: Of the network that numbers for tests are in (mobile country code 001).
_IMSI = "001010123456789"
Secrets = dict[str, dict[str, str]]


def make(fault: Fault | None = None) -> Secrets:
    """Secrets for `qop.secrets` (docs/ansible.md) and Mobile IP, spoilt as a control says.

    Raises StudyError for a control that names a secret that there is not.
    """
    network = {"wep_key": secrets.token_hex(13), "passphrase": secrets.token_hex(16),
               "eap_identity": "mobile-node", "eap_password": secrets.token_hex(16),
               "radius_secret": secrets.token_hex(16),
               # A subscriber by number, as it is for good and as it is for now; whom to deny.
               "imsi": _IMSI, "p_tmsi": f"c0{secrets.token_hex(3)}", "denied": ""}
    # MACsec's; what nodes are told of it a control may spoil.
    wires = {"cak": secrets.token_hex(16)}
    subscriber = {"key_hex": secrets.token_hex(16), "opc_hex": secrets.token_hex(16)}
    made: Secrets = {"network": network,
                     "station": {**network, "trust": "ca", "certificate": "valid"},
                     "gateway": {"peers": "known", "cross": "known", "proxies": "known",
                                 **wires},
                     "wires": wires,
                     "subscriber": subscriber, "hss": dict(subscriber),
                     "card": {**subscriber, "sqn": "0"},
                     "mobile_ip": dict.fromkeys(("key_hex", "node_key_hex"),
                                                secrets.token_hex(16)),
                     "kerberos": {"user": "alice", **{
                         f"{whose}_password": secrets.token_hex(16)
                         for whose in ("user", "service", "cross_realm")}}}
    for path, instead in (fault.secrets if fault else {}).items():
        value = look_up(made, path, "a negative control spoils")
        place, _, name = path.partition(".")
        made[place][name] = instead or secrets.token_hex(len(value) // 2)
    return made


def look_up(made: Secrets, path: str, who: str) -> str:
    """The secret at "place.name". Raises StudyError, which says `who` names one that is none."""
    place, _, name = path.partition(".")
    if name not in made.get(place, {}):
        known = (f"{place}.{name}" for place, names in made.items() for name in names)
        raise StudyError(f"{who} the secret {path!r}, which there is not; "
                         f"choose from {', '.join(known)}")
    return made[place][name]
