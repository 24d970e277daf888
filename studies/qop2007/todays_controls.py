"""Negative controls for what today's policies add: one protection less, while everything flows."""

from __future__ import annotations

from collections.abc import Mapping

from policies import Policy, TlsSettings
from policies.options import DaemonOptions
from studies.changes import change_layer, control_cell, remove_layer
from studies.qop2007 import attempts
from studies.study import Fault

_NEGOTIATED, _OFFERED = "key management negotiated", "key management offered"
_AGREED = "protection of management frames negotiated"
_NO_MOBILE_IP, _NEW_ADDRESS = "no Mobile IP", "tunnel goes by the new address"
_IN_KERNELS = "kernels have the new address"
_IN_TLS, _CERTIFIED = "RADIUS inside TLS", "RadSec: mutual certificates"
_MACSEC, _SEALED = "MACsec on every frame of the wire", "MACsec encrypts"
_OPEN, _CARRIED = "MACsec frames open", "MACsec carries what is captured above it"
_NUMBERED, _IN_WIRES_KERNELS = "MACsec packet numbers", "MACsec in the kernels"
_LENGTHS = "frames are as long as the air charges"
_OPENED = "frames open with the keys in force"


#: Policies with resumed sessions, with a hidden network, and with a SIM card.
_RESUMED = "examples/wpa2-eap-tls-resumed.yml"
_HIDDEN = "examples/wpa2-psk-hidden.yml"
_CARD = "examples/wpa3-eap-aka-prime.yml"
_ANOTHER_KEY = "00112233445566778899aabbccddeeff"


def _usual_keys(policy: Policy) -> Policy:
    """Replace a 192-bit policy's certificates by P-256, with a key management that allows them."""
    smaller = change_layer("dot1x", tls=TlsSettings(key="p-256"))(policy)
    return change_layer("link", akm="sha256")(smaller)


TODAYS: Mapping[str, Fault] = {
    "named-network": Fault(
        "beacons name a network that is to be hidden",
        policy=change_layer("link", options=DaemonOptions()), on=control_cell(_HIDDEN),
        fails=["hidden network"]),
    "open-for-owe": Fault(
        "an open network in place of OWE", policy=remove_layer("link"), on=control_cell("M1"),
        fails=["CCMP on every data frame", "initialisation vectors differ",
               "pairwise cipher negotiated", _NEGOTIATED, _OFFERED,
               "management frames are protected", _AGREED, "OWE exchange", "four-way handshake",
               _OPENED]),
    "other-owe-group": Fault(
        "OWE in another group", policy=change_layer("link", group=20), on=control_cell("M1"),
        fails=["OWE exchange"]),
    "hunting-and-pecking": Fault(
        "SAE's element by hunting and pecking", policy=change_layer("link", sae="loop"),
        on=control_cell("M3"),
        fails=["SAE element"]),
    "other-sae-group": Fault(
        "SAE in another group", policy=change_layer("link", group=20), on=control_cell("M3"),
        fails=["SAE group"]),
    "optional-pmf": Fault(
        "protected management frames are possible only", policy=change_layer("link", pmf=1),
        on=control_cell("M3"), fails=[_AGREED]),
    "bare-beacons": Fault(
        "beacons bear no check", policy=change_layer("link", beacon_protection=0),
        on=control_cell("M3"),
        fails=["beacons are protected"]),
    "any-channel": Fault(
        "nobody validates the operating channel", policy=change_layer("link", ocv=0),
        on=control_cell("M3"),
        fails=["operating channel validation negotiated"]),
    "clear-identity": Fault(
        "the user's identity passes in clear", policy=change_layer("dot1x", identity=None),
        on=control_cell("M4"), fails=["identity is hidden"]),
    "other-tunnel": Fault(
        "TTLS with PAP in place of PEAP with MSCHAPv2",
        policy=change_layer("dot1x", eap="TTLS", first_offer="TTLS", inner="PAP"),
        on=control_cell("M4"),
        fails=["EAP method PEAP", "inner method MSCHAPV2"]),
    "no-certificate": Fault(
        "a password proven without a certificate and a tunnel",
        policy=change_layer("dot1x", eap="PWD", first_offer="PWD", inner=None, identity=None),
        on=control_cell("M4"), fails=["EAP method PEAP", "server shows its certificate",
                                      "inner method MSCHAPV2", "identity is hidden"]),
    "weaker-key-management": Fault(
        "key management with SHA-1", policy=change_layer("link", akm=None), on=control_cell("M5"),
        fails=[_NEGOTIATED, _OFFERED, _OPENED]),
    "older-tls": Fault(
        "TLS 1.2, which shows certificates to listeners",
        policy=change_layer("dot1x", tls=TlsSettings()), on=control_cell("M5"),
        fails=["TLS 1.3", "TLS group"]),
    "newer-tls": Fault(
        "TLS 1.3 in place of 1.2", policy=change_layer("dot1x", tls=TlsSettings(version="1.3")),
        on=control_cell("examples/wpa2-eap-tls.yml"), fails=["TLS 1.2"]),
    "no-sessions": Fault(
        "nobody keeps a session, and certificates are shown anew",
        policy=change_layer("dot1x", tls=TlsSettings()), on=control_cell(_RESUMED),
        fails=["session resumed"]),
    "other-first-offer": Fault(
        "the server offers EAP-MD5 first, which the station refuses",
        policy=change_layer("dot1x", first_offer="MD5"), on=control_cell("M5"),
        fails=["EAP method TLS"]),
    "unbound-keys": Fault(
        "EAP-AKA, whose keys are bound to no network", policy=change_layer(
            "dot1x", eap="AKA", first_offer="AKA"), on=control_cell(_CARD),
        fails=["EAP method AKA'"]),
    "other-card": Fault(
        "card and subscriber server have another key than the subscriber's",
        {"card.key_hex": _ANOTHER_KEY, "hss.key_hex": _ANOTHER_KEY}, on=control_cell(_CARD),
        fails=["challenge of the subscriber's key"]),
    "leaves-in-clear": Fault(
        "management frames are not protected, that with which the mobile node leaves among them",
        policy=change_layer("link", pmf=0), on=control_cell("M5", "R1"),
        fails=["management frames are protected", _AGREED, "nobody leaves in clear"]),
    "other-tls-group": Fault(
        "TLS in the group that FreeRADIUS has by itself",
        policy=change_layer("dot1x", tls=TlsSettings(version="1.3")), on=control_cell("M5"),
        fails=["TLS group"]),
    "radius-by-udp": Fault(
        "RADIUS goes by UDP between access point and server",
        policy=change_layer("dot1x", transport=None), on=control_cell("M5-radsec"),
        fails=[_IN_TLS, _CERTIFIED]),
    "nameless-proxy": Fault(
        "the server of RADIUS inside TLS asks access points for no certificate, and gets none",
        {"gateway.proxies": "unknown"}, on=control_cell("M5-radsec"), fails=[_CERTIFIED]),
    "clear-wires": Fault(
        "frames on wires are not protected", policy=remove_layer("wire"),
        on=control_cell("M5-macsec"),
        fails=[_MACSEC, _SEALED, _OPEN, _CARRIED, _NUMBERED, _IN_WIRES_KERNELS]),
    "readable-wires": Fault(
        "frames on wires are authenticated and not encrypted",
        policy=change_layer("wire", encrypts=0),
        on=control_cell("M5-macsec"), fails=[_SEALED, _IN_WIRES_KERNELS]),
    "other-wire-key": Fault(
        "both ends of wires have another key than the network's", {"gateway.cak": ""},
        on=control_cell("M5-macsec"), fails=[_OPEN, _CARRIED, _IN_WIRES_KERNELS]),
    "clear-on-wire": Fault(
        "one frame on a wire that is not protected", on=control_cell("M5-macsec"), fails=[_MACSEC]),
    "repeated-on-wire": Fault(
        "one frame of a wire is sent once more, by somebody without a key",
        on=control_cell("M5-macsec"),
        fails=[_NUMBERED]),
    "full-transition": Fault(
        "a station that moves negotiates all anew", policy=change_layer("link", roaming=None),
        on=control_cell("M7", "E1"), fails=[_NEGOTIATED, _OFFERED, "fast transition"]),
    "beside-wireguard": Fault(
        "the stream's datagrams go around WireGuard's tunnel", on=control_cell("M10-mip"),
        fails=["WireGuard: tunnelled", "WireGuard: carried", "captures hold what was counted"]),
    "no-wireguard": Fault(
        "no tunnel, and all goes on in clear", policy=remove_layer("wireguard"),
        on=control_cell("M10-mip"),
        fails=["WireGuard: handshake", "WireGuard: tunnelled", "WireGuard: sessions",
               "WireGuard: carried", "WireGuard: sessions in the kernels"]),
    "no-mobike": Fault(
        "Mobile IP has packets find the node, and its tunnel goes on below the home address",
        policy=change_layer("ipsec", mobike=None), on=control_cell("M11", "R3"),
        fails=[_NO_MOBILE_IP, _NEW_ADDRESS, _IN_KERNELS, "MOBIKE",
               "captures hold what was counted"]),
    "no-ml-kem": Fault(
        "IKE by x25519 alone, as a strongSwan without ML-KEM has it", on=control_cell("M12"),
        policy=change_layer("ipsec", ike_proposal="aes256gcm16-prfsha384-curve25519"),
        fails=["ISAKMP packets", "IKE proposal", "ML-KEM-768 is exchanged"]),
    "wireguard-at-home": Fault(
        "Mobile IP has packets find the node, and its tunnel goes on below the home address",
        policy=change_layer("wireguard", roams=None), on=control_cell("M10", "R3"),
        fails=[_NO_MOBILE_IP, _NEW_ADDRESS, _IN_KERNELS]),
    "keys-anew": Fault(
        "a station that moves has no cached key", policy=change_layer("link", roaming=None),
        on=control_cell("M8-okc", "E1"), fails=["goes on with cached keys"]),
    "no-fils": Fault(
        "a station that moves negotiates all anew in place of FILS",
        policy=change_layer("link", roaming=None), on=control_cell("M9", "E1"),
        fails=[_NEGOTIATED, _OFFERED, "FILS with cached keys"]),
    attempts.FORGED: Fault(
        "an attack: one frame in the access point's name that ends the association",
        # The node joins again during the streams, where no capture has a whole handshake.
        on=control_cell("M2"), fails=["association outlives a forged deauthentication", _OPENED]),
    attempts.GUESSING: Fault(
        "an attack: words are tried on the recorded handshake, the right one among them",
        on=control_cell("M2"), fails=["passphrase is not guessed from the recording"]),
    attempts.REPLAY: Fault(
        "an attack: a frame of the mobile node's is sent once more, by somebody without a key",
        on=control_cell("P2"), fails=["a frame that is sent again is not taken again"]),
    attempts.TWIN: Fault(
        "an attack: an access point of the network's name, without its secrets, in its place",
        on=control_cell("M1"), fails=["evil twin reads nothing"]),
    "smaller-keys": Fault(
        "certificates of P-256, under key management that allows them", policy=_usual_keys,
        on=control_cell("M6"), fails=[_NEGOTIATED, _OFFERED, "TLS suite",
                                      _OPENED, _LENGTHS]),
    "clear-under-gcmp": Fault(
        "one frame of the mobile node's in clear", on=control_cell("M6"),
        fails=["GCMP-256 on every data frame", _OPENED]),
    "smaller-cipher": Fault(
        "CCMP-256 in place of GCMP-256", policy=change_layer("link", cipher="CCMP-256"),
        on=control_cell("M6"),
        fails=["pairwise cipher negotiated", _OPENED]),
    "weaker-group-cipher": Fault(
        "management frames to all under CMAC of 128 bits",
        policy=change_layer("link", group_mgmt=None), on=control_cell("M6"), fails=[_AGREED]),
}
