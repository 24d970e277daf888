"""Negative controls of what today's policies add: all goes on flowing, and one thing is less."""

from __future__ import annotations

from collections.abc import Mapping

from policies import Policy, TlsSettings
from studies.qop2007 import attempts
from studies.qop2007.changes import changed, on, without
from studies.study import Fault

_NEGOTIATED, _OFFERED = "key management negotiated", "key management offered"
_AGREED = "protection of management frames negotiated"
_LENGTHS = "frames are as long as the air charges"


def _usual_keys(policy: Policy) -> Policy:
    """A 192-bit policy with certificates of P-256, under key management that allows them."""
    smaller = changed("dot1x", tls=TlsSettings(key="p-256"))(policy)
    return changed("link", akm="sha256")(smaller)


TODAYS: Mapping[str, Fault] = {
    "open-for-owe": Fault(
        "an open network in place of OWE", policy=without("link"), on=on("M1"),
        fails=["CCMP on every data frame", "initialisation vectors differ",
               "pairwise cipher negotiated", _NEGOTIATED, _OFFERED,
               "management frames are protected", _AGREED, "OWE exchange", "four-way handshake"]),
    "other-owe-group": Fault(
        "OWE in another group", policy=changed("link", group=20), on=on("M1"),
        fails=["OWE exchange"]),
    "hunting-and-pecking": Fault(
        "SAE's element by hunting and pecking", policy=changed("link", sae="loop"), on=on("M3"),
        fails=["SAE element"]),
    "other-sae-group": Fault(
        "SAE in another group", policy=changed("link", group=20), on=on("M3"),
        fails=["SAE group"]),
    "optional-pmf": Fault(
        "protected management frames are possible only", policy=changed("link", pmf=1),
        on=on("M3"), fails=[_AGREED]),
    "bare-beacons": Fault(
        "beacons bear no check", policy=changed("link", beacon_protection=0), on=on("M3"),
        fails=["beacons are protected"]),
    "any-channel": Fault(
        "nobody validates the operating channel", policy=changed("link", ocv=0), on=on("M3"),
        fails=["operating channel validation negotiated"]),
    "clear-identity": Fault(
        "the user's identity passes in clear", policy=changed("dot1x", identity=None),
        on=on("M4"), fails=["identity is hidden"]),
    "other-tunnel": Fault(
        "TTLS with PAP in place of PEAP with MSCHAPv2",
        policy=changed("dot1x", eap="TTLS", first_offer="TTLS", inner="PAP"), on=on("M4"),
        fails=["EAP method PEAP", "inner method MSCHAPV2"]),
    "weaker-key-management": Fault(
        "key management with SHA-1", policy=changed("link", akm=None), on=on("M5"),
        fails=[_NEGOTIATED, _OFFERED]),
    "older-tls": Fault(
        "TLS 1.2, which shows certificates to listeners",
        policy=changed("dot1x", tls=TlsSettings()), on=on("M5"), fails=["TLS 1.3", "TLS group"]),
    "other-tls-group": Fault(
        "TLS in the group that FreeRADIUS has by itself",
        policy=changed("dot1x", tls=TlsSettings(version="1.3")), on=on("M5"),
        fails=["TLS group"]),
    "full-transition": Fault(
        "a station that moves negotiates all anew", policy=changed("link", roaming=None),
        on=on("M7", "E1"), fails=[_NEGOTIATED, _OFFERED, "fast transition"]),
    "beside-wireguard": Fault(
        "the stream's datagrams go around WireGuard's tunnel", on=on("M10"),
        fails=["WireGuard: tunnelled", "WireGuard: carried", "captures hold what was counted"]),
    "no-wireguard": Fault(
        "no tunnel, and all goes on in clear", policy=without("wireguard"), on=on("M10"),
        fails=["WireGuard: handshake", "WireGuard: tunnelled", "WireGuard: sessions",
               "WireGuard: carried", "WireGuard: sessions in the kernels"]),
    "keys-anew": Fault(
        "a station that moves has no cached key", policy=changed("link", roaming=None),
        on=on("M8-okc", "E1"), fails=["goes on with cached keys"]),
    "no-fils": Fault(
        "a station that moves negotiates all anew in place of FILS",
        policy=changed("link", roaming=None), on=on("M9", "E1"),
        fails=[_NEGOTIATED, _OFFERED, "FILS with cached keys"]),
    attempts.FORGED: Fault(
        "an attack: one frame in the access point's name that ends the association",
        on=on("M2"), fails=["association outlives a forged deauthentication"]),
    attempts.GUESSING: Fault(
        "an attack: words are tried on the recorded handshake, the right one among them",
        on=on("M2"), fails=["passphrase is not guessed from the recording"]),
    "smaller-keys": Fault(
        "certificates of P-256, under key management that allows them", policy=_usual_keys,
        on=on("M6"), fails=[_NEGOTIATED, _OFFERED, "TLS suite",
                            "frames open with the keys in force", _LENGTHS]),
    "smaller-cipher": Fault(
        "CCMP-256 in place of GCMP-256", policy=changed("link", cipher="CCMP-256"), on=on("M6"),
        fails=["pairwise cipher negotiated"]),
    "weaker-group-cipher": Fault(
        "management frames to all under CMAC of 128 bits",
        policy=changed("link", group_mgmt=None), on=on("M6"), fails=[_AGREED]),
}
