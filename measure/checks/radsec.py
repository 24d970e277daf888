"""Decrypt captured RADIUS inside TLS (RadSec) between access points and server, and check it.

`read_tls_records` takes a capture and the server's TLS key log, and returns decrypted TLS records.
`parse_radius_messages` returns the RADIUS messages in them. `radsec_session_keys` returns their EAP
session keys, from which the keys of the air follow. `check_radsec` takes the results of a
repetition (one measurement of a policy), and yields two checks. No RADIUS may pass in plain UDP,
and both ends must be authenticated by certificates.
"""

from __future__ import annotations

import ipaddress
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from measure.capture import pcap
from measure.checks.observation import RADSEC, Check, Observation, join_values
from measure.packets import eap, messages, tls_records
from measure.packets.messages import HANDSHAKE, TcpStream, stream_offset
from measure.packets.tls_records import (
    APPLICATION_DATA,
    CERTIFICATE_VERIFY,
    RECORD_HEAD,
    RecordDecrypter,
)

# --- TLS records in TCP streams, decrypted with a server's key log ---

_IPV4, _TCP, _IP_BYTES, _TCP_BYTES = 0x0800, 6, 20, 20
_SYN, _ACK = 0x02, 0x10
#: Content types of records, and the most bytes of a record (RFC 8446, 5.2).
_KINDS, _LARGEST_BYTES = range(20, 24), (1 << 14) + 256
#: Start of an application data record: type, and the legacy version (5.1).
_DATA_HEAD = bytes((APPLICATION_DATA, 3, 3))
#: Kind of a partial record, whose rest is not captured.
_CUT = -1


@dataclass(frozen=True)
class TlsRecord:
    """A captured TLS record: content type, content, and the cipher suite that decrypted it.

    `suite` is "" if the record was not decrypted, and "clear" if it was not encrypted.
    """

    at_s: float
    #: "ADDRESS:PORT to ADDRESS:PORT".
    ends: str
    is_servers: bool
    kind: int
    content: bytes
    suite: str


def read_tls_records(file: Path, port: int, keys: Iterable[str]) -> list[TlsRecord]:
    """Return all TLS records to and from a server's port, in order of time.

    Bytes that are no record, or are missing in the capture, form a record of kind 0 that is not
    decrypted. A record that is cut off at the capture's start or end is left out, if others of its
    flow decrypt.

    Args:
        file: The capture file.
        port: The server's TCP port.
        keys: Lines of a key log.

    Raises:
        MeasureError: The file cannot be read.
    """
    lines, records = list(keys), list[TlsRecord]()
    for (ends, is_servers), flow in _read_flows(file, port).items():
        opener = RecordDecrypter(tls_records.select_secrets(lines, is_servers=is_servers))
        of_flow = [(TlsRecord(at_s, ends, is_servers, *opener.decrypt(kind, data)), kind)
                   for at_s, kind, data in _split_records(flow)]
        is_tls = any(record.suite for record, _ in of_flow)
        records += [record for record, kind in of_flow if not (is_tls and kind == _CUT)]
    return sorted(records, key=lambda record: record.at_s)


def handshake_messages(records: Iterable[TlsRecord]) -> list[tuple[int, bytes]]:
    """Return type and body of each TLS handshake message that one side sent, in order."""
    return list(messages.split_messages(
        b"".join(record.content for record in records if record.kind == HANDSHAKE)))


@dataclass
class _Flow:
    """The captured bytes of one direction of a TCP connection."""

    stream: TcpStream = field(default_factory=TcpStream)
    #: Sequence number of the byte at offset 0: the connection's first byte if its start is
    #: captured, else the first captured byte.
    first: int | None = None
    has_beginning: bool = False
    #: Acknowledged offsets, in capture order.
    acknowledged: list[int] = field(default_factory=list)


def _read_flows(file: Path, port: int) -> dict[tuple[str, bool], _Flow]:
    """Read the TCP connections to and from a port, each direction by itself.

    Keys are both ends of the flow, and whether the server sends.
    """
    flows: dict[tuple[str, bool], _Flow] = defaultdict(_Flow)
    acknowledged: list[tuple[tuple[str, bool], int]] = []
    for frame in pcap.read_frames(file):
        packet = frame.payload
        if frame.kind != _IPV4 or len(packet) < _IP_BYTES + _TCP_BYTES or packet[9] != _TCP:
            continue
        start = (packet[0] & 15) * 4
        source_port, target_port, number, acks = struct.unpack_from("!HHII", packet, start)
        data = packet[start + (packet[start + 12] >> 4) * 4:int.from_bytes(packet[2:4], "big")]
        if port not in (source_port, target_port):
            continue
        ends = [f"{ipaddress.IPv4Address(packet[at:at + 4])}:{port_there}"
                for at, port_there in ((12, source_port), (16, target_port))]
        is_servers, flags = source_port == port, packet[start + 13]
        if flags & _ACK:
            acknowledged.append(((" to ".join(reversed(ends)), not is_servers), acks))
        if not (data or flags & _SYN):
            continue
        flow = flows[" to ".join(ends), is_servers]
        if flags & _SYN:
            number += 1
            flow.has_beginning = True
        flow.first = number if flow.first is None else flow.first
        flow.stream.add_segment(stream_offset(number, flow.first), data, frame.at_s)
    for key, number in acknowledged:
        if key in flows and (first := flows[key].first) is not None:
            flows[key].acknowledged.append(stream_offset(number, first))
    return flows


def _split_records(flow: _Flow) -> Iterator[tuple[float, int, bytes]]:
    """Yield the TLS records in one direction of a connection: time, type and bytes.

    Missing or malformed bytes have kind 0. Records cut off by the capture's start or end have kind
    _CUT.
    """
    end = 0
    for number, piece in enumerate(flow.stream.contiguous_parts()):
        is_first = number == 0 and flow.has_beginning and piece.place <= 0
        if (number or flow.has_beginning) and not is_first and not _is_on_its_way(
                flow, end, piece.place):
            yield piece.reached_s(1), 0, b""
        place = 0 if is_first else _first_record(piece.data)
        if place:
            yield piece.reached_s(place), 0 if place > _LARGEST_BYTES else _CUT, piece.data[:place]
        while size := _record_bytes(piece.data, place):
            if place + size > len(piece.data):
                break
            yield piece.reached_s(place + size), piece.data[place], piece.data[place:place + size]
            place += size
        rest = piece.data[place:]
        if rest:
            is_begun = len(rest) < RECORD_HEAD.size or bool(_record_bytes(piece.data, place))
            yield piece.reached_s(len(piece.data)), _CUT if is_begun else 0, rest
        end = piece.place + len(piece.data)


def _is_on_its_way(flow: _Flow, begin: int, end: int) -> bool:
    """Return whether bytes are missing because they passed before or after the capture.

    The receiver's acknowledgements show that. If a later one covers the bytes, they passed during
    the capture.
    """
    acknowledged = flow.acknowledged or [begin]
    return acknowledged[0] >= end or max(acknowledged) <= begin


def _record_bytes(data: bytes, place: int) -> int:
    """Return the length of the TLS record at an offset, with its header, or 0 for no record."""
    if len(data) < place + RECORD_HEAD.size:
        return 0
    kind, version, size = RECORD_HEAD.unpack_from(data, place)
    is_one = kind in _KINDS and version >> 8 == 3 and 0 < size <= _LARGEST_BYTES
    return RECORD_HEAD.size + size if is_one else 0


def _first_record(data: bytes) -> int:
    """Return the offset of the first TLS application data record in the middle of a stream.

    Another record, or the end, must follow it; that happens by chance once in ten million. Without
    such a record the result is the length of the data.
    """
    for place in range(len(data)):
        at, size = place, _record_bytes(data, place) * data.startswith(_DATA_HEAD, place)
        while size and at + size + RECORD_HEAD.size <= len(data):
            at += size
            size = _record_bytes(data, at)
        if size:
            return place
    return len(data)


# --- RADIUS in these records, and the checks of RadSec ---

_RADIUS_HEAD, _REQUEST, _ACCEPT = 4, 1, 2
#: Points behind access points, where their RADIUS passes.
_WIRES = ("wire", "foreign")


@dataclass(frozen=True)
class RadSecMessage:
    """A RADIUS message inside TLS, with the time at which it was complete."""

    at_s: float
    data: bytes

    @property
    def code(self) -> int:
        """Return the code of the RADIUS message, such as Access-Accept."""
        return self.data[0]


def parse_radius_messages(records: Sequence[TlsRecord]) -> list[RadSecMessage]:
    """Return the RADIUS messages inside TLS records, of all connections in order of time."""
    messages: list[RadSecMessage] = []
    for ends in dict.fromkeys(record.ends for record in records):
        pending = b""
        for record in records:
            if record.ends != ends or record.kind != APPLICATION_DATA or not record.suite:
                continue
            pending += record.content
            while len(pending) >= _RADIUS_HEAD:
                size = max(_RADIUS_HEAD, int.from_bytes(pending[2:4], "big"))
                if len(pending) < size:
                    break
                messages.append(RadSecMessage(record.at_s, pending[:size]))
                pending = pending[size:]
    return sorted(messages, key=lambda message: message.at_s)


def radsec_session_keys(file: Path, keys: Sequence[str]) -> list[eap.SessionKey]:
    """Return the EAP session keys in RADIUS messages inside TLS.

    Raises:
        MeasureError: The file cannot be read.
    """
    records = read_tls_records(file, eap.RADSEC_PORT, keys)
    return eap.session_keys((message.data for message in parse_radius_messages(records)),
                            eap.RADSEC_SECRET)


def check_radsec(observed: Observation, group: str = "") -> Iterator[Check]:
    """Yield the checks for a policy with RADIUS inside TLS (RadSec).

    Args:
        observed: The results of the repetition.
        group: The policy's group of the key agreement, "" if it has none.
    """
    yield _check_records(observed)
    yield _check_certificates(observed)
    if group:
        yield _check_group(group, observed)


def _check_records(observed: Observation) -> Check:
    """Check that all RADIUS messages of full authentications are in TLS, and none in plain UDP."""
    begun_s = float(observed.raw["stamps"].get("start", float("inf")))
    records = {point: [record for file in _captures_of(observed, point) for record
                       in read_tls_records(
        file, eap.RADSEC_PORT, _read_keys(observed))] for point in _WIRES}
    messages = {point: [message for message in parse_radius_messages(records[point])
                        if message.at_s >= begun_s]
                for point in _WIRES}
    stays = [[m.code for m in messages["wire"] if m.at_s < observed.moved_s]]
    if observed.moves:
        stays.append([m.code for m in messages["foreign"] if m.at_s >= observed.moved_s])
    closed = sum(not record.suite for each in records.values() for record in each)
    suites = {record.suite for each in records.values() for record in each
              if record.kind == APPLICATION_DATA and record.suite}
    clear = sum(eap.RADIUS_PORT in (frame.source_port, frame.target_port)
                for point in _WIRES for file in _captures_of(observed, point)
                for frame in pcap.udp_datagrams(file))
    is_whole = all({_REQUEST, _ACCEPT} <= set(codes) for codes in observed.select_full(stays))
    return Check("RADIUS inside TLS", is_whole and not closed and not clear,
                 f"{join_values([len(codes) for codes in stays])} messages of RADIUS inside TLS "
                 f"1.3 ({', '.join(sorted(suites)) or 'none'}), "
                 f"{join_values([codes.count(_ACCEPT) for codes in stays])} of them Access-Accept; "
                 f"{closed} records do not open, {clear} packets of RADIUS by UDP")


def _check_group(name: str, observed: Observation) -> Check:
    """Check the group on which access point and server agreed, when they connected.

    Hellos are not encrypted, and the server's states the group.
    """
    agreed = {file.stem.removeprefix(RADSEC): tls_records.list_agreed_groups(handshake_messages(
        [record for record in read_tls_records(file, eap.RADSEC_PORT, _read_keys(observed))
         if record.is_servers])) for file in _list_connections(observed)}
    expected = messages.TLS_GROUPS[name]
    return Check("RadSec: TLS group", len(agreed) > observed.moves and all(
        set(groups) == {expected} for groups in agreed.values()),
        "once in this testbed, the server chose " + ("; ".join(
            f"{join_values(groups)} for {node}" for node, groups in agreed.items()) or "none")
        + f", {expected} ({name}) expected")


def _list_connections(observed: Observation) -> list[Path]:
    """Return the captures of TLS handshakes of RadSec, one of each access point."""
    return sorted(file for file in _existing_captures(observed) if file.name.startswith(RADSEC))


def _check_certificates(observed: Observation) -> Check:
    """Check the TLS certificates of access point and server, when they connected.

    That happens once per testbed.
    """
    names, is_good = [], True
    files = _list_connections(observed)
    for file in files:
        name = file.stem.removeprefix(RADSEC)
        records = read_tls_records(file, eap.RADSEC_PORT, _read_keys(observed))
        shown = [_proven_name([record for record in records if record.is_servers is is_servers])
                 for is_servers in (True, False)]
        is_good = is_good and bool(shown[0]) and shown[1] == name and shown[0] != name
        names.append(f"{shown[0] or 'nobody'} to {name}, {shown[1] or 'nobody'} to its server")
    return Check("RadSec: mutual certificates", is_good and len(files) > observed.moves,
                 "once in this testbed, who proved to be whom: "
                 f"{'; '.join(names) or 'no connection was made'}")


def _proven_name(records: Sequence[TlsRecord]) -> str:
    """Return the common name of a certificate whose key its owner has proven, or ""."""
    shown = handshake_messages(records)
    certificates = tls_records.list_certificates(shown)
    if not certificates or CERTIFICATE_VERIFY not in dict(shown):
        return ""
    subject = x509.load_der_x509_certificate(certificates[0]).subject
    return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def _read_keys(observed: Observation) -> list[str]:
    return [*observed.raw.get("radsec_keys", ()), *observed.raw.get("tls_keys", ())]


def _existing_captures(observed: Observation) -> list[Path]:
    files = (observed.folder / entry["file"] for entry in observed.raw["captures"])
    return [file for file in dict.fromkeys(files) if file.exists()]


def _captures_of(observed: Observation, point: str) -> list[Path]:
    """Return the captures at one point in order, without captures of probes (`port-`)."""
    return [file for file in _existing_captures(observed) if file.stem.rpartition("-")[2] == point
            and not file.name.startswith("port-")]
