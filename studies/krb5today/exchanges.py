"""Parse Kerberos messages in captures, pair requests with replies, and decrypt tickets.

`parse_traffic` returns the messages of a capture, also from inside GSS tokens. `pair_exchanges`
pairs each reply with its request. `decrypt_ticket` decrypts a ticket with the key of its service.
The checks of the study krb5today use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from measure.packets.messages import CapturedMessages, WireMessage
from measure.services.mit_krb5 import GSS_PORT, PROXY_PORT
from protocols.kerberos import keytab, messages
from protocols.kerberos.messages import DecryptionError, KrbError
from protocols.kerberos.suites import SUITES

# --- DER without a schema: tags, contents and the original bytes of a value ---

_LONG = 0x80


@dataclass(frozen=True)
class DerValue:
    """A value in DER: its tag byte, its content and its complete encoding."""

    tag: int
    content: bytes
    whole: bytes

    @property
    def parts(self) -> list[DerValue]:
        """Return the values inside this value.

        Raises:
            ValueError: the content is no DER.
        """
        return parse_values(self.content)

    def find_tagged(self, tag: int) -> DerValue:
        """Return the first value inside this one that has the given tag.

        Raises:
            ValueError: there is none.
        """
        for part in self.parts:
            if part.tag == tag:
                return part
        raise ValueError(f"nothing tagged {tag:#x}")


def parse_values(data: bytes) -> list[DerValue]:
    """Parse consecutive DER values.

    Raises:
        ValueError: the data is no DER.
    """
    values, place = [], 0
    while place < len(data):
        value = parse_first(data[place:])
        values.append(value)
        place += len(value.whole)
    return values


def parse_first(data: bytes) -> DerValue:
    """Parse the DER value at the beginning of data.

    Raises:
        ValueError: the data is no DER.
    """
    if len(data) < 2:
        raise ValueError("no value")
    size, at = data[1], 2
    if size & _LONG:
        at += size & ~_LONG
        size = int.from_bytes(data[2:at], "big")
    if at + size > len(data):
        raise ValueError("a value is cut short")
    return DerValue(data[0], data[at:at + size], data[:at + size])


# --- Messages, and exchanges of request and reply ---

#: Bytes before the length field of the application server's messages, by port (also as a proxy).
LEADS = {GSS_PORT: 1, PROXY_PORT: 1}
_SERVERS = {88, GSS_PORT, PROXY_PORT}
_REQUESTS, _REPLIES = ("AS-REQ", "TGS-REQ", "AP-REQ"), ("AS-REP", "TGS-REP", "AP-REP")
_TOKEN, _OID = 0x60, 0x06
_PROXIED, _AP_REQUEST, _AP_REPLY = b"\x05\x01", b"\x01\x00", b"\x02\x00"
_TOKEN_FLAG = 0x02
#: Types of pre-authentication data in RFC 4556, 6113 and 9588.
PKINIT_REQUEST, PKINIT_REPLY, FAST, SPAKE = 16, 17, 136, 151


@dataclass(frozen=True)
class KerberosMessage:
    """A captured Kerberos message with sender, receiver and content.

    - `way`: `udp`, `tcp`, `gss` (inside a token for the application server) or `proxy` (inside a
      token that it forwards)
    - `kind`: name of the message, such as AS-REQ
    - `at_s`: time of its last packet (s since 1970)
    - `complaint`: why the data is no valid message
    """

    source: str
    target: str
    way: str
    kind: str
    value: Any
    payload: bytes
    at_s: float
    client_port: int
    padata: Mapping[int, bytes] = field(default_factory=dict)
    complaint: str = ""

    @property
    def error(self) -> int | None:
        """Return the code of a KRB-ERROR, or None for other messages."""
        return self.value["error-code"] if self.kind == "KRB-ERROR" and self.value else None


def parse_traffic(traffic: CapturedMessages, addresses: Mapping[str, str]) -> list[KerberosMessage]:
    """Return all Kerberos messages of a capture in order of time.

    Data that is no valid message has a `complaint`.

    Args:
        traffic: reassembled streams and datagrams of the capture.
        addresses: IP addresses by node.
    """
    parties = {address: party for party, address in addresses.items()}
    return [parsed for message in traffic.messages for parsed in _parse_message(message, parties)]


@dataclass(frozen=True)
class KerberosExchange:
    """A request with its reply, or with the KRB-ERROR that answers it."""

    request: KerberosMessage
    reply: KerberosMessage

    @property
    def is_granted(self) -> bool:
        """Return whether the reply grants the request."""
        return self.reply.kind in _REPLIES


def pair_exchanges(kerberos_messages: Sequence[KerberosMessage]) -> list[KerberosExchange]:
    """Pair each reply with the last request from the same port of the client."""
    waiting, exchanges = dict[tuple[frozenset[str], int], KerberosMessage](), []
    for message in kerberos_messages:
        key = frozenset((message.source, message.target)), message.client_port
        if message.kind in _REQUESTS:
            waiting[key] = message
        elif key in waiting:
            exchanges.append(KerberosExchange(waiting.pop(key), message))
    return exchanges


def _parse_message(message: WireMessage, parties: Mapping[str, str]) -> Iterator[KerberosMessage]:
    """Yield the Kerberos message in a captured message, also from inside a token.

    Data of the application itself yields nothing.
    """
    way, payload = message.transport, message.payload
    if any(port in LEADS for port in message.ports):
        if not message.payload or message.lead[0] & _TOKEN_FLAG == 0:
            return  # data of the application itself
        try:
            way, payload = _unwrap_token(payload)
        except ValueError as error:
            yield _decode_message(message, parties, "gss", payload, str(error))
            return
    if way:
        yield _decode_message(message, parties, way, payload)


def _unwrap_token(token: bytes) -> tuple[str, bytes]:
    """Return kind and content of a GSS token.

    Raises:
        ValueError: the data is no GSS token of Kerberos.
    """
    if token[:1] == bytes([_TOKEN]):
        token = parse_first(token).content
        name = parse_first(token)
        if name.tag != _OID:
            raise ValueError("a token without a mechanism")
        token = token[len(name.whole):]
    kind, rest = token[:2], token[2:]
    if kind == _PROXIED:
        header = parse_first(rest)
        return "proxy", rest[len(header.whole):]
    if kind in (_AP_REQUEST, _AP_REPLY):
        return "gss", rest
    raise ValueError(f"a token of the unknown kind {kind.hex()}")


def _decode_message(message: WireMessage, parties: Mapping[str, str], way: str, payload: bytes,
                    complaint: str = "") -> KerberosMessage:
    """Decode a Kerberos message, with the reason if its data is no valid message."""
    kind = messages.kind_of(payload)
    value, padata = None, dict[int, bytes]()
    if not kind and not complaint:
        # A token without a message only exchanges the proxy's realm.
        complaint = "" if way == "proxy" and not payload else "no message of Kerberos"
    if kind:
        try:
            value = messages.decode_message(kind, payload)
            padata = messages.padata_of(value)
        except KrbError as error:
            complaint = str(error)
    return KerberosMessage(
        parties.get(message.source, message.source), parties.get(message.target, message.target),
        way, kind, value, payload, message.ended_s,
        next((port for port in message.ports if port not in _SERVERS), 0), padata, complaint)


# --- Tickets, decrypted with the keys of their services ---

#: Encryption type numbers by the names in policies.
NUMBERS: Mapping[str, int] = {"aes256-sha384": SUITES["today"].etype,
                              "aes256-sha1": keytab.AES256_ETYPE}
#: Decryption functions for the encryption types that a policy may require of MIT krb5.
_DECRYPT: Mapping[int, Callable[[bytes, int, bytes], bytes]] = {
    SUITES["today"].etype: SUITES["today"].decrypt, keytab.AES256_ETYPE: keytab.decrypt_aes256}
_TICKET_USAGE, _AP_REQUEST_USAGE, _AP_REPLY_USAGE = 2, 11, 12
_IF_RELEVANT, _CAMMAC, _INDICATOR = 1, 96, 97
_PREAUTHENTICATED = 10
_UTF8 = 0x0C


@dataclass(frozen=True)
class DecryptedTicket:
    """Content of a decrypted ticket.

    `user` and `service` are principals with realm, and `key` is the session key. `indicators` say
    how the user was authenticated (RFC 8129).
    """

    user: str
    service: str
    key: bytes
    indicators: tuple[str, ...]
    is_preauthenticated: bool


def decrypt_ticket(ticket: Mapping[str, Any], keys: Mapping[str, bytes]) -> DecryptedTicket:
    """Decrypt a ticket with the key of its service.

    Args:
        ticket: the decoded ticket.
        keys: keys by principal.

    Raises:
        DecryptionError: the service's key is missing, or does not fit.
    """
    service = f"{messages.name_of(ticket['sname'])}@{ticket['realm']}"
    if service not in keys:
        raise DecryptionError(f"nobody here has the key of {service}")
    part = _decrypt_part("EncTicketPart", keys[service], _TICKET_USAGE, ticket["enc-part"])
    flags = int.from_bytes(part["flags"][0], "big")
    user = f"{messages.name_of(part['cname'])}@{part['crealm']}"
    return DecryptedTicket(user, service, part["key"]["keyvalue"],
                           tuple(_find_indicators(part.get("authorization-data", ()))),
                           bool(flags >> (31 - _PREAUTHENTICATED) & 1))


def find_exchange_fault(ticket: DecryptedTicket, request: Mapping[str, Any],
                        reply: Mapping[str, Any]) -> str:
    """Return why client and server did not prove that they have a ticket's session key.

    The text is "" if both did.
    """
    try:
        proof = _decrypt_part("Authenticator", ticket.key, _AP_REQUEST_USAGE,
                              request["authenticator"])
        answer = _decrypt_part("EncAPRepPart", ticket.key, _AP_REPLY_USAGE, reply["enc-part"])
    except DecryptionError:
        return "the session key does not open it"
    user = f"{messages.name_of(proof['cname'])}@{proof['crealm']}"
    if user != ticket.user:
        return f"the authenticator is {user}'s"
    if (proof["ctime"], proof["cusec"]) != (answer["ctime"], answer["cusec"]):
        return "the reply does not repeat the request's time"
    return ""


def _decrypt_part(kind: str, key: bytes, usage: int, encrypted: Mapping[str, Any]) -> Any:
    decrypt = _DECRYPT.get(encrypted["etype"])
    if decrypt is None:
        raise DecryptionError(f"encryption {encrypted['etype']} is not known here")
    plain = decrypt(key, usage, encrypted["cipher"])
    try:
        return messages.decode_message(kind, plain)
    except KrbError as error:
        raise DecryptionError(str(error)) from None


def _find_indicators(data: Any) -> Iterator[str]:
    """Yield authentication indicators (RFC 8129) at any nesting level."""
    for entry in data:
        kind, value = entry["ad-type"], entry["ad-data"]
        if kind == _INDICATOR:
            yield from (part.content.decode() for part in parse_first(value).parts
                        if part.tag == _UTF8)
        elif kind == _IF_RELEVANT:
            yield from _find_indicators(messages.decode_message("AuthorizationData", value))
        elif kind == _CAMMAC:
            elements = parse_first(value).parts[0].parts[0].whole
            yield from _find_indicators(messages.decode_message("AuthorizationData", elements))
