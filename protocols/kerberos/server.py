"""Application server with ticket authentication, which issues its own tickets for PKTAPP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protocols.kerberos import certificates, messages, pkinit, tickets
from protocols.kerberos.errors import Refusal, RefusalCode
from protocols.kerberos.party import AS_REP_PART, Party
from protocols.kerberos.pkinit import Identity
from protocols.kerberos.steps import Work
from protocols.kerberos.tickets import ReplayCache, ReplyFor, TicketFor


@dataclass(frozen=True)
class ServiceSettings:
    """Keys of a service: its secret, and the identity of its ticket-granting server."""

    secret: Mapping[str, Any]
    identity: Identity


class AppServer:
    """All services of one application server.

    `config.ServerRole` explains `lengthens`.
    """

    def __init__(self, services: Mapping[str, ServiceSettings], *,
                 lengthens: bool = False) -> None:
        self._services, self._lengthens = services, lengthens
        self._replays = ReplayCache()

    @property
    def name(self) -> tuple[str, str]:
        """Return realm and principal for error messages."""
        name, settings = next(iter(self._services.items()))
        return settings.identity.realm, name

    def answer_request(self, party: Party, message: bytes) -> Work:
        """Answer a request. Raises Refusal."""
        yield from ()  # makes a generator; no other party is needed
        kind = messages.kind_of(message)
        if kind == "AP-REQ":
            return self._answer_ap_request(party, messages.decode(kind, message))
        if kind == "AS-REQ":
            return self._own_ticket(party, messages.decode(kind, message))
        raise Refusal(RefusalCode.MESSAGE_TYPE, f"{kind or 'no message'} to a server")

    def _find_service(self, name: str) -> ServiceSettings:
        if name not in self._services:
            raise Refusal(RefusalCode.SERVER_UNKNOWN, f"no {name} here")
        return self._services[name]

    def _answer_ap_request(self, party: Party, value: Mapping[str, Any]) -> bytes:
        own = self._find_service(messages.name_of(value["ticket"]["sname"]))
        part = tickets.open_ticket(party, value["ticket"], own.secret)
        reply = tickets.create_acknowledgement(party, tickets.check_presented(party, value, part,
                                                                              self._replays))
        return messages.lengthen_encoding(reply) if self._lengthens else reply

    def _own_ticket(self, party: Party, value: Mapping[str, Any]) -> bytes:
        """Issue a PKTAPP ticket for this server to a client with a public key."""
        body = value["req-body"]
        service = messages.name_of(body["sname"])
        own = self._find_service(service)
        padata = messages.padata_of(value)
        proven = pkinit.check_request(party, own.identity, padata.get(messages.PA_PK_AS_REQ, b""),
                                      certificates.CLIENT_PURPOSE)
        if proven.name != messages.name_of(body["cname"]):
            raise Refusal(RefusalCode.CLIENT_NAME_MISMATCH, f"the certificate is {proven.name}'s")
        if proven.nonce != body["nonce"]:
            raise Refusal(RefusalCode.BAD_MATCH, "the signature is for another request")
        now_s = party.now_ns() // 1_000_000_000
        about = TicketFor(proven.name, proven.realm, service, own.identity.realm, min(
            now_s + party.lifetime_s, messages.to_seconds(body["till"])))
        session, reply_key = party.new_key(), party.new_key()
        ticket = tickets.issue_ticket(party, about, session, own.secret)
        sealed = pkinit.create_reply(party, own.identity, proven, reply_key)
        return tickets.create_reply(party,
                                    ReplyFor("AS-REP", about, session, reply_key, AS_REP_PART,
                                                    body["nonce"]), ticket, [sealed])
