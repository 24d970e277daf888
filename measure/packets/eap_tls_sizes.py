"""Compute the TLS records of an EAP authentication before it happens.

`EapLogin` has the inputs of an authentication with EAP-TLS, PEAP, TTLS or EAP-MD5: certificates,
kinds of keys, TLS version and fragment sizes (RFC 5216, RFC 5281, RFC 9190). Its method
`list_flights` returns the TLS records that each side sends at once. FreeRADIUS is the server,
wpa_supplicant the station and hostapd the access point, each with OpenSSL. `eap_radius_sizes` cuts
the flights into packets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from measure.packets.certificate_sizes import KEY_KINDS, ROOT

#: Groups of the key agreement: bytes of the station's share and of the server's.
GROUPS = {"p-256": (65, 65), "p-384": (97, 97), "x25519": (32, 32),
          "mlkem768": (1184, 1088), "mlkem1024": (1568, 1568), "x25519mlkem768": (1216, 1120),
          "secp256r1mlkem768": (1249, 1153), "secp384r1mlkem1024": (1665, 1665)}
#: Groups that OpenSSL does not offer by itself. A station that is told to offers that group alone.
OFFERED_ALONE = ("mlkem768", "mlkem1024", "secp256r1mlkem768", "secp384r1mlkem1024")
#: The other seven groups that it otherwise offers in the ClientHello (OpenSSL from 3.5 on, bytes).
_OTHER_GROUPS_BYTES = 14


class ReleaseSizes(NamedTuple):
    """The sizes that the daemons of a Debian release give to messages, with its OpenSSL (bytes)."""

    #: ClientHello of wpa_supplicant for TLS 1.2, the one with OpenSSL's SUITEB192, and that for TLS
    #: 1.3 without key shares.
    hello_12: int
    hello_suite_b: int
    hello_13: int
    #: Groups of which a station sends shares in its first ClientHello.
    guesses: tuple[str, ...]
    #: Bytes of the lists of signature algorithms in a CertificateRequest of TLS 1.2 and 1.3.
    signatures_12: int
    signatures_13: int
    #: How much smaller FreeRADIUS' packets of EAP-TLS are than its fragment_size.
    fragment_margin: int = 0
    #: The server's offer to take compressed certificates (RFC 8879) in a CertificateRequest.
    compression: int = 0
    #: Extension ec_point_formats of hellos. The station's for TLS 1.3 has it, too, unless its group
    #: is no elliptic curve.
    point_formats: int = 8
    #: How much shorter a station's hello of TLS 1.2 is with SECLEVEL=0: a cipher suite stands for
    #: the extension renegotiation_info.
    weak_hello_margin: int = 0
    #: The server's name in a challenge of MSCHAPv2, such as "freeradius-3.2.1".
    mschap_name: int = 16
    #: How much longer a station's hello of the 192-bit suite is with certificates of RSA: without
    #: SUITEB192, OpenSSL below 3.6 names a third point format.
    suite_b_rsa_margin: int = 1


#: Read in captures: hostapd and wpa_supplicant 2.10 of Debian 12 and 13, 2.11 of testing;
#: FreeRADIUS 3.2.1, 3.2.7 and 3.2.10, OpenSSL 3.0, 3.5 and 3.6. OpenSSL 3.6 names one point
#: format in place of three.
RELEASES = {
    "bookworm": ReleaseSizes(184, 85, 231, ("x25519",), 40, 36),
    "trixie": ReleaseSizes(199, 88, 248, ("x25519mlkem768", "x25519"), 40, 40, 4, 9,
                           weak_hello_margin=3),
    "forky": ReleaseSizes(197, 87, 246, ("x25519mlkem768", "x25519"), 40, 40, 4, 9, 6,
                          weak_hello_margin=3, mschap_name=17, suite_b_rsa_margin=0),
}
#: CompressedCertificate without the compressed bytes: algorithm and two lengths.
_COMPRESSED_HEAD_BYTES = 8
_RECORD_BYTES, _RECORD_LIMIT = 5, 16384
#: TLS 1.3 encrypts a record with a type and a tag.
_ENCRYPTION_BYTES = 17
_CHANGE_CIPHER_SPEC_BYTES = 6
#: Header of a handshake message, and Finished of TLS 1.2 in its encrypted record.
HEAD_BYTES, _FINISHED_12_BYTES = 4, 45
#: Finished of TLS 1.3 with SHA-384.
_FINISHED_13_BYTES = 52
#: ServerHello of TLS 1.2, in full without ec_point_formats, and resumed; of TLS 1.3 without its key
#: share.
_SERVER_HELLO_12_BYTES, _RESUMED_HELLO_BYTES, _SERVER_HELLO_13_BYTES = 53, 85, 58
_HELLO_RETRY_BYTES = 56
#: The encrypted byte by which the server says that TLS is complete (RFC 9190, 2.5).
_COMMITMENT_BYTES = _RECORD_BYTES + 1 + _ENCRYPTION_BYTES
_ENCRYPTED_EXTENSIONS_BYTES = 6
#: A session's ticket of 32 bytes with TLS 1.3: the station's offer with its proof (48 bytes), the
#: server's choice, and NewSessionTicket (RFC 8446, 4.2.11 and 4.6.1).
_TICKET_OFFER_BYTES, _TICKET_CHOICE_BYTES, _TICKET_BYTES = 95, 6, 57


#: What a session's identifier adds to the ClientHello of TLS 1.2.
_SESSION_BYTES = 32
#: What signature algorithms of SHA-1 add to a list of TLS 1.2, where SECLEVEL=0 admits them.
_WEAK_ALGORITHMS_BYTES = 6


#: Senders of packets: the station is the EAP peer, the RADIUS server answers it.
STATION, SERVER = "station", "server"


class Flight(NamedTuple):
    """TLS records that one side sends at once: the sender, and their size (bytes)."""

    sender: str
    size: int


@dataclass(frozen=True)
class EapLogin:
    """The inputs of an EAP authentication.

    - `server_chain`, `client_chain`: sizes of the certificates in DER (bytes), the leaf first
    - `server_key`, `client_key`: kinds of the keys that sign, of `KEY_KINDS`
    - `group`: group of the key agreement, of `GROUPS`
    - `fragment_bytes`: FreeRADIUS' fragment_size, the size of a whole EAP packet
    - `client_fragment_bytes`: wpa_supplicant's fragment_size, the TLS data of an EAP packet
    - `identity`: the outer identity, which the station sends outside of TLS
    - `authority_names`: common names of the authorities that the server accepts
    - `admits_weak`: whether both ends admit weak signatures (OpenSSL's SECLEVEL=0), unless they
      use the 192-bit suite or the server's key is p-384
    - `is_suite_b`: whether the station offers only the suites of the 192-bit level
    - `release`: Debian release of the daemons, of `RELEASES`. FreeRADIUS is always of this release.
    - `compressed_bytes`: size of the station's certificates after compression, which depends on
      their content. None is for certificates without compression, or of unknown compressed size.
    - `request_bytes`: attributes of hostapd's Access-Request besides User-Name, State, EAP-Message,
      Message-Authenticator
    - `method`: EAP method: TLS, PEAP, TTLS or MD5
    - `inner`: method inside the tunnel of PEAP or TTLS, "" for others
    - `first_offer`: EAP method that the server proposes first, "" for `method`
    - `user`: name of the user inside a tunnel
    - `password_bytes`: length of the user's password
    - `accept_bytes`: attributes of the Access-Accept besides User-Name, EAP-Message,
      Message-Authenticator and session keys
    - `server_openssl`, `station_openssl`: Debian release of the OpenSSL that FreeRADIUS and
      wpa_supplicant use, "" for `release`
    """

    server_chain: Sequence[int] = ()
    client_chain: Sequence[int] = ()
    server_key: str = "rsa-2048"
    client_key: str = "rsa-2048"
    version: str = "1.2"
    group: str = "p-256"
    is_resumed: bool = False
    fragment_bytes: int = 1024
    client_fragment_bytes: int = 1398
    identity: str = "anonymous"
    authority_names: Sequence[str] = (ROOT,)
    admits_weak: bool = False
    is_suite_b: bool = False
    release: str = "bookworm"
    compressed_bytes: int | None = None
    request_bytes: int = 165
    method: str = "TLS"
    inner: str = ""
    first_offer: str = ""
    user: str = ""
    password_bytes: int = 32
    accept_bytes: int = 0
    server_openssl: str = ""
    station_openssl: str = ""

    @property
    def server_sizes(self) -> ReleaseSizes:
        """Return the sizes of the server's TLS messages, which its OpenSSL decides."""
        return RELEASES[self.server_openssl or self.release]

    @property
    def station_sizes(self) -> ReleaseSizes:
        """Return the sizes of the station's TLS messages, which its OpenSSL decides."""
        return RELEASES[self.station_openssl or self.release]

    @property
    def has_client_certificate(self) -> bool:
        """Return whether the server asks the station for a certificate, outside of a tunnel."""
        return self.method == "TLS"

    @property
    def uses_client_certificate(self) -> bool:
        """Return whether the station shows a certificate, also inside a tunnel."""
        return self.has_client_certificate or self.inner == "TLS"

    @property
    def has_compression(self) -> bool:
        """Return whether the station sends its certificates compressed (RFC 8879)."""
        return (self.version == "1.3" and self.has_client_certificate and not self.is_resumed
                and self.server_sizes.compression > 0 and self.station_sizes.compression > 0)

    def list_flights(self) -> Iterator[Flight]:
        """Yield the flights of TLS records in order, beginning with the ClientHello."""
        if self.version == "1.2":
            yield from self._resumed_12() if self.is_resumed else self._full_12()
        else:
            yield from self._resumed_13() if self.is_resumed else self._full_13()

    def _full_12(self) -> Iterator[Flight]:
        own, (_, share) = self.server_sizes, GROUPS[self.group]
        yield Flight(STATION, self._hello_12())
        key_exchange = 4 + share + 4 + KEY_KINDS[self.server_key].signature
        is_weak = self.admits_weak and self.server_key != "p-384" and not self.is_suite_b
        request = (4 + 2 + own.signatures_12 + _WEAK_ALGORITHMS_BYTES * is_weak
                   + self._authority_bytes())
        asks = self.has_client_certificate
        yield Flight(SERVER, _clear_records(
            _SERVER_HELLO_12_BYTES + own.point_formats,
            HEAD_BYTES + 3 + sum(3 + size for size in self.server_chain),
            HEAD_BYTES + key_exchange, *[HEAD_BYTES + request] * asks, HEAD_BYTES))
        yield Flight(STATION, _clear_records(
            *[HEAD_BYTES + 3 + sum(3 + size for size in self.client_chain)] * asks,
            HEAD_BYTES + 1 + GROUPS[self.group][0],
            *[HEAD_BYTES + 4 + KEY_KINDS[self.client_key].signature] * asks)
            + self._finish_12())
        yield Flight(SERVER, self._finish_12())

    def _resumed_12(self) -> Iterator[Flight]:
        yield Flight(STATION, self._hello_12() + _SESSION_BYTES)
        yield Flight(SERVER, _clear_records(_RESUMED_HELLO_BYTES) + self._finish_12())
        yield Flight(STATION, self._finish_12())

    def _hello_12(self) -> int:
        own = self.station_sizes
        if self.is_suite_b:
            return own.hello_suite_b + own.suite_b_rsa_margin * (self.server_key != "p-384")
        return (
            own.hello_12 + (_WEAK_ALGORITHMS_BYTES - own.weak_hello_margin) * self.admits_weak)

    @staticmethod
    def _finish_12() -> int:
        return _CHANGE_CIPHER_SPEC_BYTES + _FINISHED_12_BYTES

    def _hellos_13(self, ticket_bytes: int = 0) -> Iterator[Flight]:
        """Yield the flights before the server's hello: a second one if it wants another group."""
        own = self.station_sizes
        omitted = _OTHER_GROUPS_BYTES + own.point_formats if self.group in OFFERED_ALONE else 0
        hello = own.hello_13 - omitted + ticket_bytes
        yield Flight(STATION, hello + sum(4 + GROUPS[guess][0] for guess in self._guessed_groups))
        if self._needs_retry:
            yield Flight(SERVER, _clear_records(_HELLO_RETRY_BYTES) + _CHANGE_CIPHER_SPEC_BYTES)
            yield Flight(STATION, hello + 4 + GROUPS[self.group][0])

    @property
    def _guessed_groups(self) -> tuple[str, ...]:
        """Return the groups of which the station sends shares in its first ClientHello."""
        return (self.group,) if self.group in OFFERED_ALONE else self.station_sizes.guesses

    @property
    def _needs_retry(self) -> bool:
        return self.group not in self._guessed_groups

    def _server_hello_13(self, more_bytes: int = 0) -> int:
        """Return the size of the server's hello, and of the message that follows the first one."""
        return _clear_records(_SERVER_HELLO_13_BYTES + GROUPS[self.group][1] + more_bytes) + (
            _CHANGE_CIPHER_SPEC_BYTES * (not self._needs_retry))

    def _resumed_13(self) -> Iterator[Flight]:
        yield from self._hellos_13(_TICKET_OFFER_BYTES)
        yield Flight(SERVER, self._server_hello_13(_TICKET_CHOICE_BYTES) + _encrypted_records(
            _ENCRYPTED_EXTENSIONS_BYTES, _FINISHED_13_BYTES))
        yield Flight(STATION, _encrypted_records(_FINISHED_13_BYTES))
        yield Flight(SERVER, _encrypted_records(_TICKET_BYTES) + _COMMITMENT_BYTES)

    def _full_13(self) -> Iterator[Flight]:
        own = self.server_sizes
        yield from self._hellos_13()
        request = 3 + 6 + own.signatures_13 + own.compression + 4 + self._authority_bytes()
        yield Flight(SERVER, self._server_hello_13()
                     + _encrypted_records(
                         _ENCRYPTED_EXTENSIONS_BYTES,
                         *[HEAD_BYTES + request] * self.has_client_certificate,
                         *self._certificates_13(self.server_chain, self.server_key)))
        if not self.has_client_certificate:
            yield Flight(STATION, _encrypted_records(_FINISHED_13_BYTES))
            return
        certificate, *proof = self._certificates_13(self.client_chain, self.client_key)
        if self.compressed_bytes is not None:
            certificate = HEAD_BYTES + _COMPRESSED_HEAD_BYTES + self.compressed_bytes
        yield Flight(STATION, _encrypted_records(certificate, *proof))
        yield Flight(SERVER, _COMMITMENT_BYTES)

    @staticmethod
    def _certificates_13(chain: Sequence[int], key: str) -> tuple[int, int, int]:
        """Return the sizes of Certificate, CertificateVerify and Finished."""
        return (HEAD_BYTES + 1 + 3 + sum(3 + size + 2 for size in chain),
                HEAD_BYTES + 4 + KEY_KINDS[key].signature, _FINISHED_13_BYTES)

    def _authority_bytes(self) -> int:
        """Return the size of the list of authorities in a CertificateRequest."""
        return 2 + sum(2 + len(name) + 13 for name in self.authority_names)


def _clear_records(*messages: int) -> int:
    """Return the size of TLS records with handshake messages, one message a record if it fits."""
    return sum(size + _RECORD_BYTES * -(-size // _RECORD_LIMIT) for size in messages)


def _encrypted_records(*messages: int) -> int:
    """Return the size of TLS 1.3 records with encrypted messages, one a record if it fits."""
    return sum(size + (_RECORD_BYTES + _ENCRYPTION_BYTES) * -(-size // _RECORD_LIMIT)
               for size in messages)


#: Nonce and tag of a record with AES-GCM in TLS 1.2.
_ENCRYPTION_12_BYTES = 8 + 16


def encrypt_content(size: int, version: str) -> int:
    """Return the size of a TLS record with content of a tunnel, by the version of TLS."""
    return _RECORD_BYTES + size + (_ENCRYPTION_BYTES if version == "1.3" else _ENCRYPTION_12_BYTES)
