"""Check by captured packets and keys that a Kerberos login used the chosen method.

`run_checks` takes messages, keys and settings of one measurement (`LoginEvidence`). It returns the
checks: a statement, whether it holds, and details. The settings of client and KDC prove nothing: if
a certificate fails, MIT's client silently uses the password instead. `studies.krb5today` lists the
terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from measure.packets.messages import CapturedMessages
from measure.records.judgement import make_check
from measure.records.record import CheckRecord
from policies import KerberosLayer
from protocols.kerberos import messages
from protocols.kerberos.messages import DecryptionError
from studies.krb5today import exchanges, pkinit
from studies.krb5today.exchanges import (
    FAST,
    PKINIT_REQUEST,
    SPAKE,
    DecryptedTicket,
    KerberosExchange,
    KerberosMessage,
)
from studies.krb5today.mechanisms import LOCAL, REMOTE, USER, LoginMechanism, service_principal

#: Largest request that is sent over UDP by default (DEFAULT_UDP_PREF_LIMIT of MIT krb5), and the
#: KRB-ERROR for a reply too big for a datagram.
UDP_LIMIT_BYTES, _TOO_BIG = 1465, 52
#: Message that shows that a login has got the result of a request, by the kind of the request.
_HAS_GOT = {"AS-REQ": "AS-REP", "TGS-REQ": "AP-REQ"}
ANONYMOUS = "WELLKNOWN/ANONYMOUS@WELLKNOWN:ANONYMOUS"


@dataclass(frozen=True)
class LoginEvidence:
    """Messages, keys and settings of a repetition.

    - `mechanism`: how users log in
    - `layer`: layer `kerberos` of the policy
    - `client`: node of the users
    - `logins`: number of logins
    - `sent_messages`, `exchanges`: messages on the client's wire
    - `at_server`: messages at the application server
    - `traffic`: all messages and counts of the client's capture
    - `addresses`: IP address of each node
    - `keys`: keys of the services, by principal
    - `anchor`: certificate of the run's authority
    - `user_key`: private key of the user's certificate
    """

    mechanism: LoginMechanism
    layer: KerberosLayer
    client: str
    logins: int
    sent_messages: Sequence[KerberosMessage]
    exchanges: Sequence[KerberosExchange]
    at_server: Sequence[KerberosMessage]
    traffic: CapturedMessages
    addresses: Mapping[str, str]
    keys: Mapping[str, bytes]
    anchor: x509.Certificate
    user_key: rsa.RSAPrivateKey

    def granted_requests(self, kind: str) -> list[KerberosExchange]:
        """Return the requests of a kind that were granted, without retransmissions."""
        once = {exchange.request.payload: exchange for exchange in self.exchanges
                if exchange.request.kind == kind and exchange.is_granted}
        return list(once.values())


def run_checks(case: LoginEvidence) -> list[CheckRecord]:
    """Return all checks of a repetition."""
    mechanism = case.mechanism
    checks: list[tuple[str, Callable[[LoginEvidence], Iterator[str]], bool]] = [
        ("messages follow the schema", _check_schema, True),
        ("every login has its ticket", _check_count, True),
        ("requested login method is used", _check_mechanism, True),
        ("encryption and lengths are the policy's", _check_lengths, True),
        ("requests go by the policy's transport", _check_transport, not mechanism.is_proxied),
        ("signatures verify", _check_signatures, bool(mechanism.agreement)),
        ("tickets name the login method", _check_tickets, True),
        ("the ticket is the service's own", _check_direct, mechanism.is_direct),
        ("the other realm issues the service's ticket", _check_crossed, mechanism.target == REMOTE),
        ("client and server prove the key", _check_proven, bool(mechanism.target)),
        ("the client reaches the proxy only", _check_apart, mechanism.is_proxied),
        ("the proxy forwards messages unchanged", _check_forwarding, mechanism.is_proxied),
        ("no key in clear", _check_clear_keys, True)]
    counted = f"{len(case.sent_messages)} messages, {case.logins} logins"
    return [make_check(name, list(find(case)), counted)
            for name, find, applies in checks if applies]


def _check_schema(case: LoginEvidence) -> Iterator[str]:
    """Check that each message equals its encoding by the ASN.1 schema, byte for byte."""
    for message in case.sent_messages:
        where = f"{message.source} to {message.target}"
        if message.complaint:
            yield f"{where}: {message.complaint}"
        elif message.kind and messages.encode_message(message.kind,
                                                      message.value) != message.payload:
            yield f"{where}: {message.kind} is encoded in another way"


def _check_count(case: LoginEvidence) -> Iterator[str]:
    if (count := len(case.granted_requests("AS-REQ"))) != case.logins:
        yield f"{count} of {case.logins}"


def _check_mechanism(case: LoginEvidence) -> Iterator[str]:
    """Check that each ticket was granted for the pre-authentication data of the login method."""
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


def _check_armour(case: LoginEvidence, exchange: KerberosExchange) -> Iterator[str]:
    """Check that FAST protects a login by an anonymous ticket (armour), decrypted with its key."""
    try:
        ticket = exchanges.decrypt_ticket(pkinit.armour_ticket(exchange.request.padata[FAST]),
                                          case.keys)
    except (ValueError, KeyError, IndexError) as error:
        yield f"the armour does not open ({error})"
        return
    if ticket.user != ANONYMOUS:
        yield f"the armour is {ticket.user}'s"


def _check_signatures(case: LoginEvidence) -> Iterator[str]:
    user = "" if case.mechanism.initial == "anonymous" else f"{USER}@{case.mechanism.realm}"
    for exchange in case.granted_requests("AS-REQ"):
        if PKINIT_REQUEST in exchange.request.padata:
            yield from pkinit.find_pkinit_faults(exchange, user, anchor=case.anchor,
                                                 user_key=case.user_key)


def _check_lengths(case: LoginEvidence) -> Iterator[str]:
    """Check that encryption types and key lengths are as in the policy."""
    layer, due = case.layer, exchanges.NUMBERS[case.layer.encryption]
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


def _check_transport(case: LoginEvidence) -> Iterator[str]:
    """Check that short requests use UDP first, and longer ones TCP.

    After a second without an answer, the library also tries the other transport.
    """
    limit = case.layer.udp_limit_bytes or UDP_LIMIT_BYTES
    known, longer = set[bytes](), 0
    for message in case.sent_messages:
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


def _is_tcp_kept(case: LoginEvidence, message: KerberosMessage) -> bool:
    """Return whether a request uses TCP because an earlier reply did not fit into a datagram.

    The library then uses TCP until the login has its ticket.
    """
    since_s = max((exchange.reply.at_s for exchange in case.exchanges
                   if exchange.request.kind == message.kind and exchange.reply.error == _TOO_BIG
                   and exchange.reply.at_s < message.at_s), default=None)
    return since_s is not None and not any(
        other.kind == _HAS_GOT[message.kind] and since_s < other.at_s < message.at_s
        for other in case.sent_messages)


def _check_tickets(case: LoginEvidence) -> Iterator[str]:
    """Check that every ticket can be decrypted, and names the user and the login method.

    Tickets are decrypted with their services' keys. A ticket of an AS exchange must have the
    method's authentication indicator and the pre-authentication flag.
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


def _open_tickets(case: LoginEvidence) -> Iterator[tuple[KerberosExchange, DecryptedTicket | str]]:
    """Yield each granted exchange with its decrypted ticket, or with a line why that failed."""
    for exchange in (*case.granted_requests("AS-REQ"), *case.granted_requests("TGS-REQ")):
        try:
            yield exchange, exchanges.decrypt_ticket(exchange.reply.value["ticket"], case.keys)
        except DecryptionError as error:
            yield exchange, f"a ticket does not open: {error}"


def _check_direct(case: LoginEvidence) -> Iterator[str]:
    """Check that a PKTAPP ticket came from the KDC on the application server, and no other.

    With PKTAPP, a client gets its ticket from the server itself.
    """
    for exchange in case.granted_requests("AS-REQ"):
        service = messages.name_of(exchange.request.value["req-body"]["sname"])
        if service != service_principal(case.mechanism.realm) or exchange.request.target != "app":
            yield f"{service} was asked for, at {exchange.request.target}"
    others = {message.target for message in case.sent_messages
              if message.source == case.client} - {"app"}
    yield from (f"{other} was asked" for other in sorted(others))
    if case.granted_requests("TGS-REQ"):
        yield "a ticket was got with another ticket"


def _check_crossed(case: LoginEvidence) -> Iterator[str]:
    """Check that each login got a cross-realm ticket and a service ticket of the other realm.

    The client's own KDC issues the first, the remote KDC the second.
    """
    granted = [(exchange.request.target, messages.name_of(exchange.reply.value["ticket"]["sname"]))
             for exchange in case.granted_requests("TGS-REQ")]
    for target, name in (("local", f"krbtgt/{REMOTE}"), ("remote", service_principal(REMOTE))):
        if (count := granted.count((target, name))) != case.logins:
            yield f"{name} from {target}: {count} of {case.logins}"


def _check_proven(case: LoginEvidence) -> Iterator[str]:
    """Check that client and server both proved that they have the session key.

    The session key in the ticket must decrypt the client's authenticator and the server's reply.
    """
    proven = case.granted_requests("AP-REQ")
    if len(proven) != case.logins:
        yield f"{len(proven)} of {case.logins} were answered"
    for exchange in proven:
        try:
            ticket = exchanges.decrypt_ticket(exchange.request.value["ticket"], case.keys)
        except DecryptionError as error:
            yield f"a ticket does not open: {error}"
            continue
        if complaint := exchanges.find_exchange_fault(ticket, exchange.request.value,
                                                      exchange.reply.value):
            yield complaint


def _check_apart(case: LoginEvidence) -> Iterator[str]:
    """Check that no packet passed directly between the client and a KDC."""
    for kdc in ("local", "remote"):
        if frozenset((case.addresses[case.client], case.addresses[kdc])) in case.traffic.pairs:
            yield f"packets between the client and the KDC {kdc} of {LOCAL}"


def _check_forwarding(case: LoginEvidence) -> Iterator[str]:
    """Check that the application server forwarded requests and replies unchanged (IAKERB)."""
    def of(source: str, target: str) -> list[bytes]:
        return [message.payload for message in case.at_server if message.kind
                and message.way != "gss" and (message.source, message.target) == (source, target)]

    for wrapped, plain, what in ((of(case.client, "app"), of("app", "local"), "requests"),
                                 (of("app", case.client), of("local", "app"), "replies")):
        if not wrapped:
            yield f"no {what} pass the proxy"
        elif set(wrapped) != set(plain):
            yield f"{len(set(wrapped) ^ set(plain))} {what} differ behind the proxy"


def _check_clear_keys(case: LoginEvidence) -> Iterator[str]:
    session_keys = [ticket.key for _, ticket in _open_tickets(case)
                    if isinstance(ticket, DecryptedTicket)]
    everything = b"\0".join(message.payload for message in (*case.sent_messages, *case.at_server))
    for key in (*session_keys, *case.keys.values()):
        if key in everything:
            yield "a key is in a message"
