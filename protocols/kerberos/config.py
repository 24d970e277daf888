"""Configurations of the programs: JSON documents, with keys in files beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from protocols.kerberos import certificates
from protocols.kerberos.client import ClientSettings
from protocols.kerberos.errors import ConfigError
from protocols.kerberos.kdc import KdcSettings
from protocols.kerberos.meter import Cost
from protocols.kerberos.party import key_of
from protocols.kerberos.pkinit import Identity
from protocols.kerberos.proxy import ProxySettings
from protocols.kerberos.server import ServiceSettings
from protocols.kerberos.suites import Suite, suite_named
from protocols.kerberos.wire import Address


class Configuration:
    """A document with its keys read; what lacks is named in one line.

    `keys` of the document are a file: `secrets` by name in hexadecimal, `identities` by name with
    `realm`, `key` (PEM) and `chain` (PEM), and `anchor` (PEM).
    """

    def __init__(self, path: Path) -> None:
        try:
            self.document: Mapping[str, Any] = json.loads(path.read_text())
            keys = json.loads(Path(self.document["keys"]).read_text())
            self.suite: Suite = suite_named(self.document["suite"])
            self._secrets = {name: key_of(self.suite, bytes.fromhex(text))
                             for name, text in keys["secrets"].items()}
            self._anchor = x509.load_pem_x509_certificate(keys["anchor"].encode())
            self._identities = {name: self._read(name, entry)
                                for name, entry in keys["identities"].items()
                                if name in self.document["uses"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path.name}: cannot be used ({type(error).__name__}: {error})"
                              ) from None

    def _read(self, name: str, entry: Mapping[str, Any]) -> Identity:
        key = load_pem_private_key(entry["key"].encode(), None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise ConfigError(f"{name}: has no RSA key")
        return Identity(entry.get("name", name), entry["realm"], key,
                        x509.load_pem_x509_certificates(entry["chain"].encode()), self._anchor)

    def identity(self, name: str) -> Identity:
        """An identity that the document says it uses. Raises ConfigError."""
        if name not in self._identities:
            raise ConfigError(f"uses: has no identity {name}")
        return self._identities[name]

    def secret(self, name: str) -> Mapping[str, Any]:
        """A secret key. Raises ConfigError."""
        if name not in self._secrets:
            raise ConfigError(f"keys: have no secret of {name}")
        return self._secrets[name]

    @property
    def costs(self) -> dict[str, Cost]:
        """Seconds of each operation, and of each of its bytes."""
        return {name: Cost(*pair) for name, pair in self.document.get("costs", {}).items()}

    @property
    def addresses(self) -> dict[str, Address]:
        """Where other parties are."""
        return {name: (address, int(port))
                for name, (address, port) in self.document.get("addresses", {}).items()}

    def kdc(self) -> KdcSettings:
        """A KDC's settings."""
        own = self.document["kdc"]
        cross = self.secret(own["pkcross_secret"])
        return KdcSettings(
            self.identity(own["identity"]), {name: self.secret(name) for name in own["secrets"]},
            cross, self.secret(own.get("pkcross_opening_secret", own["pkcross_secret"])),
            remote={realm: (where, name) for realm, (where, name) in own["remote"].items()},
            **own.get("options", {}))

    def services(self) -> dict[str, ServiceSettings]:
        """An application server's services."""
        return {name: ServiceSettings(self.secret(name), self.identity(name))
                for name in self.document["services"]}

    def proxy(self) -> ProxySettings:
        """A proxy's settings."""
        own = self.document["proxy"]
        identity = self.identity(own["identity"]) if own.get("identity") else None
        chains = {client: certificates.as_sent(self.identity(name).chain)
                  for client, name in own.get("chains", {}).items()}
        return ProxySettings(own["name"], own["realm"], own["targets"], identity, chains)

    def client(self) -> ClientSettings:
        """A client's settings."""
        own = self.document["client"]
        identity = self.identity(own["identity"])
        if "presents" in own:
            # Its own name over somebody else's chain: for negative controls.
            shown = self.identity(own["presents"])
            identity = replace(identity, key=shown.key, chain=shown.chain)
        return ClientSettings(
            identity, self.secret(own["secret"]),
            [(name, where) for name, where in own["services"]], own["service_realm"],
            kdc_key=self._public(own.get("kdc_key")), proxy_key=self._public(own.get("proxy_key")),
            proxy_name=own.get("proxy_name", ""), **own.get("options", {}))

    def _public(self, name: str | None) -> rsa.RSAPublicKey | None:
        return self.identity(name).key.public_key() if name else None
