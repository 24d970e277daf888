"""Configuration of the program, from JSON, refused in one line where it is wrong."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from protocols.adp.context import Settings
from protocols.adp.effects import Scope
from protocols.adp.errors import AdpError, ConfigError
from protocols.adp.host import VERSIONS, check_host, check_name
from protocols.adp.keys import load_private, load_public, public_half
from protocols.adp.suite import Directory, PrivateKey, PublicKey

# RFC 3692: 253 and 254 are for experiments.
_IP_PROTOCOL = 253
_SCOPES = {"none": Scope.NONE, "trailer": Scope.TRAILER, "all": Scope.ALL}
_TRAILERS = {"sequence": False, "checksum": True}
_MISSING = object()
T = TypeVar("T")


@dataclass(frozen=True)
class DatagramService:
    """The insecure datagram service below: IP under a protocol number, or UDP on a port."""

    kind: str
    number: int


@dataclass(frozen=True)
class Config:
    """One host; see docs/adp.md."""

    version: str
    host: str
    network: DatagramService
    addresses: dict[str, str]  # by host
    keys: dict[str, PrivateKey]
    directory: Directory
    settings: Settings
    ahead: dict[str, list[str]]  # owners to authenticate at the start, by host


class _Reader:
    """Takes keys out of an object; what is left in the end is unknown."""

    def __init__(self, values: object, where: str = "") -> None:
        self._prefix = f"{where}: " if where else ""
        if not isinstance(values, dict):
            raise ConfigError(f"{self._prefix}an object is needed")
        self._values = dict(values)

    def take(self, key: str, convert: Callable[[object], T], default: object = _MISSING) -> T:
        """A value as `convert` makes it, which says what it wants in a ValueError."""
        value = self._values.pop(key, default)
        if value is _MISSING:
            raise ConfigError(f"{self._prefix}{key} is missing")
        try:
            return convert(value)
        except ValueError as error:
            raise ConfigError(f"{self._prefix}{key}: {error}") from None

    def end(self) -> None:
        """Refuse what nobody has taken."""
        if self._values:
            raise ConfigError(f"{self._prefix}unknown: {', '.join(sorted(self._values))}")


def load(path: Path) -> Config:
    """The configuration in a file; keys' files are sought beside it. Raises ConfigError."""
    try:
        return _config(_read(path), path.parent)
    except AdpError as error:
        raise ConfigError(f"{path.name}: {error}") from None


def _config(values: object, folder: Path) -> Config:
    reader = _Reader(values)
    version = reader.take("protocol", _one_of(dict(zip(VERSIONS, VERSIONS, strict=True))))
    host = reader.take("host", _name)
    owners = _owners(reader.take("owners", _list), folder, version)
    addresses, kernel_owners = _hosts(reader.take("hosts", _list))
    config = Config(
        version=version, host=host, addresses=addresses,
        network=reader.take("network", _network, {"kind": "ip"}),
        keys={name: key for name, (key, _) in owners.items() if key is not None},
        directory=Directory(kernel_owners, {name: public for name, (_, public) in owners.items()}),
        settings=_settings(reader, version),
        ahead=reader.take("ahead", _ahead, []),
    )
    reader.end()
    _check(config)
    return config


def _check(config: Config) -> None:
    check_host(config.version, config.host, config.keys, config.directory)
    for host, owners in config.ahead.items():
        if host not in config.addresses or host == config.host:
            raise ConfigError(f"ahead: no other host {host}")
        for owner in owners:
            if owner not in config.keys:
                raise ConfigError(f"ahead: {owner}: no private key here")


def _settings(reader: _Reader, version: str) -> Settings:
    scope = reader.take("scope", _one_of(_SCOPES), "trailer")
    if scope is Scope.NONE and version == "adp":
        raise ConfigError("scope: adp always authenticates: trailer or all")
    checksum = reader.take("trailer", _one_of(_TRAILERS), "sequence")
    bound = reader.take("bound_bytes", _whole, Settings.bound_bytes)
    largest = reader.take("max_message_bytes", _whole, bound)
    if largest > bound:
        raise ConfigError(f"bound_bytes: {bound} is smaller than a message "
                          f"(max_message_bytes is {largest})")
    return Settings(
        scope=scope, checksum=checksum, bound_bytes=bound,
        queue=reader.take("queue", _boolean, Settings.queue),
        timeout_s=reader.take("timeout_s", _real, Settings.timeout_s),
        hold_bytes=reader.take("hold_bytes", _whole, Settings.hold_bytes),
        retry_s=reader.take("retry_s", _real, Settings.retry_s),
        give_up_s=reader.take("give_up_s", _real, Settings.give_up_s),
        rekey_after_s=reader.take("rekey_after_s", _real, Settings.rekey_after_s))


def _owners(values: list[object], folder: Path,
            version: str) -> dict[str, tuple[PrivateKey | None, PublicKey]]:
    owners: dict[str, tuple[PrivateKey | None, PublicKey]] = {}
    for number, value in enumerate(values):
        reader = _Reader(value, f"owner {number}")
        name = reader.take("name", _name)
        private = reader.take("private_key", _text_or_none, None)
        public = reader.take("public_key", _text_or_none, None)
        reader.end()
        if name in owners:
            raise ConfigError(f"owner {number}: a second owner {name}")
        if private is not None and public is None:
            key = load_private(folder / private, version)
            owners[name] = key, public_half(key)
        elif public is not None and private is None:
            owners[name] = None, load_public(folder / public, version)
        elif private is None:
            raise ConfigError(f"owner {name}: no key: private_key or public_key is needed")
        else:
            raise ConfigError(f"owner {name}: private_key or public_key, not both")
    return owners


def _hosts(values: list[object]) -> tuple[dict[str, str], dict[str, str]]:
    addresses: dict[str, str] = {}
    kernel_owners: dict[str, str] = {}
    for number, value in enumerate(values):
        reader = _Reader(value, f"host {number}")
        name, address = reader.take("name", _name), reader.take("address", _address)
        kernel_owner = reader.take("kernel_owner", _name)
        reader.end()
        if name in addresses:
            raise ConfigError(f"host {number}: a second host {name}")
        if address in addresses.values():
            raise ConfigError(f"host {name}: {address} is another host's")
        addresses[name] = address
        kernel_owners[name] = kernel_owner
    return addresses, kernel_owners


def _read(path: Path) -> object:
    try:
        return json.loads(path.read_text(), object_pairs_hook=_without_duplicates)
    except OSError as error:
        raise ConfigError(str(error.strerror)) from None
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"no JSON: {error}") from None


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ConfigError(f"{next(name for name in names if names.count(name) > 1)} is there twice")
    return values


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError("a list is needed")  # noqa: TRY004 - see `take`
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text is needed")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _name(value: object) -> str:
    check_name(_text(value))
    return str(value)


def _address(value: object) -> str:
    try:
        return socket.inet_ntoa(socket.inet_pton(socket.AF_INET, _text(value)))
    except (OSError, ValueError):
        raise ValueError(f"an IPv4 address is needed, not {value!r}") from None


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false is needed")  # noqa: TRY004 - see `take`
    return value


def _real(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("a number is needed")  # noqa: TRY004 - see `take`
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("a finite number is needed")
    return number


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a whole number is needed")
    return value


def _one_of(choices: dict[str, T]) -> Callable[[object], T]:
    def convert(value: object) -> T:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"{' or '.join(choices)} is needed, not {value!r}")
        return choices[value]
    return convert


def _network(value: object) -> DatagramService:
    reader = _Reader(value, "network")
    kind = reader.take("kind", _one_of({"ip": "ip", "udp": "udp"}))
    if kind == "ip":
        number = reader.take("protocol", _whole, _IP_PROTOCOL)
        if not 0 < number <= 0xFF:
            raise ValueError(f"protocol: from 1 to 255, not {number}")
    else:
        number = reader.take("port", _whole)
        if not 0 < number <= 0xFFFF:
            raise ValueError(f"port: from 1 to 65535, not {number}")
    reader.end()
    return DatagramService(kind, number)


def _ahead(value: object) -> dict[str, list[str]]:
    ahead: dict[str, list[str]] = {}
    for number, entry in enumerate(_list(value)):
        reader = _Reader(entry, f"ahead {number}")
        host = reader.take("host", _name)
        ahead[host] = [_name(owner) for owner in reader.take("owners", _list, [])]
        reader.end()
    return ahead
