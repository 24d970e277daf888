"""List the faults that the study qop2007 injects on purpose (negative controls).

Each fault takes away a part of a policy's protection, and names the checks that must then fail. So
a check that cannot fail is noticed.

- `SPOILT` replaces a secret or stops a daemon. No traffic can flow, and the repetition must fail.
- `UNPROTECTED` removes a protection of the 2007 policies while traffic flows.
- `TODAYS` removes a protection of today's policies (WPA3, MACsec, WireGuard) while traffic flows.
- `FAULTS` has all of them by name.
"""

from __future__ import annotations

from collections.abc import Mapping

from measure.services import radius
from policies import Dot1xLayer, IpsecLayer, LinkLayer, Policy, TlsSettings
from policies.alternatives import (
    ACCEPTED,
    ANTI_CLOGGING,
    CHECKS,
    ESP_GROUP,
    ESP_OFFERED,
    STATION_GROUPS,
)
from policies.dot1x import CertificateKey
from policies.options import DaemonOptions
from studies import policy_factors
from studies.policy_factors import Change, add_layer, change_layer, control_cell, remove_layer
from studies.qop2007 import attacks, fault_injection
from studies.study import Fault

_NEGOTIATED, _OFFERED = "key management negotiated", "key management offered"
_AGREED = "protection of management frames negotiated"
_NO_MOBILE_IP, _NEW_ADDRESS = "no Mobile IP", "tunnel goes by the new address"
_IN_KERNELS = "kernels have the new address"
_PATH, _GOES_ON = "QUIC: new path is validated", "QUIC: connection goes on"
_JOINED, _CONTINUED = "MPTCP: new address joins the connection", "MPTCP: data sequence goes on"
_SHAKEN, _DATA = "MPTCP: handshake", "MPTCP: data are packets"
_HAVE_CONNECTION = "MPTCP: kernels have the connection"
_IN_TLS, _CERTIFIED = "RADIUS inside TLS", "RadSec: mutual certificates"
_AGREED_IN_TLS = "RadSec: TLS group"
_MACSEC, _SEALED = "MACsec on every frame of the wire", "MACsec encrypts"
_OPEN, _CARRIED = "MACsec frames open", "MACsec carries what is captured above it"
_NUMBERED, _IN_WIRES_KERNELS = "MACsec packet numbers", "MACsec in the kernels"
_LENGTHS = "frames are as long as the air charges"
_OPENED = "frames open with the keys in force"
_IN_RADIUS = "RADIUS packets as computed"
_PACKETS = ("EAP packets as computed", _IN_RADIUS)
_SIGNED = "post-quantum certificates"
_REFUSED = "revoked certificate is refused"
_OTHER_SERVER = "server with another name is refused"
_FURTHER_GROUPS, _FURTHER_PROPOSALS = CHECKS[STATION_GROUPS], CHECKS[ESP_OFFERED]
_LIMITS = "channel access and aggregates are as the air charges"

_TRANSLATES, _IN_UDP = "router translates addresses and ports", "ESP in UDP"
_IDLE_NODE, _OTHER_PORT = "peer reaches the idle node", "router changes the port"
_GOES_ON_THERE = "tunnel goes on at the new port"

#: Policies for nodes behind a router with NAT, and the scenario with one.
_NAT_IKE, _NAT_WIREGUARD = "examples/ikev2-nat.yml", "examples/wireguard-nat.yml"
_NAT = "examples/scenarios/nat.yml"
#: Policies with resumed sessions, a hidden network, a SIM card, post-quantum certificates, and all
#: settings of WireGuard.
_RESUMED, _RESUMED_13 = "examples/wpa2-eap-tls-resumed.yml", "examples/wpa3-eap-tls-resumed.yml"
_HIDDEN = "examples/wpa2-psk-hidden.yml"
_REPORTS, _TRANSITION = (f"examples/wpa2-psk-{name}.yml"
                         for name in ("neighbor-report", "bss-transition"))
_CARD = "examples/wpa3-eap-aka-prime.yml"
_POST_QUANTUM = "examples/wpa3-eap-tls-ml-dsa-65.yml"
_RADSEC = "examples/wpa3-radsec-ml-dsa-65.yml"
_MIXED_KEYS = "examples/wpa3-eap-tls-mixed-keys.yml"
_WIREGUARD = "examples/wpa2-wireguard.yml"
#: Policies of WPA3's transition mode: a station with both key managements, and an older one.
_MIXED, _MIXED_PSK = "examples/wpa2-wpa3-sae.yml", "examples/wpa2-wpa3-psk.yml"
#: Policies whose RADIUS server insists on Message-Authenticators, with two hashes of key
#: management, and with TKIP for frames to all.
_BLAST = "examples/wpa2-eap-message-authenticator.yml"
_TWO_HASHES, _GROUP = "examples/wpa2-wpa3-eap.yml", "examples/wpa2-tkip-group.yml"
_REALM, _PROXY = "examples/wpa2-eap-realm.yml", "examples/scenarios/radius-proxy.yml"
_TUNNEL_REALM = "examples/wpa2-ttls-realm.yml"
#: Policies whose RADIUS server refuses revoked certificates, by a list or by OCSP.
_LISTED, _ASKED = "examples/wpa2-eap-tls-crl.yml", "examples/wpa2-eap-tls-ocsp.yml"
#: Policies whose stations check the RADIUS server's name, or its domain.
_NAMED, _IN_DOMAIN = "examples/wpa2-peap-server-name.yml", "examples/wpa2-eap-tls-server-domain.yml"
_ACCOUNTED = "examples/wpa2-eap-accounting.yml"
_DEVICES = "examples/wpa2-psk-by-device.yml"
_VLAN, _VLAN_PSK = "examples/wpa2-eap-vlan.yml", "examples/wpa2-psk-vlan.yml"
_VLANS, _VLANS_PSK = "examples/wpa2-eap-vlans.yml", "examples/wpa2-psk-vlans.yml"
_OTHERS_APART = "other stations are in their VLANs"
_TAGGED, _BRIDGED = "VLAN tag on the wire", "station is in its VLAN's bridge"
_APART = "other VLANs do not reach the station"
_OWE_TRANSITION = "examples/owe-transition.yml"
_REKEY = "examples/wpa2-psk-group-rekey.yml"
_OVER_DS = "examples/wpa3-sae-ft-over-ds.yml"
#: A station that tries two groups of SAE, and the 192-bit suite with fast transition.
_GROUPS = "examples/wpa3-sae-groups.yml"
_CLOGGED = "examples/wpa3-sae-anti-clogging.yml"
_SAE_PK = "examples/wpa3-sae-pk.yml"
_FAST_192 = "examples/wpa3-eap-192-bit-ft.yml"
_RSA_192 = "examples/wpa3-eap-192-bit-rsa.yml"
#: Scenario whose first RADIUS server is down.
_FAILOVER = "examples/scenarios/radius-failover.yml"
#: Scenarios whose wire has a rate for each direction, or loses packets in bursts.
_ASYMMETRIC, _BURSTS = (f"examples/scenarios/N2-{way}.yml" for way in ("asymmetric", "bursts"))
#: Scenario whose streams are IPv6.
_OVER_IPV6 = "examples/scenarios/N2-ipv6.yml"
#: PEAP with other certificates and fragments, and TTLS with CHAP.
_CERTIFICATES = "examples/wpa2-peap-rsa3072.yml"
_CHAP = "examples/wpa2-ttls-chap.yml"
_NESTED = "examples/wpa2-peap-eap-tls.yml"
_IKE_SECRET, _IKE_CERTIFICATES, _IKE_EAP, _IKE_PASSWORD = (
    f"examples/ikev2-{way}.yml" for way in ("psk", "certificates", "eap", "eap-mschapv2"))
_LISTS, _ESP_LISTS = "examples/ikev2-proposals.yml", "examples/ikev2-esp-proposals.yml"
_FORWARD = "examples/ikev2-forward-secrecy.yml"
_WINDOW = "examples/wpa3-eap-macsec-window.yml"
_WIRE_256 = "examples/wpa3-eap-macsec-256.yml"
_ANOTHER_KEY = "00112233445566778899aabbccddeeff"


def _use_keys(key: CertificateKey) -> Change:
    """Return a function that gives a 192-bit WPA3 policy other keys, and the AKM for them."""
    def change_policy(policy: Policy) -> Policy:
        smaller = change_layer("dot1x", tls=TlsSettings(key=key))(policy)
        return change_layer("link", akm="sha256")(smaller)

    return change_policy


def _without_realm(policy: Policy) -> Policy:
    """Leave the realm out of identities. A policy without 802.1X stays as it is."""
    layer = policy.layers.dot1x
    if layer is None or layer.tls is None:
        return policy
    return change_layer("dot1x", tls=layer.tls.model_copy(update={"realm": None}))(policy)


def _without_pmf(policy: Policy) -> Policy:
    """Switch protected management frames off in a mixed network that lets SAE in without them."""
    options = DaemonOptions.model_construct(hostapd={"sae_require_mfp": "0"}, wpa_supplicant={})
    return change_layer("link", pmf=0, options=options)(policy)


def _configure_radio(**options: str) -> Change:
    """Return a change of the access point's options that no policy may set."""
    return change_layer("link", options=DaemonOptions.model_construct(
        hostapd=options, wpa_supplicant={}))


#: Channel 36 with 80 MHz in 5 GHz, as the medium 802.11ax has it.
_use_5_ghz = change_layer("link", options=DaemonOptions.model_construct(
    hostapd={"channel": "36", "op_class": "128", "ieee80211n": "1", "ieee80211ac": "1",
             "ht_capab": "[SHORT-GI-20][HT40+][SHORT-GI-40]",
             "vht_capab": "[SHORT-GI-80][MAX-A-MPDU-LEN-EXP7]", "vht_oper_chwidth": "1",
             "vht_oper_centr_freq_seg0_idx": "42", "he_oper_centr_freq_seg0_idx": "42"},
    wpa_supplicant={"scan_freq": "5180"}))


# --- Controls for what today's policies add: everything flows ---

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
    "one-vlan-by-passphrase": Fault(
        "the access point puts all stations into one VLAN",
        policy=change_layer("link", further_vlans=None), on=control_cell(_VLANS_PSK, "N1"),
        fails=[_OTHERS_APART]),
    "one-vlan-by-radius": Fault(
        "the RADIUS server names one VLAN for all stations",
        policy=change_layer("link", further_vlans=None), on=control_cell(_VLANS, "N1"),
        fails=[_OTHERS_APART]),
    "owe-alone": Fault(
        "no open network points at the one with OWE", policy=change_layer(
            "link", owe_transition=None), on=control_cell(_OWE_TRANSITION),
        fails=["OWE transition"]),
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
    "one-sae-group": Fault(
        "the station tries no group of SAE before the one that both ends use",
        policy=change_layer("link", station_groups=[19, 21]), on=control_cell(_GROUPS),
        fails=["SAE groups tried"]),
    "first-sae-group": Fault(
        "the access point accepts the group that the station tries first",
        policy=change_layer("link", access_point_groups=[20, 19, 21]), on=control_cell(_GROUPS),
        fails=["SAE group", "SAE groups tried"]),
    "fewer-station-groups": Fault(
        "the station has no group of SAE after the one that both ends use",
        policy=change_layer("link", station_groups=[20, 19]), on=control_cell(_GROUPS),
        fails=[_FURTHER_GROUPS]),
    "fewer-access-point-groups": Fault(
        "the access point has no group of SAE after the one that both ends use",
        policy=change_layer("link", access_point_groups=[19]), on=control_cell(_GROUPS),
        fails=[_FURTHER_GROUPS]),
    "later-tokens": Fault(
        "the access point asks for SAE tokens at another number of unfinished exchanges",
        policy=change_layer("link", anti_clogging=None), on=control_cell(_CLOGGED),
        fails=[CHECKS[ANTI_CLOGGING]]),
    "one-key-management": Fault(
        "the station of a mixed network accepts SAE alone",
        policy=change_layer("link", accepted=None), on=control_cell(_MIXED),
        fails=[CHECKS[ACCEPTED]]),
    "optional-pmf": Fault(
        "protected management frames are possible only", policy=change_layer("link", pmf=1),
        on=control_cell("M3"), fails=[_AGREED]),
    "bare-beacons": Fault(
        "beacons are not protected", policy=change_layer("link", beacon_protection=0),
        on=control_cell("M3"),
        fails=["beacons are protected"]),
    "no-group-renewal": Fault(
        "the access point keeps the key of frames to all",
        policy=change_layer("link", options=DaemonOptions()), on=control_cell(_REKEY),
        # Streams that are longer than the interval of 1 s.
        sets={"stream_bytes": "2M"}, fails=["group key is renewed"]),
    "no-neighbor-reports": Fault(
        "access points have no neighbor reports", policy=change_layer("link", neighbor_report=0),
        on=control_cell(_REPORTS), fails=["neighbor reports supported"]),
    "no-bss-transition": Fault(
        "access points have no BSS transition management",
        policy=change_layer("link", bss_transition=0), on=control_cell(_TRANSITION),
        fails=["BSS transition supported"]),
    "no-public-key": Fault(
        "the access point has no key pair, and knowing the password suffices to imitate it",
        policy=change_layer("link", sae="h2e"), on=control_cell(_SAE_PK),
        fails=["SAE element", "SAE-PK signature"]),
    "any-channel": Fault(
        "the operating channel is not validated", policy=change_layer("link", ocv=0),
        on=control_cell("M3"),
        fails=["operating channel validation negotiated", "station states its channel"]),
    "clear-identity": Fault(
        "the user's identity passes in clear", policy=change_layer("dot1x", identity=None),
        on=control_cell("M4"), fails=["identity is hidden", *_PACKETS]),
    "other-tunnel": Fault(
        "TTLS with PAP in place of PEAP with MSCHAPv2",
        policy=change_layer("dot1x", eap="TTLS", first_offer="TTLS", inner="PAP"),
        on=control_cell("M4"),
        fails=["EAP method PEAP", "inner method MSCHAPV2", *_PACKETS]),
    "smaller-certificates": Fault(
        "certificates with RSA keys of 2048 bits in place of 3072",
        policy=change_layer("dot1x", tls=TlsSettings(chain=3, fragment_bytes=1400)),
        on=control_cell(_CERTIFICATES), fails=["TLS certificate keys", *_PACKETS]),
    "shorter-chain": Fault(
        "the server sends two certificates in place of three",
        policy=change_layer("dot1x", tls=TlsSettings(key="rsa-3072", fragment_bytes=1400)),
        on=control_cell(_CERTIFICATES), fails=["TLS certificate chain", *_PACKETS]),
    "usual-fragments": Fault(
        "the server sends TLS in fragments of 1024 bytes in place of 1400",
        policy=change_layer("dot1x", tls=TlsSettings(key="rsa-3072", chain=3)),
        on=control_cell(_CERTIFICATES), fails=["TLS fragments", *_PACKETS]),
    "unread-crl": Fault(
        "the RADIUS server does not look into the list of revoked certificates",
        {"gateway.revocation": "unchecked"}, on=control_cell(_LISTED), fails=[_REFUSED]),
    "unasked-ocsp": Fault(
        "the RADIUS server does not ask the OCSP responder",
        {"gateway.revocation": "unchecked"}, on=control_cell(_ASKED),
        fails=[_REFUSED, "OCSP response is good"]),
    "unchecked-server-name": Fault(
        "the station does not check the name in the RADIUS server's certificate",
        {"station.server_name": "unchecked"}, on=control_cell(_NAMED), fails=[_OTHER_SERVER]),
    "unchecked-server-domain": Fault(
        "the station does not check the domain of the name in the RADIUS server's certificate",
        {"station.server_name": "unchecked"}, on=control_cell(_IN_DOMAIN),
        fails=[_OTHER_SERVER]),
    "other-inner-method": Fault(
        "PAP in place of CHAP inside the tunnel", policy=change_layer("dot1x", inner="PAP"),
        on=control_cell(_CHAP), fails=["inner method CHAP", *_PACKETS]),
    "password-for-certificate": Fault(
        "a password in place of the station's certificate inside the tunnel",
        policy=change_layer("dot1x", inner="MSCHAPV2"), on=control_cell(_NESTED),
        fails=["inner method TLS", "mutual authentication inside the tunnel", *_PACKETS]),
    "no-certificate": Fault(
        "a password proven without a certificate and a tunnel",
        policy=change_layer("dot1x", eap="PWD", first_offer="PWD", inner=None, identity=None),
        on=control_cell("M4"), fails=["EAP method PEAP", "server shows its certificate",
                                      "inner method MSCHAPV2", "identity is hidden", *_PACKETS]),
    "weaker-key-management": Fault(
        "key management with SHA-1", policy=change_layer("link", akm=None), on=control_cell("M5"),
        fails=[_NEGOTIATED, _OFFERED, _OPENED]),
    "older-tls": Fault(
        "TLS 1.2, which shows certificates to listeners",
        policy=change_layer("dot1x", tls=TlsSettings()), on=control_cell("M5"),
        fails=["TLS 1.3", "TLS group", *_PACKETS]),
    "older-tunnel": Fault(
        "PEAP inside TLS 1.2", policy=change_layer("dot1x", tls=TlsSettings()),
        on=control_cell("M14"), fails=["TLS 1.3", "TLS group", *_PACKETS]),
    "newer-tls": Fault(
        "TLS 1.3 in place of 1.2", policy=change_layer("dot1x", tls=TlsSettings(version="1.3")),
        on=control_cell("examples/wpa2-eap-tls.yml"), fails=["TLS 1.2", *_PACKETS]),
    "no-sessions": Fault(
        "no session is kept, and certificates are sent again",
        policy=change_layer("dot1x", tls=TlsSettings()), on=control_cell(_RESUMED),
        fails=["session resumed", *_PACKETS]),
    "no-newer-sessions": Fault(
        "no session of TLS 1.3 is kept, and certificates are sent again",
        policy=change_layer("dot1x", tls=TlsSettings(version="1.3", group="x25519")),
        on=control_cell(_RESUMED_13), fails=["session resumed", *_PACKETS]),
    "no-tunnel-sessions": Fault(
        "no session is kept, and the password is asked for again",
        policy=change_layer("dot1x", tls=TlsSettings()), on=control_cell("M4-resumed"),
        fails=["session resumed", "no inner method in a resumed session", *_PACKETS]),
    "classical-certificates": Fault(
        "certificates of RSA-2048 in place of ML-DSA-65",
        policy=change_layer("dot1x", tls=TlsSettings(version="1.3", group="x25519mlkem768")),
        on=control_cell(_POST_QUANTUM), fails=["TLS certificate keys", _SIGNED, *_PACKETS]),
    "equal-keys": Fault(
        "the station has a key of the server's kind, ML-DSA-65, in place of P-256",
        policy=change_layer("dot1x", tls=TlsSettings(
            version="1.3", key="ml-dsa-65", group="x25519mlkem768")),
        on=control_cell(_MIXED_KEYS), fails=["TLS certificate keys", _SIGNED, *_PACKETS]),
    "classical-group": Fault(
        "a key agreement by X25519 alone, without ML-KEM", policy=change_layer(
            "dot1x", tls=TlsSettings(version="1.3", key="ml-dsa-65", group="x25519")),
        on=control_cell(_POST_QUANTUM), fails=["TLS group", *_PACKETS]),
    "smaller-fragments": Fault(
        "the server cuts TLS into smaller fragments", policy=change_layer(
            "dot1x", tls=TlsSettings(version="1.3", group="x25519", fragment_bytes=500)),
        on=control_cell("M5"), fails=[*_PACKETS]),
    "further-attribute": Fault(
        "the access point sends the RADIUS server one attribute more (Operator-Name)",
        policy=_configure_radio(radius_auth_req_attr="126:s:1qop.test"), on=control_cell("M5"),
        fails=[_IN_RADIUS]),
    "other-first-offer": Fault(
        "the server offers EAP-MD5 first, which the station refuses",
        policy=change_layer("dot1x", first_offer="MD5"), on=control_cell("M5"),
        fails=["EAP method TLS", *_PACKETS]),
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
        fails=["management frames are protected", _AGREED, "nobody leaves in clear", _IN_RADIUS]),
    "other-tls-group": Fault(
        "TLS in FreeRADIUS' default group",
        policy=change_layer("dot1x", tls=TlsSettings(version="1.3")), on=control_cell("M5"),
        fails=["TLS group", *_PACKETS]),
    "proxy-decides": Fault(
        "the RADIUS proxy decides itself, as identities have no realm", policy=_without_realm,
        on=control_cell(_REALM, _PROXY), fails=["server of the realm decides", *_PACKETS]),
    "no-realm": Fault(
        "users of TTLS have no realm, inside the tunnel and outside, so that the proxy decides",
        policy=_without_realm, on=control_cell(_TUNNEL_REALM, _PROXY),
        fails=["server of the realm decides", "user inside the tunnel has the realm",
               "identity is hidden", *_PACKETS]),
    "no-accounting": Fault(
        "access points report no session", policy=change_layer("dot1x", accounting=None),
        on=control_cell(_ACCOUNTED), fails=["session is accounted"]),
    "no-authenticator": Fault(
        "the RADIUS server takes requests without a Message-Authenticator",
        policy=change_layer("dot1x", message_authenticator=None), on=control_cell(_BLAST),
        fails=["server requires Message-Authenticator"]),
    "radius-by-udp": Fault(
        "RADIUS goes by UDP between access point and server",
        policy=change_layer("dot1x", transport=None), on=control_cell("M5-radsec"),
        fails=[_IN_TLS, _CERTIFIED, _AGREED_IN_TLS, _IN_RADIUS]),
    "nameless-proxy": Fault(
        "the server of RADIUS inside TLS requests no certificate from access points",
        {"gateway.proxies": "unknown"}, on=control_cell("M5-radsec"), fails=[_CERTIFIED]),
    "classical-radsec": Fault(
        "RADIUS inside TLS agrees on P-256, without ML-KEM", {"gateway.radsec_group": "p-256"},
        on=control_cell(_RADSEC), fails=[_AGREED_IN_TLS]),
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
    "no-window": Fault(
        "frames on wires have to come in order", policy=change_layer("wire", replay_window=None),
        on=control_cell(_WINDOW), fails=["MACsec replay window"]),
    "clear-on-wire": Fault(
        "one frame on a wire that is not protected", on=control_cell("M5-macsec"), fails=[_MACSEC]),
    "repeated-on-wire": Fault(
        "one frame on a wire is replayed by an attacker without a key",
        on=control_cell("M5-macsec"),
        fails=[_NUMBERED]),
    "full-transition": Fault(
        "a station that moves authenticates in full", policy=change_layer("link", roaming=None),
        on=control_cell("M7", "E1"), fails=[_NEGOTIATED, _OFFERED, "fast transition"]),
    "sha256-for-sha384": Fault(
        "keys of fast transition by SHA-256, from 32 bytes, in place of SHA-384",
        policy=change_layer("link", akm=None), on=control_cell(_FAST_192, "E1"),
        fails=[_NEGOTIATED, _OFFERED, "fast transition's keys", *_PACKETS]),
    fault_injection.OVER_THE_AIR: Fault(
        "a station that moves asks the next access point over the air, not over the DS",
        on=control_cell(_OVER_DS, "E1"), fails=["fast transition over the DS"]),
    "beside-wireguard": Fault(
        "the stream's datagrams go around WireGuard's tunnel", on=control_cell("M10-mip"),
        fails=["WireGuard: tunnelled", "WireGuard: carried", "captures hold what was counted"]),
    "no-wireguard": Fault(
        "no tunnel, and all traffic passes in clear", policy=remove_layer("wireguard"),
        on=control_cell("M10-mip"),
        fails=["WireGuard: handshake", "WireGuard: tunnelled", "WireGuard: sessions",
               "WireGuard: carried", "WireGuard: sessions in the kernels"]),
    "usual-mtu": Fault(
        "packets in the tunnel are as long as by default", on=control_cell(_WIREGUARD),
        policy=change_layer("wireguard", mtu=None), fails=["WireGuard: MTU"]),
    "no-keepalive": Fault(
        "the mobile node sends no keepalives", on=control_cell(_WIREGUARD),
        policy=change_layer("wireguard", keepalive=None), fails=["WireGuard: keepalive"]),
    "no-symmetric-key": Fault(
        "WireGuard's ends have no pre-shared key", on=control_cell(_WIREGUARD),
        policy=change_layer("wireguard", preshared_key=None), fails=["WireGuard: pre-shared key"]),
    "no-mobike": Fault(
        "Mobile IP follows the node, and its tunnel keeps the home address",
        policy=change_layer("ipsec", mobike=None), on=control_cell("M11", "R3"),
        fails=[_NO_MOBILE_IP, _NEW_ADDRESS, _IN_KERNELS, "MOBIKE",
               "captures hold what was counted"]),
    fault_injection.UNTRANSLATED: Fault(
        "the router forwards packets without translating their addresses",
        on=control_cell(_NAT_IKE, _NAT),
        fails=[_IN_KERNELS, _TRANSLATES, _IN_UDP, _IDLE_NODE, _OTHER_PORT, _GOES_ON_THERE,
               "NAT keepalives"]),
    fault_injection.KEPT_MAPPING: Fault(
        "the router keeps its mappings, and does not change the node's port",
        on=control_cell(_NAT_IKE, _NAT), fails=[_OTHER_PORT]),
    "no-nat-keepalive": Fault(
        "the mobile node sends no NAT keepalives", on=control_cell(_NAT_IKE, _NAT),
        policy=change_layer("ipsec", keepalive=None), fails=["NAT keepalives"]),
    "no-dpd": Fault(
        "a reported fault: a router changes the port of a MOBIKE peer that never asks whether its "
        "gateway is alive", on=control_cell(_NAT_IKE, _NAT),
        policy=change_layer("ipsec", dpd=None), fails=["dead peer detection", _GOES_ON_THERE]),
    "silent-node": Fault(
        "a mobile node behind a router with NAT sends nothing while it idles",
        on=control_cell(_NAT_WIREGUARD, _NAT), policy=change_layer("wireguard", keepalive=None),
        fails=["WireGuard: keepalive", _IDLE_NODE, _GOES_ON_THERE]),
    "signature-for-secret": Fault(
        "IKE by raw RSA keys in place of a pre-shared key", on=control_cell(_IKE_SECRET),
        policy=change_layer("ipsec", authentication="pubkey"), fails=["IKE authentication"]),
    "secret-for-certificate": Fault(
        "IKE by a pre-shared key in place of certificates", on=control_cell(_IKE_CERTIFICATES),
        policy=change_layer("ipsec", authentication="psk"), fails=["IKE authentication"]),
    "certificate-for-eap": Fault(
        "IKE by certificates of both ends, and no EAP", on=control_cell(_IKE_EAP),
        policy=change_layer("ipsec", authentication="certificate"),
        fails=["ISAKMP packets", "IKE authentication"]),
    "certificate-for-password": Fault(
        "IKE by certificates of both ends, and no password", on=control_cell(_IKE_PASSWORD),
        policy=change_layer("ipsec", authentication="certificate"),
        fails=["ISAKMP packets", "IKE authentication"]),
    "tls-for-password": Fault(
        "EAP-TLS in place of EAP-MSCHAPv2 inside IKE", on=control_cell(_IKE_PASSWORD),
        policy=change_layer("ipsec", authentication="eap-tls"), fails=["ISAKMP packets"]),
    "no-ml-kem": Fault(
        "IKE by x25519 alone, as a strongSwan without ML-KEM has it", on=control_cell("M12"),
        policy=change_layer("ipsec", ike_proposal="aes256gcm16-prfsha384-curve25519"),
        fails=["ISAKMP packets", "IKE proposal", "ML-KEM-768 is exchanged"]),
    "wireguard-at-home": Fault(
        "Mobile IP follows the node, and its tunnel keeps the home address",
        policy=change_layer("wireguard", roams=None), on=control_cell("M10", "R3"),
        fails=[_NO_MOBILE_IP, _NEW_ADDRESS, _IN_KERNELS]),
    "beside-quic": Fault(
        "the stream's datagrams go around QUIC's tunnel", on=control_cell("M15"),
        fails=["QUIC: tunnelled", "QUIC: carried", "captures hold what was counted"]),
    "no-quic": Fault(
        "no tunnel, and all traffic passes in clear", policy=remove_layer("quic"),
        on=control_cell("M15"),
        fails=["QUIC: handshake", "QUIC: packets open", "QUIC: tunnelled", "QUIC: carried",
               "captures hold what was counted", _NO_MOBILE_IP]),
    "quic-reconnects": Fault(
        "the mobile node opens another QUIC connection at its new address, and migrates none",
        policy=change_layer("quic", on_move="reconnect"), on=control_cell("M15", "R3"),
        fails=[_PATH, _GOES_ON]),
    "quic-migrates": Fault(
        "the QUIC connection migrates, where the mobile node is to open another one",
        policy=change_layer("quic", on_move=None), on=control_cell("M15-new", "R3"),
        fails=["QUIC: new connection after the move"]),
    "beside-mptcp": Fault(
        "the stream's datagrams go around the tunnel by Multipath TCP", on=control_cell("M16"),
        fails=["MPTCP: tunnelled", "MPTCP: carried", "captures hold what was counted"]),
    "no-mptcp": Fault(
        "no tunnel, and all traffic passes outside", policy=remove_layer("mptcp"),
        on=control_cell("M16"),
        fails=[_SHAKEN, _DATA, "MPTCP: tunnelled", "MPTCP: carried", _HAVE_CONNECTION,
               _NO_MOBILE_IP]),
    fault_injection.STRIPPED: Fault(
        "the home agent strips MPTCP's options, and the tunnel is plain TCP, opened anew after the "
        "move", on=control_cell("M16", "R3"),
        fails=[_SHAKEN, _DATA, _HAVE_CONNECTION, _JOINED, _CONTINUED]),
    fault_injection.NO_JOIN: Fault(
        "the home agent accepts no further subflow, and the mobile node opens another MPTCP "
        "connection after the move", on=control_cell("M16", "R3"),
        fails=[_HAVE_CONNECTION, _JOINED, _CONTINUED]),
    "keys-anew": Fault(
        "a station that moves has no cached key", policy=change_layer("link", roaming=None),
        on=control_cell("M8-okc", "E1"), fails=["goes on with cached keys"]),
    "no-fils": Fault(
        "a station that moves authenticates in full in place of FILS",
        policy=change_layer("link", roaming=None), on=control_cell("M9", "E1"),
        fails=[_NEGOTIATED, _OFFERED, "FILS with cached keys"]),
    "passphrase-for-sae": Fault(
        "the station of a mixed network uses the passphrase's handshake in place of SAE",
        policy=change_layer("link", keys="psk", accepted=None), on=control_cell(_MIXED),
        fails=[_NEGOTIATED, "SAE exchange", "SAE group"]),
    "wpa3-only": Fault(
        "the access point of a mixed network offers SAE alone",
        policy=change_layer("link", offered=None), on=control_cell(_MIXED), fails=[_OFFERED]),
    "mixed-without-pmf": Fault(
        "an access point that offers WPA2 and WPA3 has no protected management frames",
        policy=_without_pmf, on=control_cell(_MIXED),
        fails=["management frames are protected", _AGREED]),
    "sha1-for-sha256": Fault(
        "the station of a mixed enterprise network uses key management with SHA-1",
        policy=change_layer("link", akm=None, accepted=None), on=control_cell(_TWO_HASHES),
        fails=[_NEGOTIATED, _OPENED]),
    "ccmp-to-all": Fault(
        "frames to all have the cipher of the others", policy=change_layer("link",
                                                                           group_cipher=None),
        on=control_cell(_GROUP),
        fails=["CCMP on every data frame", "group cipher negotiated", _LENGTHS]),
    "one-passphrase": Fault(
        "all devices have one passphrase", policy=change_layer("link", passphrases=None),
        on=control_cell(_DEVICES), fails=["passphrase is the device's own", _LENGTHS, _OPENED]),
    "other-vlan": Fault(
        "the RADIUS server puts the station into another VLAN",
        policy=change_layer("link", vlan=30), on=control_cell(_VLAN),
        fails=["VLAN from the RADIUS server", _TAGGED, _BRIDGED, _APART]),
    "vlan-ignored": Fault(
        "the access point ignores the VLAN that the RADIUS server says",
        {"gateway.vlans": "ignored"}, on=control_cell(_VLAN), fails=[_TAGGED, _BRIDGED, _APART]),
    "no-passphrase-vlan": Fault(
        "no VLAN belongs to the device's passphrase", policy=change_layer("link", vlan=None),
        on=control_cell(_VLAN_PSK), fails=[_TAGGED, _BRIDGED, _APART]),
    "newer-station": Fault(
        "the older station of a mixed network protects its management frames",
        policy=change_layer("link", station_pmf=1), on=control_cell(_MIXED_PSK),
        fails=["station without protected management frames"]),
    attacks.DOWNGRADE: Fault(
        "an attack: an evil twin that offers WPA2 alone to a station with both key managements",
        on=control_cell(_MIXED), fails=["passphrase is not guessed after a downgrade"]),
    attacks.FORGED: Fault(
        "an attack: one frame in the access point's name that ends the association",
        # The node joins again during the streams, where no capture has a whole handshake.
        on=control_cell("M2"), fails=["association survives a forged deauthentication", _OPENED]),
    attacks.GUESSING: Fault(
        "an attack: words are tried on the recorded handshake, the right one among them",
        on=control_cell("M2"), fails=["passphrase is not guessed from the handshake"]),
    attacks.REPLAY: Fault(
        "an attack: a frame of the mobile node is replayed without its key",
        on=control_cell("P2"), fails=["replayed frame is dropped"]),
    attacks.TWIN: Fault(
        "an attack: an evil twin with the network's name, but without its secrets",
        on=control_cell("M1"), fails=["evil twin cannot read traffic"]),
    "no-ht": Fault(
        "the access point offers no 802.11n", policy=_configure_radio(ieee80211n="0"),
        on=control_cell("M2"), sets={"medium": "802.11n-ht20"},
        fails=["association uses HT", _LIMITS]),
    "no-vht": Fault(
        "the access point offers no 802.11ac, and 802.11n in its place",
        policy=_configure_radio(ieee80211ac="0"), on=control_cell("M2"),
        sets={"medium": "802.11ac"}, fails=["association uses VHT", _LIMITS]),
    "no-he": Fault(
        "the access point offers no 802.11ax, and 802.11ac in its place",
        policy=_configure_radio(ieee80211ax="0"), on=control_cell("M2"),
        sets={"medium": "802.11ax"}, fails=["association uses HE", _LIMITS]),
    "smaller-wire-cipher": Fault(
        "MACsec with keys of 128 bits in place of 256", policy=change_layer(
            "wire", macsec="GCM-AES-128"), on=control_cell(_WIRE_256), fails=[_IN_WIRES_KERNELS]),
    "lower-band": Fault(
        "access point and station use 5 GHz in place of 6 GHz", policy=_use_5_ghz,
        on=control_cell("M3"), sets={"medium": "802.11ax-6ghz"},
        fails=["association uses HE", _LIMITS, "frames are in the 6 GHz band"]),
    "narrow-channel": Fault(
        "the access point offers 802.11ac in 40 MHz",
        policy=_configure_radio(vht_oper_chwidth="0", vht_oper_centr_freq_seg0_idx="0"),
        on=control_cell("M2"),
        sets={"medium": "802.11ac"}, fails=["association uses VHT"]),
    "other-windows": Fault(
        "the access point announces smaller windows than those of the air",
        policy=_configure_radio(wmm_ac_be_cwmin="2"), on=control_cell("M2"),
        sets={"medium": "802.11n-ht20"}, fails=[_LIMITS]),
    "frames-alone": Fault(
        "the air sends every frame alone", on=control_cell("M2"),
        sets={"medium": "802.11n-ht20"}, fails=["frames are aggregated"]),
    "smaller-keys": Fault(
        "certificates of P-256, under key management that allows them", policy=_use_keys("p-256"),
        on=control_cell("M6"), fails=[_NEGOTIATED, _OFFERED, "TLS suite",
                                      "TLS certificate keys", _OPENED, _LENGTHS, *_PACKETS]),
    "smaller-rsa-keys": Fault(
        "certificates of RSA-2048, under key management that allows them",
        policy=_use_keys("rsa-2048"), on=control_cell(_RSA_192),
        fails=[_NEGOTIATED, _OFFERED, "TLS suite", "TLS certificate keys", _OPENED, _LENGTHS,
               *_PACKETS]),
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


# --- Wrong secrets and missing daemons, and further removed protections ---

_AES256, _PSK = "examples/ikev2-aes256.yml", "M2"

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
    **{name: Fault(f"{words} has expired", {f"{end}.certificate": kind}, on=control_cell("M5"))
       for name, end, kind, words in (
           ("expired-certificate", "station", "expired",
            "a reported fault: the mobile node's certificate"),
           ("expired-server-certificate", "gateway", "expired",
            "a reported fault: the RADIUS server's certificate"),
           ("expired-intermediate", "gateway", "issuer-expired",
            "a reported fault: an intermediate certificate of the RADIUS server's chain"),
           ("expired-station-intermediate", "station", "issuer-expired",
            "an intermediate certificate of the mobile node's chain"))},
    "revoked-certificate": Fault(
        "the mobile node's certificate is revoked",
        {"station.certificate": "revoked"}, on=control_cell(_LISTED)),
    "short-rsa-keys": Fault(
        "the RADIUS server has a certificate of RSA-2048 in the 192-bit suite",
        policy=change_layer("dot1x", tls=TlsSettings(key="rsa-2048")), on=control_cell(_RSA_192)),
    "responder-down": Fault("the OCSP responder does not run", withhold=["ocsp"],
                            on=control_cell(_ASKED)),
    "tls-1.3-alone": Fault(
        "a reported fault: the mobile node offers TLS 1.3 alone to a server of PEAP without it",
        policy=change_layer("dot1x", options=DaemonOptions.model_construct(
            hostapd={}, wpa_supplicant={
                "phase1": "tls_disable_tlsv1_3=0 tls_disable_tlsv1_2=1"})),
        on=control_cell("M4")),
    fault_injection.FRAGMENTS: Fault(
        "a reported fault: IP fragments of RADIUS are dropped on their way",
        on=control_cell("M5")),
    "no-r1-keys": Fault(
        "a reported fault: access points know none that has keys for fast transition with SAE",
        policy=_configure_radio(
            pmk_r1_push="0", r0kh=f"02:00:00:00:00:99 nobody {_ANOTHER_KEY * 2}"),
        on=control_cell("M7", "E1")),
    fault_injection.STALE_CHANNEL: Fault(
        "a station that moves over the DS states the channel that it leaves",
        policy=change_layer("link", ft_over_ds=1), on=control_cell("M7", "E1")),
    "wrong-ike-secret": Fault(
        "the mobile node has another pre-shared key for IKE than the gateway",
        {"station.ike_secret": ""}, on=control_cell(_IKE_SECRET)),
    "wrong-ike-password": Fault(
        "the mobile node has another password for IKE than the gateway",
        {"station.ike_secret": ""}, on=control_cell(_IKE_PASSWORD)),
    "radius-down": Fault("the RADIUS server does not run", withhold=["freeradius"],
                         on=control_cell("P8")),
    "no-advertisement": Fault("no router advertises an IPv6 prefix", withhold=["dnsmasq"],
                              on=control_cell("P1", _OVER_IPV6)),
}
_SEVERAL = {"authentications": "4"}
_EARLIER = "{} (earlier authentications)"
UNPROTECTED: Mapping[str, Fault] = {
    "second-in-clear": Fault(
        "the second of several authentications builds no IPsec tunnel, and its packets pass in "
        "clear", on=control_cell("P3"), sets=_SEVERAL,
        fails=[_EARLIER.format(name) for name in (
            "ISAKMP packets", "IKE proposal", "ESP transforms in the kernel",
            "no clear inner packet")]),
    fault_injection.FEWER: Fault(
        "one authentication less takes place than requested", on=control_cell("P3"),
        sets=_SEVERAL,
        fails=["authentications"]),
    fault_injection.LEFT_OVER: Fault(
        "an IPsec SA is left when authentications begin", on=control_cell("P3"), sets=_SEVERAL,
        fails=["each authentication starts without earlier state"]),
    fault_injection.LOSSY: Fault(
        "the capture on the wire is stopped during the streams, and has a tiny buffer",
        on=control_cell("P1"), fails=["captures are complete"]),
    fault_injection.LEAVES: Fault(
        "the other mobile node leaves after all streams", on=control_cell("P1", "N3"),
        fails=["station is associated"]),
    fault_injection.DENIED: Fault(
        "the home agent denies every registration by its code, and carries it out",
        on=control_cell("P1", "R1"),
        fails=["registered at home", "registered with the foreign agent"]),
    fault_injection.UNTUNNELLED: Fault(
        "packets of the mobile node that visits cross between the agents without a tunnel",
        on=control_cell("P1", "R1"), fails=["IP-in-IP between the agents"]),
    "no-wep": policy_factors.make_wep_fault("neither end has WEP", control_cell("P2")),
    "static-keys": Fault(
        "WEP keys are static, not EAP's", policy=change_layer("link", keys="static"),
        on=control_cell("P8"),
        fails=["keys delivered by EAPOL-Key", _LENGTHS, _OPENED]),
    "no-802.1x": Fault(
        "the access point admits every station", policy=remove_layer("dot1x"),
        on=control_cell("P6"),
        fails=["EAP method TLS", "EAP-Success", "mutual authentication", *_PACKETS,
               "port is closed before", "only EAPOL before EAP-Success", "port is open after"]),
    "other-eap": Fault(
        "EAP-MD5 in place of EAP-TLS", policy=change_layer("dot1x", eap="MD5"),
        on=control_cell("P6"),
        fails=["EAP method TLS", "mutual authentication", *_PACKETS]),
    "unasked-method": Fault(
        "EAP-TLS in place of EAP-MD5", policy=change_layer("dot1x", eap="TLS"),
        on=control_cell("P5"),
        fails=["EAP method MD5", *_PACKETS]),
    "weaker-cipher": Fault(
        "TKIP in place of CCMP", policy=change_layer("link", cipher="TKIP"), on=control_cell(_PSK),
        fails=["CCMP on every data frame", "initialisation vectors differ",
               "pairwise cipher negotiated", "key management offered", _LENGTHS,
               _OPENED]),
    "longer-header": Fault(
        "frames have a header for quality of service, which the air does not charge",
        policy=_configure_radio(wmm_enabled="1"),
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
               "protection of management frames negotiated", _IN_RADIUS]),
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
        "one frame with the Protected bit is not encrypted", on=control_cell("P8"),
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
    "one-proposal": Fault(
        "the mobile node offers the proposal that both ends agree on, and no other",
        policy=change_layer("ipsec", ike_offered=None), on=control_cell(_LISTS),
        fails=["IKE proposals offered"]),
    "other-preference": Fault(
        "the gateway prefers another one of the proposals that the mobile node offers",
        policy=change_layer("ipsec", ike_accepted=[
            "aes256-sha256-modp3072", "aes128-sha256-modp2048", "aes128-sha256-ecp256"]),
        on=control_cell(_LISTS), fails=["IKE proposal"]),
    "other-esp-preference": Fault(
        "the gateway prefers another one of the ESP proposals that the mobile node offers",
        policy=change_layer("ipsec", esp_accepted=["aes128-sha256", "aes128gcm16", "aes256gcm16"]),
        on=control_cell(_ESP_LISTS), fails=["ESP transforms in the kernel"]),
    "other-esp-offer": Fault(
        "the mobile node does not offer the ESP proposal that both ends are to agree on",
        policy=change_layer("ipsec", esp_offered=["chacha20poly1305", "aes128gcm16"]),
        on=control_cell(_ESP_LISTS), fails=["ESP transforms in the kernel"]),
    "fewer-ike-proposals": Fault(
        "the gateway accepts no IKE proposal that the mobile node offers, except the agreed one",
        policy=change_layer("ipsec", ike_accepted=None), on=control_cell(_LISTS),
        fails=[_FURTHER_PROPOSALS]),
    "fewer-esp-offers": Fault(
        "the mobile node offers no ESP proposal after the one that both ends agree on",
        policy=change_layer("ipsec", esp_offered=["chacha20poly1305", "aes256gcm16"]),
        on=control_cell(_ESP_LISTS), fails=[_FURTHER_PROPOSALS]),
    "fewer-esp-proposals": Fault(
        "the gateway accepts no ESP proposal before the one that both ends agree on",
        policy=change_layer("ipsec", esp_accepted=["aes256gcm16", "aes128gcm16"]),
        on=control_cell(_ESP_LISTS), fails=[_FURTHER_PROPOSALS]),
    "no-forward-secrecy": Fault(
        "new keys of ESP come from IKE's keys, without an exchange in a group",
        policy=change_layer("ipsec", esp_proposal="aes256gcm16"), on=control_cell(_FORWARD),
        fails=[CHECKS[ESP_GROUP]]),
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
    fault_injection.NEAR_SERVER: Fault(
        "the RADIUS server is near, where the scenario has it far away",
        on=control_cell("M4", "campus-80ms"), fails=["RADIUS server has its delay"]),
    radius.FIRST_SERVER_RUNS: Fault(
        "the first RADIUS server runs, where the scenario has it down",
        on=control_cell("M4", _FAILOVER),
        fails=["RADIUS server has its delay", "second RADIUS server takes over"]),
    fault_injection.STEADY_SERVER: Fault(
        "the delay of the RADIUS server's wire does not vary",
        on=control_cell("M4", "examples/scenarios/campus-jitter.yml"),
        fails=["RADIUS server has its jitter"]),
    fault_injection.EQUAL_RATES: Fault(
        "both directions of a wire have one rate", on=control_cell("P1", _ASYMMETRIC),
        fails=["wires have a rate for each direction"]),
    fault_injection.SINGLE_LOSSES: Fault(
        "a wire loses each packet by itself, and none in bursts",
        on=control_cell("P1", _BURSTS), fails=["wires lose packets in bursts"]),
    fault_injection.STATIC_ADDRESS: Fault(
        "the mobile node takes its address, and asks no DHCP server",
        withhold=["udhcpc"], on=control_cell("P1", "campus-0ms"), fails=["address by DHCP"]),
    fault_injection.STATIC_IPV6: Fault(
        "the mobile node takes its IPv6 address without a router advertisement",
        on=control_cell("P1", _OVER_IPV6), fails=["address by SLAAC"]),
    fault_injection.OVER_IPV4: Fault(
        "the streams are IPv4 packets, where the scenario has IPv6",
        on=control_cell("P1", _OVER_IPV6), fails=["traffic goes over IPv6"]),
    fault_injection.UNVERIFIED: Fault(
        "authenticators of Mobile IP are not verified", {"mobile_ip.node_key_hex": ""},
        on=control_cell("P1"), fails=["registration is authentic"]),
    fault_injection.UNREGISTERED: Fault(
        "mobile nodes claim to be registered, but send no request", on=control_cell("P1"),
        fails=["registered at home", "registration is authentic"]),
}
FAULTS: Mapping[str, Fault] = {**SPOILT, **UNPROTECTED, **TODAYS}
