"""Encode and decode Kerberos messages (DER), and describe errors with their codes.

`decode_message` takes a kind, such as AS-REQ, and bytes, and returns the fields. `encode_message`
does the reverse. The ASN.1 schemas are in the folder `schema`. `KrbError` is a refusal with its
code, which `error_message` encodes as KRB-ERROR. Further functions convert principal names and
times. All nodes of `protocols.kerberos` and the checks of captures use this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import asn1tools  # type: ignore[import-untyped,unused-ignore]
from asn1tools.codecs import der  # type: ignore[import-untyped,unused-ignore]

# --- Errors, with the codes of RFC 4120, RFC 4556 and PKCROSS ---

class KrbErrorCode(IntEnum):
    """Error codes of a KRB-ERROR message.

    The codes for public keys are from RFC 4556, which is more precise than draft 05 of PKINIT.
    """

    CLIENT_UNKNOWN = 6
    SERVER_UNKNOWN = 7
    POLICY = 12
    NO_PREAUTHENTICATION = 16
    TGT_REVOKED = 20
    PREAUTHENTICATION_FAILED = 24
    UNAVAILABLE = 29
    BAD_INTEGRITY = 31
    TICKET_EXPIRED = 32
    REPEATED = 34
    BAD_MATCH = 36
    SKEW = 37
    MESSAGE_TYPE = 40
    GENERIC = 60
    CLIENT_NOT_TRUSTED = 62
    KDC_NOT_TRUSTED = 63
    INVALID_SIGNATURE = 64
    KEY_TOO_WEAK = 65
    CANNOT_VERIFY_CERTIFICATE = 70
    INVALID_CERTIFICATE = 71
    CLIENT_NAME_MISMATCH = 75
    KDC_NAME_MISMATCH = 76
    INCONSISTENT_KEY_PURPOSE = 77


class KrbError(Exception):
    """A refused request or reply, with its error code.

    `is_told` is true if the other node reported the error in a KRB-ERROR.
    """

    def __init__(self, code: KrbErrorCode, text: str, *, is_told: bool = False) -> None:
        super().__init__(f"{int(code)} {code.name.lower().replace('_', ' ')}: {text}")
        self.code, self.text, self.is_told = code, text, is_told


class DecryptionError(ValueError):
    """An error: a key does not fit encrypted data."""


# --- Encoding and decoding ---

SCHEMA = Path(__file__).parent / "schema"
PROTOCOL_VERSION = 5
#: Messages by application tag. For messages of a KDC or a server, the tag is also the message type.
TAGS: Mapping[int, str] = {
    1: "Ticket", 2: "Authenticator", 3: "EncTicketPart", 10: "AS-REQ", 11: "AS-REP",
    12: "TGS-REQ", 13: "TGS-REP", 14: "AP-REQ", 15: "AP-REP", 25: "EncASRepPart",
    26: "EncTGSRepPart", 27: "EncAPRepPart", 30: "KRB-ERROR", 40: "ProxyRequest",
    41: "ProxyReply"}
TYPES: Mapping[str, int] = {name: tag for tag, name in TAGS.items()}
#: Types of pre-authentication data. RFC 4556 uses 16 and 17 for the values 14 and 15 here. Draft 05
#: uses 16 for another structure, so the client-generated key has a local, negative type.
PA_TGS_REQ, PA_PK_AS_REQ, PA_PK_AS_REP, PA_PK_AS_SIGN = 1, 14, 15, -16
#: Ticket extensions, and the policy that a remote KDC sets in them (PKCROSS).
TE_PKCROSS_KDC, TE_PKCROSS_CLIENT, POLICY_LIFETIME = 2, 3, 1
#: KDC option of PKCROSS: bit 9.
PKCROSS_OPTION = (0x00400000).to_bytes(4, "big")
NO_FLAGS = (bytes(4), 32)
MUTUAL = (bytes((0x20, 0, 0, 0)), 32)
NT_PRINCIPAL, NT_SERVICE = 1, 2
_APPLICATION = 0x60
#: Flag in the first length byte (X.690, 8.1.3.5): the low bits count the length bytes that follow.
_IS_LONG = 0x80
# From this value on, an INTEGER of microseconds has three bytes, so messages keep their lengths.
_MIN_MICROSECONDS = 32768


def _decode_elements(self: Any, data: bytes, offset: int, length: int) -> tuple[list[Any], int]:
    """Decode the elements of a SEQUENCE OF, in place of the library's own function.

    That function loops forever on an element with another tag.

    Returns:
        The elements, and the offset behind them.
    """
    elements, end = [], offset + length
    while offset < end:
        element, following = self.element_type.decode(data, offset)
        if following <= offset:
            raise ValueError("another element than the schema's")
        elements.append(element)
        offset = following
    return elements, offset


@cache
def load_schema() -> Any:
    """Compile the ASN.1 schemas once, because this takes longer than a login."""
    der.ArrayType.decode_content = _decode_elements
    return asn1tools.compile_files(sorted(map(str, SCHEMA.glob("*.asn1"))), "der")


def encode_message(kind: str, value: Any) -> bytes:
    """Encode a message of a kind, such as AS-REQ, in DER."""
    encoded: bytes = load_schema().encode(kind, value)
    return encoded


def lengthen_encoding(message: bytes) -> bytes:
    """Encode a DER message in BER, with one length byte more than necessary."""
    tag, length, rest = message[:1], message[1], message[2:]
    more = length - _IS_LONG if length & _IS_LONG else 0
    longer = b"\0" + (rest[:more] if more else bytes((length,)))
    return tag + bytes((_IS_LONG | len(longer),)) + longer + rest[more:]


@lru_cache(maxsize=64)
def decode_message(kind: str, message: bytes, *, is_padded: bool = False) -> Any:
    """Decode a message of a kind.

    The result is cached and must not be modified.

    Args:
        kind: name of the type in the schemas, such as AS-REQ.
        message: the encoded message.
        is_padded: whether zero bytes may follow the message.

    Raises:
        KrbError: the message is malformed, or other bytes follow it.
    """
    try:
        value, length = load_schema().decode_with_length(kind, message)
    except (asn1tools.errors.Error, ValueError, IndexError, TypeError, OverflowError) as error:
        raise KrbError(KrbErrorCode.GENERIC, f"no {kind}: {str(error)[:80]}") from None
    if length != len(message) and not (is_padded and not any(message[length:])):
        raise KrbError(KrbErrorCode.GENERIC, f"{len(message) - length} bytes follow a {kind}")
    return value


def kind_of(message: bytes) -> str:
    """Return the kind of a message, such as AS-REQ, by its tag. "" for an unknown tag."""
    if not message or message[0] & 0xE0 != _APPLICATION or message[0] & 0x1F == 0x1F:
        return _long_kind(message)
    return TAGS.get(message[0] & 0x1F, "")


def _long_kind(message: bytes) -> str:
    """Return the kind of a proxy message, whose tag takes a second byte."""
    if len(message) > 1 and message[0] == _APPLICATION | 0x1F:
        return TAGS.get(message[1], "")
    return ""


def to_principal(name: str) -> dict[str, Any]:
    """Convert a name such as `alice` or `app/one` to a PrincipalName."""
    parts = name.split("/")
    return {"name-type": NT_PRINCIPAL if len(parts) == 1 else NT_SERVICE, "name-string": parts}


def name_of(value: Mapping[str, Any]) -> str:
    """Convert a PrincipalName to text."""
    return "/".join(value["name-string"])


def krbtgt_name(realm: str) -> str:
    """Return the name of a realm's ticket-granting service."""
    return f"krbtgt/{realm}"


def realm_of(value: Mapping[str, Any], default: str) -> str:
    """Return the realm in the name of a ticket-granting service, or `default` for other names."""
    parts: Sequence[str] = value["name-string"]
    return parts[1] if len(parts) == 2 and parts[0] == "krbtgt" else default


def padata_of(value: Mapping[str, Any]) -> dict[int, bytes]:
    """Return the pre-authentication data of a request or reply, by type."""
    return {entry["padata-type"]: entry["padata-value"] for entry in value.get("padata", [])}


def kerberos_time(at_ns: int) -> datetime:
    """Convert nanoseconds since 1970 to a KerberosTime in whole seconds."""
    return datetime.fromtimestamp(at_ns // 1_000_000_000, UTC)


def to_microseconds(at_ns: int) -> int:
    """Return the microseconds within the second, as a number whose encoding has constant length.

    Values below 32768 are raised to 32768, so that the message length does not depend on the time.
    """
    return max(_MIN_MICROSECONDS, at_ns // 1000 % 1_000_000)


def to_seconds(time: datetime) -> int:
    """Convert a KerberosTime to seconds since 1970."""
    return round(time.replace(tzinfo=UTC).timestamp())


def error_message(refusal: KrbError, at_ns: int, realm: str, service: str) -> bytes:
    """Encode a refusal as a KRB-ERROR message."""
    return encode_message("KRB-ERROR", {
        "pvno": PROTOCOL_VERSION, "msg-type": TYPES["KRB-ERROR"], "stime": kerberos_time(at_ns),
        "susec": to_microseconds(at_ns), "error-code": int(refusal.code), "realm": realm,
        "sname": to_principal(service), "e-text": refusal.text})


def expect_message(kind: str, message: bytes) -> Any:
    """Decode a reply that must be of the given kind.

    Raises:
        KrbError: the reply is a KRB-ERROR, or of another kind.
    """
    if kind_of(message) == "KRB-ERROR":
        error = decode_message("KRB-ERROR", message)
        raise KrbError(KrbErrorCode(error["error-code"]), error.get("e-text", ""), is_told=True)
    if kind_of(message) != kind:
        raise KrbError(KrbErrorCode.MESSAGE_TYPE, f"{kind_of(message) or 'no message'}, not {kind}")
    return decode_message(kind, message)
