"""Reader of PKINIT and FAST data: key agreement, signatures and armour."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from protocols.kerberos import messages
from protocols.kerberos.certificates import CLIENT_PURPOSE, KDC_PURPOSE
from studies.krb5today import der, signed
from studies.krb5today.exchange import PKINIT_REPLY, PKINIT_REQUEST, KerberosExchange

_SIGNED_AUTH_PACK, _DH_SIGNED = 0x80, 0x80
_AUTHENTICATOR, _PUBLIC_VALUE, _SIGNED_AT, _CHECKSUM = 0xA0, 0xA1, 0xA1, 0xA3
#: dhpublicnumber (RFC 3279) and id-ecPublicKey (RFC 5480).
_ALGORITHMS = {bytes.fromhex("2a8648ce3e0201"): "DH", bytes.fromhex("2a8648ce3d0201"): "ECDH"}
#: Permitted clock skew (RFC 4120, 1.6) with MIT's default, in s.
MAX_SKEW_S = 300.0
_DH_INFO, _ENCRYPTED_KEY = 0xA0, 0x81
_BODY = 0xA4


def key_agreement(exchange: KerberosExchange) -> str:
    """Return the key agreement method of request and reply: DH, ECDH or RSA.

    If they differ, the text names both.
    """
    asked = _offered_agreement(_auth_pack(exchange))
    reply = exchange.reply.padata.get(PKINIT_REPLY, b"\0")[0]
    answered = {_DH_INFO: "DH", _ENCRYPTED_KEY: "RSA"}.get(reply, "nothing")
    is_one = asked == answered or (asked, answered) == ("ECDH", "DH")
    return asked if is_one else f"{asked} asked and {answered} answered"


def _offered_agreement(auth_pack: der.DerValue) -> str:
    """Return the key agreement that a client offers.

    A public value is for DH or ECDH, according to its algorithm. Without a public value, it is RSA.
    """
    for part in auth_pack.parts:
        if part.tag == _PUBLIC_VALUE:
            # SubjectPublicKeyInfo, AlgorithmIdentifier, OBJECT IDENTIFIER.
            name = part.parts[0].parts[0].parts[0].content
            return _ALGORITHMS.get(name, f"an unknown algorithm ({name.hex()})")
    return "RSA"


def find_faults(exchange: KerberosExchange, user: str, *, anchor: x509.Certificate,
               user_key: rsa.RSAPrivateKey) -> Iterator[str]:
    """Generate descriptions of the faults of signatures in request and reply.

    Args:
        exchange: The AS exchange.
        user: Principal of the client; "" for an anonymous client, which must not sign.
        anchor: Certificate of the run's authority.
        user_key: Private key of the user, which opens the reply in RSA mode.
    """
    request, at_s = _signed_request(exchange), exchange.request.at_s
    if not user:
        if request.signers or request.certificates:
            yield "who is to stay unknown signs"
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
    """Generate the lengths of keys and groups in an exchange.

    Yields:
        Party, "key" (of a certificate) or "group" (MODP), and length in bits.

    Raises:
        ValueError: Data cannot be read.
        IndexError: Data is incomplete.
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


def _signed_reply(exchange: KerberosExchange, user_key: rsa.RSAPrivateKey) -> signed.SignedContent:
    """Return the KDC's signed content.

    In RSA mode it is decrypted with the user's key. Raises ValueError.
    """
    reply = der.parse_first(exchange.reply.padata.get(PKINIT_REPLY, b"\0\0"))
    if reply.tag == _DH_INFO:
        return signed.parse_signed(reply.parts[0].find_tagged(_DH_SIGNED).content)
    if reply.tag == _ENCRYPTED_KEY:
        return signed.open_enveloped(reply.content, user_key)
    raise ValueError("no reply of PKINIT's")


def armour_ticket(fast: bytes) -> Mapping[str, Any]:
    """Return the ticket in the armour of a PA-FX-FAST-REQUEST.

    Raises ValueError and IndexError.
    """
    # CHOICE armored-data [0], KrbFastArmoredReq, armor [0], KrbFastArmor, armor-value [1].
    armor = der.parse_first(fast).parts[0].find_tagged(0xA0).parts[0]
    request = messages.decode("AP-REQ", armor.find_tagged(0xA1).parts[0].content)
    ticket: Mapping[str, Any] = request["ticket"]
    return ticket


def _signed_request(exchange: KerberosExchange) -> signed.SignedContent:
    value = der.parse_first(exchange.request.padata[PKINIT_REQUEST])
    return signed.parse_signed(value.find_tagged(_SIGNED_AUTH_PACK).content)


def _auth_pack(exchange: KerberosExchange) -> der.DerValue:
    return der.parse_first(_signed_request(exchange).content)


def _signed_at_s(exchange: KerberosExchange) -> float:
    """Return the time of signing that the client states."""
    authenticator = _auth_pack(exchange).find_tagged(_AUTHENTICATOR).parts[0]
    said = authenticator.find_tagged(_SIGNED_AT).parts[0].content.decode()
    return datetime.strptime(said, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _body_checksum(exchange: KerberosExchange) -> bytes:
    authenticator = _auth_pack(exchange).find_tagged(_AUTHENTICATOR).parts[0]
    return authenticator.find_tagged(_CHECKSUM).parts[0].content


def _request_body(exchange: KerberosExchange) -> bytes:
    """Return the original bytes of the request's body."""
    return der.parse_first(exchange.request.payload).parts[0].find_tagged(_BODY).content
