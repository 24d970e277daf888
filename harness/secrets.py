"""Secrets for one run are made afresh here; a negative control spoils one of them.

What a control spoils is said here for every study; which controls a study has, and in which words,
is the study's.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

Secrets = dict[str, dict[str, str]]

#: The one secret that each control changes: its place and name, and what it is made of instead.
_SPOILT: Mapping[str, tuple[str, str, Callable[[], str]]] = {
    "wrong-password": ("station", "eap_password", lambda: secrets.token_hex(16)),
    "wrong-ca": ("station", "trust", lambda: "rogue"),
    "wrong-wep-key": ("station", "wep_key", lambda: secrets.token_hex(13)),
    "wrong-passphrase": ("station", "passphrase", lambda: secrets.token_hex(16)),
    "unknown-peer-key": ("gateway", "peers", lambda: "unknown"),
    "wrong-mobile-ip-key": ("mobile_ip", "node_key_hex", lambda: secrets.token_hex(16)),
}
#: Services that a control leaves out.
_WITHHELD: Mapping[str, tuple[str, ...]] = {"radius-down": ("freeradius",)}


def make(fault: str | None = None) -> Secrets:
    """Secrets for `qop.secrets` (docs/architecture.md, seam 3), with one spoilt if asked for.

    A control of a study's own, which is not known here, spoils none of them.
    """
    network = {"wep_key": secrets.token_hex(13), "passphrase": secrets.token_hex(16),
               "eap_identity": "mobile-node", "eap_password": secrets.token_hex(16),
               "radius_secret": secrets.token_hex(16)}
    made: Secrets = {"network": network, "station": {**network, "trust": "ca"},
                     "gateway": {"peers": "known"},
                     "mobile_ip": dict.fromkeys(("key_hex", "node_key_hex"),
                                                secrets.token_hex(16))}
    if spoilt := _SPOILT.get(fault or ""):
        place, name, instead = spoilt
        made[place][name] = instead()
    return made


def withheld(fault: str | None) -> list[str]:
    """Services that a control leaves out."""
    return list(_WITHHELD.get(fault or "", ()))


def effects() -> frozenset[str]:
    """Names of the controls that have an effect here."""
    return frozenset({*_SPOILT, *_WITHHELD})
