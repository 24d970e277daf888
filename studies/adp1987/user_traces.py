"""Convert a user's capture file to a list of messages (trace) for the study adp1987.

The study then sends these messages through ADP (Authenticated Datagram Protocol), in place of a
generated trace. `read_level` takes the path of any capture file that tshark reads. Every IPv4 or
IPv6 packet except ICMP becomes a message with time, size and urgency, with VLAN tags or without.
The outermost IP header counts, whatever a tunnel carries.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

from measure.agent.errors import MeasureError
from measure.capture import tshark
from protocols.adp.packets import MAX_BOUND
from studies.study import Level, StudyError

#: Length of the paper's traces; later packets are left out.
MAX_MESSAGES = 10_000
#: A capture does not say which messages are urgent. TCP segments with the push flag are taken as
#: urgent, because a receiver waits for them.
_FIELDS = ("frame.time_epoch", "frame.protocols", "ip.len", "ip.proto", "ipv6.plen", "ipv6.nxt",
           "ipv6.opt.jumbo", "ipv6.hopopts.nxt", "ipv6.dstopts.nxt", "ipv6.routing.nxt",
           "ipv6.fraghdr.nxt", "tcp.flags.push", "wlan.fc.protected")
#: Segments before segmentation offload can state a length of 0. tshark corrects IPv4 by default,
#: IPv6 only with this option.
_OPTIONS = ("-o", "ipv6.tso_support:TRUE")
#: Size of the IPv6 header, which the length field of IPv6 does not include.
_IPV6_BYTES = 40
#: Protocol numbers of ICMP and ICMPv6.
_ICMP = frozenset({"1", "58"})
#: Extension headers of IPv6 with a next-header field, by tshark's names.
_EXTENSIONS = ("hopopts", "dstopts", "routing", "fraghdr")
_MIN_TIMES = 2
_TRUE = ("1", "true")
#: Maximum length of a file name in the name of a record, in characters.
_ID_CHARACTERS = 40


@dataclass(frozen=True)
class CapturedPacket:
    """A packet of the capture file: its time stamp, outermost IP header and TCP flags.

    `stamp` is "" without a time stamp. `version` is "ip", "ipv6" or "" (no IP). `size` is 0 if the
    header is cut off.
    """

    stamp: str
    version: str
    size: int
    is_icmp: bool
    is_urgent: bool
    is_encrypted: bool

    @property
    def is_message(self) -> bool:
        """Return whether the packet is a message to send: an IP packet other than ICMP."""
        return bool(self.size) and not self.is_icmp


def read_level(path: Path) -> Level:
    """Read a capture file as a trace, which becomes a value of the factor `trace`.

    Raises:
        StudyError: the file cannot be read as a trace. The message has one line.
    """
    _check_path(path)
    try:
        rows, ends = tshark.read_any_format(path, _FIELDS, options=_OPTIONS)
        content = path.read_bytes()
    except MeasureError as error:
        raise StudyError(f"--trace {path}: cannot be read as a capture ({error.reason[:160]}); "
                         "give a file that tshark opens") from None
    except OSError as error:
        raise StudyError(f"--trace {path}: cannot be read ({error.strerror}); change its "
                         "permissions") from None
    packets = [_packet_from_row(row) for row in rows]
    every = [packet for packet in packets if packet.is_message]
    if not every:
        raise StudyError(f"--trace {path}: {_why_empty(packets)}")
    messages = _to_messages(path, every[:MAX_MESSAGES], f" before it is {ends}" if ends else "")
    digest = hashlib.sha256(content).hexdigest()
    notes = [f"{len(every)} messages of {path.name}"]
    notes += [f"up to where it is {ends}"] if ends else []
    notes += [] if any(urgent for *_, urgent in messages) else ["none urgent, so without latency"]
    return Level(_to_level_id(path), ", ".join(notes), value=messages,
                 content={"sha256": digest, "messages": len(every), "ends": ends}, digest=digest)


def _check_path(path: Path) -> None:
    """Check that the path is a regular file that is not empty.

    Raises:
        StudyError: the path is another kind of file, or the file is empty.
    """
    if path.is_dir():
        raise StudyError(f"--trace {path}: is a folder; give one of the captures in it")
    if not path.exists():
        raise StudyError(f"--trace {path}: no such file; give a capture that tshark reads")
    if not path.is_file():
        raise StudyError(f"--trace {path}: is no regular file; write what it gives to a file first")
    if not path.stat().st_size:
        raise StudyError(f"--trace {path}: is an empty file; give a capture with packets")


def _packet_from_row(row: Sequence[str]) -> CapturedPacket:
    """Convert a row of tshark's output to a packet."""
    cells = dict(zip(_FIELDS, row, strict=True))
    stamp, protocols = cells["frame.time_epoch"], cells["frame.protocols"]
    version = next((name for name in protocols.split(":") if name in ("ip", "ipv6")), "")
    size, following = 0, {""}
    if version == "ip":
        size, following = int(_first_value(cells["ip.len"]) or 0), {_first_value(cells["ip.proto"])}
    elif version == "ipv6" and cells["ipv6.plen"]:
        payload = int(_first_value(cells["ipv6.plen"])) or int(_first_value(cells["ipv6.opt.jumbo"])
                                                               or 0)
        size, following = _IPV6_BYTES + payload, {_last_header(cells, protocols)}
    return CapturedPacket(stamp, version, size, bool(following & _ICMP),
                          _first_value(cells["tcp.flags.push"]).lower() in _TRUE,
                          _first_value(cells["wlan.fc.protected"]).lower() in _TRUE)


def _last_header(cells: dict[str, str], protocols: str) -> str:
    """Return the protocol number after the extension headers of the first IPv6 header."""
    _, _, behind = f":{protocols}:".partition(":ipv6:")
    number = _first_value(cells["ipv6.nxt"])
    for name in behind.split(":"):
        kind = name.removeprefix("ipv6.")
        if kind == name or kind not in _EXTENSIONS:
            break
        number = _first_value(cells[f"ipv6.{kind}.nxt"])
    return number


def _to_messages(path: Path, packets: Sequence[CapturedPacket],
                 ends: str) -> list[tuple[float, int, bool]]:
    """Return time (s from the first message), size (bytes) and urgency of each message.

    Raises:
        StudyError: a time stamp is missing or goes backwards, all are equal, or a packet is too
            large.
    """
    for number, packet in enumerate(packets, 1):
        if not packet.stamp:
            raise StudyError(f"--trace {path}: message {number} has no time stamp; give a capture "
                             "that says when each packet came")
    stamps = [Decimal(packet.stamp) for packet in packets]
    if len(set(stamps)) < _MIN_TIMES:
        raise StudyError(f"--trace {path}: has no two packets of IP at different times (ICMP is "
                         f"left out){ends}; give a longer capture")
    largest = max(packet.size for packet in packets)
    if largest > MAX_BOUND:
        raise StudyError(f"--trace {path}: has a packet of {largest} bytes, more than any queue "
                         f"takes ({MAX_BOUND}); leave it out of the capture")
    for number, (before, after) in enumerate(pairwise(stamps), 2):
        if after < before:
            raise StudyError(f"--trace {path}: message {number} comes {float(before - after):g} s "
                             "before the one that it follows; sort the capture with reordercap")
    return [(float(stamp - stamps[0]), packet.size, packet.is_urgent)
            for stamp, packet in zip(stamps, packets, strict=True)]


def _why_empty(packets: Sequence[CapturedPacket]) -> str:
    """Return why a file has no messages, and what the user can do."""
    if not packets:
        return "holds no packets; give a longer capture"
    if not any(packet.stamp for packet in packets):
        return "is no capture of packets; give a file that tcpdump or Wireshark has written"
    encrypted = sum(packet.is_encrypted for packet in packets)
    if encrypted:
        return (f"{encrypted} of its {len(packets)} packets are encrypted frames of 802.11, and "
                "none shows IP; decrypt it first (airdecap-ng), or capture above the link")
    return (f"none of its {len(packets)} packets is of IP (ICMP is left out); give a capture of "
            "IP packets")


def _to_level_id(path: Path) -> str:
    """Return the file's name, reduced to the characters that names of records may have."""
    stem = unicodedata.normalize("NFKD", path.stem).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", stem).lstrip(".+-")[:_ID_CHARACTERS] or "capture"


def _first_value(column: str) -> str:
    return column.partition(",")[0]
