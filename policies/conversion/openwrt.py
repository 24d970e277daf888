"""Make policies from OpenWrt's /etc/config/wireless.

`read_networks` takes the text of the file (`Source`), and returns a `Network` for each wifi-iface,
which can set the fields of a policy. OpenWrt converts an access point's interface to a
hostapd.conf, and a station's to a wpa_supplicant.conf. This module makes equal options, and lets
the modules of those files read them. `read_other_sections` returns the settings that get into no
policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from policies.conversion import syntax
from policies.conversion.hostapd import bss_filler, set_vlans
from policies.conversion.network import Network, decode_name
from policies.conversion.result import PolicyDraft, make_refusal
from policies.conversion.source import Setting, Source
from policies.conversion.syntax import UciSection
from policies.conversion.wifi import Option, Options, note_replaced
from policies.conversion.wpa_supplicant import network_filler
from policies.vocabulary import CREDENTIAL, FROM_SCENARIO, NOT_MEASURED

_WHOSE = "/etc/config/wireless"
#: hostapd's names for OpenWrt's; other options have hostapd's own name.
_ACCESS_POINT_NAMES = {
    "hidden": "ignore_broadcast_ssid", "isolate": "ap_isolate", "nasid": "nas_identifier",
    "ieee80211w_mgmt_cipher": "group_mgmt_cipher", "maxassoc": "max_num_sta",
    "ieee80211w_max_timeout": "assoc_sa_query_max_timeout",
    "ieee80211w_retry_timeout": "assoc_sa_query_retry_timeout",
    "auth_server": "auth_server_addr", "server": "auth_server_addr", "port": "auth_server_port",
    "auth_port": "auth_server_port", "auth_secret": "auth_server_shared_secret",
    "acct_server": "acct_server_addr", "acct_port": "acct_server_port",
    "acct_secret": "acct_server_shared_secret", "dae_client": "radius_das_client",
    "dae_port": "radius_das_port", "dae_secret": "radius_das_client", "ownip": "own_ip_addr",
    "wpa_pair_rekey": "wpa_ptk_rekey", "wpa_master_rekey": "wpa_gmk_rekey",
    "macfilter": "macaddr_acl", "maclist": "accept_mac_file", "macaddr": "bssid",
    "ieee80211k": "rrm_neighbor_report", "ieee80211v": "bss_transition",
    "acct_interval": "radius_acct_interim_interval", "auth_cache": "okc",
    "ppsk": "wpa_psk_radius", "sae_password_file": "sae_password",
}
#: wpa_supplicant's names for OpenWrt's.
_STATION_NAMES = {
    "eap_type": "eap", "auth": "phase2", "priv_key": "private_key", "priv_key2": "private_key2",
    "priv_key_pwd": "private_key_passwd", "priv_key2_pwd": "private_key2_passwd",
    "auth_secret": "password", "ca_cert_usesystem": "ca_path", "ca_cert2_usesystem": "ca_path2",
    "ieee80211w_mgmt_cipher": "group_mgmt", "macaddr": "bssid",
}
#: Options that name what stands around the network.
_SITE = ("device", "network", "ifname", "mode", "wds", "disabled")
#: Sections about devices of an interface: their passphrases, and VLANs for them.
_DEVICE_SECTIONS = ("wifi-station", "wifi-vlan")
_DEVICE_REASONS = {
    "key": CREDENTIAL, "mac": "link.passphrases is of WPA2 with a passphrase alone",
    "vid": "link.vlan and further_vlans are of 802.1X with dynamic_vlan, and of devices with a "
    "passphrase of their own"}
_SECRETS = ("key", "key1", "key2", "key3", "key4")
#: Options that OpenWrt takes in any word for yes, and hostapd as a number.
_SWITCHES = ("hidden", "isolate", "auth_cache", "ieee80211k", "ieee80211v", "bss_transition")
_TRUE = ("1", "yes", "on", "true", "enabled")


def read_networks(source: Source) -> list[Network]:
    """Return the interfaces (wifi-iface) in an OpenWrt file.

    Raises:
        PolicyError: The file has no such interface, or its syntax is broken.
    """
    sections = syntax.read_uci(source)
    devices = [section for section in sections if section.type in _DEVICE_SECTIONS]
    networks = [_make_network(section, [each for each in devices if _is_of(each, section)])
                for section in sections if section.type == "wifi-iface"]
    if not networks:
        raise source.make_error(1, "there is no section wifi-iface", "add config wifi-iface")
    return networks


def read_other_sections(source: Source) -> list[tuple[int, str, str]]:
    """Return the OpenWrt settings that belong to no wireless interface and get into no policy.

    Each has its line, its name, and the reason why it is left out.
    """
    notes: list[tuple[int, str, str]] = []
    for section in syntax.read_uci(source):
        if section.type == "wifi-device":
            notes += [(each.line, f"wifi-device {each.key}", "the radio comes from the scenario")
                      for each in section.settings]
        elif section.type in _DEVICE_SECTIONS:
            notes += [(each.line, f"{section.type} {each.key}",
                       _DEVICE_REASONS.get(each.key, FROM_SCENARIO))
                      for each in section.settings]
        elif section.type != "wifi-iface":
            notes += [(each.line, f"{section.type} {each.key}" if len(section.type) < 30 else
                       each.key, NOT_MEASURED) for each in section.settings]
    return notes


def _is_of(device: UciSection, interface: UciSection) -> bool:
    """Return whether a section about devices is of an interface, or of all of them."""
    names = [word for setting in device.settings if setting.key == "iface"
             for word in setting.value_words]
    return not names or interface.name in names


def _make_network(section: UciSection, devices: Sequence[UciSection]) -> Network:
    settings = {setting.key: setting for setting in section.settings}
    names = [decode_name(settings[key].value) for key in ("ssid", "mesh_id") if key in settings]
    names.append(section.name)
    if "device" in settings:
        names.append(f"{names[0]}@{decode_name(settings['device'].value)}")
    return Network(section.line, tuple(name for name in names if name), section.settings,
                   _interface_filler(section, settings, devices))


def _interface_filler(section: UciSection, settings: dict[str, Setting],
                      devices: Sequence[UciSection]) -> Callable[[PolicyDraft], None]:
    def fill_policy(draft: PolicyDraft) -> None:
        mode = settings["mode"].value.lower() if "mode" in settings else "ap"
        if mode not in ("ap", "ap-wds", "sta", "sta-wds"):
            raise make_refusal(draft.source, settings["mode"],
                               f"networks without an access point are {NOT_MEASURED}",
                               "choose another one")
        for setting in section.settings:
            if setting.key in _SITE:
                draft.leave_out(setting, FROM_SCENARIO)
        replaced = note_replaced(draft, [each for each in section.settings
                                         if each.key not in _SITE])
        counting = [each for each in section.settings if each not in replaced]
        if mode.startswith("ap"):
            options = Options([*_access_point_options(draft, counting, settings)])
            vlans = [each for device in devices if device.type == "wifi-vlan"
                     for each in device.settings if each.key == "vid" and each.value.isdecimal()]
            bss_filler(options, _WHOSE, vlans)(draft)
            _set_devices(draft, devices, vlans)
        else:
            options = Options([*_station_options(draft, counting, settings)])
            network_filler(options, section.line, _WHOSE)(draft)

    return fill_policy


def _set_devices(draft: PolicyDraft, devices: Sequence[UciSection],
                 vlans: Sequence[Setting]) -> None:
    """Set passphrases by device, and the VLANs of such devices."""
    if draft.find_value("link.keys") != "psk" or "link.offered" in draft.fields:
        return
    numbers: list[Setting] = []
    for section in devices:
        values = {setting.key: setting for setting in section.settings}
        if section.type != "wifi-station" or "mac" not in values:
            continue
        draft.set_field("link.passphrases", "by-device", values["mac"])
        number = values.get("vid")
        if number is not None and number.value.isdecimal():
            numbers.append(number)
        draft.take_over(*(values[key] for key in ("iface",) if key in values))
    if numbers:
        set_vlans(draft, numbers)
        used = {number.value for number in numbers}
        draft.take_over(*(each for each in vlans if each.value in used))


# --- OpenWrt's word for the protection of a network ---

def _split_encryption(draft: PolicyDraft, setting: Setting) -> tuple[str, str, list[str]]:
    """Return WPA version, key management and ciphers of OpenWrt's `option encryption`.

    The words are those of OpenWrt's netifd-wireless.sh.
    """
    base, _, suffix = setting.value.lower().replace("/", "+").partition("+")
    ciphers = {"tkip": ["TKIP"], "aes": ["CCMP"], "ccmp": ["CCMP"], "tkip+aes": ["CCMP", "TKIP"],
               "tkip+ccmp": ["CCMP", "TKIP"], "aes+tkip": ["CCMP", "TKIP"],
               "ccmp+tkip": ["CCMP", "TKIP"], "ccmp256": ["CCMP-256"], "gcmp": ["GCMP"],
               "gcmp256": ["GCMP-256"], "ccmp-256": ["CCMP-256"], "gcmp-256": ["GCMP-256"],
               "": ["GCMP-256"] if base.startswith("wpa3-192") else ["CCMP"]}.get(suffix)
    kinds = {
        "none": ("0", "NONE"), "open": ("0", "NONE"), "wep": ("0", "WEP"), "wep-open": ("0", "WEP"),
        "wep-shared": ("0", "WEP"), "wep-mixed": ("0", "WEP"), "8021x": ("0", "8021X"),
        "owe": ("2", "OWE"), "sae": ("2", "SAE"), "psk3": ("2", "SAE"), "wpa3": ("2", "EAP2"),
        "sae-mixed": ("2", "PSK-SAE"), "psk3-mixed": ("2", "PSK-SAE"),
        "wpa3-mixed": ("2", "EAP-EAP2"), "wpa3-192": ("2", "EAP192"), "psk2": ("2", "PSK"),
        "wpa2": ("2", "EAP"), "psk": ("1", "PSK"), "wpa": ("1", "EAP"),
        "psk-mixed": ("3", "PSK"), "wpa-mixed": ("3", "EAP"), "mixed-psk": ("3", "PSK"),
        "mixed-wpa": ("3", "EAP"), "wpa-psk2": ("2", "PSK"), "psk-psk2": ("3", "PSK")}
    if base not in kinds or ciphers is None:
        raise make_refusal(draft.source, setting, "this is no word of OpenWrt for encryption",
                           f"known are {', '.join(kinds)}, with +ccmp or another cipher behind")
    return *kinds[base], ciphers


#: Key managements of OpenWrt's kinds: always, and with 802.11r.
_MANAGEMENTS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "PSK": (("WPA-PSK",), ("FT-PSK",)), "SAE": (("SAE",), ("FT-SAE",)),
    "PSK-SAE": (("WPA-PSK", "SAE"), ("FT-PSK", "FT-SAE")), "OWE": (("OWE",), ()),
    "EAP": (("WPA-EAP",), ("FT-EAP",)), "EAP2": (("WPA-EAP-SHA256",), ("FT-EAP",)),
    "EAP-EAP2": (("WPA-EAP", "WPA-EAP-SHA256"), ("FT-EAP",)),
    "EAP192": (("WPA-EAP-SUITE-B-192",), ("FT-EAP-SHA384",)),
}
#: Key managements that OpenWrt's hostapd.sh adds with protected management frames.
_WITH_PMF = {"PSK": "WPA-PSK-SHA256", "PSK-SAE": "WPA-PSK-SHA256", "EAP": "WPA-EAP-SHA256"}
#: Protected management frames that OpenWrt sets without `option ieee80211w`.
_USUAL_PMF = {"SAE": "2", "OWE": "2", "EAP2": "2", "EAP192": "2", "PSK-SAE": "1", "EAP-EAP2": "1"}


def _protection_options(draft: PolicyDraft, settings: dict[str, Setting]) -> Iterator[Option]:
    """Yield the daemon options for OpenWrt's encryption, ieee80211w and ieee80211r."""
    encryption = settings.get("encryption")
    if encryption is None:
        return
    version, kind, ciphers = _split_encryption(draft, encryption)
    if kind in ("NONE", "WEP", "8021X"):
        for key, what in (("ieee80211r", "fast transition is"),
                          ("ieee80211w", "protected management frames are")):
            if key in settings and settings[key].value != "0":
                draft.leave_out(settings[key], f"{what} of WPA2 and WPA3")
            elif key in settings:
                draft.take_over(settings[key])
    if kind == "8021X":
        yield Option("ieee8021x", "1", encryption)
        yield Option("key_mgmt", "IEEE8021X", encryption)
        yield Option("wep_key_len_unicast", "13", encryption)
    elif kind in ("NONE", "WEP"):
        draft.take_over(encryption)
        yield from _wep_options(settings, encryption) if kind == "WEP" else ()
    else:
        yield from _rsn_options(draft, settings, version, kind, ciphers)


def _rsn_options(draft: PolicyDraft, settings: dict[str, Setting], version: str, kind: str,
                 ciphers: Sequence[str]) -> Iterator[Option]:
    """Yield the daemon options of WPA, WPA2 and WPA3 for an OpenWrt interface."""
    encryption, pmf, fast = (settings.get(key) for key in (
        "encryption", "ieee80211w", "ieee80211r"))
    assert encryption is not None
    words, roaming = _MANAGEMENTS[kind]
    if fast is not None and fast.value.lower() in _TRUE and roaming:
        words = (*words, *roaming)
        draft.take_over(fast)
    elif fast is not None and fast.value.lower() in _TRUE:
        draft.leave_out(fast, f"{kind} has no fast transition")
    elif fast is not None:
        draft.take_over(fast)
    fils = settings.get("fils")
    if fils is not None and fils.value.lower() in _TRUE and kind in ("EAP", "EAP2", "EAP-EAP2"):
        words = (*words, "FILS-SHA256")
        draft.take_over(fils)
    elif fils is not None and fils.value.lower() not in _TRUE:
        draft.take_over(fils)
    number = pmf.value if pmf is not None else _USUAL_PMF.get(kind, "0")
    if number in ("1", "2") and kind in _WITH_PMF and version != "1":
        words = (*words, _WITH_PMF[kind])
    yield Option("wpa", version, encryption)
    for name in ("wpa_key_mgmt", "key_mgmt"):
        yield Option(name, " ".join(words), encryption)
    for name in ("wpa_pairwise" if version == "1" else "rsn_pairwise", "pairwise"):
        yield Option(name, " ".join(ciphers), encryption)
    if kind.startswith("EAP"):
        yield Option("ieee8021x", "1", encryption)
    yield Option("ieee80211w", number, pmf if pmf is not None else encryption)


def _wep_options(settings: dict[str, Setting], encryption: Setting) -> Iterator[Option]:
    """Yield the daemon options of WEP. OpenWrt's `option key` is a key, or a key's number."""
    chosen = settings.get("key")
    is_number = chosen is not None and chosen.value in ("1", "2", "3", "4")
    number = int(chosen.value) - 1 if chosen is not None and is_number else 0
    for index in range(4):
        each = settings.get(f"key{index + 1}")
        if each is None and index == number and not is_number:
            each = chosen
        if each is not None:
            value = f'"{each.value[2:]}"' if each.value.startswith("s:") else each.value
            yield Option(f"wep_key{index}", value, each)
    yield Option("key_mgmt", "NONE", encryption)
    yield Option("wep_default_key", str(number), encryption)
    yield Option("wep_tx_keyidx", str(number), encryption)


def _renamed_options(draft: PolicyDraft, settings: Sequence[Setting],
                     names: dict[str, str]) -> Iterator[Option]:
    """Yield an OpenWrt interface's other options under the daemon's names."""
    for setting in settings:
        if setting.key in _SECRETS:
            draft.leave_out(setting, CREDENTIAL)
        elif setting.key not in (*_SITE, "encryption", "ieee80211w", "ieee80211r", "fils"):
            value = setting.value
            if setting.key in _SWITCHES:
                value = "1" if value.lower() in _TRUE else "0"
            yield Option(names.get(setting.key, setting.key), value, setting)


def _access_point_options(draft: PolicyDraft, settings: Sequence[Setting],
                          by_key: dict[str, Setting]) -> Iterator[Option]:
    """Yield hostapd's options for an OpenWrt interface of an access point."""
    yield from _protection_options(draft, by_key)
    yield from _renamed_options(draft, settings, _ACCESS_POINT_NAMES)


def _station_options(draft: PolicyDraft, settings: Sequence[Setting],
                     by_key: dict[str, Setting]) -> Iterator[Option]:
    """Yield wpa_supplicant's options for an OpenWrt interface of a station."""
    yield from _protection_options(draft, by_key)
    for option in _renamed_options(draft, settings, _STATION_NAMES):
        value = option.value
        if option.name == "phase2" and "=" not in value:
            value = f"auth={value}"
        yield option._replace(value=value)
