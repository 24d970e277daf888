"""Create and verify Kerberos tickets and authenticators, and the messages that carry them.

A KDC calls `issue_ticket`, which returns a ticket that is encrypted under the service's key. The
client gets it with a session key by `take_credential`. `present_ticket` encodes an AP-REQ, with an
authenticator that proves the session key. The service decrypts the ticket with its own key
(`open_ticket`), and verifies the authenticator (`check_presented`). `ReplayCache` refuses an
authenticator that was used before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from protocols.kerberos import messages
from protocols.kerberos.messages import NO_FLAGS, PROTOCOL_VERSION, TYPES, KrbError, KrbErrorCode
from protocols.kerberos.party import (
    AP_AUTHENTICATOR,
    AP_REP_PART,
    AS_REP_TICKET,
    MD5_CHECKSUM,
    SHA256_CHECKSUM,
    TGS_AUTHENTICATOR,
    Party,
)


@dataclass(frozen=True)
class TicketContent:
    """Client, service and end time (s since 1970) of a ticket.

    `realm` is that of the service. `transited` lists the realms between the two (RFC 4120,
    3.3.3.2).
    """

    client: str
    client_realm: str
    service: str
    realm: str
    ends_s: int
    transited: str = ""


@dataclass(frozen=True)
class Credential:
    """A ticket and its session key, as a client keeps them."""

    ticket: Mapping[str, Any]
    key: Mapping[str, Any]
    ends_s: int


@dataclass(frozen=True)
class VerifiedRequest:
    """Content of a verified AP-REQ: client, session key and time of the authenticator.

    `time` has seconds since 1970 and microseconds. `ends_s` is the end of the ticket.
    """

    name: str
    realm: str
    key: Mapping[str, Any]
    time: tuple[Any, int]
    ends_s: int


@dataclass
class ReplayCache:
    """Digests of recent authenticators, kept for twice the permitted clock difference."""

    skew_s: int = 300
    _seen: dict[bytes, int] = field(default_factory=dict)

    def check(self, authenticator: bytes, now_s: int) -> None:
        """Check that an authenticator was not used before, and remember it.

        Raises:
            KrbError: the authenticator was used before.
        """
        digest = hashlib.sha256(authenticator).digest()
        if digest in self._seen:
            raise KrbError(KrbErrorCode.REPEATED, "this authenticator came before")
        self._seen[digest] = now_s
        while self._seen:
            first = next(iter(self._seen))
            if self._seen[first] >= now_s - 2 * self.skew_s:
                break
            del self._seen[first]


def issue_ticket(party: Party, about: TicketContent, session: Mapping[str, Any],
                 under: Mapping[str, Any],
                 extensions: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Issue a ticket, encrypted under a service's key."""
    time, _ = party.current_time()
    part = {"flags": NO_FLAGS, "key": session, "crealm": about.client_realm,
            "cname": messages.to_principal(about.client),
            "transited": {"tr-type": 1, "contents": about.transited.encode()}, "authtime": time,
            "starttime": time, "endtime": messages.kerberos_time(about.ends_s * 1_000_000_000)}
    ticket = {"tkt-vno": PROTOCOL_VERSION, "realm": about.realm,
              "sname": messages.to_principal(about.service), "enc-part": party.encrypt(
                  under, AS_REP_TICKET, messages.encode_message("EncTicketPart", part))}
    return {**ticket, "extensions": extensions} if extensions else ticket


def open_ticket(party: Party, ticket: Mapping[str, Any], key: Mapping[str, Any]) -> Any:
    """Decrypt a ticket that has not expired, and return its content (EncTicketPart).

    Raises:
        KrbError: the key does not fit, or the ticket has expired.
    """
    part = party.decrypt(key, AS_REP_TICKET, ticket["enc-part"], "EncTicketPart")
    if messages.to_seconds(part["endtime"]) < party.now_ns() // 1_000_000_000:
        raise KrbError(KrbErrorCode.TICKET_EXPIRED, "the ticket has expired")
    return part


# --- Requests and replies of a KDC ---

def create_request(party: Party, kind: str, service: tuple[str, str], nonce: int, *,
                   client: str = "",
                   padata: list[dict[str, Any]] | None = None, options: bytes = bytes(4)) -> bytes:
    """Encode an AS-REQ or TGS-REQ for a service of a realm."""
    body = request_body(party, service, nonce, client, options)
    value: dict[str, Any] = {"pvno": PROTOCOL_VERSION, "msg-type": TYPES[kind], "req-body": body}
    return messages.encode_message(kind, {**value, "padata": padata} if padata else value)


def request_body(party: Party, service: tuple[str, str], nonce: int, client: str = "",
                 options: bytes = bytes(4)) -> dict[str, Any]:
    """Return the body of a request for a ticket (KDC-REQ-BODY)."""
    ends_ns = party.now_ns() + party.lifetime_s * 1_000_000_000
    body = {"kdc-options": (options, 32), "realm": service[1],
            "sname": messages.to_principal(service[0]), "till": messages.kerberos_time(ends_ns),
            "nonce": nonce, "etype": [party.suite.etype]}
    return {**body, "cname": messages.to_principal(client)} if client else body


@dataclass(frozen=True)
class ReplyContent:
    """Content of a KDC's reply.

    - `kind`: AS-REP or TGS-REP
    - `about`: content of the ticket
    - `session`: session key
    - `under`, `usage`: key that encrypts the reply, and its key usage number (RFC 4120, 7.5.1)
    - `nonce`: nonce of the request
    """

    kind: str
    about: TicketContent
    session: Mapping[str, Any]
    under: Mapping[str, Any]
    usage: int
    nonce: int


def create_reply(party: Party, content: ReplyContent, ticket: Mapping[str, Any],
                 padata: list[dict[str, Any]] | None = None) -> bytes:
    """Encode a KDC's reply with a ticket (AS-REP or TGS-REP)."""
    time, _ = party.current_time()
    about = content.about
    part = {"key": content.session, "last-req": [], "nonce": content.nonce, "flags": NO_FLAGS,
            "authtime": time, "srealm": about.realm, "sname": messages.to_principal(about.service),
            "endtime": messages.kerberos_time(about.ends_s * 1_000_000_000)}
    value: dict[str, Any] = {
        "pvno": PROTOCOL_VERSION, "msg-type": TYPES[content.kind], "crealm": about.client_realm,
        "cname": messages.to_principal(about.client), "ticket": ticket,
        "enc-part": party.encrypt(content.under, content.usage,
                                  messages.encode_message(part_of(content.kind), part))}
    return messages.encode_message(content.kind, {**value, "padata": padata} if padata else value)


def part_of(kind: str) -> str:
    """Return the ASN.1 type of the encrypted part of a reply."""
    return "EncASRepPart" if kind == "AS-REP" else "EncTGSRepPart"


def take_credential(party: Party, value: Mapping[str, Any], kind: str, key: Mapping[str, Any],
                    usage: int,
                    nonce: int) -> Credential:
    """Decrypt a KDC's reply, and return the ticket with its session key.

    Raises:
        KrbError: the key does not fit, or the reply is for another request.
    """
    part = party.decrypt(key, usage, value["enc-part"], part_of(kind))
    if part["nonce"] != nonce:
        raise KrbError(KrbErrorCode.BAD_MATCH, "the reply is to another request")
    if part["sname"] != value["ticket"]["sname"] or part["srealm"] != value["ticket"]["realm"]:
        raise KrbError(KrbErrorCode.BAD_MATCH, "the ticket is for another service")
    return Credential(value["ticket"], part["key"], messages.to_seconds(part["endtime"]))


# --- Presenting a ticket to a service ---

def present_ticket(party: Party, credential: Credential, client: tuple[str, str], *,
                   body: bytes | None = None) -> tuple[bytes, tuple[Any, int]]:
    """Encode an AP-REQ, by which a client presents a ticket.

    Args:
        party: cryptographic operations of the client.
        credential: the ticket and its session key.
        client: name and realm of the client.
        body: body of a TGS-REQ, to which the AP-REQ is bound by a checksum.

    Returns:
        The message, and the time of its authenticator.
    """
    time = party.current_time()
    value: dict[str, Any] = {"authenticator-vno": PROTOCOL_VERSION, "crealm": client[1],
                             "cname": messages.to_principal(client[0]), "ctime": time[0],
                             "cusec": time[1]}
    if body is not None:
        value["cksum"] = compute_checksum(party, body)
    usage = AP_AUTHENTICATOR if body is None else TGS_AUTHENTICATOR
    return messages.encode_message("AP-REQ", {
        "pvno": PROTOCOL_VERSION, "msg-type": TYPES["AP-REQ"],
        "ap-options": NO_FLAGS if body is not None else messages.MUTUAL,
        "ticket": credential.ticket,
        "authenticator": party.encrypt(credential.key, usage,
                                       messages.encode_message("Authenticator", value))}), time


def compute_checksum(party: Party, text: bytes) -> dict[str, Any]:
    """Return a Checksum of a request's body.

    It needs no key, because the authenticator that contains it is encrypted.
    """
    if party.suite.name == "era":
        return {"cksumtype": MD5_CHECKSUM,
                "checksum": hashlib.md5(text).digest()}  # noqa: S324 - of 1993
    return {"cksumtype": SHA256_CHECKSUM, "checksum": hashlib.sha256(text).digest()}


def check_presented(party: Party, value: Mapping[str, Any], part: Mapping[str, Any],
                    replays: ReplayCache, *, body: bytes | None = None) -> VerifiedRequest:
    """Verify the AP-REQ of a decrypted ticket, and return its content.

    Args:
        party: cryptographic operations of the service.
        value: the decoded AP-REQ.
        part: the decrypted ticket.
        replays: recent authenticators.
        body: body of a TGS-REQ that the AP-REQ must be bound to.

    Raises:
        KrbError: the authenticator is wrong, too old or a replay.
    """
    usage = AP_AUTHENTICATOR if body is None else TGS_AUTHENTICATOR
    content = party.decrypt(part["key"], usage, value["authenticator"], "Authenticator")
    if (content["cname"], content["crealm"]) != (part["cname"], part["crealm"]):
        raise KrbError(KrbErrorCode.BAD_MATCH, "ticket and authenticator do not match")
    if body is not None and content.get("cksum") != compute_checksum(party, body):
        raise KrbError(KrbErrorCode.BAD_INTEGRITY, "the request was altered")
    party.check_time(content["ctime"])
    replays.check(value["authenticator"]["cipher"], party.now_ns() // 1_000_000_000)
    return VerifiedRequest(messages.name_of(content["cname"]), content["crealm"], part["key"],
                           (content["ctime"], content["cusec"]),
                           messages.to_seconds(part["endtime"]))


def create_acknowledgement(party: Party, presented: VerifiedRequest) -> bytes:
    """Encode an AP-REP, which proves that the server has the session key."""
    part = {"ctime": presented.time[0], "cusec": presented.time[1]}
    return messages.encode_message("AP-REP", {
        "pvno": PROTOCOL_VERSION, "msg-type": TYPES["AP-REP"], "enc-part": party.encrypt(
            presented.key, AP_REP_PART, messages.encode_message("EncAPRepPart", part))})


def check_acknowledged(party: Party, message: bytes, key: Mapping[str, Any],
                       time: tuple[Any, int]) -> None:
    """Check that an AP-REP proves that the server has the session key.

    Raises:
        KrbError: the AP-REP proves nothing, or is for another request.
    """
    value = messages.expect_message("AP-REP", message)
    part = party.decrypt(key, AP_REP_PART, value["enc-part"], "EncAPRepPart")
    if not is_same_time((part["ctime"], part["cusec"]), time):
        raise KrbError(KrbErrorCode.BAD_MATCH, "the server answers something else")


def is_same_time(first: tuple[Any, int], second: tuple[Any, int]) -> bool:
    """Return whether two timestamps are equal. A decoded one has no time zone."""
    return (messages.to_seconds(first[0]), first[1]) == (messages.to_seconds(second[0]), second[1])
