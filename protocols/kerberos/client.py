"""Client transactions: PKCROSS, PKTAPP and M-PKINIT with or without a proxy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric import rsa

from protocols.kerberos import messages, pkinit, tickets
from protocols.kerberos.errors import Refusal, RefusalCode
from protocols.kerberos.messages import krbtgt_name
from protocols.kerberos.party import AS_REP_PART, PROXY_PROOF, TGS_REP_PART, Party
from protocols.kerberos.pkinit import Identity, ToldKey
from protocols.kerberos.steps import Ask, Mark, Transport, Work
from protocols.kerberos.tickets import Credential

Initial = Literal["password", "pkinit", "client-key"]
ProxyUse = Literal["none", "forward", "trusted", "assist"]
#: Names of the parties in configurations.
LOCAL_KDC, REMOTE_KDC, PROXY = "kdc-l", "kdc-r", "proxy"


@dataclass(frozen=True)
class ClientSettings:
    """Identity of a client, and its knowledge of other parties before it starts.

    `services` are principals of `service_realm`, each with the party that serves it. `kdc_key` and
    `proxy_key` are required for keys that the client generates. With `own_proxy_key` the proxy gets
    another key than the KDC. `repeats_ap_request` sends the last message twice, as a replay attack
    would. With `spares_opening` the private-key operation that opens a KDC's temporary key is not
    charged.
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
    """Transactions of one user, each a generator of requests to other parties."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings

    def run_transaction(self, party: Party, protocol: str) -> Work:
        """Perform one transaction: `pkcross`, `pktapp` or `mobile`. Raises Refusal."""
        return {"pkcross": self.pkcross, "pktapp": self.pktapp, "mobile": self.mobile}[
            protocol](party)

    def pkcross(self, party: Party) -> Work:
        """Exchange messages 1 to 10 of appendix A."""
        own, realm = self._settings.identity, self._settings.service_realm
        initial = yield from self._with_password(party)
        yield Mark("initial")
        cross = yield from self._request_ticket(party, LOCAL_KDC, initial,
                                                (krbtgt_name(realm), own.realm))
        yield Mark("cross-realm")
        for service, where in self._settings.services:
            held = yield from self._request_ticket(party, REMOTE_KDC, cross, (service, realm))
            yield from self._authenticate_to_service(party, where, service, held)
        return b""

    def pktapp(self, party: Party) -> Work:
        """Exchange messages 1 to 4 of appendix A with each server."""
        own, realm = self._settings.identity, self._settings.service_realm
        for service, where in self._settings.services:
            nonce = party.new_nonce()
            padata = pkinit.create_request(party, own, (service, realm), nonce)
            reply = yield Ask(where, "tcp", tickets.create_request(
                party, "AS-REQ", (service, realm), nonce, client=own.name, padata=[padata]))
            held = self._open_reply(party, reply, (service, realm), nonce)
            yield Mark("ticket")
            yield from self._authenticate_to_service(party, where, service, held)
        return b""

    def mobile(self, party: Party) -> Work:
        """Perform PKINIT, get service tickets and authenticate (Figures 7 and 8)."""
        own = self._settings.identity
        if self._settings.initial == "password":
            held = yield from self._with_password(party)
        elif self._settings.initial == "pkinit":
            held = yield from self._with_kdc_key(party)
        else:
            held = yield from self._with_own_key(party)
        yield Mark("authenticated")
        for service, where in self._settings.services:
            ticket = yield from self._request_ticket(party, LOCAL_KDC, held, (service, own.realm))
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
        """Get an initial ticket under a reply key that the client generates.

        The KDC proves itself by the use of this key.
        """
        own, settings, nonce = self._settings.identity, self._settings, party.new_nonce()
        name, key = krbtgt_name(own.realm), self._new_key(party)
        assert settings.kdc_key is not None
        value, _ = pkinit.create_key_message(party, own,
                                             ToldKey(key, name, own.realm, settings.kdc_key), nonce,
                                             with_chain=settings.proxy != "assist")
        request = tickets.create_request(
            party, "AS-REQ", (name, own.realm), nonce, client=own.name,
            padata=[{"padata-type": messages.PA_PK_AS_SIGN,
                     "padata-value": messages.encode("PA-PK-AS-SIGN", value)}])
        told = self._create_proxy_message(party, key, nonce) if settings.proxy in (
            "trusted", "assist") else None
        reply = yield from self._send_request(LOCAL_KDC, name, "tcp", request, told, party)
        return tickets.take_credential(party, messages.expect_message("AS-REP", reply), "AS-REP",
                                       key, AS_REP_PART,
                                       nonce)

    def _new_key(self, party: Party) -> dict[str, Any]:
        key = party.new_key()
        return {**key, "keyvalue": bytes(len(key["keyvalue"]))} if self._settings.weak_keys else key

    def _create_proxy_message(self, party: Party, key: Mapping[str, Any],
                              nonce: int) -> tuple[dict[str, Any], Mapping[str, Any],
                                                   Mapping[str, Any]]:
        """Return the key message for the proxy, its key and its authenticator.

        The proxy must encrypt the authenticator's time with this key.
        """
        settings = self._settings
        assert settings.proxy_key is not None
        shown = party.new_key() if settings.own_proxy_key else key
        value, about = pkinit.create_key_message(party, settings.identity, ToldKey(
            shown, settings.proxy_name, settings.identity.realm, settings.proxy_key), nonce,
            with_chain=False)
        return value, shown, about

    def _open_reply(self, party: Party, reply: bytes, kdc: tuple[str, str],
                    nonce: int) -> Credential:
        """Check the reply to a signed request and return its credential."""
        value = messages.expect_message("AS-REP", reply)
        sealed = messages.padata_of(value)
        if messages.PA_PK_AS_REP not in sealed:
            raise Refusal(RefusalCode.KDC_NOT_TRUSTED, "a reply without a signature")
        key = pkinit.check_reply(party, self._settings.identity, sealed[messages.PA_PK_AS_REP], kdc,
                                 nonce, spares_opening=self._settings.spares_opening)
        return tickets.take_credential(party, value, "AS-REP", key, AS_REP_PART, nonce)

    # --- service tickets and servers ---------------------------------------------------------

    def _request_ticket(self, party: Party, where: str, credential: Credential,
                        service: tuple[str, str]) -> Any:
        own, nonce = self._settings.identity, party.new_nonce()
        body = tickets.request_body(party, service, nonce)
        shown, _ = tickets.present_ticket(party, credential, (own.name, own.realm),
                                          body=messages.encode("KDC-REQ-BODY", body))
        message = messages.encode("TGS-REQ", {
            "pvno": messages.PROTOCOL_VERSION, "msg-type": messages.TYPES["TGS-REQ"],
            "padata": [{"padata-type": messages.PA_TGS_REQ, "padata-value": shown}],
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
        yield Mark("service")
        if self._settings.repeats_ap_request:
            again = yield from self._send_request(where, service, "udp", message)
            tickets.check_acknowledged(party, again, credential.key, time)

    def _send_request(self, where: str, principal: str, transport: Transport, message: bytes,
                      proxy_message: Any = None, party: Party | None = None) -> Any:
        """Send a request directly or through the proxy."""
        if self._settings.proxy == "none":
            return (yield Ask(where, transport, message))
        own = self._settings.identity
        request: dict[str, Any] = {
            "crealm": own.realm, "client": messages.to_principal(own.name),
            "target": messages.to_principal(principal), "message": message}
        if proxy_message:
            request["told"] = proxy_message[0]
        if self._settings.proxy == "assist" and transport == "tcp":
            request["addChain"] = True
        reply = yield Ask(PROXY, transport, messages.encode("ProxyRequest", request))
        value = messages.expect_message("ProxyReply", reply)
        if proxy_message and party:
            if "proof" not in value:
                raise Refusal(RefusalCode.KDC_NOT_TRUSTED, "the proxy has not shown its key")
            part = party.decrypt(proxy_message[1], PROXY_PROOF, value["proof"], "EncAPRepPart")
            if not tickets.is_same_time((part["ctime"], part["cusec"]),
                                        (proxy_message[2]["ctime"], proxy_message[2]["cusec"])):
                raise Refusal(RefusalCode.BAD_MATCH, "the proxy answers something else")
        return value["message"]
