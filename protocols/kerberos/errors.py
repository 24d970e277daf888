"""Exceptions with the error codes of RFC 4120, RFC 4556 and PKCROSS."""

from __future__ import annotations

from enum import IntEnum


class RefusalCode(IntEnum):
    """Error codes of a KRB-ERROR.

    The codes for public keys are from RFC 4556, which is more precise than draft 05.
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


class Refusal(Exception):
    """A refused request or reply.

    `is_told` if the peer reported it in a KRB-ERROR.
    """

    def __init__(self, code: RefusalCode, text: str, *, is_told: bool = False) -> None:
        super().__init__(f"{int(code)} {code.name.lower().replace('_', ' ')}: {text}")
        self.code, self.text, self.is_told = code, text, is_told


class Undecipherable(ValueError):
    """Encrypted data that a key does not open."""
