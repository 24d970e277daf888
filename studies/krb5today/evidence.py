"""Checks that a repetition used the chosen mechanism, from packets and the run's keys.

The settings of client and KDC are no evidence: MIT's client silently falls back to a password if a
certificate fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from measure.judging import make_check
from measure.messages import Traffic
from measure.record import CheckRecord
from policies import KerberosLayer
from protocols.kerberos import messages
from protocols.kerberos.errors import Undecipherable
from studies.krb5today import pkinit, tickets
from studies.krb5today.exchange import (
    FAST,
    PKINIT_REQUEST,
    SPAKE,
    KerberosExchange,
    KerberosMessage,
)
from studies.krb5today.mechanisms import LOCAL, REMOTE, USER, LoginMechanism, service_principal
from studies.krb5today.tickets import OpenedTicket

#: Largest request that is sent over UDP by default (DEFAULT_UDP_PREF_LIMIT of MIT krb5), and the
#: KRB-ERROR for a reply too big for a datagram.
UDP_LIMIT_BYTES, _TOO_BIG = 1465, 52
#: Message that shows that a login has got the result of a request, by the kind of the request.
_HAS_GOT = {"AS-REQ": "AS-REP", "TGS-REQ": "AP-REQ"}
ANONYMOUS = "WELLKNOWN/ANONYMOUS@WELLKNOWN:ANONYMOUS"


@dataclass(frozen=True)
class LoginCase:
    """Messages, keys and settings of a repetition.

    `said` and `exchanges` are from the client's wire, `at_server` from the application server's.
    `layer` is the policy's layer `kerberos`. `keys` are the services' keys by principal, `anchor`
    is the certificate of the run's authority.
    """

    mechanism: LoginMechanism
    layer: KerberosLayer
    client: str
    logins: int
    said: Sequence[KerberosMessage]
    exchanges: Sequence[KerberosExchange]
    at_server: Sequence[KerberosMessage]
    traffic: Traffic
    addresses: Mapping[str, str]
    keys: Mapping[str, bytes]
    anchor: x509.Certificate
    user_key: rsa.RSAPrivateKey

    def granted_requests(self, kind: str) -> list[KerberosExchange]:
        """Return granted requests of a kind, without retransmissions."""
        once = {exchange.request.payload: exchange for exchange in self.exchanges
                if exchange.request.kind == kind and exchange.is_granted}
        return list(once.values())


def gather_checks(case: LoginCase) -> list[CheckRecord]:
    """Return all checks of a repetition."""
    mechanism = case.mechanism
    checks: list[tuple[str, Callable[[LoginCase], Iterator[str]], bool]] = [
        ("messages follow the schema", _check_schema, True),
        ("every login has its ticket", _check_count, True),
        ("the mechanism that was asked for", _check_mechanism, True),
        ("encryption and lengths are the policy's", _check_lengths, True),
        ("requests go by the policy's transport", _check_transport, not mechanism.is_proxied),
        ("signatures verify", _check_signatures, bool(mechanism.agreement)),
        ("tickets open and say how", _check_tickets, True),
        ("the ticket is the service's own", _check_direct, mechanism.is_direct),
        ("the other realm issues the service's ticket", _check_crossed, mechanism.target == REMOTE),
        ("client and server prove the key", _check_proven, bool(mechanism.target)),
        ("the client reaches the proxy only", _check_apart, mechanism.is_proxied),
        ("the proxy passes messages on", _check_forwarding, mechanism.is_proxied),
        ("no key in clear", _check_clear_keys, True)]
    return [make_check(name, list(find(case)), f"{len(case.said)} messages, {case.logins} logins")
            for name, find, applies in checks if applies]


def _check_schema(case: LoginCase) -> Iterator[str]:
    """Check that each message equals its encoding by the schema, byte for byte."""
    for message in case.said:
        where = f"{message.source} to {message.target}"
        if message.complaint:
            yield f"{where}: {message.complaint}"
        elif message.kind and messages.encode(message.kind, message.value) != message.payload:
            yield f"{where}: {message.kind} is encoded in another way"


def _check_count(case: LoginCase) -> Iterator[str]:
    if (count := len(case.granted_requests("AS-REQ"))) != case.logins:
        yield f"{count} of {case.logins}"


def _check_mechanism(case: LoginCase) -> Iterator[str]:
    """Check that each ticket was granted for the mechanism's pre-authentication data only."""
    mechanism, due = case.mechanism, _required_padata(case.mechanism)
    exchanges = case.granted_requests("AS-REQ")
    if not exchanges:
        yield "no ticket at all"
    for exchange in exchanges:
        used = {kind for kind in (PKINIT_REQUEST, FAST, SPAKE) if kind in exchange.request.padata}
        if used != due:
            yield f"pre-authentication {_padata_names(used)} instead of {_padata_names(due)}"
        elif mechanism.is_armoured:
            yield from _check_armour(case, exchange)
        elif mechanism.agreement:
            agreed = pkinit.key_agreement(exchange)
            if agreed != mechanism.agreement:
                yield f"PKINIT by {agreed} instead of {mechanism.agreement}"


def _required_padata(mechanism: LoginMechanism) -> set[int]:
    if mechanism.initial == "spake":
        return {FAST} if mechanism.is_armoured else {SPAKE}
    return {PKINIT_REQUEST}


def _padata_names(kinds: set[int]) -> str:
    names = {PKINIT_REQUEST: "PKINIT", FAST: "FAST", SPAKE: "SPAKE"}
    return ", ".join(names[kind] for kind in sorted(kinds)) or "none"


def _check_armour(case: LoginCase, exchange: KerberosExchange) -> Iterator[str]:
    """Check that the armour is an anonymous ticket, opened with the KDC's key."""
    try:
        ticket = tickets.open_ticket(pkinit.armour_ticket(exchange.request.padata[FAST]), case.keys)
    except (ValueError, KeyError, IndexError) as error:
        yield f"the armour does not open ({error})"
        return
    if ticket.user != ANONYMOUS:
        yield f"the armour is {ticket.user}'s"


def _check_signatures(case: LoginCase) -> Iterator[str]:
    user = "" if case.mechanism.initial == "anonymous" else f"{USER}@{case.mechanism.realm}"
    for exchange in case.granted_requests("AS-REQ"):
        if PKINIT_REQUEST in exchange.request.padata:
            yield from pkinit.find_faults(exchange, user, anchor=case.anchor,
                                         user_key=case.user_key)


def _check_lengths(case: LoginCase) -> Iterator[str]:
    """Check that encryption types and key lengths are the policy's."""
    layer, due = case.layer, tickets.NUMBERS[case.layer.encryption]
    bits = {"key": layer.certificate_bits, "group": layer.group_bits}
    for exchange in (*case.granted_requests("AS-REQ"), *case.granted_requests("TGS-REQ")):
        reply = exchange.reply.value
        for what, part in (("ticket", reply["ticket"]["enc-part"]), ("reply", reply["enc-part"])):
            if part["etype"] != due:
                yield f"a {what} has encryption {part['etype']} instead of {due}"
        if PKINIT_REQUEST not in exchange.request.padata:
            continue
        try:
            for who, what, length in pkinit.key_lengths(exchange, anchor=case.anchor,
                                                    user_key=case.user_key):
                if length != bits[what]:
                    yield f"{who}: a {what} of {length} bits instead of {bits[what]}"
        except (ValueError, IndexError) as error:
            yield f"what is signed cannot be read ({error})"


def _check_transport(case: LoginCase) -> Iterator[str]:
    """Check that short requests use UDP first and longer ones use TCP first.

    After a second without an answer, the library also tries the other transport.
    """
    limit = case.layer.udp_limit_bytes or UDP_LIMIT_BYTES
    known, longer = set[bytes](), 0
    for message in case.said:
        size = len(message.payload)
        if message.source != case.client or message.payload in known or \
                message.kind not in ("AS-REQ", "TGS-REQ"):
            continue
        known.add(message.payload)
        longer += size > limit
        if size <= limit:
            if message.way == "tcp" and not _is_tcp_kept(case, message):
                yield f"{message.kind} of {size} bytes by TCP first"
        elif sum(at_s < message.at_s for at_s in case.traffic.opened_s) < longer:
            yield f"{message.kind} of {size} bytes by UDP first"


def _is_tcp_kept(case: LoginCase, message: KerberosMessage) -> bool:
    """Return whether a request uses TCP because a reply did not fit into a datagram.

    The reply answered a request of this kind. The library then uses TCP until the login has got the
    requested ticket.
    """
    since_s = max((exchange.reply.at_s for exchange in case.exchanges
                   if exchange.request.kind == message.kind and exchange.reply.error == _TOO_BIG
                   and exchange.reply.at_s < message.at_s), default=None)
    return since_s is not None and not any(
        other.kind == _HAS_GOT[message.kind] and since_s < other.at_s < message.at_s
        for other in case.said)


def _check_tickets(case: LoginCase) -> Iterator[str]:
    """Check that every ticket opens, and names the user and the way of authentication.

    The tickets open with their services' keys. Those of AS exchanges have the mechanism's
    authentication indicator and the flag for pre-authentication.
    """
    anonymous = case.mechanism.initial == "anonymous"
    user = ANONYMOUS if anonymous else f"{USER}@{case.mechanism.realm}"
    due = () if anonymous else (case.mechanism.initial,)
    for exchange, ticket in _open_tickets(case):
        if isinstance(ticket, str):
            yield ticket
        elif ticket.user != user:
            yield f"a ticket of {ticket.user} for {ticket.service}"
        elif exchange.request.kind == "AS-REQ" and (
                ticket.indicators != due or not ticket.is_preauthenticated):
            yield f"{ticket.service}: got by {', '.join(ticket.indicators) or 'nothing'}"


def _open_tickets(case: LoginCase) -> Iterator[tuple[KerberosExchange, OpenedTicket | str]]:
    for exchange in (*case.granted_requests("AS-REQ"), *case.granted_requests("TGS-REQ")):
        try:
            yield exchange, tickets.open_ticket(exchange.reply.value["ticket"], case.keys)
        except Undecipherable as error:
            yield exchange, f"a ticket does not open: {error}"


def _check_direct(case: LoginCase) -> Iterator[str]:
    """Check that a PKTAPP ticket came directly from the server's own KDC.

    No other KDC may take part.
    """
    for exchange in case.granted_requests("AS-REQ"):
        asked = messages.name_of(exchange.request.value["req-body"]["sname"])
        if asked != service_principal(case.mechanism.realm) or exchange.request.target != "app":
            yield f"{asked} was asked for, at {exchange.request.target}"
    others = {message.target for message in case.said if message.source == case.client} - {"app"}
    yield from (f"{other} was asked" for other in sorted(others))
    if case.granted_requests("TGS-REQ"):
        yield "a ticket was got with another ticket"


def _check_crossed(case: LoginCase) -> Iterator[str]:
    """Check that each login got a cross-realm ticket and the other realm's service ticket.

    The client's own KDC issues the first, the remote KDC the second.
    """
    asked = [(exchange.request.target, messages.name_of(exchange.reply.value["ticket"]["sname"]))
             for exchange in case.granted_requests("TGS-REQ")]
    for target, name in (("local", f"krbtgt/{REMOTE}"), ("remote", service_principal(REMOTE))):
        if (count := asked.count((target, name))) != case.logins:
            yield f"{name} from {target}: {count} of {case.logins}"


def _check_proven(case: LoginCase) -> Iterator[str]:
    """Check that client and server proved the session key in every AP exchange.

    The session key of the AP-REQ's own ticket must open the authenticator and the reply.
    """
    proven = case.granted_requests("AP-REQ")
    if len(proven) != case.logins:
        yield f"{len(proven)} of {case.logins} were answered"
    for exchange in proven:
        try:
            ticket = tickets.open_ticket(exchange.request.value["ticket"], case.keys)
        except Undecipherable as error:
            yield f"a ticket does not open: {error}"
            continue
        if complaint := tickets.find_exchange_fault(ticket, exchange.request.value,
                                                    exchange.reply.value):
            yield complaint


def _check_apart(case: LoginCase) -> Iterator[str]:
    """Check that no packet passed directly between the client and a KDC."""
    for kdc in ("local", "remote"):
        if frozenset((case.addresses[case.client], case.addresses[kdc])) in case.traffic.pairs:
            yield f"packets between the client and the KDC {kdc} of {LOCAL}"


def _check_forwarding(case: LoginCase) -> Iterator[str]:
    """Check that the proxy forwarded requests and replies unchanged."""
    def of(source: str, target: str) -> list[bytes]:
        return [message.payload for message in case.at_server if message.kind
                and message.way != "gss" and (message.source, message.target) == (source, target)]

    for wrapped, plain, what in ((of(case.client, "app"), of("app", "local"), "requests"),
                                 (of("app", case.client), of("local", "app"), "replies")):
        if not wrapped:
            yield f"no {what} pass the proxy"
        elif set(wrapped) != set(plain):
            yield f"{len(set(wrapped) ^ set(plain))} {what} differ behind the proxy"


def _check_clear_keys(case: LoginCase) -> Iterator[str]:
    session_keys = [ticket.key for _, ticket in _open_tickets(case)
                    if isinstance(ticket, OpenedTicket)]
    everything = b"\0".join(message.payload for message in (*case.said, *case.at_server))
    for key in (*session_keys, *case.keys.values()):
        if key in everything:
            yield "a key is in a message"
