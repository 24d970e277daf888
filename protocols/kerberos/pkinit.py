"""Create and verify the messages of PKINIT, the login to Kerberos with certificates.

`create_request` takes the client's `Identity` (key pair and certificates), and returns a
PA-PK-AS-REQ. The KDC verifies it by `check_request`, and answers by `create_reply`. There are two
variants (draft 05, sections 3.2 and 3.3): the KDC or the client generates the key that protects the
reply. For the second one, `create_key_message` and `check_key_message` carry the client's key.
Proxies and application servers use them, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from protocols.kerberos import certificates, messages
from protocols.kerberos.messages import KrbError, KrbErrorCode
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
        """Return the certificate chain as messages carry it."""
        return certificates.as_sent(self.chain)


@dataclass(frozen=True)
class AuthenticatedClient:
    """The client that has proven its identity in a request, with values for the reply.

    `reply_key` is the key that the client generated. Without it, the reply is encrypted for the
    client's public key.
    """

    name: str
    realm: str
    nonce: int
    public: rsa.RSAPublicKey
    reply_key: Mapping[str, Any] | None = None


def create_authenticator(party: Party, name: str, realm: str, nonce: int) -> dict[str, Any]:
    """Create a PKAuthenticator for a KDC: its name, time and a nonce."""
    time, microseconds = party.current_time()
    return {"kdcName": messages.to_principal(name), "kdcRealm": realm, "cusec": microseconds,
            "ctime": time, "nonce": nonce}


def _check_authenticator(party: Party, value: Mapping[str, Any], name: str, realm: str) -> None:
    if (messages.name_of(value["kdcName"]), value["kdcRealm"]) != (name, realm):
        raise KrbError(KrbErrorCode.KDC_NAME_MISMATCH, "it is for another KDC")
    party.check_time(value["ctime"])


# --- Variant of the draft: reply key from the KDC ---

def create_request(party: Party, identity: Identity, kdc: tuple[str, str],
                   nonce: int) -> dict[str, Any]:
    """Create a PA-PK-AS-REQ: a signed authenticator and the certificate chain."""
    party.meter.charge(CHAIN_SENT)
    pack = {"pkAuthenticator": create_authenticator(party, *kdc, nonce)}
    value = {"signedAuthPack": {
        "authPack": pack,
        "authPackSig": party.sign(identity.key, messages.encode_message("AuthPack", pack))},
        "userCert": identity.sent_chain,
        "trustedCertifiers": [messages.to_principal(identity.anchor.subject.rfc4514_string())]}
    return {"padata-type": messages.PA_PK_AS_REQ,
            "padata-value": messages.encode_message("PA-PK-AS-REQ", value)}


def check_request(party: Party, identity: Identity, padata: bytes,
                  purpose: x509.ObjectIdentifier) -> AuthenticatedClient:
    """Verify a PA-PK-AS-REQ, and return the client that sent it.

    Raises:
        KrbError: signature, certificate, name or time is wrong.
    """
    party.meter.charge(CHAIN_READ)
    value = messages.decode_message("PA-PK-AS-REQ", padata)
    certificate, (name, realm) = certificates.validate_chain(
        party, value.get("userCert", []), identity.anchor, purpose)
    public, signed = certificates.key_in(certificate), value["signedAuthPack"]
    party.check_signature(public, signed["authPackSig"],
                          messages.encode_message("AuthPack", signed["authPack"]))
    about = signed["authPack"]["pkAuthenticator"]
    _check_authenticator(party, about, identity.name, identity.realm)
    return AuthenticatedClient(name, realm, about["nonce"], public)


def create_reply(party: Party, identity: Identity, client: AuthenticatedClient,
                 reply_key: Mapping[str, Any]) -> dict[str, Any]:
    """Create a PA-PK-AS-REP: a signed reply key for the client, and the certificate chain."""
    party.meter.charge(CHAIN_SENT)
    pack = {"replyKey": reply_key, "nonce": client.nonce}
    signed = {"replyKeyPack": pack, "replyKeyPackSig": party.sign(
        identity.key, messages.encode_message("ReplyKeyPack", pack))}
    temporary = party.new_key()
    value = {"encSignedReplyKeyPack": party.encrypt(
        temporary, REPLY_KEY_PACK, messages.encode_message("SignedReplyKeyPack", signed)),
        "encTmpKeyPack": party.seal_key(client.public, temporary), "kdcCert": identity.sent_chain}
    return {"padata-type": messages.PA_PK_AS_REP,
            "padata-value": messages.encode_message("PA-PK-AS-REP", value)}


def check_reply(party: Party, identity: Identity, padata: bytes, kdc: tuple[str, str], nonce: int,
                *,
                spares_opening: bool = False) -> Mapping[str, Any]:
    """Verify a PA-PK-AS-REP, and return its reply key.

    Args:
        party: cryptographic operations of the client.
        identity: the client's key pair and certificates.
        padata: the encoded PA-PK-AS-REP.
        kdc: name and realm of the KDC.
        nonce: nonce of the request.
        spares_opening: do not charge the private-key operation.

    Raises:
        KrbError: signature, certificate, name or nonce is wrong.
    """
    party.meter.charge(CHAIN_READ)
    value = messages.decode_message("PA-PK-AS-REP", padata)
    temporary = party.open_key(identity.key, value["encTmpKeyPack"], is_charged=not spares_opening)
    signed = party.decrypt(temporary, REPLY_KEY_PACK, value["encSignedReplyKeyPack"],
                           "SignedReplyKeyPack")
    certificate, bound = certificates.validate_chain(party, value.get("kdcCert", []),
                                                     identity.anchor,
                                                     certificates.KDC_PURPOSE)
    if bound != kdc:
        raise KrbError(KrbErrorCode.KDC_NAME_MISMATCH, f"the certificate is {bound[0]}'s")
    pack = signed["replyKeyPack"]
    party.check_signature(certificates.key_in(certificate), signed["replyKeyPackSig"],
                          messages.encode_message("ReplyKeyPack", pack))
    if pack["nonce"] != nonce:
        raise KrbError(KrbErrorCode.BAD_MATCH, "the reply is to another request")
    key: Mapping[str, Any] = pack["replyKey"]
    return key


# --- Variant of the draft: reply key from the client ---

@dataclass(frozen=True)
class ClientKey:
    """A key that a client generates, signs and encrypts for a KDC or a proxy."""

    key: Mapping[str, Any]
    name: str
    realm: str
    public: rsa.RSAPublicKey


def create_key_message(party: Party, identity: Identity, client_key: ClientKey, nonce: int, *,
                       with_chain: bool) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Create a PA-PK-AS-SIGN, by which a client sends a key that it generated.

    `with_chain` says whether it carries the client's certificates.

    Returns:
        The message, and the authenticator in it.
    """
    about = create_authenticator(party, client_key.name, client_key.realm, nonce)
    pack = {"randomKey": client_key.key, "randomKeyAuth": about}
    signed = {"randomkeyPack": pack, "randomkeyPackSig": party.sign(
        identity.key, messages.encode_message("RandomKeyPack", pack))}
    temporary = party.new_key()
    value: dict[str, Any] = {"encSignedRandomKeyPack": party.encrypt(
        temporary, RANDOM_KEY_PACK, messages.encode_message("SignedRandomKeyPack", signed)),
        "encTmpKeyPack": party.seal_key(client_key.public, temporary)}
    if with_chain:
        party.meter.charge(CHAIN_SENT)
        value["userCert"] = identity.sent_chain
    return value, about


def check_key_message(party: Party, identity: Identity, value: Mapping[str, Any],
                      purpose: x509.ObjectIdentifier) -> tuple[AuthenticatedClient,
                                                               Mapping[str, Any]]:
    """Verify a PA-PK-AS-SIGN, and return its sender and the authenticator in it.

    Raises:
        KrbError: signature, certificate, name or time is wrong.
    """
    party.meter.charge(CHAIN_READ)
    temporary = party.open_key(identity.key, value["encTmpKeyPack"])
    signed = party.decrypt(temporary, RANDOM_KEY_PACK, value["encSignedRandomKeyPack"],
                           "SignedRandomKeyPack")
    certificate, (name, realm) = certificates.validate_chain(
        party, value.get("userCert", []), identity.anchor, purpose)
    pack, public = signed["randomkeyPack"], certificates.key_in(certificate)
    party.check_signature(public, signed["randomkeyPackSig"],
                          messages.encode_message("RandomKeyPack", pack))
    about, key = pack["randomKeyAuth"], pack["randomKey"]
    _check_authenticator(party, about, identity.name, identity.realm)
    if key["keytype"] != party.suite.etype or party.suite.is_weak(key["keyvalue"]):
        raise KrbError(KrbErrorCode.KEY_TOO_WEAK, "the client's key is weak")
    return AuthenticatedClient(name, realm, about["nonce"], public, key), about
