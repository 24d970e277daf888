"""Make policies from wpa_supplicant.conf: a station's network, or MACsec on a wire.

`read_networks` takes the text of the file (`Source`), and returns a `Network` for each network
block. A network has a function that sets the fields of a policy from its options
(`network_filler`). The modules for iwd, NetworkManager and OpenWrt call `network_filler` with
options that they have converted. `read_other_blocks` returns the settings that get into no policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from policies.conversion import syntax
from policies.conversion.network import Network, decode_name
from policies.conversion.result import PolicyDraft, make_refusal
from policies.conversion.source import Section, Setting, Source, strip_quotes
from policies.conversion.wifi import (
    WEP_KEYS,
    Option,
    Options,
    assume_cipher,
    complete_link,
    describe_version,
    find_reason,
    join_words,
    pass_option,
    set_cached_keys,
    set_cipher,
    set_eap,
    set_group,
    set_group_cipher,
    set_group_management,
    set_identity,
    set_inner,
    set_key_management,
    set_macsec,
    set_pmf,
    set_sae,
    set_server_name,
    set_switch,
    set_wep,
)
from policies.eap_methods import TUNNELS
from policies.options import is_secret
from policies.vocabulary import CREDENTIAL, NOT_MEASURED

#: Options that reach wpa_supplicant by the policy's `options`.
_PASSED = frozenset(("wpa_ptk_rekey", "wpa_deny_ptk0_rekey", "fragment_size", "eap_workaround",
                     "ft_eap_pmksa_caching", "sae_password_id", "openssl_ciphers"))
#: Values that qop writes itself, or that are wpa_supplicant's own default.
_USUAL = {"ap_scan": "1", "fast_reauth": "0", "p2p_disabled": "1", "update_config": "0",
          "eapol_version": "1", "erp": "1", "fils_dh_group": "19", "disabled": "0", "mode": "0",
          "ocv": "0", "beacon_prot": "0", "auth_alg": "OPEN", "wpa_ptk_rekey": "0",
          "proactive_key_caching": "0", "okc": "0", "ft_eap_pmksa_caching": "0",
          "macsec_replay_protect": "1", "macsec_replay_window": "0", "mixed_cell": "0"}
#: Values of openssl_ciphers that qop writes itself.
_USUAL_CIPHERS = ("DEFAULT@SECLEVEL=0", "SUITEB192")
#: Words of phase1 for the 192-bit suite with certificates of RSA.
_RSA_SUITES = ("tls_suiteb=1", "tls_suiteb_no_ecdh=1")
#: Words of phase1 that change nothing in what is measured.
_IDLE_PHASE1 = re.compile(r"peaplabel=0|peapver=0|tls_disable_tlsv1_[012]=0|include_tls_length=0|"
                          r"tls_disable_tlsv1_[01]=1")
_PHASE1 = re.compile(r"(peaplabel|peapver|crypto_binding|tls_\w+|include_tls_length)=\w+")


def read_networks(source: Source) -> list[Network]:
    """Return the networks in a wpa_supplicant.conf.

    Raises:
        PolicyError: There is no network block, or the syntax is broken.
    """
    outside, blocks = syntax.read_blocks(source)
    networks = [_make_network(block, outside) for block in blocks if block.name == "network"]
    if not networks:
        raise source.make_error(1, "there is no network block", "add network={ ... }")
    return networks


def read_other_blocks(source: Source) -> list[tuple[int, str, str]]:
    """Return the settings of wpa_supplicant.conf that belong to no network and get into no policy.

    Each has its line, its name, and the reason why it is left out.
    """
    notes: list[tuple[int, str, str]] = []
    for block in syntax.read_blocks(source)[1]:
        if block.name.startswith("blob"):
            notes.append((block.line, "blob", CREDENTIAL))
        elif block.name == "cred":
            notes += [(each.line, f"cred {each.key}", CREDENTIAL if is_secret(
                "wpa_supplicant", each.key) else f"Interworking is {NOT_MEASURED}")
                for each in block.settings]
    return notes


def _make_network(block: Section, outside: list[Setting]) -> Network:
    inside = {setting.key for setting in block.settings}
    overridden = [each for each in outside if each.key in inside or (
        each.key == "pmf" and "ieee80211w" in inside)]
    settings = [*outside, *block.settings]
    options = Options([Option(each.key, each.value, each) for each in settings
                       if each not in overridden])
    fill_network = network_filler(options, block.line, "wpa_supplicant.conf")

    def fill_policy(draft: PolicyDraft) -> None:
        fill_network(draft)
        for setting in overridden:
            draft.leave_out(setting, "the network has a value of its own")

    names = [decode_name(found.value) for key in ("ssid", "id_str", "bssid")
             if (found := options.find_option(key)) is not None]
    return Network(block.line, tuple(name for name in names if name), settings, fill_policy)


def network_filler(options: Options, line: int, whose: str) -> Callable[[PolicyDraft], None]:
    """Return a function that sets a policy's fields from wpa_supplicant's options.

    Args:
        options: The options.
        line: Where the network begins.
        whose: What the file is, in words.
    """
    def fill_policy(draft: PolicyDraft) -> None:
        counting = options.take_last(draft)
        if counting.is_set(draft, "macsec_policy"):
            set_macsec(draft, counting, counting.find_option("eap"))
        else:
            _set_protection(draft, counting)
            _say_server_is_unchecked(draft, counting, line, whose)
        for option in counting.options:
            _place_option(draft, option)

    return fill_policy


# --- Link layer ---

def _set_protection(draft: PolicyDraft, options: Options) -> None:
    """Set the link and 802.1X layers of a policy from wpa_supplicant's options."""
    management, mode = options.find_option("key_mgmt"), options.find_option("mode")
    if mode is not None and options.read_number(draft, "mode") not in (0, 2):
        raise make_refusal(draft.source, mode.setting, "networks without an access point are "
                           f"{NOT_MEASURED}", "choose another network")
    words = set(management.value_words if management is not None else ())
    if management is not None and words & {"NONE", "IEEE8021X"} and not words - {
            "NONE", "IEEE8021X"}:
        draft.take_over(management.setting)
        _set_wep(draft, options, has_eap="IEEE8021X" in words)
    else:
        _set_rsn(draft, options, management)
    if draft.find_value("link.keys") == "eap" or "IEEE8021X" in words:
        _set_dot1x(draft, options)
    complete_link(draft)


def _set_rsn(draft: PolicyDraft, options: Options, management: Option | None) -> None:
    """Set the link layer of a policy for WPA, WPA2 or WPA3."""
    if management is not None:
        set_key_management(draft, management, "link.accepted")
    else:
        draft.assume_field("link.keys", "eap" if options.find_option("eap") is not None else "psk",
                           "the file does not say key_mgmt")
    pairwise, proto = options.find_option("pairwise"), options.find_option("proto")
    is_old = proto is not None and {*proto.value_words} == {"WPA"}
    if pairwise is not None:
        set_cipher(draft, pairwise)
    else:
        assume_cipher(draft, "the file does not say the pairwise cipher", is_old=is_old)
    if proto is not None:
        _take_version(draft, proto, is_old=is_old)
    set_pmf(draft, options.find_option("ieee80211w") or options.find_option("pmf"))
    cache = options.find_option("proactive_key_caching") or options.find_option("okc")
    if cache is not None and options.is_set(draft, cache.name):
        set_cached_keys(draft, cache)
    set_sae(draft, "wpa_supplicant", options)
    group = {"sae": "sae_groups", "owe": "owe_group"}.get(str(draft.find_value("link.keys")))
    if group:
        set_group(draft, options.find_option(group), "link.station_groups")
    set_group_management(draft, options.find_option("group_mgmt"))
    set_switch(draft, options, "beacon_prot", "link.beacon_protection")
    set_switch(draft, options, "ocv", "link.ocv")
    if (group_cipher := options.find_option("group")) is not None:
        set_group_cipher(draft, group_cipher)


def _take_version(draft: PolicyDraft, proto: Option, *, is_old: bool) -> None:
    cipher = draft.find_value("link.cipher")
    names = {"WPA": "WPA", "RSN": "WPA2", "WPA2": "WPA2"}
    versions = {names[word] for word in proto.value_words if word in names}
    if unknown := [word for word in proto.value_words if word not in names]:
        draft.note_loss(proto.setting, f"{join_words(unknown, ('OSEN',))}: {NOT_MEASURED}")
    if len(versions) > 1:
        draft.note_loss(proto.setting, "WPA beside WPA2: a policy has one of them; "
                        f"{describe_version(cipher)}")
    elif (cipher == "TKIP") == is_old:
        draft.take_over(proto.setting)
    else:
        draft.note_loss(proto.setting, f"{describe_version(cipher)} here")


def _set_wep(draft: PolicyDraft, options: Options, *, has_eap: bool) -> None:
    """Set a link layer with WEP, or an open one."""
    keys = [option for option in options.options if option.name in WEP_KEYS]
    flags = options.find_option("eapol_flags")
    if keys:
        set_wep(draft, options, keys, is_from_eap=False)
        if flags is not None and has_eap and not options.is_set(draft, "eapol_flags"):
            draft.take_over(flags.setting)
    elif has_eap and (flags is None or options.is_set(draft, "eapol_flags")):
        group = options.find_option("group")
        if group is not None and {*group.value_words} == {"WEP40"}:
            draft.set_field("link.cipher", "WEP-40", group.setting)
        else:
            draft.set_field("link.cipher", "WEP-104", *([flags.setting] if flags else []))
        draft.set_field("link.keys", "eap", *([flags.setting] if flags else []))


# --- 802.1X ---

def _set_dot1x(draft: PolicyDraft, options: Options) -> None:
    method, inner = options.find_option("eap"), options.find_option("phase2")
    if method is not None:
        set_eap(draft, method)
    else:
        draft.assume_field("dot1x.eap", "PEAP", "the file does not say the EAP method, and this is "
                           "the most common")
    set_inner(draft, inner)
    set_identity(draft, options.find_option("anonymous_identity"), options.find_option("identity"))
    phase1 = options.find_option("phase1")
    if phase1 is not None:
        _set_phase1(draft, phase1)
    set_server_name(draft, options)
    resumes = options.find_option("fast_reauth")
    if resumes is not None and resumes.value == "1" and any(
            draft.find_value(f"dot1x.tls.{name}") for name in ("server_name", "server_domain")):
        draft.leave_out(resumes.setting, "no name of a server is checked where a session is "
                        "resumed")
    elif (resumes is not None and resumes.value == "1"
            and draft.find_value("dot1x.eap") in ("TLS", *TUNNELS)):
        draft.set_field("dot1x.tls.sessions", "resumed", resumes.setting)


def _set_phase1(draft: PolicyDraft, option: Option) -> None:
    """Set the TLS version from wpa_supplicant's option phase1, and pass on its other parts."""
    words = strip_quotes(option.value).split()
    eap = draft.find_value("dot1x.eap")
    others = [word for word in words if not _IDLE_PHASE1.fullmatch(word)]
    if draft.find_value("link.akm") == "suite-b-192" and {*_RSA_SUITES} & {*others}:
        draft.set_field("dot1x.tls.key", "rsa-3072", option.setting)
        if "tls_suiteb_no_ecdh=1" in others:
            draft.note_loss(option.setting, f"tls_suiteb_no_ecdh=1: DHE-RSA is {NOT_MEASURED}, and "
                            "ECDHE-RSA stands in for it")
        others = [word for word in others if word not in _RSA_SUITES]
    if draft.find_value("link.akm") == "suite-b-192" and "tls_disable_tlsv1_3=0" in others:
        draft.note_loss(option.setting, "the 192-bit suite has TLS 1.2 here")
        others = passed = []
    elif eap in ("TLS", *TUNNELS) and "tls_disable_tlsv1_3=0" in others:
        draft.set_field("dot1x.tls.version", "1.3", option.setting)
        others = [word for word in others if word not in (
            "tls_disable_tlsv1_3=0", "tls_disable_tlsv1_2=1")]
        passed = ["tls_disable_tlsv1_3=0", *others] if others else []
    else:
        others = [word for word in others if word != "tls_disable_tlsv1_3=1"]
        passed = others
    if unknown := [word for word in others if not _PHASE1.fullmatch(word)]:
        draft.note_loss(option.setting, f"{len(unknown)} of its words are {NOT_MEASURED}")
        passed = [word for word in passed if word not in unknown]
    draft.take_over(option.setting)
    if passed and (eap == "TLS" or eap in TUNNELS):
        pass_option(draft, "wpa_supplicant", option._replace(value=" ".join(passed)))


def _say_server_is_unchecked(draft: PolicyDraft, options: Options, line: int,
                             whose: str) -> None:
    """Add a note if the file's station accepts any server certificate. qop's never does."""
    eap = draft.find_value("dot1x.eap")
    names = ("ca_cert", "ca_path", "ca_cert_usesystem")
    if eap in ("TLS", *TUNNELS) and not any(options.find_option(name) for name in names):
        draft.add_note(line, "ca_cert", f"{whose} has none, so that its station believes any "
                       "server; the station here checks the certificate")


# --- Options that no field has ---

def _place_option(draft: PolicyDraft, option: Option) -> None:
    """Pass an option of wpa_supplicant to the daemon if no field exists for it, or leave it out."""
    value = strip_quotes(option.value)
    if not value.strip():
        draft.leave_out(option.setting, "the file leaves it empty")
    elif _USUAL.get(option.name) == value.upper() or (
            option.name == "openssl_ciphers" and (
                value in _USUAL_CIPHERS or draft.find_value("link.akm") == "suite-b-192")):
        draft.take_over(option.setting)
    elif option.name in _PASSED:
        pass_option(draft, "wpa_supplicant", option)
    else:
        draft.leave_out(option.setting, find_reason("wpa_supplicant", option.name))
