"""Build and parse the messages of an EAP-TLS client that talks to a RADIUS server.

The load generator (`measure.load.generator`) uses this module, and sends the packets. `EapTlsPeer`
takes each EAP message of the server, and returns the client's reply (RFC 5216, RFC 9190). Its TLS
is OpenSSL's. `build_access_request` puts an EAP message into a RADIUS Access-Request, and
`parse_radius_packet` takes it out of the answer. Standard library only.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import ipaddress
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

EAP_REQUEST, EAP_RESPONSE, EAP_SUCCESS = 1, 2, 3
EAP_IDENTITY, EAP_NAK, EAP_TLS = 1, 3, 13
LENGTH_FLAG, MORE_FLAG, START_FLAG = 0x80, 0x40, 0x20
_FRAGMENT_BYTES = 1200
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class EapTlsError(Exception):
    """An error: an EAP-TLS authentication failed, with the reason as text."""


def create_tls_context(pki: Path, version: str) -> ssl.SSLContext:
    """Return the TLS settings for all clients that use the certificates of a folder.

    Args:
        pki: Folder with ca.pem, cert.pem and key.pem.
        version: TLS version, "1.2" or "1.3".
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # a supplicant, too, checks only the server's CA
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.load_verify_locations(pki / "ca.pem")
    context.load_cert_chain(pki / "cert.pem", pki / "key.pem")
    context.minimum_version = context.maximum_version = _VERSIONS[version]
    if version == "1.2":  # like hostap's peers: session IDs, which FreeRADIUS stores
        context.options |= ssl.OP_NO_TICKET
    return context


class EapTlsPeer:
    """The client (peer) of one EAP-TLS authentication, from identity to last message."""

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
        """Return whether the server resumed the TLS session that the client offered."""
        return bool(self._tls and self._tls.session_reused)

    @property
    def session(self) -> ssl.SSLSession | None:
        """Return the TLS session, which a later authentication may offer to resume."""
        return self._tls.session if self._tls else None

    def identity(self) -> bytes:
        """Return the EAP identity response that opens the conversation, without a request."""
        return _build_eap_packet(1, EAP_IDENTITY, self._identity)

    def answer_request(self, data: bytes) -> bytes:
        """Return the client's response to an EAP request of the server.

        Raises:
            EapTlsError: The request is malformed, or the TLS handshake failed.
        """
        if len(data) < 5 or data[0] != EAP_REQUEST:
            raise EapTlsError("no EAP request")
        identifier, kind = data[1], data[4]
        if kind == EAP_IDENTITY:
            return _build_eap_packet(identifier, EAP_IDENTITY, self._identity)
        if kind != EAP_TLS:
            return _build_eap_packet(identifier, EAP_NAK, bytes((EAP_TLS,)))
        flags = data[5]
        self._from_server.write(data[10:] if flags & LENGTH_FLAG else data[6:])
        if flags & MORE_FLAG:
            return _build_eap_packet(identifier, EAP_TLS, b"\0")
        if not self._waiting:
            self._advance_handshake()
            if len(self._waiting) > _FRAGMENT_BYTES:
                return self._first_fragment(identifier)
        return self._next_fragment(identifier)

    def _advance_handshake(self) -> None:
        """Pass the received data to OpenSSL, and collect the TLS messages to send."""
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
        return _build_eap_packet(identifier, EAP_TLS,
                                 struct.pack("!BI", LENGTH_FLAG | MORE_FLAG, size) + piece)

    def _next_fragment(self, identifier: int) -> bytes:
        piece, self._waiting = self._waiting[:_FRAGMENT_BYTES], self._waiting[_FRAGMENT_BYTES:]
        return _build_eap_packet(identifier, EAP_TLS, bytes((MORE_FLAG if self._waiting else 0,))
                                 + piece)


def _build_eap_packet(identifier: int, kind: int, data: bytes) -> bytes:
    return struct.pack("!BBHB", EAP_RESPONSE, identifier, 5 + len(data), kind) + data


# --- RADIUS packets that carry EAP (RFC 2865, RFC 3579) ---
# Used inside the machine by the load generator, and outside to read captures.

ACCESS_REQUEST, ACCESS_ACCEPT, ACCESS_REJECT, ACCESS_CHALLENGE = 1, 2, 3, 11
_HEADER_BYTES, _ATTRIBUTE_BYTES = 20, 253
_USER_NAME, _NAS_ADDRESS, _SERVICE, _MTU, _STATE, _CALLING, _PORT_TYPE, _INFO = (
    1, 4, 6, 12, 24, 31, 61, 77)
_EAP_MESSAGE, _AUTHENTICATOR = 79, 80
_WIRELESS, _FRAMED = 19, 2
_RATE = b"CONNECT 11Mbps 802.11b"
#: Framed-MTU of EAP packets in bytes: the value that hostapd sends.
_FRAMED_MTU = 1400


@dataclass(frozen=True)
class RadiusPacket:
    """A parsed RADIUS packet, with its reassembled EAP message and its State attribute."""

    code: int
    identifier: int
    authenticator: bytes
    eap: bytes
    state: bytes
    attributes: dict[int, bytes] = field(default_factory=dict)

    @property
    def user(self) -> str:
        """Return the User-Name attribute of the RADIUS packet."""
        return self.attributes.get(_USER_NAME, b"").decode("utf-8", "replace")


def parse_radius_packet(data: bytes) -> RadiusPacket | None:
    """Parse a UDP datagram as a RADIUS packet, or return None if it holds no complete one."""
    if len(data) < _HEADER_BYTES:
        return None
    code, identifier, length = struct.unpack_from("!BBH", data)
    if not _HEADER_BYTES <= length <= len(data):
        return None
    attributes: dict[int, bytes] = {}
    place = _HEADER_BYTES
    while place < length:
        if place + 2 > length or not 2 <= data[place + 1] <= length - place:
            return None
        kind, size = data[place], data[place + 1]
        attributes[kind] = attributes.get(kind, b"") + data[place + 2:place + size]
        place += size
    return RadiusPacket(code, identifier, data[4:20], attributes.get(_EAP_MESSAGE, b""),
                        attributes.get(_STATE, b""), attributes)


def build_access_request(identifier: int, authenticator: bytes, eap: bytes, *, user: str,
                         state: bytes,
                         calling: str, nas: str, secret: bytes) -> bytes:
    """Build a RADIUS Access-Request with a Message-Authenticator (RFC 3579, 3.2).

    The packet has the attributes that hostap's RADIUS client sends: a server reads and checks each.

    Args:
        identifier: The packet's Identifier.
        authenticator: The Request Authenticator, 16 bytes.
        eap: The EAP packet; it is split into EAP-Message attributes.
        user: The User-Name.
        state: The State of the last challenge; empty for the first request.
        calling: The Calling-Station-Id.
        nas: The NAS-IP-Address.
        secret: The shared secret.
    """
    body = b"".join((
        _station_attributes(user, calling, nas),
        *(_encode_attribute(_EAP_MESSAGE, eap[place:place + _ATTRIBUTE_BYTES])
          for place in range(0, len(eap), _ATTRIBUTE_BYTES)),
        _encode_attribute(_STATE, state) if state else b""))
    unsigned = _encode_attribute(_AUTHENTICATOR, bytes(16))
    head = struct.pack("!BBH", ACCESS_REQUEST, identifier,
                       _HEADER_BYTES + len(body) + len(unsigned)) + authenticator
    digest = hmac.digest(secret, head + body + unsigned, "md5")
    return head + body + _encode_attribute(_AUTHENTICATOR, digest)


@functools.cache
def _station_attributes(user: str, calling: str, nas: str) -> bytes:
    """Return the RADIUS attributes that all requests of one station have in common."""
    return b"".join((
        _encode_attribute(_USER_NAME, user.encode()),
        _encode_attribute(_NAS_ADDRESS, ipaddress.ip_address(nas).packed),
        _encode_attribute(_CALLING, calling.encode()),
        _encode_attribute(_PORT_TYPE, struct.pack("!I", _WIRELESS)),
        _encode_attribute(_MTU, struct.pack("!I", _FRAMED_MTU)),
        _encode_attribute(_SERVICE, struct.pack("!I", _FRAMED)), _encode_attribute(_INFO, _RATE)))


def is_radius_answer(data: bytes, authenticator: bytes, secret: bytes) -> bool:
    """Return whether a datagram has a valid RADIUS Response Authenticator (RFC 2865, 3)."""
    expected = hashlib.md5(data[:4] + authenticator + data[_HEADER_BYTES:] + secret,
                           usedforsecurity=False).digest()
    return hmac.compare_digest(expected, data[4:_HEADER_BYTES])


def _encode_attribute(kind: int, value: bytes) -> bytes:
    return bytes((kind, len(value) + 2)) + value
