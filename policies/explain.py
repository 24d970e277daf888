"""Turns what pydantic found wrong into one line with the file's line number and advice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError

from policies.document import Document, KeyPath, Spot
from policies.errors import PolicyError, advise, show
from policies.policy import PolicyFile

_LAYER_DEPTH = 2  # layers.link and its like, which may be null
_KEY = "[key]"  # pydantic ends a path so where a mapping's key, not its value, is wrong
_MANUAL = "see docs/policies.md"
_CONSEQUENCE = "default_factory_not_called"  # pydantic's word that another field was wrong already


class _Found(NamedTuple):
    """One thing wrong; rank puts a missing key behind the misspelt one that explains it."""

    rank: int
    line: int
    what: str
    advice: str


class _Place(NamedTuple):
    """Where pydantic stumbled: the path of keys, the value there, how the file writes it."""

    path: KeyPath
    value: Any
    text: str

    @property
    def label(self) -> str:
        return ".".join(str(part)[:64] for part in self.path) or "the file"


def explain(error: ValidationError, document: Document) -> PolicyError:
    """The first thing wrong, by line, with the number of the others."""
    details = [detail for detail in error.errors(include_url=False)
               if detail["type"] != _CONSEQUENCE]
    mistakes = sorted(_found(detail, document) for detail in details)
    first = mistakes[0]
    return PolicyError(document.file, first.line, first.what, first.advice, len(mistakes) - 1)


def _found(detail: Any, document: Document) -> _Found:
    path: KeyPath = tuple(part for part in detail["loc"] if part != _KEY)
    spot, kind = _spot(path, document), detail["type"]
    place = _Place(path, detail["input"], spot.text)
    if kind == "missing":
        return _Found(1, spot.key_line, *_missing(place))
    if isinstance(place.value, bool) and kind != "extra_forbidden":
        return _Found(0, spot.line, *_boolean(place))
    if kind == "policy":
        if detail["loc"][-1:] == (_KEY,):
            spot = Spot(spot.key_line, spot.key_line)
        return _checked(place, detail["ctx"], spot, document)
    line = spot.key_line if kind == "extra_forbidden" else spot.line
    return _Found(0, line, *_HANDLERS.get(kind, _other)(place))


def _checked(place: _Place, context: dict[str, Any], spot: Spot, document: Document) -> _Found:
    """One of our own checks, which brings its words and the keys to blame."""
    blamed = [(*place.path, *keys) for keys in context["at"]]
    if not blamed:
        return _Found(0, spot.line, f"{place.label}: {context['what']}", context["advice"])
    here = next((path for path in blamed if path in document.spots), blamed[0])
    return _Found(0, _spot(here, document).line, context["what"], context["advice"])


def _spot(path: KeyPath, document: Document) -> Spot:
    """The spot of ``path``, or of what encloses it where a base file supplied the rest."""
    while path not in document.spots:
        path = path[:-1]
    return document.spots[path]


def _missing(place: _Place) -> tuple[str, str]:
    _, choices = _field(place.path)
    *above, key = place.path
    where = ".".join(str(part) for part in above) or "the policy"
    if place.path == ("layers",):
        return f"{where} has no layers", "add layers: with link, dot1x or ipsec, or {} for none"
    advice = f"add {key}: {' or '.join(map(str, choices))}" if choices else f"add a line {key}:"
    return f"{where} lacks the key {key!r}", advice


def _boolean(place: _Place) -> tuple[str, str]:
    """Words like ``yes``, which YAML turns into booleans; no field of a policy is one."""
    model, choices = _field(place.path)
    is_option = "options" in place.path[:-2]
    what = f"{place.label}: {place.text} is a boolean in YAML"
    number = 1 if place.value else 0
    if model or "options" in place.path[-2:]:
        nothing = "null" if len(place.path) == _LAYER_DEPTH else "{}"
        advice = "write its keys below it" if place.value else f"write {nothing} for none"
        return f"{what}, where a block of keys belongs", advice
    if is_option:
        return (
            f"{what}, where the daemon wants 0, 1 or a word",
            f"write {number}, or '{place.text}' in quotes for the word",
        )
    if choices and isinstance(choices[0], int):
        allowed = ", ".join(map(str, choices))
        return f"{what}, where a number belongs", (
            f"write {number}" if number in choices else f"write one of {allowed}"
        )
    if choices:
        return f"{what}, where a word belongs", f"write one of: {', '.join(map(str, choices))}"
    return f"{what}, where text belongs", f"write '{place.text}' in quotes"


def _unknown_key(place: _Place) -> tuple[str, str]:
    *above, key = place.path
    model, _ = _field(tuple(above))
    where = ".".join(str(part) for part in above)
    what = f"unknown key {show(key)}" + (f" in {where}" if where else "")
    return what, advise(str(key), model.model_fields if model else ())


def _wrong_choice(place: _Place) -> tuple[str, str]:
    _, choices = _field(place.path)
    if isinstance(place.value, str) and place.value in map(str, choices):
        return f"{place.label}: {show(place.value)} is text", f"write {place.value} without quotes"
    word = place.value if isinstance(place.value, str) else ""
    advice = advise(word, [str(choice) for choice in choices])
    return f"{place.label}: {show(place.value)} is not known", advice


def _no_block(place: _Place) -> tuple[str, str]:
    model, _ = _field(place.path)
    keys = ", ".join(model.model_fields) if model else "name: value"
    advice = f"write its keys below it ({keys})"
    if place.value is None:
        advice += ", or {} for none"
    return f"{place.label}: {show(place.value)} stands where a block of keys belongs", advice


def _no_text(place: _Place) -> tuple[str, str]:
    what = f"{place.label}: {show(place.value)} stands where text belongs"
    return what, "write it in quotes" if isinstance(place.value, int) else "write one line of text"


def _length(place: _Place) -> tuple[str, str]:
    return f"{place.label}: has {len(place.value)} characters", "write 1 to 100"


def _other(place: _Place) -> tuple[str, str]:
    return f"{place.label}: {show(place.value)} does not belong here", _MANUAL


_HANDLERS: dict[str, Callable[[_Place], tuple[str, str]]] = {
    "extra_forbidden": _unknown_key,
    "literal_error": _wrong_choice,
    "model_type": _no_block,
    "mapping_type": _no_block,
    "dict_type": _no_block,
    "string_type": _no_text,
    "string_too_short": _length,
    "string_too_long": _length,
}


def _field(path: KeyPath) -> tuple[type[BaseModel] | None, tuple[Any, ...]]:
    """The model or the choices that belong at ``path``, as the models declare them."""
    model: type[BaseModel] | None = PolicyFile
    choices: tuple[Any, ...] = ()
    for part in path:
        field = model.model_fields.get(str(part)) if model else None
        if field is None:
            return None, ()
        model, choices = _of_annotation(field.annotation)
    return model, choices


def _of_annotation(annotation: Any) -> tuple[type[BaseModel] | None, tuple[Any, ...]]:
    for option in (annotation, *get_args(annotation)):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option, ()
        if get_origin(option) is Literal:
            return None, get_args(option)
    return None, ()
