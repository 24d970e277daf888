"""Look up a policy field's declaration in the models: keys, words, numbers and their range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

#: Names of a value in other programs and documents, by the field that they are written in.
SYNONYMS: dict[str, dict[str, str]] = {
    "cipher": {"aes": "CCMP", "aes-ccmp": "CCMP", "aes-ccm": "CCMP", "ccm": "CCMP",
               "aes-gcmp": "GCMP", "wep-128": "WEP-104", "wep-64": "WEP-40", "wep128": "WEP-104",
               "wep64": "WEP-40"},
    "keys": {"wpa-psk": "psk", "wpa2-psk": "psk", "passphrase": "psk", "wpa-eap": "eap",
             "wpa2-enterprise": "eap", "wpa3-sae": "sae", "wpa3": "sae", "wpa3-personal": "sae"},
    "pmf": {"disabled": "0", "off": "0", "optional": "1", "capable": "1", "required": "2",
            "mandatory": "2"},
    "group": {"p-256": "19", "p-384": "20", "p-521": "21", "secp256r1": "19", "secp384r1": "20",
              "secp521r1": "21"},
    "key": {"secp256r1": "p-256", "secp384r1": "p-384", "ec-256": "p-256", "ec-384": "p-384"},
    "eap": {"eap-tls": "TLS", "eap-ttls": "TTLS", "eap-md5": "MD5", "eap-pwd": "PWD",
            "eap-peap": "PEAP", "peap-mschapv2": "PEAP"},
    "macsec": {"gcm": "GCM-AES-128", "aes-128": "GCM-AES-128"},
}


class Declared(NamedTuple):
    """A field as its model declares it.

    `model` is set for a block of keys, and `choices` for one of several words or numbers. `low`
    and `high` bound other numbers.
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
        """Return advice on the number to write."""
        if self.choices:
            return f"write one of: {', '.join(map(str, self.choices))}"
        return "write a whole number" if self.low is None else f"write {self.low} to {self.high}"


def find_declared(root: type[BaseModel], path: Sequence[str | int]) -> Declared:
    """Return the declaration at a path of keys.

    The result is an empty one if no model has the key.
    """
    declared = Declared(model=root)
    items: Any = None
    for part in path:
        if isinstance(part, int) and items is not None:
            declared, items = _declared_by(items)
            continue
        field = declared.model.model_fields.get(str(part)) if declared.model else None
        if field is None:
            return Declared()
        declared, items = _declared_by(_annotation_of(field))
        if field.default is not None and not field.is_required():
            declared = declared._replace(default=field.default)
    return declared


def _annotation_of(field: FieldInfo) -> Any:
    """Return the annotation, with the metadata that pydantic has moved to the field."""
    if not field.metadata:
        return field.annotation
    return Annotated[(field.annotation, *field.metadata)]  # type: ignore[valid-type,unused-ignore]


def _declared_by(annotation: Any) -> tuple[Declared, Any]:
    """Return the declaration of an annotation, and the annotation of a list's items."""
    declared, items = Declared(), None
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
    """Yield the types and constraints that unions and Annotated consist of."""
    if isinstance(annotation, FieldInfo):
        yield from annotation.metadata
    elif get_origin(annotation) in (Literal, list) or not get_args(annotation):
        yield annotation
    else:
        for part in (*get_args(annotation), *getattr(annotation, "__metadata__", ())):
            yield from _annotation_parts(part)
