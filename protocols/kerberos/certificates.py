"""Issue X.509 certificates for Kerberos with public keys, and validate certificate chains.

`issue_certificate` takes names, a key and an issuer, and returns a certificate that is padded to a
given size. The study `kerberos2002` issues certificates with it. `pkinit` calls `validate_chain`
with a received chain, for clients, KDCs and servers. It returns the first certificate and the
principal in it, or raises an error. Each verified signature counts as an operation, whose time on a
slow processor is imitated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from protocols.kerberos import messages
from protocols.kerberos.messages import KrbError, KrbErrorCode
from protocols.kerberos.party import Party

#: RFC 4556: OIDs of a principal's name in a certificate, and of the key's purpose.
PRINCIPAL_NAME = x509.ObjectIdentifier("1.3.6.1.5.2.2")
CLIENT_PURPOSE = x509.ObjectIdentifier("1.3.6.1.5.2.3.4")
KDC_PURPOSE = x509.ObjectIdentifier("1.3.6.1.5.2.3.5")
#: OID of the extension that pads a certificate to the requested size; an arc for private use.
_FILLING = x509.ObjectIdentifier("1.3.6.1.4.1.32473.1")
_EXTENSION_BYTES = 30
X509 = 1


@dataclass(frozen=True)
class Issuer:
    """A certification authority: its certificate and private key."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey


@dataclass(frozen=True)
class CertificateContent:
    """Content of a certificate to issue, which is padded to `size_bytes`.

    The certificate of an authority has no purpose (extended key usage).
    """

    subject: str
    realm: str = ""
    purpose: x509.ObjectIdentifier | None = None
    is_authority: bool = False
    valid_from: timedelta = timedelta(days=-2)
    valid_to: timedelta = timedelta(days=365)
    size_bytes: int = 0


def issue_certificate(content: CertificateContent, key: rsa.RSAPublicKey, issuer: Issuer | None,
                      signer: rsa.RSAPrivateKey,
                      now: datetime) -> x509.Certificate:
    """Issue a certificate, padded to the requested size. Without an issuer it is self-signed."""
    bare = _build_certificate(content, key, issuer, now, b"").sign(signer, hashes.SHA256())
    lacking = content.size_bytes - len(bare.public_bytes(Encoding.DER))
    if lacking <= 0:
        return bare
    filling = bytes(max(0, lacking - _EXTENSION_BYTES))
    return _build_certificate(content, key, issuer, now, filling).sign(signer, hashes.SHA256())


def _build_certificate(content: CertificateContent, key: rsa.RSAPublicKey, issuer: Issuer | None,
                       now: datetime,
                       filling: bytes) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, content.subject)])
    builder = x509.CertificateBuilder(
        issuer_name=issuer.certificate.subject if issuer else subject, subject_name=subject,
        public_key=key, serial_number=x509.random_serial_number(),
        not_valid_before=now + content.valid_from, not_valid_after=now + content.valid_to)
    builder = builder.add_extension(x509.BasicConstraints(content.is_authority, None),
                                    critical=True)
    if content.realm:
        name = messages.encode_message("KRB5PrincipalName", {
            "realm": content.realm, "principalName": messages.to_principal(content.subject)})
        builder = builder.add_extension(x509.SubjectAlternativeName(
            [x509.OtherName(PRINCIPAL_NAME, name)]), critical=False)
    if content.purpose:
        builder = builder.add_extension(x509.ExtendedKeyUsage([content.purpose]), critical=False)
    if filling:
        builder = builder.add_extension(x509.UnrecognizedExtension(_FILLING, filling),
                                        critical=False)
    return builder


def as_sent(chain: Sequence[x509.Certificate]) -> list[dict[str, Any]]:
    """Encode a certificate chain as messages carry it (SEQUENCE OF Certificate)."""
    return [{"certType": X509, "certData": certificate.public_bytes(Encoding.DER)}
            for certificate in chain]


def validate_chain(party: Party, sent: Sequence[Mapping[str, Any]], anchor: x509.Certificate,
                   purpose: x509.ObjectIdentifier) -> tuple[x509.Certificate, tuple[str, str]]:
    """Validate a certificate chain, and return its first certificate with its principal.

    The checks cover every signature up to the anchor, every validity period, the issuers' right to
    certify, and the key's purpose.

    Args:
        party: cryptographic operations of the validating node.
        sent: the received chain, the principal's certificate first.
        anchor: the trusted CA certificate.
        purpose: the extended key usage that the first certificate must have.

    Returns:
        The first certificate, with the name and realm of its principal.

    Raises:
        KrbError: a check fails.
    """
    try:
        chain = [x509.load_der_x509_certificate(entry["certData"]) for entry in sent]
    except ValueError:
        raise KrbError(KrbErrorCode.INVALID_CERTIFICATE, "no certificate of X.509") from None
    if not chain:
        raise KrbError(KrbErrorCode.CANNOT_VERIFY_CERTIFICATE, "no certificate at all")
    for below, above in zip(chain, [*chain[1:], anchor], strict=True):
        _check_link(party, below, above)
    _check_periods(party, chain)
    if not _has_purpose(chain[0], purpose):
        raise KrbError(KrbErrorCode.INCONSISTENT_KEY_PURPOSE, "the key is for something else")
    return chain[0], bound_name(chain[0])


def _check_link(party: Party, below: x509.Certificate, above: x509.Certificate) -> None:
    key, algorithm = above.public_key(), below.signature_hash_algorithm
    if below.issuer != above.subject or not isinstance(key, rsa.RSAPublicKey) or not algorithm:
        raise KrbError(KrbErrorCode.CANNOT_VERIFY_CERTIFICATE, "nobody trusted has issued it")
    if not above.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
        raise KrbError(KrbErrorCode.INVALID_CERTIFICATE, "the issuer is not an authority")
    party.verify(key, below.signature, below.tbs_certificate_bytes, algorithm,
                 KrbErrorCode.CANNOT_VERIFY_CERTIFICATE)


def _check_periods(party: Party, chain: Sequence[x509.Certificate]) -> None:
    now_s = party.now_ns() / 1e9
    if not all(is_valid_at(certificate, now_s) for certificate in chain):
        raise KrbError(KrbErrorCode.INVALID_CERTIFICATE, "it is not valid now")


def is_valid_at(certificate: x509.Certificate, at_s: float) -> bool:
    """Return whether a time (s since 1970) is within a certificate's validity period."""
    at = datetime.fromtimestamp(at_s, UTC)
    return certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc


def _has_purpose(certificate: x509.Certificate, purpose: x509.ObjectIdentifier) -> bool:
    try:
        return purpose in certificate.extensions.get_extension_for_class(
            x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return False


def bound_name(certificate: x509.Certificate) -> tuple[str, str]:
    """Return name and realm of the Kerberos principal in a certificate.

    Raises:
        KrbError: the certificate has none.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        bound = next(name.value for name in names.get_values_for_type(x509.OtherName)
                     if name.type_id == PRINCIPAL_NAME)
    except (x509.ExtensionNotFound, StopIteration):
        raise KrbError(KrbErrorCode.INVALID_CERTIFICATE, "no principal's name in it") from None
    value = messages.decode_message("KRB5PrincipalName", bound)
    return messages.name_of(value["principalName"]), value["realm"]


def key_in(certificate: x509.Certificate) -> rsa.RSAPublicKey:
    """Return the RSA public key of a certificate.

    Raises:
        KrbError: the certificate has another kind of key.
    """
    key = certificate.public_key()
    if not isinstance(key, rsa.RSAPublicKey):
        raise KrbError(KrbErrorCode.INVALID_CERTIFICATE, "no RSA key in it")
    return key
