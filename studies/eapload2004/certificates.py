"""Read TLS version and certificates from captured EAP-TLS handshakes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.x509.oid import NameOID

from studies.eapload2004.exchanges import CERTIFICATE, handshake_messages

_SERVER_HELLO, _SUPPORTED_VERSIONS = 2, 43
_VERSIONS = {0x0303: "1.2", 0x0304: "1.3"}
#: Bytes of a ServerHello before its session identifier: version, random number.
_SESSION = 2 + 32


@dataclass(frozen=True)
class ShownCertificate:
    """A certificate that a side sends: subject, issuer and kind of key."""

    subject: str
    issuer: str
    key: str


def parse_certificates(flight: bytes) -> list[ShownCertificate]:
    """Return the certificates in a side's flight, its own first.

    The list is empty for TLS 1.3, which encrypts certificates.
    """
    bodies = [body for kind, body in handshake_messages(flight) if kind == CERTIFICATE]
    return [_parse_certificate(der) for body in bodies for der in _split_certificates(body)]


def parse_version(flight: bytes) -> str:
    """Return the TLS version that the server chose, "" without a complete ServerHello."""
    hello = next((body for kind, body in handshake_messages(flight) if kind == _SERVER_HELLO), b"")
    if len(hello) <= _SESSION:
        return ""
    # After the session identifier follow cipher suite, compression method and length. Then come the
    # extensions, each with type, length and content.
    place = _SESSION + 1 + hello[_SESSION] + 2 + 1 + 2
    chosen = int.from_bytes(hello[:2], "big")
    while place + 4 <= len(hello):
        kind, size = (int.from_bytes(hello[at:at + 2], "big") for at in (place, place + 2))
        if kind == _SUPPORTED_VERSIONS:
            chosen = int.from_bytes(hello[place + 4:place + 4 + size], "big")
        place += 4 + size
    return _VERSIONS.get(chosen, f"{chosen:#06x}")


def _split_certificates(body: bytes) -> Iterator[bytes]:
    """Yield the certificates of a TLS 1.2 Certificate message (RFC 5246 section 7.4.2)."""
    place = 3
    while place + 3 <= len(body):
        size = int.from_bytes(body[place:place + 3], "big")
        yield body[place + 3:place + 3 + size]
        place += 3 + size


@lru_cache(maxsize=256)
def _parse_certificate(der: bytes) -> ShownCertificate:
    certificate = x509.load_der_x509_certificate(der)
    subject, issuer = (str(name.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
                       for name in (certificate.subject, certificate.issuer))
    public = certificate.public_key()
    kind = "p" if isinstance(public, EllipticCurvePublicKey) else "rsa"
    return ShownCertificate(subject, issuer, f"{kind}-{getattr(public, 'key_size', 0)}")
