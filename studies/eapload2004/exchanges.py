"""Read authentications from captures: RADIUS at the server, and EAPOL at the station.

`read_exchanges` takes a capture file, and returns each authentication with its requests, answers
and times. It joins packets by the State attributes of RADIUS. `read_supplicant_times` does this for
EAPOL frames. Further functions count frames that the air delayed, and read TLS versions and
certificates. `find_challenge_faults` recomputes EAP-AKA. The study's checks use the result. The
module parses all formats itself, and shares no code with the load generator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509.oid import NameOID

from measure.capture import pcap
from measure.load import eap_client
from measure.load.eap_client import EAP_TLS, LENGTH_FLAG, MORE_FLAG, START_FLAG
from measure.packets import eap, messages, tls_records
from measure.packets.eap import RADIUS_PORT
from protocols.aka import eap_aka
from protocols.aka.eap_aka import EAP_AKA, recompute_challenge
from protocols.aka.milenage import MilenageKey
from protocols.aka.program import DIAMETER_PORT

_EAP_PACKET, _EAPOL_START = 0, 1
_REQUEST, _RESPONSE, _SUCCESS, _FAILURE = 1, 2, 3, 4
_IDENTITY = 1
_APPLICATION = 23
CERTIFICATE, CERTIFICATE_VERIFY = 11, 15
#: TLS 1.3 encrypts certificates. A server's flight of more bytes than this has some.
_ENCRYPTED_CERTIFICATES_BYTES = 800


@dataclass
class RoundTrip:
    """A request and its answer, with the times of their capture (s)."""

    asked_s: float
    answered_s: float = 0.0

    @property
    def took_s(self) -> float:
        """Return the time between request and answer (s)."""
        return self.answered_s - self.asked_s


@dataclass
class Exchange:
    """A captured authentication between a RADIUS client and the server.

    - `trips`: requests and their answers, in order
    - `from_server`, `from_client`: the TLS data that each side sent
    - `asker`, `port`: IP address and UDP port of the client
    - `user`: the claimed identity
    - `is_accepted`: whether the last answer is Access-Accept
    - `repeated`: number of retransmitted requests
    """

    trips: list[RoundTrip] = field(default_factory=list)
    from_server: bytes = b""
    from_client: bytes = b""
    asker: str = ""
    port: int = 0
    user: str = ""
    is_accepted: bool = False
    repeated: int = 0
    #: Sizes of the server's EAP packets that other fragments follow (bytes).
    pieces: set[int] = field(default_factory=set)
    #: EAP packets of EAP-AKA, in order.
    aka: list[bytes] = field(default_factory=list)
    #: The last request and its answer, as RADIUS packets.
    last: list[bytes] = field(default_factory=list)
    #: Number of EAP packets that carry no data of the method and acknowledge no fragment.
    spare: int = 0
    #: The newest EAP packet.
    eap: bytes = b""
    #: Whether only EAP-Success may follow the newest EAP packet.
    is_last_word: bool = False
    #: Lines of the server's key log for this authentication.
    keys: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Return whether every request has an answer, and the last answer is Access-Accept."""
        return self.is_accepted and all(trip.answered_s for trip in self.trips)

    @property
    def served_s(self) -> float:
        """Return the time between requests and answers, summed over all round trips (s)."""
        return sum(trip.took_s for trip in self.trips)

    @property
    def has_certificates(self) -> bool:
        """Return whether both sides sent certificates, so that no session was resumed."""
        if messages.HANDSHAKE in (server := _record_types(self.from_server)) and (
                CERTIFICATE in server[messages.HANDSHAKE]):
            return {CERTIFICATE, CERTIFICATE_VERIFY} <= _record_types(self.from_client).get(
                messages.HANDSHAKE, set())
        return _APPLICATION in server and len(self.from_server) > _ENCRYPTED_CERTIFICATES_BYTES


@dataclass(frozen=True)
class SupplicantTime:
    """A captured authentication at the station's interface, with times in seconds.

    `client_s` is the part of the time between a request to the station and its response.
    """

    begun_s: float
    ended_s: float
    client_s: float

    @property
    def took_s(self) -> float:
        """Return the time from the first 802.1X frame to EAP-Success (s)."""
        return self.ended_s - self.begun_s


def read_exchanges(file: Path) -> list[Exchange]:
    """Return all authentications of a RADIUS capture, in the order in which they began.

    A request with the port, identifier and authenticator of an earlier one is a retransmission (RFC
    5080 section 2.2.2), even if its answer was already under way.
    """
    begun: list[Exchange] = []
    by_state: dict[bytes, Exchange] = {}  # A proxy may use several ports for one authentication.
    requests: dict[tuple[int, int], tuple[bytes, Exchange]] = {}
    waiting: set[tuple[int, int]] = set()
    for datagram in pcap.udp_datagrams(file):
        packet = eap_client.parse_radius_packet(datagram.payload)
        if packet is None:
            continue
        if datagram.target_port == RADIUS_PORT:
            key = datagram.source_port, packet.identifier
            last = requests.get(key)
            if last and last[0] == packet.authenticator:
                last[1].repeated += 1
                continue
            exchange = by_state.pop(packet.state, None) if packet.state else None
            if exchange is None:
                exchange = Exchange(asker=datagram.source, port=datagram.source_port,
                                    user=packet.user)
                begun.append(exchange)
            exchange.trips.append(RoundTrip(datagram.at_s))
            count_spare(exchange, packet.eap)
            exchange.from_client += _tls_data(packet.eap)
            exchange.aka += _aka_packets(packet.eap)
            exchange.last = [datagram.payload]
            requests[key] = packet.authenticator, exchange
            waiting.add(key)
        elif (key := (datagram.target_port, packet.identifier)) in waiting:
            waiting.remove(key)
            exchange = requests[key][1]
            exchange.trips[-1].answered_s = datagram.at_s
            count_spare(exchange, packet.eap)
            exchange.from_server += _tls_data(packet.eap)
            exchange.pieces |= _fragment_size(packet.eap)
            exchange.aka += _aka_packets(packet.eap)
            exchange.last.append(datagram.payload)
            exchange.is_accepted = packet.code == eap_client.ACCESS_ACCEPT
            if packet.state:
                by_state[packet.state] = exchange
    return begun


def read_supplicant_times(file: Path) -> Iterator[SupplicantTime]:
    """Yield every successful authentication of the station, from its EAPOL frames."""
    begun_s = asked_s = 0.0
    client_s = 0.0
    for frame in pcap.read_frames(file):
        if is_from_supplicant(frame) is None:
            continue
        begun_s = begun_s or frame.at_s
        code = _eap_code(frame)
        if code == _REQUEST:
            asked_s = frame.at_s
        elif code == _RESPONSE and asked_s:
            client_s, asked_s = client_s + frame.at_s - asked_s, 0.0
        elif code in (_SUCCESS, _FAILURE):
            if code == _SUCCESS:
                yield SupplicantTime(begun_s, frame.at_s, client_s)
            begun_s = asked_s = client_s = 0.0


def is_from_supplicant(frame: pcap.CapturedFrame) -> bool | None:
    """Return whether the station sent a frame of an authentication. None for other frames."""
    data = frame.payload
    if frame.kind != pcap.EAPOL or len(data) < 4 or data[1] not in (_EAP_PACKET, _EAPOL_START):
        return None
    return _eap_code(frame) in (0, _RESPONSE)


def _eap_code(frame: pcap.CapturedFrame) -> int:
    """Return the EAP code of a frame, 0 for EAPOL-Start."""
    data = frame.payload
    return data[4] if data[1] == _EAP_PACKET and len(data) > 4 else 0


def count_spare(exchange: Exchange, eap: bytes) -> None:
    """Add 1 to `exchange.spare` if an EAP packet is superfluous.

    A packet is superfluous in three cases:

    - it offers or refuses another EAP method,
    - it has no TLS data and acknowledges no fragment, unless it is the client's last response,
    - it follows that last response and is not EAP-Success.
    """
    if len(eap) < 4:
        return
    code, before = eap[0], exchange.eap
    exchange.spare += exchange.is_last_word and code != _SUCCESS
    exchange.eap, exchange.is_last_word = eap, False
    kind, flags = (*eap[4:6], 0, 0)[:2]
    if code in (_SUCCESS, _FAILURE) or kind == EAP_AKA or (kind == _IDENTITY and not before):
        return
    if kind != EAP_TLS:
        exchange.spare += 1  # another method is offered or refused
    elif not (_tls_data(eap) or flags & START_FLAG or _fragment_size(before)):
        # The client's last response carries no data.
        exchange.is_last_word = code == _RESPONSE
        exchange.spare += code != _RESPONSE


def _tls_data(eap: bytes) -> bytes:
    """Return the TLS data in an EAP packet."""
    if len(eap) < 6 or eap[4] != EAP_TLS:
        return b""
    return eap[10:] if eap[5] & LENGTH_FLAG else eap[6:]


def _fragment_size(eap: bytes) -> set[int]:
    """Return a set with the size of an EAP-TLS packet if other fragments follow it, else {}."""
    return {len(eap)} if len(eap) > 5 and eap[4] == EAP_TLS and eap[5] & MORE_FLAG else set()


def _aka_packets(eap: bytes) -> list[bytes]:
    """Return a list with the EAP packet if it is one of EAP-AKA, else []."""
    return [eap] if len(eap) > 4 and eap[4] == EAP_AKA else []


def _record_types(flight: bytes) -> dict[int, set[int]]:
    """Return the types of the TLS records that one side sends at a time.

    Handshake records have the types of their messages, unless they are encrypted.
    """
    kinds: dict[int, set[int]] = {kind: set() for kind, _ in messages.split_records(flight)}
    if messages.HANDSHAKE in kinds:
        kinds[messages.HANDSHAKE] |= {kind for kind, _ in messages.clear_messages(flight)}
    return kinds


# --- Retransmissions on the air, from the delay of frames to the supplicant ---
# The delay of a frame is the time from the access point's radio, before the air, to the supplicant.
# A frame that the air loses arrives hundreds of microseconds later than the quickest of its length:
# IEEE 802.11 sends it again after a longer backoff. Without a loss, 9,337 frames took at most 65 us
# longer.

#: Delay beyond the quickest frame of the same length that counts as a retransmission, in seconds.
_RETRANSMITTED_S = 0.00008
_RADIO, _SUPPLICANT = "auth-radio.pcap", "auth-mn.pcap"


@dataclass(frozen=True)
class AirLosses:
    """Number of frames that reached the station, and how many of them came late."""

    frames: int
    late: int


def count_losses(out: Path) -> AirLosses:
    """Count the frames to the station in a repetition's captures, and the late ones.

    A frame that arrives without a capture at the access point's radio counts as late.

    Raises:
        MeasureError: a capture is damaged, or holds no Ethernet frames.
    """
    if not (out / _RADIO).exists():  # Results of an earlier version have no capture at the radio.
        return AirLosses(0, 0)
    sent_s: dict[bytes, list[float]] = defaultdict(list)
    for frame in pcap.read_frames(out / _RADIO):
        if is_from_supplicant(frame) is False:
            sent_s[frame.payload].append(frame.at_s)
    took_s: dict[int, list[float]] = defaultdict(list)
    unsent = 0
    for frame in pcap.read_frames(out / _SUPPLICANT):
        if is_from_supplicant(frame) is not False:
            continue
        # Take the newest earlier copy: an equal frame before it may have been lost.
        before = [at_s for at_s in sent_s[frame.payload] if at_s <= frame.at_s]
        if before:
            sent_s[frame.payload] = sent_s[frame.payload][len(before):]
            took_s[len(frame.payload)].append(frame.at_s - before[-1])
        else:
            unsent += 1
    late = sum(delay_s > min(delays_s) + _RETRANSMITTED_S
               for delays_s in took_s.values() for delay_s in delays_s)
    return AirLosses(unsent + sum(map(len, took_s.values())), unsent + late)


# --- TLS version, group and certificates of captured EAP-TLS handshakes ---
# TLS 1.3 encrypts certificates, which are decrypted with the server's key log.

_CLIENT_HELLO, _SERVER_HELLO, _KEY_EXCHANGE, _SUPPORTED_VERSIONS = 1, 2, 12, 43
_RANDOM = slice(2, 34)
#: Names of groups by number, and the kind of ServerKeyExchange that names one (RFC 8422, 5.4).
_GROUPS = {number: name for name, number in messages.TLS_GROUPS.items()}
_NAMED_CURVE = 3
#: Kinds of ML-DSA keys by the last number of their object identifier (RFC 9881), and schemes of
#: signatures by kind of key (RFC 8446, 4.2.3; draft-ietf-tls-mldsa).
_ML_DSA_OID = "2.16.840.1.101.3.4.3."
_ML_DSA = {17: "ml-dsa-44", 18: "ml-dsa-65", 19: "ml-dsa-87"}
_SCHEMES = {0x0403: "p-256", 0x0804: "rsa", 0x0805: "rsa", 0x0806: "rsa", 0x0904: "ml-dsa-44",
            0x0905: "ml-dsa-65", 0x0906: "ml-dsa-87"}
_VERSIONS = {0x0303: "1.2", 0x0304: "1.3"}


@dataclass(frozen=True)
class CapturedCertificate:
    """A certificate in a capture: subject, issuer and kind of key."""

    subject: str
    issuer: str
    key: str


def add_keys(exchanges: Sequence[Exchange], keys: Sequence[str]) -> None:
    """Give each authentication the lines of a TLS key log that are about it.

    Args:
        exchanges: captured authentications.
        keys: lines of the server's key log.
    """
    by_random: dict[str, list[str]] = defaultdict(list)
    for line in keys:
        by_random[line.split(" ")[1] if line.count(" ") == 2 else ""].append(line)
    for exchange in exchanges:
        randoms = [body[_RANDOM].hex() for kind, body in messages.clear_messages(
            exchange.from_client) if kind == _CLIENT_HELLO]
        exchange.keys = by_random.get(randoms[0], []) if randoms else []


def read_certificates(exchange: Exchange, *, is_servers: bool) -> list[CapturedCertificate]:
    """Return the certificates that one side of an authentication sent, its own first.

    With TLS 1.3 they are decrypted. The list is empty without keys.
    """
    flight = exchange.from_server if is_servers else exchange.from_client
    if parse_version(exchange.from_server) != "1.3":
        return parse_certificates(flight)
    return [_parse_certificate(der) for der in tls_records.list_certificates(
        tls_records.decrypt_messages(flight, exchange.keys, is_servers=is_servers))]


def read_signing_keys(exchange: Exchange) -> list[str]:
    """Return the kinds of keys with which server and client signed a handshake of TLS 1.3.

    RSA is `rsa`, of any length. A side that did not sign, or whose messages are not decrypted, is
    "".
    """
    signed = [dict(tls_records.decrypt_messages(flight, exchange.keys, is_servers=is_servers)).get(
        CERTIFICATE_VERIFY, b"") for flight, is_servers in (
            (exchange.from_server, True), (exchange.from_client, False))]
    return [_SCHEMES.get(int.from_bytes(body[:2], "big"), "") for body in signed]


def parse_groups(flight: bytes) -> set[str]:
    """Return the groups of the key agreement in all TLS data that a server sent.

    A group without a name here is its number. A resumed session of TLS 1.2 has none.
    """
    sent = list(messages.split_messages(b"".join(
        body for kind, body in messages.split_records(flight) if kind == messages.HANDSHAKE)))
    numbers = tls_records.list_agreed_groups(sent) or [
        int.from_bytes(body[1:3], "big") for kind, body in sent
        if kind == _KEY_EXCHANGE and body[:1] == bytes((_NAMED_CURVE,))]
    return {_GROUPS.get(number, f"{number:#06x}") for number in numbers}


def parse_certificates(flight: bytes) -> list[CapturedCertificate]:
    """Return the certificates that one side sends, its own first.

    The list is empty for TLS 1.3, which encrypts certificates.
    """
    bodies = [body for kind, body in messages.clear_messages(flight) if kind == CERTIFICATE]
    return [_parse_certificate(der) for body in bodies for der in _split_certificates(body)]


def parse_version(flight: bytes) -> str:
    """Return the TLS version that the server chose, or "" without a complete ServerHello."""
    hello = next((body for kind, body in messages.clear_messages(flight)
                  if kind == _SERVER_HELLO), b"")
    if len(hello) <= tls_records.SESSION_PLACE:
        return ""
    chosen = int.from_bytes(dict(tls_records.split_extensions(hello)).get(
        _SUPPORTED_VERSIONS, hello[:2]), "big")
    return _VERSIONS.get(chosen, f"{chosen:#06x}")


def _split_certificates(body: bytes) -> Iterator[bytes]:
    """Yield the certificates of a TLS 1.2 Certificate message (RFC 5246 section 7.4.2)."""
    place = 3
    while place + 3 <= len(body):
        size = int.from_bytes(body[place:place + 3], "big")
        yield body[place + 3:place + 3 + size]
        place += 3 + size


@lru_cache(maxsize=256)
def _parse_certificate(der: bytes) -> CapturedCertificate:
    certificate = x509.load_der_x509_certificate(der)
    subject, issuer = (str(name.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
                       for name in (certificate.subject, certificate.issuer))
    return CapturedCertificate(subject, issuer, _describe_key(certificate))


def _describe_key(certificate: x509.Certificate) -> str:
    """Return the kind of a certificate's key, as the factor `key` names it."""
    oid = certificate.public_key_algorithm_oid.dotted_string
    if oid.startswith(_ML_DSA_OID):
        return _ML_DSA.get(int(oid.rpartition(".")[2]), oid)
    public = certificate.public_key()
    if isinstance(public, EllipticCurvePublicKey):
        return f"p-{public.key_size}"
    return f"rsa-{public.key_size}" if isinstance(public, RSAPublicKey) else oid


# --- Captured EAP-AKA authentications, recomputed step by step ---
# Response, keys and MACs are computed from the subscriber's key and the challenge, and compared
# with the capture. No output of daemons or programs is used.

_ANSWER = b"AKA-RESP-AUTH "


def read_vectors(file: Path) -> list[tuple[bytes, bytes]]:
    """Return RAND and AUTN of each challenge that the subscriber server (HSS) sent."""
    words = [datagram.payload.split() for datagram in pcap.udp_datagrams(file)
             if datagram.source_port == DIAMETER_PORT and datagram.payload.startswith(_ANSWER)]
    return [(bytes.fromhex(reply[2].decode()), bytes.fromhex(reply[3].decode()))
            for reply in words if len(reply) == 7]


def find_challenge_faults(exchanges: Sequence[Exchange], vectors: Sequence[tuple[bytes, bytes]],
                          secrets: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Recompute EAP-AKA authentications with the subscriber's key, and list differences.

    Args:
        exchanges: captured authentications.
        vectors: RAND and AUTN of the subscriber server's challenges.
        secrets: secrets of the run.

    Returns:
        Up to three reasons, none if all values agree.
    """
    shared = MilenageKey.from_secrets(secrets["subscriber"])
    return [reason for exchange in exchanges for reason in _find_exchange_faults(
        exchange, vectors, shared, secrets["network"]["radius_secret"].encode())][:3]


def _find_exchange_faults(exchange: Exchange, vectors: Sequence[tuple[bytes, bytes]],
                          shared: MilenageKey, secret: bytes) -> Iterator[str]:
    """Yield the differences between a captured EAP-AKA authentication and the recomputed one.

    `secret` is the RADIUS secret, which protects the keys for the access point.
    """
    packets = [packet for eap in exchange.aka if (packet := eap_aka.parse_aka_packet(eap))]
    recomputed = recompute_challenge(packets, exchange.user, shared)
    if recomputed.request is None:
        yield from recomputed.faults
        return
    if (recomputed.request.rand, recomputed.request.autn) not in vectors:
        yield "a challenge that the subscriber server gave nobody"
    yield from recomputed.faults
    sent_keys = [(key.receive, key.send) for key in eap.session_keys(exchange.last, secret)]
    if sent_keys != [(recomputed.msk[:32], recomputed.msk[32:])]:
        yield "the access point was given other keys than the challenge makes"
