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
from policies.conversion.wifi import Option, Options, find_reason
from policies.conversion.wpa_supplicant import network_filler
from policies.vocabulary import CREDENTIAL, FROM_SCENARIO

_SECRETS = re.compile(r"Passphrase|PreSharedKey|.*Password|.*Passphrase|.*Key|.*Cert|SAE-PT-.*|"
                      r"Encrypted.*|.*-Identity", re.IGNORECASE)
_SUFFIXES = (".psk", ".8021x", ".open")
_UNSAID = "the profile does not say it"


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
    values = {setting.key.casefold(): setting for setting in settings}
    for setting in settings:
        _leave_setting(draft, setting)
    if suffix == ".8021x" or any(key.startswith("eap-") for key in values):
        _fill_eap(draft, values, line)
    elif suffix == ".psk" or values.keys() & {"passphrase", "presharedkey"}:
        _fill_passphrase(draft, values)
    elif _is_wpa3_alone(values):
        for name, value in (("cipher", "CCMP"), ("keys", "owe"), ("pmf", 2)):
            draft.assume_field(f"link.{name}", value, "the profile is for networks with OWE alone")


def _leave_setting(draft: PolicyDraft, setting: Setting) -> None:
    if setting.key.casefold() == "hidden" and setting.value.lower() == "true":
        draft.leave_out(setting, find_reason("wpa_supplicant", "scan_ssid"))
    elif _SECRETS.fullmatch(setting.key):
        draft.leave_out(setting, CREDENTIAL)
    elif setting.key.casefold() == "transitiondisable":
        draft.take_over(setting)
    elif setting.section != "[Security] ":  # as a prefix of the key
        draft.leave_out(setting, FROM_SCENARIO)


def _fill_passphrase(draft: PolicyDraft, values: Mapping[str, Setting]) -> None:
    """Set a link layer with a passphrase: WPA3 if the profile is for it, else WPA2."""
    if _is_wpa3_alone(values) or any(key.startswith("sae-pt-") for key in values):
        draft.assume_field("link.keys", "sae", "the profile is for WPA3 alone, or was used with it")
        draft.assume_field("link.pmf", 2, "WPA3 requires it")
    else:
        draft.assume_field("link.keys", "psk", f"{_UNSAID}; iwd takes SAE (WPA3) where the access "
                           "point offers it")
        draft.assume_field("link.pmf", 1, "iwd's default")
    draft.assume_field("link.cipher", "CCMP", f"{_UNSAID}, and this is the most common")


def _is_wpa3_alone(values: Mapping[str, Setting]) -> bool:
    """Return whether a profile of iwd refuses networks older than WPA3."""
    found = values.get("transitiondisable")
    return found is not None and found.value.lower() in ("true", "1")


def _fill_eap(draft: PolicyDraft, values: Mapping[str, Setting], line: int) -> None:
    """Set 802.1X from a profile of iwd, converted to options of wpa_supplicant."""
    method = values.get("eap-method")
    outer = method.value.lower() if method is not None else ""
    identity, own = values.get("eap-identity"), values.get(f"eap-{outer}-phase2-identity")
    found = [("eap", method), ("phase2", values.get(f"eap-{outer}-phase2-method")),
             ("ca_cert", values.get(f"eap-{outer}-cacert")),
             ("domain_match", values.get(f"eap-{outer}-serverdomainmask"))]
    if identity is not None and outer in ("peap", "ttls") and (
            own is None or own.value != identity.value):
        found.append(("anonymous_identity", identity))
    draft.assume_field("link.keys", "eap", "the profile's kind says it")
    draft.assume_field("link.cipher", "CCMP", f"{_UNSAID}, and this is the most common")
    draft.assume_field("link.pmf", 1, "iwd's default")
    options = [Option(name, f"auth={setting.value}" if name == "phase2" else setting.value, setting)
               for name, setting in found if setting is not None]
    network_filler(Options(options), line, "the profile")(draft)
