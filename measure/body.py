"""Upgrade the body of a record from its schema to the current one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pydantic import BaseModel

from measure.record import RecordError

#: Upgrade functions by the schema that each reads; each returns a body of the next schema.
BodyUpgrades: TypeAlias = Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]
_KEY = "schema"


def current_schema(kind: type[BaseModel]) -> int | None:
    """Return the current schema number of a class of bodies, or None."""
    for name, field in kind.model_fields.items():
        if _KEY in (field.alias, name) and isinstance(field.default, int):
            return field.default
    return None


def upgrade_body(document: Mapping[str, Any], kind: type[BaseModel],
                 upgrades: BodyUpgrades) -> dict[str, Any]:
    """Upgrade a body to the current schema of its class.

    Args:
        document: The body as recorded.
        kind: The study's class of bodies.
        upgrades: Upgrade functions by the schema that each reads.

    Raises:
        RecordError: The body cannot be upgraded; the text names no file.
    """
    body = dict(document)
    current = current_schema(kind)
    if current is None:
        return body
    number = body.get(_KEY, current)
    while number != current:
        if not isinstance(number, int) or number not in upgrades:
            raise RecordError(f"measured is of schema {number!r:.40}, this version of its study "
                              f"reads {current}; use the version that wrote it, or measure again")
        try:
            body = dict(upgrades[number](body))
        except Exception as error:  # noqa: BLE001 - a study's own code may raise anything
            what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise RecordError(f"measured is of schema {number} and does not fit ({what}); move it "
                              "away or measure again") from None
        if body.get(_KEY) == number:
            raise RecordError(f"measured is of schema {number}, which its upgrade leaves; correct "
                              "the study")
        number = body.get(_KEY)
    return body
