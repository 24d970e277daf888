"""Generate all Kerberos keys and certificates of a run, also wrong ones for injected faults.

`make_keys` writes them to a file, from which the programs of client, KDCs, servers and proxy are
configured. With this file, captures are decrypted later. The module runs inside the guest (virtual
machine of the test network). `studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import ObjectIdentifier

from protocols.kerberos import certificates
from protocols.kerberos.certificates import CLIENT_PURPOSE, KDC_PURPOSE, CertificateContent, Issuer
from protocols.kerberos.messages import krbtgt_name
from protocols.kerberos.suites import SUITES, CipherSuite

LOCAL, REMOTE = "L.TEST", "R.TEST"
USER, PROXY_NAME = "alice", "proxy"
_EXPONENT = 65537


def service_principal(number: int) -> str:
    """Return the principal of an application server, numbered from 1."""
    return f"app/a{number}"


class KeyMaker:
    """A generator of keys and certificates for a cipher suite.

    Certificates of authorities have the required size, too. Chains have `chain_length`
    certificates, without the trust anchor.
    """

    def __init__(self, suite: CipherSuite, certificate_bytes: int, chain_length: int) -> None:
        self._suite, self._size, self._now = suite, certificate_bytes, datetime.now(UTC)
        self._length = chain_length
        self.root = self._new_authority("root", None)
        self._issuers = {realm: self._authority_path(realm, self.root) for realm in (LOCAL, REMOTE)}
        self.identities: dict[str, dict[str, str]] = {}

    def _new_key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(_EXPONENT, self._suite.rsa_bits)

    def _new_authority(self, name: str, issuer: Issuer | None) -> Issuer:
        key = self._new_key()
        wish = CertificateContent(name, is_authority=True, size_bytes=self._size)
        return Issuer(certificates.issue_certificate(wish, key.public_key(), issuer,
                                                     issuer.key if issuer else key, self._now), key)

    def _authority_path(self, realm: str, root: Issuer) -> list[Issuer]:
        """Return the authorities from the issuer of a realm up to a root."""
        path = [root]
        for number in range(1, self._length):
            name = f"CA {realm}" + (f" {number}" if number > 1 else "")
            path.insert(0, self._new_authority(name, path[0]))
        return path

    def add_identity(self, label: str, request: CertificateContent, *, key_of: str = "",
                     rogue: bool = False) -> None:
        """Generate a key and certificate chain for a principal.

        Args:
            label: name of the identity in the key file.
            request: content of the certificate.
            key_of: identity whose key is used instead, so that it does not fit (an injected fault).
            rogue: let the chain end in an unknown root (an injected fault).
        """
        key = self._new_key()
        path = self._authority_path(request.realm,
                                    self._new_authority("root", None)) if rogue else \
            self._issuers[request.realm]
        issuer = path[0]
        own = certificates.issue_certificate(request, key.public_key(), issuer, issuer.key,
                                             self._now)
        pem = self.identities[key_of]["key"] if key_of else key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        self.identities[label] = {"name": request.subject, "realm": request.realm, "key": pem,
                                  "chain": _to_pem(own) + "".join(
                                      _to_pem(above.certificate) for above in path[:-1])}


def _to_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def make_keys(file: Path, suite_name: str, services: int, certificate_bytes: int,
              chain_length: int = 2) -> None:
    """Generate all keys of a cipher suite, and write them to a file."""
    suite = SUITES[suite_name]
    maker = KeyMaker(suite, certificate_bytes, chain_length)
    def principal(name: str, realm: str, purpose: ObjectIdentifier) -> CertificateContent:
        return CertificateContent(name, realm, purpose, size_bytes=certificate_bytes)

    for realm in (LOCAL, REMOTE):
        maker.add_identity(f"kdc {realm}", principal(krbtgt_name(realm), realm, KDC_PURPOSE))
    maker.add_identity(USER, principal(USER, LOCAL, CLIENT_PURPOSE))
    maker.add_identity(PROXY_NAME, principal(PROXY_NAME, LOCAL, KDC_PURPOSE))
    for number in range(1, services + 1):
        maker.add_identity(service_principal(number),
                           principal(service_principal(number), REMOTE, KDC_PURPOSE))
    _make_wrong(maker, certificate_bytes)
    named = [USER, krbtgt_name(LOCAL), krbtgt_name(REMOTE), "pkcross", "pkcross of another day",
             *(service_principal(number) for number in range(1, services + 1))]
    file.write_text(json.dumps({
        "suite": suite.name, "anchor": _to_pem(maker.root.certificate),
        "identities": maker.identities,
        "secrets": {name: suite.new_key(secrets.token_bytes).hex() for name in named}}))


def share_key(file: Path) -> None:
    """Give the first server the key of the local realm's tickets (an injected fault)."""
    document = json.loads(file.read_text())
    document["secrets"][service_principal(1)] = document["secrets"][krbtgt_name(LOCAL)]
    file.write_text(json.dumps(document))


def _make_wrong(maker: KeyMaker, size: int) -> None:
    """Generate the certificates and keys that injected faults use instead of the user's."""
    user = CertificateContent(USER, LOCAL, CLIENT_PURPOSE, size_bytes=size)
    past = replace(user, valid_from=timedelta(days=-20), valid_to=timedelta(days=-10))
    maker.add_identity("bob", replace(user, subject="bob"))
    maker.add_identity("no purpose", replace(user, purpose=None))
    maker.add_identity("unfitting key", user, key_of="bob")
    maker.add_identity("rogue", user, rogue=True)
    maker.add_identity("expired", past)
    maker.add_identity("another proxy", replace(user, subject=PROXY_NAME, purpose=KDC_PURPOSE))
