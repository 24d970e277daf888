"""Correct a policy file that uses other words than a policy file may have.

People write a policy in the words of hostapd.conf, of strongSwan or of a product: `cipher: AES`,
`ieee80211w: 2`, `security: WPA2-Enterprise`. `correct_draft` takes such a draft. It returns the
part of the file in qop's words, as one line of YAML, with all of its mistakes corrected. The error
message shows this line. A policy is never loaded from a draft: the file has to say what is
measured.

For example, the line `security: WPA2-Enterprise` of a draft is one mistake. The corrected line has
`layers: {link: {cipher: CCMP, keys: eap}, dot1x: {eap: PEAP, inner: MSCHAPV2}}`.

`DraftReader` collects the fields of the policy, the strongest source last:

- `weak`: fields that a switch implies, such as `okc: 1`
- `implied`: fields that follow from a word about another field
- `translated`: fields in words of other programs
- `said`: fields in a policy's own words

It also collects the mistakes (`Change`). A minor mistake is a misspelling or a missing key. A
silent one is not described, because the corrected line shows it. The targets of a mistake are the
layers that it changes. A misfit is a field that contradicts the others, and is left out.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped,unused-ignore]
from pydantic import ValidationError

from documents.yaml_reader import KeyPath, YamlDocument
from policies.draft_reader import (
    MODELS,
    NOT_KNOWN,
    Change,
    DraftReader,
    NotUnderstoodError,
    merge_options,
)
from policies.eap_methods import TUNNELS
from policies.errors import PolicyError, show_value
from policies.fields import make_id
from policies.layers import Layers
from policies.link import EXCHANGED, OWN_KEY_MANAGEMENT
from policies.policy import PolicyFile
from policies.vocabulary import (
    CREDENTIAL,
    FROM_MEDIUM,
    FROM_SCENARIO,
    KEY_MANAGEMENTS,
    LAYER_NAMES,
    NOT_MEASURED,
    fold_word,
)

#: Characters of a corrected line; a longer one would hide what is wrong.
_LONGEST_LINE = 640
#: Mistakes that a message describes; the corrected line has all of them.
_DESCRIBED = 4
#: Mistakes that a message describes if it names all that the corrected line lacks.
_MOST_DESCRIBED = 10
#: Fields of a draft that do not fit the others, and are left out.
_MOST_MISFITS = 8
#: Misspellings that make a draft. A single one has a message that lists what is known.
_FEWEST_MINOR = 2
#: Layers that a corrected file begins with.
_FIRST_LAYERS = ("link", "dot1x", "aaa")


class Correction(NamedTuple):
    """The correction of a draft: a part of the file in the words of a policy."""

    #: Where the first mistake is, for the line's number.
    path: KeyPath
    what: str
    #: One line of YAML, which replaces the part.
    line: str

    def to_error(self, document: YamlDocument) -> PolicyError:
        """Return the draft's error, which shows the corrected line."""
        return PolicyError(document.file, document.find_spot(self.path).key_line, self.what,
                           f"write {self.line}")


def correct_draft(document: YamlDocument) -> Correction | None:
    """Return the correction of a draft, None if it already is in a policy's words.

    None is returned, too, if the draft is not understood, or the corrected part would have errors.
    """
    reader = DraftReader(document)
    try:
        reader.read_root()
    except NotUnderstoodError:
        return None
    return _Corrector(reader, document, reader.changes).make_correction()


@dataclass
class _Corrector:
    """A corrector of one draft: a policy file in the words of other programs.

    - `reader`: the fields of a policy that the draft means
    - `document`: the draft's YAML
    - `changes`: the mistakes in the draft
    """

    reader: DraftReader
    document: YamlDocument
    changes: list[Change]

    def make_correction(self) -> Correction | None:
        """Return the corrected YAML of the draft with a description of all mistakes.

        None is returned if the draft has too few mistakes, no layer, or no valid correction.
        """
        reader = self.reader
        if all(change.is_minor for change in self.changes) and sum(
                not change.is_silent for change in self.changes) < _FEWEST_MINOR:
            return None
        if not (reader.said or reader.translated or reader.implied or reader.other_layers
                or "layers" in self.document.data):
            return None
        data = self._correct_data()
        line = self._correct_line(data) if self._is_valid(data) else None
        if line is None:
            return None
        changes = sorted(self.changes, key=lambda change: (
            change.is_silent, self.document.find_spot(change.path).key_line))
        return Correction(changes[0].path, _describe_changes(changes), line)

    # --- The corrected file ---

    def _correct_data(self) -> dict[str, Any]:
        reader = self.reader
        fields = {**reader.weak, **reader.implied, **reader.translated, **reader.said}
        for name in (name for name in reader.said if name.endswith(".options")):
            fields[name] = merge_options(reader.implied.get(name), reader.said[name])
        layers: dict[str, Any] = {}
        for layer in Layers.model_fields:
            block = self._layer_block(layer, fields)
            if block is not None or layer in reader.other_layers:
                layers[layer] = block if block is not None else reader.other_layers[layer]
        self._complete_layers(layers)
        data = dict(reader.root)
        if layers or "layers" in self.document.data or "extends" not in data:
            data["layers"] = {name: layers[name] for name in (
                *(name for name in _FIRST_LAYERS if name in layers),
                *(name for name in layers if name not in _FIRST_LAYERS))}
        self._complete_root(data)
        return {key: data[key] for key in ("id", "name", "extends", "layers") if key in data}

    def _layer_block(self, layer: str, fields: Mapping[str, Any]) -> dict[str, Any] | None:
        if layer not in MODELS:
            return None
        block: dict[str, Any] = {}
        for name in MODELS[layer].model_fields:
            inside = {key.rpartition(".")[2]: value for key, value in fields.items()
                      if key.startswith(f"{layer}.{name}.")}
            if f"{layer}.{name}" in fields:
                block[name] = fields[f"{layer}.{name}"]
            elif inside:
                block[name] = inside
        is_there = isinstance(self.reader.other_layers.get(layer), dict)
        return block if block or is_there else None

    def _complete_layers(self, layers: dict[str, Any]) -> None:
        """Add fields that other fields of a draft imply: a cipher, or the needs of WPA3."""
        link, dot1x, ipsec = (block if isinstance(block := layers.get(name), dict) else None
                              for name in ("link", "dot1x", "ipsec"))
        if dot1x and "eap" not in dot1x and "inner" in dot1x:
            outer = next((name for name, within in TUNNELS.items() if dot1x["inner"] in within),
                         "PEAP")
            self._add_key(dot1x, "dot1x", "eap", outer)
        if link is not None:
            self._complete_link(link, dot1x)
            if link.get("keys") == "eap" and not dot1x:
                layers["dot1x"] = dot1x = {}
            if dot1x is not None and "eap" not in dot1x and (dot1x or link.get("keys") == "eap"):
                self._add_key(dot1x, "dot1x", "eap",
                              "TLS" if link.get("akm") == "suite-b-192" else "PEAP")
            if link.get("akm") == "suite-b-192" and dot1x and dot1x.get("eap") == "TLS":
                dot1x.setdefault("tls", {"key": "p-384"})
        elif dot1x and "eap" in dot1x and any("link" in change.targets or not change.targets
                                              for change in self.changes):
            layers["link"] = {"cipher": "CCMP", "keys": "eap"}
            self.reader.note_added(("layers", "link"), "link", "link", "dot1x")
        if dot1x and dot1x.get("eap") in TUNNELS and "inner" not in dot1x:
            self._add_key(dot1x, "dot1x", "inner", TUNNELS[dot1x["eap"]][0])
        if dot1x and str(dot1x.get("eap")).startswith("AKA") and not layers.get("aaa"):
            layers["aaa"] = {"server": "hostapd"}
            self.reader.note_added(("layers", "aaa"), "aaa", "dot1x", "aaa")
        self._complete_ipsec(ipsec)
        wire = layers.get("wire")
        if isinstance(wire, dict) and "macsec" not in wire:
            self._add_key(wire, "wire", "macsec", "GCM-AES-128")

    def _complete_link(self, link: dict[str, Any], dot1x: dict[str, Any] | None) -> None:
        is_wep = str(link.get("cipher")).startswith("WEP")
        self._complete_suite(link)
        if "keys" not in link and "cipher" in link and not is_wep:
            self._add_key(link, "link", "keys", "eap" if dot1x else "psk")
        if link and "cipher" not in link:
            self._add_key(link, "link", "cipher", "CCMP")
        if link.get("keys") in EXCHANGED and not link.get("pmf"):
            self._add_key(link, "link", "pmf", 2)
        has_sae = {"SAE", "FT-SAE"} & {*map(str, link.get("offered") or ())}
        if has_sae and not link.get("pmf") and "link.pmf" not in self.reader.said:
            self._add_key(link, "link", "pmf", 1)
        if dot1x and "eap" in dot1x and "link.keys" not in {**self.reader.said,
                                                            **self.reader.translated}:
            link["keys"] = "eap" if not is_wep else link.get("keys", "eap")
        self._complete_mixture(link)
        if link.get("group_cipher") == link.get("cipher"):
            link.pop("group_cipher", None)
        if link.get("roaming") in OWN_KEY_MANAGEMENT and link.get("akm", "suite-b-192") != \
                "suite-b-192":
            self.reader.add_error(
                ("layers", "link"), f"roaming: {link['roaming']} has a key management of its own, "
                "without akm", "link", is_loss=True)
            del link["akm"]

    def _complete_suite(self, link: dict[str, Any]) -> None:
        """Replace values that contradict the 192-bit suite, if the draft asks for it by a name."""
        if link.get("akm") != "suite-b-192" or "link.akm" in self.reader.said:
            return
        for name, value in KEY_MANAGEMENTS["WPA-EAP-SUITE-B-192"].items():
            key = name.partition(".")[2]
            if link.get(key) != value and not str(link.get(key)).endswith("-256"):
                if name in self.reader.said:
                    self.reader.add_error(
                        ("layers", "link", key), f"{key}: {link[key]} is not of the 192-bit suite",
                        "link", is_loss=True)
                link[key] = value

    @staticmethod
    def _complete_mixture(link: dict[str, Any]) -> None:
        """Add fast transition to the key managements that access points offer with it."""
        offered = link.get("offered")
        if link.get("roaming") in ("ft", "ft-pull") and isinstance(offered, list):
            fast = {f"FT-{name.removeprefix('WPA-').removesuffix('-SHA256')}" for name in offered
                    if not str(name).startswith("FT-")}
            link["offered"] = [*offered, *sorted(fast - {*offered})]

    def _complete_ipsec(self, ipsec: dict[str, Any] | None) -> None:
        if not ipsec:
            return
        ike = str(ipsec.get("ike_proposal", ""))
        if "ike" not in ipsec:
            self._add_key(ipsec, "ipsec", "ike", 2)
        if ike and "esp_proposal" not in ipsec:
            tokens = ike.split("-")
            self._add_key(ipsec, "ipsec", "esp_proposal", "-".join(
                tokens[:1 if "-prf" in ike else 2]))
        for name in ("dpd", "keepalive"):
            if ipsec.get(name) and not ipsec.get("mobike"):
                self._leave_nat(ipsec, name)

    def _leave_nat(self, ipsec: dict[str, Any], name: str) -> None:
        """Leave out dead peer detection or NAT keepalives, and note the reason.

        They need a scenario with NAT, and MOBIKE, which would replace Mobile IP.
        """
        seconds = ipsec.pop(name)
        claimed = (path for field, _, path in self.reader.claims if field == f"ipsec.{name}")
        written = (path for path in self.document.spots if path[-1:] == (name,))
        path = next(chain(claimed, written), ("layers", "ipsec", name))
        self.reader.note_left(
            path, show_value(str(path[-1])), "it is measured behind a router with NAT, and a "
            f"policy for that has mobike: 1 and {name}: {seconds}", "ipsec")

    def _add_key(self, block: dict[str, Any], layer: str, key: str, value: Any) -> None:
        self.reader.note_added(("layers", layer, key), key, layer)
        block[key] = value
        order = list(MODELS[layer].model_fields)
        for name in sorted(block, key=order.index):
            block[name] = block.pop(name)

    def _complete_root(self, data: dict[str, Any]) -> None:
        """Add a missing id and name, and correct an id that cannot name files."""
        named = [name for name in self.reader.names if fold_word(name) not in LAYER_NAMES
                 and not self.reader.is_known_key(name)]
        word = next((name for name in (data.get("name"), *reversed(named),
                                       Path(self.document.file).stem)
                     if isinstance(name, str) and name), "policy")
        if "id" not in data:
            self.reader.note_added(("id",), "id")
            data["id"] = make_id(word)
        elif isinstance(data["id"], str) and make_id(data["id"]) != data["id"]:
            self.reader.add_error(("id",), f"{show_value(data['id'])} cannot name files and tables")
            data["id"] = make_id(data["id"])
        if "name" not in data:
            self.reader.note_added(("name",), "name")
            data["name"] = word[:100]

    # --- Fields that do not fit ---

    def _is_valid(self, data: dict[str, Any]) -> bool:
        """Return whether the corrected file is a valid policy, without fields that do not fit."""
        for _ in range(_MOST_MISFITS):
            error = _find_error(data)
            if error is None:
                return True
            if not self._leave_misfit(error, data):
                return False
        return False

    def _leave_misfit(self, error: ValidationError, data: dict[str, Any]) -> bool:
        """Leave out a field that contradicts the others, and return whether there was such a field.

        A field stays if the message is the same without it. Fields that the draft names as the
        schema does are left out last.
        """
        before = error.errors(include_url=False)
        blamed = [(detail, list(map(str, [*detail["loc"], *keys][1:] or ("",))))
                  for detail in before
                  for keys in detail.get("ctx", {}).get("at", ())]
        blamed.sort(key=lambda item: ".".join(item[1]) in self.reader.said)
        for detail, (layer, *inside) in blamed:
            layers = copy.deepcopy(data["layers"])
            if layer in MODELS and self._leave_key(layers.get(layer), layer, inside) and (
                    (after := _find_error({**data, "layers": layers})) is None
                    or after.errors(include_url=False)[0]["msg"] != detail["msg"]):
                data["layers"] = layers
                self.changes.append(Change(
                    ("layers", layer), show_value(inside[-1]), frozenset({layer}),
                    reason=str(detail["ctx"]["what"]), is_loss=True))
                return True
        return False

    def _leave_key(self, block: Any, layer: str, inside: Sequence[str]) -> bool:
        """Delete a key of a layer, or of a block in it, and return whether it may be left out."""
        if not inside:
            return False
        *above, key = inside
        field = MODELS[layer].model_fields.get(inside[0])
        for name in above:
            block = block.get(name) if isinstance(block, dict) else None
        if not isinstance(block, dict) or key not in block or field is None or (
                not above and field.is_required()):
            return False
        del block[key]
        return True

    # --- The corrected line ---

    def _correct_line(self, data: Mapping[str, Any]) -> str | None:
        """Return the smallest part of the corrected file that has all changes, as one line."""
        part = self._choose_part(data)
        line = str(yaml.safe_dump(part, default_flow_style=True, sort_keys=False, width=10**6,
                                  allow_unicode=True)).strip()
        line = line[1:-1] if len(part) == 1 else line
        return line if len(line) <= _LONGEST_LINE and line.isprintable() else None

    def _choose_part(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the part of the corrected file that replaces the mistakes.

        It is one layer, all layers, or the whole file.
        """
        if not all(change.path[:1] == ("layers",) for change in self.changes):
            return data
        layers = data["layers"]
        described = [change for change in self.changes if not change.is_silent]
        targets = frozenset[str]().union(*(change.targets for change in self.changes))
        sources = {change.path[1:2] for change in described}
        if len(targets) != 1 or len(sources) != 1 or () in sources or not {*targets} <= {*layers} \
                or not all(change.targets for change in described):
            return {"layers": layers}
        [layer] = targets
        return self._choose_line(layer, layers[layer], {change.path for change in described})

    def _choose_line(self, layer: str, block: Mapping[str, Any],
                     places: set[KeyPath]) -> Mapping[str, Any]:
        """Return the one key of a layer that differs from the file, or else the whole layer."""
        raw = self.document.data["layers"].get(layer)
        [place] = places if len(places) == 1 else [()]
        if isinstance(raw, dict) and place[:2] == ("layers", layer) and len(place) == 3:
            new = {key: value for key, value in block.items()
                   if key not in raw or raw[key] != value}
            is_other = any(key in raw and key != place[-1] for key in new)
            if len(new) == 1 and not is_other and all(key in block or key == place[-1]
                                                      for key in raw):
                return new
        return {layer: block}


def _find_error(data: Mapping[str, Any]) -> ValidationError | None:
    """Return the error of a corrected file, None if it is a valid policy."""
    try:
        PolicyFile.model_validate({"layers": {}, **data} if "extends" in data else data)
    except ValidationError as error:
        return error
    return None


# --- The message ---

def _describe_changes(changes: Sequence[Change]) -> str:
    """Describe all mistakes of a draft.

    The description begins with the first mistake. Then come parts that are left out, then other
    mistakes.
    """
    first, *others = changes
    place = first.path[:-1] if first.is_about_key else first.path
    label = ".".join(str(part)[:64] for part in place)
    texts = [_describe_change(first, changes)]
    lost = 0
    for change in sorted(others, key=lambda change: (not change.is_loss, not change.reason)):
        text = _describe_change(change, changes)
        if text not in texts and not change.is_silent:
            texts.append(text)
            lost += change.is_loss
    shown = min(max(_DESCRIBED, 1 + lost), _MOST_DESCRIBED)
    what = ", ".join(texts[:shown])
    if len(texts) > shown:
        what += f", and {len(texts) - shown} more"
    return f"{label}: {what}" if label else what


def _describe_change(change: Change, changes: Sequence[Change]) -> str:
    """Return the text on a mistake, with all keys that are left out for the same reason."""
    if not change.reason:
        return change.text
    same = list(dict.fromkeys(each.text for each in changes if each.reason == change.reason))
    names = same[0] if len(same) == 1 else f"{', '.join(same[:-1])} and {same[-1]}"
    is_one = len(same) == 1
    if change.reason in (FROM_SCENARIO, FROM_MEDIUM):
        return f"{names} {change.reason if is_one else change.reason.replace('comes', 'come')}"
    if change.reason == CREDENTIAL:
        return f"{names} {'is a secret' if is_one else 'are secrets'} that qop makes itself"
    if change.reason in (NOT_MEASURED, NOT_KNOWN):
        return f"{names} {'is' if is_one else 'are'} {change.reason}"
    return f"{names} {'is' if is_one else 'are'} left out: {change.reason}"
