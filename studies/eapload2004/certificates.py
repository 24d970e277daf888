"""Who is named in the certificates of an authentication, and by whose authority: as captured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import NameOID

from studies.eapload2004.exchanges import CERTIFICATE, handshake_messages


@dataclass(frozen=True)
class ShownCertificate:
    """One certificate of those that a side sends: whose it is, and who says so."""

    subject: str
    issuer: str


def shown(flight: bytes) -> list[ShownCertificate]:
    """The certificates in what one side said, its own first; none in TLS 1.3, which hides them."""
    bodies = [body for kind, body in handshake_messages(flight) if kind == CERTIFICATE]
    return [_read(x509.load_der_x509_certificate(der)) for body in bodies for der in _listed(body)]


def _listed(body: bytes) -> Iterator[bytes]:
    """The certificates of TLS 1.2's message (RFC 5246, 7.4.2)."""
    place = 3
    while place + 3 <= len(body):
        size = int.from_bytes(body[place:place + 3], "big")
        yield body[place + 3:place + 3 + size]
        place += 3 + size


def _read(certificate: x509.Certificate) -> ShownCertificate:
    names = [name.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
             for name in (certificate.subject, certificate.issuer)]
    return ShownCertificate(*map(str, names))
