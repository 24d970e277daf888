"""Read a policy file that uses the words of other programs or products.

A user may write `ieee80211w: 2` or `security: WPA2-Enterprise`, which no policy file may have.
`DraftReader` takes the keys and values of such a draft. It translates them with the dictionary
policies/vocabulary.py, and collects the fields of a policy and the mistakes (`Change`).
`policies.drafts` makes the error message with the corrected line from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from documents.yaml_reader import KeyPath, YamlDocument
from policies.dot1x import Dot1xLayer, TlsSettings
from policies.draft_words import (
    CAK_CONFIGURED,
    CAK_FROM_EAP,
    CAK_SOURCES,
    FALSE,
    GROUP_REKEY,
    HAVING_PRESHARED_KEYS,
    HIDDEN,
    HINTS,
    KINDS_OF_KEYS,
    LISTS,
    MAYBE_SECRET,
    NAMED_SECURITY,
    OLD_AND_NEW,
    ONE_OF_A_NETWORK,
    OVER_AIR,
    PASSPHRASES,
    PERIODS,
    PLAIN_TLS_KEYS,
    PRESHARED_KEYS,
    PROPOSAL_PARTS,
    PROPOSALS,
    REVOCATIONS,
    ROAMING_SWITCHES,
    TLS_KEYS,
    TRUE,
    WIRE_MODES,
    find_all,
    join_words,
    list_proposals,
)
from policies.errors import show_value, suggest_word
from policies.layers import (
    IpsecLayer,
    Layers,
    MptcpLayer,
    QuicLayer,
    WireGuardLayer,
    WireLayer,
)
from policies.link import LinkLayer
from policies.options import Daemon, find_refusal, load_options
from policies.proposals import AEADS
from policies.vocabulary import (
    CERTIFICATE_STATES,
    CREDENTIAL,
    FROM_MEDIUM,
    FROM_SCENARIO,
    KEY_MANAGEMENTS,
    KEY_NAMES,
    LAYER_NAMES,
    LEFT_OUT,
    NEAREST_EAP,
    NO_CAK_FROM_EAP,
    NOT_HERE,
    NOT_MEASURED,
    OFF_WORDS,
    TRANSITION,
    VALUE_WORDS,
    WHY_NOT_HERE,
    Fields,
    find_meaning,
    find_mixture,
    find_nearest_proposal,
    find_option_reason,
    find_proposal,
    find_token,
    fold_word,
    read_quantity,
    read_seconds,
)

#: Layers whose keys have other names.
MODELS: Mapping[str, type[BaseModel]] = {
    "link": LinkLayer, "dot1x": Dot1xLayer, "ipsec": IpsecLayer, "wireguard": WireGuardLayer,
    "quic": QuicLayer, "mptcp": MptcpLayer, "wire": WireLayer}
#: Keys at the top level of a policy.
ROOT_KEYS = ("id", "name", "layers", "extends")
#: Why a key is left out that no table knows.
NOT_KNOWN = "not known"
_BLOCKS: Mapping[str, type[BaseModel]] = {**MODELS, "dot1x.tls": TlsSettings}


class Change(NamedTuple):
    """A mistake in a draft: its place, its description, and the layers to be corrected."""

    path: KeyPath
    text: str
    targets: frozenset[str]
    #: Why a key is left out, whose name is then the text.
    reason: str = ""
    #: Whether it is about the last key of the path, not about its value.
    is_about_key: bool = False
    #: Whether it is a misspelling, or a key that is missing. These alone make no draft.
    is_minor: bool = False
    #: Whether the corrected line shows it, so that it need not be described.
    is_silent: bool = False
    #: Whether the corrected line has less than the draft.
    is_loss: bool = False


class NotUnderstoodError(Exception):
    """An error: a word in a draft has no known meaning in its place."""


def short_name(name: str) -> str:
    """Return a field's name without the name of its layer."""
    return name.partition(".")[2]


def merge_options(earlier: Any, later: Any) -> Any:
    """Return the options of daemons in two blocks. If both have an option, the later one counts.

    The later value is returned as it is if one of the values is no block of daemons.
    """
    if not isinstance(earlier, dict) or not isinstance(later, Mapping):
        return {**later} if isinstance(later, Mapping) else later
    merged = dict(earlier)
    for daemon, options in later.items():
        former = merged.get(daemon)
        merged[daemon] = {**former, **options} if (
            isinstance(former, Mapping) and isinstance(options, Mapping)) else options
    return merged


def _find_tls_candidates(block: str | None, folded: str) -> Iterator[str]:
    """Yield the settings of TLS that a key of a draft may mean, by its folded name."""
    if block == "dot1x.tls":
        yield from (f"dot1x.tls.{name}" for name in TlsSettings.model_fields
                    if fold_word(name) in (folded, folded.removeprefix("tls"), f"tls{folded}")
                    or (name, folded) in TLS_KEYS)
        if ("group", folded) in TLS_KEYS:  # a certificate's, if no such group is measured
            yield "dot1x.tls.key"
    elif block == "dot1x":
        yield from (f"dot1x.tls.{name}" for name in TlsSettings.model_fields
                    if fold_word(name) == folded
                    or ((name, folded) in TLS_KEYS and folded in PLAIN_TLS_KEYS))


def show_allowed(name: str) -> str:
    """Return the words or the range of numbers that a field allows.

    The result is "" if its declaration has none.
    """
    block, _, key = name.rpartition(".")
    schema = _BLOCKS[block].model_json_schema()["properties"].get(key, {})
    for kind in (schema, *schema.get("anyOf", ())):
        if "enum" in kind:
            return ", ".join(map(str, kind["enum"]))
        if "minimum" in kind and "maximum" in kind:
            return f"{kind['minimum']} to {kind['maximum']}"
    return ""


@dataclass
class DraftReader:
    """A reader of a draft's keys, which collects fields of a policy and mistakes.

    Fields have dotted names, such as `link.keys`. There are four collections of fields. If a field
    is in several of them, the later one has precedence:

    - `weak`: fields that a switch implies, such as `okc: 1`
    - `implied`: fields that follow from a word about another field
    - `translated`: fields that words of other programs mean
    - `said`: fields in a policy's own words
    """

    document: YamlDocument
    root: dict[str, Any] = field(default_factory=dict)
    weak: dict[str, Any] = field(default_factory=dict)
    implied: dict[str, Any] = field(default_factory=dict)
    translated: dict[str, Any] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)
    #: Layers as they stand in the file: those without other words, and those that are empty.
    other_layers: dict[str, Any] = field(default_factory=dict)
    proposal_parts: dict[str, str] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    #: Fields that keys of the draft have set: name, value, and place of the key.
    claims: list[tuple[str, Any, KeyPath]] = field(default_factory=list)
    #: Names of networks, of which a name and an id can be made.
    names: list[str] = field(default_factory=list)

    # --- Keys at the top level, and layers ---

    def read_root(self) -> None:
        """Read all keys of the draft."""
        for key, value in self.document.data.items():
            if key == "layers":
                self._read_layers(value)
            elif key in ROOT_KEYS:
                self.root[key] = value
            else:
                self._read_outside(key, value, (key,))
        self._read_parts()
        self._note_conflicts()

    def _read_outside(self, key: str, value: Any, path: KeyPath) -> None:
        """Read a key at the top level of a draft that belongs into a layer."""
        layer = self._find_layer(key, value)
        if layer is None and not self.is_known_key(key) and suggest_word(key, ROOT_KEYS):
            raise NotUnderstoodError
        if layer is not None:
            self._note_key(path, f"{show_value(key)} belongs into layers", layer)
            self._imply_version(layer, key)
            self._read_layer(layer, value, path)
        elif isinstance(value, list) and len(value) > 1 and all(
                isinstance(each, dict) for each in value):
            self.note_left(path, f"all but the first of {show_value(key)}",
                           "a policy has one network")
            self._read_group(None, value[:1], path)
        elif isinstance(value, dict | list):
            self._note_key(path, f"{show_value(key)} is no key of a policy")
            self._read_group(None, value, path)
        else:
            self._read_or_leave(None, key, value, path)

    def _read_layers(self, value: Any, path: KeyPath = ("layers",)) -> None:
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            self.add_error(path, "layers holds a list, where a block of keys belongs")
            merged = {key: (each, (*path, index, key)) for index, item in enumerate(value)
                      for key, each in item.items()}
        elif isinstance(value, dict):
            merged = {key: (each, (*path, key)) for key, each in value.items()}
        elif isinstance(value, str) and fold_word(value) in OFF_WORDS:
            self.add_error(path, f"{show_value(value)} stands where a block of keys belongs")
            merged = {}
        elif isinstance(value, str):
            self.add_error(path, f"{show_value(value)} stands where a block of keys belongs")
            self._read_words("link", value, path)
            merged = {}
        else:
            raise NotUnderstoodError
        for key, (each, place) in merged.items():
            self._read_layer_key(key, each, place)

    def _read_layer_key(self, key: str, value: Any, path: KeyPath) -> None:
        layer = self._find_layer(key, value)
        if layer is None and isinstance(value, dict | list):
            self._note_key(path, f"{show_value(key)} is no layer")
            self._read_group(None, value, path)
        elif layer is None:
            self._read_or_leave(None, key, value, path)
        else:
            if layer != key:
                self._note_key(path, f"{show_value(key)} is called {layer}", layer)
            self._imply_version(layer, key)
            self._read_layer(layer, value, path)

    def _imply_version(self, layer: str, key: str) -> None:
        """Set the IKE version that the name of a layer says, such as `ikev1`."""
        version = find_meaning("ipsec.ike", key) if layer == "ipsec" else None
        self.weak |= version or {}

    def _find_layer(self, key: str, value: Any) -> str | None:
        """Return the layer that a key of a draft means, None if it means none."""
        if key in Layers.model_fields:
            return key
        layer = LAYER_NAMES.get(fold_word(key))
        kind = value.get("type", value.get("protocol")) if isinstance(value, dict) else value
        if layer == "ipsec" and fold_word(kind) in ("wireguard", "wg"):
            return "wireguard"
        if layer is not None:
            return layer if isinstance(value, dict) or not self.is_known_key(key) else None
        near = suggest_word(key, Layers.model_fields)
        return near if near and isinstance(value, dict) else None

    @staticmethod
    def is_known_key(key: str) -> bool:
        """Return whether a key is another name of a policy's field, or is known to have none."""
        return any(fold_word(key) in names for names in KEY_NAMES.values())

    def _read_layer(self, layer: str, value: Any, path: KeyPath) -> None:
        """Read the value of a key that names a layer."""
        is_own_place = path == ("layers", layer)
        if layer not in MODELS or value is None:
            self.other_layers[layer] = value
        elif self._is_off(value):
            self.add_error(path, f"{show_value(value)} switches {layer} off, as leaving it out "
                           "does", is_minor=is_own_place)
        elif isinstance(value, dict):
            self.other_layers.setdefault(layer, {})
            self._read_block(layer, value, path)
        elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
            self.add_error(path, f"{layer} holds a list, where a block of keys belongs", layer)
            if layer == "ipsec" and self._read_proposals("ipsec.ike_proposal", value, path):
                return
            self._read_group(layer, value, path)
        else:
            self.add_error(path, f"{show_value(value)} stands where a block of keys belongs", layer)
            self.other_layers.setdefault(layer, {})
            self._read_words(layer, value, path)

    @staticmethod
    def _is_off(value: Any) -> bool:
        """Return whether the value of a whole layer means "off", such as `none` or `false`.

        The caller reports this mistake by a message of its own: a layer is switched off by leaving
        it out.
        """
        return value is False or (isinstance(value, str) and fold_word(value) in OFF_WORDS)

    def _read_words(self, layer: str, value: Any, path: KeyPath) -> None:
        """Read a line of words where a layer should have a block of keys."""
        words = join_words(value)
        if layer == "wireguard" and fold_word(words) in (*TRUE, "wireguard", "wg"):
            return
        if layer in ("quic", "mptcp") and fold_word(words) in (*TRUE, layer):
            return
        if layer == "link" and self._find_security(words) is not None:
            return
        if layer == "ipsec" and self._read_proposals("ipsec.ike_proposal", value, path):
            return
        first = {"link": ("link.keys", "link.cipher", "dot1x.eap"), "dot1x": ("dot1x.eap",),
                 "ipsec": ("ipsec.ike", "ipsec.ike_proposal"), "wire": ("wire.macsec",),
                 "wireguard": (), "quic": ("quic.on_move",), "mptcp": ()}[layer]
        for word in (words, *re.split(r"[\s,;]+", words)):
            for name in first:
                if (fields := find_meaning(name, word)) is not None:
                    self._set_fields(name, fields)
                    break
            else:
                continue
            if word == words:
                return
        if not any(name.startswith(f"{layer}.") for name in self.translated):
            raise NotUnderstoodError

    # --- Blocks of keys ---

    def _read_block(self, block: str, value: Mapping[str, Any], path: KeyPath) -> None:
        """Read the keys of a layer, or of dot1x.tls."""
        model = _BLOCKS[block]
        for key, each in value.items():
            here = (*path, key)
            if key == "options" and block in ("link", "dot1x"):
                name = f"{block}.{key}"
                self.said[name] = merge_options(self.said.get(name), each)
            else:
                self._read_or_leave(block, key, each, here, is_own=key in model.model_fields)

    def _read_or_leave(self, block: str | None, key: str, value: Any, path: KeyPath, *,
                       is_own: bool = False) -> None:
        """Read a key, and leave it out if its value has no meaning there.

        `is_own` says that the block has a field of this name.
        """
        try:
            if is_own:
                self._read_field(f"{block}.{key}", value, path)
            else:
                self._read_key(block, key, value, path)
        except NotUnderstoodError:
            allowed = show_allowed(f"{block}.{key}") if is_own else ""
            spot = self.document.spots.get(path)
            shown = "this value" if key in MAYBE_SECRET else show_value(
                join_words(value) if isinstance(value, list) else spot.text
                if isinstance(value, bool) and spot else value)
            # Without other mistakes, the loader's message says what belongs there.
            self.add_error(
                path, f"{key}: {shown} is no value of {key}" + (f" ({allowed})" if allowed else "")
                if is_own else f"{show_value(key)} is {NOT_KNOWN}", *(
                    [block.partition(".")[0]] if block else []), is_loss=True, is_minor=True,
                is_about_key=not is_own)

    def _read_group(self, block: str | None, value: Any, path: KeyPath) -> None:
        """Read a block or list that a policy does not have, key by key."""
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(item, dict):
                raise NotUnderstoodError
            place = (*path, index) if isinstance(value, list) else path
            for key, each in item.items():
                here = (*place, key)
                layer = self._find_layer(key, each)
                if key in ("id", "name") and block is None and isinstance(each, str):
                    self.root.setdefault(key, each)
                elif key == "layers":
                    self._read_layers(each, here)
                elif layer is not None and (isinstance(each, dict)
                                            or not self.is_known_key(key)):
                    self._read_layer(layer, each, here)
                elif isinstance(each, dict) or (isinstance(each, list)
                                                and any(isinstance(i, dict) for i in each)):
                    self.names.append(key)
                    self._read_group(block, each, here)
                else:
                    self._read_or_leave(block, key, each, here)

    def _read_field(self, name: str, value: Any, path: KeyPath, *, may_lack: bool = True) -> None:
        """Read a value of a key that policies have, too.

        Args:
            name: Name of the field, such as `link.cipher`.
            value: The value.
            path: Place of the value in the draft.
            may_lack: Whether a value without a meaning may be left out.

        Raises:
            NotUnderstoodError: The value has no meaning, and may not be left out.
        """
        layer = name.partition(".")[0]
        if isinstance(value, dict) and name == "dot1x.tls":
            self._read_block(name, value, path)
        elif isinstance(value, dict) and name in PROPOSALS and self._read_proposals(
                name, value, path):
            pass
        elif isinstance(value, dict):
            self.add_error(path, f"{path[-1]} has one value", layer)
            value = self._take_period(name, value, path)
            if name == "dot1x.accounting":
                self.implied[name] = 1
            self._read_group(layer, value, path)
        elif self._is_accepted(name, value):
            self.said[name] = value
        elif not self._read_other_meaning(name, value, path):
            try:
                self._read_value(name, value, path)
            except NotUnderstoodError:
                if not may_lack or not self._leave_value(name, value, path):
                    raise

    def _take_period(self, name: str, value: dict[str, Any], path: KeyPath) -> dict[str, Any]:
        """Read the time of a field that stands in a block, and return the rest of the block."""
        key = next((key for key in value if fold_word(key) in PERIODS), None)
        if key is None or not self._is_value(name, key, value[key], (*path, key)):
            return value
        return {other: each for other, each in value.items() if other != key}

    def _read_other_meaning(self, name: str, value: Any, path: KeyPath) -> bool:
        """Read a field's value that belongs to another field, or has another type.

        Return whether it is such a value.
        """
        layer = name.partition(".")[0]
        if name == "wireguard.preshared_key" and isinstance(value, str):
            self._read_special("wireguard", "preshared_key", value, path)
        elif name == "link.group" and str(value).upper() == "TKIP":
            self.add_error(path, f"{show_value(f'group: {value}')} is group_cipher: TKIP", layer)
            self.translated["link.group_cipher"] = "TKIP"
        elif name == "link.group" and (found := find_meaning("link.cipher", value)):
            meant = str(found.get("link.cipher", value))
            self.add_error(path, f"{show_value(f'group: {value}')} is group_cipher: {meant}", layer)
            self.implied["link.group_cipher"] = meant
        elif name == "dot1x.tls" and (found := find_meaning("dot1x.tls.version", value)):
            meant = found["dot1x.tls.version"]
            self.add_error(path, f"{show_value(value)} is version: {meant} of tls", layer)
            self._set_fields("dot1x.tls.version", found)
        elif name == "ipsec.ike" and self._read_proposals("ipsec.ike_proposal", value, path):
            pass
        elif name == "ipsec.ike" and (found := find_meaning("ipsec.ike_proposal", value)):
            self.add_error(path, f"{show_value(value)} is ike_proposal, and ike the version", layer)
            self._set_fields("ipsec.ike_proposal", found)
        elif isinstance(value, str) and value.isdecimal() and self._is_accepted(name, int(value)):
            self.add_error(path, f"{path[-1]}: {show_value(value)} is text, where a number belongs",
                           layer, is_minor=True)
            self.said[name] = int(value)
        else:
            return False
        return True

    def _read_key(self, block: str | None, key: str, value: Any, path: KeyPath) -> None:
        """Read a key that a policy does not have in this place."""
        if self._read_special(block, key, value, path):
            return
        if isinstance(value, dict) and (inner := self._find_layer(key, value)):
            self._note_key(path, f"{show_value(key)} is called {inner}", inner)
            self._read_layer(inner, value, path)
            return
        own_layer, refusing = (block or "").partition(".")[0], ""
        for name in self._find_candidates(block, key):
            layer = name.partition(".")[0]
            # local or left of IPsec, interface or peers of WireGuard
            is_end = block in ("ipsec", "wireguard") and name == LEFT_OUT + FROM_SCENARIO
            has_keys = isinstance(value, dict) or (is_end and isinstance(value, list) and all(
                isinstance(each, dict) for each in value))
            if has_keys and (is_end or not name.startswith(LEFT_OUT)):
                layer = str(block) if is_end else layer
                self._note_key(path, f"{show_value(key)} is no block of keys here", layer)
                self._read_group(layer, value, path)
                return
            if name == LEFT_OUT + CREDENTIAL or (name.startswith(LEFT_OUT) and not refusing):
                self._leave_out(block, key, value, name.removeprefix(LEFT_OUT), path)
                return
            if self._is_value(name, key, value, path):
                return
            refusing = refusing or (name if layer == own_layer else "")
        if not refusing or not self._leave_value(refusing, value, path):
            self._read_unknown(block, key, value, path)

    def _is_value(self, name: str, key: str, value: Any, path: KeyPath) -> bool:
        """Read a value as one of a field, and return whether it has a meaning there."""
        if name.startswith(LEFT_OUT):
            return False
        try:
            self._read_value(name, value, path, key=key)
        except NotUnderstoodError:
            return False
        return True

    def _leave_value(self, name: str, value: Any, path: KeyPath) -> bool:
        """Leave out a field whose value has no meaning, or correct its spelling.

        Return whether the policy may lack the field.
        """
        block, _, key = name.rpartition(".")
        field, allowed = _BLOCKS[block].model_fields[key], show_allowed(name)
        if field.is_required() or not allowed or isinstance(value, dict | list | bool):
            return False
        shown = "this value" if key in MAYBE_SECRET else show_value(value)
        words = {word: {name: word} for word in allowed.split(", ")} | {**VALUE_WORDS.get(name, {})}
        near = suggest_word(value, words) if isinstance(value, str) else None
        if near is not None and words[near] and self._is_accepted(name, words[near].get(name)):
            self.add_error(path, f"{path[-1]}: {shown} is taken for {words[near][name]}",
                           name.partition(".")[0], is_minor=True)
            self._set_fields(name, words[near])
            return True
        self.add_error(path, f"{path[-1]}: {shown} is no value of {short_name(name)} ({allowed})",
                       name.partition(".")[0], is_loss=True, is_minor=path[-1] == key)
        return True

    def _find_candidates(self, block: str | None, key: str) -> Iterator[str]:
        """Yield the fields that a key of a draft may mean, fields of its own block first."""
        folded, layer = fold_word(key), (block or "").partition(".")[0]
        yield from _find_tls_candidates(block, folded)
        for each in dict.fromkeys((*([layer] if layer in MODELS else []), *MODELS)):
            if folded in KEY_NAMES[each]:
                yield KEY_NAMES[each][folded]
            names = {fold_word(name): name for name in MODELS[each].model_fields}
            if folded in names:
                yield f"{each}.{names[folded]}"
        if layer == "ipsec":
            yield from {"type": ["ipsec.ike"], "ike": ["ipsec.ike_proposal"]}.get(folded, [])
        if KEY_NAMES["link"].get(folded) == "link.keys":
            yield from ("link.cipher", "dot1x.eap")
        if KEY_NAMES["dot1x"].get(folded) == "dot1x.eap":
            yield "dot1x.inner"

    def _read_special(self, block: str | None, key: str, value: Any, path: KeyPath) -> bool:
        """Read a key whose meaning depends on other keys. Return whether it is such a key."""
        folded = fold_word(key)
        if block == "ipsec" and folded in PROPOSAL_PARTS and isinstance(value, str | int | list) \
                and not isinstance(value, bool) and value != []:
            self._read_part(folded, value, path)
        elif block and (having := HAVING_PRESHARED_KEYS.get(block)) and isinstance(value, str) \
                and folded in PRESHARED_KEYS:
            name, there = having
            self._note_key(path, f"{show_value(key)} is a secret that qop makes, and "
                           f"{name}: {there} says that there is one", block)
            self.implied[f"{block}.{name}"] = there
        elif folded in ROAMING_SWITCHES and block in (None, "link", "dot1x"):
            self._note_key(path, f"{show_value(key)} is a kind of roaming", "link")
            if fold_word(value) in TRUE:
                self.weak["link.roaming"] = ROAMING_SWITCHES[folded]
        elif self._read_macsec(block, key, value, path) \
                or self._read_service(block, key, value, path) \
                or (block in (None, "link") and self._read_air(key, value, path)):
            pass
        elif folded in ("ieee8021x", "8021x", "dot1x") and not isinstance(value, dict) \
                and fold_word(value) in (*TRUE, "0", "false", "no"):
            self._note_key(path, f"{show_value(key)} is keys: eap", "link")
            self.implied |= {"link.keys": "eap"} if fold_word(value) in TRUE else {}
        else:
            return False
        return True

    @staticmethod
    def _describe_fields(fields: Fields) -> str:
        """Return the fields that a word means, for a message."""
        return ", ".join(f"{short_name(name)}: {value}" for name, value in fields.items())

    def _read_part(self, folded: str, value: Any, path: KeyPath) -> None:
        """Read the algorithms of one kind of an IPsec proposal. The first one is used."""
        words = [word for word in re.split(r"[\s,;]+", join_words(value)) if word]
        self._note_key(path, f"{show_value(str(path[-1]))} is a part of a proposal", "ipsec")
        self.proposal_parts[PROPOSAL_PARTS[folded]] = words[0] if words else ""
        if len(words) > 1:
            self.note_left(path, f"{path[-1]}: {', '.join(words[1:])}",
                           "a proposal has one algorithm of a kind here", "ipsec")

    def _read_air(self, key: str, value: Any, path: KeyPath) -> bool:
        """Read a key of the air that no field is named like. Return whether it is such a key."""
        folded, word = fold_word(key), fold_word(value)
        if folded in HIDDEN:
            self._note_key(path, f"{show_value(key)} is hostapd's option ignore_broadcast_ssid",
                           "link")
            if word in TRUE:
                self._add_options("link.options", {"hostapd": {"ignore_broadcast_ssid": 1}})
        elif folded in OVER_AIR and word in (*TRUE, *FALSE):
            meant = "what fast transition does without ft_over_ds" if word in TRUE else \
                "ft_over_ds: 1"
            self._note_key(path, f"{show_value(key)} is {meant}", "link")
            self.implied |= {} if word in TRUE else {"link.ft_over_ds": 1}
        elif folded in GROUP_REKEY and (seconds := read_seconds(str(value))) is not None:
            self._note_key(path, f"{show_value(key)} is hostapd's option wpa_group_rekey", "link")
            self._add_options("link.options", {"hostapd": {"wpa_group_rekey": seconds}})
        elif folded in ("auth", "authalg", "authalgs", "authtype") and word in ("open",
                                                                               "opensystem"):
            self._note_key(path, f"{show_value(f'{key}: {value}')} is what is measured in any case")
        elif folded == "dynamicvlan" and isinstance(value, list) and self._is_value(
                "link.vlan", key, value, path):
            pass
        elif word in TRUE and folded in NAMED_SECURITY:
            security = NAMED_SECURITY[folded]
            self._note_key(path, f"{show_value(key)} is {self._describe_fields(security)}", "link")
            self._set_fields("link.keys", security)
        else:
            return False
        return True

    def _read_service(self, block: str | None, key: str, value: Any, path: KeyPath) -> bool:
        """Read a key that switches a service on by its value. Return whether it is such a key."""
        folded, word = fold_word(key), fold_word(value)
        is_dot1x = block in ("dot1x", "dot1x.tls")
        if is_dot1x and folded in REVOCATIONS and word in (*TRUE, *FALSE):
            meant = REVOCATIONS[folded] if word in TRUE else None
            self._note_key(path, f"{show_value(key)} is " + (
                f"revocation: {meant}" if meant else "off, as revocation is without"), "dot1x")
            if meant:
                self._claim_field("dot1x.tls.revocation", meant, path)
        elif is_dot1x and word in CERTIFICATE_STATES and any(
                part in folded for part in ("cert", "key", "chain", "ca")):
            self.note_left(path, f"{key}: {value}", CERTIFICATE_STATES[word], "dot1x")
            if word == "revoked":
                self.implied.setdefault("dot1x.tls.revocation", "crl")
        elif is_dot1x and isinstance(value, dict) and folded in (
                "certificate", "certificates", "cert", "certs"):
            self._read_certificates(value, path)
        elif is_dot1x and folded == "phase1" and isinstance(value, str) \
                and self._read_phase1(value, path):
            pass
        elif folded in ("reauthperiod", "reauthenticationperiod", "eapreauthperiod") \
                and block == "dot1x" and (seconds := read_seconds(str(value))) is not None:
            self._note_key(path, f"{show_value(key)} is hostapd's option eap_reauth_period",
                           "dot1x")
            self._add_options("dot1x.options", {"hostapd": {"eap_reauth_period": seconds}})
        elif folded in ("pskfile", "wpapskfile") and block in (None, "link"):
            self._note_key(path, f"{show_value(key)} is passphrases: by-device", "link")
            self.implied["link.passphrases"] = "by-device"
            self.implied.setdefault("link.keys", "psk")
        elif folded in ("acctserver", "acctserveraddr", "accountingserver") and block == "dot1x":
            self._note_key(path, f"{show_value(key)} is accounting: 1", "dot1x")
            self.implied["dot1x.accounting"] = 1
        else:
            return False
        return True

    def _read_certificates(self, value: Mapping[str, Any], path: KeyPath) -> None:
        """Read a block about certificates: the kind of their keys, and settings of TLS."""
        self._note_key(path, f"{show_value(str(path[-1]))} is no block of keys here", "dot1x")
        for key, each in value.items():
            here, state = (*path, key), CERTIFICATE_STATES.get(fold_word(key))
            if state and fold_word(each) in TRUE:
                self.note_left(here, str(key), state, "dot1x")
            elif state and fold_word(each) in FALSE:
                self._note_key(here, f"{show_value(key)} is off in any case", "dot1x")
            elif fold_word(key) not in KINDS_OF_KEYS or not self._is_value(
                    "dot1x.tls.key", key, each, here):
                self._read_or_leave("dot1x.tls", key, each, here)

    def _read_phase1(self, value: str, path: KeyPath) -> bool:
        """Read the versions of TLS in wpa_supplicant's phase1. Return whether it has one."""
        words = value.strip("\"' ").split()
        switches = {word for word in words if re.fullmatch(r"tls_disable_tlsv1_[0-3]=[01]", word)}
        if not switches:
            return False
        meant = "1.3" if "tls_disable_tlsv1_3=0" in switches else "1.2"
        self._note_key(path, f"{show_value(f'phase1: {value}')} is tls.version: {meant}, of both "
                       "station and server", "dot1x")
        self._claim_field("dot1x.tls.version", meant, path)
        if others := [word for word in words if word not in switches]:
            self.note_left(path, " ".join(others), "wpa_supplicant's option phase1 has it", "dot1x")
        return True

    def _read_macsec(self, block: str | None, key: str, value: Any, path: KeyPath) -> bool:
        """Read a key of MACsec whose value decides. Return whether it is such a key."""
        folded, word = fold_word(key), fold_word(value)
        if block != "wire":
            return False
        if folded in ("integonly", "macsecintegonly", "integrityonly") and word in (*TRUE,
                                                                                    *FALSE):
            encrypts = int(word in FALSE)
            self._note_key(path, f"{show_value(key)} is encrypts: {encrypts}", "wire")
            self.implied["wire.encrypts"] = encrypts
        elif folded in ("mode", "macsecmode", "protection", "security") and word in WIRE_MODES:
            encrypts = WIRE_MODES[word]
            self._note_key(path, f"{show_value(f'{key}: {value}')} is encrypts: {encrypts}", "wire")
            self.implied["wire.encrypts"] = encrypts
        elif folded in CAK_SOURCES and word in CAK_FROM_EAP:
            self.note_left(path, f"{key}: {value}", NO_CAK_FROM_EAP, "wire")
        elif folded in CAK_SOURCES and word in CAK_CONFIGURED:
            self._note_key(path, f"{show_value(key)} is not needed, as MKA has a key of the run",
                           "wire")
        elif folded == "xpn" and word in FALSE:
            self._note_key(path, "'xpn' is off in any case", "wire")
        else:
            return False
        return True

    def _read_unknown(self, block: str | None, key: str, value: Any, path: KeyPath) -> None:
        """Read a key that is misspelt, an option of hostapd, or unknown."""
        model = _BLOCKS.get(block or "")
        near = suggest_word(key, model.model_fields if model else ())
        daemon = self._find_daemon(block, key)
        if daemon is not None and (reason := find_option_reason(daemon, key)):
            self._leave_out(block, key, value, reason, path)
        elif daemon is not None and isinstance(value, str | int):
            layer = "dot1x" if (block or "").startswith("dot1x") else "link"
            number = int(value) if isinstance(value, bool) else value
            self._note_key(path, f"{show_value(key)} is an option of {daemon}", layer)
            self._add_options(f"{layer}.options", {daemon: {key: number}})
        elif near and block and not isinstance(value, dict | list):
            try:
                self._read_field(f"{block}.{near}", value, path, may_lack=False)
            except NotUnderstoodError:  # the loader's message has all keys, if it is alone
                self._leave_out(block, key, value, NOT_KNOWN, path, is_minor=True)
                return
            self.add_error(path, f"{show_value(key)} is {near}", block.partition(".")[0],
                           is_minor=True)
        elif isinstance(value, dict):
            self._note_key(path, f"{show_value(key)} is no block of keys here")
            self.names.append(key)
            self._read_group(block, value, path)
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            raise NotUnderstoodError
        else:
            # Without other mistakes, the loader's message says which keys are known.
            is_near = any(suggest_word(key, model.model_fields) for model in MODELS.values())
            self._leave_out(block, key, value, NOT_KNOWN, path, is_minor=is_near)

    @staticmethod
    def _find_daemon(block: str | None, key: str) -> Daemon | None:
        """Return the daemon that has a key as an option, by the table of options."""
        daemons: tuple[Daemon, ...] = ("hostapd", "wpa_supplicant")
        for daemon in reversed(daemons) if (block or "").startswith("dot1x") else daemons:
            group = load_options().find_group(daemon, key)
            if find_refusal(daemon, key) or ((group.needs or group.check) and block in (
                    None, "link", "dot1x", "dot1x.tls")):
                return daemon
        return None

    def _leave_out(self, block: str | None, key: str, value: Any, reason: str,
                   path: KeyPath, *, is_minor: bool = False) -> None:
        """Leave out a key, but keep what it implies: a passphrase implies `keys: psk`."""
        layer = (block or "").partition(".")[0]
        is_elsewhere = reason in (FROM_SCENARIO, FROM_MEDIUM, CREDENTIAL)
        self.changes.append(Change(path, show_value(key), frozenset({layer} & {*MODELS}),
                                   reason=reason, is_about_key=True, is_minor=is_minor,
                                   is_loss=not is_elsewhere))
        folded = fold_word(key)
        if folded in ("ssid", "ssid2") and isinstance(value, str):
            self.names.append(value)
        if folded in PASSPHRASES and block in (None, "link"):
            self.implied.setdefault("link.keys", "psk")
        if folded == "wpa" and str(value) == "1":
            self.implied.setdefault("link.cipher", "TKIP")

    # --- Values ---

    def _is_accepted(self, name: str, value: Any) -> bool:
        """Return whether a field of a policy accepts a value as it is."""
        block, _, key = name.rpartition(".")
        try:
            _BLOCKS[block].model_validate({key: value})
        except ValidationError as error:
            # Fields that are missing, and checks between fields, have other places.
            return not any(detail["loc"][:1] == (key,) for detail in error.errors())
        return True

    def _read_value(self, name: str, value: Any, path: KeyPath, *, key: str = "") -> None:
        """Translate a value in the words of another program to the fields of a policy.

        The fields are collected in the reader, and the mistake is noted.

        Args:
            name: Name of the field that the value belongs to, such as `link.cipher`.
            value: The value, or a list of words.
            path: Place of the value in the draft.
            key: The key above the value, if that is not the field's own.

        Raises:
            NotUnderstoodError: The value has no meaning.
        """
        layer = name.partition(".")[0]
        joined, written = self._join_value(name, value, path, key)
        if name in LISTS:
            self._read_list(name, value, path, key=key)
        elif self._is_accepted(name, joined) and not isinstance(joined, bool):
            self._claim_field(name, joined, path)
            is_elsewhere = len(path) > 1 and path[1] in MODELS and path[1] != layer
            called = f"{short_name(name)} of {layer}" if is_elsewhere else short_name(name)
            self.add_error(path, f"{show_value(key)} is called {called}" if key else
                           f"{show_value(value)} stands where one value belongs", layer,
                           *([str(path[1])] if is_elsewhere else []))
        elif name == "link.keys" and key and isinstance(joined, str) and (
                said := self._find_security(joined)):
            self.add_error(path, f"{written} is {said}", layer, is_loss="where a policy" in said)
        elif name in PROPOSALS and self._read_proposals(name, value, path):
            pass
        elif not isinstance(joined, str | int):
            raise NotUnderstoodError
        elif instead := NOT_HERE.get(name, {}).get(fold_word(joined)):
            why = f", as {WHY_NOT_HERE[name]}" if name in WHY_NOT_HERE else ""
            self.add_error(path, f"{written} is {NOT_MEASURED} ({instead} is){why}", layer,
                           is_loss=True)
            self.translated[name] = instead
        elif (fields := find_meaning(name, joined)) is not None:
            self._set_meaning(name, fields, joined, path, written)
        elif name == "dot1x.eap" and fold_word(joined) in NEAREST_EAP:
            instead = NEAREST_EAP[fold_word(joined)]
            # Without other mistakes, the loader's message says which methods are known.
            self.add_error(path, f"{written} is {NOT_MEASURED} ({instead} is)", layer,
                           is_minor=True, is_loss=True)
            self.translated[name] = instead
        elif short_name(name) == path[-1] == "identity":
            self._leave_out("dot1x", "identity", joined, CREDENTIAL, path)
        else:
            self._set_fields(name, self._find_several(name, joined, path))

    def _join_value(self, name: str, value: Any, path: KeyPath, key: str) -> tuple[Any, str]:
        """Return the value as one text or number, and its description for messages.

        The arguments are those of `_read_value`.
        """
        joined = join_words(value) if isinstance(value, list) else value
        number = read_quantity(joined) if isinstance(joined, str) else None
        if number is not None and not self._is_accepted(name, joined) \
                and self._is_accepted(name, number):
            joined = number
        if isinstance(joined, bool):  # as it is written: yes, on, true
            spot = self.document.spots.get(path)
            return joined, repr(f"{key or path[-1]}: {spot.text}") if spot else str(joined)
        return joined, show_value(f"{key}: {joined}" if key else joined)

    def _read_proposals(self, name: str, value: Any, path: KeyPath) -> bool:
        """Read several proposals, which both ends get. Return whether there are several.

        Args:
            name: Field of one proposal, ipsec.ike_proposal or ipsec.esp_proposal.
            value: The proposals in one text.
            path: Place of the value in the draft.
        """
        is_ike, layer = name == "ipsec.ike_proposal", "ipsec"
        words = list_proposals(value)
        meant = {word: proposal for word in words
                 if (proposal := find_proposal(word, is_ike=is_ike)) is not None}
        shown, lacking = join_words(words), [word for word in words if word not in meant]
        if not words or (meant and len(words) < 2 and not isinstance(value, list | dict)):
            return False
        if not meant:
            return self._take_nearest(name, words, path)
        if lacking:
            self.add_error(path, f"{show_value(', '.join(lacking))} is {NOT_MEASURED}", layer,
                           is_loss=True)
        if not is_ike and any(re.search(r"ke\d_|ml-?kem", word) for word in meant):
            self.add_error(path, "ML-KEM has no place in proposals of ESP, whose keys come of "
                           "IKE's", layer, is_loss=True)
        names = list(dict.fromkeys(meant.values()))
        self._claim_field(name, names[0], path)
        if len(names) > 1:
            lists = [f"{name.removesuffix('proposal')}{end}" for end in ("offered", "accepted")]
            self.add_error(path, f"{show_value(shown)} is {short_name(name)}, and all of them are "
                           f"{' and '.join(map(short_name, lists))}", layer)
            self.implied |= {each: [*names] for each in lists}
        elif not lacking and [*meant.values()] == [shown]:
            self.add_error(path, f"{show_value(shown)} is {short_name(name)}, one proposal", layer)
        elif not lacking:
            self.add_error(path, f"{show_value(shown)} is {names[0]}", layer)
        return True

    def _take_nearest(self, name: str, words: Sequence[str], path: KeyPath) -> bool:
        """Set a measured proposal in place of the draft's, and return whether there is one.

        The measured proposal is the one that is most similar to the draft's.
        """
        instead = find_nearest_proposal(words[0], is_ike=name == "ipsec.ike_proposal")
        if instead is None:
            return False
        # Without other mistakes, the loader's message says which keywords are known.
        self.add_error(path, f"{show_value(', '.join(words))} is {NOT_MEASURED} ({instead} is)",
                       "ipsec", is_loss=True, is_minor=path[-1] == short_name(name))
        self._claim_field(name, instead, path)
        return True

    def _read_list(self, name: str, value: Any, path: KeyPath, *, key: str = "") -> None:
        """Read the value of a field with a list, in other words or as one value.

        Args:
            name: Name of the field, such as `link.accepted`.
            value: The value.
            path: Place of the value in the draft.
            key: The key above the value, if that is not the field's own.

        Raises:
            NotUnderstoodError: None of the words has a meaning.
        """
        if isinstance(value, bool | dict) or value is None:
            raise NotUnderstoodError
        words = value if isinstance(value, list) else [
            word for word in re.split(r"[\s,;|]+", str(value)) if word]
        meant = [self._find_item(name, word) for word in words]
        known = list(dict.fromkeys(item for item in meant if item is not None))
        if not known or not self._is_accepted(name, known):
            raise NotUnderstoodError
        lacking = [str(word) for word, item in zip(words, meant, strict=True) if item is None]
        layer, shown = name.partition(".")[0], show_value(join_words(value))
        if lacking:  # Without other mistakes, the loader's message says which words are known.
            self.add_error(path, f"{show_value(', '.join(lacking))} is {NOT_MEASURED}", layer,
                           is_loss=True, is_minor=True)
        elif key:
            self.add_error(path, f"{show_value(key)} is called {short_name(name)}", layer)
        elif isinstance(value, list):
            self.add_error(path, f"{shown} is {', '.join(map(str, known))}", layer, is_minor=True)
        else:
            self.add_error(path, f"{shown} stands where a list belongs", layer)
        self._claim_field(name, known, path)
        if LISTS[name] == "link.group":
            self.implied.setdefault("link.group", known[0])

    def _find_item(self, name: str, word: Any) -> Any:
        """Return the item of a list that a word means, None if it has no meaning there."""
        if isinstance(word, bool):
            return None
        if self._is_accepted(name, [word]):
            return word
        single = LISTS[name]
        found = (find_meaning(single, word) or {}).get(single)
        number = read_quantity(str(word))
        return next((item for item in (found, number) if item is not None
                     and self._is_accepted(name, [item])), None)

    def _set_meaning(self, name: str, fields: Fields, value: str | int, path: KeyPath,
                     written: str) -> None:
        """Set the fields that a word means, and add a note on it."""
        is_own_key, layer = path[-1] == short_name(name), name.partition(".")[0]
        meant = ", ".join("option sae_pwe: 2" if each == "link.options" else
                          f"{short_name(each)}: {meaning}" for each, meaning in fields.items()) \
            or f"no {short_name(name)}"
        if is_own_key and list(fields) == [name]:
            meant = str(fields[name])
        is_minor = is_own_key and (fold_word(value) == fold_word(meant)
                                   or isinstance(value, bool))
        self.add_error(path, f"{written} is {meant}", layer, is_minor=is_minor)
        former = self.translated.get(name)
        self._set_fields(name, fields)
        if name in fields:
            self.translated |= {name: former} if former is not None else {}
            self._claim_field(name, fields[name], path)

    def _find_security(self, words: str) -> str | None:
        """Set the fields that a network's kind of security (such as WPA2) means.

        Returns a description of the kind for a message, None if the kind is not known.
        """
        parts = ["WPA-PSK", "SAE"] if fold_word(words) in TRANSITION else [
            part for part in re.split(r"[\s,;|]+", words) if part]
        if (mixture := find_mixture(parts)) is not None:
            self._set_fields("link.keys", {"link.cipher": "CCMP", **mixture})
            return "several key managements, of which the station uses one (keys)"
        managements = [part.upper() for part in parts if part.upper() in KEY_MANAGEMENTS]
        if len(managements) > 1 and len(managements) == len(parts):
            best = min(managements, key=list(KEY_MANAGEMENTS).index)
            self._set_fields("link.keys", KEY_MANAGEMENTS[best])
            if {"WPA-PSK", "WPA-EAP"} & {*managements}:
                self.implied.setdefault("link.pmf", 1)
            return f"several key managements where a policy has one ({best} or another)"
        base, _, cipher = words.replace("+", "/").partition("/")
        if cipher and (fields := find_meaning("link.keys", base)) and (
                better := find_meaning("link.cipher", cipher)):
            self._set_fields("link.keys", {**fields, **better})
            return "keys and cipher in one word"
        return None

    def _find_several(self, name: str, value: Any, path: KeyPath) -> Fields:
        """Return the meaning of the first of several words, or of a misspelt word."""
        words = [word for word in re.split(r"[\s,;+/|]+", str(value)) if word]
        if (fields := self._find_combined(name, words, value, path)) is not None:
            return fields
        known = [fields for word in words if (fields := find_meaning(name, word)) is not None]
        if len(words) < 2 or len(known) < len(words):
            raise NotUnderstoodError
        best = max(known, key=lambda fields: fields.get(name) == "CCMP") \
            if name == "link.cipher" else known[0]
        layer = name.partition(".")[0]
        # Without other mistakes, the loader's message says that one network has one of them.
        self.add_error(path, f"{show_value(value)} is several where a policy has one "
                       f"({best.get(name)})", layer, is_loss=True,
                       is_minor=name in ONE_OF_A_NETWORK and path[-1] == short_name(name))
        return best

    def _find_combined(self, name: str, words: Sequence[str], value: Any,
                       path: KeyPath) -> Fields | None:
        """Return the fields that several words mean together, None if they do not go together."""
        fields: Fields | None = None
        what, folded = "", {*map(fold_word, words)}
        if name == "link.keys" and (mixture := find_mixture(words)) is not None:
            fields, what = mixture, ("several key managements, of which the station uses one "
                                     "(keys)")
        elif name == "link.cipher" and folded in OLD_AND_NEW:
            fields = {"link.cipher": "CCMP", "link.group_cipher": "TKIP"}
            what = "CCMP for stations that have it, and TKIP for frames to all"
        elif name == "link.group" and (groups := find_all(name, words)):
            fields = {"link.group": groups[0], "link.station_groups": groups,
                      "link.access_point_groups": [*groups]}
            what = "several groups, of which both ends use one (group)"
        elif name == "link.vlan" and len(words) > 1 and all(
                word.isdecimal() and self._is_accepted(name, int(word)) for word in words):
            first, *others = dict.fromkeys(map(int, words))
            fields = {"link.vlan": first, **({"link.further_vlans": others} if others else {})}
            what = "vlan of the first station, and further_vlans of the others"
        elif name == "link.akm" and folded == {"sha1", "sha256"}:
            written = (self.document.data.get("layers"), self.said, self.translated)
            keys = "EAP" if "eap" in str(written) else "PSK"
            fields = {"link.akm": "sha256", "link.offered": [f"WPA-{keys}", f"WPA-{keys}-SHA256"]}
            what = "two key managements, of which the station uses one (akm)"
        elif name == "link.roaming" and len(words) > 1 and folded <= {*HINTS}:
            fields = {each: meant for word in folded for each, meant in HINTS[word].items()}
            what = ("fast transition, neighbor reports and BSS transition, each in a field of its "
                    "own")
        if fields is not None:
            self.add_error(path, f"{show_value(value)} is {what}", "link")
        return fields

    def _set_fields(self, name: str, fields: Fields) -> None:
        """Set the field for which a word was written, and other fields that the word implies."""
        if "link.sae" in fields:
            self.implied.setdefault("link.keys", "sae")
        for each, value in fields.items():
            if each == name:
                self.translated[each] = value
            elif each.endswith(".options"):
                self._add_options(each, value)
            else:
                self.implied.setdefault(each, value)

    def _claim_field(self, name: str, value: Any, path: KeyPath) -> None:
        """Set a field from a key of the draft, and remember the key.

        Of two keys the later one counts, but the first proposal. Of two versions of TLS it is the
        higher one, which both ends negotiate. Of EAP and a certificate for IKE it is EAP: the other
        end has a certificate.
        """
        former = self.translated.get(name)
        if name == "dot1x.tls.version" and former is not None:
            value_set = max(str(value), str(former))
        elif former is not None and (name in PROPOSALS or (
                name == "ipsec.authentication" and str(former).startswith("eap"))):
            value_set = former
        else:
            value_set = value
        self.translated[name] = value_set
        self.claims.append((name, value, path))

    def _note_conflicts(self) -> None:
        """Note the keys whose field another key of the draft has set to another value."""
        for name, value, path in self.claims:
            final = {**self.translated, **self.said}.get(name)
            is_gateway = name == "ipsec.authentication" and str(final).startswith("eap") \
                and value in ("pubkey", "certificate")
            if value != final and not is_gateway:
                self.note_left(path, show_value(str(path[-1])),
                               f"another key says {short_name(name)}: {final}",
                               name.partition(".")[0])

    def _add_options(self, name: str, options: Mapping[str, Mapping[str, Any]]) -> None:
        """Add options of daemons that a key means to those that other keys mean."""
        self.implied[name] = merge_options(self.implied.get(name), options)

    def add_error(self, path: KeyPath, text: str, *layers: str, is_about_key: bool = False,
                  is_minor: bool = False, is_loss: bool = False) -> None:
        """Add a mistake in the draft. `layers` are those in which its correction is written.

        The other arguments are fields of `Change`.
        """
        own = {str(part) for part in path[1:2]
               if layers and path[0] == "layers" and len(path) > 2}
        self.changes.append(Change(path, text, frozenset({*layers, *(own & {*MODELS})}),
                                   is_about_key=is_about_key,
                                   is_minor=is_minor, is_loss=is_loss))

    def _note_key(self, path: KeyPath, text: str, *layers: str) -> None:
        self.add_error(path, text, *layers, is_about_key=True)

    def note_left(self, path: KeyPath, text: str, reason: str, *layers: str) -> None:
        """Note what a correction leaves out, and the reason."""
        self.changes.append(Change(path, text, frozenset(layers), reason=reason, is_about_key=True,
                                   is_loss=True))

    def note_added(self, path: KeyPath, key: str, *layers: str) -> None:
        """Note a key that the draft lacks, which the corrected line shows."""
        self.changes.append(Change(path, f"{key} is added", frozenset(layers), is_about_key=True,
                                   is_minor=True, is_silent=True))

    def _read_parts(self) -> None:
        """Join an IPsec proposal that was written in several parts."""
        parts = {kind: find_token(word) for kind, word in self.proposal_parts.items()}
        if not parts:
            return
        if None in parts.values() or "encryption" not in parts:
            raise NotUnderstoodError
        kinds_of_esp = ("encryption", "pfs") if parts["encryption"] in AEADS else (
            "encryption", "integrity", "pfs")
        for name, kinds in (
                ("ipsec.ike_proposal", ("encryption", "integrity", "prf", "group")),
                ("ipsec.esp_proposal", kinds_of_esp)):
            proposal = find_proposal(
                "-".join(str(parts[kind]) for kind in kinds if kind in parts),
                is_ike=name == "ipsec.ike_proposal")
            if proposal is not None:
                self.implied.setdefault(name, proposal)
