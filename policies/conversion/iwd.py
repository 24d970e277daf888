"""Make a policy from a network profile of iwd, the station's side of a network.

`read_networks` takes the text of the file (`Source`), and returns a list with its one `Network`,
which can set the fields of a policy. The file's name says the network's name and kind: NAME.psk,
NAME.8021x or NAME.open. EAP settings are converted to options of wpa_supplicant, and read by the
module of wpa_supplicant.conf.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from policies.conversion import syntax
from policies.conversion.network import Network, decode_name
from policies.conversion.result import PolicyDraft
from policies.conversion.source import Setting, Source
from policies.conversion.wifi import (
    HIDDEN,
    Option,
    Options,
    find_reason,
    join_words,
    note_replaced,
)
from policies.conversion.wpa_supplicant import network_filler
from policies.link import EXCHANGED
from policies.vocabulary import CREDENTIAL, FROM_SCENARIO

_SECRETS = re.compile(r"Passphrase|PreSharedKey|.*Password|.*Passphrase|.*Key|.*Cert|SAE-PT-.*|"
                      r"Encrypted.*|.*-Identity", re.IGNORECASE)
_SUFFIXES = (".psk", ".8021x", ".open")
#: Settings for resumed TLS sessions, by method.
_FAST = re.compile(r"EAP-(\w+)-FastReauthentication", re.IGNORECASE)
_UNSAID = "the profile does not say it"
#: iwd's words for networks with an older way in, by the profile's kind.
_TRANSITIONS = {".psk": "personal", ".8021x": "enterprise", ".open": "open"}
#: Settings of the section [Settings] that say which networks iwd joins.
_STRICT = ("transitiondisable", "disabledtransitionmodes", "usedefaulteccgroup")
_TRUE = ("true", "1")


def read_networks(source: Source) -> list[Network]:
    """Return the one network in a profile of iwd.

    Raises:
        PolicyError: The syntax is broken.
    """
    sections = syntax.read_ini(source, syntax.CAPITAL_KEYS)
    settings = [setting for section in sections for setting in section.settings]
    path = PurePath(source.file_name)
    suffix = path.suffix.lower() if path.suffix.lower() in _SUFFIXES else ""
    name = path.name.removesuffix(path.suffix) if suffix else ""
    if re.fullmatch(r"=([0-9a-fA-F]{2})+", name):
        name = decode_name(name[1:])
    line = next((section.line for section in sections if section.name == "Security"), 1)

    def fill_policy(draft: PolicyDraft) -> None:
        _fill_profile(draft, settings, suffix, line)
        for section in sections:
            if section.name.startswith("@pem@"):
                draft.add_note(section.line, "[@pem@...]", CREDENTIAL)

    return [Network(line, (name,) if name else (), settings, fill_policy)]


def _fill_profile(draft: PolicyDraft, settings: Sequence[Setting], suffix: str,
                  line: int) -> None:
    note_replaced(draft, settings)
    values = {setting.key.casefold(): setting for setting in settings
              if setting.key.casefold() not in _STRICT or setting.section == "[Settings] "}
    for setting in settings:
        _leave_setting(draft, setting)
    if suffix == ".8021x" or any(key.startswith("eap-") for key in values):
        _fill_eap(draft, values, line)
        kind = ".8021x"
    elif suffix == ".psk" or values.keys() & {"passphrase", "presharedkey"}:
        _fill_passphrase(draft, values)
        kind = ".psk"
    else:
        kind = ".open"
        if _is_wpa3_alone(values, kind):
            for name, value in (("cipher", "CCMP"), ("keys", "owe"), ("pmf", 2)):
                draft.assume_field(f"link.{name}", value,
                                   "the profile is for networks with OWE alone")
    _set_strictness(draft, values, kind)
    hidden = next((each for each in settings if each.key.casefold() == "hidden"), None)
    if hidden is not None and hidden.value.lower() in _TRUE and "link.keys" in draft.fields:
        draft.set_field(HIDDEN, 1, hidden)


def _leave_setting(draft: PolicyDraft, setting: Setting) -> None:
    if setting.key.casefold() == "hidden" and setting.value.lower() == "true":
        draft.leave_out(setting, find_reason("wpa_supplicant", "scan_ssid"))
    elif _SECRETS.fullmatch(setting.key):
        draft.leave_out(setting, CREDENTIAL)
    elif setting.key.casefold() in _STRICT:
        if setting.section != "[Settings] ":
            draft.leave_out(setting, "iwd reads it in the section [Settings] alone (assumed)")
    elif setting.section != "[Security] ":  # as a prefix of the key
        draft.leave_out(setting, FROM_SCENARIO)


def _fill_passphrase(draft: PolicyDraft, values: Mapping[str, Setting]) -> None:
    """Set a link layer with a passphrase: WPA3 if the profile is for it, else WPA2."""
    if _is_wpa3_alone(values, ".psk") or any(key.startswith("sae-pt-") for key in values):
        draft.assume_field("link.keys", "sae", "the profile is for WPA3 alone, or was used with it")
        draft.assume_field("link.pmf", 2, "WPA3 requires it")
    else:
        draft.assume_field("link.keys", "psk", f"{_UNSAID}; iwd takes SAE (WPA3) where the access "
                           "point offers it")
        draft.assume_field("link.pmf", 1, "iwd's default")
        draft.assume_field("link.accepted", ["SAE", "WPA-PSK-SHA256", "WPA-PSK"],
                           "iwd takes all of them where the access point offers them")
    draft.assume_field("link.cipher", "CCMP", f"{_UNSAID}, and this is the most common")


def _is_strict(values: Mapping[str, Setting]) -> bool:
    """Return whether a profile of iwd refuses TKIP and networks without PMF."""
    found = values.get("transitiondisable")
    return found is not None and found.value.lower() in _TRUE


def _is_wpa3_alone(values: Mapping[str, Setting], kind: str) -> bool:
    """Return whether a profile of iwd refuses networks older than WPA3."""
    modes = values.get("disabledtransitionmodes")
    return _is_strict(values) and modes is not None and _TRANSITIONS[kind] in [
        word.lower() for word in modes.value_words]


def _set_strictness(draft: PolicyDraft, values: Mapping[str, Setting], kind: str) -> None:
    """Set what a profile of iwd requires of networks: PMF, WPA3 and a group."""
    strict, modes, group = (values.get(name) for name in _STRICT)
    if strict is not None and not _is_strict(values):
        draft.take_over(strict)
    elif strict is not None and draft.find_value("link.keys") is not None:
        draft.set_field("link.pmf", 2, strict)
    elif strict is not None:
        draft.leave_out(strict, "it refuses TKIP and networks without PMF, and an open network "
                        "has neither")
    if modes is not None:
        _set_modes(draft, modes, kind, is_alone=_is_wpa3_alone(values, kind),
                   is_strict=strict is not None and _is_strict(values))
    if group is None:
        return
    if draft.find_value("link.keys") not in EXCHANGED:
        draft.leave_out(group, "the group is of SAE and OWE, which the policy lacks")
    elif group.value.lower() in _TRUE:
        draft.set_field("link.group", 19, group)
    else:
        draft.leave_out(group, "iwd learns the group from the network; the policy has hostap's")


def _set_modes(draft: PolicyDraft, modes: Setting, kind: str, *, is_alone: bool,
               is_strict: bool) -> None:
    """Set WPA3 alone where the profile disables its kind's transition mode."""
    others = [word for word in modes.value_words if word.lower() != _TRANSITIONS[kind]]
    if not is_strict:
        draft.leave_out(modes, "iwd reads it with TransitionDisable=true alone (assumed)")
        return
    if is_alone and kind == ".8021x":
        draft.set_field("link.akm", "sha256", modes)
        draft.note_loss(modes, "networks with WPA2-Enterprise are refused; that WPA3-Enterprise "
                        "has SHA-256 is assumed")
    elif is_alone:
        draft.take_over(modes)
    if others:
        draft.note_loss(modes, f"{join_words(others, _TRANSITIONS.values())}: the profile is not "
                        "of this kind")


def _fill_eap(draft: PolicyDraft, values: Mapping[str, Setting], line: int) -> None:
    """Set 802.1X from a profile of iwd, converted to options of wpa_supplicant."""
    method = values.get("eap-method")
    outer = method.value.lower() if method is not None else ""
    identity, own = values.get("eap-identity"), values.get(f"eap-{outer}-phase2-identity")
    found = [("eap", method), ("phase2", values.get(f"eap-{outer}-phase2-method")),
             ("ca_cert", values.get(f"eap-{outer}-cacert")),
             ("domain_match", values.get(f"eap-{outer}-serverdomainmask")),
             ("fast_reauth", values.get(f"eap-{outer}-fastreauthentication"))]
    for setting in values.values():
        if (other := _FAST.fullmatch(setting.key)) and other[1].lower() != outer:
            draft.leave_out(setting, f"it is of EAP-{other[1].upper()}, which the profile does not "
                            "use")
    if identity is not None and outer in ("peap", "ttls") and (
            own is None or own.value != identity.value):
        found.append(("anonymous_identity", identity))
    draft.assume_field("link.keys", "eap", "the profile's kind says it")
    draft.assume_field("link.cipher", "CCMP", f"{_UNSAID}, and this is the most common")
    draft.assume_field("link.pmf", 1, "iwd's default")
    options = [Option(name, _to_supplicant(name, setting.value), setting)
               for name, setting in found if setting is not None]
    network_filler(Options(options), line, "the profile")(draft)


def _to_supplicant(name: str, value: str) -> str:
    """Return a value of iwd as wpa_supplicant's option of this name has it."""
    if name == "fast_reauth":
        return "1" if value.lower() in _TRUE else "0"
    return f"auth={value}" if name == "phase2" else value
