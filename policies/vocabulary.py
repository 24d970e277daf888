"""Translate words of daemons, standards and products to the fields of a policy.

A policy has one word for each thing. `find_meaning` takes a field and a word, such as
WPA-EAP-SHA256. It returns the fields that this word stands for, such as `link.keys: eap` and
`link.akm: sha256`, or None. `find_proposal` translates IPsec proposals. `KEY_NAMES` has other names
of keys, `LAYER_NAMES` those of layers. `policies/drafts.py` corrects policy files with them, and
`policies/conversion/` reads configuration files with the tables of key managements and ciphers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic_core import PydanticCustomError

from policies.eap_methods import METHODS, TUNNELS
from policies.errors import suggest_word
from policies.fields import check_realm, check_server_name
from policies.link import Cipher, KeyManagement
from policies.options import Daemon, is_secret, load_options
from policies.proposals import AEADS, CIPHERS, GROUPS, INTEGRITY, KEMS, PRFS

#: Fields by their dotted names, such as `link.keys`, with their values.
Fields = Mapping[str, Any]

_SEPARATORS = re.compile(r"[\s._/+=-]")


def fold_word(word: object) -> str:
    """Return a word in a form without case, blanks and separators, to compare words."""
    return _SEPARATORS.sub("", str(word).casefold())


def fold_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table whose keys are words without case and separators.

    A key of the table may hold several words.
    """
    return {fold_word(word): value for words, value in table.items() for word in words.split()}


# --- Reasons why a setting has no place in a policy ---

FROM_SCENARIO = "comes from the scenario"
FROM_MEDIUM = "comes from the medium"
CREDENTIAL = "a secret or credential: qop makes its own"
NOT_MEASURED = "not measured here"
SERVER_NAME = ("dot1x.tls.server_name is the RADIUS server's DNS name, and server_domain the end "
               "of it")
#: Reasons why MACsec has less here than in other programs.
NO_XPN = "wpa_supplicant has no suite with XPN"
NO_CAK_FROM_EAP = "a key (CAK) from EAP is not measured here, all wires have one of the run"
ISOLATED = "frames between stations pass their agent here"
#: Why a policy has no certificate that is not valid, by the word for it.
_NO_FAULTS = ("policies have valid certificates of one authority, and 'run --fault' others "
              "('./qop studies --faults' lists them)")
CERTIFICATE_STATES: Mapping[str, str] = {
    "revoked": "tls.revocation: crl or ocsp has the server refuse such certificates",
    **dict.fromkeys((
        "expired", "outofdate", "outdated", "notyetvalid", "selfsigned", "untrusted", "unknownca",
        "wrongca", "invalid", "rogue"), _NO_FAULTS)}
#: Prefix of a reason among other names of keys: the key is left out for it.
LEFT_OUT = "!"

#: Reasons of daemon options, by who sets them in a policy's place (daemon_options.yml).
_OWNERS = {"topology": FROM_SCENARIO, "phy": FROM_MEDIUM, "secret": CREDENTIAL}


def find_option_reason(daemon: Daemon, name: str) -> str:
    """Return why no policy may set a daemon option, "" if a policy may set it.

    The reason names the field of a policy with an equal effect, if there is one.
    """
    table = load_options()
    group = table.find_group(daemon, name)
    if is_secret(daemon, name):
        return CREDENTIAL
    if group.set_by:
        return _OWNERS.get(group.set_by) or table.owners[group.set_by].replace("; ", ": ")
    return group.no_effect


# --- Key managements and ciphers as hostapd and wpa_supplicant write them ---

_SUITE_B = {"link.cipher": "GCMP-256", "link.keys": "eap", "link.akm": "suite-b-192",
            "link.group_mgmt": "BIP-GMAC-256", "link.pmf": 2}
#: Key managements that can be measured, in the order in which wpa_supplicant 2.10 prefers them.
KEY_MANAGEMENTS: Mapping[str, Fields] = {
    "WPA-EAP-SUITE-B-192": _SUITE_B,
    "FILS-SHA256": {"link.keys": "eap", "link.roaming": "fils"},
    "FT-EAP-SHA384": {**_SUITE_B, "link.roaming": "ft"},
    "FT-EAP": {"link.keys": "eap", "link.roaming": "ft"},
    "FT-SAE": {"link.keys": "sae", "link.roaming": "ft"},
    "SAE": {"link.keys": "sae"},
    "FT-PSK": {"link.keys": "psk", "link.roaming": "ft"},
    "WPA-EAP-SHA256": {"link.keys": "eap", "link.akm": "sha256"},
    "WPA-PSK-SHA256": {"link.keys": "psk", "link.akm": "sha256"},
    "WPA-EAP": {"link.keys": "eap"},
    "WPA-PSK": {"link.keys": "psk"},
    "OWE": {"link.keys": "owe"},
}
#: Key managements that cannot be measured, with the nearest one, or None.
OTHER_KEY_MANAGEMENTS: Mapping[str, str | None] = {
    "WPA-EAP-SUITE-B": "WPA-EAP-SHA256", "FILS-SHA384": "FILS-SHA256",
    "FT-FILS-SHA256": "FILS-SHA256", "FT-FILS-SHA384": "FILS-SHA256", "SAE-EXT-KEY": "SAE",
    "FT-SAE-EXT-KEY": "FT-SAE", "WPA-EAP-SHA384": "WPA-EAP-SHA256", "DPP": None, "OSEN": None,
    "WPA-NONE": None, "WPS": None, "CCKM": None, "PASN": None}
#: Words for key managements that one access point offers together, by folded words.
MIXED_WORDS: Mapping[str, str] = {
    **{fold_word(name): name for name in get_args(KeyManagement)},
    **{word: name for name, words in {
        "WPA-PSK": "psk wpa2 wpa2psk wpa2personal", "SAE": "wpa3 wpa3sae wpa3psk wpa3personal",
        "WPA-PSK-SHA256": "psksha256", "WPA-EAP": "eap wpa2eap wpa2enterprise",
        "WPA-EAP-SHA256": "eapsha256 wpa3eap wpa3enterprise"}.items() for word in words.split()}}
#: Pairwise ciphers in the order in which stations prefer them.
PAIRWISE_CIPHERS: tuple[str, ...] = ("CCMP-256", "GCMP-256", "CCMP", "GCMP", "TKIP")

# --- Names of products and standards for the protection of a network ---

_WPA2_PSK = {"link.cipher": "CCMP", "link.keys": "psk"}
#: Passphrases by device, which products call private, multiple, dynamic or identity PSK.
_BY_DEVICE = {"link.keys": "psk", "link.passphrases": "by-device"}
_WPA3_SAE = {"link.cipher": "CCMP", "link.keys": "sae", "link.pmf": 2}
_WPA2_EAP = {"link.cipher": "CCMP", "link.keys": "eap"}
#: Names for all that protects the air, by folded words.
SECURITY: Mapping[str, Fields] = fold_keys({
    "wep-128 wep-104": {"link.cipher": "WEP-104", "link.keys": "static"},
    "wep-64 wep-40": {"link.cipher": "WEP-40", "link.keys": "static"},
    "wpa-personal wpa1 wpa-psk-tkip": {"link.cipher": "TKIP", "link.keys": "psk"},
    "wpa-psk passphrase psk": {"link.keys": "psk"},
    "ppsk mpsk dpsk ipsk epsk upsk private-psk multi-psk dynamic-psk identity-psk per-device-psk "
    "psk-per-device wpa-ppsk wpa-mpsk wpa-dpsk wpa-ipsk private-pre-shared-key": _BY_DEVICE,
    "wpa2-ppsk wpa2-mpsk wpa2-dpsk wpa2-ipsk": {"link.cipher": "CCMP", **_BY_DEVICE},
    "wpa2-psk wpa2-personal psk2 rsn-psk wpa2-psk-aes wpa2-psk-ccmp wpa2-aes wpa2-ccmp wpa2":
        _WPA2_PSK,
    "wpa3 sae wpa3-sae wpa3-personal wpa3-psk psk3 wpa3-sae-aes wpa3-personal-sae": _WPA3_SAE,
    "wpa3-personal-h2e sae-h2e": {**_WPA3_SAE, "link.sae": "h2e"},
    "sae-pk wpa3-sae-pk": {**_WPA3_SAE, "link.sae": "pk"},
    "wpa2-enterprise wpa2-eap wpa-enterprise wpa-eap enterprise 802.1x dot1x wpa2-802.1x eap "
    "rsn-eap wpa2-radius radius ieee8021x wpa2-enterprise-aes": _WPA2_EAP,
    "wpa3-enterprise wpa3-eap wpa3-802.1x": {**_WPA2_EAP, "link.akm": "sha256", "link.pmf": 2},
    "suite-b suite-b-192 cnsa wpa3-192 wpa3-enterprise-192 wpa3-enterprise-192-bit wpa3-cnsa "
    "wpa3-enterprise-cnsa 192-bit wpa3-192-bit": _SUITE_B,
    "owe enhanced-open opportunistic-wireless-encryption wpa3-owe":
        {"link.cipher": "CCMP", "link.keys": "owe", "link.pmf": 2},
})
#: Words for a network that takes stations with SAE, and others with a passphrase.
TRANSITION = frozenset(map(fold_word, (
    "wpa2/wpa3", "wpa2-wpa3", "wpa3-transition", "wpa2-wpa3-transition", "sae-mixed", "psk-sae",
    "psk3-mixed", "wpa2/wpa3-personal", "wpa2/wpa3-mixed", "wpa3/wpa2", "transition", "mixed",
    "wpa2-psk/wpa3-sae", "wpa2-wpa3-personal-transition", "wpa2+wpa3", "wpa3-personal-transition")))
#: Words for a network without protection, and for a layer that is off.
OFF_WORDS = frozenset(("none", "open", "off", "no", "null", "nosecurity", "opensystem", "disabled",
                       "unencrypted", "nopass", "false"))

# --- Words for the values of single fields ---

_YES, _NO = ("1", "yes", "true", "on", "enabled", "enable"), ("0", "no", "false", "off", "disabled",
                                                              "disable", "none")


def _make_words(field: str, table: Mapping[Any, str]) -> dict[str, Fields]:
    """Return a table of words, each with the value of the field that it means."""
    return {fold_word(word): {field: value} for value, words in table.items()
            for word in (*words.split(), str(value))}


def _make_switch(field: str, on: Any = 1, off: Any = 0) -> dict[str, Fields]:
    return {**{word: {field: on} for word in _YES},
            **{word: {field: off} if off is not None else {} for word in _NO}}


_AKMS = {fold_word(name): fields for name, fields in KEY_MANAGEMENTS.items()}
_EAP_WORDS: dict[str, Fields] = {
    **{fold_word(f"{prefix}{name}"): {"dot1x.eap": name} for name in METHODS
       for prefix in ("", "eap-", "eap")},
    **{str(method.eap_type): {"dot1x.eap": name} for name, method in METHODS.items()},
    **{fold_word(f"{prefix}{name}-{eap}{inner}"): {"dot1x.eap": name, "dot1x.inner": inner}
       for name, within in TUNNELS.items() for inner in within for eap in ("", "eap-")
       for prefix in ("", "eap-")},
    **fold_keys({
        "peapv1-gtc peap1-gtc peapv1-eap-gtc": {"dot1x.eap": "PEAP", "dot1x.inner": "GTC"},
        "peapv0-mschapv2 peap0-mschapv2 peapv0 peap-v0 ms-peap microsoft-peap "
        "peapv0-eap-mschapv2 peap0 peap-eap-mschapv2 "
        "eap-peapv0": {"dot1x.eap": "PEAP", "dot1x.inner": "MSCHAPV2"},
        "md5-challenge eap-md5-challenge": {"dot1x.eap": "MD5"},
        "aka-prime eap-aka-prime": {"dot1x.eap": "AKA'"},
        "certificate certificates cert eap-tls-1.2 tls-1.2 tlsv1.2": {"dot1x.eap": "TLS"},
        "eap-tls-1.3 tls-1.3 tlsv1.3 eap-tlsv1.3":
            {"dot1x.eap": "TLS", "dot1x.tls.version": "1.3"},
    })}
#: Words for kinds of keys.
_KEY_WORDS = {
    "rsa-1024": "1024", "rsa-2048": "2048 rsa rsa-2k", "rsa-3072": "3072 rsa-3k",
    "rsa-4096": "4096 rsa-4k", "p-256": "ecdsa ec ecc secp256r1 "
    "prime256v1 ec-256 ecdsa-256 ecdsa-p256 nistp256", "p-384": "secp384r1 ec-384 ecdsa-384 "
    "ecdsa-p384 nistp384", "ml-dsa-44": "mldsa44 mldsa-44 dilithium2",
    "ml-dsa-65": "mldsa65 mldsa-65 mldsa dilithium dilithium3",
    "ml-dsa-87": "mldsa87 mldsa-87 dilithium5",
}
#: Fields that words of other programs stand for, by the field that they are written in.
VALUE_WORDS: Mapping[str, Mapping[str, Fields]] = {
    "link.cipher": {
        **SECURITY, **_make_words("link.cipher", {
            **dict.fromkeys(get_args(Cipher), ""),
            "CCMP": "aes aes-ccmp aes-ccm ccm ccmp-128 aes-128 aes-128-ccmp aes-ccmp-128",
            "GCMP": "aes-gcmp gcmp-128 aes-gcmp-128 aes-128-gcmp gcm",
            "CCMP-256": "aes-ccmp-256 aes-256-ccmp", "TKIP": "wpa-tkip rc4-tkip",
            "GCMP-256": "aes-gcmp-256 gcm-256 aes-256-gcmp aes-gcm-256",
            "WEP-104": "wep-128", "WEP-40": "wep-64"})},
    "link.keys": {**SECURITY, **_AKMS, **_make_words("link.keys", {
        "static": "wep none-wep configured", "eap": "8021x ieee8021x", "psk": "wpa2-psk",
        "sae": "dragonfly", "owe": "oowe"})},
    "link.akm": {
        **_AKMS, **{word: fields for word, fields in SECURITY.items() if fields == _SUITE_B},
        "192": _SUITE_B, "suiteb192bit": _SUITE_B,
        **_make_words("link.akm", {"sha1": "sha-1 sha", "sha256": "sha-256 sha2 sha2-256"})},
    **{field: _make_words(field, {
        0: "off disabled disable no false none never", 2: "required mandatory require must forced "
        "force strict", 1: "optional capable enabled enable yes true on supported allowed "
        "mfpc desired"}) for field in ("link.pmf", "link.station_pmf")},
    "link.sae": {**_make_words("link.sae", {
        "h2e": "hash-to-element hash2element hash-to-curve yes true on 1",
        "loop": "hunting-and-pecking hnp hunt-and-peck hunting no false off 0"}),
        **{word: {"link.options": {"hostapd": {"sae_pwe": 2}, "wpa_supplicant": {"sae_pwe": 2}}}
           for word in ("both", "2", "hnph2e", "looph2e")}},
    "link.group": _make_words("link.group", {
        19: "p-256 nistp256 ecp256 secp256r1 prime256v1 group19", 20: "p-384 nistp384 ecp384 "
        "secp384r1 group20", 21: "p-521 nistp521 ecp521 secp521r1 group21"}),
    "link.group_cipher": _make_words("link.group_cipher", {
        "TKIP": "wpa-tkip rc4-tkip", "CCMP": "aes aes-ccmp ccmp-128 aes-ccmp-128"}),
    "link.group_mgmt": _make_words("link.group_mgmt", {
        "BIP-CMAC-128": "bip cmac bip-cmac aes-128-cmac cmac-128 aes-cmac",
        "BIP-GMAC-256": "gmac-256 aes-256-gmac bip-gmac256"}),
    "link.roaming": {
        **_make_words("link.roaming", {
            "ft": "802.11r 11r ieee80211r fast-transition fast-roaming fast-bss-transition fbt "
            "push ft-push 802.11r-ft ft-psk ft-eap ft-sae",
            "ft-pull": "pull 802.11r-pull", "fils": "802.11ai 11ai fils-sha256",
            "okc": "pkc opportunistic-key-caching proactive-key-caching opportunistic",
            "pmksa": "pmk-caching pmksa-caching pmkid cached sticky"}),
        **_make_switch("link.roaming", on="ft", off=None)},
    "link.passphrases": {**_make_words("link.passphrases", {
        "by-device": "per-device device devices private multi multiple individual per-user "
        "per-station by-station per-client by-mac per-mac mac unique each ppsk mpsk dpsk ipsk"}),
        **_make_switch("link.passphrases", on="by-device", off=None)},
    "link.ft_over_ds": _make_switch("link.ft_over_ds", off=None),
    "link.owe_transition": _make_switch("link.owe_transition"),
    "link.neighbor_report": _make_switch("link.neighbor_report"),
    "link.bss_transition": _make_switch("link.bss_transition"),
    "link.beacon_protection": _make_switch("link.beacon_protection"),
    **{field: {word: {field: name} for word, name in MIXED_WORDS.items()}
       for field in ("link.offered", "link.accepted")},
    "link.ocv": _make_switch("link.ocv"),
    "dot1x.eap": _EAP_WORDS,
    "dot1x.first_offer": {word: {"dot1x.first_offer": fields["dot1x.eap"]}
                          for word, fields in _EAP_WORDS.items()},
    "dot1x.inner": _make_words("dot1x.inner", {
        "MSCHAPV2": "mschap-v2 mschap2 eap-mschapv2 ms-chap-v2 auth=mschapv2 autheap=mschapv2 "
        "tunneled-mschapv2 auth=mschap-v2",
        "PAP": "auth=pap tunneled-pap eap-pap",
        "CHAP": "auth=chap tunneled-chap", "MSCHAP": "auth=mschap ms-chap tunneled-mschap",
        "GTC": "eap-gtc auth=gtc autheap=gtc",
        "TLS": "eap-tls auth=tls autheap=tls certificate certificates smartcard"}),
    "dot1x.identity": {**_make_words("dot1x.identity", {
        "anonymous": "anon hidden private outer yes true on 1",
        "clear": "real user username cleartext plain no false off 0"})},
    "dot1x.transport": _make_words("dot1x.transport", {
        "radsec": "tls radius-tls radius-over-tls rad-sec radius/tls yes true on",
        "udp": "radius radius/udp radius-udp no false off"}),
    "dot1x.accounting": _make_switch("dot1x.accounting"),
    "dot1x.message_authenticator": _make_switch("dot1x.message_authenticator", on="required",
                                                off=None),
    "dot1x.tls.version": _make_words("dot1x.tls.version", {
        "1.3": "tls-1.3 tlsv1.3 13 tls13", "1.2": "tls-1.2 tlsv1.2 12 tls12"}),
    **{field: _make_words(field, _KEY_WORDS) for field in ("dot1x.tls.key",
                                                          "dot1x.tls.station_key")},
    "dot1x.tls.group": _make_words("dot1x.tls.group", {
        "x25519": "curve25519 25519", "p-256": "secp256r1 prime256v1 ecp256 nistp256",
        "mlkem768": "ml-kem-768 ml-kem mlkem", "mlkem1024": "ml-kem-1024",
        "secp256r1mlkem768": "secp256r1-mlkem768 p256mlkem768 p256-mlkem768",
        "secp384r1mlkem1024": "secp384r1-mlkem1024 p384mlkem1024 p384-mlkem1024",
        "x25519mlkem768": "x25519-mlkem768 x25519-ml-kem-768 x25519kyber768"}),
    "dot1x.tls.sessions": _make_words("dot1x.tls.sessions", {
        "resumed": "resume resumption yes true on 1 cached tickets fast-reconnect",
        "full": "no false off 0"}),
    "dot1x.tls.revocation": _make_words("dot1x.tls.revocation", {
        "crl": "check-crl crls revocation-list", "ocsp": "ocsp-check ocsp-responder rfc6960"}),
    "ipsec.ike": _make_words("ipsec.ike", {2: "ikev2 v2 ike-v2 ike2", 1: "ikev1 v1 ike-v1 ike1"}),
    "ipsec.authentication": _make_words("ipsec.authentication", {
        "pubkey": "rsa rsasig public-key pubkeys raw-key raw-rsa rsa-key pub-key",
        "certificate": "cert certs certificates x509 x.509",
        "psk": "pre-shared-key preshared-key secret shared-secret preshared",
        "eap-tls": "eap", "eap-mschapv2": "mschapv2 mschap-v2 eap-mschap-v2 mschap"}),
    "ipsec.mode": _make_words("ipsec.mode", {"tunnel": "tunnel-mode", "transport":
                                             "transport-mode"}),
    "ipsec.mobike": _make_switch("ipsec.mobike"),
    "wireguard.authentication": _make_words("wireguard.authentication", {
        "pubkey": "public-key keys curve25519"}),
    "wireguard.roams": _make_switch("wireguard.roams"),
    "wireguard.preshared_key": _make_switch("wireguard.preshared_key"),
    "quic.authentication": _make_words("quic.authentication", {"token": "bearer bearer-token"}),
    "quic.on_move": _make_words("quic.on_move", {
        "migrate": "migration connection-migration yes true on", "reconnect": "reconnection "
        "new-connection no false off"}),
    "wire.macsec": {**_make_words("wire.macsec", {
        "GCM-AES-128": "gcm aes-128 aes-gcm-128 gcm-128 aes-128-gcm gcmp-128 802.1ae macsec "
        "macsec-128 yes true on enabled 1",
        "GCM-AES-256": "macsec-256 gcm-256 aes-256 aes-gcm-256 aes-256-gcm gcmp-256"})},
    "wire.encrypts": _make_switch("wire.encrypts"),
}
#: Words that other programs have and no policy can say, with what is measured in their place.
NOT_HERE: Mapping[str, Mapping[str, str]] = {
    "ipsec.authentication": fold_keys({
        "xauth ecdsa": "pubkey", "eap-radius eap-md5 eap-ttls eap-peap": "eap-tls"}),
    "wire.macsec": fold_keys({
        "gcm-aes-xpn-128 gcm-aes-128-xpn xpn": "GCM-AES-128",
        "gcm-aes-xpn-256 gcm-aes-256-xpn": "GCM-AES-256"}),
}
#: Why nothing else is measured, by the field.
WHY_NOT_HERE: Mapping[str, str] = {"wire.macsec": NO_XPN}
#: Fields in seconds, in which other programs write a unit.
_SECONDS = ("ipsec.dpd", "ipsec.keepalive", "wireguard.keepalive")
#: The name of a server, perhaps by its kind or in a distinguished name, or the names in a domain.
_SERVER_NAME = re.compile(r"(?:dns:|.*\bcn=)?(\*?\.)?([^*.][^*;,/= ]*)")
_QUANTITY = re.compile(r"(0|[1-9]\d{0,8}) ?(b|bytes?|octets?)?", re.IGNORECASE)
_TIME = re.compile(r"(\d{1,6}) ?(s|secs?|seconds?|m|min|minutes?|h|hours?)?", re.IGNORECASE)

#: EAP methods that are not measured, with the one that has the most similar tunnel.
NEAREST_EAP: Mapping[str, str] = {
    **dict.fromkeys(("teap", "eapteap", "fast", "eapfast"), "PEAP"),
    **dict.fromkeys(("sim", "eapsim"), "AKA")}
#: The same, where nothing is measured in their place.
NOTHING_LIKE_IT: Mapping[str, frozenset[str]] = {
    "dot1x.eap": frozenset((
        "teap", "fast", "eapfast", "eapteap", "leap", "eapleap", "sim", "eapsim", "gtc", "eapgtc",
        "otp", "ikev2", "psk", "gpsk", "pax", "sake", "eke", "noob", "mschapv2", "eapmschapv2")),
    "dot1x.inner": frozenset(("md5", "otp")),
}


def find_mixture(words: Sequence[str]) -> Fields | None:
    """Return the fields of a network that offers several key managements.

    The station uses the one that wpa_supplicant prefers. None is returned if a word has no meaning,
    or if one access point cannot offer all of them here.
    """
    meant = [MIXED_WORDS.get(fold_word(word)) for word in words]
    names = [name for name in KEY_MANAGEMENTS if name in meant]
    if None in meant or len(names) < 2 or len({"EAP" in name for name in names}) > 1:
        return None
    best = KEY_MANAGEMENTS[names[0]]
    has_sae = {"SAE", "FT-SAE"} & {*names}
    if any(name.startswith("FT-") for name in names) and "link.roaming" not in best:
        return None
    return {**best, "link.offered": names, **({"link.pmf": 1} if has_sae else {})}


def find_meaning(field: str, word: object) -> Fields | None:
    """Return the fields of a policy that a word means in the place of a field, or None.

    Args:
        field: Dotted name of the field, such as `link.cipher`.
        word: The word, number or boolean that is written there.
    """
    if field in ("ipsec.ike_proposal", "ipsec.esp_proposal"):
        proposal = find_proposal(str(word), is_ike=field == "ipsec.ike_proposal")
        return None if proposal is None else {field: proposal}
    if field in _SECONDS:
        return None if (seconds := read_seconds(str(word))) is None else {field: seconds}
    found = VALUE_WORDS.get(field, {}).get(fold_word(word))
    if found is None and field == "dot1x.identity" and _says_nobody(str(word)):
        realm = find_realm(str(word))
        return {"dot1x.identity": "anonymous", **({"dot1x.tls.realm": realm} if realm else {})}
    if found is None and field in ("dot1x.tls.server_name", "dot1x.tls.server_domain"):
        return find_server_name(field, str(word))
    return found


def find_server_name(field: str, word: str) -> Fields | None:
    """Return the field that has the name of a server as other programs write it, or None.

    They write `DNS:radius.example.org` (altsubject_match), `/CN=radius.example.org`
    (subject_match), and `*.example.org` or `.example.org` for names in a domain.

    Args:
        field: The field if the word does not say whether it is a name or a domain.
        word: The word.
    """
    found = _SERVER_NAME.fullmatch(word.strip("\"' ").casefold())
    if found is None:
        return None
    try:
        return {"dot1x.tls.server_domain" if found[1] else field: check_server_name(found[2])}
    except PydanticCustomError:
        return None


def find_realm(identity: str) -> str | None:
    """Return the realm behind an identity such as `anonymous@example.org`, None without one."""
    realm = identity.strip("\"' ").rpartition("@")[2] if "@" in identity else ""
    try:
        return check_realm(realm)
    except PydanticCustomError:
        return None


def read_seconds(text: str) -> int | None:
    """Return the seconds of a time such as `30s` or `2m`, None if the text is no time."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    return int(found[1]) * {"m": 60, "h": 3600}.get((found[2] or "s")[0].lower(), 1)


def read_quantity(text: str) -> int | None:
    """Return the whole number in a text such as `1380` or `1380 bytes`, None without one."""
    found = _QUANTITY.fullmatch(text.strip())
    return None if found is None else int(found[1])


def _says_nobody(identity: str) -> bool:
    """Return whether an outer identity is anonymous, such as `@example.org`."""
    user, at, _ = identity.strip("\"'").casefold().partition("@")
    return user.startswith("anon") or (bool(at) and not user)


# --- Other names of keys and of layers ---

_SITE_KEYS = (
    "ssid ssid2 utf8-ssid bssid interface interfaces iface ifname driver bridge channel chanlist "
    "freq frequency freq-list scan-freq band bands hw-mode hwmode htmode country country-code "
    "tx-power txpower network device devices nas-id "
    "nas-identifier nasid own-ip-addr auth-server auth-server-addr auth-server-port radius-server "
    "radius-servers radius-ip radius-host radius-port server servers server-ip host address "
    "addresses ip dhcp dhcp4 dhcp6 dns gateway location vendor model controller ap aps macaddr mac "
    "access-point site left right local-addrs remote-addrs local-ts remote-ts leftsubnet "
    "rightsubnet leftid rightid endpoint allowed-ips listen-port peer peers mobility-domain "
    "ap-scan priority disabled enabled autoconnect auto-connect renderer optional wds "
    "radio max-num-sta maxassoc radius-failover")
_MEDIUM_KEYS = (
    "ieee80211n ieee80211ac ieee80211ax wmm wmm-enabled qos width channel-width "
    "bandwidth beacon-int dtim-period preamble "
    "basic-rates supported-rates")
_CREDENTIAL_KEYS = (
    "key passphrase wpa-passphrase password sae-password wpa-psk secret shared-secret "
    "radius-secret auth-secret auth-server-shared-secret preshared-key pre-shared-key private-key "
    "public-key private-key-passwd private-key-password client-cert client-certificate client-key "
    "ca-cert ca-certificate ca-certs ca ca-path server-cert server-key wep-key wep-key0 wep-key1 "
    "imsi milenage sim-pin pin wep-key2 wep-key3 cak mka-cak ckn mka-ckn user username login "
    "leftcert rightcert certs cert id-file eap-id xauth-id r0kh r1kh raw-psk")
_UNMEASURED_KEYS = (
    "post-up post-down pre-up pre-down save-config dpd-action dpd-timeout "
    "rekey rekey-time reauth-time life-time lifetime ike-lifetime encap fragmentation start-action "
    "close-action ieee80211be uapsd validate wps-state wps rate-limit band-steering mac-filter")
#: Reasons of keys that are no field of the layer they stand in, by keys.
_OTHER_REASONS = {
    "persistent-keepalive": "it is keepalive of layers.wireguard",
    "keepalive keep-alive": "it is keepalive of layers.wireguard or layers.ipsec",
    "mtu": "it is mtu of layers.wireguard, and mtu_bytes of a scenario's links",
    "dpd dpd-delay": "it is dpd of layers.ipsec",
    "acct-server acct-server-addr accounting-server": "it is accounting of layers.dot1x",
    "acct-server-port": "qop has its own, and accounting of layers.dot1x has access points use it",
    "replay-window window": "it is replay_window of layers.wire",
    "replay-protect": "MACsec always protects from repeated frames here",
    "xpn": NO_XPN,
    "cipher-group macsec-csindex csindex": "it follows from macsec, the cipher suite",
    "crl ocsp check-crl revocation": "it is revocation of layers.dot1x.tls",
    "vlan vlan-id vlanid vlans": "it is vlan of layers.link",
    "realm": "it is realm of layers.dot1x.tls",
    "domain-match server-name subject-match altsubject-match": "it is server_name of "
    "layers.dot1x.tls",
    "domain-suffix-match server-domain server-domain-mask": "it is server_domain of "
    "layers.dot1x.tls",
    "isolate ap-isolate isolation client-isolation": ISOLATED,
    "cipher-suites ciphersuites tls-ciphers tls-cipher-suites": "they follow from version and key "
    "of layers.dot1x.tls",
    "auth-algs": "open system authentication is measured here",
    "eap-server": "the authentication server is a node of its own, and layers.aaa its program",
    "logger-syslog logger-stdout ctrl-interface": "the harness sets it",
    "eapol-version": "it is hostapd's option eapol_version",
    "scan-ssid": "a hidden network has hostapd's option ignore_broadcast_ssid",
    "bgscan": "a scenario's roaming has it",
}
_COMMON_KEYS = {
    **dict.fromkeys(map(fold_word, _SITE_KEYS.split()), LEFT_OUT + FROM_SCENARIO),
    **dict.fromkeys(map(fold_word, _MEDIUM_KEYS.split()), LEFT_OUT + FROM_MEDIUM),
    **dict.fromkeys(map(fold_word, _UNMEASURED_KEYS.split()), LEFT_OUT + NOT_MEASURED),
    **{word: LEFT_OUT + reason for word, reason in fold_keys(_OTHER_REASONS).items()},
    **dict.fromkeys(map(fold_word, _CREDENTIAL_KEYS.split()), LEFT_OUT + CREDENTIAL)}
_LINK_KEYS = fold_keys({
    "pairwise rsn-pairwise wpa-pairwise pairwise-cipher ciphers encryption-cipher "
    "pairwise-ciphers wpa-cipher algorithm algo": "link.cipher",
    "key-mgmt key-management wpa-key-mgmt authentication auth auth-type auth-mode security "
    "security-type security-mode encryption protection wpa-mode mode type akms akm-suites "
    "key-source authentication-types authentication-type method wpa-encryption": "link.keys",
    "client-pmf sta-pmf client-mfp sta-mfp station-mfp client-ieee80211w": "link.station_pmf",
    "ap-pmf ap-mfp management-protection ieee80211w 802.11w 11w mfp "
    "management-frame-protection protected-management-frames "
    "pmf-required": "link.pmf",
    "ieee80211r 802.11r 11r ft fast-transition fast-roaming fast-bss-transition roam handover "
    "handoff fbt": "link.roaming",
    "ft-over-ds over-ds fast-roaming-over-ds 802.11r-over-ds": "link.ft_over_ds",
    "ieee80211k 802.11k 11k rrm rrm-neighbor-report neighbor-reports neighbour-report "
    "neighbour-reports radio-resource-measurement": "link.neighbor_report",
    "ieee80211v 802.11v 11v wnm btm bss-tm bss-transition-management": "link.bss_transition",
    "sae-pwe pwe h2e sae-h2e": "link.sae",
    "sae-groups sae-group owe-groups owe-group dh-group groups": "link.group",
    "anti-clogging-threshold sae-anti-clogging sae-anti-clogging-threshold sae-token-threshold":
        "link.anti_clogging",
    "group-mgmt-cipher group-management group-mgmt-ciphers": "link.group_mgmt",
    "beacon-prot": "link.beacon_protection",
    "group-cipher group-data-cipher": "link.group_cipher",
    "vlan vlan-id vlanid vlans": "link.vlan",
    "ppsk mpsk dpsk ipsk private-psk private-psks multi-psk dynamic-psk per-device-passphrase "
    "per-device-psk psk-per-device": "link.passphrases",
    "other-vlans more-vlans extra-vlans additional-vlans further-vlan": "link.further_vlans",
    "owe-transition-mode": "link.owe_transition",
    "dynamic-vlan vlan-assignment": LEFT_OUT + "it follows from vlan, the number of the VLAN",
    "group": LEFT_OUT + "it is group_cipher, if frames to all have another cipher",
    "wpa wpa-version proto protocol version rsn": LEFT_OUT + "it follows from cipher and keys",
})
_DOT1X_KEYS = fold_keys({
    "methods allowed-methods eap eap-method eap-type eap-methods method outer outer-method "
    "outer-auth outer-authentication eap-outer type authentication auth": "dot1x.eap",
    "eap-ttls-phase2-method eap-peap-phase2-method phase2 phase2-auth phase2-autheap "
    "phase2-method inner-auth inner-method inner-authentication "
    "phase-2 innerauth inner-eap auth-inner tunneled tunnelled": "dot1x.inner",
    "anonymous-identity outer-identity anonymous anonymous-id eap-identity": "dot1x.identity",
    "radsec radius-transport radius-protocol radius-tls": "dot1x.transport",
    "tls-version tls-min-version tls-max-version": "dot1x.tls.version",
    "certificate-key key-type cert-key certificate-type key-size certificate certificates cert "
    "certs": "dot1x.tls.key",
    "chain-length certificate-chain": "dot1x.tls.chain",
    "resumption session-resumption fast-reauth fast-reconnect tls-resumption": "dot1x.tls.sessions",
    "fragment-size fragment mtu-eap eap-fragment-size framed-mtu": "dot1x.tls.fragment_bytes",
    "revocation revocation-check crl ocsp check-crl": "dot1x.tls.revocation",
    "realm": "dot1x.tls.realm",
    "domain-match server-name radius-name radius-server-name server-cn cn-match subject-match "
    "altsubject-match altsubject-matches server-id eap-ttls-serverdomainmask "
    "eap-peap-serverdomainmask eap-tls-serverdomainmask": "dot1x.tls.server_name",
    "domain-suffix-match domain server-domain server-domain-mask": "dot1x.tls.server_domain",
    "vlan vlan-id vlanid vlans": "link.vlan",
    "dynamic-vlan vlan-assignment": LEFT_OUT + "it follows from vlan of layers.link",
    "message-authenticator-required require-message-authenticator "
    "radius-require-message-authenticator": "dot1x.message_authenticator",
    "acct radius-accounting": "dot1x.accounting",
    "phase1": LEFT_OUT + "tls.version has its versions of TLS, and wpa_supplicant's option phase1 "
    "the rest",
})
_IPSEC_KEYS = fold_keys({
    "ike-version ikev version keyexchange key-exchange ike": "ipsec.ike",
    "proposals ike-proposals ike-proposal proposal ike-suite ike-ciphers ike-algorithms":
        "ipsec.ike_proposal",
    "esp-proposals esp esp-suite child-proposals esp-ciphers phase2alg esp-algorithms":
        "ipsec.esp_proposal",
    "auth authby auth-by leftauth rightauth auth-method authentication-method local-auth "
    "remote-auth": "ipsec.authentication",
    "type": "ipsec.mode",
    "dpd-delay dead-peer-detection dpd-interval": "ipsec.dpd",
    "keep-alive nat-keepalive natt-keepalive keepalive-interval persistent-keepalive":
        "ipsec.keepalive",
})
_WIREGUARD_KEYS = fold_keys({
    "type protocol kind": LEFT_OUT + "the name of the layer says it",
    "roaming roam": "wireguard.roams", "auth": "wireguard.authentication",
    "mtu": "wireguard.mtu",
    "keepalive persistent-keepalive keepalive-interval persistent-keepalive-interval":
        "wireguard.keepalive",
    "preshared psk pre-shared pre-shared-key preshared-key has-preshared-key":
        "wireguard.preshared_key"})
_QUIC_KEYS = fold_keys({"auth": "quic.authentication",
                        "migration move mobility handoff on-handoff": "quic.on_move"})
_WIRE_KEYS = fold_keys({"cipher cipher-suite suite ciphersuite macsec-cipher": "wire.macsec",
                        "encrypt encryption confidentiality": "wire.encrypts",
                        "window replay-window macsec-replay-window": "wire.replay_window",
                        "macsec-replay-protect": LEFT_OUT + _OTHER_REASONS["replay-protect"]})
#: Other names of keys, by layer: the field, or a reason to leave the key out after LEFT_OUT.
KEY_NAMES: Mapping[str, Mapping[str, str]] = {
    "link": {**_COMMON_KEYS, **_LINK_KEYS},
    "dot1x": {**_COMMON_KEYS, **_DOT1X_KEYS},
    "ipsec": {**_COMMON_KEYS, **_IPSEC_KEYS},
    "wireguard": {**_COMMON_KEYS, **_WIREGUARD_KEYS},
    "quic": {**_COMMON_KEYS, **_QUIC_KEYS},
    "mptcp": _COMMON_KEYS,
    "wire": {**_COMMON_KEYS, **_WIRE_KEYS},
}
#: Other names of the layers.
LAYER_NAMES: Mapping[str, str] = fold_keys({
    "wifi wlan air wireless 802.11 radio wpa wpa2 wpa3 wi-fi wlan0 ieee80211 link-layer layer2 l2 "
    "phy": "link",
    "802.1x eap radius ieee8021x enterprise dot-1x port auth": "dot1x",
    "ike ikev2 ikev1 vpn strongswan swanctl esp charon ip-sec tunnel libreswan": "ipsec",
    "wg wg-quick wire-guard wg0": "wireguard",
    "masque connect-ip http3 http/3": "quic",
    "multipath-tcp multipath mp-tcp": "mptcp",
    "macsec 802.1ae wired mka ieee8021ae": "wire",
})


# --- Proposals of IKE and ESP ---

_TOKEN_ALIASES = {
    "aes": "aes128", "aes128cbc": "aes128", "aes192cbc": "aes192", "aes256cbc": "aes256",
    "aescbc128": "aes128", "aescbc256": "aes256", "aes128gcm": "aes128gcm16",
    "aes256gcm": "aes256gcm16", "aes128gcm128": "aes128gcm16", "aes256gcm128": "aes256gcm16",
    "aesgcm128": "aes128gcm16", "aesgcm256": "aes256gcm16", "aesgcm": "aes128gcm16",
    "chacha20poly1305compat": "chacha20poly1305",
    "chachapoly": "chacha20poly1305", "tripledes": "3des", "des3": "3des",
    "sha": "sha1", "sha2": "sha256", "hmacsha1": "sha1", "hmacsha256": "sha256",
    "sha2256": "sha256", "sha2384": "sha384", "sha2512": "sha512", "hmacmd5": "md5",
    "x25519": "curve25519", "nistp256": "ecp256", "nistp384": "ecp384",
    "nistp521": "ecp521", "p256": "ecp256",
    "p384": "ecp384", "p521": "ecp521", "secp521r1": "ecp521",
    "secp256r1": "ecp256", "secp384r1": "ecp384", "dh2": "modp1024",
    **{f"{prefix}{number}": name for prefix in ("group", "dh", "")
       for number, name in (("2", "modp1024"), ("5", "modp1536"), ("14", "modp2048"),
                            ("15", "modp3072"), ("16", "modp4096"), ("19", "ecp256"),
                            ("20", "ecp384"), ("21", "ecp521"), ("31", "curve25519"))},
    "kyber3": "mlkem768", "ke1mlkem768": "ke1_mlkem768", "ke1kyber3": "ke1_mlkem768",
}
#: Keywords that say nothing about what is measured: without extended sequence numbers.
_IDLE_TOKENS = frozenset(("noesn",))
_KINDS: Sequence[tuple[str, Sequence[str]]] = (
    ("encryption", (*CIPHERS, *AEADS)), ("integrity", INTEGRITY), ("prf", PRFS),
    ("group", (*GROUPS, *KEMS)), ("additional", tuple(f"ke1_{name}" for name in KEMS)))


def find_token(token: str) -> str | None:
    """Return strongSwan's keyword for a part of a proposal, None if qop lacks the algorithm."""
    folded = fold_word(token)
    known = {fold_word(name): name for _, names in _KINDS for name in names}
    return known.get(folded) or known.get(fold_word(_TOKEN_ALIASES.get(folded, "?")))


def find_proposal(text: str, *, is_ike: bool, skips_unknown: bool = False) -> str | None:
    """Return one proposal in qop's keywords, None if one of its parts is not there.

    A proposal with several algorithms of a kind stands for its first one of each kind.

    Args:
        text: The proposal as strongSwan or a user writes it, without commas.
        is_ike: Whether it is IKE's, not ESP's.
        skips_unknown: Whether an algorithm that qop lacks is skipped where the proposal has
            another one of its kind.
    """
    parts = split_proposal(text, skips_unknown=skips_unknown)
    if parts is None or "encryption" not in parts:
        return None
    joined = [parts["encryption"]]
    prf = parts.get("prf") or f"prf{parts.get('integrity', '')}"
    if parts["encryption"] not in AEADS:
        if "integrity" not in parts or (is_ike and prf != f"prf{parts['integrity']}"):
            return None
        joined.append(parts["integrity"])
    elif is_ike:
        if prf not in PRFS:
            return None
        joined.append(prf)
    if is_ike and "group" not in parts:
        return None
    # ESP's keys come of IKE's; an exchange of its own has one group.
    joined += [parts[kind] for kind in (("group", "additional") if is_ike else ("group",))
               if kind in parts]
    return "-".join(joined)


def find_nearest_proposal(text: str, *, is_ike: bool) -> str | None:
    """Return a proposal with the algorithms of another one that qop has, and usual ones else.

    None is returned if the text names no algorithm.
    """
    known = {kind: token for word in text.strip().rstrip("!").split("-")
             for kind, names in reversed(_KINDS)
             if (token := find_token(word) or suggest_word(word, names)) in names}
    if not known:
        return None
    # The largest group of the same kind, in place of a larger one.
    group = "modp4096" if "modp" in text.casefold() else "ecp384"
    has_group = is_ike or "group" in known or bool(re.search(r"modp|ecp|curve|x448", text))
    encryption = known.get("encryption") or "aes256"
    words = [encryption, known.get("integrity") or "sha256",
             *([known["prf"]] if "prf" in known and encryption in AEADS else []),
             *([known.get("group", group)] if has_group else [])]
    return find_proposal("-".join(map(str, words)), is_ike=is_ike)


def split_proposal(text: str, *, skips_unknown: bool = False) -> dict[str, str] | None:
    """Return the first algorithm of each kind in a proposal, None if one is not known.

    With `skips_unknown`, unknown algorithms are left out if the proposal has a known one of their
    kind.
    """
    parts: dict[str, str] = {}
    lacking: set[str] = set()
    for word in text.strip().rstrip("!").split("-"):
        token = find_token(word)
        if token is not None:
            kind = next(kind for kind, names in _KINDS if token in names)
            parts.setdefault(kind, token)
        elif fold_word(word) not in _IDLE_TOKENS:
            lacking.add(_guess_kind(word))
    return parts if not lacking or (skips_unknown and lacking <= {*parts, "serial"}) else None


def _guess_kind(token: str) -> str:
    """Return the kind of an algorithm that qop lacks, by strongSwan's keywords."""
    patterns = {"additional": r"ke\d", "prf": "prf", "serial": "esn",
                "group": "modp|ecp|curve|x448|ntru|mlkem|newhope",
                "integrity": "sha|md5|aesxcbc|aescmac|aes.*gmac"}
    return next((kind for kind, pattern in patterns.items()
                 if re.match(pattern, token.casefold())), "encryption")


def unknown_tokens(text: str) -> Sequence[str]:
    """Return the parts of a proposal that qop does not have."""
    return [word for word in text.strip().rstrip("!").split("-")
            if fold_word(word) not in _IDLE_TOKENS and find_token(word) is None]
