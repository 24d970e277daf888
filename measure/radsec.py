"""Check RADIUS inside TLS (RadSec): no other RADIUS, and both ends authenticated.

The server's key log decrypts the captured TLS records (`tls_records`). Their content is parsed as
RADIUS, from which keys of the air follow as with UDP.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from measure import eap_keys, pcap, tls_records
from measure.observed import RADSEC, Check, Observed, join_values
from measure.tls_records import APPLICATION_DATA, TlsRecord

_RADIUS_HEAD, _REQUEST, _ACCEPT = 4, 1, 2
_CERTIFICATE, _CERTIFICATE_VERIFY = 11, 15
#: Points behind access points, where their RADIUS passes.
_WIRES = ("wire", "foreign")


@dataclass(frozen=True)
class RadSecMessage:
    """A RADIUS message, with the time at which it was complete."""

    at_s: float
    data: bytes

    @property
    def code(self) -> int:
        """Return the RADIUS code."""
        return self.data[0]


def parse_messages(records: Sequence[TlsRecord]) -> list[RadSecMessage]:
    """Return the RADIUS messages in a capture's records, of all connections by time."""
    found: list[RadSecMessage] = []
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
                found.append(RadSecMessage(record.at_s, pending[:size]))
                pending = pending[size:]
    return sorted(found, key=lambda message: message.at_s)


def session_keys(file: Path, keys: Sequence[str]) -> list[eap_keys.SessionKey]:
    """Return the EAP session keys in a capture's messages.

    Raises:
        MeasureError: The file cannot be read.
    """
    records = tls_records.read_records(file, eap_keys.RADSEC_PORT, keys)
    return eap_keys.session_keys((message.data for message in parse_messages(records)),
                                 eap_keys.RADSEC_SECRET)


def verify(observed: Observed) -> Iterator[Check]:
    """Yield the checks for a policy with RADIUS inside TLS."""
    yield _check_records(observed)
    yield _check_certificates(observed)


def _check_records(observed: Observed) -> Check:
    """Check that every full authentication is in decrypted TLS records, and none in UDP."""
    begun_s = float(observed.raw["stamps"].get("start", float("inf")))
    records = {point: [record for file in _captures_of(observed, point) for record
                       in tls_records.read_records(
        file, eap_keys.RADSEC_PORT, _read_keys(observed))] for point in _WIRES}
    said = {point: [message for message in parse_messages(records[point])
                    if message.at_s >= begun_s]
            for point in _WIRES}
    stays = [[m.code for m in said["wire"] if m.at_s < observed.moved_s]]
    if observed.moves:
        stays.append([m.code for m in said["foreign"] if m.at_s >= observed.moved_s])
    closed = sum(not record.suite for each in records.values() for record in each)
    suites = {record.suite for each in records.values() for record in each
              if record.kind == APPLICATION_DATA and record.suite}
    clear = sum(eap_keys.PORT in (frame.source_port, frame.target_port)
                for point in _WIRES for file in _captures_of(observed, point)
                for frame in pcap.udp_datagrams(file))
    is_whole = all({_REQUEST, _ACCEPT} <= set(codes) for codes in observed.select_full(stays))
    return Check("RADIUS inside TLS", is_whole and not closed and not clear,
                 f"{join_values([len(codes) for codes in stays])} messages of RADIUS inside TLS "
                 "1.3 "
                 f"({', '.join(sorted(suites)) or 'none'}), "
                 f"{join_values([codes.count(_ACCEPT) for codes in stays])} of them Access-Accept; "
                 f"{closed} records do not open, {clear} packets of RADIUS by UDP")


def _check_certificates(observed: Observed) -> Check:
    """Check the certificates of both ends, when connections were made (once per testbed)."""
    said, is_good = [], True
    files = sorted(file for file in _existing_captures(observed) if file.name.startswith(RADSEC))
    for file in files:
        name = file.stem.removeprefix(RADSEC)
        records = tls_records.read_records(file, eap_keys.RADSEC_PORT, _read_keys(observed))
        shown = [_proven_name([record for record in records if record.is_servers is is_servers])
                 for is_servers in (True, False)]
        is_good = is_good and bool(shown[0]) and shown[1] == name and shown[0] != name
        said.append(f"{shown[0] or 'nobody'} to {name}, {shown[1] or 'nobody'} to its server")
    return Check("RadSec: mutual certificates", is_good and len(files) > observed.moves,
                 "once in this testbed, who proved to be whom: "
                 f"{'; '.join(said) or 'no connection was made'}")


def _proven_name(records: Sequence[TlsRecord]) -> str:
    """Return the common name of a side's certificate with a proven key, or ""."""
    said = dict(tls_records.handshake_messages(records))
    certificate = said.get(_CERTIFICATE, b"")
    # Context, size of the list, size of the first entry (RFC 8446, 4.4.2).
    place = 1 + certificate[0] + 3 if certificate else 0
    size = int.from_bytes(certificate[place:place + 3], "big")
    if not size or _CERTIFICATE_VERIFY not in said:
        return ""
    subject = x509.load_der_x509_certificate(certificate[place + 3:place + 3 + size]).subject
    return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def _read_keys(observed: Observed) -> list[str]:
    return [*observed.raw.get("radsec_keys", ()), *observed.raw.get("tls_keys", ())]


def _existing_captures(observed: Observed) -> list[Path]:
    files = (observed.folder / entry["file"] for entry in observed.raw["captures"])
    return [file for file in dict.fromkeys(files) if file.exists()]


def _captures_of(observed: Observed, point: str) -> list[Path]:
    """Return the captures of a point in order, without those taken once per testbed."""
    return [file for file in _existing_captures(observed) if file.stem.rpartition("-")[2] == point
            and not file.name.startswith("port-")]
