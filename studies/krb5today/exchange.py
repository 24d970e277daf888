"""Reader of Kerberos messages in captures, also inside GSS tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from measure.messages import Traffic, WireMessage
from measure.services.mit_krb5 import GSS_PORT, PROXY_PORT
from protocols.kerberos import messages
from protocols.kerberos.errors import Refusal
from studies.krb5today import der

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
    """A message with its parties, its content and its carrier.

    `way` is udp, tcp, gss (a token for the application server) or proxy (a token to be forwarded).
    `kind` is the name of the message, such as AS-REQ. `at_s` is the time of its last packet (s
    since 1970). `complaint` is the reason why the data is not a valid message.
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
        """Return the code of a KRB-ERROR, or None."""
        return self.value["error-code"] if self.kind == "KRB-ERROR" and self.value else None


def parse_traffic(traffic: Traffic, addresses: Mapping[str, str]) -> list[KerberosMessage]:
    """Return all messages of a capture in order of time.

    Data that is not a valid Kerberos message has a `complaint`.

    Args:
        traffic: Reassembled traffic of the capture.
        addresses: Addresses by node.
    """
    parties = {address: party for party, address in addresses.items()}
    return [said for message in traffic.messages for said in _parse_message(message, parties)]


@dataclass(frozen=True)
class KerberosExchange:
    """A request with its reply or with the KRB-ERROR that answers it."""

    request: KerberosMessage
    reply: KerberosMessage

    @property
    def is_granted(self) -> bool:
        """Return whether the reply grants the request."""
        return self.reply.kind in _REPLIES


def pair_exchanges(kerberos_messages: Sequence[KerberosMessage]) -> list[KerberosExchange]:
    """Return each reply with the last request from the same port of the client."""
    asked, exchanges = dict[tuple[frozenset[str], int], KerberosMessage](), []
    for message in kerberos_messages:
        key = frozenset((message.source, message.target)), message.client_port
        if message.kind in _REQUESTS:
            asked[key] = message
        elif key in asked:
            exchanges.append(KerberosExchange(asked.pop(key), message))
    return exchanges


def _parse_message(message: WireMessage, parties: Mapping[str, str]) -> Iterator[KerberosMessage]:
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
    """Return kind and content of a GSS token. Raises ValueError."""
    if token[:1] == bytes([_TOKEN]):
        token = der.parse_first(token).content
        name = der.parse_first(token)
        if name.tag != _OID:
            raise ValueError("a token without a mechanism")
        token = token[len(name.whole):]
    kind, rest = token[:2], token[2:]
    if kind == _PROXIED:
        header = der.parse_first(rest)
        return "proxy", rest[len(header.whole):]
    if kind in (_AP_REQUEST, _AP_REPLY):
        return "gss", rest
    raise ValueError(f"a token of the unknown kind {kind.hex()}")


def _decode_message(message: WireMessage, parties: Mapping[str, str], way: str, payload: bytes,
             complaint: str = "") -> KerberosMessage:
    kind = messages.kind_of(payload)
    value, padata = None, dict[int, bytes]()
    if not kind and not complaint:
        # A token without a message only exchanges the proxy's realm.
        complaint = "" if way == "proxy" and not payload else "no message of Kerberos"
    if kind:
        try:
            value = messages.decode(kind, payload)
            padata = messages.padata_of(value)
        except Refusal as error:
            complaint = str(error)
    return KerberosMessage(
        parties.get(message.source, message.source), parties.get(message.target, message.target),
        way, kind, value, payload, message.ended_s,
        next((port for port in message.ports if port not in _SERVERS), 0), padata, complaint)
