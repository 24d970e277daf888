"""Decrypt the first bytes of truncated 802.11 frames and ESP packets, to prove their encryption.

Streams are captured without the ends of frames, so no integrity check value (ICV) can be verified.
But the ciphers encrypt byte by byte or block by block, so the first bytes can be decrypted. Under
the right key they show a header that fits the packet. `verify_frame_heads` and `verify_esp_heads`
take captures and keys, and return how many frames decrypt to packets of this network, and how many
do not. `count_readable_frames` finds frames that are marked as protected but readable. The check of
the link (`measure.checks.layer_checks`) uses them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from measure.capture import pcap
from measure.capture.pcap import (
    DATA,
    MAC_HEADER_BYTES,
    NULL,
    PROTECTED,
    QOS,
    TYPE,
    addresses_end,
    header_bytes,
)
from measure.packets import ciphers, eap
from measure.packets.decryption_keys import TemporalKey
from measure.services import iperf
from policies import LinkLayer
from topologies import ipv6

# --- First bytes of 802.11 frames under WEP, TKIP, CCMP and GCMP ---
# Under the right key they show LLC and an IP header. Its length must be the frame's, its checksum
# right (IPv4), and an address a mobile node's. Under a wrong key, that happens once in 2^80.

_RECEIVER, _TRANSMITTER, _GROUP = slice(4, 10), slice(10, 16), 0x01
_LLC_IPV4 = bytes.fromhex("aaaa030000000800")
_LLC_IPV6 = bytes.fromhex("aaaa0300000086dd")
_LLC_ARP = bytes.fromhex("aaaa030000000806")
_LLC_EAPOL = bytes.fromhex("aaaa03000000888e")
#: EAPOL-Key frames: type, descriptors of RSN and WPA, and the bit of the four-way handshake in the
#: key information. Message 1 of a group key handshake asks for an acknowledgement (12.7.2).
_EAPOL_KEY, _KEY_DESCRIPTORS, _PAIRWISE, _ACKNOWLEDGED = 3, (2, 254), 0x08, 0x80
_EAPOL_HEADER_BYTES = 4
#: First bytes of ARP: Ethernet, IPv4, and the lengths of their addresses.
_ARP, _ARP_BYTES = bytes.fromhex("000108000604"), 28
_IP_BYTES, _IPV6_BYTES, _BLOCK, _BLOCKS = 20, 40, 16, 3
_FRAME_HEAD_BYTES = len(_LLC_IPV4) + _IPV6_BYTES
_VERSION_6 = 6
#: Bytes before the encrypted part: WEP's initialisation vector, or other ciphers' packet number.
_VECTOR_BYTES, _NUMBER_BYTES = 4, 8
#: CCM's counter blocks: flags, and the first counter (IEEE 802.11-2020, 12.5.3.3.5). GCM's first
#: block of text has counter 2 (12.5.5.3.4).
_CCM_FLAGS, _CCM_FIRST, _FRAME_GCM_COUNTER = 1, 1, 2


@dataclass(frozen=True)
class FrameHead:
    """The captured first bytes of a protected 802.11 data frame."""

    at_s: float
    data: bytes
    #: Bytes after the header on the air, including those that are not captured.
    body_bytes: int

    @property
    def ends(self) -> set[bytes]:
        """Return the transmitter's and the receiver's addresses of the frame."""
        return {self.data[_RECEIVER], self.data[_TRANSMITTER]}

    @property
    def body(self) -> bytes:
        """Return the captured bytes after the 802.11 header."""
        return self.data[header_bytes(self.data):]

    @property
    def number(self) -> bytes:
        """Return the frame's packet number, most significant byte first (not for WEP)."""
        return bytes(self.body[at] for at in (7, 6, 5, 4, 1, 0))

    @property
    def priority(self) -> int:
        """Return the frame's traffic identifier (TID), 0 without QoS."""
        return self.data[addresses_end(self.data)] & 0x0F if self.data[0] & QOS else 0


@dataclass(frozen=True)
class DecryptedFrameHeads:
    """The number of truncated frames that decrypt to packets of this network, and of others."""

    opened: int
    closed: Sequence[FrameHead]
    #: Group key handshakes among the frames: time (s), and whether it is message 1.
    group_messages: Sequence[tuple[float, bool]] = ()

    @property
    def detail(self) -> str:
        """Return the counts as text, with details of the first frame that does not decrypt."""
        if not (self.opened or self.closed):
            return ""
        first = ""
        if self.closed:
            head = self.closed[0]
            first = (f"; the first that does not: at {head.at_s:.6f} s from "
                     f"{head.data[_TRANSMITTER].hex(':')}")
        return (f"; of {self.opened + len(self.closed)} more the head is captured alone, and "
                f"{self.opened} open to a header of their length{first}")


def verify_frame_heads(layer: LinkLayer, files: Iterable[Path], keys: Sequence[TemporalKey],
                       macs: Collection[str], addresses: Collection[str]) -> DecryptedFrameHeads:
    """Decrypt the first bytes of truncated frames from or to stations, and check them.

    Group-addressed frames are under a group key and are left out.

    Args:
        layer: The policy's link layer.
        files: Captures of the air.
        keys: Temporal keys that may apply.
        macs: MAC addresses of the stations.
        addresses: IP addresses, one of which each packet must have.

    Raises:
        MeasureError: A file is no capture of the air.
    """
    stations = {bytes.fromhex(mac.replace(":", "")) for mac in macs}
    closed = {place: head for place, head in enumerate(
        head for file in files if file.exists() for head in _truncated_frames(file))
        if stations & head.ends}
    count = len(closed)
    group_messages = list[tuple[float, bool]]()
    known = {ip_address(address).packed for address in addresses}
    for key in keys:
        tried = {place: head for place, head in closed.items()
                 if not key.station or key.station in head.ends}
        # A station may have many candidate keys: its first and last frame show which ones apply.
        few = {place: tried[place] for place in (*list(tried)[:1], *list(tried)[-1:])}
        if key.station and not _find_decrypted(layer, key.key, few, known):
            continue
        for place, text in _find_decrypted(layer, key.key, tried, known).items():
            head = closed.pop(place)
            if text.startswith(_LLC_EAPOL):
                group_messages.append((head.at_s, bool(_key_information(text) & _ACKNOWLEDGED)))
    return DecryptedFrameHeads(count - len(closed), list(closed.values()), sorted(group_messages))


def _find_decrypted(layer: LinkLayer, key: bytes, tried: Mapping[int, FrameHead],
                    addresses: AbstractSet[bytes]) -> dict[int, bytes]:
    """Return the decrypted first bytes of those frames that have a packet, by their indexes.

    A packet is one of IP, or a message of a group key handshake.
    """
    texts = _decrypt_frame_starts(layer, key, list(tried.values()))
    return {place: text for (place, head), text in zip(tried.items(), texts, strict=True)
            if _is_packet(text, size := head.body_bytes - layer.frame_expansion_bytes, addresses)
            or _is_group_key_message(text, size)}


def _truncated_frames(file: Path) -> Iterator[FrameHead]:
    has_radio = pcap.read_link_type(file) == pcap.RADIOTAP
    for frame in pcap.read_frames(file, pcap.IEEE802_11):
        before = int.from_bytes(frame.data[2:4], "little") if has_radio else 0
        data = frame.data[before:]
        if len(frame.data) == frame.wire_bytes or data[0] & (TYPE | NULL) != DATA or (
                not data[1] & PROTECTED or data[_RECEIVER][0] & _GROUP):
            continue
        yield FrameHead(frame.at_s, data, frame.wire_bytes - before - header_bytes(data))


def _decrypt_frame_starts(layer: LinkLayer, key: bytes,
                          heads: Sequence[FrameHead]) -> Iterable[bytes]:
    """Return the first bytes of each frame, decrypted with one key."""
    if layer.is_wep:
        return (eap.rc4(head.body[:3] + key, head.body[_VECTOR_BYTES:][:_FRAME_HEAD_BYTES])
                for head in heads)
    if layer.cipher == "TKIP":
        return (_decrypt_tkip(key, head) for head in heads)
    is_ccm = layer.cipher.startswith("CCMP")
    streams = ciphers.transform_blocks("aes", key, b"".join(
        _counter_blocks(head, is_ccm=is_ccm) for head in heads))
    size = _BLOCK * _BLOCKS
    return (bytes(a ^ b for a, b in zip(head.body[_NUMBER_BYTES:][:_FRAME_HEAD_BYTES],
                                        streams[place * size:(place + 1) * size], strict=False))
            for place, head in enumerate(heads))


def _decrypt_tkip(key: bytes, head: FrameHead) -> bytes:
    body = head.body
    number = int.from_bytes(bytes(body[at] for at in (7, 6, 5, 4, 0, 2)), "big")
    return eap.rc4(ciphers.frame_key(key, head.data[_TRANSMITTER], number),
                   body[_NUMBER_BYTES:][:_FRAME_HEAD_BYTES])


def _counter_blocks(head: FrameHead, *, is_ccm: bool) -> bytes:
    """Return the counter blocks whose AES encryption is the start of a frame's key stream."""
    nonce = head.data[_TRANSMITTER] + head.number
    if is_ccm:
        nonce = bytes((_CCM_FLAGS, head.priority)) + nonce
    first = _CCM_FIRST if is_ccm else _FRAME_GCM_COUNTER
    return b"".join(nonce + (first + block).to_bytes(_BLOCK - len(nonce), "big")
                    for block in range(_BLOCKS))


def _key_information(text: bytes) -> int:
    """Return the key information of an EAPOL-Key frame with LLC, its low byte."""
    return text[len(_LLC_EAPOL) + _EAPOL_HEADER_BYTES + 2]


def _is_group_key_message(text: bytes, size: int) -> bool:
    """Return whether decrypted bytes begin a group key handshake's message of this length."""
    header = text[len(_LLC_EAPOL):]
    return (text.startswith(_LLC_EAPOL) and len(header) > _EAPOL_HEADER_BYTES + 2
            and header[1] == _EAPOL_KEY
            and int.from_bytes(header[2:4], "big") == size - len(_LLC_EAPOL) - _EAPOL_HEADER_BYTES
            and header[_EAPOL_HEADER_BYTES] in _KEY_DESCRIPTORS
            and not _key_information(text) & _PAIRWISE)


def _is_packet(text: bytes, size: int, addresses: AbstractSet[bytes]) -> bool:
    """Return whether decrypted bytes are the start of an IP packet of this length, with LLC.

    Checksum and addresses are checked if the header is captured to its end.
    """
    header, size = text[len(_LLC_IPV4):], size - len(_LLC_IPV4)
    if text.startswith(_LLC_ARP):
        return size == _ARP_BYTES and header.startswith(_ARP)
    if text.startswith(_LLC_IPV6):
        return header[0] >> 4 == _VERSION_6 and (
            int.from_bytes(header[4:6], "big") + _IPV6_BYTES == size) and (
            len(header) < _IPV6_BYTES or bool({header[8:24], header[24:40]} & addresses))
    if not text.startswith(_LLC_IPV4) or header[:1] != b"\x45" or (
            int.from_bytes(header[2:4], "big") != size):
        return False
    words = (int.from_bytes(header[at:at + 2], "big") for at in range(0, _IP_BYTES, 2))
    return len(header) < _IP_BYTES or (
        sum(words) % 0xFFFF == 0 and bool({header[12:16], header[16:20]} & addresses))


# --- First bytes of ESP packets ---
# Under the kernels' keys these bytes show an IP header. Its length is the ESP packet's without
# initialisation vector, padding and ICV (RFC 4303, 2). In transport mode they show the stream's
# port. Random bytes pass once in 2^40, in transport mode once in 2^15.

_ETHERTYPE, _ESP, _TCP, _UDP = 0x0800, 50, 6, 17
_IPV4_HEADER_BYTES, _SPI_AND_NUMBER_BYTES, _TRAILER_BYTES, _LEAST_ALIGNED = 20, 8, 2, 4
#: AEAD ciphers (RFC 4106, RFC 7634): explicit IV, salt and ICV (bytes).
_COUNTER_IV_BYTES, _SALT_BYTES, _TAG_BYTES = 8, 4, 16
_ESP_GCM_COUNTER, _CHACHA_FIRST = 2, 1
#: CBC ciphers by the kernel's names, with their block size (bytes).
_CHAINED = {"cbc(des3_ede)": ("3des", 8), "cbc(aes)": ("aes", 16)}
_COUNTED, _CHACHA = "rfc4106(gcm(aes))", "rfc7539esp(chacha20,poly1305)"
#: Decrypted bytes of each packet.
_ESP_HEAD_BYTES = 32
_TUNNEL = "tunnel"
#: First bytes of the IPv6 addresses of qop's networks.
PREFIX = ipv6.PREFIX.packed[:4]


@dataclass(frozen=True)
class DecryptedEspHeads:
    """The number of ESP packets whose first bytes decrypt correctly, and of the others."""

    opened: int
    closed: int

    @property
    def detail(self) -> str:
        """Return the counts of ESP packets as text, "" if there were none."""
        count = self.opened + self.closed
        return (f", of which {self.opened} of {count} of the streams open to a header of their "
                "length with the kernels' keys") if count else ""


def verify_esp_heads(files: Iterable[Path], keys: Sequence[Mapping[str, str]],
                     version: int = 4) -> DecryptedEspHeads:
    """Decrypt the first bytes of every ESP packet in captures, and check them.

    Later fragments are left out. Packets inside have to be of one version of IP.

    Raises:
        MeasureError: A capture cannot be read.
    """
    by_spi = {int(key["spi"], 16): key for key in keys}
    under: dict[int, list[bytes]] = defaultdict(list)
    for packet in (packet for file in files if file.exists() for packet in _esp_packets(file)):
        start = _ip_header_bytes(packet)
        under[int.from_bytes(packet[start:start + 4], "big")].append(packet)
    opened = sum(_is_plausible(packet, text, by_spi[spi], version) for spi, packets in under.items()
                 if spi in by_spi for packet, text in zip(
                     packets, _decrypt_esp_starts(by_spi[spi], packets), strict=True))
    return DecryptedEspHeads(opened, sum(map(len, under.values())) - opened)


def _esp_packets(file: Path) -> Iterator[bytes]:
    """Yield the IP packets of a capture in which an ESP packet starts."""
    for frame in pcap.read_frames(file):
        packet = frame.payload
        if frame.kind == pcap.IPV6:
            is_esp = len(packet) > _IPV6_BYTES and packet[6] == _ESP
        else:
            packet = pcap.unwrap_esp(packet)
            is_esp = frame.kind == _ETHERTYPE and len(packet) > _IPV4_HEADER_BYTES and packet[
                9] == _ESP and not int.from_bytes(packet[6:8], "big") & pcap.FRAGMENT_OFFSET
        if is_esp:
            yield packet


def _ip_header_bytes(packet: bytes) -> int:
    """Return the length of an IP header, of IPv6 without extension headers."""
    return _IPV6_BYTES if packet[0] >> 4 == _VERSION_6 else (packet[0] & 15) * 4


def _after_header(packet: bytes) -> bytes:
    return packet[_ip_header_bytes(packet) + _SPI_AND_NUMBER_BYTES:]


def _decrypt_esp_starts(key: Mapping[str, str], packets: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the first bytes of each ESP packet, decrypted, or b"" for unknown ciphers."""
    secret, name = bytes.fromhex(key["enc_key"]), key["enc"]
    if name in _CHAINED:
        cipher, size = _CHAINED[name]
        sealed = [_after_header(packet)[:size + _ESP_HEAD_BYTES] for packet in packets]
        plain = ciphers.transform_blocks(cipher, secret, b"".join(
            body[size:].ljust(_ESP_HEAD_BYTES, b"\0") for body in sealed), decrypts=True)
        streams: Iterable[bytes] = (body[:_ESP_HEAD_BYTES] for body in sealed)  # the previous block
    elif name == _COUNTED:
        sealed = [_after_header(packet)[_COUNTER_IV_BYTES:][:_ESP_HEAD_BYTES] for packet in packets]
        plain = ciphers.transform_blocks("aes", secret[:-_SALT_BYTES], b"".join(
            secret[-_SALT_BYTES:] + _after_header(packet)[:_COUNTER_IV_BYTES]
            + number.to_bytes(4, "big")
            for packet in packets for number in (_ESP_GCM_COUNTER, _ESP_GCM_COUNTER + 1)))
        streams = sealed
    elif name == _CHACHA:
        sealed = [_after_header(packet)[:_COUNTER_IV_BYTES + _ESP_HEAD_BYTES] for packet in packets]
        yield from (_decrypt_chacha(secret, body) for body in sealed)
        return
    else:
        yield from (b"" for _ in packets)
        return
    for place, stream in enumerate(streams):
        own = plain[place * _ESP_HEAD_BYTES:(place + 1) * _ESP_HEAD_BYTES]
        yield bytes(a ^ b for a, b in zip(own, stream, strict=False))


def _decrypt_chacha(secret: bytes, body: bytes) -> bytes:
    # Imported here: the container image lacks the library.
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    nonce = (_CHACHA_FIRST.to_bytes(4, "little") + secret[-_SALT_BYTES:]
             + body[:_COUNTER_IV_BYTES])
    tool = Cipher(ChaCha20(secret[:-_SALT_BYTES], nonce), None)
    return tool.decryptor().update(body[_COUNTER_IV_BYTES:])


def _is_plausible(packet: bytes, text: bytes, key: Mapping[str, str], version: int) -> bool:
    """Return whether decrypted bytes can be the start of an ESP packet of this length.

    Its transport mode has the outer packet's version of IP.
    """
    _, block = _CHAINED.get(key["enc"], ("", _COUNTER_IV_BYTES))
    check = int(key["auth_bits"]) // 8 if "auth_bits" in key else _TAG_BYTES
    is_chained = key["enc"] in _CHAINED
    has_ipv6 = packet[0] >> 4 == _VERSION_6
    ip_bytes = int.from_bytes(packet[4:6], "big") if has_ipv6 else \
        int.from_bytes(packet[2:4], "big") - _ip_header_bytes(packet)
    room = ip_bytes - _SPI_AND_NUMBER_BYTES - block - check
    aligned = block if is_chained else _LEAST_ALIGNED
    is_fragment = not has_ipv6 and bool(
        int.from_bytes(packet[6:8], "big") & pcap.MORE_FRAGMENTS)

    def fits(size: int) -> bool:
        return is_fragment or -(-(size + _TRAILER_BYTES) // aligned) * aligned == room

    if version == _VERSION_6 and text[:1] and text[0] >> 4 == _VERSION_6:
        return text[8:12] == PREFIX and fits(_IPV6_BYTES + int.from_bytes(text[4:6], "big"))
    if version != _VERSION_6 and text[:1] == b"\x45":
        words = (int.from_bytes(text[at:at + 2], "big") for at in range(0, _IPV4_HEADER_BYTES, 2))
        if sum(words) % 0xFFFF == 0 and fits(int.from_bytes(text[2:4], "big")):
            return True
    if key.get("mode") == _TUNNEL or len(text) < _IPV4_HEADER_BYTES or has_ipv6 != (
            version == _VERSION_6):
        return False
    is_stream = iperf.PORT in (int.from_bytes(text[:2], "big"), int.from_bytes(text[2:4], "big"))
    return is_stream and (fits(int.from_bytes(text[4:6], "big"))
                          or _IPV4_HEADER_BYTES <= (text[12] >> 4) * 4 <= room)


# --- Frames that are marked as protected but readable ---
# Only whole frames are decrypted. A truncated frame must at least not show, after its counter, the
# bytes that every readable frame of the project begins with.

#: Length of WEP's initialisation vector, and of the packet number of all other ciphers.
_COUNTERS_BYTES = (4, 8)
#: LLC and SNAP header (RFC 1042) before the EtherType; occurs by chance once in 10^14.
_READABLE = bytes.fromhex("aaaa03000000")


def count_readable_frames(files: Iterable[Path]) -> tuple[int, str]:
    """Count frames that are marked as protected but are readable, in captures of the air.

    Returns:
        The number of readable frames, and a clause with this number for a check's description (""
        for none).

    Raises:
        MeasureError: A file is no capture of the air.
    """
    readable = sum(map(count_readable, files))
    return readable, f"; {readable} are readable behind their mark" if readable else ""


def count_readable(file: Path) -> int:
    """Return how many frames of a capture are marked as protected but are readable.

    The result is 0 without a file.

    Raises:
        MeasureError: The file is no capture of the air.
    """
    if not file.exists():
        return 0
    has_radio = pcap.read_link_type(file) == pcap.RADIOTAP
    return sum(_is_readable(frame.data[int.from_bytes(frame.data[2:4], "little")
                                       if has_radio else 0:])
               for frame in pcap.read_frames(file, pcap.IEEE802_11))


def _is_readable(data: bytes) -> bool:
    if len(data) < MAC_HEADER_BYTES or data[0] & (TYPE | NULL) != DATA or not data[1] & PROTECTED:
        return False
    start = header_bytes(data)
    return any(data[start + size:].startswith(_READABLE) for size in _COUNTERS_BYTES)
