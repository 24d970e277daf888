"""Load a policy from its YAML file, with all files that it extends.

A policy says which protection a network uses. `load_policy` takes a file, `load_named` the id of a
built-in policy. Both return a `Policy`, whose values the models of the layers have checked with
pydantic. `explain_error` turns pydantic's errors into a `PolicyError`: one line with file, line
number and advice. The advice comes from the field's own declaration (`FieldDeclaration`): its
words, or its range of numbers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from documents.refusals import MISREADING_ADVICE
from documents.unquoted import validate_values
from documents.yaml_reader import KeyPath, SourceLines, YamlDocument
from policies.document import file_problem, read_document
from policies.drafts import correct_draft
from policies.errors import PolicyError, advise_choice, one_line, show_value, suggest_word
from policies.options import DAEMONS, is_secret
from policies.policy import Policy, PolicyFile
from policies.vocabulary import (
    KEY_NAMES,
    LEFT_OUT,
    NOT_HERE,
    NOT_MEASURED,
    NOTHING_LIKE_IT,
    WHY_NOT_HERE,
    find_meaning,
    fold_word,
)

# --- Declaration of a field in the models: keys, words, and range of numbers ---

class FieldDeclaration(NamedTuple):
    """The declaration of a policy's field: its type, allowed words or range of numbers.

    `model` is set for a block of keys, and `choices` for one of several words or numbers. `low` and
    `high` bound other numbers.
    """

    model: type[BaseModel] | None = None
    choices: Sequence[Any] = ()
    is_number: bool = False
    is_list: bool = False
    low: int | None = None
    high: int | None = None
    default: Any = None

    @property
    def range_advice(self) -> str:
        """Return advice on the range of numbers that the field allows."""
        if self.choices:
            return f"write one of: {', '.join(map(str, self.choices))}"
        return "write a whole number" if self.low is None else f"write {self.low} to {self.high}"


def find_declaration(root: type[BaseModel], path: Sequence[str | int]) -> FieldDeclaration:
    """Return the declaration of the field at a path of keys.

    The result is an empty one if no model has the key.
    """
    declared = FieldDeclaration(model=root)
    items: Any = None
    for part in path:
        if isinstance(part, int) and items is not None:
            declared, items = _declare_annotation(items)
            continue
        field = declared.model.model_fields.get(str(part)) if declared.model else None
        if field is None:
            return FieldDeclaration()
        declared, items = _declare_annotation(_read_annotation(field))
        if field.default is not None and not field.is_required():
            declared = declared._replace(default=field.default)
    return declared


def _read_annotation(field: FieldInfo) -> Any:
    """Return a field's type annotation, with the constraints that pydantic stores separately."""
    if not field.metadata:
        return field.annotation
    return Annotated[(field.annotation, *field.metadata)]  # type: ignore[valid-type,unused-ignore]


def _declare_annotation(annotation: Any) -> tuple[FieldDeclaration, Any]:
    """Return the declaration that a type annotation means, and the annotation of list items."""
    declared, items = FieldDeclaration(), None
    for part in _annotation_parts(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            declared = declared._replace(model=part)
        elif get_origin(part) is Literal:
            choices = get_args(part)
            declared = declared._replace(choices=choices, is_number=isinstance(choices[0], int))
        elif get_origin(part) is list:
            declared, [items] = declared._replace(is_list=True), get_args(part)
        elif part is int:
            declared = declared._replace(is_number=True)
        elif isinstance(part, Ge):
            declared = declared._replace(low=int(str(part.ge)))
        elif isinstance(part, Le):
            declared = declared._replace(high=int(str(part.le)))
    return declared, items


def _annotation_parts(annotation: Any) -> Iterator[Any]:
    """Yield the types and constraints inside a Python type annotation."""
    if isinstance(annotation, FieldInfo):
        yield from annotation.metadata
    elif get_origin(annotation) in (Literal, list) or not get_args(annotation):
        yield annotation
    else:
        for part in (*get_args(annotation), *getattr(annotation, "__metadata__", ())):
            yield from _annotation_parts(part)


# --- Errors of pydantic as one line, with the file's line number and advice ---

_LAYER_DEPTH = 2  # layers.link and the other layers, which may be null
_KEY_ELEMENT = "[key]"  # pydantic's last path element if a mapping's key, not its value, is wrong
_MANUAL_ADVICE = "see docs/policies.md"
#: Words that people write for a layer that is off.
_OFF_WORDS = ("none", "open", "off", "no", "null")
_CONSEQUENCE = "default_factory_not_called"  # consequence of another field's error


class _ValidationError(NamedTuple):
    """An error in a policy file, before it becomes one line of text.

    `rank` puts a missing key after the misspelt key that explains it.
    """

    rank: int
    line: int
    what: str
    advice: str


class _ErrorPlace(NamedTuple):
    """The place of an error in a policy file: its keys, the refused value, and the value's text.

    `text` is the value as it is written in the file.
    """

    path: KeyPath
    value: Any
    text: str

    @property
    def full_key(self) -> str:
        return ".".join(str(part)[:64] for part in self.path) or "the file"

    @property
    def declared(self) -> FieldDeclaration:
        """Return how the field in this place is declared."""
        return find_declaration(PolicyFile, self.path)


class _MisplacedKey(NamedTuple):
    """Advice on a key that the user wrote in the wrong place of a policy file."""

    where: str
    advice: str


#: Keys in lower case that people try for a layer.
_MISPLACED_KEYS = {
    "macsec": _MisplacedKey(
        "layers", "write wire: {macsec: GCM-AES-128}"),
    **dict.fromkeys(("wifi", "wlan", "air", "wpa", "wpa2", "wpa3", "wireless"), _MisplacedKey(
        "layers", "write link: {cipher: CCMP, keys: psk} (or other values, and dot1x: for EAP)")),
    **dict.fromkeys(("8021x", "802.1x", "eap", "radius"), _MisplacedKey(
        "layers", "write dot1x: {eap: PEAP, inner: MSCHAPV2} (or another method)")),
    **dict.fromkeys(("ike", "ikev1", "ikev2", "vpn"), _MisplacedKey(
        "layers", "write ipsec: {ike: 2, ike_proposal: aes256-sha256-modp2048, esp_proposal: "
        "aes256-sha256} (or other values, or wireguard: {})")),
    **dict.fromkeys(("passphrase", "password", "psk", "secret"), _MisplacedKey(
        "layers.link", "leave it out: it is made anew for each run; write keys: psk or sae")),
}


def explain_error(error: ValidationError, document: YamlDocument) -> PolicyError:
    """Return the error on the first wrong line of a policy file, with the number of other errors.

    Args:
        error: All errors that pydantic found.
        document: The policy file, which has the line number of each value.
    """
    details = [detail for detail in error.errors(include_url=False)
               if detail["type"] != _CONSEQUENCE and not _shows_secret(detail["loc"])]
    mistakes = sorted(_describe_detail(detail, document) for detail in details)
    first = mistakes[0]
    return PolicyError(document.file, first.line, first.what, first.advice, len(mistakes) - 1)


def _shows_secret(path: KeyPath) -> bool:
    """Return whether an error would show a secret's value.

    The secret's name has an error of its own.
    """
    daemon = next((daemon for daemon in DAEMONS if daemon in path[:-1]), None)
    return daemon is not None and path[-1] != _KEY_ELEMENT and is_secret(daemon, str(path[-1]))


def _describe_detail(detail: Any, document: YamlDocument) -> _ValidationError:
    path: KeyPath = tuple(part for part in detail["loc"] if part != _KEY_ELEMENT)
    spot, kind = document.find_spot(path), detail["type"]
    place = _ErrorPlace(path, detail["input"], spot.text)
    if kind == "missing":
        return _ValidationError(1, spot.key_line, *_describe_missing(place))
    if isinstance(place.value, bool) and kind != "extra_forbidden":
        return _ValidationError(0, spot.line, *_describe_boolean(place))
    if spot.misreading and path in document.spots and place.declared.is_number:
        return _ValidationError(0, spot.line, f"{place.full_key}: {spot.misreading}",
                                f"{MISREADING_ADVICE} ({place.declared.range_advice})")
    if kind == "policy":
        if detail["loc"][-1:] == (_KEY_ELEMENT,):
            spot = SourceLines(spot.key_line, spot.key_line)
        return _describe_check(place, detail["ctx"], spot, document)
    line = spot.key_line if kind == "extra_forbidden" else spot.line
    return _ValidationError(0, line, *_HANDLERS.get(kind, _describe_other)(place))


def _describe_check(place: _ErrorPlace, context: dict[str, Any], spot: SourceLines,
                    document: YamlDocument) -> _ValidationError:
    """Return an error that one of qop's own checks of a policy has found, as text and place."""
    blamed = [(*place.path, *keys) for keys in context["at"]]
    if not blamed:
        return _ValidationError(0, spot.line, f"{place.full_key}: {context['what']}",
                                context["advice"])
    here = next((path for path in blamed if path in document.spots), blamed[0])
    return _ValidationError(0, document.find_spot(here).line, context["what"], context["advice"])


def _describe_missing(place: _ErrorPlace) -> tuple[str, str]:
    """Return which key is missing in a policy, and what to do."""
    choices = place.declared.choices
    *above, key = place.path
    where = ".".join(str(part) for part in above) or "the policy"
    if place.path == ("layers",):
        return f"{where} has no layers", "add layers: with link, dot1x or ipsec, or {} for none"
    advice = f"add {key}: {' or '.join(map(str, choices))}" if choices else f"add a line {key}:"
    return f"{where} lacks the key {key!r}", advice


def _describe_boolean(place: _ErrorPlace) -> tuple[str, str]:
    """Explain that YAML reads words like ``yes`` as booleans, which no field of a policy is.

    Returns:
        What is wrong, and what to do.
    """
    declared = place.declared
    what = f"{place.full_key}: {place.text} is a boolean in YAML"
    number = 1 if place.value else 0
    if declared.model or "options" in place.path[-2:]:
        nothing = "null" if len(place.path) == _LAYER_DEPTH else "{}"
        advice = "write its keys below it" if place.value else f"write {nothing} for none"
        return f"{what}, where a block of keys belongs", advice
    if declared.is_number:
        return f"{what}, where a number belongs", (
            f"write {number}" if number in declared.choices else declared.range_advice
        )
    if declared.is_list:
        return f"{what}, where a list belongs", _list_advice(declared)
    if declared.choices:
        return f"{what}, where a word belongs", declared.range_advice
    return f"{what}, where text belongs", f"write '{place.text}' in quotes"


def _unknown_key(place: _ErrorPlace) -> tuple[str, str]:
    """Return what is wrong with a key that a policy does not have, and what to do."""
    *above, key = place.path
    model = find_declaration(PolicyFile, above).model
    where = ".".join(str(part) for part in above)
    what = f"unknown key {show_value(key)}" + (f" in {where}" if where else "")
    if (belongs := _MISPLACED_KEYS.get(str(key).casefold())) and where == belongs.where:
        return what, belongs.advice
    name = KEY_NAMES.get(where.partition(".")[2], {}).get(fold_word(key), "")
    if name.startswith(LEFT_OUT):
        return what, f"leave it out: {name.removeprefix(LEFT_OUT)}"
    if name:
        *blocks, field = name.split(".")
        own = where.partition(".")[2].split(".")
        return what, f"write {field}:" + ("" if blocks == own else
                                          f" in layers.{'.'.join(blocks)}")
    return what, advise_choice(str(key), model.model_fields if model else ())


def _wrong_choice(place: _ErrorPlace) -> tuple[str, str]:
    choices = [str(choice) for choice in place.declared.choices]
    word, shown = place.value, show_value(place.value)
    if isinstance(word, list):
        return (f"{place.full_key}: a list stands where one value belongs",
                place.declared.range_advice)
    if not isinstance(word, str):
        return f"{place.full_key}: {shown} is not known", advise_choice("", choices)
    if word in choices:
        return f"{place.full_key}: {shown} is text", f"write {word} without quotes"
    return _describe_word(place, word, choices)


def _describe_word(place: _ErrorPlace, word: str, choices: Sequence[str]) -> tuple[str, str]:
    """Explain a word that a field does not accept. It may be a word of another program.

    Returns:
        What is wrong, and what to do.
    """
    field = ".".join(str(part) for part in place.path[1:] if not isinstance(part, int))
    shown, fields = show_value(word), find_meaning(field, word) or {}
    meant = fields.get(field)
    if len([each for each in re.split(r"[\s,;+/|]+", word) if find_meaning(field, each)]) > 1:
        return (f"{place.full_key}: {shown} names several, where one value belongs",
                place.declared.range_advice)
    if str(meant) in choices and (fold_word(word) != fold_word(meant) or len(fields) > 1):
        in_list = isinstance(place.path[-1], int)
        lines = _write_fields({field: meant, **fields}, field)
        meaning_text = meant if len(fields) == 1 else ", ".join(lines)
        written = meant if in_list else " and ".join(lines)
        return (f"{place.full_key}: {shown} is {meaning_text}",
                f"write {written} (known: {', '.join(choices)})")
    if (instead := NOT_HERE.get(field, {}).get(fold_word(word))) is not None:
        why = f", as {WHY_NOT_HERE[field]}" if field in WHY_NOT_HERE else ""
        return (f"{place.full_key}: {shown} is {NOT_MEASURED} ({instead} is){why}",
                f"write {place.path[-1]}: {instead}")
    if fold_word(word) in NOTHING_LIKE_IT.get(field, ()):
        return f"{place.full_key}: {shown} is {NOT_MEASURED}", place.declared.range_advice
    if place.path[-1] in ("keys", "passphrases", "preshared_key") \
            and not suggest_word(word, choices):
        shown = "this value"  # which may be a passphrase
    return f"{place.full_key}: {shown} is not known", advise_choice(word, choices)


def _write_fields(fields: Mapping[str, Any], field: str) -> Sequence[str]:
    """Return all fields that a word means as YAML, those in the block of `field` first."""
    block = field.rpartition(".")[0]
    lines = [f"{name.removeprefix(f'{block}.')}: {value}" for name, value in fields.items()
             if name.rpartition(".")[0] == block]
    lines += [f"{name.rpartition('.')[2]}: {value} in layers.{name.rpartition('.')[0]}"
              for name, value in fields.items() if name.rpartition(".")[0] != block]
    return lines


def _no_number(place: _ErrorPlace) -> tuple[str, str]:
    shown = show_value(place.value)
    if isinstance(place.value, str) and place.value.strip().lstrip("-").isdecimal():
        return (f"{place.full_key}: {shown} is text, where a number belongs",
                f"{place.declared.range_advice}, without quotes")
    return f"{place.full_key}: {shown} stands where a number belongs", place.declared.range_advice


def _out_of_range(place: _ErrorPlace) -> tuple[str, str]:
    low = place.declared.low
    size = "small" if low is not None and place.value < low else "large"
    return f"{place.full_key}: {show_value(place.value)} is too {size}", place.declared.range_advice


def _no_list(place: _ErrorPlace) -> tuple[str, str]:
    choices = find_declaration(PolicyFile, (*place.path, 0)).choices
    known = ", ".join(map(str, choices))
    return (f"{place.full_key}: {show_value(place.value)} stands where a list belongs",
            f"write it in brackets, with commas, of these: {known}" if choices else
            _list_advice(place.declared))


def _list_advice(declared: FieldDeclaration) -> str:
    return f"write a list, such as {declared.default}" if declared.default else "write a list"


def _no_block(place: _ErrorPlace) -> tuple[str, str]:
    model = place.declared.model
    keys = ", ".join(model.model_fields) if model else "name: value"
    advice = f"write its keys below it ({keys})"
    if place.value is None:
        advice += ", or {} for none"
    elif len(place.path) == _LAYER_DEPTH and place.value in _OFF_WORDS:
        advice = f"leave {place.path[-1]} out, which switches it off"
    elif place.path == ("layers",) and place.value in _OFF_WORDS:
        advice = "write {} for none"
    shown = show_value(place.value)
    return f"{place.full_key}: {shown} stands where a block of keys belongs", advice


def _no_text(place: _ErrorPlace) -> tuple[str, str]:
    what = f"{place.full_key}: {show_value(place.value)} stands where text belongs"
    return what, "write it in quotes" if isinstance(place.value, int) else "write one line of text"


def _describe_length(place: _ErrorPlace) -> tuple[str, str]:
    return f"{place.full_key}: has {len(place.value)} characters", "write 1 to 100"


def _describe_other(place: _ErrorPlace) -> tuple[str, str]:
    return f"{place.full_key}: {show_value(place.value)} does not belong here", _MANUAL_ADVICE


_HANDLERS: dict[str, Callable[[_ErrorPlace], tuple[str, str]]] = {
    "extra_forbidden": _unknown_key,
    "literal_error": _wrong_choice,
    "int_type": _no_number,
    "greater_than_equal": _out_of_range,
    "less_than_equal": _out_of_range,
    "list_type": _no_list,
    "model_type": _no_block,
    "mapping_type": _no_block,
    "dict_type": _no_block,
    "string_type": _no_text,
    "string_too_short": _describe_length,
    "string_too_long": _describe_length,
}


# --- Files of policies ---

EXTENDS_LIMIT = 8  # depth of files that a policy may extend

PAPER_IDS = tuple(f"P{number}" for number in range(1, 13))
_POLICIES_FOLDER = Path(__file__).parent
#: Pattern of built-in ids: a letter and a number; a variant has an additional word.
_POLICY_ID = re.compile(r"([A-Z])([0-9]+)(-[a-z]+)?")


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Load and check a policy from its YAML file.

    Raises:
        PolicyError: The policy is invalid; the text is one line ``FILE:LINE: what is wrong; what to
            do``. FILE may be a file that ``path`` extends.
    """
    policy = _load_file(os.fspath(path), ())
    own = _POLICIES_FOLDER / f"{policy.id}.yml"
    if (_POLICY_ID.fullmatch(policy.id) and own.exists() and not own.samefile(path)
            and _load_file(os.fspath(own), ()).layers != policy.layers):
        document = read_document(os.fspath(path))
        raise PolicyError(document.file, document.spots[("id",)].key_line,
                          f"id: {policy.id} comes with qop, and is another policy there",
                          "give yours an id of its own")
    return policy


def load_all() -> tuple[Policy, ...]:
    """Load the twelve policies of the 2007 paper, in the paper's order."""
    return tuple(map(load_named, PAPER_IDS))


def policy_ids() -> tuple[str, ...]:
    """Return the ids of all built-in policies: the paper's twelve, then today's."""
    ids = [match for path in _POLICIES_FOLDER.glob("*.yml")
           if (match := _POLICY_ID.fullmatch(path.stem))]
    return tuple(match[0] for match in sorted(
        ids, key=lambda match: (match[0] not in PAPER_IDS, match[1], int(match[2]),
                                match[3] or "")))


def load_named(policy_id: str) -> Policy:
    """Load a built-in policy by its id."""
    return load_policy(_POLICIES_FOLDER / f"{policy_id}.yml")


def _load_file(file: str, above: tuple[str, ...]) -> Policy:
    """Load one policy file, and the files that it extends.

    `above` has the real paths of the files that extend this file.
    """
    document = read_document(file)
    data = _switch_layers(document.data)
    if isinstance(data.get("extends"), str):
        data["layers"] = _inherit_layers(document, data.get("layers", {}),
                                         (*above, os.path.realpath(file)))
    try:
        parsed = validate_values(PolicyFile.model_validate, data, document.spots.get,
                                 lambda path: find_declaration(PolicyFile, path).choices)
    except ValidationError as error:
        correction = correct_draft(document)
        raise explain_error(error, document) if correction is None else \
            correction.to_error(document) from None
    return Policy(id=parsed.id, name=parsed.name, layers=parsed.layers)


def _switch_layers(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's values with layers for its booleans: `link: off`, `wireguard: on`."""
    layers = data.get("layers")
    if not isinstance(layers, dict):
        return dict(data)
    switched = dict(layers)
    for name, value in layers.items():
        model = find_declaration(PolicyFile, ("layers", name)).model
        if isinstance(value, bool) and model is not None and not (value and any(
                field.is_required() for field in model.model_fields.values())):
            switched[name] = {} if value else None
    return {**data, "layers": switched}


def _inherit_layers(document: YamlDocument, layers: Any, above: tuple[str, ...]) -> Any:
    """Return the layers of a policy file, added to the layers of the file that it extends.

    Args:
        document: The policy file, whose key `extends` names the other file.
        layers: Value of the key `layers` in the policy file. If it is no block, it is returned
            unchanged, and validation refuses it later.
        above: Real paths of the policy file and of all files that extend it.

    Raises:
        PolicyError: The other file cannot be read or is invalid. Or it leads back to this policy
            by `extends`. Or the chain of files is too long.
    """
    extends = document.data["extends"]
    line = document.spots[("extends",)].key_line
    base = str(Path(document.file).parent / extends)
    problem = file_problem(base)
    if problem:
        what, advice = problem
        shown = one_line(base)[-120:]
        raise PolicyError(
            document.file, line, f"extends {shown}: {what}",
            f"{advice} (it starts at this file's folder)"
        )
    if os.path.realpath(base) in above:
        raise PolicyError(document.file, line, "extends leads back to this policy",
                          "remove one extends")
    if len(above) > EXTENDS_LIMIT:
        raise PolicyError(
            document.file, line, f"extends goes deeper than {EXTENDS_LIMIT} files",
            "copy the layers you need"
        )
    inherited = _load_file(base, above).layers.model_dump()
    return {**inherited, **layers} if isinstance(layers, dict) else layers
