"""Check the signatures of PKINIT (login by certificate) in captured Kerberos messages.

`find_pkinit_faults` takes a request and its reply, and yields what is wrong. Signatures are CMS
SignedData (RFC 5652), and must lead to the run's certificate authority. Further functions return
key agreement and key lengths, and the ticket (armour) that protects a FAST request. The checks of
the study krb5today use them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from protocols.kerberos import messages
from protocols.kerberos.certificates import (
    CLIENT_PURPOSE,
    KDC_PURPOSE,
    PRINCIPAL_NAME,
    bound_name,
    is_valid_at,
)
from protocols.kerberos.messages import KrbError
from studies.krb5today import exchanges
from studies.krb5today.exchanges import PKINIT_REPLY, PKINIT_REQUEST, KerberosExchange

# --- Signatures: CMS SignedData up to the run's certificate authority ---
# In RSA mode, the KDC's SignedData is encrypted for the client's key (EnvelopedData).

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
    """Parsed SignedData (CMS): signed content, certificates and signatures."""

    content: bytes
    certificates: Sequence[x509.Certificate]
    signers: Sequence[exchanges.DerValue]

    def find_fault(self, anchor: x509.Certificate, name: str, purpose: x509.ObjectIdentifier,
                   at_s: float) -> str:
        """Return what is wrong with the signature or its certificate, or "" if both are valid.

        Args:
            anchor: certificate of the run's authority.
            name: expected signer, `NAME@REALM`.
            purpose: extended key usage that the certificate must have.
            at_s: time of the message (s since 1970), at which the certificate must be valid.
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
    """Parse a ContentInfo with SignedData (CMS).

    Raises:
        ValueError: the data has another format.
    """
    info = exchanges.parse_first(data)
    if info.parts[0].content != _SIGNED_DATA:
        raise ValueError("no SignedData")
    return _signed_data(info.parts[1].parts[0])


def open_enveloped(data: bytes, key: rsa.RSAPrivateKey) -> SignedContent:
    """Decrypt EnvelopedData (CMS), and return the SignedData in it.

    Raises:
        ValueError: the key is wrong, or the data has another format.
    """
    info = exchanges.parse_first(data)
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
    return _signed_data(exchanges.parse_first(plain))


def _signed_data(value: exchanges.DerValue) -> SignedContent:
    fields = value.parts
    inner = value.find_tagged(_SEQUENCE).parts
    content = inner[1].parts[0].content if len(inner) > 1 else b""
    certificates = [x509.load_der_x509_certificate(part.whole)
                    for context in fields if context.tag == _CONTEXT_0 for part in context.parts]
    return SignedContent(content, certificates, fields[-1].parts)


def _find_certificate_fault(certificate: x509.Certificate, anchor: x509.Certificate, name: str,
                            purpose: x509.ObjectIdentifier) -> str:
    """Return what is wrong with a certificate for a principal and a purpose, "" if nothing is."""
    try:
        certificate.verify_directly_issued_by(anchor)
        bound, realms = _principal_names(certificate)
        purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound, KrbError) as error:
        return f"its certificate does not verify ({type(error).__name__})"
    user, _, realm = name.partition("@")
    if bound != user or realm not in realms:
        return f"its certificate is {bound}'s, of {', '.join(realms)}"
    return "" if purpose in purposes else "its certificate's key is for something else"


def _principal_names(certificate: x509.Certificate) -> tuple[str, list[str]]:
    """Return the Kerberos principal and the realms in a certificate."""
    first, _ = bound_name(certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    values = [messages.decode_message("KRB5PrincipalName", entry.value)
              for entry in names.get_values_for_type(x509.OtherName)
              if entry.type_id == PRINCIPAL_NAME]
    return first, [value["realm"] for value in values
                   if messages.name_of(value["principalName"]) == first]


def _digest_in(attributes: exchanges.DerValue) -> bytes:
    for attribute in attributes.parts:
        if attribute.parts[0].content == _MESSAGE_DIGEST:
            return attribute.parts[1].parts[0].content
    return b""


def _hash_data(digest: hashes.HashAlgorithm, data: bytes) -> bytes:
    hashing = hashes.Hash(digest)
    hashing.update(data)
    return hashing.finalize()


# --- PKINIT requests and replies, and FAST armour ---

_SIGNED_AUTH_PACK, _DH_SIGNED = 0x80, 0x80
_AUTHENTICATOR, _PUBLIC_VALUE, _SIGNED_AT, _CHECKSUM = 0xA0, 0xA1, 0xA1, 0xA3
#: dhpublicnumber (RFC 3279) and id-ecPublicKey (RFC 5480).
_ALGORITHMS = {bytes.fromhex("2a8648ce3e0201"): "DH", bytes.fromhex("2a8648ce3d0201"): "ECDH"}
#: Permitted clock skew (RFC 4120, 1.6) with MIT's default, in s.
MAX_SKEW_S = 300.0
_DH_INFO, _ENCRYPTED_KEY = 0xA0, 0x81
_BODY = 0xA4


def key_agreement(exchange: KerberosExchange) -> str:
    """Return the key agreement of request and reply: DH, ECDH or RSA.

    If they differ, the text names both.
    """
    offered = _offered_agreement(_auth_pack(exchange))
    reply = exchange.reply.padata.get(PKINIT_REPLY, b"\0")[0]
    answered = {_DH_INFO: "DH", _ENCRYPTED_KEY: "RSA"}.get(reply, "nothing")
    is_one = offered == answered or (offered, answered) == ("ECDH", "DH")
    return offered if is_one else f"{offered} requested and {answered} replied"


def _offered_agreement(auth_pack: exchanges.DerValue) -> str:
    """Return the key agreement that a client offers.

    A public value is for DH or ECDH, by its algorithm. Without a public value, it is RSA.
    """
    for part in auth_pack.parts:
        if part.tag == _PUBLIC_VALUE:
            # SubjectPublicKeyInfo, AlgorithmIdentifier, OBJECT IDENTIFIER.
            name = part.parts[0].parts[0].parts[0].content
            return _ALGORITHMS.get(name, f"an unknown algorithm ({name.hex()})")
    return "RSA"


def find_pkinit_faults(exchange: KerberosExchange, user: str, *, anchor: x509.Certificate,
                       user_key: rsa.RSAPrivateKey) -> Iterator[str]:
    """Yield what is wrong with the signatures in a request and its reply.

    Args:
        exchange: request and reply.
        user: principal of the client, or "" for an anonymous client, which must not sign.
        anchor: certificate of the run's authority.
        user_key: private key of the user, which decrypts the reply in RSA mode.
    """
    request, at_s = _signed_request(exchange), exchange.request.at_s
    if not user:
        if request.signers or request.certificates:
            yield "an anonymous client signs"
    elif wrong := request.find_fault(anchor, user, CLIENT_PURPOSE, at_s):
        yield f"the client: {wrong}"
    if (apart_s := abs(_signed_at_s(exchange) - at_s)) > MAX_SKEW_S:
        yield f"the client: signed {apart_s:.0f} s from when it passed"
    if _body_checksum(exchange) != hashlib.sha1(_request_body(exchange)).digest():  # noqa: S324 - RFC 4556's
        yield "the client: another request is signed"
    realm = exchange.reply.value["ticket"]["realm"]
    try:
        wrong = _signed_reply(exchange, user_key).find_fault(
            anchor, f"{messages.krbtgt_name(realm)}@{realm}", KDC_PURPOSE, exchange.reply.at_s)
    except (ValueError, IndexError) as error:
        wrong = f"what it signed cannot be read ({error})"
    if wrong:
        yield f"the KDC: {wrong}"


def key_lengths(exchange: KerberosExchange, *, anchor: x509.Certificate,
                user_key: rsa.RSAPrivateKey) -> Iterator[tuple[str, str, int]]:
    """Yield the lengths of all public keys and Diffie-Hellman groups in a request and its reply.

    Yields:
        Sender, `key` (of a certificate) or `group` (MODP), and length in bits.

    Raises:
        ValueError: data cannot be read.
        IndexError: data is incomplete.
    """
    request, reply = _signed_request(exchange), _signed_reply(exchange, user_key)
    for who, signed_content in (("the client", request), ("the KDC", reply)):
        for certificate in signed_content.certificates:
            key = certificate.public_key()
            if certificate.subject != anchor.subject and isinstance(key, rsa.RSAPublicKey):
                yield who, "key", key.key_size
    for part in _auth_pack(exchange).parts:
        if part.tag == _PUBLIC_VALUE:
            # SubjectPublicKeyInfo, AlgorithmIdentifier: the parameters of a group begin with its
            # prime.
            name, *parameters = part.parts[0].parts[0].parts
            if _ALGORITHMS.get(name.content) == "DH":
                prime = int.from_bytes(parameters[0].parts[0].content, "big")
                yield "the client", "group", prime.bit_length()


def _signed_reply(exchange: KerberosExchange, user_key: rsa.RSAPrivateKey) -> SignedContent:
    """Return the signed content of the KDC's reply, which is decrypted in RSA mode.

    Raises:
        ValueError: the data has another format.
    """
    reply = exchanges.parse_first(exchange.reply.padata.get(PKINIT_REPLY, b"\0\0"))
    if reply.tag == _DH_INFO:
        return parse_signed(reply.parts[0].find_tagged(_DH_SIGNED).content)
    if reply.tag == _ENCRYPTED_KEY:
        return open_enveloped(reply.content, user_key)
    raise ValueError("no reply of PKINIT's")


def armour_ticket(fast: bytes) -> Mapping[str, Any]:
    """Return the ticket (armour) that protects a request with FAST.

    Raises:
        ValueError, IndexError: the data has another format.
    """
    # CHOICE armored-data [0], KrbFastArmoredReq, armor [0], KrbFastArmor, armor-value [1].
    armor = exchanges.parse_first(fast).parts[0].find_tagged(0xA0).parts[0]
    request = messages.decode_message("AP-REQ", armor.find_tagged(0xA1).parts[0].content)
    ticket: Mapping[str, Any] = request["ticket"]
    return ticket


def _signed_request(exchange: KerberosExchange) -> SignedContent:
    value = exchanges.parse_first(exchange.request.padata[PKINIT_REQUEST])
    return parse_signed(value.find_tagged(_SIGNED_AUTH_PACK).content)


def _auth_pack(exchange: KerberosExchange) -> exchanges.DerValue:
    return exchanges.parse_first(_signed_request(exchange).content)


def _signed_at_s(exchange: KerberosExchange) -> float:
    """Return the time of signing that the client states (s since 1970)."""
    authenticator = _auth_pack(exchange).find_tagged(_AUTHENTICATOR).parts[0]
    text = authenticator.find_tagged(_SIGNED_AT).parts[0].content.decode()
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _body_checksum(exchange: KerberosExchange) -> bytes:
    authenticator = _auth_pack(exchange).find_tagged(_AUTHENTICATOR).parts[0]
    return authenticator.find_tagged(_CHECKSUM).parts[0].content


def _request_body(exchange: KerberosExchange) -> bytes:
    """Return the original bytes of a request's body."""
    return exchanges.parse_first(exchange.request.payload).parts[0].find_tagged(_BODY).content
