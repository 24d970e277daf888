"""Key distribution centre: initial tickets, service tickets and both ends of PKCROSS."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from protocols.kerberos import certificates, messages, pkinit, tickets
from protocols.kerberos.errors import Refusal, RefusalCode
from protocols.kerberos.party import AS_REP_PART, TGS_REP_PART, Party
from protocols.kerberos.pkinit import Authenticated, Identity
from protocols.kerberos.steps import Ask, Work
from protocols.kerberos.tickets import Credential, ReplayCache, ReplyFor, TicketFor

PKCROSS = "pkcross"


@dataclass(frozen=True)
class KdcSettings:
    """Keys and policy of a realm.

    `secrets` are the keys of the principals: users, services and krbtgt. `pkcross_key` is K_S,
    which only this KDC knows. `pkcross_opening_key` opens tickets and normally equals
    `pkcross_key`. `remote` maps other realms to party and principal of their KDC. A cross-realm
    ticket is valid for at most `cross_realm_s` seconds, but `ignores_policy` makes this KDC issue
    longer ones. With `signs_client_key_reply` it signs replies under a client's key, which draft 05
    does not require.
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
    """A KDC that keeps only recent authenticators, and XTKTs if configured."""

    def __init__(self, settings: KdcSettings) -> None:
        self._settings = settings
        self._replays = ReplayCache()
        self._cross: dict[str, Credential] = {}

    @property
    def name(self) -> tuple[str, str]:
        """Return realm and principal for error messages."""
        return self._settings.realm, self._settings.identity.name

    def answer_request(self, party: Party, message: bytes) -> Work:
        """Answer a request. Raises Refusal."""
        kind = messages.kind_of(message)
        if kind == "AS-REQ":
            return self._answer_as_request(party, messages.decode(kind, message))
        if kind == "TGS-REQ":
            return (yield from self._answer_tgs_request(party, messages.decode(kind, message)))
        raise Refusal(RefusalCode.MESSAGE_TYPE, f"{kind or 'no message'} to a KDC")

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
            raise Refusal(RefusalCode.NO_PREAUTHENTICATION, f"{client} has no key here")
        if proven.name != client or proven.realm != self._settings.realm:
            raise Refusal(RefusalCode.CLIENT_NAME_MISMATCH, f"the certificate is {proven.name}'s")
        return self._answer_authenticated(party, body, proven)

    def _check_client_key(self, party: Party, padata: bytes) -> Authenticated:
        if not self._settings.accepts_client_keys:
            raise Refusal(RefusalCode.KEY_TOO_WEAK, "clients make no keys here")
        proven, _ = pkinit.check_key_message(party, self._settings.identity,
                                             messages.decode("PA-PK-AS-SIGN", padata),
                                             certificates.CLIENT_PURPOSE)
        return proven

    def _answer_authenticated(self, party: Party, body: Mapping[str, Any],
                              proven: Authenticated) -> bytes:
        """Answer a client that has proven its identity by a signature."""
        if proven.nonce != body["nonce"]:
            raise Refusal(RefusalCode.BAD_MATCH, "the signature is for another request")
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
        """Return an AS-REP with a ticket for the requested service."""
        service = messages.name_of(body["sname"])
        about = TicketFor(client, self._settings.realm, service, self._settings.realm,
                          _ends_s(party, body))
        session = party.new_key()
        ticket = tickets.issue_ticket(party, about, session, self._service_key(service))
        return tickets.create_reply(party, ReplyFor("AS-REP", about, session, under, AS_REP_PART,
                                                    body["nonce"]), ticket, padata)

    def _service_key(self, service: str) -> Mapping[str, Any]:
        if service not in self._settings.secrets:
            raise Refusal(RefusalCode.SERVER_UNKNOWN, f"no {service} here")
        return self._settings.secrets[service]

    # --- service tickets ---------------------------------------------------------------------

    def _answer_tgs_request(self, party: Party, value: Mapping[str, Any]) -> Work:
        padata = messages.padata_of(value)
        if messages.PA_TGS_REQ not in padata:
            raise Refusal(RefusalCode.NO_PREAUTHENTICATION, "no ticket")
        body = value["req-body"]
        request = messages.decode("AP-REQ", padata[messages.PA_TGS_REQ])
        part = self._open_granting_ticket(party, request["ticket"])
        shown = tickets.check_presented(party, request, part, self._replays,
                                        body=messages.encode("KDC-REQ-BODY", body))
        service = messages.name_of(body["sname"])
        ends_s = min(_ends_s(party, body), shown.ends_s)
        realm = messages.realm_of(body["sname"], self._settings.realm)
        session = party.new_key()
        if realm == self._settings.realm:
            about = TicketFor(shown.name, shown.realm, service, realm, ends_s)
            ticket = tickets.issue_ticket(party, about, session, self._service_key(service))
        else:
            cross = yield from self._cross_realm_ticket(party, realm)
            about = TicketFor(shown.name, shown.realm, service, self._settings.realm,
                              self._limit_end_time(party, ends_s, cross),
                              self._settings.identity.anchor.subject.rfc4514_string())
            ticket = tickets.issue_ticket(party, about, session, cross.key, [
                {"data-type": messages.TE_PKCROSS_CLIENT,
                 "data-value": messages.encode("Ticket", cross.ticket)}])
        return tickets.create_reply(party,
                                    ReplyFor("TGS-REP", about, session, shown.key, TGS_REP_PART,
                                                    body["nonce"]), ticket)

    def _open_granting_ticket(self, party: Party, ticket: Mapping[str, Any]) -> Any:
        """Open a ticket-granting ticket of this realm or another, and return its EncTicketPart."""
        extensions = {entry["data-type"]: entry.get("data-value", b"")
                      for entry in ticket.get("extensions", [])}
        inner = extensions.get(messages.TE_PKCROSS_CLIENT)
        if inner is None:
            return tickets.open_ticket(party, ticket,
                                       self._service_key(messages.name_of(ticket["sname"])))
        try:
            cross = tickets.open_ticket(party, messages.decode("Ticket", inner),
                                        self._settings.pkcross_opening_key)
        except Refusal:
            raise Refusal(RefusalCode.TGT_REVOKED, "the cross-realm key is not known") from None
        part = tickets.open_ticket(party, ticket, cross["key"])
        lasts_s = messages.to_seconds(part["endtime"]) - messages.to_seconds(part["authtime"])
        if lasts_s > self._settings.cross_realm_s:
            raise Refusal(RefusalCode.POLICY, f"a cross-realm ticket for {lasts_s} s")
        if part["crealm"] != cross["crealm"]:
            raise Refusal(RefusalCode.POLICY, "a client of a third realm")
        return part

    # --- PKCROSS -----------------------------------------------------------------------------

    def _cross_realm_ticket(self, party: Party, realm: str) -> Generator[Ask, bytes, Credential]:
        """Return the cached XTKT for a realm, or request it from the remote KDC."""
        held = self._cross.get(realm)
        if held and held.ends_s > party.now_ns() // 1_000_000_000 + self._settings.cross_realm_s:
            return held
        if realm not in self._settings.remote:
            raise Refusal(RefusalCode.SERVER_UNKNOWN, f"no way to {realm}")
        where, name = self._settings.remote[realm]
        nonce = party.new_nonce()
        padata = pkinit.create_request(party, self._settings.identity, (name, realm), nonce)
        reply = yield Ask(where, "tcp", tickets.create_request(
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
        """Return the end time of a cross-realm ticket under the remote KDC's policy."""
        if self._settings.ignores_policy:
            return ends_s
        entries = {entry["data-type"]: entry["data-value"]
                   for entry in cross.ticket.get("extensions", [])}
        said = messages.decode("CrossRealmTktData", entries[messages.TE_PKCROSS_KDC])
        limits = [int(messages.decode("PolicyLifetime", entry["data-value"])) for entry in said
                  if entry["data-type"] == messages.POLICY_LIFETIME]
        now_s = party.now_ns() // 1_000_000_000
        return min(ends_s, cross.ends_s, *(now_s + limit for limit in limits))

    def _cross_realm(self, party: Party, body: Mapping[str, Any],
                     padata: Mapping[int, bytes]) -> bytes:
        """Issue XTKT(l,r) to another realm's KDC (remote end of PKCROSS)."""
        proven = pkinit.check_request(party, self._settings.identity,
                                      padata.get(messages.PA_PK_AS_REQ, b""),
                                      certificates.KDC_PURPOSE)
        if proven.nonce != body["nonce"] or proven.name != messages.name_of(body["cname"]):
            raise Refusal(RefusalCode.BAD_MATCH, "the signature is for another request")
        about = TicketFor(proven.name, proven.realm, messages.name_of(body["sname"]),
                          self._settings.realm, _ends_s(party, body))
        session, reply_key = party.new_key(), party.new_key()
        policy = messages.encode("CrossRealmTktData", [
            {"data-type": messages.POLICY_LIFETIME, "data-value": messages.encode(
                "PolicyLifetime", self._settings.cross_realm_s)}])
        ticket = tickets.issue_ticket(party, about, session, self._settings.pkcross_key, [
            {"data-type": messages.TE_PKCROSS_KDC, "data-value": policy}])
        sealed = pkinit.create_reply(party, self._settings.identity, proven, reply_key)
        return tickets.create_reply(party,
                                    ReplyFor("AS-REP", about, session, reply_key, AS_REP_PART,
                                                    body["nonce"]), ticket, [sealed])


def _ends_s(party: Party, body: Mapping[str, Any]) -> int:
    """Return the end time of a requested ticket, limited by the ticket lifetime."""
    limit = party.now_ns() // 1_000_000_000 + party.lifetime_s
    return min(limit, messages.to_seconds(body["till"]))
