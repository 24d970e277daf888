"""Check hostapd and wpa_supplicant options that a policy passes on under their own names.

A policy has fields for common settings. Other settings of a daemon can be written as its options
(`DaemonOptions`). The table daemon_options.yml has rules for known options, which `load_options`
reads. `find_refusal` returns why no policy may set an option, such as one that the network's
description sets. `check_setting` refuses an option that repeats a field of the policy, or has no
effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase, translate
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from policies.document import read_document
from policies.eap_methods import TUNNELS
from policies.errors import make_fault, show_value
from policies.fields import OptionValue

Daemon = Literal["hostapd", "wpa_supplicant"]
DAEMONS: tuple[Daemon, ...] = ("hostapd", "wpa_supplicant")

OPTION_NAME = r"^[A-Za-z][A-Za-z0-9_]{1,63}$"
#: Word in `needs` that any value fulfils, but not a missing one.
_ANY = "any"
_TABLE = Path(__file__).with_name("daemon_options.yml")
#: Parts of names that contain a secret, in addition to those in the table.
_SECRET_WORDS = frozenset(("secret", "password", "passwd", "passphrase", "pin", "token"))
#: Names with such a word that contain none.
_NO_SECRETS = frozenset(("sae_track_password",))
_SECRET_VALUE = re.compile(r"\b(passw(or)?d|passphrase|secret|pin|psk)\s*=", re.IGNORECASE)
_TLS_SWITCH = re.compile(r"tls_disable_tlsv1_(\d)=(\d)")


class OptionGroup(BaseModel):
    """Rules for some options of a daemon, from policies/daemon_options.yml.

    - `names`: names of the options, separated by spaces. A name may end in `*`.
    - `set_by`: what sets them instead of a policy, a key of `owners`
    - `no_effect`: reason why they have no effect here
    - `needs`: words that a policy must have in other fields, so that they take effect
    - `excludes`: field of a policy with an equal effect
    - `check`: check whose evidence shows that they take effect
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    names: str
    set_by: str = ""
    no_effect: str = ""
    needs: Mapping[str, Sequence[str]] = {}
    excludes: str = ""
    check: str = ""

    def has_option(self, name: str) -> bool:
        """Return whether the rules apply to an option."""
        return any(fnmatchcase(name, pattern) for pattern in self.names.split())


class OptionTable(BaseModel):
    """The table of known daemon options. The first group that contains an option counts."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    owners: Mapping[str, str]
    hostapd: list[OptionGroup]
    wpa_supplicant: list[OptionGroup]

    def groups_of(self, daemon: Daemon) -> list[OptionGroup]:
        """Return the groups of rules for one daemon's options."""
        return self.hostapd if daemon == "hostapd" else self.wpa_supplicant

    def find_group(self, daemon: Daemon, name: str) -> OptionGroup:
        """Return the group of rules for an option, an empty one if the option is unknown."""
        return next((group for group in self.groups_of(daemon) if group.has_option(name)),
                    OptionGroup(names=name))


@cache
def load_options() -> OptionTable:
    """Load the table of known daemon options."""
    return OptionTable.model_validate(read_document(str(_TABLE)).data)


class OptionSetting(NamedTuple):
    """A daemon option that a policy sets: daemon, layer, name and value."""

    layer: str
    daemon: Daemon
    name: str
    value: str | int

    @property
    def path(self) -> tuple[str, ...]:
        """Return the path of keys from the policy's layers to the option."""
        return (self.layer, "options", self.daemon, self.name)

    @property
    def group(self) -> OptionGroup:
        """Return the group of rules for this option."""
        return load_options().find_group(self.daemon, self.name)

    @property
    def label(self) -> str:
        """Return words that name the option and its daemon."""
        return f"{self.daemon}'s option {self.name}"


def is_secret(daemon: Daemon, name: str, value: object = "") -> bool:
    """Return whether a daemon option contains a secret, by its name or its value."""
    return (load_options().find_group(daemon, name).set_by == "secret"
            or (name not in _NO_SECRETS and bool(_SECRET_WORDS & set(name.lower().split("_"))))
            or bool(_SECRET_VALUE.search(str(value))))


def find_refusal(daemon: Daemon, name: str) -> tuple[str, str] | None:
    """Return why no policy may set a daemon option, and what to do. None if it may."""
    table = load_options()
    group = table.find_group(daemon, name)
    label = f"{daemon}'s option {name}"
    if group.set_by or is_secret(daemon, name):
        return f"{label} is not a policy's to set", table.owners[group.set_by or "secret"]
    if group.no_effect:
        return f"{label} has no effect here: {group.no_effect}", "leave it out"
    return None


def check_setting(setting: OptionSetting, find_word: Callable[[str], str | None]) -> None:
    """Refuse a daemon option that repeats a field of the policy, or has no effect.

    Args:
        setting: The option.
        find_word: Returns the policy's word for a field such as `link.keys`, None if it has none.

    Raises:
        PydanticCustomError: The option is refused; pydantic collects the error.
    """
    group = setting.group
    for field, words in group.needs.items():
        word = find_word(field)
        if word is None or (word not in words and _ANY not in words):
            due = f"{field} {' or '.join(words)}" if _ANY not in words else field.split(".")[0]
            is_now = f"{field} is {word}" if word else f"there is no {field}"
            raise make_fault(f"{setting.label} has no effect without {due}, and {is_now}",
                             "leave it out, or change that", setting.path)
    if group.excludes and find_word(group.excludes) is not None:
        raise make_fault(f"{setting.label} and {group.excludes} say the same",
                         "leave out one of them",
                         setting.path)


def check_phase1(setting: OptionSetting, eap: str, version: str) -> None:
    """Refuse wpa_supplicant's option phase1 if it disables the TLS version of the server.

    Args:
        setting: The option.
        eap: The EAP method.
        version: The server's TLS version.

    Raises:
        PydanticCustomError: The option is refused; pydantic collects the error.
    """
    switches = {f"1.{minor}": flag for minor, flag in _TLS_SWITCH.findall(str(setting.value))}
    speaks = f"the server speaks TLS {version} with EAP-{eap}"
    if switches.get(version) == "1":
        raise make_fault(f"phase1 switches TLS {version} off, and {speaks}",
                         f"leave tls_disable_tlsv1_{version[-1]}=1 out of it", setting.path)
    if version == "1.3" and switches.get("1.3") != "0":
        raise make_fault(f"phase1 stands in place of what switches TLS 1.3 on, and {speaks}",
                         "add tls_disable_tlsv1_3=0 to it", setting.path)
    others = [name for name, flag in switches.items() if flag == "0" and name != version]
    if others:
        raise make_fault(f"phase1 switches TLS {others[0]} on without effect: {speaks} alone",
                         f"leave tls_disable_tlsv1_{others[0][-1]}=0 out of it" + (
                             f', or write version: "{others[0]}" in dot1x.tls'
                             if eap in ("TLS", *TUNNELS) and others[0] in ("1.2", "1.3") else "")
                         + (" ('run --fault' has a station that offers nothing else)"
                            if others[0] == "1.3" else ""),
                         setting.path)


def _name_check(daemon: Daemon) -> Callable[[str], str]:
    def check(name: str) -> str:
        if not re.fullmatch(OPTION_NAME[1:-1], name):
            raise make_fault(
                f"{show_value(name)} cannot be an option of {daemon}",
                "write the option's own name: letters, digits and '_'",
            )
        if refused := find_refusal(daemon, name):
            raise make_fault(*refused)
        return name

    return check


def refused_patterns(daemon: Daemon) -> list[str]:
    """Return the names of daemon options that no policy may set, with * for any letters."""
    return sorted({pattern for group in load_options().groups_of(daemon)
                   if group.set_by or group.no_effect for pattern in group.names.split()})


def _editor_hints(daemon: Daemon) -> dict[str, Any]:
    patterns = refused_patterns(daemon)
    names = [name for name in patterns if "*" not in name]
    globs = [translate(name).removeprefix("(?s:").removesuffix(r")\Z") for name in patterns
             if "*" in name]
    return {"propertyNames": {"pattern": OPTION_NAME, "not": {
        "anyOf": [{"enum": names}, {"pattern": f"^({'|'.join(globs)})$"}]}}}


class DaemonOptions(BaseModel):
    """Options that a policy passes to daemons unchanged, by daemon.

    Values are numbers and text, no booleans.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    hostapd: Mapping[Annotated[str, AfterValidator(_name_check("hostapd"))], OptionValue] = Field(
        default={},
        description="Lines of hostapd.conf on the access point.",
        json_schema_extra=_editor_hints("hostapd"),
    )
    wpa_supplicant: Mapping[
        Annotated[str, AfterValidator(_name_check("wpa_supplicant"))], OptionValue
    ] = Field(
        default={},
        description="Lines of wpa_supplicant.conf on the station, for its network.",
        json_schema_extra=_editor_hints("wpa_supplicant"),
    )

    def option_settings(self, layer: str) -> Iterator[OptionSetting]:
        """Yield each daemon option that a layer sets."""
        for daemon in DAEMONS:
            for name, value in getattr(self, daemon).items():
                yield OptionSetting(layer, daemon, name, value)
