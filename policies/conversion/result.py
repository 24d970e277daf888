"""Collect the fields of a policy that is made from a configuration file.

`PolicyDraft` is the policy in the making. A converter for one kind of file sets its fields, each
with the settings that it comes from. It leaves out other settings with a reason. The result is a
`Conversion`: the policy, its file's text, and notes. A `Note` is about a setting that was left out,
or a field that was assumed. Settings that the converter does not mention are noted as well, so
nothing is dropped silently. `make_refusal` makes the error of a setting that makes a conversion
impossible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped,unused-ignore]
from pydantic import ValidationError

from policies.conversion.source import Setting, Source
from policies.dot1x import Dot1xLayer, TlsSettings
from policies.errors import PolicyError, one_line
from policies.layers import IpsecLayer, Layers, WireGuardLayer, WireLayer
from policies.link import LinkLayer
from policies.options import is_secret
from policies.policy import Policy
from policies.vocabulary import CREDENTIAL, NOT_MEASURED

#: Fields without which a layer says nothing; no other field can be left out in their place.
_ESSENTIAL = frozenset(("link.cipher", "link.keys", "dot1x.eap", "ipsec.ike", "ipsec.ike_proposal",
                        "ipsec.esp_proposal", "wire.macsec"))
#: Fields in the order in which a file has them.
_ORDER = {f"{layer}.{name}": index for layer, model in (
    ("link", LinkLayer), ("dot1x", Dot1xLayer), ("dot1x.tls", TlsSettings), ("ipsec", IpsecLayer),
    ("wireguard", WireGuardLayer), ("wire", WireLayer))
    for index, name in enumerate(model.model_fields)}
_LONGEST_NAME = 100
_PLAIN_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.,'+-]*")


class Note(NamedTuple):
    """A note on a setting of the file, or on a field that no setting gives.

    Line 0 means that there is no place in the file.
    """

    line: int
    label: str
    text: str

    def to_line(self, file: str) -> str:
        """Return the note as one line of text."""
        place = f"{file}:{self.line}" if self.line else file
        return one_line(f"{place}: {self.label}: {self.text}")


class _Field(NamedTuple):
    value: Any
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion: the policy made from a configuration file, and notes."""

    policy: Policy
    #: The policy's file.
    text: str
    #: One line on each setting that is not taken over, and on each field that no setting gives.
    notes: Sequence[str]
    #: Lines of settings that are in the policy, or say what qop does in any case.
    taken_lines: Sequence[int]


@dataclass
class PolicyDraft:
    """A policy in the making: its fields by dotted names, and the settings they come from."""

    source: Source
    #: What stands in for what. The policy's name says it.
    replacements: list[str] = field(default_factory=list)
    fields: dict[str, _Field] = field(default_factory=dict)
    layers: set[str] = field(default_factory=set)
    _taken: set[Setting] = field(default_factory=set)
    _left: dict[Setting, str] = field(default_factory=dict)
    _assumed: dict[str, str] = field(default_factory=dict)
    _notes: list[Note] = field(default_factory=list)

    # --- What converters say ---

    def set_field(self, name: str, value: Any, *settings: Setting) -> None:
        """Set a field of the policy from settings of the file."""
        self.fields[name] = _Field(value, settings)
        self._assumed.pop(name, None)
        self._taken.update(settings)

    def assume_field(self, name: str, value: Any, reason: str) -> None:
        """Set a field of the policy to the usual default, unless the file gives it."""
        if name not in self.fields:
            self.fields[name] = _Field(value, ())
            self._assumed[name] = reason

    def set_nearest(self, fields: Mapping[str, Any], setting: Setting, wanted: str,
                    instead: str) -> None:
        """Set fields to the most similar values that qop supports.

        The policy's name says so, too.
        """
        for name, value in fields.items():
            self.set_field(name, value, setting)
        self._notes.append(Note(setting.line, setting.full_key, f"{wanted} is {NOT_MEASURED}: "
                                f"{instead} stands in for it"))
        self.replacements.append(f"{instead} in place of {wanted}")

    def take_over(self, *settings: Setting) -> None:
        """Note that settings of the file are respected, although no field is set from them.

        They agree with the policy, or with the way in which qop always works.
        """
        self._taken.update(settings)

    def has_taken(self, line: int) -> bool:
        """Return whether a setting on a line is in the policy, or agrees with it."""
        return any(setting.line == line for setting in self._taken)

    def has_set(self, setting: Setting) -> bool:
        """Return whether a field of the policy is set from a setting of the file."""
        return any(setting in field.settings for field in self.fields.values())

    def leave_out(self, setting: Setting, reason: str = NOT_MEASURED) -> None:
        """Note that a setting of the file is left out, with the reason."""
        self._left.setdefault(setting, reason)

    def note_loss(self, setting: Setting, text: str) -> None:
        """Note which part of a setting the policy does not contain."""
        self._taken.add(setting)
        self._notes.append(Note(setting.line, setting.full_key, text))

    def find_value(self, name: str) -> Any:
        """Return the value of a field of the policy, None if it has none."""
        return self.fields[name].value if name in self.fields else None

    def add_note(self, line: int, label: str, text: str) -> None:
        """Add a note on a line without a setting, such as a section of another network."""
        self._notes.append(Note(line, label, text))

    def say_open(self, reason: str) -> None:
        """Add a note that the policy protects nothing on the air."""
        self._notes.append(Note(0, "layers.link", f"left out, the air is open: {reason}"))

    # --- The finished policy ---

    def make_conversion(self, settings: Iterable[Setting], policy_id: str) -> Conversion:
        """Return the finished policy with its notes.

        Args:
            settings: All settings of the file that are about the chosen network.
            policy_id: The policy's id.

        Raises:
            PolicyError: The settings make no policy.
        """
        self._fit_layers()
        name = ", ".join((*self._describe_layers(), *self.replacements))
        if len(name) > _LONGEST_NAME:
            name = name[:_LONGEST_NAME - 3] + "..."
        name = one_line(name).replace("{{", "((").replace("{%", "(%").replace("{#", "(#")
        policy = Policy.model_validate({"id": policy_id,
                                        "name": name, "layers": self._build_layers()})
        notes = self._make_notes(settings)
        return Conversion(policy, self._to_yaml(policy), [note.to_line(self.source.file)
                                                          for note in notes],
                          sorted({setting.line for setting in self._taken}))

    def _describe_layers(self) -> Iterator[str]:
        """Yield words for each layer, which become the policy's name."""
        eap, inner = self.find_value("dot1x.eap"), self.find_value("dot1x.inner")
        if "link.keys" in self.fields:
            yield self._describe_link()
        elif eap:
            yield "802.1X"
        if eap:
            yield f"{eap}-{inner}" if inner else f"EAP-{eap}"
        if version := self.find_value("dot1x.tls.version"):
            yield f"TLS {version}"
        if "ipsec.ike" in self.fields:
            yield f"IKEv{self.find_value('ipsec.ike')} {self.find_value('ipsec.ike_proposal')}"
        if "wireguard" in self.layers:
            yield "WireGuard"
        if "wire.macsec" in self.fields:
            yield "MACsec"
        if not self.fields and not self.layers:
            yield "Open network"

    def _describe_link(self) -> str:
        keys, cipher, akm = (self.find_value(f"link.{name}") for name in ("keys", "cipher", "akm"))
        roaming = self.find_value("link.roaming")
        words = {"static": str(cipher), "sae": "WPA3-SAE", "owe": "OWE",
                 "psk": "WPA-PSK" if cipher == "TKIP" else "WPA2-PSK",
                 "eap": f"802.1X with {cipher}" if str(cipher).startswith("WEP") else
                 "WPA3-Enterprise 192-bit" if akm == "suite-b-192" else
                 "WPA3-Enterprise" if self.find_value("link.pmf") == 2 else
                 "WPA-Enterprise" if cipher == "TKIP" else "WPA2-Enterprise"}[keys]
        return f"{words}, {str(roaming).upper()}" if roaming else words

    def _make_notes(self, settings: Iterable[Setting]) -> list[Note]:
        left = dict(self._left)
        for setting in settings:
            if setting not in self._taken:
                left.setdefault(setting, NOT_MEASURED)
        notes = {*self._notes, *(Note(setting.line, setting.full_key, reason)
                                 for setting, reason in left.items()
                                 if setting not in self._taken)}
        assumed = [Note(0, f"layers.{name}",
                        f"{_to_scalar(self.fields[name].value)} is assumed: {reason}")
                   for name, reason in self._assumed.items() if name in self.fields]
        return [*sorted(notes, key=lambda note: (note.line == 0, note)), *assumed]

    def _fit_layers(self) -> None:
        """Leave out fields that contradict others, until the policy is valid.

        Raises:
            PolicyError: The fields that do not fit cannot be left out.
        """
        for _ in range(len(self.fields) + 1):
            try:
                Layers.model_validate(self._build_layers())
            except ValidationError as error:
                self._leave_misfit(error)
            else:
                return

    def _leave_misfit(self, error: ValidationError) -> None:
        """Leave out a field that an error of the policy's check names."""
        for detail in error.errors(include_url=False):
            place = tuple(str(part) for part in detail["loc"] if part != "[key]")
            context = detail.get("ctx", {})
            for keys in (*context.get("at", ()), ()):
                name = ".".join((*place, *keys))
                if name in self.fields and name not in _ESSENTIAL:
                    self._leave_field(name, str(context.get("what", detail["msg"])))
                    return
        detail = error.errors(include_url=False)[0]
        context = detail.get("ctx", {})
        line = next((field.settings[0].line for field in self.fields.values() if field.settings), 1)
        raise self.source.make_error(
            line, f"no policy can be made of it: {context.get('what', detail['msg'])}",
            str(context.get("advice", "see docs/policies.md")))

    def _leave_field(self, name: str, reason: str) -> None:
        settings = self.fields.pop(name).settings
        self._assumed.pop(name, None)
        for setting in settings:
            if not any(setting in field.settings for field in self.fields.values()):
                self._taken.discard(setting)
            self._notes = [note for note in self._notes
                           if (note.line, note.label) != (setting.line, setting.full_key)]
            _, is_option, option = name.partition(".options.")
            if is_option and is_secret("hostapd", option.rpartition(".")[2], setting.value):
                reason = CREDENTIAL
            self._left[setting] = f"left out: {reason}" if setting not in self._taken else reason
            if setting in self._taken:
                self._notes.append(Note(setting.line, setting.full_key, f"{name} is left out: "
                                        f"{reason}"))

    def _build_layers(self) -> dict[str, Any]:
        layers: dict[str, Any] = {layer: {} for layer in sorted(self.layers)}
        for name, each in self.fields.items():
            block = layers
            *above, key = name.split(".")
            for part in above:
                block = block.setdefault(part, {})
            block[key] = each.value
        return layers

    def _to_yaml(self, policy: Policy) -> str:
        """Return the policy as YAML. Comments say which line of the file gives each field."""
        lines = [f"# Made of {one_line(self.source.file_name)} by './qop policy from'.",
                 f"id: {_to_scalar(policy.id)}", f"name: {_to_scalar(policy.name)}"]
        layers = self._build_layers()
        if not layers:
            return "\n".join((*lines, "layers: {}", ""))
        lines.append("layers:")
        for layer in (name for name in ("link", "dot1x", "aaa", "ipsec", "wireguard", "wire")
                      if name in layers):
            if not layers[layer]:
                lines.append(f"  {layer}: {{}}")
                continue
            lines.append(f"  {layer}:")
            lines += self._block_lines(layer, layers[layer], "    ")
        return "\n".join((*lines, ""))

    def _block_lines(self, path: str, block: Mapping[str, Any], indent: str) -> Iterator[str]:
        for key, value in sorted(block.items(),
                                 key=lambda item: _ORDER.get(f"{path}.{item[0]}", 99)):
            name = f"{path}.{key}"
            if isinstance(value, dict):
                yield f"{indent}{key}:"
                yield from self._block_lines(name, value, f"{indent}  ")
            else:
                yield f"{indent}{key}: {_to_scalar(value)}{self._make_comment(name)}"

    def _make_comment(self, name: str) -> str:
        settings = self.fields[name].settings
        if name in self._assumed:
            return "  # assumed"
        return f"  # line {settings[0].line}: {settings[0].full_key}" if settings else ""


def _to_scalar(value: Any) -> str:
    """Return a value as YAML text that qop reads as the same value."""
    if isinstance(value, list):
        return f"[{', '.join(map(_to_scalar, value))}]"
    if isinstance(value, str):
        plain = _PLAIN_WORD.fullmatch(value) and _read_plain(value) == value
        return value if plain else yaml.dump(value, default_style='"', allow_unicode=True,
                                             width=10**6).strip()
    return str(value)


def _read_plain(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None


def make_refusal(source: Source, setting: Setting, what: str, advice: str) -> PolicyError:
    """Return the error of a setting that makes a conversion impossible."""
    return source.make_error(setting.line, f"{setting.full_key}: {what}", advice)
