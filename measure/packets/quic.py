"""Read QUIC packets from captures, decrypted with the TLS secrets of their connections.

`read_datagrams` takes a capture and the lines of a TLS key log. It returns a `QuicDatagram` for
each UDP datagram of QUIC's port: its headers, its frames, and the IP packets inside. Checks use
them to prove that a connection moved to another address (RFC 9000, 9). Packets stay encrypted
without the right secrets.
"""

from __future__ import annotations

import ipaddress
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measure.capture import tshark

#: UDP port of the tunnel.
QUIC_PORT = 4433
#: Bytes around an inner packet: short header, DATAGRAM frame's header, and tag.
ADDED_BYTES = 1 + 8 + 2 + 3 + 16
#: Packet types of long headers (RFC 9000, 17.2).
INITIAL, HANDSHAKE = 0, 2
#: Cipher suites of TLS 1.3 by number (RFC 8446, B.4).
SUITES = {0x1301: "AES-128-GCM", 0x1302: "AES-256-GCM", 0x1303: "ChaCha20-Poly1305"}
#: TLS handshake messages: Certificate and Finished.
CERTIFICATE, FINISHED = 11, 20
#: Fields that every frame of a packet has, and those of single frames.
_FIELDS = ("frame.time_epoch", "ip.src", "ip.dst", "frame.len", "frame.cap_len",
           "quic.long.packet_type", "quic.dcid", "quic.frame_type", "quic.decryption_failed",
           "tls.handshake.type", "tls.handshake.ciphersuite", "quic.path_challenge.data",
           "quic.path_response.data", "quic.nci.connection_id", "quic.dg")
_IPV4 = 4
_IPV4_BYTES = 20


@dataclass(frozen=True)
class QuicDatagram:
    """A UDP datagram with one or several QUIC packets.

    - `source`, `target`: outer addresses
    - `is_whole`: whether every byte was captured, which decryption needs
    - `is_open`: whether all its packets decrypt
    - `long_types`: types of its packets with long headers
    - `connection_ids`: destination connection IDs
    - `handshakes`, `suites`: types of TLS handshake messages, and cipher suites in them
    - `challenges`, `responses`: data of PATH_CHALLENGE and PATH_RESPONSE frames
    - `issued`: connection IDs in NEW_CONNECTION_ID frames
    - `inner`: source and destination of each IPv4 packet in a DATAGRAM frame, ("", "") of another
    """

    time_s: float
    source: str
    target: str
    is_whole: bool
    is_open: bool
    long_types: tuple[int, ...]
    connection_ids: tuple[str, ...]
    handshakes: tuple[int, ...]
    suites: tuple[int, ...]
    challenges: tuple[str, ...]
    responses: tuple[str, ...]
    issued: tuple[str, ...]
    inner: tuple[tuple[str, str], ...]


def read_datagrams(capture: Path, keys: Sequence[str]) -> list[QuicDatagram]:
    """Return the UDP datagrams to or from port 4433, in the order of a capture.

    Args:
        capture: The capture file.
        keys: Lines of a TLS key log, with which tshark decrypts the packets.

    Raises:
        MeasureError: tshark cannot read the file.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
        file.write("".join(f"{line}\n" for line in keys))
        file.flush()
        rows = tshark.read_fields(
            capture, _FIELDS, f"udp.port == {QUIC_PORT}",
            options=["-d", f"udp.port=={QUIC_PORT},quic", "-o", f"tls.keylog_file:{file.name}"])
    return [_parse_row(row) for row in rows]


def _parse_row(row: Sequence[str]) -> QuicDatagram:
    c = dict(zip(_FIELDS, row, strict=True))
    return QuicDatagram(
        float(c["frame.time_epoch"]), tshark.first_value(c["ip.src"]),
        tshark.first_value(c["ip.dst"]), c["frame.len"] == c["frame.cap_len"],
        bool(c["quic.frame_type"]) and not c["quic.decryption_failed"],
        tshark.parse_numbers(c["quic.long.packet_type"]), _split_column(c["quic.dcid"]),
        tshark.parse_numbers(c["tls.handshake.type"]),
        tshark.parse_numbers(c["tls.handshake.ciphersuite"]),
        _split_column(c["quic.path_challenge.data"]), _split_column(c["quic.path_response.data"]),
        _split_column(c["quic.nci.connection_id"]),
        tuple(_find_inner_addresses(bytes.fromhex(text)) for text in _split_column(c["quic.dg"])))


def _split_column(column: str) -> tuple[str, ...]:
    return tuple(entry for entry in column.split(",") if entry)


def _find_inner_addresses(packet: bytes) -> tuple[str, str]:
    if len(packet) < _IPV4_BYTES or packet[0] >> 4 != _IPV4:
        return "", ""
    source, target = (str(ipaddress.IPv4Address(packet[at:at + 4])) for at in (12, 16))
    return source, target
