"""Read JSON configuration files strictly: unknown keys and wrong types are refused.

The programs of all protocols use this module. `read_json` reads a file. `Fields` takes a JSON
object. Its method `take` returns the value of a key, converted by a function such as
`parse_address` or `whole_number(0, 65535)`. Its method `end` refuses keys that remain. A mistake
raises a `ConfigError`: one line with file, key and remedy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_MISSING = object()


class ConfigError(ValueError):
    """A configuration that cannot be used. The text names file, key and remedy."""


class Fields:
    """A reader that takes keys out of a JSON object, and refuses those that remain.

    `where` begins the text of every error: the name of a file and a position in it, or "".
    """

    def __init__(self, values: object, where: str = "") -> None:
        self.where = where
        if not isinstance(values, dict):
            raise ConfigError(f"{self._location()}an object is needed")
        self._values = dict(values)

    def take(self, key: str, convert: Callable[[object], T], default: object = _MISSING) -> T:
        """Take a key out of the object and return its converted value.

        Args:
            key: the key in the JSON object.
            convert: converts the JSON value. A ValueError from it states what is required.
            default: the JSON value to convert if the key is missing. Without it the key is
                required.

        Raises:
            ConfigError: the key is missing, or `convert` refuses the value.
        """
        value = self._take_value(key, default)
        try:
            return convert(value)
        except (ValueError, OSError) as error:
            raise ConfigError(f"{self._location(key)}{error}") from None

    def take_object(self, key: str, default: object = _MISSING) -> Fields:
        """Take a nested object, and return a reader for it."""
        return Fields(self._take_value(key, default), self._location(key)[:-2])

    def take_objects(self, key: str, default: object = _MISSING) -> list[Fields]:
        """Take a list of objects, and return one reader per object."""
        values = self._take_value(key, default)
        if not isinstance(values, list):
            raise ConfigError(f"{self._location(key)}a list is needed")
        return [Fields(value, self._location(f"{key}[{index}]")[:-2])
                for index, value in enumerate(values)]

    def end(self) -> None:
        """Check that all keys of the object were taken.

        Raises:
            ConfigError: unknown keys remain.
        """
        if self._values:
            raise ConfigError(f"{self._location()}unknown: {', '.join(sorted(self._values))}")

    def _take_value(self, key: str, default: object) -> object:
        value = self._values.pop(key, default)
        if value is _MISSING:
            raise ConfigError(f"{self._location()}{key} is missing")
        return value

    def _location(self, *keys: str) -> str:
        return "".join(f"{part}: " for part in (self.where, *keys) if part)


def read_json(path: Path) -> object:
    """Read a JSON file.

    Raises:
        ConfigError: the file cannot be read, is no JSON, or has a key twice in one object.
    """
    try:
        return json.loads(path.read_text(), object_pairs_hook=_refuse_duplicates)
    except OSError as error:
        raise ConfigError(f"{path.name}: {error.strerror}") from None
    except _DuplicateKey as error:
        raise ConfigError(f"{path.name}: {error} is there twice") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path.name}: no JSON: {error}") from None


class _DuplicateKey(Exception):
    """A key that occurs twice in one JSON object."""


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise _DuplicateKey(next(name for name in names if names.count(name) > 1))
    return values


def parse_text(value: object) -> str:
    """Check that a value is a name of 1 to 255 bytes."""
    if not isinstance(value, str) or not value or len(value.encode()) > 255:
        raise ValueError("a name of 1 to 255 bytes is needed")
    return value


def parse_address(value: object) -> str:
    """Check that a value is an IPv4 address."""
    try:
        return str(IPv4Address(parse_text(value)))
    except ValueError:  # from `parse_text` and IPv4Address
        raise ValueError(f"an IPv4 address is needed, not {value!r}") from None


def parse_boolean(value: object) -> bool:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false is needed")  # noqa: TRY004 - see `take`
    return value


def number_between(low: float = -math.inf, high: float = math.inf) -> Callable[[object], float]:
    """Return a converter for finite numbers within a range."""
    needed = (f"a number from {low:g} to {high:g}" if math.isfinite(high) else
              f"a number of at least {low:g}" if math.isfinite(low) else "a finite number")

    def convert(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not (
                low <= value <= high and _is_finite(value)):
            raise ValueError(f"{needed} is needed, not {value!r:.40}")
        return float(value)
    return convert


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def whole_number(low: int, high: int) -> Callable[[object], int]:
    """Return a converter for whole numbers within a range."""
    def convert(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high} is needed, not {value!r:.40}")
        return value
    return convert


def list_of(convert: Callable[[object], T]) -> Callable[[object], list[T]]:
    """Return a converter for lists of at least one item, given a converter for items."""
    def convert_all(value: object) -> list[T]:
        if not isinstance(value, list) or not value:
            raise ValueError("a list of one or more is needed")
        return [convert(item) for item in value]
    return convert_all


def one_of(names: Mapping[str, T]) -> Callable[[object], T]:
    """Return a converter that accepts the keys of `names`, and maps each to its value."""
    def convert(value: object) -> T:
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"{value!r} is not one of {', '.join(names)}")
        return names[value]
    return convert


def none_or(convert: Callable[[object], T]) -> Callable[[object], T | None]:
    """Return a converter that also accepts null."""
    return lambda value: None if value is None else convert(value)


def key_file(folder: Path, load: Callable[[bytes], T]) -> Callable[[object], T]:
    """Return a converter that reads a key from a file next to the configuration."""
    def convert(value: object) -> T:
        path = folder / parse_text(value)
        try:
            return load(path.read_bytes())
        except OSError as error:
            raise ValueError(f"{path.name}: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from None
    return convert
