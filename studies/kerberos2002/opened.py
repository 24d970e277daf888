"""Decryption of a transaction's parts, each with its key and with all others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from protocols.kerberos import messages
from protocols.kerberos.certificates import (
    CLIENT_PURPOSE,
    KDC_PURPOSE,
    PRINCIPAL_NAME,
    is_valid_at,
)
from protocols.kerberos.errors import Refusal, Undecipherable
from protocols.kerberos.suites import SUITES, Suite
from studies.kerberos2002.said import Spoken

_PURPOSES = {"client": CLIENT_PURPOSE, "KDC": KDC_PURPOSE}


@dataclass(frozen=True)
class Holder:
    """Required holder of a certificate: purpose, principal, realm and time (s)."""

    purpose: str
    name: str
    realm: str
    at_s: float


@dataclass(frozen=True)
class SealedPart:
    """An encrypted part of a message, with its usage, kind and right key."""

    where: str
    usage: int
    kind: str
    cipher: bytes
    expected: str


@dataclass(frozen=True)
class Pack:
    """A key sealed to a public key, and the owner of the private key."""

    where: str
    cipher: bytes
    expected: str


class RunKeys:
    """All keys of a run: principals' secrets, private keys of identities and the anchor."""

    def __init__(self, file: Path) -> None:
        document = json.loads(file.read_text())
        self.suite: Suite = SUITES[document["suite"]]
        self.secrets = {name: bytes.fromhex(text) for name, text in document["secrets"].items()}
        self.anchor = x509.load_pem_x509_certificate(document["anchor"].encode())
        self.private: dict[str, rsa.RSAPrivateKey] = {}
        for label, entry in document["identities"].items():
            # The primes of the study's own keys are trusted unchecked, which saves time.
            key = load_pem_private_key(entry["key"].encode(), None,
                                       unsafe_skip_rsa_key_validation=True)
            assert isinstance(key, rsa.RSAPrivateKey)
            self.private[label] = key

    def open_pack(self, label: str, cipher: bytes) -> bytes | None:
        """Return the key in a pack, or None where an identity's key does not open it."""
        try:
            text = self.private[label].decrypt(cipher, padding.PKCS1v15())
            key: bytes = messages.decode("TmpKeyPack", text)["tmpKey"]["keyvalue"]
        except (ValueError, Refusal):
            return None
        return key

    def open_part(self, key: bytes, part: SealedPart) -> Any:
        """Return the value of a part, or None where a key does not open it."""
        try:
            return messages.decode(part.kind, self.suite.decrypt(key, part.usage, part.cipher),
                                   is_padded=True)
        except (Undecipherable, Refusal, ValueError):
            return None


@dataclass
class Opened:
    """Content of a transaction's messages: parts, packs, keys and complaints."""

    keys: RunKeys
    known: dict[str, bytes]
    parts: list[SealedPart] = field(default_factory=list)
    packs: list[Pack] = field(default_factory=list)
    signatures: int = 0
    complaints: list[str] = field(default_factory=list)

    # --- decryption --------------------------------------------------------------------------

    def open_part(self, where: str, usage: int, kind: str, data: Mapping[str, Any],
                  key: str) -> Any:
        """Open a part with a key by its name."""
        part = SealedPart(where, usage, kind, data["cipher"], key)
        self.parts.append(part)
        value = self.keys.open_part(self.known[key], part) if key in self.known else None
        if value is None:
            self.complaints.append(f"{where}: {key} does not open the {kind}")
        return value

    def open_pack(self, where: str, data: Mapping[str, Any], label: str) -> str:
        """Open a sealed key, and return the name under which it is remembered."""
        self.packs.append(Pack(where, data["cipher"], label))
        key = self.keys.open_pack(label, data["cipher"])
        if key is None:
            self.complaints.append(f"{where}: the key of {label} does not open the pack")
        return self.remember_key(f"temporary key in {where}", key)

    def remember_key(self, name: str, key: bytes | None) -> str:
        """Remember a key by a name."""
        if key is not None:
            self.known[name] = key
        return name

    def verify_signature(self, where: str, chain: Sequence[Mapping[str, Any]], holder: Holder,
                         signature: Mapping[str, Any], text: bytes) -> None:
        """Verify a signature by the holder's certificate, whose chain must reach the anchor."""
        try:
            path = [x509.load_der_x509_certificate(entry["certData"]) for entry in chain]
            for below, above in zip(path, [*path[1:], self.keys.anchor], strict=True):
                below.verify_directly_issued_by(above)
                self.signatures += 1
            self.complaints += [f"{where}: {said}" for said in _certificate_faults(
                path, self.keys.anchor, holder)]
            key = path[0].public_key()
            assert isinstance(key, rsa.RSAPublicKey)
            key.verify(signature["signedHash"]["cipher"], text, padding.PKCS1v15(),
                       self.keys.suite.signature_hash)
            self.signatures += 1
        except (InvalidSignature, Refusal, ValueError, TypeError, IndexError,
                x509.ExtensionNotFound) as error:
            self.complaints.append(f"{where}: signature or chain does not verify ({error!r:.80})")

    # --- tests with wrong keys ---------------------------------------------------------------

    def find_wrong_openers(self) -> Iterator[str]:
        """Yield parts and packs that a wrong key opens, or that their own does not."""
        for part in self.parts:
            openers = {name for name, key in self.known.items()
                       if self.keys.open_part(key, part) is not None}
            # A key may have several names, but not those of two principals.
            same = {name for name in openers if self.known[name] == self.known.get(part.expected)
                    and (name == part.expected or name not in self.keys.secrets)}
            if part.expected not in openers or openers - same:
                yield f"{part.where}: opened by {', '.join(sorted(openers)) or 'no key'}"
        for pack in self.packs:
            labels = [label for label in self.keys.private
                      if self.keys.open_pack(label, pack.cipher)]
            if not self._are_one(labels, pack.expected):
                yield f"{pack.where}: opened by {', '.join(labels) or 'no key'}"

    def _are_one(self, labels: Sequence[str], expected: str) -> bool:
        """Return whether these identities have the key of the expected one."""
        numbers = {label: self.keys.private[label].private_numbers() for label in labels}
        return expected in numbers and all(number == numbers[expected]
                                           for number in numbers.values())

    def keys_in_clear(self, payloads: Sequence[bytes]) -> list[str]:
        """Return the names of the keys whose bytes appear in a message."""
        everything = b"\0".join(payloads)
        return [name for name, key in self.known.items() if key in everything]


def _certificate_faults(path: Sequence[x509.Certificate], anchor: x509.Certificate,
                        holder: Holder) -> Iterator[str]:
    """Yield each fault in a chain's certificates, apart from their signatures."""
    if not all(above.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
               for above in [*path[1:], anchor]):
        yield "an issuer is not an authority"
    if not all(is_valid_at(each, holder.at_s) for each in path):
        yield "a certificate is not valid then"
    extensions = path[0].extensions
    usage = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    if _PURPOSES[holder.purpose] not in usage:
        yield f"the certificate is not a {holder.purpose}'s"
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    bound = [messages.decode("KRB5PrincipalName", name.value)
             for name in names.get_values_for_type(x509.OtherName)
             if name.type_id == PRINCIPAL_NAME]
    if [(messages.name_of(name["principalName"]), name["realm"]) for name in bound] != [
            (holder.name, holder.realm)]:
        yield f"the certificate is not of {holder.name} of {holder.realm}"


def new_result(keys: RunKeys) -> Opened:
    """Return an empty result that knows the principals' secrets only."""
    return Opened(keys, dict(keys.secrets))


def ticket_service(reply: Spoken) -> str:
    """Return the service that the ticket in a reply is for."""
    return messages.name_of(reply.value["ticket"]["sname"])
