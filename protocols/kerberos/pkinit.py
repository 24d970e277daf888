"""PKINIT pre-authentication data at both ends, in both variants of draft 05.

Sections 3.2 and 3.3 of the draft describe the variants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from protocols.kerberos import certificates, messages
from protocols.kerberos.errors import Refusal, RefusalCode
from protocols.kerberos.party import RANDOM_KEY_PACK, REPLY_KEY_PACK, Party

#: Costs of a certificate chain, in addition to the key operations.
CHAIN_SENT, CHAIN_READ = "chain-sent", "chain-read"


@dataclass(frozen=True)
class Identity:
    """A principal with a key pair, its certificate chain and its trust anchor.

    The chain begins with the principal's own certificate.
    """

    name: str
    realm: str
    key: rsa.RSAPrivateKey
    chain: Sequence[x509.Certificate]
    anchor: x509.Certificate

    @property
    def sent_chain(self) -> list[dict[str, Any]]:
        """Return the chain as it is encoded in messages."""
        return certificates.as_sent(self.chain)


@dataclass(frozen=True)
class Authenticated:
    """The proven sender of a request, with the values that its reply needs.

    `reply_key` is the key that the client generated, if any. Otherwise the reply is encrypted for
    the public key.
    """

    name: str
    realm: str
    nonce: int
    public: rsa.RSAPublicKey
    reply_key: Mapping[str, Any] | None = None


def create_authenticator(party: Party, name: str, realm: str, nonce: int) -> dict[str, Any]:
    """Return a PKAuthenticator for the KDC with this name."""
    time, microseconds = party.current_time()
    return {"kdcName": messages.to_principal(name), "kdcRealm": realm, "cusec": microseconds,
            "ctime": time, "nonce": nonce}


def _check_authenticator(party: Party, value: Mapping[str, Any], name: str, realm: str) -> None:
    if (messages.name_of(value["kdcName"]), value["kdcRealm"]) != (name, realm):
        raise Refusal(RefusalCode.KDC_NAME_MISMATCH, "it is for another KDC")
    party.check_time(value["ctime"])


# --- reply key from the KDC --------------------------------------------------------------------

def create_request(party: Party, identity: Identity, kdc: tuple[str, str],
                   nonce: int) -> dict[str, Any]:
    """Return a PA-PK-AS-REQ with a signed authenticator and the chain."""
    party.meter.charge(CHAIN_SENT)
    pack = {"pkAuthenticator": create_authenticator(party, *kdc, nonce)}
    value = {"signedAuthPack": {
        "authPack": pack,
        "authPackSig": party.sign(identity.key, messages.encode("AuthPack", pack))},
        "userCert": identity.sent_chain,
        "trustedCertifiers": [messages.to_principal(identity.anchor.subject.rfc4514_string())]}
    return {"padata-type": messages.PA_PK_AS_REQ,
            "padata-value": messages.encode("PA-PK-AS-REQ", value)}


def check_request(party: Party, identity: Identity, padata: bytes,
                  purpose: x509.ObjectIdentifier) -> Authenticated:
    """Verify a PA-PK-AS-REQ and return its sender. Raises Refusal."""
    party.meter.charge(CHAIN_READ)
    value = messages.decode("PA-PK-AS-REQ", padata)
    certificate, (name, realm) = certificates.validate_chain(
        party, value.get("userCert", []), identity.anchor, purpose)
    public, signed = certificates.key_in(certificate), value["signedAuthPack"]
    party.check_signature(public, signed["authPackSig"],
                          messages.encode("AuthPack", signed["authPack"]))
    about = signed["authPack"]["pkAuthenticator"]
    _check_authenticator(party, about, identity.name, identity.realm)
    return Authenticated(name, realm, about["nonce"], public)


def create_reply(party: Party, identity: Identity, client: Authenticated,
                 reply_key: Mapping[str, Any]) -> dict[str, Any]:
    """Return a PA-PK-AS-REP with a signed reply key for the client, and the chain."""
    party.meter.charge(CHAIN_SENT)
    pack = {"replyKey": reply_key, "nonce": client.nonce}
    signed = {"replyKeyPack": pack, "replyKeyPackSig": party.sign(
        identity.key, messages.encode("ReplyKeyPack", pack))}
    temporary = party.new_key()
    value = {"encSignedReplyKeyPack": party.encrypt(
        temporary, REPLY_KEY_PACK, messages.encode("SignedReplyKeyPack", signed)),
        "encTmpKeyPack": party.seal_key(client.public, temporary), "kdcCert": identity.sent_chain}
    return {"padata-type": messages.PA_PK_AS_REP,
            "padata-value": messages.encode("PA-PK-AS-REP", value)}


def check_reply(party: Party, identity: Identity, padata: bytes, kdc: tuple[str, str], nonce: int,
                *,
                spares_opening: bool = False) -> Mapping[str, Any]:
    """Verify a PA-PK-AS-REP and return its reply key. Raises Refusal.

    With `spares_opening`, the private-key operation is not charged.
    """
    party.meter.charge(CHAIN_READ)
    value = messages.decode("PA-PK-AS-REP", padata)
    temporary = party.open_key(identity.key, value["encTmpKeyPack"], is_charged=not spares_opening)
    signed = party.decrypt(temporary, REPLY_KEY_PACK, value["encSignedReplyKeyPack"],
                           "SignedReplyKeyPack")
    certificate, bound = certificates.validate_chain(party, value.get("kdcCert", []),
                                                     identity.anchor,
                                                     certificates.KDC_PURPOSE)
    if bound != kdc:
        raise Refusal(RefusalCode.KDC_NAME_MISMATCH, f"the certificate is {bound[0]}'s")
    pack = signed["replyKeyPack"]
    party.check_signature(certificates.key_in(certificate), signed["replyKeyPackSig"],
                          messages.encode("ReplyKeyPack", pack))
    if pack["nonce"] != nonce:
        raise Refusal(RefusalCode.BAD_MATCH, "the reply is to another request")
    key: Mapping[str, Any] = pack["replyKey"]
    return key


# --- reply key from the client -----------------------------------------------------------------

@dataclass(frozen=True)
class ToldKey:
    """A key that a client generates, signs and seals for a KDC or a proxy."""

    key: Mapping[str, Any]
    name: str
    realm: str
    public: rsa.RSAPublicKey


def create_key_message(party: Party, identity: Identity, client_key: ToldKey, nonce: int, *,
                       with_chain: bool) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return a PA-PK-AS-SIGN value and the authenticator in it."""
    about = create_authenticator(party, client_key.name, client_key.realm, nonce)
    pack = {"randomKey": client_key.key, "randomKeyAuth": about}
    signed = {"randomkeyPack": pack, "randomkeyPackSig": party.sign(
        identity.key, messages.encode("RandomKeyPack", pack))}
    temporary = party.new_key()
    value: dict[str, Any] = {"encSignedRandomKeyPack": party.encrypt(
        temporary, RANDOM_KEY_PACK, messages.encode("SignedRandomKeyPack", signed)),
        "encTmpKeyPack": party.seal_key(client_key.public, temporary)}
    if with_chain:
        party.meter.charge(CHAIN_SENT)
        value["userCert"] = identity.sent_chain
    return value, about


def check_key_message(party: Party, identity: Identity, value: Mapping[str, Any],
                      purpose: x509.ObjectIdentifier) -> tuple[Authenticated, Mapping[str, Any]]:
    """Verify a PA-PK-AS-SIGN and return its sender and authenticator. Raises Refusal."""
    party.meter.charge(CHAIN_READ)
    temporary = party.open_key(identity.key, value["encTmpKeyPack"])
    signed = party.decrypt(temporary, RANDOM_KEY_PACK, value["encSignedRandomKeyPack"],
                           "SignedRandomKeyPack")
    certificate, (name, realm) = certificates.validate_chain(
        party, value.get("userCert", []), identity.anchor, purpose)
    pack, public = signed["randomkeyPack"], certificates.key_in(certificate)
    party.check_signature(public, signed["randomkeyPackSig"],
                          messages.encode("RandomKeyPack", pack))
    about, key = pack["randomKeyAuth"], pack["randomKey"]
    _check_authenticator(party, about, identity.name, identity.realm)
    if key["keytype"] != party.suite.etype or party.suite.is_weak(key["keyvalue"]):
        raise Refusal(RefusalCode.KEY_TOO_WEAK, "the client's key is weak")
    return Authenticated(name, realm, about["nonce"], public, key), about
