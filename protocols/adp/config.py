"""Read and check the JSON configuration of an ADP host's program.

ADP is the Authenticated Datagram Protocol, for secure messages between hosts. `load_config` takes a
path, reads the file and the key files next to it, and returns a `HostConfig`. It has the host's
name, and its users and services with their keys. It also has the addresses of other hosts, the
datagram service (IP or UDP), and the settings of the protocol. A mistake raises a ConfigError of
one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from protocols.adp.context import HostSettings
from protocols.adp.effects import EncryptionScope
from protocols.adp.host import VERSIONS, check_host, check_name
from protocols.adp.keys import load_private, load_public, public_half
from protocols.adp.packets import AdpError
from protocols.adp.suite import KeyDirectory, PrivateKey, PublicKey
from protocols.fields import (
    ConfigError,
    Fields,
    list_of,
    none_or,
    number_between,
    one_of,
    parse_address,
    parse_boolean,
    parse_text,
    read_json,
    whole_number,
)

# RFC 3692 reserves 253 and 254 for experiments.
_IP_PROTOCOL = 253
_SCOPES = {"none": EncryptionScope.NONE, "trailer": EncryptionScope.TRAILER,
           "all": EncryptionScope.ALL}
_TRAILERS = {"sequence": False, "checksum": True}
_WHOLE = whole_number(0, 1 << 62)


@dataclass(frozen=True)
class DatagramService:
    """The datagram service below ADP: IP with a protocol number, or UDP on a port."""

    kind: str
    number: int


@dataclass(frozen=True)
class HostConfig:
    """The configuration of one ADP host: its name, owners with keys, other hosts and settings."""

    version: str
    host: str
    network: DatagramService
    addresses: dict[str, str]  # IPv4 addresses by host
    keys: dict[str, PrivateKey]
    directory: KeyDirectory
    settings: HostSettings
    ahead: dict[str, list[str]]  # owners to authenticate at the start, by host


def load_config(path: Path) -> HostConfig:
    """Read a configuration file and the key files next to it.

    Raises:
        ConfigError: a field or a key file is missing or wrong. The message has one line.
    """
    values = read_json(path)
    try:
        return _read_config(values, path.parent)
    except (AdpError, ConfigError) as error:
        raise ConfigError(f"{path.name}: {error}") from None


def _read_config(values: object, folder: Path) -> HostConfig:
    reader = Fields(values)
    version = reader.take("protocol", one_of({name: name for name in VERSIONS}))
    host = reader.take("host", _check_name)
    owners = _read_owners(reader.take_objects("owners"), folder, version)
    addresses, kernel_owners = _read_hosts(reader.take_objects("hosts"))
    config = HostConfig(
        version=version, host=host, addresses=addresses,
        network=_read_network(reader.take_object("network", {"kind": "ip"})),
        keys={name: key for name, (key, _) in owners.items() if key is not None},
        directory=KeyDirectory(kernel_owners,
                               {name: public for name, (_, public) in owners.items()}),
        settings=_read_settings(reader, version),
        ahead=_read_ahead(reader.take_objects("ahead", [])),
    )
    reader.end()
    _check_config(config)
    return config


def _check_config(config: HostConfig) -> None:
    check_host(config.version, config.host, config.keys, config.directory)
    for host, owners in config.ahead.items():
        if host not in config.addresses or host == config.host:
            raise ConfigError(f"ahead: no other host {host}")
        for owner in owners:
            if owner not in config.keys:
                raise ConfigError(f"ahead: {owner}: no private key here")


def _read_settings(reader: Fields, version: str) -> HostSettings:
    scope = reader.take("scope", one_of(_SCOPES), "trailer")
    if scope is EncryptionScope.NONE and version == "adp":
        raise ConfigError("scope: adp always authenticates: trailer or all")
    checksum = reader.take("trailer", one_of(_TRAILERS), "sequence")
    bound = reader.take("bound_bytes", _WHOLE, HostSettings.bound_bytes)
    largest = reader.take("max_message_bytes", _WHOLE, bound)
    if largest > bound:
        raise ConfigError(f"bound_bytes: {bound} is smaller than a message "
                          f"(max_message_bytes is {largest})")
    return HostSettings(
        scope=scope, checksum=checksum, bound_bytes=bound,
        queue=reader.take("queue", parse_boolean, HostSettings.queue),
        timeout_s=reader.take("timeout_s", number_between(), HostSettings.timeout_s),
        hold_bytes=reader.take("hold_bytes", _WHOLE, HostSettings.hold_bytes),
        retry_s=reader.take("retry_s", number_between(), HostSettings.retry_s),
        give_up_s=reader.take("give_up_s", number_between(), HostSettings.give_up_s),
        rekey_after_s=reader.take("rekey_after_s", number_between(), HostSettings.rekey_after_s))


def _read_owners(entries: list[Fields], folder: Path,
                 version: str) -> dict[str, tuple[PrivateKey | None, PublicKey]]:
    """Return private key (None if unknown) and public key of each owner, by the owner's name."""
    owners: dict[str, tuple[PrivateKey | None, PublicKey]] = {}
    for entry in entries:
        name = entry.take("name", _check_name)
        private = entry.take("private_key", none_or(parse_text), None)
        public = entry.take("public_key", none_or(parse_text), None)
        entry.end()
        if name in owners:
            raise ConfigError(f"{entry.where}: a second owner {name}")
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


def _read_hosts(entries: list[Fields]) -> tuple[dict[str, str], dict[str, str]]:
    """Return two mappings from a host's name: to its address, and to the owner of its kernel."""
    addresses: dict[str, str] = {}
    kernel_owners: dict[str, str] = {}
    for entry in entries:
        name, at = entry.take("name", _check_name), entry.take("address", parse_address)
        kernel_owner = entry.take("kernel_owner", _check_name)
        entry.end()
        if name in addresses:
            raise ConfigError(f"{entry.where}: a second host {name}")
        if at in addresses.values():
            raise ConfigError(f"host {name}: {at} is another host's")
        addresses[name] = at
        kernel_owners[name] = kernel_owner
    return addresses, kernel_owners


def _read_network(reader: Fields) -> DatagramService:
    kind = reader.take("kind", one_of({"ip": "ip", "udp": "udp"}))
    number_of = (reader.take("protocol", whole_number(1, 0xFF), _IP_PROTOCOL) if kind == "ip" else
                 reader.take("port", whole_number(1, 0xFFFF)))
    reader.end()
    return DatagramService(kind, number_of)


def _read_ahead(entries: list[Fields]) -> dict[str, list[str]]:
    ahead: dict[str, list[str]] = {}
    for entry in entries:
        host = entry.take("host", _check_name)
        if host in ahead:
            raise ConfigError(f"{entry.where}: a second {host}: name its owners in one list")
        ahead[host] = entry.take("owners", _check_names, [])
        entry.end()
    return ahead


def _check_names(value: object) -> list[str]:
    return list_of(_check_name)(value) if value else []


def _check_name(value: object) -> str:
    check_name(parse_text(value))
    return str(value)
