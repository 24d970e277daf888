"""Payloads of an Ethernet capture, as bytes: for what is to be verified, not only dissected."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from measure.errors import MeasureError

_HEADER_BYTES, _PACKET_HEADER_BYTES = 24, 16
#: Byte order and units a second, by the first four bytes.
_KINDS = {bytes.fromhex("d4c3b2a1"): ("<", 1e6), bytes.fromhex("a1b2c3d4"): (">", 1e6),
          bytes.fromhex("4d3cb2a1"): ("<", 1e9), bytes.fromhex("a1b23c4d"): (">", 1e9)}
_ETHERNET, _ETHERNET_BYTES, _IPV4, _UDP, _UDP_BYTES = 1, 14, b"\x08\x00", 17, 8
_EAPOL = b"\x88\x8e"


def udp_payloads(capture: Path, port: int) -> list[tuple[float, bytes]]:
    """Time and payload of each whole datagram to or from a port. Raises MeasureError."""
    return [(time_s, payload) for time_s, packet in _packets(capture)
            if (payload := _payload(packet, port)) is not None]


def eapol(capture: Path) -> list[tuple[float, bytes]]:
    """Time and content of each EAP and EAPOL frame, from its version on. Raises MeasureError."""
    return [(time_s, packet[_ETHERNET_BYTES:]) for time_s, packet in _packets(capture)
            if packet[12:14] == _EAPOL]


def _packets(capture: Path) -> Iterator[tuple[float, bytes]]:
    try:
        content = capture.read_bytes()
    except OSError as error:
        raise MeasureError("testbed", f"cannot read {capture}: {error.strerror}") from None
    order, unit = _KINDS.get(content[:4], ("", 1.0))
    if not order or len(content) < _HEADER_BYTES or \
            struct.unpack_from(f"{order}I", content, 20)[0] != _ETHERNET:
        raise MeasureError("testbed", f"cannot read {capture}: not a pcap file of Ethernet")
    at = _HEADER_BYTES
    while at + _PACKET_HEADER_BYTES <= len(content):
        seconds, part, captured, _ = struct.unpack_from(f"{order}4I", content, at)
        at += _PACKET_HEADER_BYTES
        yield seconds + part / unit, content[at:at + captured]
        at += captured


def _payload(packet: bytes, port: int) -> bytes | None:
    ip = packet[_ETHERNET_BYTES:]
    if packet[12:14] != _IPV4 or len(ip) < 20 or ip[9] != _UDP:
        return None
    udp = ip[(ip[0] & 0x0F) * 4:]
    if len(udp) < _UDP_BYTES or port not in struct.unpack_from("!2H", udp):
        return None
    length = struct.unpack_from("!H", udp, 4)[0]
    return udp[_UDP_BYTES:length] if _UDP_BYTES <= length <= len(udp) else None
