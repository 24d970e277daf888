"""Implement a Kerberos client that logs in with public keys, in one of three ways.

PKCROSS: it uses a server in another realm, whose KDC authenticates with the local KDC by
certificates. PKTAPP: it gets tickets from the application servers themselves. Mobile: it logs in by
PKINIT (certificates), perhaps through a proxy. `Client.run_transaction` is a generator. It yields
requests to send (`RequestStep`), and gets the replies. `protocols.kerberos.host` runs it over the
network. The ways are those of the paper by Harbitter and Menascé (2002).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric import rsa

from protocols.kerberos import messages, pkinit, tickets
from protocols.kerberos.messages import KrbError, KrbErrorCode, krbtgt_name
from protocols.kerberos.party import (
    AS_REP_PART,
    PROXY_PROOF,
    TGS_REP_PART,
    Party,
    PartyWork,
    PhaseMark,
    RequestStep,
    Transport,
)
from protocols.kerberos.pkinit import ClientKey, Identity
from protocols.kerberos.tickets import Credential

Initial = Literal["password", "pkinit", "client-key"]
ProxyUse = Literal["none", "forward", "trusted", "assist"]
#: Names of the parties in configurations.
LOCAL_KDC, REMOTE_KDC, PROXY = "kdc-l", "kdc-r", "proxy"


@dataclass(frozen=True)
class ClientSettings:
    """A client's identity, the servers that it uses, and variants of its login.

    - `secret`: the secret key of the user (EncryptionKey)
    - `services`: principals in `service_realm`, each with the node that serves it
    - `kdc_key`, `proxy_key`: public keys, needed if the client generates the reply key
    - `initial`: how the first request proves the client: by password, PKINIT or the client's key
    - `proxy`: use of a proxy. An assisting proxy (`assist`) also adds the certificate chain.
    - `own_proxy_key`: give the proxy another key than the KDC
    - `weak_keys`: generate keys of zero bytes (an injected fault)
    - `repeats_ap_request`: send the last message twice, like a replay attack
    - `spares_opening`: do not charge the private-key operation that opens a KDC's temporary key
    """

    identity: Identity
    secret: Mapping[str, Any]
    services: Sequence[tuple[str, str]]
    service_realm: str
    kdc_key: rsa.RSAPublicKey | None = None
    proxy_key: rsa.RSAPublicKey | None = None
    proxy_name: str = ""
    initial: Initial = "password"
    proxy: ProxyUse = "none"
    own_proxy_key: bool = False
    weak_keys: bool = False
    repeats_ap_request: bool = False
    spares_opening: bool = False


class Client:
    """A client whose logins to servers (transactions) are generators of requests."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings

    def run_transaction(self, party: Party, protocol: str) -> PartyWork:
        """Run one login to all servers, by `pkcross`, `pktapp` or `mobile`.

        Raises:
            KrbError: a party refused a request, or a reply is wrong.
        """
        return {"pkcross": self.pkcross, "pktapp": self.pktapp, "mobile": self.mobile}[
            protocol](party)

    def pkcross(self, party: Party) -> PartyWork:
        """Log in with a password, get a ticket for another realm, and use its servers (PKCROSS).

        These are messages 1 to 10 of the 2002 paper's appendix A.
        """
        own, realm = self._settings.identity, self._settings.service_realm
        initial = yield from self._with_password(party)
        yield PhaseMark("initial")
        cross = yield from self._request_ticket(party, LOCAL_KDC, initial,
                                                (krbtgt_name(realm), own.realm))
        yield PhaseMark("cross-realm")
        for service, where in self._settings.services:
            ticket = yield from self._request_ticket(party, REMOTE_KDC, cross, (service, realm))
            yield from self._authenticate_to_service(party, where, service, ticket)
        return b""

    def pktapp(self, party: Party) -> PartyWork:
        """Get a ticket from each application server by certificate, and use the server (PKTAPP).

        These are messages 1 to 4 of the 2002 paper's appendix A.
        """
        own, realm = self._settings.identity, self._settings.service_realm
        for service, where in self._settings.services:
            nonce = party.new_nonce()
            padata = pkinit.create_request(party, own, (service, realm), nonce)
            reply = yield RequestStep(where, "tcp", tickets.create_request(
                party, "AS-REQ", (service, realm), nonce, client=own.name, padata=[padata]))
            ticket = self._open_reply(party, reply, (service, realm), nonce)
            yield PhaseMark("ticket")
            yield from self._authenticate_to_service(party, where, service, ticket)
        return b""

    def mobile(self, party: Party) -> PartyWork:
        """Log in by certificate (PKINIT), get service tickets, and use the servers.

        These are Figures 7 and 8 of the 2002 paper.
        """
        own = self._settings.identity
        if self._settings.initial == "password":
            tgt = yield from self._with_password(party)
        elif self._settings.initial == "pkinit":
            tgt = yield from self._with_kdc_key(party)
        else:
            tgt = yield from self._with_own_key(party)
        yield PhaseMark("authenticated")
        for service, where in self._settings.services:
            ticket = yield from self._request_ticket(party, LOCAL_KDC, tgt, (service, own.realm))
            yield from self._authenticate_to_service(party, where, service, ticket)
        return b""

    # --- initial tickets ---------------------------------------------------------------------

    def _with_password(self, party: Party) -> Any:
        own, nonce = self._settings.identity, party.new_nonce()
        reply = yield from self._send_request(LOCAL_KDC, krbtgt_name(own.realm), "udp",
                                              tickets.create_request(
            party, "AS-REQ", (krbtgt_name(own.realm), own.realm), nonce, client=own.name))
        return tickets.take_credential(party, messages.expect_message("AS-REP", reply), "AS-REP",
                                       self._settings.secret, AS_REP_PART, nonce)

    def _with_kdc_key(self, party: Party) -> Any:
        own, nonce = self._settings.identity, party.new_nonce()
        name = (krbtgt_name(own.realm), own.realm)
        padata = pkinit.create_request(party, own, name, nonce)
        reply = yield from self._send_request(LOCAL_KDC, name[0], "tcp", tickets.create_request(
            party, "AS-REQ", name, nonce, client=own.name, padata=[padata]))
        return self._open_reply(party, reply, name, nonce)

    def _with_own_key(self, party: Party) -> Any:
        """Get the initial ticket with a reply key that the client generates.

        By using this key, the KDC proves its identity.
        """
        own, settings, nonce = self._settings.identity, self._settings, party.new_nonce()
        name, key = krbtgt_name(own.realm), self._new_key(party)
        assert settings.kdc_key is not None
        value, _ = pkinit.create_key_message(party, own,
                                             ClientKey(key, name, own.realm, settings.kdc_key),
                                             nonce,
                                             with_chain=settings.proxy != "assist")
        request = tickets.create_request(
            party, "AS-REQ", (name, own.realm), nonce, client=own.name,
            padata=[{"padata-type": messages.PA_PK_AS_SIGN,
                     "padata-value": messages.encode_message("PA-PK-AS-SIGN", value)}])
        proxy_message = self._create_proxy_message(party, key, nonce) if settings.proxy in (
            "trusted", "assist") else None
        reply = yield from self._send_request(LOCAL_KDC, name, "tcp", request, proxy_message, party)
        return tickets.take_credential(party, messages.expect_message("AS-REP", reply), "AS-REP",
                                       key, AS_REP_PART,
                                       nonce)

    def _new_key(self, party: Party) -> dict[str, Any]:
        key = party.new_key()
        return {**key, "keyvalue": bytes(len(key["keyvalue"]))} if self._settings.weak_keys else key

    def _create_proxy_message(self, party: Party, key: Mapping[str, Any],
                              nonce: int) -> tuple[dict[str, Any], Mapping[str, Any],
                                                   Mapping[str, Any]]:
        """Create the message (PA-PK-AS-SIGN) that gives the proxy a key.

        Returns:
            The message, the proxy's key, and the authenticator in the message. The proxy must
            encrypt the authenticator's time with this key.
        """
        settings = self._settings
        assert settings.proxy_key is not None
        proxy_key = party.new_key() if settings.own_proxy_key else key
        value, about = pkinit.create_key_message(party, settings.identity, ClientKey(
            proxy_key, settings.proxy_name, settings.identity.realm, settings.proxy_key), nonce,
            with_chain=False)
        return value, proxy_key, about

    def _open_reply(self, party: Party, reply: bytes, kdc: tuple[str, str],
                    nonce: int) -> Credential:
        """Verify the KDC's signed reply, and return the ticket with its session key."""
        value = messages.expect_message("AS-REP", reply)
        sealed = messages.padata_of(value)
        if messages.PA_PK_AS_REP not in sealed:
            raise KrbError(KrbErrorCode.KDC_NOT_TRUSTED, "a reply without a signature")
        key = pkinit.check_reply(party, self._settings.identity, sealed[messages.PA_PK_AS_REP], kdc,
                                 nonce, spares_opening=self._settings.spares_opening)
        return tickets.take_credential(party, value, "AS-REP", key, AS_REP_PART, nonce)

    # --- service tickets and servers ---------------------------------------------------------

    def _request_ticket(self, party: Party, where: str, credential: Credential,
                        service: tuple[str, str]) -> Any:
        own, nonce = self._settings.identity, party.new_nonce()
        body = tickets.request_body(party, service, nonce)
        presented, _ = tickets.present_ticket(party, credential, (own.name, own.realm),
                                              body=messages.encode_message("KDC-REQ-BODY", body))
        message = messages.encode_message("TGS-REQ", {
            "pvno": messages.PROTOCOL_VERSION, "msg-type": messages.TYPES["TGS-REQ"],
            "padata": [{"padata-type": messages.PA_TGS_REQ, "padata-value": presented}],
            "req-body": body})
        reply = yield from self._send_request(where, krbtgt_name(own.realm), "udp", message)
        value = messages.expect_message("TGS-REP", reply)
        return tickets.take_credential(party, value, "TGS-REP", credential.key, TGS_REP_PART, nonce)

    def _authenticate_to_service(self, party: Party, where: str, service: str,
                                 credential: Credential) -> Any:
        own = self._settings.identity
        message, time = tickets.present_ticket(party, credential, (own.name, own.realm))
        reply = yield from self._send_request(where, service, "udp", message)
        tickets.check_acknowledged(party, reply, credential.key, time)
        yield PhaseMark("service")
        if self._settings.repeats_ap_request:
            second_reply = yield from self._send_request(where, service, "udp", message)
            tickets.check_acknowledged(party, second_reply, credential.key, time)

    def _send_request(self, where: str, principal: str, transport: Transport, message: bytes,
                      proxy_message: Any = None, party: Party | None = None) -> Any:
        """Send a request directly or through the proxy."""
        if self._settings.proxy == "none":
            return (yield RequestStep(where, transport, message))
        own = self._settings.identity
        request: dict[str, Any] = {
            "crealm": own.realm, "client": messages.to_principal(own.name),
            "target": messages.to_principal(principal), "message": message}
        if proxy_message:
            request["told"] = proxy_message[0]
        if self._settings.proxy == "assist" and transport == "tcp":
            request["addChain"] = True
        reply = yield RequestStep(PROXY, transport,
                                  messages.encode_message("ProxyRequest", request))
        value = messages.expect_message("ProxyReply", reply)
        if proxy_message and party:
            if "proof" not in value:
                raise KrbError(KrbErrorCode.KDC_NOT_TRUSTED, "the proxy has not shown its key")
            part = party.decrypt(proxy_message[1], PROXY_PROOF, value["proof"], "EncAPRepPart")
            if not tickets.is_same_time((part["ctime"], part["cusec"]),
                                        (proxy_message[2]["ctime"], proxy_message[2]["cusec"])):
                raise KrbError(KrbErrorCode.BAD_MATCH, "the proxy answers something else")
        return value["message"]
