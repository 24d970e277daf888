"""Verify PKINIT's signatures (CMS SignedData, RFC 5652) up to the run's authority.

In RSA mode, the KDC's SignedData is encrypted for the client's key (EnvelopedData).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from protocols.kerberos import messages
from protocols.kerberos.certificates import PRINCIPAL_NAME, bound_name, is_valid_at
from protocols.kerberos.errors import Refusal
from studies.krb5today import der

_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
_ENVELOPED_DATA = bytes.fromhex("2a864886f70d010703")
_MESSAGE_DIGEST = bytes.fromhex("2a864886f70d010904")
_DIGESTS: dict[bytes, hashes.HashAlgorithm] = {
    bytes.fromhex("2b0e03021a"): hashes.SHA1(),  # noqa: S303 - what others chose is verified
    bytes.fromhex("608648016503040201"): hashes.SHA256(),
    bytes.fromhex("608648016503040202"): hashes.SHA384(),
    bytes.fromhex("608648016503040203"): hashes.SHA512()}
_CIPHERS: dict[bytes, type[TripleDES] | type[AES]] = {
    bytes.fromhex("2a864886f70d0307"): TripleDES, bytes.fromhex("60864801650304012a"): AES}
_SEQUENCE, _SET, _OID, _OCTETS, _CONTEXT_0 = 0x30, 0x31, 0x06, 0x04, 0xA0


@dataclass(frozen=True)
class SignedContent:
    """A parsed SignedData: signed content, certificates and signatures."""

    content: bytes
    certificates: Sequence[x509.Certificate]
    signers: Sequence[der.DerValue]

    def find_fault(self, anchor: x509.Certificate, name: str, purpose: x509.ObjectIdentifier,
                  at_s: float) -> str:
        """Return the fault of the signature, or "" if it is valid.

        Args:
            anchor: Certificate of the run's authority.
            name: Expected signer, `NAME@REALM`.
            purpose: Extended key usage that the certificate must have.
            at_s: Time of the message (s since 1970), when the certificate must be valid.
        """
        if len(self.signers) != 1:
            return f"{len(self.signers)} signatures"
        own = [certificate for certificate in self.certificates
               if certificate.issuer == anchor.subject and certificate.subject != anchor.subject]
        if not own:
            return "no certificate by the run's authority"
        wrong = _find_certificate_fault(own[0], anchor, name, purpose)
        if not wrong and not is_valid_at(own[0], at_s):
            wrong = "its certificate is not valid then"
        return wrong or self._check_signature(own[0])

    def _check_signature(self, certificate: x509.Certificate) -> str:
        key, fields = certificate.public_key(), self.signers[0].parts
        digest = next((_DIGESTS.get(part.parts[0].content) for part in fields
                       if part.tag == _SEQUENCE and any(
                           inner.tag == _OID and inner.content in _DIGESTS
                           for inner in part.parts)), None)
        if digest is None or not isinstance(key, rsa.RSAPublicKey):
            return "signed in a way that is not known here"
        attributes = [part for part in fields if part.tag == _CONTEXT_0]
        covered = self.content
        if attributes:
            if _digest_in(attributes[0]) != _hash_data(digest, self.content):
                return "the digest that is signed is another one"
            covered = bytes([_SET]) + attributes[0].whole[1:]
        signature = [part for part in fields if part.tag == _OCTETS][-1].content
        try:
            key.verify(signature, covered, padding.PKCS1v15(), digest)
        except InvalidSignature:
            return "the signature does not fit"
        return ""


def parse_signed(data: bytes) -> SignedContent:
    """Parse a ContentInfo with SignedData. Raises ValueError."""
    info = der.parse_first(data)
    if info.parts[0].content != _SIGNED_DATA:
        raise ValueError("no SignedData")
    return _signed_data(info.parts[1].parts[0])


def open_enveloped(data: bytes, key: rsa.RSAPrivateKey) -> SignedContent:
    """Decrypt EnvelopedData and return its SignedData. Raises ValueError for a wrong key."""
    info = der.parse_first(data)
    if info.parts[0].content != _ENVELOPED_DATA:
        raise ValueError("no EnvelopedData")
    _, recipients, content = info.parts[1].parts[0].parts[:3]
    sealed = recipients.parts[0].find_tagged(_OCTETS).content
    _, algorithm, cipher = content.parts[:3]
    name, vector = algorithm.parts[0].content, algorithm.parts[1].content
    if name not in _CIPHERS:
        raise ValueError("enveloped in a way that is not known here")
    made = Cipher(_CIPHERS[name](key.decrypt(sealed, padding.PKCS1v15())), modes.CBC(vector))
    decryptor = made.decryptor()
    plain = decryptor.update(cipher.content) + decryptor.finalize()
    return _signed_data(der.parse_first(plain))


def _signed_data(value: der.DerValue) -> SignedContent:
    fields = value.parts
    inner = value.find_tagged(_SEQUENCE).parts
    content = inner[1].parts[0].content if len(inner) > 1 else b""
    certificates = [x509.load_der_x509_certificate(part.whole)
                    for held in fields if held.tag == _CONTEXT_0 for part in held.parts]
    return SignedContent(content, certificates, fields[-1].parts)


def _find_certificate_fault(certificate: x509.Certificate, anchor: x509.Certificate, name: str,
                           purpose: x509.ObjectIdentifier) -> str:
    try:
        certificate.verify_directly_issued_by(anchor)
        bound, realms = _principal_names(certificate)
        purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound, Refusal) as error:
        return f"its certificate does not verify ({type(error).__name__})"
    said, _, realm = name.partition("@")
    if bound != said or realm not in realms:
        return f"its certificate is {bound}'s, of {', '.join(realms)}"
    return "" if purpose in purposes else "its certificate's key is for something else"


def _principal_names(certificate: x509.Certificate) -> tuple[str, list[str]]:
    """Return the principal and the realms in a certificate."""
    first, _ = bound_name(certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    values = [messages.decode("KRB5PrincipalName", entry.value)
              for entry in names.get_values_for_type(x509.OtherName)
              if entry.type_id == PRINCIPAL_NAME]
    return first, [value["realm"] for value in values
                   if messages.name_of(value["principalName"]) == first]


def _digest_in(attributes: der.DerValue) -> bytes:
    for attribute in attributes.parts:
        if attribute.parts[0].content == _MESSAGE_DIGEST:
            return attribute.parts[1].parts[0].content
    return b""


def _hash_data(digest: hashes.HashAlgorithm, data: bytes) -> bytes:
    made = hashes.Hash(digest)
    made.update(data)
    return made.finalize()
