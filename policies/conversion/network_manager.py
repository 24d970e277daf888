"""Make a policy from a profile of NetworkManager, the station's side of a network.

`read_networks` takes the text of the file (`Source`), and returns a list with its one `Network`,
which can set the fields of a policy. NetworkManager converts a Wi-Fi profile to options of
wpa_supplicant. This module does so, too, and lets the module of wpa_supplicant.conf read the
options. Profiles of WireGuard and MACsec set these layers of a policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from policies.conversion import syntax
from policies.conversion.network import Network, decode_name
from policies.conversion.result import PolicyDraft, make_refusal
from policies.conversion.source import Section, Setting, Source
from policies.conversion.tunnels import fill_wireguard
from policies.conversion.wifi import HIDDEN, Option, Options, note_replaced
from policies.conversion.wpa_supplicant import network_filler
from policies.vocabulary import CREDENTIAL, FROM_SCENARIO, NOT_MEASURED

#: Settings by their section and key.
_Values = Mapping[tuple[str, str], Setting]

_OLD_SECTIONS = {"802-11-wireless": "wifi", "802-11-wireless-security": "wifi-security"}
#: Sections whose settings come from the scenario.
_SITE_SECTIONS = ("connection", "ipv4", "ipv6", "proxy", "ethernet", "user", "802-3-ethernet")
#: wpa_supplicant's names for the keys of a section.
_NAMES: dict[str, dict[str, str]] = {
    "wifi": {
        "ssid": "ssid", "bssid": "bssid", "hidden": "scan_ssid", "band": "freq_list",
        "channel": "freq_list", "mac-address": "mac_addr", "cloned-mac-address": "mac_addr",
        "seen-bssids": "bssid", "mac-address-randomization": "mac_addr", "mode": "mode"},
    "wifi-security": {
        "proto": "proto", "group": "group", "pairwise": "pairwise", "psk": "psk",
        "wep-tx-keyidx": "wep_tx_keyidx", "wep-key0": "wep_key0", "wep-key1": "wep_key1",
        "wep-key2": "wep_key2", "wep-key3": "wep_key3", "leap-password": "password",
        "leap-username": "identity", "psk-flags": "psk", "wep-key-flags": "psk",
        "leap-password-flags": "password"},
    "802-1x": {
        "eap": "eap", "identity": "identity", "anonymous-identity": "anonymous_identity",
        "ca-cert": "ca_cert", "ca-path": "ca_path", "client-cert": "client_cert",
        "private-key": "private_key", "private-key-password": "private_key_passwd",
        "password": "password", "password-raw": "password", "pin": "pin",
        "domain-match": "domain_match", "domain-suffix-match": "domain_suffix_match",
        "subject-match": "subject_match", "altsubject-matches": "altsubject_match",
        "openssl-ciphers": "openssl_ciphers", "phase2-auth": "phase2",
        "phase2-autheap": "phase2", "phase2-ca-cert": "ca_cert2", "pac-file": "pac_file",
        "phase2-client-cert": "client_cert2", "phase2-private-key": "private_key2",
        "phase2-private-key-password": "private_key2_passwd",
        "phase2-domain-match": "domain_match2", "phase2-altsubject-matches": "altsubject_match2",
        "phase2-domain-suffix-match": "domain_suffix_match2",
        "phase2-subject-match": "subject_match2", "phase1-peaplabel": "phase1",
        "phase1-peapver": "phase1"},
}
_MANAGEMENTS = {"wpa-psk": "WPA-PSK", "sae": "SAE", "owe": "OWE", "wpa-eap": "WPA-EAP",
                "wpa-eap-suite-b-192": "WPA-EAP-SUITE-B-192", "none": "NONE",
                "ieee8021x": "IEEE8021X"}
#: Protected management frames by NetworkManager's numbers, "" for its default.
_PMF = {"0": "", "default": "",
        "1": "0", "disable": "0", "2": "1", "optional": "1", "3": "2", "required": "2"}
#: Bits of phase1-auth-flags, with wpa_supplicant's words.
_TLS_FLAGS = {0x1: "tls_disable_tlsv1_0=1", 0x2: "tls_disable_tlsv1_1=1",
              0x4: "tls_disable_tlsv1_2=1", 0x8: "tls_disable_time_checks=1",
              0x10: "tls_disable_tlsv1_3=1", 0x20: "tls_disable_tlsv1_0=0",
              0x40: "tls_disable_tlsv1_1=0", 0x80: "tls_disable_tlsv1_2=0",
              0x100: "tls_disable_tlsv1_3=0"}
#: All that a station of NetworkManager takes, by its key management.
_FURTHER = {"WPA-PSK": ("SAE", "WPA-PSK-SHA256", "WPA-PSK"),
            "WPA-EAP": ("WPA-EAP-SHA256", "WPA-EAP")}


def read_networks(source: Source) -> list[Network]:
    """Return the one connection in a profile of NetworkManager.

    Raises:
        PolicyError: The syntax is broken.
    """
    sections = [Section(each.line, _OLD_SECTIONS.get(each.name, each.name), each.settings)
                for each in syntax.read_ini(source, syntax.LOWER_KEYS)]
    settings = [setting for each in sections for setting in each.settings]
    values = {(section.name, setting.key): setting for section in sections
              for setting in section.settings}
    names = [decode_name(values[key].value) for key in (
        ("connection", "id"), ("wifi", "ssid"), ("connection", "interface-name"))
        if key in values]
    return [Network(sections[0].line if sections else 1, tuple(name for name in names if name),
                    settings, _make_filler(sections, values))]


def _make_filler(sections: Sequence[Section], values: _Values) -> Callable[[PolicyDraft], None]:
    """Return a function that sets a policy's fields from a NetworkManager connection."""
    kind = values.get(("connection", "type"))
    word = kind.value.lower() if kind is not None else "wifi"
    present = {section.name for section in sections}

    def fill_policy(draft: PolicyDraft) -> None:
        for section in sections:
            note_replaced(draft, section.settings)
        _leave_site_keys(draft, sections)
        if kind is not None:
            draft.take_over(kind)
        if word == "wireguard" or "wireguard" in present:
            _fill_wireguard(draft, sections)
        elif word in ("wifi", "802-11-wireless") or "wifi" in present:
            _fill_wifi(draft, sections, values)
        elif word == "macsec":
            _fill_macsec(draft, sections, values)
        else:
            shown = word if re.fullmatch(r"[\w-]{1,30}", word) else "this kind"
            place = kind if kind is not None else Setting(1, "type", "")
            raise make_refusal(draft.source, place, f"connections of {shown} are {NOT_MEASURED}",
                               "known are wifi, wireguard and macsec")

    return fill_policy


def _leave_site_keys(draft: PolicyDraft, sections: Sequence[Section]) -> None:
    """Leave out settings of the site: secrets, addresses, and the connection itself."""
    for section in sections:
        for setting in section.settings:
            is_secret = "password" in setting.key or (
                "psk" in setting.key and not setting.key.endswith("-flags"))
            if "secret" in section.name or is_secret:
                draft.leave_out(setting, CREDENTIAL)
            elif section.name in _SITE_SECTIONS:
                draft.leave_out(setting, FROM_SCENARIO)


def _fill_wireguard(draft: PolicyDraft, sections: Sequence[Section]) -> None:
    def settings_of(name: str) -> list[Setting]:
        return [setting for section in sections if section.name.partition(".")[0] == name
                for setting in section.settings]

    fill_wireguard(draft, settings_of("wireguard"), settings_of("wireguard-peer"))


def _fill_macsec(draft: PolicyDraft, sections: Sequence[Section], values: _Values) -> None:
    mode, encrypt = values.get(("macsec", "mode")), values.get(("macsec", "encrypt"))
    draft.set_field("wire.macsec", "GCM-AES-128", *([mode] if mode is not None else []))
    if mode is not None and mode.value.lower() in ("1", "eap"):
        draft.set_nearest({"wire.macsec": "GCM-AES-128"}, mode, "a key (CAK) from EAP",
                          "a key of the run")
    if encrypt is not None and encrypt.value.lower() in ("false", "0", "no"):
        draft.set_field("wire.encrypts", 0, encrypt)
    elif encrypt is not None:
        draft.take_over(encrypt)
    for section in sections:
        for setting in section.settings:
            if setting.key.startswith("mka-"):
                draft.leave_out(setting, CREDENTIAL)
            elif section.name == "macsec" and setting.key == "parent":
                draft.leave_out(setting, FROM_SCENARIO)


# --- Wi-Fi ---

def _fill_wifi(draft: PolicyDraft, sections: Sequence[Section], values: _Values) -> None:
    line = next((section.line for section in sections if section.name == "wifi"), 1)
    mode = values.get(("wifi", "mode"))
    if mode is not None and mode.value in ("adhoc", "mesh"):
        raise make_refusal(draft.source, mode,
                           f"networks without an access point are {NOT_MEASURED}",
                           "choose another profile")
    options = [option for section in sections for setting in section.settings
               for option in _make_options(draft, section.name, setting)]
    algorithm = values.get(("wifi-security", "auth-alg"))
    if algorithm is not None and algorithm.value == "leap":
        raise make_refusal(draft.source, algorithm, f"LEAP is {NOT_MEASURED}", "write wpa-eap")
    if any(section.name == "wifi-security" for section in sections):
        options = _join_phase1(draft, Options(options).take_last(draft).options)
        options = _without_ciphers(draft, options)
        network_filler(Options(options), line, "the profile")(draft)
        _say_defaults(draft, options)
        hidden = values.get(("wifi", "hidden"))
        if hidden is not None and hidden.value.lower() in ("true", "1", "yes") \
                and "link.keys" in draft.fields:
            draft.set_field(HIDDEN, 1, hidden)
        if draft.find_value("link.roaming") == "fils":
            draft.take_over(*(option.setting for option in options if option.name == "key_mgmt"))
    else:  # an open network
        for option in options:
            draft.leave_out(option.setting, FROM_SCENARIO)


def _without_ciphers(draft: PolicyDraft, options: Sequence[Option]) -> list[Option]:
    """Return the options without ciphers if the profile has the 192-bit suite.

    NetworkManager then gives wpa_supplicant GCMP-256, and does not read the profile's ciphers.
    """
    if not any(option.name == "key_mgmt" and option.value == "WPA-EAP-SUITE-B-192"
               for option in options):
        return [*options]
    for option in options:
        if option.name in ("pairwise", "group"):
            draft.leave_out(option.setting, "NetworkManager has GCMP-256 with this key-mgmt in any "
                            "case (assumed)")
    return [option for option in options if option.name not in ("pairwise", "group")]


def _join_phase1(draft: PolicyDraft, options: Sequence[Option]) -> list[Option]:
    """Return the options with one phase1, as NetworkManager writes it from several settings."""
    parts = [option for option in options if option.name == "phase1"]
    joined = [option for option in options if option.name != "phase1"]
    if parts:
        draft.take_over(*(option.setting for option in parts))
        joined.append(parts[-1]._replace(value=" ".join(option.value for option in parts)))
    return joined


def _say_defaults(draft: PolicyDraft, options: Sequence[Option]) -> None:
    """Assume NetworkManager's default of PMF, and the other key managements that it takes."""
    by_name = {option.name: option for option in options}
    has_rsn = draft.find_value("link.keys") in ("psk", "eap") and draft.find_value(
        "link.cipher") not in ("TKIP", "WEP-40", "WEP-104")
    if has_rsn and "ieee80211w" not in by_name:
        draft.assume_field("link.pmf", 1, "NetworkManager's default, if its own configuration "
                           "(wifi-sec.pmf) says nothing else")
    management = by_name.get("key_mgmt")
    if management is not None and has_rsn and management.value in _FURTHER:
        names = [name for name in _FURTHER[management.value]
                 if name != "SAE" or draft.find_value("link.pmf")]
        draft.assume_field("link.accepted", names, "NetworkManager takes all of them where the "
                           "access point offers them; also fast transition, for which there is "
                           "'roaming: ft'")


def _make_options(draft: PolicyDraft, section: str, setting: Setting) -> Iterator[Option]:
    """Yield the wpa_supplicant options to which NetworkManager converts a setting."""
    make = _SPECIAL.get((section, setting.key))
    if make is not None:
        yield from make(draft, setting)
        return
    name = _NAMES.get(section, {}).get(setting.key)
    if name == "mode":
        draft.leave_out(setting, FROM_SCENARIO)
    elif name is not None:
        yield Option(name, _to_value(name, setting), setting)


def _to_value(name: str, setting: Setting) -> str:
    """Return a setting's value in the form of wpa_supplicant."""
    value = setting.value.rstrip(";")
    if name.startswith("wep_key"):
        return f'"{value}"' if len(value) in (5, 13) else value
    if name == "phase2":
        return " ".join(f"auth={word}" for word in setting.value_words)
    if name == "phase1":
        return f"{setting.key.removeprefix('phase1-')}={value}"
    return value.upper() if name in ("proto", "group", "pairwise") else value


def _make_management(draft: PolicyDraft, setting: Setting) -> Iterator[Option]:
    word = _MANAGEMENTS.get(setting.value.lower())
    if word is None:
        raise make_refusal(draft.source, setting, "this is no key management of NetworkManager",
                           f"known are {', '.join(_MANAGEMENTS)}")
    yield Option("key_mgmt", word, setting)


def _make_pmf(draft: PolicyDraft, setting: Setting) -> Iterator[Option]:
    number = _PMF.get(setting.value.lower())
    if number:
        yield Option("ieee80211w", number, setting)
    elif number == "":
        draft.take_over(setting)
    else:
        draft.leave_out(setting, "0, 1, 2 or 3 belongs here")


def _make_fils(draft: PolicyDraft, setting: Setting) -> Iterator[Option]:
    if setting.value in ("3", "required"):
        yield Option("key_mgmt", "FILS-SHA256", setting)
    elif setting.value in ("2", "optional"):
        draft.leave_out(setting, f"FILS beside other key managements is {NOT_MEASURED}, and "
                        "'roaming: fils' is FILS alone")
    else:
        draft.take_over(setting)


def _make_tls_versions(draft: PolicyDraft, setting: Setting) -> Iterator[Option]:
    """Yield wpa_supplicant's switches of TLS versions for NetworkManager's flags."""
    is_number = re.fullmatch(r"0x[0-9a-fA-F]{1,6}|0|[1-9]\d{0,6}", setting.value)
    number = int(setting.value, 0) if is_number else 0
    if not is_number:
        draft.leave_out(setting, "a number belongs here")
        return
    draft.take_over(setting)
    if number & ~sum(_TLS_FLAGS):
        draft.note_loss(setting, f"flags other than 0x1ff are {NOT_MEASURED}")
    if words := [word for bit, word in _TLS_FLAGS.items() if number & bit]:
        yield Option("phase1", " ".join(words), setting)


def _take_open(draft: PolicyDraft, setting: Setting) -> Iterator[Option]:
    if setting.value == "open":
        draft.take_over(setting)
    yield from ()


def _make_authorities(draft: PolicyDraft, setting: Setting) -> Iterator[Option]:
    if setting.value.lower() in ("true", "1", "yes"):
        yield Option("ca_path", setting.value, setting)
    else:
        draft.take_over(setting)


#: Settings that are no option of the same value.
_SPECIAL: Mapping[tuple[str, str], Callable[[PolicyDraft, Setting], Iterator[Option]]] = {
    ("wifi-security", "key-mgmt"): _make_management, ("wifi-security", "pmf"): _make_pmf,
    ("wifi-security", "fils"): _make_fils, ("wifi-security", "auth-alg"): _take_open,
    ("802-1x", "phase1-auth-flags"): _make_tls_versions,
    ("802-1x", "system-ca-certs"): _make_authorities}
