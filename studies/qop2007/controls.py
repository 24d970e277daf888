"""Negative controls take one part of a policy's protection away, so that its proof must fail."""

from __future__ import annotations

from collections.abc import Mapping

from studies.study import Fault

FAULTS: Mapping[str, Fault] = {
    "wrong-password": Fault("the mobile node has another EAP password than the RADIUS server",
                            {"station.eap_password": ""}),
    "wrong-ca": Fault("the mobile node trusts another certificate authority than the server's",
                      {"station.trust": "rogue"}),
    "wrong-wep-key": Fault("the mobile node has another static WEP key than the access point",
                           {"station.wep_key": ""}),
    "wrong-passphrase": Fault("the mobile node has another WPA passphrase than the access point",
                              {"station.passphrase": ""}),
    "unknown-peer-key": Fault("the gateway holds another public key for the mobile node",
                              {"gateway.peers": "unknown"}),
    "wrong-mobile-ip-key": Fault("the mobile node has another Mobile IP key than its home agent",
                                 {"mobile_ip.node_key_hex": ""}),
    "second-in-clear": Fault("the second of several authentications builds no IPsec tunnel, and "
                             "nothing holds its packets back"),
    "radius-down": Fault("the RADIUS server does not run", withhold=["freeradius"]),
}
