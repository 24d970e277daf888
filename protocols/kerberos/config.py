"""Read and check the JSON configuration of a Kerberos node, and its separate key file.

`load_config` takes a path, and returns a `PartyConfig`. It has the node's role (KDC, application
server, proxy or client) with its keys and certificates, and the addresses of all nodes. It also has
the times of operations on a slow processor, which the node imitates. A mistake raises a ConfigError
of one line. `protocols.kerberos.program` uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from protocols.fields import (
    ConfigError,
    Fields,
    list_of,
    none_or,
    number_between,
    one_of,
    parse_boolean,
    parse_text,
    read_json,
    whole_number,
)
from protocols.kerberos import certificates
from protocols.kerberos.client import ClientSettings, Initial, ProxyUse
from protocols.kerberos.host import Address
from protocols.kerberos.kdc import KdcSettings
from protocols.kerberos.party import key_of
from protocols.kerberos.pkinit import Identity
from protocols.kerberos.processor import OperationCost, Sharing, Variation
from protocols.kerberos.proxy import ProxySettings
from protocols.kerberos.server import ServiceSettings
from protocols.kerberos.suites import SUITES, CipherSuite

T = TypeVar("T")
TransactionKind = Literal["pkcross", "pktapp", "mobile"]
_RoleName = Literal["kdc", "services", "proxy", "client"]
_LONG = 10_000_000
_seconds = number_between(0, 1e9)


@dataclass(frozen=True)
class ServerRole:
    """Settings of an application server: its services by principal.

    With `lengthens`, the length field of an acknowledgement has one byte more than DER permits (an
    injected fault).
    """

    services: Mapping[str, ServiceSettings]
    lengthens: bool = False


@dataclass(frozen=True)
class ClientRole:
    """Settings of a client: how it logs in, and how often.

    `customers` is the number of users that log in at the same time.
    """

    settings: ClientSettings
    way: TransactionKind
    customers: int
    transactions: int


Role = KdcSettings | ServerRole | ProxySettings | ClientRole


@dataclass(frozen=True)
class PartyConfig:
    """Configuration of a node: its role, addresses, and times of operations.

    - `suite`: cipher suite of the realm
    - `address`, `port`: where the node receives messages
    - `addresses`: address and port of every node
    - `costs`: time of each operation
    - `speed`: factor by which the node's processor is faster than its device
    - `sharing`: whether all users of the node share one processor
    - `variation`: how service times vary
    - `seed`: seed of all random bytes, None for real ones
    - `clock_offset_s`: difference of the node's clock (injected fault)
    """

    suite: CipherSuite
    role: Role
    address: str
    port: int
    addresses: Mapping[str, Address]
    costs: Mapping[str, OperationCost]
    speed: float
    sharing: Sharing
    variation: Variation
    seed: int | None
    clock_offset_s: float


def load_config(path: Path) -> PartyConfig:
    """Read the configuration of a node.

    Raises:
        ConfigError: a field is missing, unknown or wrong. The message has one line.
    """
    fields = Fields(read_json(path), path.name)
    suite = fields.take("suite", one_of(SUITES))
    keys = _KeyFile(Path(fields.take("keys", parse_text)), suite,
                    fields.take("uses", list_of(parse_text)))
    processor = fields.take_object("processor", {})
    config = PartyConfig(
        suite, _read_role(fields, keys), fields.take("address", str, ""),
        fields.take("port", whole_number(0, 65535), 0),
        fields.take("addresses", _map_of(_parse_endpoint), {}),
        fields.take("costs", _map_of(_parse_cost), {}),
        processor.take("speed", number_between(1e-6, 1e6), 1.0),
        processor.take("sharing", _literal_names(Sharing), "shared"),
        processor.take("variation", _literal_names(Variation), "fixed"),
        fields.take("seed", none_or(whole_number(0, 1 << 40)), None),
        fields.take("clock_offset_s", number_between(-1e9, 1e9), 0.0))
    processor.end()
    fields.end()
    return config


def _read_role(fields: Fields, keys: _KeyFile) -> Role:
    """Read the settings of the role (KDC, server, proxy or client) that the file selects."""
    name = fields.take("role", _literal_names(_RoleName))
    if name == "services":
        return ServerRole({service: ServiceSettings(keys.secret(service), keys.identity(service))
                           for service in fields.take("services", list_of(parse_text))},
                          fields.take("lengthens", parse_boolean, default=False))
    inner = fields.take_object(name)
    readers: Mapping[str, Callable[[Fields, _KeyFile], Role]] = {
        "kdc": _read_kdc, "proxy": _read_proxy, "client": _read_client}
    role = readers[name](inner, keys)
    inner.end()
    return role


def _read_kdc(fields: Fields, keys: _KeyFile) -> KdcSettings:
    secret = fields.take("pkcross_secret", parse_text)
    return KdcSettings(
        keys.identity(fields.take("identity", parse_text)),
        {name: keys.secret(name) for name in fields.take("secrets", list_of(parse_text))},
        keys.secret(secret), keys.secret(fields.take("pkcross_opening_secret", parse_text, secret)),
        remote=fields.take("remote", _map_of(_parse_pair), {}),
        cross_realm_s=fields.take("cross_realm_s", whole_number(1, _LONG), 28_800),
        **{name: fields.take(name, parse_boolean, usual) for name, usual in (
            ("keeps_cross_realm_tickets", False), ("accepts_client_keys", True),
            ("signs_client_key_reply", False), ("ignores_policy", False))})


def _read_proxy(fields: Fields, keys: _KeyFile) -> ProxySettings:
    identity = fields.take("identity", str, "")
    chains = {client: certificates.as_sent(keys.identity(name).chain)
              for client, name in fields.take("chains", _map_of(parse_text), {}).items()}
    return ProxySettings(fields.take("name", parse_text), fields.take("realm", parse_text),
                         fields.take("targets", _map_of(parse_text)),
                         keys.identity(identity) if identity else None, chains,
                         alters=fields.take("alters", parse_boolean, default=False))


def _read_client(fields: Fields, keys: _KeyFile) -> ClientRole:
    identity = keys.identity(fields.take("identity", parse_text))
    other = fields.take("presents", str, "")
    if other:
        # For negative controls: the client's own name with another principal's key and chain.
        identity = replace(identity, key=keys.identity(other).key, chain=keys.identity(other).chain)
    settings = ClientSettings(
        identity, keys.secret(fields.take("secret", parse_text)),
        fields.take("services", list_of(_parse_pair)),
        fields.take("service_realm", parse_text),
        kdc_key=keys.public(fields.take("kdc_key", str, "")),
        proxy_key=keys.public(fields.take("proxy_key", str, "")),
        proxy_name=fields.take("proxy_name", str, ""),
        initial=fields.take("initial", _literal_names(Initial), "password"),
        proxy=fields.take("proxy", _literal_names(ProxyUse), "none"),
        **{name: fields.take(name, parse_boolean, default=False) for name in (
            "own_proxy_key", "weak_keys", "repeats_ap_request", "spares_opening")})
    return ClientRole(settings, fields.take("way", _literal_names(TransactionKind)),
                      fields.take("customers", whole_number(1, 10_000), 1),
                      fields.take("transactions", whole_number(1, _LONG), 1))


class _KeyFile:
    """The key file: `secrets` in hexadecimal digits, `identities` and `anchor` in PEM."""

    def __init__(self, path: Path, suite: CipherSuite, uses: list[str]) -> None:
        self._suite, self._name = suite, path.name
        document = read_json(path)
        if not isinstance(document, dict):
            raise ConfigError(f"{path.name}: an object is needed")
        try:
            self._secrets = {name: bytes.fromhex(value)
                             for name, value in document["secrets"].items()}
            self._anchor = x509.load_pem_x509_certificate(document["anchor"].encode())
            self._identities = {name: self._read_identity(document["identities"][name]) for name
                                in uses}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path.name}: no file of keys ({type(error).__name__}: {error})"
                              ) from None

    def _read_identity(self, entry: Mapping[str, Any]) -> Identity:
        # The key comes from the user who runs the program. Testing its primes would take longer
        # than the rest of the start.
        key = load_pem_private_key(entry["key"].encode(), None,
                                   unsafe_skip_rsa_key_validation=True)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise TypeError("another key than RSA's")
        return Identity(entry["name"], entry["realm"], key,
                        x509.load_pem_x509_certificates(entry["chain"].encode()), self._anchor)

    def identity(self, name: str) -> Identity:
        """Return an identity (key pair and certificates) that the configuration may use.

        Raises:
            ConfigError: the configuration does not list it under `uses`.
        """
        if name not in self._identities:
            raise ConfigError(f"uses: has no identity {name}; add it")
        return self._identities[name]

    def public(self, name: str) -> rsa.RSAPublicKey | None:
        """Return the public key of an identity, or None for "".

        Raises:
            ConfigError: there is no such identity.
        """
        return self.identity(name).key.public_key() if name else None

    def secret(self, name: str) -> Mapping[str, Any]:
        """Return a secret key of a principal.

        Raises:
            ConfigError: there is no such key.
        """
        if name not in self._secrets:
            raise ConfigError(f"{self._name}: has no secret of {name}; add it")
        return key_of(self._suite, self._secrets[name])


def _literal_names(kind: Any) -> Callable[[object], Any]:
    """Return a converter that accepts the names of a Literal type."""
    return one_of({name: name for name in get_args(kind)})


def _map_of(convert: Callable[[object], T]) -> Callable[[object], dict[str, T]]:
    def convert_all(values: object) -> dict[str, T]:
        if not isinstance(values, dict):
            raise ValueError("an object is needed")  # noqa: TRY004 - see Fields.take
        return {parse_text(name): convert(value) for name, value in values.items()}
    return convert_all


def _parse_pair(value: object) -> tuple[str, str]:
    first, second = _check_length(value, 2)
    return parse_text(first), parse_text(second)


def _parse_endpoint(value: object) -> Address:
    host, port = _check_length(value, 2)
    return parse_text(host), whole_number(1, 65535)(port)


def _parse_cost(value: object) -> OperationCost:
    each, byte = _check_length(value, 2)
    return OperationCost(_seconds(each), _seconds(byte))


def _check_length(value: object, count: int) -> list[object]:
    if not isinstance(value, list) or len(value) != count:
        raise ValueError(f"a list of {count} is needed")
    return value
