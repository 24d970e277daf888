"""Decrypt the first bytes of ESP packets and check them against the packet's length.

A stream's captures keep only first bytes, so no ICV can be verified. Under the kernels' keys these
bytes show an IPv4 header. Its length is the ESP packet's without initialisation vector, padding and
ICV (RFC 4303, 2). In transport mode they show the stream's port. Random bytes pass once in 2^40, in
transport mode once in 2^15.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import blocks, iperf, pcap

_ETHERTYPE, _ESP, _TCP, _UDP = 0x0800, 50, 6, 17
_IP_BYTES, _SPI_AND_NUMBER_BYTES, _TRAILER_BYTES, _LEAST_ALIGNED = 20, 8, 2, 4
#: AEAD ciphers (RFC 4106, RFC 7634): explicit IV, salt and ICV (bytes).
_COUNTER_IV_BYTES, _SALT_BYTES, _TAG_BYTES = 8, 4, 16
_GCM_FIRST, _CHACHA_FIRST = 2, 1
#: CBC ciphers by the kernel's names, with their block size (bytes).
_CHAINED = {"cbc(des3_ede)": ("3des", 8), "cbc(aes)": ("aes", 16)}
_COUNTED, _CHACHA = "rfc4106(gcm(aes))", "rfc7539esp(chacha20,poly1305)"
#: Decrypted bytes of each packet.
_HEAD_BYTES = 32
_TUNNEL = "tunnel"


@dataclass(frozen=True)
class EspHeads:
    """Counts of ESP packets whose first bytes decrypt correctly, and of the others."""

    opened: int
    closed: int

    @property
    def detail(self) -> str:
        """Return the counts in words, or "" if there were no packets."""
        count = self.opened + self.closed
        return (f", of which {self.opened} of {count} of the streams open to a header of their "
                "length with the kernels' keys") if count else ""


def verify_heads(files: Iterable[Path], keys: Sequence[Mapping[str, str]]) -> EspHeads:
    """Decrypt the first bytes of every ESP packet in captures, except later fragments.

    Raises:
        MeasureError: A capture cannot be read.
    """
    by_spi = {int(key["spi"], 16): key for key in keys}
    under: dict[int, list[bytes]] = defaultdict(list)
    for packet in (packet for file in files if file.exists() for packet in _esp_packets(file)):
        start = (packet[0] & 15) * 4
        under[int.from_bytes(packet[start:start + 4], "big")].append(packet)
    opened = sum(_is_plausible(packet, text, by_spi[spi]) for spi, packets in under.items()
                 if spi in by_spi for packet, text in zip(
                     packets, _decrypt_starts(by_spi[spi], packets), strict=True))
    return EspHeads(opened, sum(map(len, under.values())) - opened)


def _esp_packets(file: Path) -> Iterator[bytes]:
    """Yield the IPv4 packets of a capture that carry the start of an ESP packet."""
    for frame in pcap.read_frames(file):
        packet = frame.payload
        if frame.kind == _ETHERTYPE and len(packet) > _IP_BYTES and packet[9] == _ESP and not (
                int.from_bytes(packet[6:8], "big") & pcap.FRAGMENT_OFFSET):
            yield packet


def _after_header(packet: bytes) -> bytes:
    return packet[(packet[0] & 15) * 4 + _SPI_AND_NUMBER_BYTES:]


def _decrypt_starts(key: Mapping[str, str], packets: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the first decrypted bytes of each packet, or b"" for unknown ciphers."""
    secret, name = bytes.fromhex(key["enc_key"]), key["enc"]
    if name in _CHAINED:
        cipher, size = _CHAINED[name]
        sealed = [_after_header(packet)[:size + _HEAD_BYTES] for packet in packets]
        plain = blocks.transform_blocks(cipher, secret, b"".join(
            body[size:].ljust(_HEAD_BYTES, b"\0") for body in sealed), decrypts=True)
        streams: Iterable[bytes] = (body[:_HEAD_BYTES] for body in sealed)  # the previous block
    elif name == _COUNTED:
        sealed = [_after_header(packet)[_COUNTER_IV_BYTES:][:_HEAD_BYTES] for packet in packets]
        plain = blocks.transform_blocks("aes", secret[:-_SALT_BYTES], b"".join(
            secret[-_SALT_BYTES:] + _after_header(packet)[:_COUNTER_IV_BYTES]
            + number.to_bytes(4, "big")
            for packet in packets for number in (_GCM_FIRST, _GCM_FIRST + 1)))
        streams = sealed
    elif name == _CHACHA:
        sealed = [_after_header(packet)[:_COUNTER_IV_BYTES + _HEAD_BYTES] for packet in packets]
        yield from (_decrypt_chacha(secret, body) for body in sealed)
        return
    else:
        yield from (b"" for _ in packets)
        return
    for place, stream in enumerate(streams):
        own = plain[place * _HEAD_BYTES:(place + 1) * _HEAD_BYTES]
        yield bytes(a ^ b for a, b in zip(own, stream, strict=False))


def _decrypt_chacha(secret: bytes, body: bytes) -> bytes:
    # Imported here: the container image lacks the library.
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    nonce = (_CHACHA_FIRST.to_bytes(4, "little") + secret[-_SALT_BYTES:]
             + body[:_COUNTER_IV_BYTES])
    tool = Cipher(ChaCha20(secret[:-_SALT_BYTES], nonce), None)
    return tool.decryptor().update(body[_COUNTER_IV_BYTES:])


def _is_plausible(packet: bytes, text: bytes, key: Mapping[str, str]) -> bool:
    """Return whether decrypted bytes fit an ESP packet of this length."""
    _, block = _CHAINED.get(key["enc"], ("", _COUNTER_IV_BYTES))
    check = int(key["auth_bits"]) // 8 if "auth_bits" in key else _TAG_BYTES
    is_chained = key["enc"] in _CHAINED
    whole = int.from_bytes(packet[2:4], "big") - (packet[0] & 15) * 4
    held = whole - _SPI_AND_NUMBER_BYTES - block - check
    aligned = block if is_chained else _LEAST_ALIGNED
    is_fragment = bool(int.from_bytes(packet[6:8], "big") & pcap.MORE_FRAGMENTS)

    def fits(size: int) -> bool:
        return is_fragment or -(-(size + _TRAILER_BYTES) // aligned) * aligned == held

    if text[:1] == b"\x45":
        words = (int.from_bytes(text[at:at + 2], "big") for at in range(0, _IP_BYTES, 2))
        if sum(words) % 0xFFFF == 0 and fits(int.from_bytes(text[2:4], "big")):
            return True
    if key.get("mode") == _TUNNEL or len(text) < _IP_BYTES:
        return False
    is_stream = iperf.PORT in (int.from_bytes(text[:2], "big"), int.from_bytes(text[2:4], "big"))
    return is_stream and (fits(int.from_bytes(text[4:6], "big"))
                          or _IP_BYTES <= (text[12] >> 4) * 4 <= held)
