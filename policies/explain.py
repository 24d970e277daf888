"""Turn pydantic's errors into one line with the file's line number and advice."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from pydantic import ValidationError

from policies.declared import SYNONYMS, Declared, find_declared
from policies.document import Document, KeyPath, Spot
from policies.errors import PolicyError, advise_choice, show_value
from policies.options import DAEMONS, is_secret
from policies.policy import PolicyFile

_LAYER_DEPTH = 2  # layers.link and the other layers, which may be null
_KEY = "[key]"  # pydantic's last path element if a mapping's key, not its value, is wrong
_MANUAL = "see docs/policies.md"
#: Words that people write for a layer that is off.
_OFF = ("none", "open", "off", "no", "null")
_CONSEQUENCE = "default_factory_not_called"  # consequence of another field's error


class _Found(NamedTuple):
    """An error in a policy file.

    `rank` puts a missing key after the misspelt key that explains it.
    """

    rank: int
    line: int
    what: str
    advice: str


class _Place(NamedTuple):
    """The place of an error, with the value there and its text in the file."""

    path: KeyPath
    value: Any
    text: str

    @property
    def label(self) -> str:
        return ".".join(str(part)[:64] for part in self.path) or "the file"

    @property
    def declared(self) -> Declared:
        """Return the models' declaration for this place."""
        return find_declared(PolicyFile, self.path)


class _Elsewhere(NamedTuple):
    """Advice on a key that belongs elsewhere, by the place where it is written."""

    where: str
    advice: str


#: Keys in lower case that people try for a layer.
_ELSEWHERE = {
    "macsec": _Elsewhere("layers", "write wire: {macsec: GCM-AES-128}"),
    **dict.fromkeys(("wifi", "wlan", "air", "wpa", "wpa2", "wpa3", "wireless"), _Elsewhere(
        "layers", "write link: for what protects frames on the air, and dot1x: for EAP")),
    **dict.fromkeys(("8021x", "802.1x", "eap", "radius"), _Elsewhere(
        "layers", "write dot1x: with eap: below it")),
    **dict.fromkeys(("ike", "ikev2", "vpn"), _Elsewhere(
        "layers", "write ipsec: with ike: 2 below it, or wireguard: {}")),
    "group_cipher": _Elsewhere(
        "layers.link", "leave it out: frames to all have the cipher of the others"),
    **dict.fromkeys(("passphrase", "password", "psk", "secret"), _Elsewhere(
        "layers.link", "leave it out: it is made anew for each run; write keys: psk or sae")),
}


def explain_error(error: ValidationError, document: Document) -> PolicyError:
    """Return the first error by line, with the number of the others."""
    details = [detail for detail in error.errors(include_url=False)
               if detail["type"] != _CONSEQUENCE and not _shows_secret(detail["loc"])]
    mistakes = sorted(_describe_detail(detail, document) for detail in details)
    first = mistakes[0]
    return PolicyError(document.file, first.line, first.what, first.advice, len(mistakes) - 1)


def _shows_secret(path: KeyPath) -> bool:
    """Return whether an error is about a secret's value. Its name has an error of its own."""
    daemon = next((daemon for daemon in DAEMONS if daemon in path[:-1]), None)
    return daemon is not None and path[-1] != _KEY and is_secret(daemon, str(path[-1]))


def _describe_detail(detail: Any, document: Document) -> _Found:
    path: KeyPath = tuple(part for part in detail["loc"] if part != _KEY)
    spot, kind = _find_spot(path, document), detail["type"]
    place = _Place(path, detail["input"], spot.text)
    if kind == "missing":
        return _Found(1, spot.key_line, *_describe_missing(place))
    if isinstance(place.value, bool) and kind != "extra_forbidden":
        return _Found(0, spot.line, *_describe_boolean(place))
    if kind == "policy":
        if detail["loc"][-1:] == (_KEY,):
            spot = Spot(spot.key_line, spot.key_line)
        return _describe_check(place, detail["ctx"], spot, document)
    line = spot.key_line if kind == "extra_forbidden" else spot.line
    return _Found(0, line, *_HANDLERS.get(kind, _describe_other)(place))


def _describe_check(place: _Place, context: dict[str, Any], spot: Spot,
                    document: Document) -> _Found:
    """Return an error of qop's own checks, which have their texts and the keys to blame."""
    blamed = [(*place.path, *keys) for keys in context["at"]]
    if not blamed:
        return _Found(0, spot.line, f"{place.label}: {context['what']}", context["advice"])
    here = next((path for path in blamed if path in document.spots), blamed[0])
    return _Found(0, _find_spot(here, document).line, context["what"], context["advice"])


def _find_spot(path: KeyPath, document: Document) -> Spot:
    """Return the spot of ``path``, or of its nearest parent.

    The parent counts if a base file has the rest.
    """
    while path not in document.spots:
        path = path[:-1]
    return document.spots[path]


def _describe_missing(place: _Place) -> tuple[str, str]:
    choices = place.declared.choices
    *above, key = place.path
    where = ".".join(str(part) for part in above) or "the policy"
    if place.path == ("layers",):
        return f"{where} has no layers", "add layers: with link, dot1x or ipsec, or {} for none"
    advice = f"add {key}: {' or '.join(map(str, choices))}" if choices else f"add a line {key}:"
    return f"{where} lacks the key {key!r}", advice


def _describe_boolean(place: _Place) -> tuple[str, str]:
    """Explain words like ``yes``, which YAML reads as booleans. No field of a policy is one."""
    declared = place.declared
    is_option = "options" in place.path[:-2]
    what = f"{place.label}: {place.text} is a boolean in YAML"
    number = 1 if place.value else 0
    if declared.model or "options" in place.path[-2:]:
        nothing = "null" if len(place.path) == _LAYER_DEPTH else "{}"
        advice = "write its keys below it" if place.value else f"write {nothing} for none"
        return f"{what}, where a block of keys belongs", advice
    if is_option:
        return (
            f"{what}, where the daemon wants 0, 1 or a word",
            f"write {number}, or '{place.text}' in quotes for the word",
        )
    if declared.is_number:
        return f"{what}, where a number belongs", (
            f"write {number}" if number in declared.choices else declared.range_advice
        )
    if declared.is_list:
        return f"{what}, where a list belongs", _list_advice(declared)
    if declared.choices:
        return f"{what}, where a word belongs", declared.range_advice
    return f"{what}, where text belongs", f"write '{place.text}' in quotes"


def _unknown_key(place: _Place) -> tuple[str, str]:
    *above, key = place.path
    model = find_declared(PolicyFile, above).model
    where = ".".join(str(part) for part in above)
    what = f"unknown key {show_value(key)}" + (f" in {where}" if where else "")
    if (belongs := _ELSEWHERE.get(str(key).casefold())) and where == belongs.where:
        return what, belongs.advice
    return what, advise_choice(str(key), model.model_fields if model else ())


def _wrong_choice(place: _Place) -> tuple[str, str]:
    choices = [str(choice) for choice in place.declared.choices]
    word, shown = place.value, show_value(place.value)
    if isinstance(word, list):
        return (f"{place.label}: a list stands where one value belongs",
                place.declared.range_advice)
    if not isinstance(word, str):
        return f"{place.label}: {shown} is not known", advise_choice("", choices)
    if word in choices:
        return f"{place.label}: {shown} is text", f"write {word} without quotes"
    if len(_words_among(word, choices)) > 1:
        return (f"{place.label}: {shown} names several, where one value belongs",
                place.declared.range_advice)
    known = SYNONYMS.get(str(place.path[-1]), {}).get(word.casefold())
    if known in choices and place.declared.is_number:
        return (f"{place.label}: {shown} is not known",
                f"write {known} (known: {', '.join(choices)})")
    return (f"{place.label}: {shown} is not known",
            advise_choice(known if known in choices else word, choices))


def _words_among(text: str, known: Collection[str]) -> list[str]:
    folded = {word.casefold() for word in known}
    return [word for word in text.casefold().replace(",", " ").split() if word in folded]


def _no_number(place: _Place) -> tuple[str, str]:
    shown = show_value(place.value)
    if isinstance(place.value, str) and place.value.strip().lstrip("-").isdecimal():
        return (f"{place.label}: {shown} is text, where a number belongs",
                f"{place.declared.range_advice}, without quotes")
    return f"{place.label}: {shown} stands where a number belongs", place.declared.range_advice


def _out_of_range(place: _Place) -> tuple[str, str]:
    low = place.declared.low
    size = "small" if low is not None and place.value < low else "large"
    return f"{place.label}: {show_value(place.value)} is too {size}", place.declared.range_advice


def _no_list(place: _Place) -> tuple[str, str]:
    return (f"{place.label}: {show_value(place.value)} stands where a list belongs",
            _list_advice(place.declared))


def _list_advice(declared: Declared) -> str:
    return f"write a list, such as {declared.default}" if declared.default else "write a list"


def _no_block(place: _Place) -> tuple[str, str]:
    model = place.declared.model
    keys = ", ".join(model.model_fields) if model else "name: value"
    advice = f"write its keys below it ({keys})"
    if place.value is None:
        advice += ", or {} for none"
    elif len(place.path) == _LAYER_DEPTH and place.value in _OFF:
        advice = f"leave {place.path[-1]} out, which switches it off"
    elif place.path == ("layers",) and place.value in _OFF:
        advice = "write {} for none"
    return f"{place.label}: {show_value(place.value)} stands where a block of keys belongs", advice


def _no_text(place: _Place) -> tuple[str, str]:
    what = f"{place.label}: {show_value(place.value)} stands where text belongs"
    return what, "write it in quotes" if isinstance(place.value, int) else "write one line of text"


def _describe_length(place: _Place) -> tuple[str, str]:
    return f"{place.label}: has {len(place.value)} characters", "write 1 to 100"


def _describe_other(place: _Place) -> tuple[str, str]:
    return f"{place.label}: {show_value(place.value)} does not belong here", _MANUAL


_HANDLERS: dict[str, Callable[[_Place], tuple[str, str]]] = {
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
