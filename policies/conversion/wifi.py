"""Set a policy's fields from options that hostapd and wpa_supplicant have in common.

These functions serve the converters of configuration files to policies. Each takes a `PolicyDraft`
(the policy in the making) and an `Option`, such as `set_cipher` for `rsn_pairwise`. An `Option` is
an option's name and value, and the setting of the file that gives it. Files of OpenWrt,
NetworkManager and iwd are first converted to such options, as these programs do themselves.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

from policies.conversion.result import PolicyDraft, make_refusal
from policies.conversion.source import Setting, strip_quotes
from policies.eap_methods import KEY_DERIVING, METHODS, TUNNELS, USIM_METHODS
from policies.link import EXCHANGED, GroupCipher, KeyManagement
from policies.options import Daemon, find_refusal, is_secret, load_options
from policies.vocabulary import (
    CREDENTIAL,
    FROM_SCENARIO,
    ISOLATED,
    KEY_MANAGEMENTS,
    NOT_MEASURED,
    OTHER_KEY_MANAGEMENTS,
    PAIRWISE_CIPHERS,
    SERVER_NAME,
    find_meaning,
    find_option_reason,
    find_realm,
    find_server_name,
    fold_word,
)

_NUMBER = re.compile(r"\s*(\d{1,9})\b")
#: Options that hold a key of WEP.
WEP_KEYS = ("wep_key0", "wep_key1", "wep_key2", "wep_key3")
_WEP_DIGITS = {10: "WEP-40", 26: "WEP-104"}
_WEP_CHARACTERS = {5: "WEP-40", 13: "WEP-104"}


#: The option of hostapd for a hidden network.
HIDDEN = "link.options.hostapd.ignore_broadcast_ssid"
#: Options that name several servers, keys or networks, each on a line of its own.
_REPEATABLE = re.compile(r"r[01]kh$|sae_password$|(auth|acct)_server_|radius_(auth|acct)_req_attr$|"
                         r"nai_realm$|roaming_consortium|venue_(name|url)$|anqp_elem$|hs20_|osu_|"
                         r"operator_|airtime_bss_weight$|maclist$")


class Option(NamedTuple):
    """An option of hostapd or wpa_supplicant, with the setting of the file that gives it."""

    name: str
    value: str
    setting: Setting

    @property
    def value_words(self) -> list[str]:
        """Return the words of the option's value in upper case, without quotes."""
        return [word for word in re.split(r"[\s,;]+", strip_quotes(self.value).upper()) if word]


def note_replaced(draft: PolicyDraft, settings: Sequence[Setting]) -> set[Setting]:
    """Return the settings that a later one of the same key replaces, and note each of them.

    Settings of several servers or keys are read as a list, and replace nothing.
    """
    last = {setting.full_key.casefold(): setting for setting in settings
            if strip_quotes(setting.value).strip()}
    replaced = set()
    for setting in settings:
        later = last.get(setting.full_key.casefold(), setting)
        if later.line > setting.line and not _REPEATABLE.match(setting.key):
            draft.note_loss(setting, f"line {later.line} has another value, and the last one "
                            "counts")
            replaced.add(setting)
    return replaced


@dataclass
class Options:
    """The daemon options of one network. If several have one name, the last one counts."""

    options: Sequence[Option]

    def find_option(self, name: str) -> Option | None:
        """Return the option of a name, None if it is missing or empty."""
        return next((option for option in reversed(self.options)
                     if option.name == name and strip_quotes(option.value).strip()), None)

    def take_last(self, draft: PolicyDraft) -> Options:
        """Return the options that count, and note those that later ones replace."""
        replaced = note_replaced(draft, [option.setting for option in self.options
                                         if not _REPEATABLE.match(option.name)])
        return Options([option for option in self.options if option.setting not in replaced])

    def read_number(self, draft: PolicyDraft, name: str, default: int = 0) -> int:
        """Return the number in an option, and note that the option is respected.

        Raises:
            PolicyError: The value is no number.
        """
        option = self.find_option(name)
        if option is None:
            return default
        found = _NUMBER.match(strip_quotes(option.value))
        if found is None:
            raise make_refusal(draft.source, option.setting, "a number belongs here",
                               "write 0 or another number")
        draft.take_over(option.setting)
        if strip_quotes(option.value)[found.end():].strip():
            draft.note_loss(option.setting, "what stands behind the number is left out")
        return int(found[1])

    def is_set(self, draft: PolicyDraft, name: str) -> bool:
        """Return whether an option is a number other than 0."""
        return self.read_number(draft, name) != 0


# --- Key management and ciphers ---


def set_cached_keys(draft: PolicyDraft, option: Option) -> None:
    """Set moves with cached keys (OKC), or note why the policy has none.

    Args:
        draft: The policy.
        option: The option that switches OKC on.
    """
    if draft.find_value("link.keys") != "eap":
        draft.note_loss(option.setting, "keys are cached after 802.1X, which the policy lacks")
    elif draft.find_value("link.roaming") is None:
        draft.set_field("link.roaming", "okc", option.setting)
    else:
        draft.note_loss(option.setting, "a policy has one way to move: it keeps fast transition, "
                        "and 'roaming: okc' measures the other")


#: Groups, ciphers and EAP methods that a message may name.
_GROUPS = tuple(map(str, range(1, 33)))
_CIPHERS = (*PAIRWISE_CIPHERS, "WEP40", "WEP104", "NONE", "GTK_NOT_USED")
_EAP_METHODS = (*METHODS, "SIM", "FAST", "TEAP", "LEAP", "GTC", "OTP", "MSCHAP", "MSCHAPV2", "CHAP",
                "PAP", "IKEV2", "PSK", "GPSK", "PAX", "SAKE", "EKE")


def set_key_management(draft: PolicyDraft, option: Option, all_of: str) -> str:
    """Set where a policy's keys come from, and return the chosen key management.

    If the option lists several key managements, the one that wpa_supplicant prefers is chosen.

    Args:
        draft: The policy.
        option: The option, such as wpa_key_mgmt.
        all_of: The field for all key managements of a network or a station, such as link.offered.
    """
    words = list(dict.fromkeys(option.value_words))
    known = [word for word in words if word in KEY_MANAGEMENTS]
    if known:
        chosen = min(known, key=list(KEY_MANAGEMENTS).index)
        for name, value in _key_fields(chosen).items():
            draft.set_field(name, value, option.setting)
        names = (*KEY_MANAGEMENTS, *OTHER_KEY_MANAGEMENTS, "NONE", "IEEE8021X")
        mixed = _find_mixed(chosen, words)
        if len(mixed) > 1:
            draft.set_field(all_of, mixed, option.setting)
        if others := [word for word in words if word not in mixed]:
            is_slow = draft.find_value("link.roaming") is None and any(
                word.startswith("FT-") for word in others)
            draft.note_loss(option.setting, f"{join_words(others, names)}: not together with "
                            f"{chosen} here, which a station that has all takes" + (
                                "; 'roaming: ft' measures fast transition" if is_slow else ""))
        return chosen
    for word in words:
        nearest = OTHER_KEY_MANAGEMENTS.get(word)
        if nearest is not None:
            draft.set_nearest(_key_fields(nearest), option.setting, word, nearest)
            if others := [other for other in words if other != word]:
                draft.note_loss(option.setting, f"{join_words(others, OTHER_KEY_MANAGEMENTS)}: a "
                                "policy has one of them")
            return nearest
    others = [word for word in words if word in OTHER_KEY_MANAGEMENTS]
    raise make_refusal(draft.source, option.setting,
                       f"{others[0]} is {NOT_MEASURED}" if others else
                       "a key management belongs here", f"known are {', '.join(KEY_MANAGEMENTS)}")


def _find_mixed(chosen: str, words: Sequence[str]) -> list[str]:
    """Return the key managements that a policy can have together with the chosen one.

    EAP and passphrases have networks of their own, and a fast transition is returned only if the
    chosen one is a fast transition.
    """
    known = get_args(KeyManagement)
    return [word for word in words if word == chosen or (
        {word, chosen} <= {*known} and ("EAP" in word) == ("EAP" in chosen)
        and (not word.startswith("FT-") or chosen.startswith("FT-")))]


def _key_fields(word: str) -> Mapping[str, object]:
    return {name: value for name, value in KEY_MANAGEMENTS[word].items()
            if name in ("link.keys", "link.akm", "link.roaming")}


def set_cipher(draft: PolicyDraft, option: Option) -> None:
    """Set the policy's cipher of data frames: of several, the one that stations prefer."""
    words = option.value_words
    known = [word for word in words if word in PAIRWISE_CIPHERS]
    if not known:
        raise make_refusal(draft.source, option.setting, "a pairwise cipher belongs here",
                           f"known are {', '.join(PAIRWISE_CIPHERS)}")
    chosen = min(known, key=PAIRWISE_CIPHERS.index)
    draft.set_field("link.cipher", chosen, option.setting)
    if others := [word for word in dict.fromkeys(words) if word != chosen]:
        draft.note_loss(option.setting, f"{join_words(others, _CIPHERS)}: a policy has one cipher "
                        f"between two; a station that has all takes {chosen}")


def join_words(words: Sequence[str], known: Collection[str]) -> str:
    """Return words as a list in a sentence. Words that may be secret are left out."""
    shown = list(dict.fromkeys(word if word in known else "another word" for word in words))
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def describe_version(cipher: object) -> str:
    """Return words for the version of WPA that a policy has with a cipher."""
    return f"{cipher} goes with {'WPA' if cipher == 'TKIP' else 'WPA2'}"


def set_pmf(draft: PolicyDraft, option: Option | None) -> None:
    """Set the policy's protection of management frames, which SAE and OWE need."""
    keys = draft.find_value("link.keys")
    if option is not None:
        number = Options([option]).read_number(draft, option.name)
        if number in (1, 2):
            draft.set_field("link.pmf", number, option.setting)
        elif number == 0 and keys in EXCHANGED:
            draft.set_nearest({"link.pmf": 1}, option.setting,
                              f"{str(keys).upper()} without protected management frames", "pmf 1")
        elif number > 2:
            draft.leave_out(option.setting, "0, 1 or 2 belongs here")
            draft.fields.pop("link.pmf", None)
    elif keys in EXCHANGED:
        draft.assume_field("link.pmf", 2, "the file does not say it, and WPA3 requires it with "
                           f"{str(keys).upper()}")


def set_sae(draft: PolicyDraft, daemon: Daemon, options: Options) -> None:
    """Set how SAE derives its element (hunting or hash-to-element).

    Both ways at once are an option of the daemon.
    """
    option = options.find_option("sae_pwe")
    if option is None or draft.find_value("link.keys") != "sae":
        return
    number = options.read_number(draft, "sae_pwe")
    if number in (0, 1):
        draft.set_field("link.sae", ("loop", "h2e")[number], option.setting)
    elif number == 2:
        pass_option(draft, daemon, option)
    else:
        draft.leave_out(option.setting, "0, 1 or 2 belongs here")


def set_group(draft: PolicyDraft, option: Option | None, all_of: str = "") -> None:
    """Set the group of SAE or OWE: the first of several that qop supports.

    Args:
        draft: The policy to change.
        option: The option with groups, such as sae_groups.
        all_of: The field for all groups, such as link.station_groups; "" if the policy has one.
    """
    if option is None:
        return
    known = [word for word in option.value_words if word in ("19", "20", "21")]
    if not known:
        draft.leave_out(option.setting, f"groups other than 19, 20 and 21 are {NOT_MEASURED}")
        return
    draft.set_field("link.group", int(known[0]), option.setting)
    has_list = bool(all_of) and draft.find_value("link.keys") == "sae"
    if has_list and len(set(known)) > 1:
        draft.set_field(all_of, [int(word) for word in dict.fromkeys(known)], option.setting)
    if others := [word for word in option.value_words
                  if word != known[0] and not (has_list and word in known)]:
        draft.note_loss(option.setting, f"{join_words(others, _GROUPS)}: " + (
            f"{NOT_MEASURED}" if has_list else "a policy has one group"))


def set_group_management(draft: PolicyDraft, option: Option | None) -> None:
    """Set the policy's cipher of group-addressed management frames."""
    if option is None:
        return
    word = strip_quotes(option.value).strip().upper().replace("AES-128-CMAC", "BIP-CMAC-128")
    if word == "BIP-GMAC-256":
        draft.set_field("link.group_mgmt", word, option.setting)
    elif word == "BIP-CMAC-128":
        draft.take_over(option.setting)
    else:
        draft.leave_out(option.setting, "only BIP-CMAC-128 and BIP-GMAC-256 are measured here")


def set_group_cipher(draft: PolicyDraft, option: Option) -> None:
    """Set the policy's cipher of data frames to all, if it is another one than between two."""
    cipher, words = draft.find_value("link.cipher"), option.value_words
    if words == [cipher]:
        draft.take_over(option.setting)
    elif len(words) == 1 and words[0] in get_args(GroupCipher):
        draft.set_field("link.group_cipher", words[0], option.setting)
    elif cipher in words:
        draft.note_loss(option.setting, "several ciphers of frames to all: the access point "
                        "chooses one, and link.group_cipher names it where it differs")


def set_switch(draft: PolicyDraft, options: Options, option: str, name: str) -> None:
    """Set a field of the policy to 1 if an option is 1."""
    found = options.find_option(option)
    if found is None:
        return
    number = options.read_number(draft, option)
    if number == 1:
        draft.set_field(name, 1, found.setting)
    elif number > 1:
        draft.note_loss(found.setting, f"values other than 0 and 1 are {NOT_MEASURED}")


def assume_cipher(draft: PolicyDraft, reason: str, *, is_old: bool = False) -> None:
    """Set the most common cipher, because the file does not name one: CCMP, or TKIP.

    Args:
        draft: The policy to change.
        reason: The reason for the choice, for the user.
        is_old: Whether the network uses the first version of WPA, whose cipher is TKIP.
    """
    if draft.find_value("link.akm") != "suite-b-192":
        draft.assume_field("link.cipher", "TKIP" if is_old else "CCMP", reason)


def complete_link(draft: PolicyDraft) -> None:
    """Set the further fields of a link layer with the 192-bit suite."""
    if draft.find_value("link.cipher") == "TKIP":  # which has one key management here
        for name in ("link.offered", "link.accepted"):
            draft.fields.pop(name, None)
    if draft.find_value("link.akm") != "suite-b-192":
        return
    reason = "the 192-bit suite of WPA3-Enterprise has no other"
    draft.assume_field("link.group_mgmt", "BIP-GMAC-256", reason)
    draft.assume_field("link.pmf", 2, reason)
    draft.assume_field("link.cipher", "GCMP-256", reason)
    if draft.find_value("dot1x.eap") == "TLS":
        draft.assume_field("dot1x.tls.key", "p-384", reason)


def set_wep(draft: PolicyDraft, options: Options, keys: Sequence[Option], *,
            is_from_eap: bool) -> None:
    """Set a link layer with WEP, with configured keys or keys from EAP.

    Args:
        draft: The policy.
        options: The options of the network.
        keys: Options with keys, or with the lengths of keys.
        is_from_eap: Whether the keys come from EAP.
    """
    chosen = options.find_option(f"wep_key{_wep_index(draft, options)}") or keys[0]
    cipher = "WEP-104"
    if not is_from_eap:
        value = chosen.value
        size = _WEP_CHARACTERS if value.startswith('"') else _WEP_DIGITS
        cipher = size.get(len(strip_quotes(value)), "")
        if not cipher:
            raise make_refusal(draft.source, chosen.setting, "a key of 40 or 104 bits belongs here",
                               "write 10 or 26 hexadecimal digits, or 5 or 13 characters in quotes")
    elif chosen.name not in WEP_KEYS and strip_quotes(chosen.value).strip() == "5":
        cipher = "WEP-40"
    draft.set_field("link.cipher", cipher,
                    *([] if chosen.name in WEP_KEYS else [chosen.setting]))
    draft.set_field("link.keys", "eap" if is_from_eap else "static")
    for option in keys:
        if option.name in WEP_KEYS:
            draft.leave_out(option.setting, CREDENTIAL)
        else:
            draft.take_over(option.setting)


def _wep_index(draft: PolicyDraft, options: Options) -> int:
    for name in ("wep_default_key", "wep_tx_keyidx"):
        if options.find_option(name) is not None:
            return options.read_number(draft, name)
    return 0


# --- 802.1X ---

#: EAP methods that cannot be measured, with what is like them: a TLS tunnel, or a card.
_NEAREST_EAP = {"TEAP": "PEAP", "FAST": "PEAP", "SIM": "AKA"}
#: Inner methods that cannot be measured, with the nearest that can: a password, or a challenge.
_NEAREST_INNER = {"MSCHAP": "MSCHAPV2", "CHAP": "PAP", "GTC": "PAP", "MD5": "PAP", "OTP": "GTC"}


#: Words of phase2 that a message may name, beside the method.
_PHASE2_WORDS = ("mschapv2_retry=0", "mschapv2_retry=1")


def set_eap(draft: PolicyDraft, option: Option) -> None:
    """Set the policy's EAP method: the first of several that qop supports."""
    words = list(dict.fromkeys(option.value_words))
    known = [str(fields["dot1x.eap"]) for word in words
             if (fields := find_meaning("dot1x.eap", word)) and "dot1x.eap" in fields]
    if draft.find_value("link.keys") == "eap":
        known = [name for name in known if name in KEY_DERIVING] or known
    near = [word for word in words if word in _NEAREST_EAP]
    if known:
        draft.set_field("dot1x.eap", known[0], option.setting)
        others = [word for word in words if fold_word(word) not in (
            fold_word(known[0]), f"eap{fold_word(known[0])}")]
        if others:
            draft.note_loss(option.setting,
                            f"{join_words(others, _EAP_METHODS)}: a policy has one EAP method")
    elif near:
        nearest = _NEAREST_EAP[near[0]]
        draft.set_nearest({"dot1x.eap": nearest}, option.setting, f"EAP-{near[0]}",
                          f"EAP-{nearest}")
        if others := [word for word in words if word != near[0]]:
            draft.note_loss(option.setting,
                            f"{join_words(others, _EAP_METHODS)}: a policy has one EAP method")
    else:
        raise make_refusal(draft.source, option.setting, f"this EAP method is {NOT_MEASURED}",
                           f"known are {', '.join(METHODS)}")
    if draft.find_value("dot1x.eap") in USIM_METHODS:
        draft.assume_field("aaa.server", "hostapd", "FreeRADIUS has no EAP-AKA")


def set_inner(draft: PolicyDraft, option: Option | None) -> None:
    """Set the EAP method inside a TLS tunnel. The default is the most common one."""
    known = TUNNELS.get(str(draft.find_value("dot1x.eap")), ())
    if option is None or not known:
        if known:
            usual = "MSCHAPV2" if draft.find_value("dot1x.eap") == "PEAP" else "PAP"
            draft.assume_field("dot1x.inner", usual,
                               "the file does not say the inner method, and this is the most "
                               f"common in {draft.find_value('dot1x.eap')}")
        return
    words = [word.rpartition("=")[2].replace("TUNNELED-", "").removeprefix("EAP-")
             for word in option.value_words if "=" not in word or word.startswith("AUTH")]
    further = [word.lower() for word in option.value_words
               if "=" in word and not word.startswith("AUTH")]
    if words and further:
        draft.note_loss(option.setting, f"{join_words(further, _PHASE2_WORDS)}: {NOT_MEASURED}")
    chosen = next((word for word in words if word in known), None)
    if chosen is not None:
        draft.set_field("dot1x.inner", chosen, option.setting)
        if others := [word for word in dict.fromkeys(words) if word != chosen]:
            draft.note_loss(option.setting,
                            f"{join_words(others, _EAP_METHODS)}: a policy has one inner method")
        return
    # No password stands in for a certificate.
    near = next((word for word in words if word in _NEAREST_INNER or any(
        word in within and word != "TLS" for within in TUNNELS.values())), None)
    if near is None and words:
        raise make_refusal(draft.source, option.setting, f"this inner method is {NOT_MEASURED}",
                           f"known in {draft.find_value('dot1x.eap')} are {' and '.join(known)}")
    if near is None:
        set_inner(draft, None)
        return
    nearest = _NEAREST_INNER.get(near, known[0])
    nearest = nearest if nearest in known else known[0]
    draft.set_nearest({"dot1x.inner": nearest}, option.setting, near, nearest)
    if others := [word for word in dict.fromkeys(words) if word != near]:
        draft.note_loss(option.setting,
                        f"{join_words(others, _EAP_METHODS)}: a policy has one inner method")


def assume_eap(draft: PolicyDraft, whose: str) -> None:
    """Set the most common EAP method, which an access point's configuration does not name."""
    if draft.find_value("link.akm") == "suite-b-192":
        draft.assume_field("dot1x.eap", "TLS", "the 192-bit suite of WPA3-Enterprise has no other")
        return
    draft.assume_field("dot1x.eap", "PEAP", f"{whose} does not say the EAP method, which the "
                       "RADIUS server and the stations have; this is the most "
                       "common")
    draft.assume_field("dot1x.inner", "MSCHAPV2", "the most common in PEAP")


def set_identity(draft: PolicyDraft, option: Option | None, user: Option | None) -> None:
    """Set whether the user's own identity is sent unencrypted."""
    if option is None or not strip_quotes(option.value):
        return
    word = strip_quotes(option.value)
    if user is not None and strip_quotes(user.value) == word:
        draft.take_over(option.setting)
        return
    draft.set_field("dot1x.identity", "anonymous", option.setting)
    realm = find_realm(word)
    has_tls = draft.find_value("dot1x.eap") in ("TLS", *TUNNELS)
    if realm is not None and has_tls:
        draft.set_field("dot1x.tls.realm", realm, option.setting)
    if word.partition("@")[0] != "anonymous" or ("@" in word and (realm is None or not has_tls)):
        draft.note_loss(option.setting, "the outer identity is 'anonymous' here" + (
            ", with its realm (dot1x.tls.realm)" if realm is not None and has_tls else ""))


#: Options with the server's name, the one that is used first first, and the field of each.
_SERVER_NAMES = {"domain_match": "server_name", "altsubject_match": "server_name",
                 "domain_suffix_match": "server_domain", "subject_match": "server_name"}


def set_server_name(draft: PolicyDraft, options: Options) -> None:
    """Set the RADIUS server's name or domain, if the station checks it."""
    if draft.find_value("dot1x.eap") not in ("TLS", *TUNNELS):
        return
    taken = ""
    for name, field in _SERVER_NAMES.items():
        option = options.find_option(name)
        words = re.split(r"[;,]", strip_quotes(option.value)) if option is not None else []
        words = [word for word in words if word.strip()]
        fields = find_server_name(f"dot1x.tls.{field}", words[0]) if words else None
        if option is None or not words:
            continue
        if taken:
            draft.leave_out(option.setting, f"a policy has one name of the server, from {taken}")
        elif fields is None:
            draft.leave_out(option.setting, SERVER_NAME)
        else:
            taken = option.setting.key
            for path, value in fields.items():
                draft.set_field(path, value, option.setting)
            if len(words) > 1:
                draft.note_loss(option.setting, f"the first of {len(words)} names: a policy has "
                                "one")


# --- MACsec ---

#: MACsec's cipher suites by their numbers in wpa_supplicant 2.11.
_SUITES = {0: "GCM-AES-128", 1: "GCM-AES-256"}


def set_macsec(draft: PolicyDraft, options: Options, eap: Option | None) -> None:
    """Set MACsec on the wires behind access points.

    Args:
        draft: The policy.
        options: The options of the daemon at an end of the wire.
        eap: The option that has the key (CAK) come from EAP, None if it is configured.
    """
    policy = options.find_option("macsec_policy")
    assert policy is not None
    index = options.find_option("macsec_csindex")
    name = _SUITES.get(options.read_number(draft, "macsec_csindex"), "GCM-AES-256")
    suite = {"wire.macsec": name}
    draft.set_field("wire.macsec", name, *(each.setting for each in (index, policy)
                                           if each is not None))
    if index is not None and options.read_number(draft, "macsec_csindex") not in _SUITES:
        draft.set_nearest(suite, index.setting, "a cipher suite of MACsec with XPN", name)
    if eap is not None:
        draft.set_nearest(suite, eap.setting, "a key (CAK) from EAP", "a key of the run")
    integrity, window = (options.find_option(f"macsec_{name}") for name in (
        "integ_only", "replay_window"))
    if integrity is not None and options.is_set(draft, "macsec_integ_only"):
        draft.set_field("wire.encrypts", 0, integrity.setting)
    if window is not None and (late := options.read_number(draft, window.name)):
        draft.set_field("wire.replay_window", late, window.setting)
    protects = options.find_option("macsec_replay_protect")
    if protects is not None and not options.is_set(draft, protects.name):
        draft.note_loss(protects.setting, "MACsec always protects from repeated frames here")
    for name in ("key_mgmt", "eapol_flags", "macsec_policy", "ap_scan", "eapol_version"):
        if (found := options.find_option(name)) is not None:
            draft.take_over(found.setting)


# --- Options that no field has ---

#: What the owner of an option in policies/daemon_options.yml means for one who imports it.
_OWNERS = {
    "topology": FROM_SCENARIO, "secret": CREDENTIAL,
    "socket": "the harness talks to the daemon through a socket of its own",
    "log": "the harness needs the daemon's whole log",
    "medium": "the harness keeps EAPOL frames on the emulated medium",
    "second": "one network is measured at a time",
    "full": "every authentication is measured in full, from the same start",
    "code": "no code is loaded into the daemons",
    "sae_pk": "each run makes keys of its own for SAE-PK; write link.sae: pk",
    "phy": "the radio comes from the scenario"}
_RADIO = re.compile(
    r"(ht|vht|he_|wmm|tx_queue|acs|op_class|ieee80211(n|ac|ax|d|h)$|country|beacon_int|"
    r"dtim|preamble|supported_rates|basic_rates|mcast_rate|noscan|obss|require_|"
    r"beacon_rate|rssi_|txpower|htmode|hwmode|cell_density|legacy_rates|distance|chanbw)")
#: Other options with a reason of their own.
_REASONS = {
    **dict.fromkeys(("domain_match", "domain_suffix_match", "subject_match", "altsubject_match",
                     "check_cert_subject", "domain_match2", "domain_suffix_match2",
                     "subject_match2", "altsubject_match2"),
                    SERVER_NAME),
    "ocsp": "the testbed's RADIUS server gives no OCSP response about itself, and "
            "dot1x.tls.revocation has it check the certificates of stations",
    "scan_ssid": "add link.options.hostapd.ignore_broadcast_ssid: 1 if the network is hidden",
    "ft_over_ds": "it is of fast transition, which the policy does not have",
    "sae_pwe": "it is of SAE, which the policy does not have",
    "max_num_sta": FROM_SCENARIO,
    "ap_isolate": ISOLATED,
    **dict.fromkeys(("mobility_domain", "r1_key_holder", "erp_domain", "fils_realm",
                     "fils_cache_id"), "qop has its own, the same for all access points"),
    **dict.fromkeys(("pmk_r1_push", "ft_bridge"),
                    "it is of fast transition, which the policy does not have"),
    "auth_algs": "open system authentication is measured here",
    **dict.fromkeys(("eap_server", "eap_user_file"), "the authentication server is a node of its "
                    "own here, and layers.aaa names its program"),
    "auth_server_type": "dot1x.transport is of 802.1X, which the policy does not have",
    "acct_server_addr": "dot1x.accounting is of 802.1X, which the policy does not have",
    "acct_server_port": "qop has its own; dot1x.accounting has access points use it",
    "fast_reauth": "dot1x.tls.sessions is of EAP-TLS, PEAP and TTLS",
    "ap_scan": "the harness says which access point a station joins",
    "owe_only": "a station with keys: owe is measured in a network with OWE",
    "wpa_psk_file": "link.passphrases is of WPA2 with a passphrase alone",
    "dynamic_vlan": "link.vlan is of 802.1X, and of a network with link.passphrases",
    **dict.fromkeys(("group", "group_cipher"), "the cipher of frames to all is "
                    "link.group_cipher where it differs")}


def find_reason(daemon: Daemon, name: str) -> str:
    """Return why an option is left out."""
    if name in _REASONS:
        return _REASONS[name]
    group = load_options().find_group(daemon, name)
    if is_secret(daemon, name):
        return CREDENTIAL
    if reason := _OWNERS.get(group.set_by) or find_option_reason(daemon, name):
        return reason
    if name.startswith(("wps_", "upnp_")):
        return f"WPS is {NOT_MEASURED}"
    if _RADIO.match(name):
        return "the radio comes from the scenario"
    return NOT_MEASURED + (f", but a policy's options can have it for {daemon}"
                           if group.needs or group.check else "")


def pass_option(draft: PolicyDraft, daemon: Daemon, option: Option) -> None:
    """Write an option into the policy, which passes it to the daemon unchanged."""
    if find_refusal(daemon, option.name) or is_secret(daemon, option.name, option.value):
        draft.leave_out(option.setting, find_reason(daemon, option.name))
        return
    layer = "link" if "link.keys" in draft.fields else "dot1x"
    if f"{layer}.{'keys' if layer == 'link' else 'eap'}" not in draft.fields:
        draft.leave_out(option.setting)
        return
    value = strip_quotes(option.value)
    number = int(value) if re.fullmatch(r"0|[1-9]\d{0,8}", value) else value
    draft.set_field(f"{layer}.options.{daemon}.{option.name}", number, option.setting)
