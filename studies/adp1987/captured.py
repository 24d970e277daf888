"""A user's own trace is read from a capture: every packet of IP is a message, but ICMP's.

Of either version, with VLAN tags or without; what is in a tunnel counts as the tunnel's packet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from measure import fields
from measure.errors import MeasureError
from protocols.adp.packets import MAX_BOUND
from studies.study import Level, StudyError

#: The paper's length of a trace; what follows is left out.
MAX_MESSAGES = 10_000
#: Without a word on urgency in a capture: TCP segments that push data are what somebody waits for.
_FIELDS = ("frame.time_epoch", "frame.protocols", "ip.len", "ipv6.plen", "tcp.flags.push")
_FILTER = "(ip or ipv6) and not icmp and not icmpv6"
#: IPv6 says its length without its header.
_IPV6_BYTES = 40
_MIN_TIMES = 2


def level(path: Path) -> Level:
    """A level of the factor trace. Raises StudyError, in one line."""
    if not path.is_file():
        raise StudyError(f"--trace {path}: no such file; give a capture (.pcap, .pcapng)")
    try:
        packets = fields.read(path, _FIELDS, _FILTER)
    except MeasureError as error:
        raise StudyError(f"--trace {path}: is not a capture ({error.reason[:160]}); give a .pcap "
                         "or .pcapng file") from None
    rows = [(float(time), size, push.split(",")[0].lower() in ("1", "true"))
            for time, protocols, old, new, push in packets
            if (size := _outer_bytes(protocols, old, new))][:MAX_MESSAGES]
    if len({time for time, _, _ in rows}) < _MIN_TIMES:
        raise StudyError(f"--trace {path}: has no two packets of IP at different times (ICMP is "
                         "left out); give a longer capture")
    _check(path, rows)
    start = rows[0][0]
    messages = [(time - start, size, urgent) for time, size, urgent in rows]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    no_latency = "" if any(urgent for *_, urgent in rows) else ", none urgent, so without latency"
    return Level(path.stem, f"{len(messages)} messages of {path.name}{no_latency}", value=messages,
                 content={"sha256": digest, "messages": len(messages)}, digest=digest)


def _check(path: Path, rows: Sequence[tuple[float, int, bool]]) -> None:
    """Refuse what no host can hand over as it is. Raises StudyError."""
    largest = max(size for _, size, _ in rows)
    if largest > MAX_BOUND:
        raise StudyError(f"--trace {path}: has a packet of {largest} bytes, more than any queue "
                         f"takes ({MAX_BOUND}); leave it out of the capture")
    for number, (before, after) in enumerate(pairwise(rows), 2):
        if after[0] < before[0]:
            raise StudyError(f"--trace {path}: message {number} comes {before[0] - after[0]:g} s "
                             "before the one that it follows; sort the capture with reordercap")


def _outer_bytes(protocols: str, old: str, new: str) -> int:
    """The size of a packet by the first header of IP in it: `ip.len`, or `ipv6.plen` and more."""
    outer = next((name for name in protocols.split(":") if name in ("ip", "ipv6")), "")
    sizes = {"ip": old, "ipv6": new}.get(outer, "")
    return int(sizes.split(",")[0] or 0) + _IPV6_BYTES * (outer == "ipv6") if sizes else 0
