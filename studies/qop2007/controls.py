"""Negative controls: each takes part of a policy's protection away, so its proof must fail.

Controls of the first kind spoil a secret or a daemon. Nothing flows, and the repetition breaks off.
Those of the second kind take a protection away while everything flows, and the evidence must show
it.
"""

from __future__ import annotations

from collections.abc import Mapping

from policies import Dot1xLayer, IpsecLayer, LinkLayer
from policies.options import DaemonOptions
from studies import mobile
from studies.changes import add_layer, change_layer, control_cell, remove_layer
from studies.qop2007 import unprotected
from studies.qop2007.todays_controls import TODAYS
from studies.study import Fault

_AES256, _PSK = "examples/ikev2-aes256.yml", "M2"

_OPENED = "frames open with the keys in force"
_LENGTHS = "frames are as long as the air charges"


SPOILT: Mapping[str, Fault] = {
    "wrong-password": Fault("the mobile node has another EAP password than the RADIUS server",
                            {"station.eap_password": ""}, on=control_cell("P5")),
    "wrong-ca": Fault("the mobile node trusts another certificate authority than the server's",
                      {"station.trust": "rogue"}, on=control_cell("P6")),
    "wrong-wep-key": Fault("the mobile node has another static WEP key than the access point",
                           {"station.wep_key": ""}, on=control_cell("P2")),
    "wrong-passphrase": Fault("the mobile node has another WPA passphrase than the access point",
                              {"station.passphrase": ""}, on=control_cell(_PSK)),
    "unknown-peer-key": Fault("the gateway holds another public key for the mobile node",
                              {"gateway.peers": "unknown"}, on=control_cell("P3")),
    "wrong-mobile-ip-key": Fault("the mobile node has another Mobile IP key than its home agent",
                                 {"mobile_ip.node_key_hex": ""}, on=control_cell("P1")),
    "radius-down": Fault("the RADIUS server does not run", withhold=["freeradius"],
                         on=control_cell("P8")),
}
_SEVERAL = {"authentications": "4"}
_EARLIER = "{} (earlier authentications)"
UNPROTECTED: Mapping[str, Fault] = {
    "second-in-clear": Fault(
        "the second of several authentications builds no IPsec tunnel, and nothing holds its "
        "packets back", on=control_cell("P3"), sets=_SEVERAL,
        fails=[_EARLIER.format(name) for name in (
            "ISAKMP packets", "IKE proposal", "ESP transforms in the kernel",
            "no clear inner packet")]),
    unprotected.FEWER: Fault(
        "an authentication fewer takes place than was asked for", on=control_cell("P3"),
        sets=_SEVERAL,
        fails=["authentications"]),
    unprotected.LEFT_OVER: Fault(
        "an IPsec SA is left when authentications begin", on=control_cell("P3"), sets=_SEVERAL,
        fails=["each authentication from nothing"]),
    unprotected.LOSSY: Fault(
        "the capture on the wire stands still during the streams, and has no room",
        on=control_cell("P1"), fails=["captures are complete"]),
    unprotected.LEAVES: Fault(
        "the other mobile node is gone once all has been sent", on=control_cell("P1", "N3"),
        fails=["station is associated"]),
    unprotected.DENIED: Fault(
        "the home agent denies every registration by its code, and carries it out",
        on=control_cell("P1", "R1"),
        fails=["registered at home", "registered with the foreign agent"]),
    unprotected.UNTUNNELLED: Fault(
        "packets of the mobile node that visits cross between the agents without a tunnel",
        on=control_cell("P1", "R1"), fails=["IP-in-IP between the agents"]),
    "no-wep": mobile.without_wep("neither end has WEP", control_cell("P2")),
    "static-keys": Fault(
        "WEP keys are static, not EAP's", policy=change_layer("link", keys="static"),
        on=control_cell("P8"),
        fails=["keys delivered by EAPOL-Key", _LENGTHS, _OPENED]),
    "no-802.1x": Fault(
        "the access point lets everybody pass", policy=remove_layer("dot1x"), on=control_cell("P6"),
        fails=["EAP method TLS", "EAP-Success", "mutual authentication", "port is closed before",
               "only EAPOL before EAP-Success", "port is open after"]),
    "other-eap": Fault(
        "EAP-MD5 in place of EAP-TLS", policy=change_layer("dot1x", eap="MD5"),
        on=control_cell("P6"),
        fails=["EAP method TLS", "mutual authentication"]),
    "unasked-method": Fault(
        "EAP-TLS in place of EAP-MD5", policy=change_layer("dot1x", eap="TLS"),
        on=control_cell("P5"),
        fails=["EAP method MD5"]),
    "weaker-cipher": Fault(
        "TKIP in place of CCMP", policy=change_layer("link", cipher="TKIP"), on=control_cell(_PSK),
        fails=["CCMP on every data frame", "initialisation vectors differ",
               "pairwise cipher negotiated", "key management offered", _LENGTHS, _OPENED]),
    "longer-header": Fault(
        "frames have a header for quality of service, which the air does not charge",
        policy=change_layer("link", options=DaemonOptions(hostapd={"wmm_enabled": "1"})),
        on=control_cell(_PSK),
        fails=[_LENGTHS]),
    "other-key-management": Fault(
        "a passphrase in place of SAE", on=control_cell("M3"),
        policy=change_layer("link", keys="psk", group=None, sae=None),
        fails=["key management negotiated", "key management offered", "SAE exchange",
               "SAE group", "SAE element"]),
    "no-pmf": Fault(
        "management frames are not protected", policy=change_layer("link", pmf=0),
        on=control_cell("M5"),
        fails=["management frames are protected",
               "protection of management frames negotiated"]),
    "weaker-esp": Fault(
        "ESP encrypts nothing, at both ends",
        policy=change_layer("ipsec", esp_proposal="null-sha1"),
        on=control_cell("P3"), fails=["ESP transforms in the kernel", "no clear inner packet"]),
    "shorter-esp-key": Fault(
        "ESP has AES keys of half the length", on=control_cell(_AES256),
        policy=change_layer("ipsec", esp_proposal="aes128-sha256"),
        fails=["ESP transforms in the kernel"]),
    "weaker-ike": Fault(
        "IKE with MD5 and a group of 768 bits",
        policy=change_layer("ipsec", ike_proposal="3des-md5-modp768"), on=control_cell("P3"),
        fails=["IKE proposal"]),
    "shorter-ike-key": Fault(
        "IKE has an AES key of half the length",
        policy=change_layer("ipsec", ike_proposal="aes128-sha256-modp2048"),
        on=control_cell(_AES256),
        fails=["IKE proposal"]),
    "bypass": Fault(
        "the stream's datagrams go around the tunnel", on=control_cell("P3"),
        fails=["no clear inner packet"]),
    "companion-outside": Fault(
        "the other mobile node's packets go around its tunnel", on=control_cell("P10", "N3"),
        fails=["no clear inner packet"]),
    "agents-outside": Fault(
        "packets between the subnets go around the agents' tunnel", on=control_cell("P3", "N3"),
        fails=["ESP between the agents"]),
    "clear-frame": Fault(
        "one frame of the mobile node's in clear", on=control_cell("P8"),
        fails=["WEP-104 on every data frame", _OPENED]),
    "clear-but-marked": Fault(
        "one frame that says it is encrypted and is not", on=control_cell("P8"),
        fails=[_OPENED]),
    "long-but-marked": Fault(
        "the same, as long as a stream's frame, of which captures have the head only",
        on=control_cell("P8"),
        fails=[_OPENED]),
    "clear-multicast": Fault(
        "one frame of the access point's to everybody in clear", on=control_cell("P8"),
        fails=["WEP-104 on every data frame"]),
    "past-the-agent": Fault(
        "one frame of the mobile node's goes to the other one past the access point",
        on=control_cell("P1", "N3"), fails=["all traffic passes the agent"]),
    "other-ike": Fault(
        "IKE of version 2 in place of 1", policy=change_layer("ipsec", ike=2),
        on=control_cell("P3"),
        fails=["ISAKMP packets"]),
    "unasked-wep": Fault(
        "WEP that the policy does not have", policy=add_layer("link", LinkLayer(
            cipher="WEP-104", keys="static")), on=control_cell("P1"), fails=["air is open"]),
    "unasked-802.1x": Fault(
        "802.1X that the policy does not have", policy=add_layer("dot1x", Dot1xLayer(eap="MD5")),
        on=control_cell("P1"), fails=["no 802.1X"]),
    "unasked-ipsec": Fault(
        "IPsec that the policy does not have", policy=add_layer("ipsec", IpsecLayer(
            ike=1, ike_proposal="3des-sha1-modp1024", esp_proposal="3des-sha1")),
        on=control_cell("P1", "N3"),
        fails=["no IPsec", "traffic crosses the wire between the subnets"]),
    unprotected.UNVERIFIED: Fault(
        "nobody verifies the authenticators of Mobile IP", {"mobile_ip.node_key_hex": ""},
        on=control_cell("P1"), fails=["registration is authentic"]),
    unprotected.UNREGISTERED: Fault(
        "mobile nodes register with nobody, and say that they have", on=control_cell("P1"),
        fails=["registered at home", "registration is authentic"]),
}
FAULTS: Mapping[str, Fault] = {**SPOILT, **UNPROTECTED, **TODAYS}
