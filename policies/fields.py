"""Define the field types that the models of policy layers share.

The models use pydantic. The types are ids and names of policies, whole numbers, and values of
daemon options. Validators such as `plain_text` refuse text that could break out of its line in a
daemon's configuration file. `SparseLayer` is the base class of layers. It leaves out empty fields
when a policy is written, so a field that is added later does not change the text of old policies.
`make_id` makes an id from a text such as an SSID.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from policies.errors import make_fault, show_value

_ID = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"
# Ansible, which renders the policy, would evaluate these as templates.
_TEMPLATE_MARKS = ("{{", "{%", "{#")


def plain_text(text: str) -> str:
    """Refuse text that could break out of its line in a daemon's configuration file."""
    if not text.isprintable():
        raise make_fault(
            f"{show_value(text)} contains a line break or another control character",
            "keep it on one line of printable characters",
        )
    for mark in _TEMPLATE_MARKS:
        if mark in text:
            raise make_fault(f"{show_value(text)} contains {mark}",
                             f"leave out {mark}, a template mark")
    return text


def _check_id(text: str) -> str:
    # fullmatch, because $ would accept a trailing newline.
    if not re.fullmatch(_ID[1:-1], text):
        raise make_fault(
            f"{show_value(text)} cannot name files and tables",
            "use 1 to 40 letters, digits, '-' or '_', with a letter or digit first",
        )
    return text


def make_id(text: str) -> str:
    """Return an id for a policy, made from a text such as a network's name."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    word = re.sub(r"[^A-Za-z0-9_-]+", "-", plain).strip("-_")[:40].rstrip("-_")
    return word if word else "policy"


def _check_whole(value: object) -> object:
    # Literal[0, 1] accepts True and 1.0, even in strict models, because they are equal.
    if isinstance(value, bool | float):
        raise make_fault(f"{show_value(value)} is not a whole number",
                         "write a plain number such as 0 or 1")
    return value


def option_value(value: object) -> object:
    """Accept a value for a daemon's option: an integer, or text of one line.

    YAML's booleans are 0 and 1, as hostapd and wpa_supplicant have no others.
    """
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str | int):
        raise make_fault(f"the value is {show_value(value)}", "write a number or text")
    return plain_text(value) if isinstance(value, str) else value


PolicyId = Annotated[
    str,
    AfterValidator(_check_id),
    Field(
        json_schema_extra={"pattern": _ID}, description="Short name for file names and tables."
    ),
]
PolicyName = Annotated[
    str,
    Field(min_length=1, max_length=100, description="What the policy is, for people."),
    AfterValidator(plain_text),
]
Whole = BeforeValidator(_check_whole)
OptionValue = Annotated[str | int, BeforeValidator(option_value)]


class SparseLayer(BaseModel):
    """A policy layer that leaves out empty fields when it is written.

    So a layer without fields that were added later keeps its text, its rendering and its digest.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_serializer(mode="wrap")
    def _to_sparse(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        stored: dict[str, Any] = handler(self)
        return {key: value for key, value in stored.items() if value is not None}


#: Most characters of a server's name. A certificate's name has up to 64, and the one that stations
#: refuse has up to 11 more than the policy's.
_SERVER_NAME_CHARACTERS = 53


def check_server_name(text: str) -> str:
    """Check the DNS name of a server, in lower case (RFC 1123)."""
    if len(text) > _SERVER_NAME_CHARACTERS or not re.fullmatch(
            r"([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]*[a-z0-9])?", text):
        raise make_fault(f"{show_value(text)} is not a server's name",
                         "write one DNS name of at most "
                         f"{_SERVER_NAME_CHARACTERS} characters, such as radius.home.example")
    return text


def check_realm(text: str) -> str:
    """Check a realm of a network access identifier (RFC 7542): letters, digits and '-'."""
    if not re.fullmatch(r"[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})+", text):
        raise make_fault(f"{show_value(text)} is not a realm",
                         "write a domain such as home.example")
    return text
