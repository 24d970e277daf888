"""Compute the number and sizes of the packets of an EAP-TLS authentication before it happens.

The command `./qop cost` shows the result, and a check compares it with captures. `compute_packets`
takes an `EapTlsLogin`: certificates, kinds of keys, TLS version and fragment sizes (RFC 5216, RFC
9190). It returns the EAP and RADIUS packets in order, with their sizes (`LoginPackets`). FreeRADIUS
is the server, wpa_supplicant the station and hostapd the access point, each with OpenSSL.
`chain_bytes` returns the sizes of qop's own certificates (ansible/roles/pki). Nothing of a capture
is an input, except for `describe_difference`, which compares both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

# --- Certificates ---


class KeyKind(NamedTuple):
    """The sizes of a kind of key (bytes).

    An ECDSA signature has two integers, each of which may be shorter than `signature`'s part. Then
    a certificate is a few bytes smaller.
    """

    #: SubjectPublicKeyInfo in DER.
    public: int
    #: Longest signature.
    signature: int
    #: AlgorithmIdentifier of a signature in DER.
    algorithm: int


KEY_KINDS = {
    "rsa-1024": KeyKind(162, 128, 15),
    "rsa-2048": KeyKind(294, 256, 15),
    "rsa-3072": KeyKind(422, 384, 15),
    "rsa-4096": KeyKind(550, 512, 15),
    "p-256": KeyKind(91, 72, 12),
    "p-384": KeyKind(120, 104, 12),
    "ml-dsa-44": KeyKind(1334, 2420, 13),
    "ml-dsa-65": KeyKind(1974, 3309, 13),
    "ml-dsa-87": KeyKind(2614, 4627, 13),
}
#: Extensions of a root, of an authority that may certify another one, and of one that may not.
#: OpenSSL adds key identifiers to the first two.
_ROOT_BYTES, _AUTHORITY_BYTES, _LAST_AUTHORITY_BYTES = 64, 97, 36
_CLIENT_BYTES, _SERVER_BYTES = 37, 50
#: How much shorter a signature of ECDSA is at most; four bytes less occur once in 10,000.
_ECDSA_SHORTER_BYTES = 4
#: Version, serial number of five bytes, and validity of a certificate.
_FIXED_BYTES = 5 + 7 + 32
#: Names of qop's authorities.
_ROOT, _INTERMEDIATE = "root", "qop"


def der_bytes(content: int) -> int:
    """Return the size of a DER element, with tag and length, from the size of its content."""
    return content + (2 if content < 0x80 else 3 if content < 0x100 else 4)


def certificate_bytes(key: str, issuer: str, subject: str, extensions: int) -> int:
    """Return the size of an X.509 certificate whose issuer has the same kind of key.

    Args:
        key: Kind of both keys, of `KEY_KINDS`.
        issuer: Common name of the issuer.
        subject: Common name of the subject.
        extensions: Bytes of its extensions.
    """
    kind = KEY_KINDS[key]
    names = sum(len(name) + 13 for name in (issuer, subject))
    signed = der_bytes(_FIXED_BYTES + kind.algorithm + names + kind.public
                       + der_bytes(der_bytes(extensions)))
    return der_bytes(signed + kind.algorithm + der_bytes(1 + kind.signature))


def authority_names(key: str, length: int) -> list[str]:
    """Return the common names of the root and of all intermediates below it.

    Args:
        key: Kind of every key.
        length: Number of certificates below the root.
    """
    return [_ROOT, *([_INTERMEDIATE] if length == 2 and key == "rsa-2048" else [
        f"{_INTERMEDIATE}{number}" for number in range(1, length)])]


def chain_bytes(key: str, length: int, subject: str, *, is_server: bool) -> tuple[int, ...]:
    """Return the sizes (bytes) of the certificates that a server or client sends in TLS.

    The sender's own certificate comes first, then its issuer's, and so on. All are made by qop
    (ansible/roles/pki). The client (wpa_supplicant) adds the root if its certificate has no
    intermediate.

    Args:
        key: Kind of every key (`KEY_KINDS`).
        length: Number of certificates from the leaf up to the root, without the root.
        subject: Common name of the leaf.
        is_server: Whether the leaf is a server's, which also has its name as a DNS name.
    """
    names = authority_names(key, length)
    above = [certificate_bytes(key, issuer, name, _LAST_AUTHORITY_BYTES if name == names[-1]
                               else _AUTHORITY_BYTES)
             for issuer, name in pairwise(names)]
    leaf = certificate_bytes(key, names[-1], subject, _SERVER_BYTES + len(subject) if is_server
                             else _CLIENT_BYTES)
    roots = [certificate_bytes(key, _ROOT, _ROOT, _ROOT_BYTES)] if length == 1 and not is_server \
        else []
    return (leaf, *reversed(above), *roots)


# --- TLS flights ---

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
    #: How much smaller FreeRADIUS' EAP packets are than its fragment_size.
    fragment_margin: int = 0
    #: The server's offer to take compressed certificates (RFC 8879) in a CertificateRequest.
    compression: int = 0
    #: Extension ec_point_formats of hellos. The station's for TLS 1.3 has it, too, unless its group
    #: is no elliptic curve.
    point_formats: int = 8
    #: How much shorter a station's hello of TLS 1.2 is with SECLEVEL=0: a cipher suite stands for
    #: the extension renegotiation_info.
    weak_hello_margin: int = 0


#: Read in captures: hostapd and wpa_supplicant 2.10 of Debian 12 and 13, 2.11 of testing;
#: FreeRADIUS 3.2.1, 3.2.7 and 3.2.10, OpenSSL 3.0, 3.5 and 3.6. OpenSSL 3.6 names one point
#: format in place of three.
RELEASES = {
    "bookworm": ReleaseSizes(184, 85, 231, ("x25519",), 40, 36),
    "trixie": ReleaseSizes(199, 88, 248, ("x25519mlkem768", "x25519"), 40, 40, 4, 9,
                           weak_hello_margin=3),
    "forky": ReleaseSizes(197, 87, 246, ("x25519mlkem768", "x25519"), 40, 40, 4, 9, 6,
                          weak_hello_margin=3),
}
#: CompressedCertificate without the compressed bytes: algorithm and two lengths.
_COMPRESSED_HEAD_BYTES = 8
_RECORD_BYTES, _RECORD_LIMIT = 5, 16384
#: TLS 1.3 encrypts a record with a type and a tag.
_ENCRYPTION_BYTES = 17
_CHANGE_CIPHER_SPEC_BYTES = 6
#: Header of a handshake message, and Finished of TLS 1.2 in its encrypted record.
_HEAD_BYTES, _FINISHED_12_BYTES = 4, 45
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
class EapTlsLogin:
    """The inputs of an EAP-TLS authentication.

    - `server_chain`, `client_chain`: sizes of the certificates in DER, the own one first (bytes)
    - `server_key`, `client_key`: kinds of the keys that sign, of `KEY_KINDS`
    - `group`: group of the key agreement, of `GROUPS`
    - `fragment_bytes`: FreeRADIUS' fragment_size, the size of a whole EAP packet
    - `client_fragment_bytes`: wpa_supplicant's fragment_size, the TLS data of an EAP packet
    - `identity`: what the station claims outside of TLS
    - `authority_names`: common names of the authorities that the server accepts
    - `admits_weak`: whether both sides admit weak signatures (OpenSSL's SECLEVEL=0)
    - `is_suite_b`: whether the station offers the suites of the 192-bit level alone
    - `offers_md5`: whether the server proposes EAP-MD5 first
    - `release`: Debian release of the daemons, of `RELEASES`
    - `compressed_bytes`: the station's certificates after compression, None if they are not
      compressed. Where the server offers to take compressed ones, it depends on their content.
    - `request_bytes`: attributes of hostapd's Access-Request besides User-Name, State, EAP-Message,
      Message-Authenticator
    """

    server_chain: Sequence[int]
    client_chain: Sequence[int]
    server_key: str = "rsa-2048"
    client_key: str = "rsa-2048"
    version: str = "1.2"
    group: str = "p-256"
    is_resumed: bool = False
    fragment_bytes: int = 1024
    client_fragment_bytes: int = 1398
    identity: str = "anonymous"
    authority_names: Sequence[str] = (_ROOT,)
    admits_weak: bool = False
    is_suite_b: bool = False
    offers_md5: bool = False
    release: str = "bookworm"
    compressed_bytes: int | None = None
    request_bytes: int = 165

    def list_flights(self) -> Iterator[Flight]:
        """Yield the flights of TLS records in order, beginning with the ClientHello."""
        if self.version == "1.2":
            yield from self._resumed_12() if self.is_resumed else self._full_12()
        else:
            yield from self._resumed_13() if self.is_resumed else self._full_13()

    def _full_12(self) -> Iterator[Flight]:
        own, (_, share) = RELEASES[self.release], GROUPS[self.group]
        yield Flight(STATION, self._hello_12())
        key_exchange = 4 + share + 4 + KEY_KINDS[self.server_key].signature
        request = (4 + 2 + own.signatures_12 + _WEAK_ALGORITHMS_BYTES * self.admits_weak
                   + self._authority_bytes())
        yield Flight(SERVER, _clear_records(
            _SERVER_HELLO_12_BYTES + own.point_formats,
            _HEAD_BYTES + 3 + sum(3 + size for size in self.server_chain),
            _HEAD_BYTES + key_exchange, _HEAD_BYTES + request, _HEAD_BYTES))
        yield Flight(STATION, _clear_records(
            _HEAD_BYTES + 3 + sum(3 + size for size in self.client_chain),
            _HEAD_BYTES + 1 + GROUPS[self.group][0],
            _HEAD_BYTES + 4 + KEY_KINDS[self.client_key].signature) + self._finish_12())
        yield Flight(SERVER, self._finish_12())

    def _resumed_12(self) -> Iterator[Flight]:
        yield Flight(STATION, self._hello_12() + _SESSION_BYTES)
        yield Flight(SERVER, _clear_records(_RESUMED_HELLO_BYTES) + self._finish_12())
        yield Flight(STATION, self._finish_12())

    def _hello_12(self) -> int:
        own = RELEASES[self.release]
        return own.hello_suite_b if self.is_suite_b else (
            own.hello_12 + (_WEAK_ALGORITHMS_BYTES - own.weak_hello_margin) * self.admits_weak)

    @staticmethod
    def _finish_12() -> int:
        return _CHANGE_CIPHER_SPEC_BYTES + _FINISHED_12_BYTES

    def _hellos_13(self, ticket_bytes: int = 0) -> Iterator[Flight]:
        """Yield the flights before the server's hello: a second one if it wants another group."""
        own = RELEASES[self.release]
        omitted = _OTHER_GROUPS_BYTES + own.point_formats if self.group in OFFERED_ALONE else 0
        hello = own.hello_13 - omitted + ticket_bytes
        yield Flight(STATION, hello + sum(4 + GROUPS[guess][0] for guess in self._guessed_groups))
        if self._needs_retry:
            yield Flight(SERVER, _clear_records(_HELLO_RETRY_BYTES) + _CHANGE_CIPHER_SPEC_BYTES)
            yield Flight(STATION, hello + 4 + GROUPS[self.group][0])

    @property
    def _guessed_groups(self) -> tuple[str, ...]:
        """Return the groups of which the station sends shares in its first ClientHello."""
        return (self.group,) if self.group in OFFERED_ALONE else RELEASES[self.release].guesses

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
        own = RELEASES[self.release]
        yield from self._hellos_13()
        request = 3 + 6 + own.signatures_13 + own.compression + 4 + self._authority_bytes()
        yield Flight(SERVER, self._server_hello_13()
                     + _encrypted_records(
                         _ENCRYPTED_EXTENSIONS_BYTES, _HEAD_BYTES + request,
                         *self._certificates_13(self.server_chain, self.server_key)))
        certificate, *proof = self._certificates_13(self.client_chain, self.client_key)
        if self.compressed_bytes is not None:
            certificate = _HEAD_BYTES + _COMPRESSED_HEAD_BYTES + self.compressed_bytes
        yield Flight(STATION, _encrypted_records(certificate, *proof))
        yield Flight(SERVER, _COMMITMENT_BYTES)

    @staticmethod
    def _certificates_13(chain: Sequence[int], key: str) -> tuple[int, int, int]:
        """Return the sizes of Certificate, CertificateVerify and Finished."""
        return (_HEAD_BYTES + 1 + 3 + sum(3 + size + 2 for size in chain),
                _HEAD_BYTES + 4 + KEY_KINDS[key].signature, _FINISHED_13_BYTES)

    def _authority_bytes(self) -> int:
        """Return the size of the list of authorities in a CertificateRequest."""
        return 2 + sum(2 + len(name) + 13 for name in self.authority_names)


def _clear_records(*messages: int) -> int:
    """Return the size of TLS records with handshake messages, one message a record if it fits."""
    return sum(size + _RECORD_BYTES * -(-size // _RECORD_LIMIT) for size in messages)


def _encrypted_records(*messages: int) -> int:
    return sum(size + (_RECORD_BYTES + _ENCRYPTION_BYTES) * -(-size // _RECORD_LIMIT)
               for size in messages)


# --- EAP and RADIUS packets ---

#: EAP code of a response.
_RESPONSE = 2
#: Headers of an EAP packet with and without the length of the TLS message.
_EAP_HEAD, _EAP_LONG_HEAD = 6, 10
_RADIUS_HEAD, _AUTHENTICATOR, _STATE = 20, 18, 18
#: Attributes of an Access-Accept with the session keys (RFC 2548).
_KEYS = 116
_ATTRIBUTE, _ATTRIBUTE_LIMIT = 2, 253
_EAP_TLS, _LENGTH_FLAG = b"\x0d", 0x80
#: Certificates compress to at least this share of their size.
_LEAST_COMPRESSED = 0.4
_IP_UDP, _MTU = 28, 1500
#: FreeRADIUS refuses a TLS message that is longer in total (`MAX_RECORD_SIZE`).
SERVER_MESSAGE_LIMIT = 16384
#: FreeRADIUS ends a session at a further request than these with a State.
SERVER_REQUEST_LIMIT = 50


class EapPacket(NamedTuple):
    """An EAP packet: its sender, and its size (bytes)."""

    sender: str
    size: int


class RadiusPacket(NamedTuple):
    """A RADIUS packet: whether the access point sent it, and its size."""

    is_request: bool
    size: int


@dataclass(frozen=True)
class LoginPackets:
    """The packets of an authentication, in order.

    `problems` says why the daemons refuse the authentication, and is empty if they do not. Then
    `eap` and `radius` are the packets with a server that has no limits.
    """

    eap: Sequence[EapPacket]
    radius: Sequence[RadiusPacket]
    problems: Sequence[str] = field(default=())

    @property
    def round_trips(self) -> int:
        """Return how often the access point asks the RADIUS server and waits."""
        return sum(packet.is_request for packet in self.radius)

    @property
    def eap_bytes(self) -> int:
        """Return the size of all EAP packets (bytes)."""
        return sum(packet.size for packet in self.eap)

    @property
    def radius_bytes(self) -> int:
        """Return the size of all RADIUS packets, without IP and UDP headers (bytes)."""
        return sum(packet.size for packet in self.radius)

    @property
    def ip_packets(self) -> int:
        """Return in how many IP packets the RADIUS packets travel, with an MTU of 1500 bytes."""
        return sum(map(ip_fragments, self.radius))


def ip_fragments(packet: RadiusPacket) -> int:
    """Return in how many IP packets a RADIUS packet travels."""
    payload = (_MTU - 20) // 8 * 8
    return -(-(packet.size + _IP_UDP - 20) // payload)


def compute_packets(login: EapTlsLogin) -> LoginPackets:
    """Return the EAP and RADIUS packets of an EAP-TLS authentication that nothing disturbs.

    The first is the access point's request for the identity, the last EAP-Success. Frames of EAPOL
    without EAP (EAPOL-Start, keys) are not counted.
    """
    eap = list(_eap_packets(login))
    radius = list(_radius_packets(login, eap[1:]))
    return LoginPackets(eap, radius, list(_find_problems(login, radius)))


def describe_difference(login: EapTlsLogin, captured: Sequence[bytes]) -> str:
    """Return how captured EAP packets differ from the computed ones, "" if they do not.

    Signatures of ECDSA may be shorter than computed. If the server takes compressed certificates,
    the size of the station's is taken from the capture, and all else must agree.

    Args:
        login: The inputs of the authentication.
        captured: Its EAP packets in order, each once.
    """
    if (RELEASES[login.release].compression and login.version == "1.3"
            and not login.is_resumed):
        compressed = _find_compressed_bytes(login, captured)
        full = sum(login.client_chain)
        if not full * _LEAST_COMPRESSED <= compressed <= full + _HEAD_BYTES * len(captured):
            return f"{compressed} bytes of compressed certificates, {full} uncompressed"
        login = replace(login, compressed_bytes=compressed)
    found = [EapPacket(STATION if packet[0] == _RESPONSE else SERVER, len(packet))
             for packet in captured]
    shorter = _shorten_signatures(login)
    ranges = list(zip(compute_packets(login).eap, compute_packets(shorter).eap, strict=False))
    if [packet.sender for packet in found] != [most.sender for most, _ in ranges]:
        return f"{len(found)} packets, {len(ranges)} computed"
    for number, (packet, (most, least)) in enumerate(zip(found, ranges, strict=True)):
        if not least.size <= packet.size <= most.size:
            return (f"packet {number + 1} of {len(found)} has {packet.size} bytes, {most.size} "
                    "computed")
    return ""


def _find_compressed_bytes(login: EapTlsLogin, captured: Sequence[bytes]) -> int:
    """Return how large the station's certificates were in a capture, by all TLS data it sent."""
    sent = sum(len(packet) - (_EAP_LONG_HEAD if packet[5] & _LENGTH_FLAG else _EAP_HEAD)
               for packet in captured if packet[0] == _RESPONSE and packet[4:5] == _EAP_TLS)
    empty = replace(login, compressed_bytes=0)
    return sent - sum(flight.size for flight in empty.list_flights() if flight.sender == STATION)


def _shorten_signatures(login: EapTlsLogin) -> EapTlsLogin:
    """Return the inputs with certificates that are as short as ECDSA's signatures may make them."""
    chains = {"server_chain": login.server_key, "client_chain": login.client_key}
    return replace(login, **{  # type: ignore[arg-type]
        name: [size - _ECDSA_SHORTER_BYTES * key.startswith("p-") - _ECDSA_SHORTER_BYTES
               * (key.startswith("p-") and not place)  # that of the handshake, too
               for place, size in enumerate(getattr(login, name))]
        for name, key in chains.items()})


def _eap_packets(login: EapTlsLogin) -> Iterator[EapPacket]:
    yield EapPacket(SERVER, 5)
    yield EapPacket(STATION, 5 + len(login.identity))
    if login.offers_md5:
        yield EapPacket(SERVER, 22)
        yield EapPacket(STATION, 6)
    yield EapPacket(SERVER, _EAP_HEAD)  # EAP-TLS start
    flights = list(login.list_flights())
    for flight in flights:
        pieces = list(_server_pieces(login, flight.size) if flight.sender == SERVER
                      else _client_pieces(login, flight.size))
        for number, piece in enumerate(pieces):
            if number:  # the other side acknowledges each fragment but the last
                yield EapPacket(STATION if flight.sender == SERVER else SERVER, _EAP_HEAD)
            yield EapPacket(flight.sender, piece)
    if flights[-1].sender == SERVER:
        yield EapPacket(STATION, _EAP_HEAD)
    yield EapPacket(SERVER, 4)


def _server_pieces(login: EapTlsLogin, size: int) -> Iterator[int]:
    """Yield the sizes of the EAP packets with a flight of the server's.

    Each has the total length (FreeRADIUS' include_length).
    """
    room = login.fragment_bytes - RELEASES[login.release].fragment_margin - _EAP_LONG_HEAD
    for place in range(0, size, room):
        yield _EAP_LONG_HEAD + min(room, size - place)


def _client_pieces(login: EapTlsLogin, size: int) -> Iterator[int]:
    """Yield the sizes of the EAP packets with a flight of the station's.

    The first of several has the total length.
    """
    room = login.client_fragment_bytes
    for place in range(0, size, room):
        head = _EAP_LONG_HEAD if size > room and not place else _EAP_HEAD
        yield head + min(room, size - place)


def _radius_packets(login: EapTlsLogin, eap: Sequence[EapPacket]) -> Iterator[RadiusPacket]:
    name = _ATTRIBUTE + len(login.identity)
    for number, packet in enumerate(eap):
        size = _RADIUS_HEAD + _AUTHENTICATOR + packet.size + _ATTRIBUTE * -(
            -packet.size // _ATTRIBUTE_LIMIT)
        if packet.sender == STATION:
            size += login.request_bytes + name + _STATE * (number > 0)
        else:
            size += _KEYS + name if number == len(eap) - 1 else _STATE
        yield RadiusPacket(packet.sender == STATION, size)


def _find_problems(login: EapTlsLogin, radius: Sequence[RadiusPacket]) -> Iterator[str]:
    """Yield why FreeRADIUS refuses the authentication."""
    longest = max(flight.size for flight in login.list_flights() if flight.sender == STATION)
    if longest > SERVER_MESSAGE_LIMIT:
        yield (f"the station's certificates and signature are {longest:,} bytes of TLS, and "
               f"FreeRADIUS takes at most {SERVER_MESSAGE_LIMIT:,} in one message; use a smaller "
               "kind of key or a shorter chain at the station")
    trips = sum(packet.is_request for packet in radius)
    if trips - 1 > SERVER_REQUEST_LIMIT:
        yield (f"it takes {trips} requests to the RADIUS server, and FreeRADIUS ends a session "
               f"after {SERVER_REQUEST_LIMIT + 1}; use larger fragments")

