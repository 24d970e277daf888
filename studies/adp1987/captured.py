"""A user's own trace is read from a capture: every IPv4 packet is a message, but ICMP's."""

from __future__ import annotations

import hashlib
from pathlib import Path

from measure import fields
from measure.errors import MeasureError
from studies.study import Level, StudyError

#: The paper's length of a trace; what follows is left out.
MAX_MESSAGES = 10_000
#: Without a word on urgency in a capture: TCP segments that push data are what somebody waits for.
_FIELDS = ("frame.time_epoch", "ip.len", "tcp.flags.push")
_MAX_BYTES = 57_344
_MIN_MESSAGES = 2


def level(path: Path) -> Level:
    """A level of the factor trace. Raises StudyError, in one line."""
    if not path.is_file():
        raise StudyError(f"--trace {path}: no such file; give a capture (.pcap, .pcapng)")
    try:
        packets = fields.read(path, _FIELDS, "ip && !icmp.type")
    except MeasureError as error:
        raise StudyError(f"--trace {path}: is no capture ({error.reason[:160]}); give a .pcap or "
                         ".pcapng file") from None
    rows = [(float(time), int(size.split(",")[0]), push.lower() in ("1", "true"))
            for time, size, push in packets[:MAX_MESSAGES] if size]
    if len(rows) < _MIN_MESSAGES or rows[-1][0] <= rows[0][0]:
        raise StudyError(f"--trace {path}: has no two IPv4 packets at different times; give a "
                         "longer capture")
    start = rows[0][0]
    messages = [(time - start, min(size, _MAX_BYTES), urgent) for time, size, urgent in rows]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Level(path.stem, f"{len(messages)} messages of {path.name}", value=messages,
                 content={"sha256": digest, "messages": len(messages)}, digest=digest)
