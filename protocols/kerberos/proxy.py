"""Proxy between a mobile client and other parties.

The proxy forwards messages, may receive a client's key, and may add certificate chains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from protocols.kerberos import certificates, messages, pkinit
from protocols.kerberos.errors import Refusal, RefusalCode
from protocols.kerberos.party import PROXY_PROOF, Party
from protocols.kerberos.pkinit import CHAIN_SENT, Identity
from protocols.kerberos.steps import Ask, Transport, Work


@dataclass(frozen=True)
class ProxySettings:
    """Settings of a proxy.

    `targets` maps each principal to the party that serves it. With an identity, clients can send
    the proxy a key. `chains` holds certificate chains by client name. With `alters`, the proxy
    changes one bit of each signature that it forwards.
    """

    name: str
    realm: str
    targets: Mapping[str, str]
    identity: Identity | None = None
    chains: Mapping[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    alters: bool = False


class Proxy:
    """A proxy that answers its clients with the replies of the targets."""

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings

    @property
    def name(self) -> tuple[str, str]:
        """Return realm and principal for error messages."""
        return self._settings.realm, self._settings.name

    def answer_request(self, party: Party, message: bytes) -> Work:
        """Answer a request. Raises Refusal."""
        if messages.kind_of(message) != "ProxyRequest":
            raise Refusal(RefusalCode.MESSAGE_TYPE, "a proxy takes requests to proxies only")
        value = messages.decode("ProxyRequest", message)
        target = messages.name_of(value["target"])
        if target not in self._settings.targets:
            raise Refusal(RefusalCode.SERVER_UNKNOWN, f"no way to {target}")
        inner: bytes = value["message"]
        if value.get("addChain"):
            inner = self._with_chain(party, value)
        if self._settings.alters:
            inner = _alter_signature(inner)
        proof = self._prove_key(party, value, inner) if "told" in value else None
        transport: Transport = "tcp" if messages.kind_of(inner) == "AS-REQ" else "udp"
        reply = yield Ask(self._settings.targets[target], transport, inner)
        answer: dict[str, Any] = {"message": reply}
        return messages.encode("ProxyReply", {**answer, "proof": proof} if proof else answer)

    def _with_chain(self, party: Party, value: Mapping[str, Any]) -> bytes:
        """Insert the chain that a client left out of its request."""
        client = messages.name_of(value["client"])
        if client not in self._settings.chains:
            raise Refusal(RefusalCode.CANNOT_VERIFY_CERTIFICATE, f"no chain of {client} here")
        party.meter.charge(CHAIN_SENT)
        request = deepcopy(messages.decode("AS-REQ", value["message"]))
        for entry in request.get("padata", []):
            if entry["padata-type"] == messages.PA_PK_AS_SIGN:
                pack = messages.decode("PA-PK-AS-SIGN", entry["padata-value"])
                entry["padata-value"] = messages.encode(
                    "PA-PK-AS-SIGN", {**pack, "userCert": list(self._settings.chains[client])})
        return messages.encode("AS-REQ", request)

    def _prove_key(self, party: Party, value: Mapping[str, Any], inner: bytes) -> dict[str, Any]:
        """Open the client's key and encrypt the authenticator's time with it.

        This authenticates both ends to each other.
        """
        own = self._settings.identity
        if own is None:
            raise Refusal(RefusalCode.KDC_NOT_TRUSTED, "this proxy has no key of its own")
        told = {**value["told"], "userCert": _chain_in(inner)}
        proven, about = pkinit.check_key_message(party, own, told, certificates.CLIENT_PURPOSE)
        if (proven.name, proven.realm) != (messages.name_of(value["client"]), value["crealm"]):
            raise Refusal(RefusalCode.CLIENT_NAME_MISMATCH, f"the certificate is {proven.name}'s")
        assert proven.reply_key is not None
        part = {"ctime": about["ctime"], "cusec": about["cusec"]}
        return party.encrypt(proven.reply_key, PROXY_PROOF, messages.encode("EncAPRepPart", part))


def _alter_signature(message: bytes) -> bytes:
    """Change one bit of the signature in an AS-REQ.

    Return other messages unchanged.
    """
    if messages.kind_of(message) != "AS-REQ":
        return message
    padata = messages.padata_of(messages.decode("AS-REQ", message))
    signed = messages.decode("PA-PK-AS-REQ", padata.get(messages.PA_PK_AS_REQ, b""))
    signature: bytes = signed["signedAuthPack"]["authPackSig"]["signedHash"]["cipher"]
    return message.replace(signature, bytes((signature[0] ^ 1,)) + signature[1:])


def _chain_in(message: bytes) -> list[dict[str, Any]]:
    """Return the client's chain from its request to the KDC.

    The proxy therefore needs no second copy of the chain.
    """
    for entry in messages.decode("AS-REQ", message).get("padata", []):
        if entry["padata-type"] == messages.PA_PK_AS_SIGN:
            chain: list[dict[str, Any]] = messages.decode(
                "PA-PK-AS-SIGN", entry["padata-value"]).get("userCert", [])
            return chain
    return []
