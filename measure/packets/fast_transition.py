"""Derive the keys of fast transition (802.11r) and check the MICs that captures have under them.

`derive_keys` takes a session's master key and the names of a network, a station and its key
holders. It returns the pairwise keys of the hierarchy, by way of PMK-R0 and PMK-R1 (IEEE
802.11-2020, 12.7.1.6). `read_initial_handshakes` and `read_reassociations` return the messages of
captures that have a MIC under these keys. So a check can tell with which hash they were made. The
hash is SHA-256, or SHA-384 with the 192-bit suite of WPA3-Enterprise (AKM 00-0F-AC:13), whose
master keys have 48 bytes.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from measure.capture.pcap import EAPOL, MAC_HEADER_BYTES, CapturedFrame, split_elements
from measure.packets.ciphers import compute_cmac, expand_kdf

#: Elements (IEEE 802.11-2020, table 9-92): RSN, mobility domain, fast transition, and RSN
#: extension.
_RSN, _MOBILITY_DOMAIN, _FAST_TRANSITION, _RSN_EXTENSION = 48, 54, 55, 244
#: Subelements of the fast transition element: key holders R1KH-ID and R0KH-ID.
_R1KH, _R0KH = 1, 3
_NONCE_BYTES, _MIC_CONTROL_BYTES, _DOMAIN_BYTES, _NAME_SALT_BYTES = 32, 2, 2, 16
#: First byte of a reassociation request and of its response, and bytes before their elements.
_REQUEST, _RESPONSE = 0x20, 0x30
_FIXED_BYTES = {_REQUEST: 10, _RESPONSE: 6}
#: Number of each message in a fast transition, which its MIC includes (13.8.4, 13.8.5).
_SEQUENCE = {_REQUEST: 5, _RESPONSE: 6}
#: EAPOL-Key frames: type, the station's nonce, MIC and the length of the key data behind it.
_KEY, _NONCE_AT, _MIC_AT, _LENGTH_BYTES = 3, slice(17, 49), 81, 2


@dataclass(frozen=True)
class HashSuite:
    """A hash of the key hierarchy, and the lengths of its keys in bytes.

    - `master`: PMK-R0 and PMK-R1, and the part of the session's master key that they come from
    - `check`, `wrap`: key confirmation key (KCK) and key encryption key (KEK)
    - `mic`: MIC of EAPOL-Key frames and of fast transition elements
    """

    digest: str
    master: int
    check: int
    wrap: int
    mic: int

    def take_master(self, session: bytes) -> bytes:
        """Return the root key (XXKey) of a session's master key (IEEE 802.11-2020, 12.7.1.6.3)."""
        start = self.master if self.digest == "sha256" else 0
        return session[start:start + self.master]

    def compute_mic(self, key: bytes, data: bytes) -> bytes:
        """Return the MIC of data: AES-CMAC, or HMAC-SHA-384 that is truncated."""
        return compute_cmac(key, data) if self.digest == "sha256" else \
            hmac.digest(key, data, self.digest)[:self.mic]


SHA256 = HashSuite("sha256", 32, 16, 16, 16)
SHA384 = HashSuite("sha384", 48, 24, 32, 24)


@dataclass(frozen=True)
class HandshakeNames:
    """The names and nonces that the keys of a station at an access point follow from.

    - `domain`: mobility domain
    - `r0_holder`, `r1_holder`: key holders of access points (R0KH-ID, R1KH-ID)
    - `station`, `access_point`: MAC addresses
    - `nonces`: nonces of access point and station
    """

    domain: bytes
    r0_holder: bytes
    r1_holder: bytes
    station: bytes
    access_point: bytes
    nonces: tuple[bytes, bytes]


@dataclass(frozen=True)
class FastTransitionKeys:
    """The pairwise keys of a station at an access point."""

    check: bytes
    temporal: bytes


def derive_keys(suite: HashSuite, session: bytes, ssid: bytes, names: HandshakeNames,
                key_bytes: int) -> FastTransitionKeys:
    """Return the pairwise keys that follow from a session's master key (MSK).

    Args:
        suite: The hash of the hierarchy.
        session: The session's master key, of 64 bytes.
        ssid: Name of the network.
        names: The names and nonces.
        key_bytes: Length of the temporal key.
    """
    network = bytes((len(ssid),)) + ssid
    holder = bytes((len(names.r0_holder),)) + names.r0_holder
    r0 = expand_kdf(suite.take_master(session), b"FT-R0",
                    network + names.domain + holder + names.station,
                    suite.master + _NAME_SALT_BYTES, suite.digest)[:suite.master]
    r1 = expand_kdf(r0, b"FT-R1", names.r1_holder + names.station, suite.master, suite.digest)
    begin = suite.check + suite.wrap
    pairwise = expand_kdf(r1, b"FT-PTK", names.nonces[1] + names.nonces[0] + names.access_point
                          + names.station, begin + key_bytes, suite.digest)
    return FastTransitionKeys(pairwise[:suite.check], pairwise[begin:])


@dataclass(frozen=True)
class ProtectedMessage:
    """A message with a MIC, the data of this MIC, and the names that its key follows from."""

    names: HandshakeNames
    data: bytes
    mic: bytes

    def find_keys(self, suite: HashSuite, sessions: Iterable[tuple[bytes, bytes]],
                  key_bytes: int) -> FastTransitionKeys | None:
        """Return the keys that the MIC is made with, None if none of the sessions has them.

        Args:
            suite: The hash of the hierarchy.
            sessions: Master keys, each with the name of its network.
            key_bytes: Length of the temporal key.
        """
        derived = (derive_keys(suite, master, ssid, self.names, key_bytes)
                   for master, ssid in sessions)
        return next((keys for keys in derived if hmac.compare_digest(
            self.mic, suite.compute_mic(keys.check, self.data))), None)


def read_initial_handshakes(frames: Iterable[CapturedFrame],
                            suite: HashSuite) -> Iterator[ProtectedMessage]:
    """Yield the second message of each four-way handshake that names a mobility domain.

    Args:
        frames: Frames of a station's interface.
        suite: The hash, which decides the length of the MIC.
    """
    challenges: dict[bytes, bytes] = {}
    mic_end = _MIC_AT + suite.mic
    for frame in frames:
        payload, target, source = frame.payload, frame.data[:6], frame.data[6:12]
        if frame.kind != EAPOL or len(payload) < mic_end + _LENGTH_BYTES or payload[1] != _KEY:
            continue
        if not any(payload[_MIC_AT:mic_end]):
            challenges[source + target] = payload[_NONCE_AT]
        elif target + source in challenges:
            message = payload[:4 + int.from_bytes(payload[2:4], "big")]
            elements = _parse_elements(message[mic_end + _LENGTH_BYTES:])
            nonces = (challenges.pop(target + source), payload[_NONCE_AT])
            names = _read_names(elements, suite, source, target, nonces)
            if names is not None:
                yield ProtectedMessage(
                    names, message[:_MIC_AT] + bytes(suite.mic) + message[mic_end:],
                    message[_MIC_AT:mic_end])


def read_reassociations(frames: Iterable[bytes], suite: HashSuite,
                        station: bytes) -> Iterator[ProtectedMessage]:
    """Yield the reassociation requests and responses of a station with a MIC of fast transition.

    Args:
        frames: Frames on the air from their MAC headers on.
        suite: The hash, which decides the length of the MIC.
        station: MAC address of the station.
    """
    for data in frames:
        receiver, sender = data[4:10], data[10:16]
        if data[0] not in _SEQUENCE or station not in (receiver, sender):
            continue
        elements = _parse_elements(data[MAC_HEADER_BYTES + _FIXED_BYTES[data[0]]:])
        content, access_point = elements.get(_FAST_TRANSITION, b""), \
            receiver if sender == station else sender
        nonces_at = _MIC_CONTROL_BYTES + suite.mic
        nonces = (content[nonces_at:nonces_at + _NONCE_BYTES],
                  content[nonces_at + _NONCE_BYTES:nonces_at + 2 * _NONCE_BYTES])
        names = _read_names(elements, suite, station, access_point, nonces)
        if names is None or not any(content[:nonces_at]):
            continue
        blank = content[:_MIC_CONTROL_BYTES] + bytes(suite.mic) + content[nonces_at:]
        covered = b"".join(bytes((number, len(value))) + value for number, value in (
            (_RSN, elements.get(_RSN, b"")),
            (_MOBILITY_DOMAIN, elements.get(_MOBILITY_DOMAIN, b"")), (_FAST_TRANSITION, blank),
            (_RSN_EXTENSION, elements.get(_RSN_EXTENSION, b""))) if value)
        yield ProtectedMessage(
            names, station + access_point + bytes((_SEQUENCE[data[0]],)) + covered,
            content[_MIC_CONTROL_BYTES:nonces_at])


def _read_names(elements: Mapping[int, bytes], suite: HashSuite, station: bytes,
                access_point: bytes,
                nonces: tuple[bytes, bytes]) -> HandshakeNames | None:
    """Return the names in the elements of a message, None without those of fast transition."""
    domain = elements.get(_MOBILITY_DOMAIN, b"")[:_DOMAIN_BYTES]
    holders = _parse_elements(elements.get(_FAST_TRANSITION, b"")[
        _MIC_CONTROL_BYTES + suite.mic + 2 * _NONCE_BYTES:])
    if not domain or not {_R0KH, _R1KH} <= holders.keys():
        return None
    return HandshakeNames(domain, holders[_R0KH], holders[_R1KH], station, access_point,
                          nonces)


def _parse_elements(data: bytes) -> dict[int, bytes]:
    """Return the elements of a frame by number, the first of each number."""
    elements: dict[int, bytes] = {}
    for number, content in split_elements(data):
        elements.setdefault(number, content)
    return elements
