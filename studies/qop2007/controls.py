"""Negative controls take one part of a policy's protection away, so that its proof must fail."""

from __future__ import annotations

from collections.abc import Mapping

#: What each spoils, in words for `--help`. How is known where secrets are made and daemons started.
FAULTS: Mapping[str, str] = {
    "wrong-password": "the mobile node has another EAP password than the RADIUS server",
    "wrong-ca": "the mobile node trusts another certificate authority than the server's",
    "wrong-wep-key": "the mobile node has another static WEP key than the access point",
    "wrong-passphrase": "the mobile node has another WPA passphrase than the access point",
    "unknown-peer-key": "the gateway holds another public key for the mobile node",
    "wrong-mobile-ip-key": "the mobile node has another Mobile IP key than its home agent",
    "radius-down": "the RADIUS server does not run",
}
