"""What PKINIT's and FAST's data say: how a key is agreed, who signs what, what the armour is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography import x509

from protocols.kerberos import messages
from protocols.kerberos.certificates import CLIENT_PURPOSE, KDC_PURPOSE
from studies.krb5today import der, signed
from studies.krb5today.exchange import PKINIT_REPLY, PKINIT_REQUEST, KerberosExchange

_SIGNED_AUTH_PACK, _DH_SIGNED = 0x80, 0x80
_AUTHENTICATOR, _PUBLIC_VALUE, _CHECKSUM = 0xA0, 0xA1, 0xA3
_DH_INFO, _ENCRYPTED_KEY = 0xA0, 0x81
_BODY = 0xA4


def agreement(exchange: KerberosExchange) -> str:
    """DH or RSA where request and reply agree about it; else what each of them has."""
    offers = any(part.tag == _PUBLIC_VALUE for part in _auth_pack(exchange).parts)
    reply = exchange.reply.padata.get(PKINIT_REPLY, b"\0")[0]
    asked = "DH" if offers else "RSA"
    answered = {_DH_INFO: "DH", _ENCRYPTED_KEY: "RSA"}.get(reply, "nothing")
    return asked if asked == answered else f"{asked} asked and {answered} answered"


def complaints(exchange: KerberosExchange, user: str, anchor: x509.Certificate) -> Iterator[str]:
    """What is wrong with the signatures of both; `user` is "" for nobody, who signs nothing."""
    request = _signed_request(exchange)
    if not user:
        if request.signers or request.certificates:
            yield "who is to stay unknown signs"
    elif wrong := request.complaint(anchor, user, CLIENT_PURPOSE):
        yield f"the client: {wrong}"
    if _body_checksum(exchange) != hashlib.sha1(_body(exchange)).digest():  # noqa: S324 - RFC 4556's
        yield "the client: another request is signed"
    reply = der.first(exchange.reply.padata.get(PKINIT_REPLY, b"\0\0"))
    if reply.tag == _DH_INFO:  # in RSA mode, the signature is within what only the client opens
        realm = exchange.reply.value["ticket"]["realm"]
        wrong = signed.read(reply.parts[0].tagged(_DH_SIGNED).content).complaint(
            anchor, f"{messages.krbtgt(realm)}@{realm}", KDC_PURPOSE)
        if wrong:
            yield f"the KDC: {wrong}"


def armour(fast: bytes) -> Mapping[str, Any]:
    """The ticket of the armour of a PA-FX-FAST-REQUEST. Raises ValueError, IndexError."""
    # CHOICE armored-data [0], KrbFastArmoredReq, armor [0], KrbFastArmor, armor-value [1].
    armor = der.first(fast).parts[0].tagged(0xA0).parts[0]
    request = messages.decode("AP-REQ", armor.tagged(0xA1).parts[0].content)
    ticket: Mapping[str, Any] = request["ticket"]
    return ticket


def _signed_request(exchange: KerberosExchange) -> signed.SignedContent:
    value = der.first(exchange.request.padata[PKINIT_REQUEST])
    return signed.read(value.tagged(_SIGNED_AUTH_PACK).content)


def _auth_pack(exchange: KerberosExchange) -> der.DerValue:
    return der.first(_signed_request(exchange).content)


def _body_checksum(exchange: KerberosExchange) -> bytes:
    authenticator = _auth_pack(exchange).tagged(_AUTHENTICATOR).parts[0]
    return authenticator.tagged(_CHECKSUM).parts[0].content


def _body(exchange: KerberosExchange) -> bytes:
    """The request's body, as it was sent."""
    return der.first(exchange.request.payload).parts[0].tagged(_BODY).content
