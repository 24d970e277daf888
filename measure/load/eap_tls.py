"""Peer side of EAP-TLS (RFC 5216, RFC 9190): TLS by OpenSSL, framed and fragmented.

This module sends nothing: it turns each message of the server into the reply of the peer.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable
from pathlib import Path

REQUEST, RESPONSE, SUCCESS = 1, 2, 3
IDENTITY, NAK, EAP_TLS = 1, 3, 13
LENGTH, MORE, START = 0x80, 0x40, 0x20
_FRAGMENT_BYTES = 1200
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class EapTlsError(Exception):
    """A failed authentication, with the reason as text."""


def create_context(pki: Path, version: str) -> ssl.SSLContext:
    """Return the TLS context shared by all peers with this folder's key and certificates.

    Args:
        pki: Folder with ca.pem, cert.pem and key.pem.
        version: TLS version, "1.2" or "1.3".
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False  # a supplicant, too, checks only the server's CA
    made.set_ciphers("DEFAULT@SECLEVEL=0")
    made.load_verify_locations(pki / "ca.pem")
    made.load_cert_chain(pki / "cert.pem", pki / "key.pem")
    made.minimum_version = made.maximum_version = _VERSIONS[version]
    if version == "1.2":  # like hostap's peers: session IDs, which FreeRADIUS stores
        made.options |= ssl.OP_NO_TICKET
    return made


class EapTlsPeer:
    """The peer of one EAP-TLS authentication, from the identity to the last message."""

    def __init__(self, context_factory: Callable[[], ssl.SSLContext], identity: str,
                 session: ssl.SSLSession | None = None) -> None:
        self._identity = identity.encode()
        self._from_server, self._to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._made, self._offered = context_factory, session
        self._tls: ssl.SSLObject | None = None
        self._waiting = b""
        self._is_done = False

    @property
    def is_resumed(self) -> bool:
        """Return whether the server resumed the offered session."""
        return bool(self._tls and self._tls.session_reused)

    @property
    def session(self) -> ssl.SSLSession | None:
        """Return the TLS session that a later authentication may offer."""
        return self._tls.session if self._tls else None

    def identity(self) -> bytes:
        """Return the EAP identity response that opens the conversation without a request."""
        return _build_packet(1, IDENTITY, self._identity)

    def answer_request(self, data: bytes) -> bytes:
        """Return the peer's response to an EAP request.

        Raises:
            EapTlsError: The request is malformed, or the TLS handshake failed.
        """
        if len(data) < 5 or data[0] != REQUEST:
            raise EapTlsError("no EAP request")
        identifier, kind = data[1], data[4]
        if kind == IDENTITY:
            return _build_packet(identifier, IDENTITY, self._identity)
        if kind != EAP_TLS:
            return _build_packet(identifier, NAK, bytes((EAP_TLS,)))
        flags = data[5]
        self._from_server.write(data[10:] if flags & LENGTH else data[6:])
        if flags & MORE:
            return _build_packet(identifier, EAP_TLS, b"\0")
        if not self._waiting:
            self._advance_handshake()
            if len(self._waiting) > _FRAGMENT_BYTES:
                return self._first_fragment(identifier)
        return self._next_fragment(identifier)

    def _advance_handshake(self) -> None:
        """Pass the received data to TLS and collect its output."""
        if self._tls is None:  # not before the server starts EAP-TLS, like hostap's peer
            self._tls = self._made().wrap_bio(self._from_server, self._to_server,
                                              session=self._offered)
        try:
            if not self._is_done:
                self._tls.do_handshake()
                self._is_done = True
            self._tls.read(1)  # TLS 1.3: tickets, and the server's protected success indication
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise EapTlsError(f"TLS: {error.reason or error}") from None
        self._waiting = self._to_server.read()

    def _first_fragment(self, identifier: int) -> bytes:
        size = len(self._waiting)
        piece, self._waiting = self._waiting[:_FRAGMENT_BYTES], self._waiting[_FRAGMENT_BYTES:]
        return _build_packet(identifier, EAP_TLS,
                             struct.pack("!BI", LENGTH | MORE, size) + piece)

    def _next_fragment(self, identifier: int) -> bytes:
        piece, self._waiting = self._waiting[:_FRAGMENT_BYTES], self._waiting[_FRAGMENT_BYTES:]
        return _build_packet(identifier, EAP_TLS, bytes((MORE if self._waiting else 0,)) + piece)


def _build_packet(identifier: int, kind: int, data: bytes) -> bytes:
    return struct.pack("!BBHB", RESPONSE, identifier, 5 + len(data), kind) + data
