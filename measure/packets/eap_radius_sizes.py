"""Compute the EAP and RADIUS packets of an authentication, and compare them with captured ones.

The command `./qop cost` shows the result, and checks compare it with captures. `compute_packets`
takes an `EapLogin`: certificates, kinds of keys, TLS version and fragment sizes. It returns the EAP
and RADIUS packets in order, with their sizes (`LoginPackets`). `measure_request` returns how long
the attributes of an access point's request are. Nothing of a capture is an input, except for
`describe_difference` and `describe_radius_difference`, which compare both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from measure.packets import eap
from measure.packets.eap_tls_sizes import (
    HEAD_BYTES,
    RELEASES,
    SERVER,
    STATION,
    EapLogin,
    Flight,
    encrypt_content,
)

#: EAP code of a response.
_RESPONSE = 2
#: Headers of an EAP packet, and of one with TLS, with and without the length of the TLS message.
_EAP_HEADER, _EAP_HEAD, _EAP_LONG_HEAD = 4, 6, 10
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
#: How much shorter a signature of ECDSA is at most; four bytes less occur once in 10,000.
_ECDSA_SHORTER_BYTES = 4


class EapPacket(NamedTuple):
    """An EAP packet: its sender, and its size (bytes)."""

    sender: str
    size: int


class RadiusPacket(NamedTuple):
    """A RADIUS packet: whether it is a request of the access point, and its size (bytes)."""

    is_request: bool
    size: int


class Problem(NamedTuple):
    """A limit of FreeRADIUS that an authentication exceeds: the value, the limit, and the text."""

    value: int
    limit: int
    fact: str


@dataclass(frozen=True)
class LoginPackets:
    """The packets of an authentication, in order.

    `problems` has the limits of the server that the authentication exceeds. It is empty if the
    server accepts the authentication. If it is not empty, `eap` and `radius` are the packets that
    a server without these limits would exchange.
    """

    eap: Sequence[EapPacket]
    radius: Sequence[RadiusPacket]
    problems: Sequence[Problem] = field(default=())

    @property
    def round_trips(self) -> int:
        """Return the number of requests to the RADIUS server, which answers each of them."""
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
        """Return the number of IP packets that carry all RADIUS packets, with an MTU of 1500."""
        return sum(map(ip_fragments, self.radius))


def ip_fragments(packet: RadiusPacket) -> int:
    """Return the number of IP packets that carry a RADIUS packet."""
    payload = (_MTU - 20) // 8 * 8
    return -(-(packet.size + _IP_UDP - 20) // payload)


def compute_packets(login: EapLogin) -> LoginPackets:
    """Return the EAP and RADIUS packets of an authentication that nothing disturbs.

    The first is the access point's request for the identity, the last EAP-Success. Frames of EAPOL
    without EAP (EAPOL-Start, keys) are not counted.
    """
    packets = list(_eap_packets(login))
    exchanged = LoginPackets(packets, list(_radius_packets(login, packets[1:])))
    return replace(exchanged, problems=list(_find_problems(login, exchanged.round_trips)))


# --- EAP packets ---

def _eap_packets(login: EapLogin) -> Iterator[EapPacket]:
    yield EapPacket(SERVER, _EAP_HEADER + 1)
    yield EapPacket(STATION, _EAP_HEADER + 1 + len(login.identity))
    if login.first_offer not in ("", login.method):  # the station's NAK names another method
        yield EapPacket(SERVER, _MD5_BYTES if login.first_offer == "MD5" else _EAP_HEAD)
        yield EapPacket(STATION, _EAP_HEADER + 2)
    if login.method == "MD5":
        yield EapPacket(SERVER, _MD5_BYTES)
        yield EapPacket(STATION, _MD5_BYTES)
    else:
        yield EapPacket(SERVER, _EAP_HEAD)  # the method's start
        yield from _tls_packets(login)
    yield EapPacket(SERVER, _EAP_HEADER)


#: A request or response of EAP-MD5: type, length of the value, and the value.
_MD5_BYTES = _EAP_HEADER + 2 + 16


def _tls_packets(login: EapLogin) -> Iterator[EapPacket]:
    """Yield the EAP packets with TLS, and the EAP packets that acknowledge them.

    The receiver acknowledges each fragment except the last fragment of a flight. If the sender of a
    flight also sends the next flight, the receiver acknowledges the last fragment, too. If the last
    flight is the server's, the station acknowledges it.
    """
    before = ""
    for flight, is_handshake in _all_flights(login):
        if flight.sender == before:
            # An empty message of the server's in TTLS has a length, too.
            is_long = before == STATION and login.method == "TTLS"
            yield EapPacket(_other_side(before), _EAP_LONG_HEAD if is_long else _EAP_HEAD)
        pieces = _server_pieces(login, flight.size) if flight.sender == SERVER \
            else _client_pieces(login, flight.size, has_length=is_handshake)
        for number, piece in enumerate(pieces):
            if number:
                yield EapPacket(_other_side(flight.sender), _EAP_HEAD)
            yield EapPacket(flight.sender, piece)
        before = flight.sender
    if before == SERVER:
        yield EapPacket(STATION, _EAP_HEAD)


def _other_side(sender: str) -> str:
    return STATION if sender == SERVER else SERVER


def _all_flights(login: EapLogin) -> Iterator[tuple[Flight, bool]]:
    """Yield the flights of the TLS handshake, then the flights of the inner method.

    Each flight comes with a boolean: whether its sender is a station with PEAP whose TLS handshake
    is not yet complete.
    """
    handshake = list(login.list_flights())
    last = max(place for place, flight in enumerate(handshake) if flight.sender == STATION)
    # The station sends the handshake's last message in TLS 1.3, and in a resumed session.
    completes = login.version == "1.3" or login.is_resumed
    for place, flight in enumerate(handshake):
        yield flight, (login.method == "PEAP" and flight.sender == STATION
                       and not (completes and place == last))
    for sender, size in list_contents(login):
        yield Flight(sender, encrypt_content(size, login.version)), False


def _server_pieces(login: EapLogin, size: int) -> Iterator[int]:
    """Yield the sizes of the EAP packets with a flight of the server's.

    Each packet has the total length of the flight (FreeRADIUS' include_length). With PEAP, only the
    first packet of a fragmented flight has it.
    """
    margin = RELEASES[login.release].fragment_margin if login.method != "PEAP" else \
        NESTED_MARGIN * (login.inner == "TLS")
    room = login.fragment_bytes - margin - _EAP_LONG_HEAD
    for place in range(0, size, room):
        has_length = login.method != "PEAP" or (size > room and not place)
        yield (_EAP_LONG_HEAD if has_length else _EAP_HEAD) + min(room, size - place)


def _client_pieces(login: EapLogin, size: int, *, has_length: bool) -> Iterator[int]:
    """Yield the sizes of the EAP packets with a flight of the station's.

    The first packet of a fragmented flight has the total length. With `has_length`, all packets
    have it.
    """
    room = login.client_fragment_bytes
    for place in range(0, size, room):
        is_long = has_length or (size > room and not place)
        yield (_EAP_LONG_HEAD if is_long else _EAP_HEAD) + min(room, size - place)


# --- Methods inside a tunnel ---

#: EAP-Request/Identity, and the result of PEAP (EAP-TLV) in either direction. Both have an EAP
#: header inside, and other packets of PEAP version 0 have none.
_INNER_IDENTITY, _INNER_RESULT = 5, 11
#: What the station answers to the encrypted byte by which the server completes TLS 1.3.
_INNER_ANSWER = 2
#: With EAP-TLS inside PEAP, packets have less room (bytes, all read in captures): FreeRADIUS' PEAP
#: packets than without EAP-TLS inside, FreeRADIUS' inner packets than its PEAP packets, and
#: wpa_supplicant's inner packets than its EAP-TLS packets outside of a tunnel.
NESTED_MARGIN, _NESTED_SERVER_MARGIN, _NESTED_CLIENT_MARGIN = 10, 63, 100
#: MSCHAPv2: type, code, identifier, length and length of the value; challenge and response.
_MSCHAP_HEAD, _MSCHAP_CHALLENGE, _MSCHAP_RESPONSE = 6, 16, 49
#: MSCHAPv2's success with the server's proof (S=, 40 digits), and its confirmation.
_MSCHAP_SUCCESS, _MSCHAP_CONFIRMATION = 5 + 42, 2
#: FreeRADIUS' question of EAP-GTC: "Password: ".
_GTC_QUESTION = 10
#: Headers of an attribute in TTLS, without and with a vendor (RFC 5281, 10.1).
_AVP, _VENDOR_AVP = 8, 12
#: Attributes that TTLS carries for each method, besides User-Name: their headers and contents.
_TTLS_ATTRIBUTES = {
    "CHAP": (_AVP + 16, _AVP + 17),
    "MSCHAP": (_VENDOR_AVP + 8, _VENDOR_AVP + 50),
    "MSCHAPV2": (_VENDOR_AVP + 16, _VENDOR_AVP + 50),
}
#: MS-CHAP2-Success: identifier and the server's proof.
_TTLS_SUCCESS = _VENDOR_AVP + 1 + 42


def list_contents(login: EapLogin) -> Iterator[Flight]:
    """Yield the messages inside the tunnel of PEAP or TTLS, with sizes before encryption."""
    if login.method == "PEAP":
        if login.is_resumed and login.version == "1.3":
            yield Flight(STATION, _INNER_ANSWER)
        elif not login.is_resumed:
            yield Flight(SERVER, _INNER_IDENTITY)
            yield Flight(STATION, 1 + len(login.user))
            yield from _peap_method(login)
        yield Flight(SERVER, _INNER_RESULT)
        yield Flight(STATION, _INNER_RESULT)
    elif login.method == "TTLS" and not login.is_resumed:
        attributes = _TTLS_ATTRIBUTES.get(login.inner) or (
            _AVP + -(-login.password_bytes // 16) * 16,)  # PAP: in blocks of 16 bytes
        yield Flight(STATION, sum(map(_pad_attribute, (_AVP + len(login.user), *attributes))))
        if login.inner == "MSCHAPV2":
            yield Flight(SERVER, _pad_attribute(_TTLS_SUCCESS))


def _pad_attribute(size: int) -> int:
    return -(-size // 4) * 4


def _peap_method(login: EapLogin) -> Iterator[Flight]:
    """Yield the packets of the EAP method inside PEAP, without their EAP headers."""
    if login.inner == "MSCHAPV2":
        yield Flight(SERVER, _MSCHAP_HEAD + _MSCHAP_CHALLENGE
                     + RELEASES[login.release].mschap_name)
        yield Flight(STATION, _MSCHAP_HEAD + _MSCHAP_RESPONSE + len(login.user))
        yield Flight(SERVER, _MSCHAP_SUCCESS)
        yield Flight(STATION, _MSCHAP_CONFIRMATION)
    elif login.inner == "GTC":
        yield Flight(SERVER, 1 + _GTC_QUESTION)
        yield Flight(STATION, 1 + login.password_bytes)
    elif login.inner == "TLS":
        nested = replace(
            login, method="TLS", inner="",
            fragment_bytes=login.fragment_bytes - NESTED_MARGIN - _NESTED_SERVER_MARGIN,
            client_fragment_bytes=login.client_fragment_bytes - _NESTED_CLIENT_MARGIN)
        yield Flight(SERVER, _EAP_HEAD - _EAP_HEADER)
        for packet in _tls_packets(nested):
            yield Flight(packet.sender, packet.size - _EAP_HEADER)


# --- RADIUS packets ---

#: Attributes of hostapd's Access-Request that have one size: NAS-IP-Address, NAS-Port-Type,
#: Service-Type, NAS-Port, Calling-Station-Id, Connect-Info, Acct-Session-Id, Framed-MTU.
_REQUEST_BYTES = 6 + 6 + 6 + 6 + 19 + 24 + 18 + 6
#: The access point's radio in Called-Station-Id, with the colon before the SSID.
_CALLED_BYTES = 17 + 1
#: Attributes that depend on the policy: WLAN-Pairwise-Cipher, WLAN-Group-Cipher and WLAN-AKM-Suite
#: with WPA; Acct-Multi-Session-Id with WPA2; WLAN-Group-Mgmt-Cipher; Mobility-Domain-Id.
_WPA_BYTES, _RSN_BYTES, _PROTECTED_BYTES, _FAST_BYTES = 18, 18, 6, 6
#: Attributes of a reply with a VLAN, without the VLAN's number.
_VLAN_BYTES = 6 + 6 + _ATTRIBUTE


def measure_request(access_point: str, ssid: str, *, has_wpa: bool = True, is_rsn: bool = True,
                    is_protected: bool = True, is_fast: bool = False) -> int:
    """Return the size of the attributes of hostapd's Access-Request that a policy decides (bytes).

    User-Name, State, EAP-Message and Message-Authenticator are not among them.

    Args:
        access_point: NAS-Identifier of the access point.
        ssid: Name of the network.
        has_wpa: Whether the link layer has keys by WPA, of any version.
        is_rsn: Whether it has WPA2 or WPA3.
        is_protected: Whether the access point protects management frames.
        is_fast: Whether the station uses fast transition.
    """
    return (_REQUEST_BYTES + _ATTRIBUTE + len(access_point)
            + _ATTRIBUTE + _CALLED_BYTES + len(ssid.encode())
            + _WPA_BYTES * has_wpa + _RSN_BYTES * is_rsn + _PROTECTED_BYTES * is_protected
            + _FAST_BYTES * is_fast)


def measure_vlan(vlan: int) -> int:
    """Return the size of the attributes that put a station into a VLAN, 0 for none (bytes)."""
    return _VLAN_BYTES + len(str(vlan)) if vlan else 0


def _radius_packets(login: EapLogin, packets: Sequence[EapPacket]) -> Iterator[RadiusPacket]:
    name = _ATTRIBUTE + len(login.identity)
    keys = _KEYS * (login.method != "MD5")
    for number, packet in enumerate(packets):
        size = _RADIUS_HEAD + _AUTHENTICATOR + packet.size + _ATTRIBUTE * -(
            -packet.size // _ATTRIBUTE_LIMIT)
        if packet.sender == STATION:
            size += login.request_bytes + name + _STATE * (number > 0)
        elif number == len(packets) - 1:
            size += keys + name + login.accept_bytes
        else:
            size += _STATE
        yield RadiusPacket(packet.sender == STATION, size)


def _find_problems(login: EapLogin, trips: int) -> Iterator[Problem]:
    """Yield why FreeRADIUS refuses the authentication."""
    if login.method == "MD5":
        return
    longest = max(flight.size for flight in login.list_flights() if flight.sender == STATION)
    if longest > SERVER_MESSAGE_LIMIT:
        before = " before compression" if login.has_compression else ""
        yield Problem(longest, SERVER_MESSAGE_LIMIT, (
            f"the station's certificates and signature are {longest:,} bytes of TLS{before}, and "
            f"FreeRADIUS takes at most {SERVER_MESSAGE_LIMIT:,} in one message"))
    if trips - 1 > SERVER_REQUEST_LIMIT:
        yield Problem(trips, SERVER_REQUEST_LIMIT, (
            f"it takes {trips} requests to the RADIUS server, and FreeRADIUS ends a session after "
            f"{SERVER_REQUEST_LIMIT + 1}"))


# --- Computed and captured packets ---

def describe_difference(login: EapLogin, captured: Sequence[bytes]) -> str:
    """Return how captured EAP packets differ from the computed ones, "" if they do not.

    Signatures of ECDSA may be shorter than computed. If the station compresses its certificates,
    their compressed size is taken from the capture. Everything else must agree.

    Args:
        login: The inputs of the authentication.
        captured: The captured EAP packets in order, without retransmissions.
    """
    login, fault = _fit_compression(login, captured)
    if fault:
        return fault
    found = [(STATION if packet[0] == _RESPONSE else SERVER, len(packet)) for packet in captured]
    most, least = (compute_packets(each).eap for each in (login, _shorten_signatures(login)))
    return _compare_packets(found, most, least)


def describe_radius_difference(login: EapLogin, captured: Sequence[bytes],
                               messages: Sequence[bytes]) -> str:
    """Return how captured RADIUS packets differ from the computed ones, "" if they do not.

    The comparison ignores the attribute Proxy-State of a RadSec proxy. It holds the number of the
    access point's request, which has one to three digits.

    Args:
        login: The inputs of the authentication.
        captured: The captured EAP packets in order. They show the size of compressed certificates.
        messages: The captured RADIUS packets in order, without retransmissions.
    """
    login, _ = _fit_compression(login, captured)
    found = [(message[0] == eap.ACCESS_REQUEST, len(message) - eap.measure_proxy_state(message))
             for message in messages]
    most, least = (compute_packets(each).radius for each in (login, _shorten_signatures(login)))
    return _compare_packets(found, most, least)


def _compare_packets(captured: Sequence[tuple[object, int]], most: Sequence[tuple[object, int]],
                     least: Sequence[tuple[object, int]]) -> str:
    """Return how packets differ in number, direction or size from the computed ranges, or ""."""
    if [sender for sender, _ in captured] != [sender for sender, _ in most]:
        return f"{len(captured)} packets, {len(most)} computed"
    for number, ((_, size), (_, high), (_, low)) in enumerate(
            zip(captured, most, least, strict=True)):
        if not low <= size <= high:
            return f"packet {number + 1} of {len(captured)} has {size} bytes, {high} computed"
    return ""


def _fit_compression(login: EapLogin, captured: Sequence[bytes]) -> tuple[EapLogin, str]:
    """Return the inputs with the captured size of the station's compressed certificates.

    The second value says why this size is not possible. It is "" if the size is possible, or if the
    certificates are not compressed.
    """
    if not login.has_compression:
        return login, ""
    compressed = _find_compressed_bytes(login, captured)
    full = sum(login.client_chain)
    if not full * _LEAST_COMPRESSED <= compressed <= full + HEAD_BYTES * len(captured):
        return login, f"{compressed} bytes of compressed certificates, {full} uncompressed"
    return replace(login, compressed_bytes=compressed), ""


def _find_compressed_bytes(login: EapLogin, captured: Sequence[bytes]) -> int:
    """Return the captured size of the station's certificates, from all TLS data that it sent."""
    sent = sum(len(packet) - (_EAP_LONG_HEAD if packet[5] & _LENGTH_FLAG else _EAP_HEAD)
               for packet in captured if packet[0] == _RESPONSE and packet[4:5] == _EAP_TLS)
    empty = replace(login, compressed_bytes=0)
    return sent - sum(flight.size for flight in empty.list_flights() if flight.sender == STATION)


def _shorten_signatures(login: EapLogin) -> EapLogin:
    """Return the inputs with certificates of their smallest size, by short ECDSA signatures."""
    chains = {"server_chain": login.server_key, "client_chain": login.client_key}
    return replace(login, **{  # type: ignore[arg-type]
        name: [size - _ECDSA_SHORTER_BYTES * key.startswith("p-") - _ECDSA_SHORTER_BYTES
               * (key.startswith("p-") and not place)  # that of the handshake, too
               for place, size in enumerate(getattr(login, name))]
        for name, key in chains.items()})
