"""A strict reader of JSON objects: every key has its type, unknown ones are refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import TypeVar

from protocols.authenticast.crypto import UnusableKey

T = TypeVar("T")
_MISSING = object()


class ConfigError(ValueError):
    """A configuration that cannot be used; the text names file, key and remedy."""


class Fields:
    """Takes keys out of an object; what is left in the end is unknown."""

    def __init__(self, values: object, where: str) -> None:
        if not isinstance(values, dict):
            raise ConfigError(f"{where}: an object is needed")
        self._values = dict(values)
        self.where = where

    def take(self, key: str, convert: Callable[[object], T], default: object = _MISSING) -> T:
        """A value as `convert` makes it, which says what it wants in a ValueError."""
        value = self._values.pop(key, default)
        if value is _MISSING:
            raise ConfigError(f"{self.where}: {key} is missing")
        try:
            return convert(value)
        except ConfigError:
            raise
        except (ValueError, OSError) as error:
            raise ConfigError(f"{self.where}: {key}: {error}") from None

    def inner(self, key: str, default: object = _MISSING) -> Fields:
        """An object within."""
        return self.take(key, lambda value: Fields(value, f"{self.where}: {key}"), default)

    def end(self) -> None:
        """Refuse what nobody has taken."""
        if self._values:
            raise ConfigError(f"{self.where}: unknown: {', '.join(sorted(self._values))}")


def read(path: Path) -> object:
    """The JSON in a file. Raises ConfigError."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path.name}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path.name}: no JSON: {error}") from None


def text(value: object) -> str:
    """A name."""
    if not isinstance(value, str) or not value or len(value.encode()) > 255:
        raise ValueError("a name of 1 to 255 bytes is needed")
    return value


def address(value: object) -> str:
    """An IPv4 address."""
    try:
        return str(IPv4Address(text(value)))
    except AddressValueError:
        raise ValueError(f"an IPv4 address is needed, not {value!r}") from None


def boolean(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false is needed")  # noqa: TRY004 - see `take`
    return value


def number(low: float, high: float = float("inf")) -> Callable[[object], float]:
    """A number in a range."""
    def convert(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not (
                low <= value <= high):
            raise ValueError(f"a number from {low:g} to {high:g} is needed, not {value!r}")
        return float(value)
    return convert


def whole(low: int, high: int) -> Callable[[object], int]:
    """A whole number in a range."""
    def convert(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high} is needed, not {value!r}")
        return value
    return convert


def several(convert: Callable[[object], T]) -> Callable[[object], list[T]]:
    """A list of one or more."""
    def convert_all(value: object) -> list[T]:
        if not isinstance(value, list) or not value:
            raise ValueError("a list of one or more is needed")
        return [convert(item) for item in value]
    return convert_all


def one_of(names: Mapping[str, T]) -> Callable[[object], T]:
    """A name that stands for something."""
    def convert(value: object) -> T:
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"{value!r} is not one of {', '.join(names)}")
        return names[value]
    return convert


def key_file(folder: Path, load: Callable[[bytes], T]) -> Callable[[object], T]:
    """A key in a file beside the configuration."""
    def convert(value: object) -> T:
        path = folder / text(value)
        try:
            return load(path.read_bytes())
        except OSError as error:
            raise ValueError(f"{path.name}: {error.strerror}") from None
        except UnusableKey as error:
            raise ValueError(f"{path.name}: {error}") from None
    return convert
