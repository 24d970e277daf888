"""List the words of drafts that no field of a policy is named like, and split their values.

A draft is a policy file in the words of other programs. The tables have names of keys whose value
decides what they mean, such as `okc: 1`, in the form of `vocabulary.fold_word`. `list_proposals`
returns the IPsec proposals in a value. `policies.draft_reader` reads drafts with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from policies.vocabulary import SECURITY, Fields, find_meaning, fold_word

#: Fields of which a network has one here; several words have a message of their own.
ONE_OF_A_NETWORK = ("link.keys", "link.cipher", "link.group", "link.akm")
#: Fields with a proposal. Lists of several are fields of their own.
PROPOSALS = ("ipsec.ike_proposal", "ipsec.esp_proposal")
#: Fields with a list, and the field for which a word in the list may be written elsewhere.
LISTS: Mapping[str, str] = {
    "link.offered": "link.offered", "link.accepted": "link.accepted",
    "link.station_groups": "link.group", "link.access_point_groups": "link.group",
    "link.further_vlans": "link.vlan",
    **{f"ipsec.{kind}_{end}": f"ipsec.{kind}_proposal" for kind in ("ike", "esp")
       for end in ("offered", "accepted")}}
#: Keys that a proposal is written of, part by part.
PROPOSAL_PARTS = {"encryption": "encryption", "cipher": "encryption", "enc": "encryption",
                  "integrity": "integrity", "hash": "integrity", "authalg": "integrity",
                  "prf": "prf", "dh": "group", "dhgroup": "group", "group": "group",
                  "pfs": "pfs", "pfsgroup": "pfs", "kex": "group", "keyexchangegroup": "group"}
#: Names of a network's protection that people write as switches.
NAMED_SECURITY: Mapping[str, Fields] = {word: SECURITY[word] for word in (
    "wpa2", "wpa3", "wpa3sae", "wpa2psk", "wpa2enterprise", "wpa3enterprise", "wpa3personal", "owe",
    "enhancedopen", "suiteb192")}
#: Keys that switch a way of roaming on.
ROAMING_SWITCHES = {"okc": "okc", "proactivekeycaching": "okc", "pkc": "okc", "pmksa": "pmksa",
                    "pmkcaching": "pmksa", "pmksacaching": "pmksa", "fils": "fils",
                    "80211ai": "fils"}
#: Ciphers of a network for stations with and without CCMP.
OLD_AND_NEW = ({"tkip", "ccmp"}, {"tkip", "aes"})
HIDDEN = ("hidden", "hiddenssid", "ignorebroadcastssid", "hidessid")
#: Keys for fast transition through the new access point itself, the opposite of ft_over_ds.
OVER_AIR = ("ftoverair", "ftovertheair", "overair", "overtheair", "fastroamingoverair",
            "80211roverair")
#: Standards for roams, with their fields.
HINTS: Mapping[str, Fields] = {
    **{word: {"link.roaming": "ft"} for word in ("80211r", "11r", "ft", "r")},
    **{word: {"link.neighbor_report": 1} for word in ("80211k", "11k", "rrm", "k")},
    **{word: {"link.bss_transition": 1} for word in ("80211v", "11v", "btm", "v")}}
GROUP_REKEY = ("groupkeyupdate", "gtkrekeyinterval", "groupkeyinterval",
               "grouprekey", "groupkeyrekey", "groupkeyrenewal", "gtkrekey", "grouprekeytime")
#: Fields whose unknown value may be a secret, and is not shown.
MAYBE_SECRET = ("keys", "passphrases", "preshared_key")
PASSPHRASES = ("passphrase", "wpapassphrase", "wpapsk", "psk", "key", "password")
#: Keys with the time of a field, in a block of that field's name.
PERIODS = ("delay", "interval", "period", "seconds", "every")
#: Keys with the kind of a certificate's key, in a block about certificates.
KINDS_OF_KEYS = ("type", "kind", "key", "keytype", "algorithm", "curve", "size", "bits", "keysize")
PRESHARED_KEYS = ("presharedkey", "psk", "preshared", "secret")
#: Fields that say that both ends have a pre-shared key, by layer.
HAVING_PRESHARED_KEYS: Mapping[str, tuple[str, int | str]] = {
    "wireguard": ("preshared_key", 1), "ipsec": ("authentication", "psk")}
TRUE = ("1", "yes", "true", "on", "enabled", "2")
FALSE = ("0", "no", "false", "off", "disabled", "none")
#: Keys that name a way to check whether a certificate is revoked.
REVOCATIONS = {"ocsp": "ocsp", "checkocsp": "ocsp", "crl": "crl", "checkcrl": "crl",
               "crlcheck": "crl"}
#: Keys that say where MACsec's key (CAK) comes from, and values for EAP and for a configured key.
CAK_SOURCES = ("key", "keys", "cak", "mode", "keysource", "keymgmt", "keymanagement", "auth",
               "authentication")
CAK_FROM_EAP = ("eap", "8021x", "ieee8021x", "radius", "tls", "eaptls", "dynamic")
CAK_CONFIGURED = ("psk", "static", "cak", "presharedkey", "preshared", "mka", "mkapsk")
#: What MACsec does with frames, and whether it encrypts them.
WIRE_MODES = {**dict.fromkeys((
    "encrypt", "encrypted", "encryption", "confidentiality", "integrityandconfidentiality",
    "encryptandauthenticate", "gcmencrypt"), 1), **dict.fromkeys((
        "integrity", "integrityonly", "integonly", "authenticate", "authentication", "authonly",
        "authenticated", "noencrypt", "noencryption", "clear", "integritycheck"), 0)}
#: Other names of keys in dot1x.tls.
TLS_KEYS = frozenset((
    ("version", "versions"), ("version", "minversion"), ("version", "maxversion"),
    ("version", "protocol"),
    ("key", "keytype"), ("key", "certificate"), ("key", "keysize"), ("key", "cert"),
    ("group", "curve"), ("group", "curves"), ("group", "groups"), ("group", "ecdhcurve"),
    ("fragment_bytes", "fragmentsize"), ("fragment_bytes", "fragment"),
    ("sessions", "resumption"), ("sessions", "sessionresumption"), ("sessions", "cache"),
    *(("server_name", name) for name in (
        "domainmatch", "name", "cn", "servercn", "altsubjectmatch", "subjectmatch")),
    *(("server_domain", name) for name in ("domainsuffixmatch", "domain", "serverdomainmask")),
    ("revocation", "revocationcheck"), ("chain", "depth"), ("chain", "chainlength")))
#: Those names that mean TLS in dot1x, too.
PLAIN_TLS_KEYS = ("curve", "curves", "ecdhcurve", "resumption", "sessionresumption", "keytype",
                  "keysize")


def join_words(value: Any) -> str:
    """Return a word, or the words of a list, as one text."""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def find_all(name: str, words: Sequence[str]) -> list[Any]:
    """Return the values of a field that several words mean, none if one has no meaning."""
    meant = [(find_meaning(name, word) or {}).get(name) for word in words]
    return list(dict.fromkeys(meant)) if len(meant) > 1 and None not in meant else []


def list_proposals(value: Any) -> list[str]:
    """Return the proposals in a value: text, a list, or blocks with a key for each algorithm."""
    if isinstance(value, list):
        return [word for each in value for word in list_proposals(each)]
    if isinstance(value, dict):
        parts = {PROPOSAL_PARTS.get(fold_word(key), ""): join_words(each).split()
                 for key, each in value.items()}
        words = [parts[kind][0] for kind in ("encryption", "integrity", "prf", "group", "pfs")
                 if parts.get(kind)]
        return ["-".join(words)] if words else []
    return [word for word in re.split(r"[\s,;]+", str(value)) if word]
