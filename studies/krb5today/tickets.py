"""Decrypt tickets with their services' keys and read their content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from protocols.kerberos import messages, rfc3962
from protocols.kerberos.errors import Refusal, Undecipherable
from protocols.kerberos.suites import SUITES
from studies.krb5today import der

#: Encryption type numbers by the names in policies.
NUMBERS: Mapping[str, int] = {"aes256-sha384": SUITES["today"].etype,
                              "aes256-sha1": rfc3962.ETYPE}
#: Decryption functions for the encryption types that a policy may require of MIT krb5.
_DECRYPT: Mapping[int, Callable[[bytes, int, bytes], bytes]] = {
    SUITES["today"].etype: SUITES["today"].decrypt, rfc3962.ETYPE: rfc3962.decrypt}
_TICKET_USAGE, _AP_REQUEST_USAGE, _AP_REPLY_USAGE = 2, 11, 12
_IF_RELEVANT, _CAMMAC, _INDICATOR = 1, 96, 97
_PREAUTHENTICATED = 10
_UTF8 = 0x0C


@dataclass(frozen=True)
class OpenedTicket:
    """Content of a decrypted ticket.

    `user` and `service` are principals with realm, `key` is the session key. `indicators` are the
    ticket's authentication indicators (RFC 8129).
    """

    user: str
    service: str
    key: bytes
    indicators: tuple[str, ...]
    is_preauthenticated: bool


def open_ticket(ticket: Mapping[str, Any], keys: Mapping[str, bytes]) -> OpenedTicket:
    """Decrypt a ticket with its service's key.

    Args:
        ticket: The decoded ticket.
        keys: Keys by principal.

    Raises:
        Undecipherable: The service's key is missing, or does not open the ticket.
    """
    service = f"{messages.name_of(ticket['sname'])}@{ticket['realm']}"
    if service not in keys:
        raise Undecipherable(f"nobody here has the key of {service}")
    part = _decrypt_part("EncTicketPart", keys[service], _TICKET_USAGE, ticket["enc-part"])
    flags = int.from_bytes(part["flags"][0], "big")
    user = f"{messages.name_of(part['cname'])}@{part['crealm']}"
    return OpenedTicket(user, service, part["key"]["keyvalue"],
                        tuple(_find_indicators(part.get("authorization-data", ()))),
                        bool(flags >> (31 - _PREAUTHENTICATED) & 1))


def find_exchange_fault(ticket: OpenedTicket, request: Mapping[str, Any],
                        reply: Mapping[str, Any]) -> str:
    """Return the fault of an AP exchange that proves its ticket's session key.

    The text is "" if both ends have proven that they have the key.
    """
    try:
        asked = _decrypt_part("Authenticator", ticket.key, _AP_REQUEST_USAGE,
                              request["authenticator"])
        said = _decrypt_part("EncAPRepPart", ticket.key, _AP_REPLY_USAGE, reply["enc-part"])
    except Undecipherable:
        return "the session key does not open it"
    user = f"{messages.name_of(asked['cname'])}@{asked['crealm']}"
    if user != ticket.user:
        return f"the authenticator is {user}'s"
    if (asked["ctime"], asked["cusec"]) != (said["ctime"], said["cusec"]):
        return "the reply does not repeat the request's time"
    return ""


def _decrypt_part(kind: str, key: bytes, usage: int, encrypted: Mapping[str, Any]) -> Any:
    decrypt = _DECRYPT.get(encrypted["etype"])
    if decrypt is None:
        raise Undecipherable(f"encryption {encrypted['etype']} is not known here")
    plain = decrypt(key, usage, encrypted["cipher"])
    try:
        return messages.decode(kind, plain)
    except Refusal as error:
        raise Undecipherable(str(error)) from None


def _find_indicators(data: Any) -> Iterator[str]:
    """Generate authentication indicators (RFC 8129) at any nesting level."""
    for entry in data:
        kind, value = entry["ad-type"], entry["ad-data"]
        if kind == _INDICATOR:
            yield from (part.content.decode() for part in der.parse_first(value).parts
                        if part.tag == _UTF8)
        elif kind == _IF_RELEVANT:
            yield from _find_indicators(messages.decode("AuthorizationData", value))
        elif kind == _CAMMAC:
            elements = der.parse_first(value).parts[0].parts[0].whole
            yield from _find_indicators(messages.decode("AuthorizationData", elements))
