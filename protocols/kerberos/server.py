"""Implement a Kerberos application server that accepts tickets, and with PKTAPP also issues them.

`AppServer` takes a client's AP-REQ, verifies the ticket, and returns an AP-REP. With PKTAPP, a
client with a certificate gets its ticket from the server itself, not from a KDC: the server answers
an AS-REQ. `ServiceSettings` has the keys of a service. `protocols.kerberos.host` runs the server
over the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protocols.kerberos import certificates, messages, pkinit, tickets
from protocols.kerberos.messages import KrbError, KrbErrorCode
from protocols.kerberos.party import AS_REP_PART, Party, PartyWork
from protocols.kerberos.pkinit import Identity
from protocols.kerberos.tickets import ReplayCache, ReplyContent, TicketContent


@dataclass(frozen=True)
class ServiceSettings:
    """Keys of a service: its secret key, and the key pair with which it issues tickets."""

    secret: Mapping[str, Any]
    identity: Identity


class AppServer:
    """An application server with all its services.

    With `lengthens`, its acknowledgements break the encoding rules (an injected fault).
    """

    def __init__(self, services: Mapping[str, ServiceSettings], *,
                 lengthens: bool = False) -> None:
        self._services, self._lengthens = services, lengthens
        self._replays = ReplayCache()

    @property
    def name(self) -> tuple[str, str]:
        """Return realm and principal of the server, for error messages."""
        name, settings = next(iter(self._services.items()))
        return settings.identity.realm, name

    def answer_request(self, party: Party, message: bytes) -> PartyWork:
        """Answer a request: accept a ticket, or issue one (PKTAPP).

        Raises:
            KrbError: the request is refused.
        """
        yield from ()  # makes a generator; no other party is needed
        kind = messages.kind_of(message)
        if kind == "AP-REQ":
            return self._answer_ap_request(party, messages.decode_message(kind, message))
        if kind == "AS-REQ":
            return self._own_ticket(party, messages.decode_message(kind, message))
        raise KrbError(KrbErrorCode.MESSAGE_TYPE, f"{kind or 'no message'} to a server")

    def _find_service(self, name: str) -> ServiceSettings:
        if name not in self._services:
            raise KrbError(KrbErrorCode.SERVER_UNKNOWN, f"no {name} here")
        return self._services[name]

    def _answer_ap_request(self, party: Party, value: Mapping[str, Any]) -> bytes:
        own = self._find_service(messages.name_of(value["ticket"]["sname"]))
        part = tickets.open_ticket(party, value["ticket"], own.secret)
        reply = tickets.create_acknowledgement(party, tickets.check_presented(party, value, part,
                                                                              self._replays))
        return messages.lengthen_encoding(reply) if self._lengthens else reply

    def _own_ticket(self, party: Party, value: Mapping[str, Any]) -> bytes:
        """Issue a ticket for this server to a client with a certificate (PKTAPP)."""
        body = value["req-body"]
        service = messages.name_of(body["sname"])
        own = self._find_service(service)
        padata = messages.padata_of(value)
        proven = pkinit.check_request(party, own.identity, padata.get(messages.PA_PK_AS_REQ, b""),
                                      certificates.CLIENT_PURPOSE)
        if proven.name != messages.name_of(body["cname"]):
            raise KrbError(KrbErrorCode.CLIENT_NAME_MISMATCH, f"the certificate is {proven.name}'s")
        if proven.nonce != body["nonce"]:
            raise KrbError(KrbErrorCode.BAD_MATCH, "the signature is for another request")
        now_s = party.now_ns() // 1_000_000_000
        about = TicketContent(proven.name, proven.realm, service, own.identity.realm, min(
            now_s + party.lifetime_s, messages.to_seconds(body["till"])))
        session, reply_key = party.new_key(), party.new_key()
        ticket = tickets.issue_ticket(party, about, session, own.secret)
        sealed = pkinit.create_reply(party, own.identity, proven, reply_key)
        return tickets.create_reply(party,
                                    ReplyContent("AS-REP", about, session, reply_key, AS_REP_PART,
                                                 body["nonce"]), ticket, [sealed])
