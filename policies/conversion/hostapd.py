"""Make policies from hostapd.conf, the access point's side of a network.

`read_networks` takes the text of the file (`Source`), and returns a `Network` for each BSS. A
network has a function that sets the fields of a policy from the options of this BSS (`bss_filler`).
The module of OpenWrt's files calls `bss_filler` with options that it has converted.
`policies.conversion.convert` chooses the network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from policies.conversion import syntax
from policies.conversion.network import Network, decode_name
from policies.conversion.result import PolicyDraft
from policies.conversion.source import Setting, Source, strip_quotes
from policies.conversion.wifi import (
    WEP_KEYS,
    Option,
    Options,
    assume_cipher,
    assume_eap,
    complete_link,
    describe_version,
    find_reason,
    pass_option,
    set_cached_keys,
    set_cipher,
    set_group,
    set_group_cipher,
    set_group_management,
    set_key_management,
    set_macsec,
    set_pmf,
    set_sae,
    set_switch,
    set_wep,
)
from policies.vocabulary import CREDENTIAL, NOT_MEASURED

#: Options that reach hostapd by the policy's `options`.
_PASSED = frozenset((
    "wpa_group_rekey", "wpa_strict_rekey", "wpa_gmk_rekey", "wpa_ptk_rekey", "wpa_deny_ptk0_rekey",
    "wpa_group_update_count", "wpa_pairwise_update_count", "wpa_disable_eapol_key_retries",
    "wep_rekey_period", "assoc_sa_query_max_timeout", "assoc_sa_query_retry_timeout",
    "eap_reauth_period", "eapol_version", "sae_anti_clogging_threshold", "anti_clogging_threshold",
    "sae_sync", "sae_track_password", "sae_confirm_immediate", "sae_require_mfp",
    "owe_ptk_workaround", "disable_pmksa_caching", "ignore_broadcast_ssid",
    "reassociation_deadline", "r0_key_lifetime", "transition_disable",
    "radius_acct_interim_interval",
    "ft_r0_key_lifetime", "r1_max_key_lifetime", "ft_psk_generate_local"))
#: Value of hostapd's option wpa for WPA and WPA2 (RSN) in one network.
_WPA_AND_RSN = 3
#: Largest threshold of a policy's anti-clogging.
_MOST_EXCHANGES = 10
#: VLAN of a policy whose source does not say the number, which is the RADIUS server's.
_ANY_VLAN = 20
#: Bytes of TLS in a packet of the authentication server that a policy can have.
_FRAGMENTS = range(100, 1401)
#: Values that qop writes itself, or that are hostapd's own default.
_USUAL = {"auth_algs": "1", "eapol_version": "2", "eap_reauth_period": "0", "wpa_group_rekey": "0",
          "wep_rekey_period": "0", "ap_isolate": "1", "ft_over_ds": "0", "eap_server": "0",
          "reassociation_deadline": "1000", "fils_dh_group": "19", "ignore_broadcast_ssid": "0",
          "disable_pmksa_caching": "0", "okc": "0", "wpa_strict_rekey": "0", "ocv": "0",
          "beacon_prot": "0", "rrm_neighbor_report": "0", "bss_transition": "0",
          "radius_require_message_authenticator": "0", "wpa_psk_radius": "0", "check_crl": "0",
          "owe_ptk_workaround": "0", "sae_confirm_immediate": "0", "transition_disable": "0"}


def read_networks(source: Source) -> list[Network]:
    """Return the networks (BSS) in a hostapd.conf. The radio's options belong to the first."""
    blocks: list[list[Setting]] = [[]]
    for setting in syntax.read_pairs(source):
        if setting.key == "bss" and blocks[-1]:
            blocks.append([])
        blocks[-1].append(setting)
    return [_make_network(settings) for settings in blocks if settings]


def _make_network(settings: Sequence[Setting]) -> Network:
    options = Options([Option(each.key, each.value, each) for each in settings])
    names = [decode_name(found.value) for key in ("ssid2", "ssid", "bss", "interface")
             if (found := options.find_option(key)) is not None]
    return Network(settings[0].line, tuple(name for name in names if name), settings,
                   bss_filler(options, "hostapd.conf"))


def bss_filler(options: Options, whose: str,
               vlans: Sequence[Setting] = ()) -> Callable[[PolicyDraft], None]:
    """Return a function that sets a policy's fields from hostapd's options of one BSS.

    Args:
        options: The options.
        whose: Words for the file with these options, such as "hostapd.conf".
        vlans: Settings of that file with numbers of VLANs, empty without VLANs.
    """
    def fill_policy(draft: PolicyDraft) -> None:
        counting = options.take_last(draft)
        _set_protection(draft, counting, whose)
        for option in counting.options:
            _place_option(draft, option)
        _set_vlan(draft, counting, vlans)

    return fill_policy


def _set_protection(draft: PolicyDraft, options: Options, whose: str) -> None:
    """Set the link and 802.1X layers of a policy from hostapd's options."""
    wpa = options.read_number(draft, "wpa")
    has_eap = options.is_set(draft, "ieee8021x")
    if not wpa and options.is_set(draft, "macsec_policy"):
        set_macsec(draft, options, options.find_option("ieee8021x") if has_eap
                   and options.find_option("mka_cak") is None else None)
        return
    if wpa:
        _set_rsn(draft, options, wpa)
        has_eap = draft.find_value("link.keys") == "eap"
    else:
        _set_wep(draft, options, has_eap=has_eap)
    if has_eap:
        _set_own_server(draft, options)
        if draft.find_value("dot1x.eap") is None:
            assume_eap(draft, whose)
    complete_link(draft)


def _set_own_server(draft: PolicyDraft, options: Options) -> None:
    """Set the settings of TLS of a hostapd that is the authentication server itself."""
    if not options.is_set(draft, "eap_server"):
        return
    lists, size, flags = map(options.find_option, ("check_crl", "fragment_size", "tls_flags"))
    if lists is not None and options.is_set(draft, "check_crl"):
        draft.assume_field("dot1x.eap", "TLS", "the server checks certificates of stations")
        draft.set_field("dot1x.tls.revocation", "crl", lists.setting)
    if size is not None and size.value.isdecimal() and int(size.value) in _FRAGMENTS:
        draft.set_field("dot1x.tls.fragment_bytes", int(size.value), size.setting)
    if flags is not None and "[ENABLE-TLSV1.3]" in flags.value.upper():
        draft.set_field("dot1x.tls.version", "1.3", flags.setting)


def _set_rsn(draft: PolicyDraft, options: Options, wpa: int) -> None:
    """Set the link layer of a policy for WPA, WPA2 or WPA3."""
    management = options.find_option("wpa_key_mgmt")
    if management is not None:
        set_key_management(draft, management, "link.offered")
    else:
        draft.assume_field("link.keys", "psk", "hostapd's default of wpa_key_mgmt is WPA-PSK")
    _set_ciphers(draft, options, wpa)
    set_pmf(draft, options.find_option("ieee80211w"))
    _set_group_cipher(draft, options, wpa)
    _set_roaming(draft, options)
    set_sae(draft, "hostapd", options)
    for keys in ("sae", "owe"):
        if draft.find_value("link.keys") == keys:
            set_group(draft, options.find_option(f"{keys}_groups"), "link.access_point_groups")
    _set_anti_clogging(draft, options)
    set_group_management(draft, options.find_option("group_mgmt_cipher"))
    set_switch(draft, options, "rrm_neighbor_report", "link.neighbor_report")
    set_switch(draft, options, "bss_transition", "link.bss_transition")
    set_switch(draft, options, "beacon_prot", "link.beacon_protection")
    set_switch(draft, options, "ocv", "link.ocv")


def _set_anti_clogging(draft: PolicyDraft, options: Options) -> None:
    """Set the number of unfinished SAE exchanges at which the access point asks for tokens."""
    for name in ("sae_anti_clogging_threshold", "anti_clogging_threshold"):
        option = options.find_option(name)
        if option is not None and draft.find_value("link.keys") == "sae" \
                and option.value.isdecimal() and int(option.value) <= _MOST_EXCHANGES:
            draft.set_field("link.anti_clogging", int(option.value), option.setting)


def _set_ciphers(draft: PolicyDraft, options: Options, wpa: int) -> None:
    """Set the cipher of a policy. If there are WPA2 (RSN) and WPA, WPA2's cipher is used."""
    has_rsn = bool(wpa & 2)
    rsn, old = options.find_option("rsn_pairwise"), options.find_option("wpa_pairwise")
    if has_rsn and rsn is not None:
        set_cipher(draft, rsn)
        if old is not None:
            draft.leave_out(old.setting, "a policy has RSN's cipher alone")
    elif old is not None:
        set_cipher(draft, old)
    else:
        assume_cipher(draft, "the file does not say the pairwise cipher" + (
            "; hostapd would take TKIP, which goes with WPA here" if wpa != 1 else ""),
            is_old=wpa == 1)
    version = options.find_option("wpa")
    assert version is not None
    cipher = draft.find_value("link.cipher")
    if wpa == _WPA_AND_RSN:
        draft.note_loss(version.setting, "WPA beside WPA2: a policy has one of them; "
                        f"{describe_version(cipher)}")
    elif (cipher == "TKIP") != (wpa == 1):
        draft.note_loss(version.setting, f"{describe_version(cipher)} here")


def _set_group_cipher(draft: PolicyDraft, options: Options, wpa: int) -> None:
    """Set the cipher of frames to all: the file's, or hostapd's choice.

    hostapd takes TKIP for frames to all where a station may have TKIP between two.
    """
    if (option := options.find_option("group_cipher")) is not None:
        set_group_cipher(draft, option)
        return
    names = ["rsn_pairwise", *(["wpa_pairwise"] if wpa == _WPA_AND_RSN else [])]
    source = next((option for name in names if (option := options.find_option(name)) is not None
                   and "TKIP" in option.value_words), None)
    has_pmf = draft.find_value("link.pmf") in (1, 2)
    if source is not None and draft.find_value("link.cipher") != "TKIP" and not has_pmf:
        draft.set_field("link.group_cipher", "TKIP", source.setting)


def _set_roaming(draft: PolicyDraft, options: Options) -> None:
    """Set how a station moves between access points.

    Keys are pushed or fetched by the access points (802.11r), or cached.
    """
    push, cache = options.find_option("pmk_r1_push"), options.find_option("okc")
    keys, roaming = draft.find_value("link.keys"), draft.find_value("link.roaming")
    if roaming == "ft" and keys != "psk":
        management = options.find_option("wpa_key_mgmt")
        assert management is not None
        if push is None or not options.is_set(draft, "pmk_r1_push"):
            draft.set_field("link.roaming", "ft-pull", *(
                each.setting for each in (push, management) if each is not None))
        else:
            draft.set_field("link.roaming", "ft", push.setting)
    elif roaming == "ft" and push is not None:
        draft.take_over(push.setting)
    if cache is not None and options.is_set(draft, "okc"):
        set_cached_keys(draft, cache)


def set_vlans(draft: PolicyDraft, numbers: Sequence[Setting]) -> None:
    """Set the VLAN of the first station, and those of further stations.

    `numbers` are settings with one decimal number each, at least one setting.
    """
    by_number = {int(setting.value): setting for setting in reversed(numbers)}
    first, *others = sorted(by_number, key=lambda number: by_number[number].line)
    draft.set_field("link.vlan", first, by_number[first])
    if others:
        draft.set_field("link.further_vlans", others, *(by_number[each] for each in others))
    draft.take_over(*numbers)


def _set_vlan(draft: PolicyDraft, options: Options, numbers: Sequence[Setting]) -> None:
    """Set the VLAN of stations if the access point gets it from RADIUS or from a passphrase."""
    option = options.find_option("dynamic_vlan")
    if option is None:
        return
    is_used = draft.find_value("link.keys") == "eap" or draft.find_value("link.passphrases")
    if strip_quotes(option.value) == "0":
        draft.take_over(option.setting)
    elif draft.find_value("link.keys") == "eap" and numbers:
        set_vlans(draft, numbers)
        draft.take_over(option.setting)
    elif is_used and not options.is_set(draft, "wep_key_len_unicast"):
        draft.set_field("link.vlan", _ANY_VLAN, option.setting)
        draft.note_loss(option.setting, "the file does not say the number of the VLAN: "
                        f"{_ANY_VLAN} stands for it")
    else:
        draft.leave_out(option.setting, find_reason("hostapd", option.name))


def _set_wep(draft: PolicyDraft, options: Options, *, has_eap: bool) -> None:
    """Set a link layer with WEP, or an open one."""
    keys = [option for option in options.options if option.name in WEP_KEYS]
    lengths = [option for option in options.options if option.name in (
        "wep_key_len_unicast", "wep_key_len_broadcast")]
    if keys:
        set_wep(draft, options, keys, is_from_eap=False)
    elif lengths and has_eap:
        set_wep(draft, options, lengths, is_from_eap=True)


def _set_radius(draft: PolicyDraft, option: Option) -> bool:
    """Set how access points use RADIUS, and return whether the option says it."""
    if "dot1x.eap" not in draft.fields:
        return False
    if option.name == "auth_server_type" and strip_quotes(option.value).upper() == "TLS":
        draft.set_field("dot1x.transport", "radsec", option.setting)
    elif option.name == "acct_server_addr":
        draft.set_field("dot1x.accounting", 1, option.setting)
    elif option.name == "radius_require_message_authenticator" and strip_quotes(
            option.value) == "1":
        draft.set_field("dot1x.message_authenticator", "required", option.setting)
        draft.note_loss(option.setting, "access points of the file insist on it in answers; the "
                        "policy's server insists on it in requests")
    else:
        return False
    return True


def _set_link_field(draft: PolicyDraft, option: Option) -> bool:
    """Set a field that an option means in some networks, and return whether this is one."""
    keys = draft.find_value("link.keys")
    has_one_passphrase = keys == "psk" and draft.find_value("link.cipher") != "TKIP" \
        and "link.offered" not in draft.fields
    if option.name == "wpa_psk_file" and has_one_passphrase:
        draft.set_field("link.passphrases", "by-device", option.setting)
    elif option.name == "wpa_psk_radius" and has_one_passphrase:
        draft.set_nearest({"link.passphrases": "by-device"}, option.setting,
                          "a passphrase by device from RADIUS", "passphrases by device")
    elif option.name == "ft_over_ds" and draft.find_value("link.roaming") in ("ft", "ft-pull"):
        draft.set_field("link.ft_over_ds", 1, option.setting)
        draft.note_loss(option.setting, "hostapd leaves it to each station; the policy's station "
                        "moves over the DS")
    elif option.name.startswith("owe_transition_") and keys == "owe":
        draft.set_field("link.owe_transition", 1, option.setting)
    else:
        return False
    return True


def _place_option(draft: PolicyDraft, option: Option) -> None:
    """Pass an option of hostapd to the daemon if no field exists for it, or leave it out."""
    value = strip_quotes(option.value)
    # The meaning of dynamic_vlan depends on options behind it: see _set_vlan.
    if option.name == "dynamic_vlan" or draft.has_set(option.setting):
        return
    if not value.strip():
        draft.leave_out(option.setting, "the file leaves it empty")
    elif _USUAL.get(option.name) == value or (
            option.name == "ft_psk_generate_local" and value == "1"
            and draft.find_value("link.keys") == "psk"):
        draft.take_over(option.setting)
    elif _set_radius(draft, option) or _set_link_field(draft, option):
        pass
    elif option.name == "sae_password" and "|" in value:
        draft.leave_out(option.setting, f"{CREDENTIAL}; SAE with a password, a VLAN or an "
                        f"identifier of a device is {NOT_MEASURED}")
    elif option.name in _PASSED:
        pass_option(draft, "hostapd", option)
    else:
        draft.leave_out(option.setting, find_reason("hostapd", option.name))
