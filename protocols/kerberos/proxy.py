"""Implement a proxy between a mobile Kerberos client and KDCs or servers.

`Proxy` takes a client's request, forwards it, and returns the reply. It may get a key from the
client (trusted proxy). It may also add the client's certificates to requests, so that the slow link
does not carry them (assisting proxy). `protocols.kerberos.host` runs it over the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from protocols.kerberos import certificates, messages, pkinit
from protocols.kerberos.messages import KrbError, KrbErrorCode
from protocols.kerberos.party import PROXY_PROOF, Party, PartyWork, RequestStep, Transport
from protocols.kerberos.pkinit import CHAIN_SENT, Identity


@dataclass(frozen=True)
class ProxySettings:
    """Settings of a proxy.

    - `targets`: node that serves each principal
    - `identity`: key pair, with which clients can send the proxy a key
    - `chains`: certificate chains by client name
    - `alters`: change one bit of each forwarded signature (an injected fault)
    """

    name: str
    realm: str
    targets: Mapping[str, str]
    identity: Identity | None = None
    chains: Mapping[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    alters: bool = False


class Proxy:
    """A proxy that forwards a client's requests, and returns the replies."""

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings

    @property
    def name(self) -> tuple[str, str]:
        """Return realm and principal of the proxy, for error messages."""
        return self._settings.realm, self._settings.name

    def answer_request(self, party: Party, message: bytes) -> PartyWork:
        """Forward a client's request, and return the reply.

        Raises:
            KrbError: the request is refused.
        """
        if messages.kind_of(message) != "ProxyRequest":
            raise KrbError(KrbErrorCode.MESSAGE_TYPE, "a proxy takes requests to proxies only")
        value = messages.decode_message("ProxyRequest", message)
        target = messages.name_of(value["target"])
        if target not in self._settings.targets:
            raise KrbError(KrbErrorCode.SERVER_UNKNOWN, f"no way to {target}")
        inner: bytes = value["message"]
        if value.get("addChain"):
            inner = self._with_chain(party, value)
        if self._settings.alters:
            inner = _alter_signature(inner)
        proof = self._prove_key(party, value, inner) if "told" in value else None
        transport: Transport = "tcp" if messages.kind_of(inner) == "AS-REQ" else "udp"
        reply = yield RequestStep(self._settings.targets[target], transport, inner)
        answer: dict[str, Any] = {"message": reply}
        return messages.encode_message("ProxyReply", {**answer, "proof": proof} if proof
                                       else answer)

    def _with_chain(self, party: Party, value: Mapping[str, Any]) -> bytes:
        """Insert the certificate chain that a client left out of its request."""
        client = messages.name_of(value["client"])
        if client not in self._settings.chains:
            raise KrbError(KrbErrorCode.CANNOT_VERIFY_CERTIFICATE, f"no chain of {client} here")
        party.meter.charge(CHAIN_SENT)
        request = deepcopy(messages.decode_message("AS-REQ", value["message"]))
        for entry in request.get("padata", []):
            if entry["padata-type"] == messages.PA_PK_AS_SIGN:
                pack = messages.decode_message("PA-PK-AS-SIGN", entry["padata-value"])
                entry["padata-value"] = messages.encode_message(
                    "PA-PK-AS-SIGN", {**pack, "userCert": list(self._settings.chains[client])})
        return messages.encode_message("AS-REQ", request)

    def _prove_key(self, party: Party, value: Mapping[str, Any], inner: bytes) -> dict[str, Any]:
        """Decrypt the client's key, and encrypt the authenticator's time with it.

        This authenticates client and proxy to each other.
        """
        own = self._settings.identity
        if own is None:
            raise KrbError(KrbErrorCode.KDC_NOT_TRUSTED, "this proxy has no key of its own")
        pack = {**value["told"], "userCert": _chain_in(inner)}
        proven, about = pkinit.check_key_message(party, own, pack, certificates.CLIENT_PURPOSE)
        if (proven.name, proven.realm) != (messages.name_of(value["client"]), value["crealm"]):
            raise KrbError(KrbErrorCode.CLIENT_NAME_MISMATCH, f"the certificate is {proven.name}'s")
        assert proven.reply_key is not None
        part = {"ctime": about["ctime"], "cusec": about["cusec"]}
        return party.encrypt(proven.reply_key, PROXY_PROOF,
                             messages.encode_message("EncAPRepPart", part))


def _alter_signature(message: bytes) -> bytes:
    """Change one bit of the signature in an AS-REQ, and return other messages unchanged."""
    if messages.kind_of(message) != "AS-REQ":
        return message
    padata = messages.padata_of(messages.decode_message("AS-REQ", message))
    signed = messages.decode_message("PA-PK-AS-REQ", padata.get(messages.PA_PK_AS_REQ, b""))
    signature: bytes = signed["signedAuthPack"]["authPackSig"]["signedHash"]["cipher"]
    return message.replace(signature, bytes((signature[0] ^ 1,)) + signature[1:])


def _chain_in(message: bytes) -> list[dict[str, Any]]:
    """Return the client's certificate chain from its request to the KDC.

    So the client need not send the chain to the proxy, too.
    """
    for entry in messages.decode_message("AS-REQ", message).get("padata", []):
        if entry["padata-type"] == messages.PA_PK_AS_SIGN:
            chain: list[dict[str, Any]] = messages.decode_message(
                "PA-PK-AS-SIGN", entry["padata-value"]).get("userCert", [])
            return chain
    return []
