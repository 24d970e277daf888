"""Read EAP from captures: session keys, EAP-AKA challenges, and EAP inside TLS.

Checks use this module after a measurement, and query no daemon or kernel. `session_keys` takes
RADIUS messages and the shared secret, and returns the keys in each Access-Accept (RFC 2548, 2.4.2
and 2.4.3). With them, `wep_keys` decrypts the WEP keys that an access point sends (IEEE
802.1X-2001, 7.6). `recompute_aka_authentications` computes EAP-AKA again with the subscriber's key,
and returns differences from the packets. `read_inner_eap_frames` returns EAP frames with the
content of their TLS tunnel.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from measure.capture import pcap, tshark
from measure.capture.pcap import CapturedFrame

#: UDP port of RADIUS.
RADIUS_PORT = 1812
#: TCP port of RADIUS inside TLS, and the fixed shared secret there (RFC 6614).
RADSEC_PORT, RADSEC_SECRET = 2083, b"radsec"
ACCESS_REQUEST, ACCESS_ACCEPT = 1, 2
_RADIUS_BYTES, _BLOCK = 20, 16
_VENDOR_SPECIFIC, _MICROSOFT, _SEND_KEY, _RECEIVE_KEY = 26, 311, 16, 17
_CALLING_STATION_ID, _STATE, _PROXY_STATE = 31, 24, 33
#: UDP port of RADIUS accounting, codes of its messages, and the status of a session's start.
ACCOUNTING_PORT = 1813
_ACCOUNTING_REQUEST, _ACCOUNTING_RESPONSE, _STATUS_TYPE, _START = 4, 5, 40, 1
_USER_NAME, _MESSAGE_AUTHENTICATOR, _MAC_BYTES = 1, 80, 16
#: Attributes of a tunnel, the tunnel type VLAN, the medium 802, and the last tag of a tunnel.
_TUNNEL_TYPE, _TUNNEL_MEDIUM, _TUNNEL_GROUP = 64, 65, 81
_VLAN_TUNNEL, _IEEE_802, _LAST_TUNNEL_TAG = 13, 6, 0x1F
#: EAPOL type of key frames, the RC4 descriptor, and the layout of such a frame.
_KEY, _RC4 = 3, 1
_KEY_FRAME = struct.Struct("!BBHBH8x16sB16s")


@dataclass(frozen=True)
class SessionKey:
    """The two halves of an EAP master session key, as a RADIUS Access-Accept delivers them."""

    receive: bytes
    send: bytes
    #: The station's Calling-Station-Id, "" if the access point sent none.
    station: str = field(default="", compare=False)


def session_keys(messages: Iterable[bytes], secret: bytes) -> list[SessionKey]:
    """Return the EAP session key in each RADIUS Access-Accept that has one, in order.

    Args:
        messages: RADIUS messages in order.
        secret: The shared secret.
    """
    requests: dict[int, bytes] = {}
    stations: dict[int, str] = {}
    keys = []
    for message in messages:
        if len(message) < _RADIUS_BYTES:
            continue
        if message[0] == ACCESS_REQUEST:
            requests[message[1]] = message[4:_RADIUS_BYTES]
            stations[message[1]] = _calling_station(message[_RADIUS_BYTES:])
        elif message[0] == ACCESS_ACCEPT and message[1] in requests:
            attributes = dict(_vendor_attributes(message[_RADIUS_BYTES:]))
            if {_SEND_KEY, _RECEIVE_KEY} <= attributes.keys():
                authenticator = requests[message[1]]
                receive, send = (_decrypt_key(attributes[kind], secret, authenticator)
                                 for kind in (_RECEIVE_KEY, _SEND_KEY))
                keys.append(SessionKey(receive, send, stations[message[1]]))
    return keys


def _calling_station(attributes: bytes) -> str:
    """Return the station's MAC address in a RADIUS request (Calling-Station-Id, RFC 3580)."""
    text = dict(parse_attributes(attributes)).get(_CALLING_STATION_ID, b"")
    return text.decode("ascii", "replace").replace("-", ":").lower()


def _vendor_attributes(attributes: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and value of each Microsoft vendor attribute in a RADIUS message."""
    for kind, value in parse_attributes(attributes):
        if kind == _VENDOR_SPECIFIC and value[:4] == struct.pack("!I", _MICROSOFT):
            yield from parse_attributes(value[4:])


def split_radius_logins(messages: Iterable[tuple[float, bytes]],
                        mac: str) -> Iterator[tuple[float, list[bytes]]]:
    """Yield the RADIUS messages of each accepted authentication of a station, with its end time.

    An authentication begins with a request without State. Each further request has the State of the
    reply before it, so that requests of an abandoned authentication, which the access point repeats
    later, are told apart. A repeated message is equal in every byte, and counts once.

    Args:
        messages: Time and content of RADIUS messages in order.
        mac: The station's MAC address.
    """
    seen: set[bytes] = set()
    #: Messages of each authentication, by the State of its last reply or the number of its request.
    continued: dict[bytes | None, list[bytes]] = {}
    waiting: dict[int, list[bytes]] = {}
    for at_s, message in messages:
        if len(message) < _RADIUS_BYTES or message in seen:
            continue
        attributes = message[_RADIUS_BYTES:]
        state, number = dict(parse_attributes(attributes)).get(_STATE), message[1]
        if message[0] == ACCESS_REQUEST:
            if _calling_station(attributes) == mac:
                seen.add(message)
                waiting[number] = [*continued.pop(state, []), message]
        elif so_far := waiting.pop(number, None):
            seen.add(message)
            so_far.append(message)
            if message[0] == ACCESS_ACCEPT:
                yield at_s, so_far
            elif state is not None:
                continued[state] = so_far


def measure_proxy_state(message: bytes) -> int:
    """Return the size of the attributes Proxy-State in a RADIUS message (bytes)."""
    return sum(2 + len(value) for kind, value in parse_attributes(message[_RADIUS_BYTES:])
               if kind == _PROXY_STATE)


def parse_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and value of each attribute behind a RADIUS header, or in a vendor's attribute."""
    while len(data) >= 2 and 2 <= data[1] <= len(data):
        yield data[0], data[2:data[1]]
        data = data[data[1]:]


# --- Message-Authenticator (RFC 3579, 3.2): an HMAC-MD5 over a RADIUS message ---

#: User of the requests that test a server.
PROBE_USER = b"radius-probe"


def build_access_request(number: int, name: bytes, authenticator: bytes,
                         secret: bytes = b"") -> bytes:
    """Return an Access-Request without EAP, with a Message-Authenticator if a secret is given."""
    attributes = bytes((_USER_NAME, 2 + len(name))) + name
    if secret:
        attributes += bytes((_MESSAGE_AUTHENTICATOR, 2 + _MAC_BYTES)) + bytes(_MAC_BYTES)
    size = _RADIUS_BYTES + len(attributes)
    message = bytes((ACCESS_REQUEST, number)) + size.to_bytes(2, "big") + authenticator + attributes
    return message[:-_MAC_BYTES] + hmac.digest(secret, message, "md5") if secret else message


def read_user_name(message: bytes) -> bytes:
    """Return the user's name in a RADIUS message, b"" without one."""
    return dict(parse_attributes(message[_RADIUS_BYTES:])).get(_USER_NAME, b"")


def read_tunnel_vlan(message: bytes) -> int | None:
    """Return the VLAN that an Access-Accept names (RFC 3580, 3.31), None for none."""
    attributes = dict(parse_attributes(message[_RADIUS_BYTES:]))
    # The first byte of each is the tag of the tunnel (RFC 2868, 3.1); a text may have none.
    kind, medium = (int.from_bytes(attributes.get(name, b"")[1:], "big")
                    for name in (_TUNNEL_TYPE, _TUNNEL_MEDIUM))
    group = attributes.get(_TUNNEL_GROUP, b"").lstrip(bytes(range(_LAST_TUNNEL_TAG + 1)))
    if (kind, medium) != (_VLAN_TUNNEL, _IEEE_802) or not group.isdigit():
        return None
    return int(group)


def is_authentic(message: bytes, secret: bytes, authenticator: bytes) -> bool:
    """Return whether a RADIUS message has a Message-Authenticator made with the secret.

    Args:
        message: The message.
        secret: The shared secret.
        authenticator: The authenticator of the request that the message is, or answers.
    """
    at = _RADIUS_BYTES
    while at + 2 <= len(message) and message[at + 1] >= 2:
        end = at + message[at + 1]
        if message[at] == _MESSAGE_AUTHENTICATOR and end - at == 2 + _MAC_BYTES:
            blank = message[:4] + authenticator + message[_RADIUS_BYTES:at + 2] + bytes(
                _MAC_BYTES) + message[end:]
            return hmac.compare_digest(hmac.digest(secret, blank, "md5"), message[at + 2:end])
        at = end
    return False


# --- Accounting (RFC 2866): the authenticator of each message is an MD5 with the secret ---

def find_started_sessions(messages: Iterable[bytes], secret: bytes) -> list[tuple[str, bool]]:
    """Return the sessions that an access point reports as started.

    Each has its station's MAC address, and whether request and response are authentic.

    Args:
        messages: Messages of RADIUS accounting in order.
        secret: The shared secret.
    """
    requests: dict[int, bytes] = {}
    sessions: dict[str, bool] = {}
    for message in messages:
        if len(message) < _RADIUS_BYTES:
            continue
        if message[0] == _ACCOUNTING_REQUEST and _has_digest(message, bytes(16), secret):
            requests[message[1]] = message
            attributes = dict(parse_attributes(message[_RADIUS_BYTES:]))
            if int.from_bytes(attributes.get(_STATUS_TYPE, b""), "big") == _START:
                sessions.setdefault(_calling_station(message[_RADIUS_BYTES:]), False)
        elif message[0] == _ACCOUNTING_RESPONSE and (request := requests.get(message[1])):
            station = _calling_station(request[_RADIUS_BYTES:])
            if station in sessions and _has_digest(message, request[4:_RADIUS_BYTES], secret):
                sessions[station] = True
    return list(sessions.items())


def _has_digest(message: bytes, authenticator: bytes, secret: bytes) -> bool:
    digest = hashlib.md5(message[:4] + authenticator + message[_RADIUS_BYTES:] + secret,
                         usedforsecurity=False).digest()
    return hmac.compare_digest(digest, message[4:_RADIUS_BYTES])


def _decrypt_key(value: bytes, secret: bytes, authenticator: bytes) -> bytes:
    """Decrypt a key in a RADIUS attribute: salt, then blocks masked by MD5.

    Each mask is the MD5 of the secret and the previous block.
    """
    salt, hidden = value[:2], value[2:]
    before, plain = authenticator + salt, b""
    for at in range(0, len(hidden), _BLOCK):
        block = hidden[at:at + _BLOCK]
        mask = hashlib.md5(secret + before, usedforsecurity=False).digest()
        plain += bytes(a ^ b for a, b in zip(block, mask, strict=False))
        before = block
    return plain[1:1 + plain[0]] if plain else b""


def wep_keys(frames: Iterable[bytes], known: Sequence[SessionKey]) -> list[bytes]:
    """Return each WEP key in EAPOL frames that an EAP session key signs.

    Args:
        frames: EAPOL frames, from the version byte on.
        known: The session keys.
    """
    keys: dict[bytes, None] = {}
    for frame in frames:
        if len(frame) < _KEY_FRAME.size:
            continue
        _, kind, length, descriptor, size, vector, _, signature = _KEY_FRAME.unpack_from(frame)
        packet = frame[:4 + length]
        if (kind, descriptor) != (_KEY, _RC4):
            continue
        blank = packet[:_KEY_FRAME.size - 16] + bytes(16) + packet[_KEY_FRAME.size:]
        for session in known:
            if hmac.compare_digest(hmac.digest(session.send, blank, "md5"), signature):
                hidden = packet[_KEY_FRAME.size:][:size]
                keys[rc4(vector + session.receive, hidden) if hidden
                     else session.receive[:size]] = None
    return list(keys)


@lru_cache
def _library_rc4_bits() -> frozenset[int]:
    """Return the sizes of RC4 keys in bits that the library accepts, none without the library."""
    try:
        # Imported here: the container image lacks it.
        from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
    except ImportError:
        return frozenset()
    return frozenset(ARC4.key_sizes)


def rc4(key: bytes, data: bytes) -> bytes:
    """Encrypt or decrypt data with RC4.

    Keys may have any size. The library accepts few: keys of 48 bytes, as they occur here, are not
    among them.
    """
    if len(key) * 8 in _library_rc4_bits():
        from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
        from cryptography.hazmat.primitives.ciphers import Cipher
        return Cipher(ARC4(key), None).encryptor().update(data)
    state, j = list(range(256)), 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    plain = bytearray()
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        plain.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(plain)


# --- EAP-AKA, recomputed with the subscriber's key ---
# Response and MACs follow from the subscriber's key and the challenge, and must equal those in the
# capture. The keys must equal those that the access point received.

_EAP_PACKET, _EAPOL_BYTES = 0, 4
_RESPONSE, _SUCCESS, _FAILURE, _IDENTITY = 2, 3, 4, 1


@dataclass(frozen=True)
class AkaAuthentication:
    """An EAP-AKA authentication: when it ended, and how it differs from the subscriber's key."""

    ended_s: float
    faults: Sequence[str]


def recompute_aka_authentications(stations: Iterable[Path], wires: Iterable[Path],
                                  secrets: Mapping[str, Mapping[str, str]],
                                  ) -> list[AkaAuthentication]:
    """Compute every completed EAP-AKA authentication again, and return the differences.

    Args:
        stations: Captures at the stations.
        wires: Captures behind access points.
        secrets: The run's secrets.

    Raises:
        MeasureError: A capture cannot be read.
    """
    # Imported here: the container image lacks the AES library, and judges all other policies.
    from protocols.aka import eap_aka
    from protocols.aka.eap_aka import recompute_challenge
    from protocols.aka.milenage import MilenageKey

    shared = MilenageKey.from_secrets(secrets["subscriber"])
    secret = secrets["network"]["radius_secret"].encode()
    handed = [session.receive + session.send for file in wires for session in session_keys(
        (message for _, message in pcap.udp_payloads(file, RADIUS_PORT)), secret)]
    authentications = []
    for file in stations:
        for ended_s, exchange in split_authentications(pcap.eapol_frames(file)):
            packets = [packet for eap in exchange
                       if (packet := eap_aka.parse_aka_packet(eap)) is not None]
            worked_out = recompute_challenge(packets, _first_identity(exchange), shared)
            faults = worked_out.faults
            if worked_out.msk not in handed:
                faults = (*faults, "the access point was not given the keys of the challenge")
            authentications.append(AkaAuthentication(ended_s, faults))
    return authentications


def split_authentications(frames: Iterable[tuple[float,
                                                  bytes]]) -> Iterator[tuple[float, list[bytes]]]:
    """Yield the EAP packets of each completed authentication, with its end time.

    A retransmitted packet is equal in every byte (RFC 3748, 4.1), and counts once.
    """
    so_far: list[bytes] = []
    for at_s, frame in frames:
        if len(frame) < _EAPOL_BYTES + 4 or frame[1] != _EAP_PACKET:
            continue
        eap = frame[_EAPOL_BYTES:]
        eap = eap[:int.from_bytes(eap[2:4], "big")]
        if eap not in so_far:
            so_far.append(eap)
        if eap[0] in (_SUCCESS, _FAILURE):
            if len(so_far) > 1:
                yield at_s, so_far
            so_far = []


def _first_identity(exchange: Sequence[bytes]) -> str:
    """Return the first identity that the station sent in an EAP conversation."""
    return next((eap[5:].decode("utf-8", "replace") for eap in exchange
                 if eap[0] == _RESPONSE and len(eap) > 5 and eap[4] == _IDENTITY), "")


# --- EAP inside TLS, decrypted with the server's TLS keys ---

_NAMES = ("frame.time_epoch", "eth.src", "eap.type", "eap.identity", "tls.handshake.type",
          "tls.handshake.extensions.supported_version", "tls.handshake.extensions_key_share_group",
          "tls.handshake.ciphersuite", "tls.handshake.server_named_curve",
          "tls.handshake.version", "diameter.avp.code", "data.data", "eap.len",
          "eap.tls.flags.more_fragments", "tls.handshake.certificate_length",
          "tls.handshake.sig_len", "tls.handshake.client_cert_vrfy.sig_len",
          "tls.handshake.sig_hash_alg", "x509af.serialNumber", "radius.code", "diameter.User-Name",
          "eap.code", "x509ce.dNSName", "tls.alert_message.desc")
#: Length of an EAP header, and type of EAP-TLS.
_EAP_HEADER_BYTES, _EAP_TLS = 4, 13
#: The PEAP dissector would take an inner identity request for the start of another conversation.
_PLAIN = ("--disable-protocol", "peap")


@dataclass(frozen=True)
class InnerEapFrame:
    """An EAP frame at the mobile node's interface, with the fields decrypted from TLS.

    - `types`, `identities`: EAP types and identities, outside and inside of TLS
    - `handshakes`: types of the TLS handshake messages
    """

    time_s: float
    source: str
    types: tuple[int, ...]
    identities: tuple[str, ...]
    handshakes: tuple[int, ...]
    #: Offer or choice of a TLS hello: versions, groups of key shares, cipher suites and named
    #: curve.
    versions: tuple[int, ...]
    groups: tuple[int, ...]
    suites: tuple[int, ...]
    curves: tuple[int, ...]
    #: AVP codes that TTLS carries, and the content of PEAP.
    attributes: tuple[int, ...]
    data: tuple[bytes, ...]
    #: Signature algorithms in order: lists of hellos and requests, last that of CertificateVerify.
    signatures: tuple[int, ...] = ()
    #: Length of the EAP packet on the air, and whether further fragments of TLS follow.
    size_bytes: int = 0
    has_more: bool = False
    #: Lengths of certificates and of signatures in TLS handshake messages (bytes).
    certificates: tuple[int, ...] = ()
    signatures_bytes: tuple[int, ...] = ()
    #: Serial numbers of certificates, that of the sender first.
    serials: tuple[int, ...] = ()
    #: Code of the RADIUS message that carries the frame, 0 on the air.
    radius_code: int = 0
    #: Names of the user in TTLS (AVP User-Name).
    user_names: tuple[str, ...] = ()
    #: Code of the EAP packet: request, response, success or failure.
    code: int = 0
    #: DNS names in certificates, in lower case.
    dns_names: tuple[str, ...] = ()
    #: TLS alerts (descriptions of RFC 8446, 6).
    alerts: tuple[int, ...] = ()

    @property
    def inner_names(self) -> tuple[str, ...]:
        """Return the user's names that a station sends inside the tunnel of PEAP or TTLS.

        PEAP version 0 has the EAP identity without the EAP header.
        """
        identities = (data[1:].decode("utf-8", "replace") for data in self.data
                      if data[:1] == bytes((_IDENTITY,)) and len(data) > 1)
        return (*self.user_names, *identities)


def read_inner_eap_frames(capture: Path, keys: Sequence[str]) -> list[InnerEapFrame]:
    """Read the EAP frames of a capture, with the content of their TLS tunnel.

    Args:
        capture: The capture file.
        keys: Lines of an SSLKEYLOGFILE.

    Raises:
        MeasureError: tshark cannot read the file.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
        file.write("".join(f"{line}\n" for line in keys))
        file.flush()
        rows = tshark.read_fields(capture, _NAMES, "eap",
                                  options=[*_PLAIN, "-o", f"tls.keylog_file:{file.name}"])
    return [_parse_frame(dict(zip(_NAMES, row, strict=True))) for row in rows]


def read_nested_eap_frames(frames: Sequence[InnerEapFrame], mac: str,
                           keys: Sequence[str]) -> list[InnerEapFrame]:
    """Read EAP-TLS that the tunnel of PEAP carries, with the content of its own TLS.

    PEAP leaves the EAP header out inside (version 0). With the header, tshark reads the packets as
    it reads EAP-TLS without a tunnel.

    Args:
        frames: The EAP frames at one access point, with what the tunnel carries.
        mac: The mobile node's MAC address.
        keys: Lines of an SSLKEYLOGFILE, with the keys of both TLS connections.

    Raises:
        MeasureError: tshark cannot read the packets.
    """
    nested_frames, identifier = list[CapturedFrame](), 0
    server = next((frame.source for frame in frames if frame.source != mac), mac)
    for frame in frames:
        is_response = frame.source == mac
        for data in frame.data:
            if data[:1] != bytes((_EAP_TLS,)):
                continue
            identifier += not is_response
            packet = struct.pack("!BBH", _RESPONSE if is_response else tshark.EAP_REQUEST,
                                 identifier % 256, _EAP_HEADER_BYTES + len(data)) + data
            target, source = (server, mac) if is_response else (mac, server)
            body = (_hex_address(target) + _hex_address(source) + struct.pack(
                "!HBBH", pcap.EAPOL, 2, _EAP_PACKET, len(packet)) + packet)
            nested_frames.append(CapturedFrame(frame.time_s, body, len(body)))
    with tempfile.TemporaryDirectory(prefix="qop-") as folder:
        file = Path(folder, "nested.pcap")
        pcap.write_frames(file, nested_frames)
        return read_inner_eap_frames(file, keys) if nested_frames else []


def _hex_address(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def _parse_frame(c: Mapping[str, str]) -> InnerEapFrame:
    versions = (tshark.parse_numbers(c["tls.handshake.extensions.supported_version"])
                or tshark.parse_numbers(c["tls.handshake.version"]))
    return InnerEapFrame(
        float(c["frame.time_epoch"]), c["eth.src"].partition(",")[0],
        tshark.parse_numbers(c["eap.type"]),
        tuple(filter(None, c["eap.identity"].split(","))),
        tshark.parse_numbers(c["tls.handshake.type"]),
        versions, tshark.parse_numbers(c["tls.handshake.extensions_key_share_group"]),
        tshark.parse_numbers(c["tls.handshake.ciphersuite"]),
        tshark.parse_numbers(c["tls.handshake.server_named_curve"]),
        tshark.parse_numbers(c["diameter.avp.code"]),
        tuple(bytes.fromhex(entry) for entry in c["data.data"].split(",") if entry),
        tshark.parse_numbers(c["tls.handshake.sig_hash_alg"]),
        next(iter(tshark.parse_numbers(c["eap.len"])), 0),
        tshark.is_set(c["eap.tls.flags.more_fragments"]),
        tshark.parse_numbers(c["tls.handshake.certificate_length"]),
        tuple(size for name in ("tls.handshake.sig_len", "tls.handshake.client_cert_vrfy.sig_len")
              for size in tshark.parse_numbers(c[name])),
        tuple(int(serial, 16) for serial in c["x509af.serialNumber"].split(",") if serial),
        next(iter(tshark.parse_numbers(c["radius.code"])), 0),
        tuple(filter(None, c["diameter.User-Name"].split(","))),
        next(iter(tshark.parse_numbers(c["eap.code"])), 0),
        tuple(name.casefold() for name in c["x509ce.dNSName"].split(",") if name),
        tshark.parse_numbers(c["tls.alert_message.desc"]))
