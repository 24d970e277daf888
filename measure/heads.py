"""Decrypt the first bytes of truncated frames and check that they begin as packets.

Streams are captured without the ends of frames, so no ICV can be verified. But WEP, TKIP, CCMP and
GCMP encrypt byte by byte. Under the right key the first bytes show LLC and an IPv4 header. Its
length must be the frame's, its checksum right, and an address a mobile node's. Under a wrong key,
or in random bytes, that happens once in 2^80.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from measure import blocks, eap_keys, pcap, tkip
from measure.air_header import DATA, NULL, PROTECTED, QOS, TYPE, addresses_end, header_bytes
from measure.pairwise import TemporalKey
from policies import LinkLayer

_RECEIVER, _TRANSMITTER, _GROUP = slice(4, 10), slice(10, 16), 0x01
_LLC_IPV4 = bytes.fromhex("aaaa030000000800")
_LLC_ARP = bytes.fromhex("aaaa030000000806")
#: First bytes of ARP: Ethernet, IPv4, and the lengths of their addresses.
_ARP, _ARP_BYTES = bytes.fromhex("000108000604"), 28
_IP_BYTES, _BLOCK, _BLOCKS = 20, 16, 2
_HEAD_BYTES = len(_LLC_IPV4) + _IP_BYTES
#: Bytes before the encrypted part: WEP's initialisation vector, or other ciphers' packet number.
_VECTOR_BYTES, _NUMBER_BYTES = 4, 8
#: CCM's counter blocks: flags, and the first counter (IEEE 802.11-2020, 12.5.3.3.5). GCM's first
#: block of text has counter 2 (12.5.5.3.4).
_CCM_FLAGS, _CCM_FIRST, _GCM_FIRST = 1, 1, 2


@dataclass(frozen=True)
class FrameHead:
    """The captured start of a protected data frame."""

    at_s: float
    data: bytes
    #: Bytes after the header on the air, including those that are not captured.
    body_bytes: int

    @property
    def ends(self) -> set[bytes]:
        """Return the transmitter's and the receiver's addresses."""
        return {self.data[_RECEIVER], self.data[_TRANSMITTER]}

    @property
    def body(self) -> bytes:
        """Return the captured bytes after the header."""
        return self.data[header_bytes(self.data):]

    @property
    def number(self) -> bytes:
        """Return the packet number of all ciphers but WEP, most significant byte first."""
        return bytes(self.body[at] for at in (7, 6, 5, 4, 1, 0))

    @property
    def priority(self) -> int:
        """Return the traffic identifier (TID), 0 without QoS."""
        return self.data[addresses_end(self.data)] & 0x0F if self.data[0] & QOS else 0


@dataclass(frozen=True)
class OpenedHeads:
    """The number of frames that begin as packets of this network, and the other frames."""

    opened: int
    closed: Sequence[FrameHead]

    @property
    def detail(self) -> str:
        """Return the counts in words, and details of the first frame that does not decrypt."""
        if not (self.opened or self.closed):
            return ""
        first = ""
        if self.closed:
            head = self.closed[0]
            first = (f"; the first that does not: at {head.at_s:.6f} s from "
                     f"{head.data[_TRANSMITTER].hex(':')}")
        return (f"; of {self.opened + len(self.closed)} more the head is captured alone, and "
                f"{self.opened} open to a header of their length{first}")


def verify_heads(layer: LinkLayer, files: Iterable[Path], keys: Sequence[TemporalKey],
                 macs: Collection[str], addresses: Collection[str]) -> OpenedHeads:
    """Decrypt the first bytes of truncated frames from or to stations.

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
    known = {IPv4Address(address).packed for address in addresses}
    for key in keys:
        tried = {place: head for place, head in closed.items()
                 if not key.station or key.station in head.ends}
        # A station may have many candidate keys: its first and last frame show which ones apply.
        few = {place: tried[place] for place in (*list(tried)[:1], *list(tried)[-1:])}
        if key.station and not _find_decrypted(layer, key.key, few, known):
            continue
        for place in _find_decrypted(layer, key.key, tried, known):
            del closed[place]
    return OpenedHeads(count - len(closed), list(closed.values()))


def _find_decrypted(layer: LinkLayer, key: bytes, tried: Mapping[int, FrameHead],
                    addresses: AbstractSet[bytes]) -> list[int]:
    """Return the places of the frames that begin as packets under a key."""
    texts = _decrypt_starts(layer, key, list(tried.values()))
    return [place for (place, head), text in zip(tried.items(), texts, strict=True)
            if _is_packet(text, head.body_bytes - layer.frame_expansion_bytes, addresses)]


def _truncated_frames(file: Path) -> Iterator[FrameHead]:
    has_radio = pcap.read_link_type(file) == pcap.RADIOTAP
    for frame in pcap.read_frames(file, pcap.IEEE802_11):
        before = int.from_bytes(frame.data[2:4], "little") if has_radio else 0
        data = frame.data[before:]
        if len(frame.data) == frame.wire_bytes or data[0] & (TYPE | NULL) != DATA or (
                not data[1] & PROTECTED or data[_RECEIVER][0] & _GROUP):
            continue
        yield FrameHead(frame.at_s, data, frame.wire_bytes - before - header_bytes(data))


def _decrypt_starts(layer: LinkLayer, key: bytes, heads: Sequence[FrameHead]) -> Iterable[bytes]:
    """Return the first decrypted bytes of each frame under a key."""
    if layer.is_wep:
        return (eap_keys.rc4(head.body[:3] + key, head.body[_VECTOR_BYTES:][:_HEAD_BYTES])
                for head in heads)
    if layer.cipher == "TKIP":
        return (_decrypt_tkip(key, head) for head in heads)
    is_ccm = layer.cipher.startswith("CCMP")
    streams = blocks.transform_blocks("aes", key, b"".join(
        _counter_blocks(head, is_ccm=is_ccm) for head in heads))
    size = _BLOCK * _BLOCKS
    return (bytes(a ^ b for a, b in zip(head.body[_NUMBER_BYTES:][:_HEAD_BYTES],
                                        streams[place * size:(place + 1) * size], strict=False))
            for place, head in enumerate(heads))


def _decrypt_tkip(key: bytes, head: FrameHead) -> bytes:
    body = head.body
    number = int.from_bytes(bytes(body[at] for at in (7, 6, 5, 4, 0, 2)), "big")
    return eap_keys.rc4(tkip.frame_key(key, head.data[_TRANSMITTER], number),
                        body[_NUMBER_BYTES:][:_HEAD_BYTES])


def _counter_blocks(head: FrameHead, *, is_ccm: bool) -> bytes:
    """Return the counter blocks that AES encrypts to a frame's first key stream bytes."""
    nonce = head.data[_TRANSMITTER] + head.number
    if is_ccm:
        nonce = bytes((_CCM_FLAGS, head.priority)) + nonce
    first = _CCM_FIRST if is_ccm else _GCM_FIRST
    return b"".join(nonce + (first + block).to_bytes(_BLOCK - len(nonce), "big")
                    for block in range(_BLOCKS))


def _is_packet(text: bytes, size: int, addresses: AbstractSet[bytes]) -> bool:
    """Return whether decrypted bytes begin as a packet of this length, with LLC.

    Checksum and addresses are checked if the header is captured to its end.
    """
    header, size = text[len(_LLC_IPV4):], size - len(_LLC_IPV4)
    if text.startswith(_LLC_ARP):
        return size == _ARP_BYTES and header.startswith(_ARP)
    if not text.startswith(_LLC_IPV4) or header[:1] != b"\x45" or (
            int.from_bytes(header[2:4], "big") != size):
        return False
    words = (int.from_bytes(header[at:at + 2], "big") for at in range(0, _IP_BYTES, 2))
    return len(header) < _IP_BYTES or (
        sum(words) % 0xFFFF == 0 and bool({header[12:16], header[16:20]} & addresses))
