"""Implement a Kerberos KDC: initial tickets, service tickets and PKCROSS.

`Kdc` takes a request (AS-REQ or TGS-REQ) and returns the reply with a ticket, or refuses it. With
PKCROSS, the KDCs of two realms authenticate each other by certificates. The remote KDC gives the
local one a ticket (XTKT), under which the local one issues cross-realm tickets to clients. Its work
is a generator, which `protocols.kerberos.host` runs over the network.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from protocols.kerberos import certificates, messages, pkinit, tickets
from protocols.kerberos.messages import KrbError, KrbErrorCode
from protocols.kerberos.party import AS_REP_PART, TGS_REP_PART, Party, PartyWork, RequestStep
from protocols.kerberos.pkinit import AuthenticatedClient, Identity
from protocols.kerberos.tickets import Credential, ReplayCache, ReplyContent, TicketContent

PKCROSS = "pkcross"


@dataclass(frozen=True)
class KdcSettings:
    """Keys and rules of a realm.

    - `identity`: key pair and certificates of the KDC
    - `secrets`: keys of the principals: users, services and krbtgt
    - `pkcross_key`: key of PKCROSS tickets, which only this KDC knows
    - `pkcross_opening_key`: key that opens them, normally the same
    - `remote`: node and principal of other realms' KDCs
    - `keeps_cross_realm_tickets`: cache PKCROSS tickets (XTKT), instead of one for each request
    - `accepts_client_keys`: accept reply keys that clients generate
    - `cross_realm_s`: longest validity (s) of a cross-realm ticket
    - `ignores_policy`: issue longer ones (an injected fault)
    - `signs_client_key_reply`: sign replies under a client's key, which draft 05 does not require
    """

    identity: Identity
    secrets: Mapping[str, Mapping[str, Any]]
    pkcross_key: Mapping[str, Any]
    pkcross_opening_key: Mapping[str, Any]
    remote: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    cross_realm_s: int = 28_800
    keeps_cross_realm_tickets: bool = False
    accepts_client_keys: bool = True
    signs_client_key_reply: bool = False
    ignores_policy: bool = False

    @property
    def realm(self) -> str:
        """Return the realm that this KDC serves."""
        return self.identity.realm


class Kdc:
    """A Kerberos key distribution centre (KDC), which grants tickets for one realm.

    It remembers recent authenticators to refuse replayed requests. If configured, it also keeps the
    PKCROSS tickets (XTKT) that KDCs of other realms granted it.
    """

    def __init__(self, settings: KdcSettings) -> None:
        self._settings = settings
        self._replays = ReplayCache()
        self._cross: dict[str, Credential] = {}

    @property
    def name(self) -> tuple[str, str]:
        """Return realm and principal of the KDC, for error messages."""
        return self._settings.realm, self._settings.identity.name

    def answer_request(self, party: Party, message: bytes) -> PartyWork:
        """Answer a request for a ticket.

        Raises:
            KrbError: the request is refused.
        """
        kind = messages.kind_of(message)
        if kind == "AS-REQ":
            return self._answer_as_request(party, messages.decode_message(kind, message))
        if kind == "TGS-REQ":
            return (yield from self._answer_tgs_request(party,
                                                        messages.decode_message(kind, message)))
        raise KrbError(KrbErrorCode.MESSAGE_TYPE, f"{kind or 'no message'} to a KDC")

    # --- initial tickets ---------------------------------------------------------------------

    def _answer_as_request(self, party: Party, value: Mapping[str, Any]) -> bytes:
        body = value["req-body"]
        padata = messages.padata_of(value)
        if body["kdc-options"][0] == messages.PKCROSS_OPTION:
            return self._cross_realm(party, body, padata)
        client = messages.name_of(body["cname"])
        if messages.PA_PK_AS_REQ in padata:
            proven = pkinit.check_request(party, self._settings.identity,
                                          padata[messages.PA_PK_AS_REQ],
                                          certificates.CLIENT_PURPOSE)
        elif messages.PA_PK_AS_SIGN in padata:
            proven = self._check_client_key(party, padata[messages.PA_PK_AS_SIGN])
        elif client in self._settings.secrets:
            return self._grant_ticket(party, body, client, self._settings.secrets[client])
        else:
            raise KrbError(KrbErrorCode.NO_PREAUTHENTICATION, f"{client} has no key here")
        if proven.name != client or proven.realm != self._settings.realm:
            raise KrbError(KrbErrorCode.CLIENT_NAME_MISMATCH, f"the certificate is {proven.name}'s")
        return self._answer_authenticated(party, body, proven)

    def _check_client_key(self, party: Party, padata: bytes) -> AuthenticatedClient:
        if not self._settings.accepts_client_keys:
            raise KrbError(KrbErrorCode.KEY_TOO_WEAK, "clients make no keys here")
        proven, _ = pkinit.check_key_message(party, self._settings.identity,
                                             messages.decode_message("PA-PK-AS-SIGN", padata),
                                             certificates.CLIENT_PURPOSE)
        return proven

    def _answer_authenticated(self, party: Party, body: Mapping[str, Any],
                              proven: AuthenticatedClient) -> bytes:
        """Issue a ticket to a client that has proven its identity by a signature."""
        if proven.nonce != body["nonce"]:
            raise KrbError(KrbErrorCode.BAD_MATCH, "the signature is for another request")
        if proven.reply_key is None:
            reply_key: Mapping[str, Any] = party.new_key()
            padata = [pkinit.create_reply(party, self._settings.identity, proven, reply_key)]
            return self._grant_ticket(party, body, proven.name, reply_key, padata)
        if self._settings.signs_client_key_reply:
            party.sign(self._settings.identity.key, bytes(body["nonce"].to_bytes(4, "big")))
        return self._grant_ticket(party, body, proven.name, proven.reply_key)

    def _grant_ticket(self, party: Party, body: Mapping[str, Any], client: str,
                      under: Mapping[str, Any],
                      padata: list[dict[str, Any]] | None = None) -> bytes:
        """Return an AS-REP with a ticket for the requested service.

        `under` is the key that encrypts the reply. `padata` goes into the reply.
        """
        service = messages.name_of(body["sname"])
        about = TicketContent(client, self._settings.realm, service, self._settings.realm,
                              _ends_s(party, body))
        session = party.new_key()
        ticket = tickets.issue_ticket(party, about, session, self._service_key(service))
        return tickets.create_reply(party,
                                    ReplyContent("AS-REP", about, session, under, AS_REP_PART,
                                                 body["nonce"]), ticket, padata)

    def _service_key(self, service: str) -> Mapping[str, Any]:
        if service not in self._settings.secrets:
            raise KrbError(KrbErrorCode.SERVER_UNKNOWN, f"no {service} here")
        return self._settings.secrets[service]

    # --- service tickets ---------------------------------------------------------------------

    def _answer_tgs_request(self, party: Party, value: Mapping[str, Any]) -> PartyWork:
        padata = messages.padata_of(value)
        if messages.PA_TGS_REQ not in padata:
            raise KrbError(KrbErrorCode.NO_PREAUTHENTICATION, "no ticket")
        body = value["req-body"]
        request = messages.decode_message("AP-REQ", padata[messages.PA_TGS_REQ])
        part = self._open_granting_ticket(party, request["ticket"])
        proof = tickets.check_presented(party, request, part, self._replays,
                                        body=messages.encode_message("KDC-REQ-BODY", body))
        service = messages.name_of(body["sname"])
        ends_s = min(_ends_s(party, body), proof.ends_s)
        realm = messages.realm_of(body["sname"], self._settings.realm)
        session = party.new_key()
        if realm == self._settings.realm:
            about = TicketContent(proof.name, proof.realm, service, realm, ends_s)
            ticket = tickets.issue_ticket(party, about, session, self._service_key(service))
        else:
            cross = yield from self._cross_realm_ticket(party, realm)
            about = TicketContent(proof.name, proof.realm, service, self._settings.realm,
                                  self._limit_end_time(party, ends_s, cross),
                                  self._settings.identity.anchor.subject.rfc4514_string())
            ticket = tickets.issue_ticket(party, about, session, cross.key, [
                {"data-type": messages.TE_PKCROSS_CLIENT,
                 "data-value": messages.encode_message("Ticket", cross.ticket)}])
        return tickets.create_reply(party,
                                    ReplyContent("TGS-REP", about, session, proof.key, TGS_REP_PART,
                                                 body["nonce"]), ticket)

    def _open_granting_ticket(self, party: Party, ticket: Mapping[str, Any]) -> Any:
        """Decrypt a ticket-granting ticket of this realm or another, and return its content."""
        extensions = {entry["data-type"]: entry.get("data-value", b"")
                      for entry in ticket.get("extensions", [])}
        inner = extensions.get(messages.TE_PKCROSS_CLIENT)
        if inner is None:
            return tickets.open_ticket(party, ticket,
                                       self._service_key(messages.name_of(ticket["sname"])))
        try:
            cross = tickets.open_ticket(party, messages.decode_message("Ticket", inner),
                                        self._settings.pkcross_opening_key)
        except KrbError:
            raise KrbError(KrbErrorCode.TGT_REVOKED, "the cross-realm key is not known") from None
        part = tickets.open_ticket(party, ticket, cross["key"])
        lasts_s = messages.to_seconds(part["endtime"]) - messages.to_seconds(part["authtime"])
        if lasts_s > self._settings.cross_realm_s:
            raise KrbError(KrbErrorCode.POLICY, f"a cross-realm ticket for {lasts_s} s")
        if part["crealm"] != cross["crealm"]:
            raise KrbError(KrbErrorCode.POLICY, "a client of a third realm")
        return part

    # --- PKCROSS -----------------------------------------------------------------------------

    def _cross_realm_ticket(self, party: Party,
                            realm: str) -> Generator[RequestStep, bytes, Credential]:
        """Return the PKCROSS ticket (XTKT) for a realm, from the cache or from its KDC."""
        entry = self._cross.get(realm)
        if entry and entry.ends_s > party.now_ns() // 1_000_000_000 + self._settings.cross_realm_s:
            return entry
        if realm not in self._settings.remote:
            raise KrbError(KrbErrorCode.SERVER_UNKNOWN, f"no way to {realm}")
        where, name = self._settings.remote[realm]
        nonce = party.new_nonce()
        padata = pkinit.create_request(party, self._settings.identity, (name, realm), nonce)
        reply = yield RequestStep(where, "tcp", tickets.create_request(
            party, "AS-REQ", (f"{PKCROSS}/{realm}", realm), nonce,
            client=self._settings.identity.name, padata=[padata], options=messages.PKCROSS_OPTION))
        value = messages.expect_message("AS-REP", reply)
        sealed = messages.padata_of(value)
        key = pkinit.check_reply(party, self._settings.identity,
                                 sealed[messages.PA_PK_AS_REP], (name, realm), nonce)
        cross = tickets.take_credential(party, value, "AS-REP", key, AS_REP_PART, nonce)
        if self._settings.keeps_cross_realm_tickets:
            self._cross[realm] = cross
        return cross

    def _limit_end_time(self, party: Party, ends_s: int, cross: Credential) -> int:
        """Return the end time (s) of a cross-realm ticket that the remote KDC's policy permits."""
        if self._settings.ignores_policy:
            return ends_s
        entries = {entry["data-type"]: entry["data-value"]
                   for entry in cross.ticket.get("extensions", [])}
        policy = messages.decode_message("CrossRealmTktData", entries[messages.TE_PKCROSS_KDC])
        limits = [int(messages.decode_message("PolicyLifetime", entry["data-value"])) for entry
                  in policy
                  if entry["data-type"] == messages.POLICY_LIFETIME]
        now_s = party.now_ns() // 1_000_000_000
        return min(ends_s, cross.ends_s, *(now_s + limit for limit in limits))

    def _cross_realm(self, party: Party, body: Mapping[str, Any],
                     padata: Mapping[int, bytes]) -> bytes:
        """Issue a PKCROSS ticket (XTKT) to the KDC of another realm."""
        proven = pkinit.check_request(party, self._settings.identity,
                                      padata.get(messages.PA_PK_AS_REQ, b""),
                                      certificates.KDC_PURPOSE)
        if proven.nonce != body["nonce"] or proven.name != messages.name_of(body["cname"]):
            raise KrbError(KrbErrorCode.BAD_MATCH, "the signature is for another request")
        about = TicketContent(proven.name, proven.realm, messages.name_of(body["sname"]),
                              self._settings.realm, _ends_s(party, body))
        session, reply_key = party.new_key(), party.new_key()
        policy = messages.encode_message("CrossRealmTktData", [
            {"data-type": messages.POLICY_LIFETIME, "data-value": messages.encode_message(
                "PolicyLifetime", self._settings.cross_realm_s)}])
        ticket = tickets.issue_ticket(party, about, session, self._settings.pkcross_key, [
            {"data-type": messages.TE_PKCROSS_KDC, "data-value": policy}])
        sealed = pkinit.create_reply(party, self._settings.identity, proven, reply_key)
        return tickets.create_reply(party,
                                    ReplyContent("AS-REP", about, session, reply_key, AS_REP_PART,
                                                 body["nonce"]), ticket, [sealed])


def _ends_s(party: Party, body: Mapping[str, Any]) -> int:
    """Return the end time (s) of a requested ticket, limited by the ticket lifetime."""
    limit = party.now_ns() // 1_000_000_000 + party.lifetime_s
    return min(limit, messages.to_seconds(body["till"]))
