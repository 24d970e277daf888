"""Read the EAP conversation inside TLS from a capture, with the server's TLS keys."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import fields

_NAMES = ("frame.time_epoch", "eth.src", "eap.type", "eap.identity", "tls.handshake.type",
          "tls.handshake.extensions.supported_version", "tls.handshake.extensions_key_share_group",
          "tls.handshake.ciphersuite", "tls.handshake.server_named_curve",
          "tls.handshake.version", "diameter.avp.code", "data.data")
#: The PEAP dissector would take an inner identity request for the start of another conversation.
_PLAIN = ("--disable-protocol", "peap")


@dataclass(frozen=True)
class Inside:
    """An EAP frame of a mobile node's interface, with the decrypted fields."""

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


def read_frames(capture: Path, keys: Sequence[str]) -> list[Inside]:
    """Read the EAP frames of a capture.

    Args:
        capture: The capture file.
        keys: Lines of an SSLKEYLOGFILE.

    Raises:
        MeasureError: tshark cannot read the file.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
        file.write("".join(f"{line}\n" for line in keys))
        file.flush()
        rows = fields.read_fields(capture, _NAMES, "eap",
                                  options=[*_PLAIN, "-o", f"tls.keylog_file:{file.name}"])
    return [_parse_frame(dict(zip(_NAMES, row, strict=True))) for row in rows]


def _parse_frame(c: Mapping[str, str]) -> Inside:
    versions = _parse_numbers(c["tls.handshake.extensions.supported_version"]) or _parse_numbers(
        c["tls.handshake.version"])
    return Inside(
        float(c["frame.time_epoch"]), c["eth.src"].partition(",")[0], _parse_numbers(c["eap.type"]),
        tuple(filter(None, c["eap.identity"].split(","))), _parse_numbers(c["tls.handshake.type"]),
        versions, _parse_numbers(c["tls.handshake.extensions_key_share_group"]),
        _parse_numbers(c["tls.handshake.ciphersuite"]),
        _parse_numbers(c["tls.handshake.server_named_curve"]),
        _parse_numbers(c["diameter.avp.code"]),
        tuple(bytes.fromhex(entry) for entry in c["data.data"].split(",") if entry))


def _parse_numbers(column: str) -> tuple[int, ...]:
    return tuple(int(entry, 0) for entry in column.split(",") if entry)
