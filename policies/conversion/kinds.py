"""Recognise the kind of a configuration file from which a policy can be made.

`find_kind` takes the text and the name of a file. It returns a name in `KINDS`, such as hostapd or
wpa_supplicant, or None. `find_other` names a program whose files cannot be converted. The command
`qop policy` and the policy reader use it, the latter for a message about a wrong file.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of configuration file, such as hostapd.conf."""

    #: Word for it on the command line.
    name: str
    #: Words for it in a message.
    title: str
    #: Names of files of this kind.
    file_names: re.Pattern[str]


#: Kinds by their names, in the order of help texts.
KINDS = {kind.name: kind for kind in (
    Kind("hostapd", "a hostapd.conf", re.compile(r"hostapd.*\.conf")),
    Kind("wpa_supplicant", "a wpa_supplicant.conf",
         re.compile(r"wpa_supplicant.*\.conf|wpas?\.conf")),
    Kind("openwrt", "OpenWrt's /etc/config/wireless", re.compile(r"wireless(\.uci)?")),
    Kind("networkmanager", "a profile of NetworkManager", re.compile(r".*\.nmconnection")),
    Kind("iwd", "a profile of iwd", re.compile(r".*\.(psk|8021x|open)")),
    Kind("swanctl", "a swanctl.conf", re.compile(r"swanctl.*\.conf")),
    Kind("wireguard", "a file of wg-quick", re.compile(r"wg[-\w]*\.conf")),
)}

_FLAGS = re.MULTILINE | re.IGNORECASE
#: What a file of a kind has, and no file of a kind that stands above it.
_CONTENT: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("openwrt", re.compile(r"^[ \t]*config[ \t]+['\"]?wifi-(iface|device|station|vlan)\b"
                           r"|^wireless\.[^=\s]+=", _FLAGS)),
    ("wpa_supplicant", re.compile(r"^[ \t]*(network|cred)[ \t]*=[ \t]*\{", _FLAGS)),
    ("swanctl", re.compile(r"^[ \t]*(connections|secrets|authorities|pools)\s*\{"
                           r"|^[ \t]*(remote_addrs|esp_proposals|remote_ts)[ \t]*=", _FLAGS)),
    ("wireguard", re.compile(r"^[ \t]*\[(Interface|Peer)\]", _FLAGS)),
    ("networkmanager", re.compile(
        r"^[ \t]*\[(connection|wifi|802-11-wireless|wifi-security|802-11-wireless-security|802-1x|"
        r"wireguard|wireguard-peer\.[^\]]*|macsec)\]", re.MULTILINE)),
    ("iwd", re.compile(r"^[ \t]*\[(Security|Settings)\]", re.MULTILINE)),
    ("hostapd", re.compile(r"^[ \t]*(interface|bss|ssid2?|wpa|wpa_key_mgmt|wpa_passphrase|"
                           r"rsn_pairwise|ieee8021x|hw_mode|auth_algs|ieee80211w)[ \t]*=", _FLAGS)),
)
#: Files of other programs and formats that people may try, by what each has.
_OTHERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ipsec.conf's old format (write a swanctl.conf)",
     re.compile(r"^(conn|ca)[ \t]+\S+[ \t]*$", _FLAGS)),
    ("systemd-networkd's (write a wg-quick file)",
     re.compile(r"^\[(NetDev|Match|WireGuard)\]", _FLAGS)),
    ("XML (Windows, eduroam CAT or Apple)", re.compile(r"\A\s*<(\?xml|!DOCTYPE|WLANProfile|plist)",
                                                       _FLAGS)),
    ("JSON", re.compile(r"\A\s*[{\[]\s*[\"{\]}]", _FLAGS)),
    ("OpenVPN's", re.compile(r"^(client|dev tun\d*|remote \S+ \d+)[ \t]*$", _FLAGS)),
    ("FreeRADIUS'", re.compile(r"^[ \t]*(eap|modules|authorize|default_eap_type)\s*[{=]", _FLAGS)),
    ("YAML (netplan's, or a policy: ./qop run --policy FILE says what is wrong)",
     re.compile(r"^(network|wifis|layers|id|name|extends):", _FLAGS)),
)


def find_kind(text: str, file_name: str = "") -> str | None:
    """Return the name of a file's kind by its content and name, or None."""
    for name, pattern in _CONTENT:
        if pattern.search(text):
            return name
    if not _has_settings(text):  # an open network's profile of iwd may be empty
        return "iwd" if KINDS["iwd"].file_names.fullmatch(file_name) else None
    if find_other(text):
        return None
    return next((name for name, kind in KINDS.items() if kind.file_names.fullmatch(file_name)),
                None)


def find_other(text: str) -> str | None:
    """Return which program's format a text has, if qop cannot read that format. None if unknown."""
    return next((name for name, pattern in _OTHERS if pattern.search(text)), None)


def _has_settings(text: str) -> bool:
    """Return whether a configuration file has more than comments and blank lines."""
    return any(line.strip() and line.strip()[0] not in "#;" for line in text.splitlines())
