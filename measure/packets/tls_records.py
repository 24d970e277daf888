"""Decrypt TLS 1.3 records with a key log, and read the handshake messages in them.

`RecordDecrypter` decrypts the records of one direction of a connection. `decrypt_messages` returns
the handshake messages of all TLS data that one side sent, such as inside EAP. `list_certificates`
and `list_agreed_groups` read them. The checks of RadSec, and of loaded RADIUS servers, use this
module, which has no dissector.
"""

from __future__ import annotations

import contextlib
import hmac
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from measure.packets import messages
from measure.packets.messages import HANDSHAKE

# --- Records ---
# A capture may begin long after the connection. Then no dissector knows the number of earlier
# records, from which each record's nonce follows. Here that number is searched (RFC 8446, 5.3 and
# 7.3).

APPLICATION_DATA, CHANGE_CIPHER_SPEC = 23, 20
RECORD_HEAD = struct.Struct("!BHH")
#: Version in the header of encrypted records (5.2).
_LEGACY_VERSION = 0x0303
#: Upper limit of the number of records before the first captured one.
_MOST_BEFORE = 1 << 14
#: Labels of a key log by side; the handshake's secrets come first.
_OF_CLIENT = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0")
_OF_SERVER = ("SERVER_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0")
#: By the length of a secret: hash, key length and cipher of possible suites.
_SUITES: dict[int, list[tuple[str, str, int, type[AESGCM] | type[ChaCha20Poly1305]]]] = {
    48: [("AES-256-GCM", "sha384", 32, AESGCM)],
    32: [("AES-128-GCM", "sha256", 16, AESGCM),
         ("ChaCha20-Poly1305", "sha256", 32, ChaCha20Poly1305)]}


def select_secrets(keys: Iterable[str], *, is_servers: bool) -> list[bytes]:
    """Return the traffic secrets of one side in a key log, those of the handshake first.

    Args:
        keys: Lines of a key log (SSLKEYLOGFILE).
        is_servers: Whether the side is the server's.
    """
    parts = [line.split(" ") for line in dict.fromkeys(keys) if line.count(" ") == 2]
    return [bytes.fromhex(secret) for name in (_OF_SERVER if is_servers else _OF_CLIENT)
            for label, _, secret in parts if label == name]


class RecordDecrypter:
    """A decrypter of the TLS records in one direction of a connection.

    It tries the cipher of the last record first, then all others.
    """

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._ways = [_RecordCipher(name, secret, digest, size, cipher) for secret in secrets
                      for name, digest, size, cipher in _SUITES.get(len(secret), ())]
        self._way: _RecordCipher | None = None
        self._number = 0

    def decrypt(self, kind: int, record: bytes) -> tuple[int, bytes, str]:
        """Decrypt a TLS record, and return its type, content and cipher suite.

        The suite is "" if the record stays encrypted.
        """
        if kind in (HANDSHAKE, CHANGE_CIPHER_SPEC):
            return kind, record[RECORD_HEAD.size:], "clear"
        if kind != APPLICATION_DATA:
            return max(kind, 0), b"", ""
        if self._way is not None:
            inner = self._way.decrypt(self._number + 1, record)
            if inner is not None:
                return self._remember_cipher(self._way, self._number + 1, inner)
        for number in range(_MOST_BEFORE):
            for way in self._ways:
                inner = way.decrypt(number, record)
                if inner is not None:
                    return self._remember_cipher(way, number, inner)
        self._ways = []  # it cannot decrypt later records either
        return kind, b"", ""

    def _remember_cipher(self, way: _RecordCipher, number: int,
                         inner: bytes) -> tuple[int, bytes, str]:
        """Store the cipher and sequence number that decrypted a record.

        Returns:
            Type and content of the record, and the name of its cipher suite.
        """
        self._way, self._number = way, number
        content = inner.rstrip(b"\0")
        return content[-1], content[:-1], way.name


class _RecordCipher:
    """The cipher of a TLS suite with the keys of one traffic secret."""

    def __init__(self, name: str, secret: bytes, digest: str, size: int,
                 cipher: type[AESGCM] | type[ChaCha20Poly1305]) -> None:
        self.name = name
        self._cipher = cipher(_expand_label(secret, b"key", size, digest))
        self._vector = int.from_bytes(_expand_label(secret, b"iv", 12, digest), "big")

    def decrypt(self, number: int, record: bytes) -> bytes | None:
        """Decrypt a TLS record with its sequence number, or return None if the number is wrong."""
        nonce = (self._vector ^ number).to_bytes(12, "big")
        try:
            return self._cipher.decrypt(nonce, record[RECORD_HEAD.size:], record[:RECORD_HEAD.size])
        except InvalidTag:
            return None


def _expand_label(secret: bytes, label: bytes, size: int, digest: str) -> bytes:
    """Return TLS 1.3's HKDF-Expand-Label without context, for output within one hash block."""
    name = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes((len(name),)) + name + b"\0"
    return hmac.digest(secret, info + b"\1", digest)[:size]


# --- Handshake messages ---

_SERVER_HELLO, CERTIFICATE, CERTIFICATE_VERIFY, _COMPRESSED_CERTIFICATE = 2, 11, 15, 25
_KEY_SHARE = 51
#: Compression of certificates by zlib (RFC 8879, 7.3).
_ZLIB = b"\0\1"
#: Bytes of a ServerHello before its session identifier: version, random number.
SESSION_PLACE = 2 + 32


def decrypt_messages(flights: bytes, keys: Sequence[str], *,
                     is_servers: bool) -> list[tuple[int, bytes]]:
    """Return type and body of the handshake messages in the TLS data of one side, in order.

    Records that the keys do not decrypt are left out.

    Args:
        flights: All TLS records that one side sent.
        keys: Lines of a key log, of this connection alone.
        is_servers: Whether the side is the server's.
    """
    opener = RecordDecrypter(select_secrets(keys, is_servers=is_servers))
    opened = [opener.decrypt(kind, RECORD_HEAD.pack(kind, _LEGACY_VERSION, len(body)) + body)
              for kind, body in messages.split_records(flights)]
    return list(messages.split_messages(
        b"".join(content for kind, content, suite in opened if kind == HANDSHAKE and suite)))


def list_certificates(handshake: Iterable[tuple[int, bytes]]) -> list[bytes]:
    """Return the certificates in one side's handshake messages in DER, its own first.

    Args:
        handshake: Type and body of each message. Certificates may be compressed by zlib.
    """
    by_type = dict(handshake)
    message = by_type.get(CERTIFICATE) or _decompress_certificate(
        by_type.get(_COMPRESSED_CERTIFICATE, b""))
    return list(_split_certificates(message)) if message else []


def _split_certificates(message: bytes) -> Iterator[bytes]:
    """Yield the certificates of a Certificate message (RFC 8446, 4.4.2)."""
    place = 1 + message[0] + 3  # context, and size of the list
    while place + 3 <= len(message):
        size = int.from_bytes(message[place:place + 3], "big")
        yield message[place + 3:place + 3 + size]
        place += 3 + size
        place += 2 + int.from_bytes(message[place:place + 2], "big")  # extensions


def _decompress_certificate(message: bytes) -> bytes:
    """Return the Certificate message in a CompressedCertificate (RFC 8879, 4), or b"".

    Only zlib is known here.
    """
    if message[:2] != _ZLIB:
        return b""
    with contextlib.suppress(zlib.error):
        return zlib.decompress(message[8:])
    return b""


def list_agreed_groups(handshake: Iterable[tuple[int, bytes]]) -> list[int]:
    """Return the group of the key agreement in each of a server's hellos (RFC 8446, 4.2.8).

    A HelloRetryRequest states the group, too.

    Args:
        handshake: Type and body of each of the server's messages.
    """
    return [int.from_bytes(content[:2], "big") for kind, body in handshake if kind == _SERVER_HELLO
            for extension, content in split_extensions(body) if extension == _KEY_SHARE]


def split_extensions(hello: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of each extension of a ServerHello."""
    # After the session identifier follow cipher suite, compression method and length.
    place = len(hello) if len(hello) <= SESSION_PLACE else \
        SESSION_PLACE + 1 + hello[SESSION_PLACE] + 2 + 1 + 2
    while place + 4 <= len(hello):
        kind, size = (int.from_bytes(hello[at:at + 2], "big") for at in (place, place + 2))
        yield kind, hello[place + 4:place + 4 + size]
        place += 4 + size
