"""The capacity of a server by the generator's journal of a closed loop. Standard library only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from measure.load.generator import ROW


class Journals(NamedTuple):
    """The files of one customer alone, of as many as can be, and of those who come after pauses."""

    alone: str
    saturated: str
    rested: str


BEFORE = Journals("alone.json", "saturated.json", "rested.json")
#: The same after the load, in real time: a machine is not as quick in one minute as in the next.
AFTER = Journals("alone-after.json", "saturated-after.json", "rested-after.json")
#: What is captured of what the generator asks to that end: `auth-calibration.pcap`.
CALIBRATION = "calibration"
#: How long a fixed piece of work took, again and again, of the whole repetition.
YARDSTICK = "yardstick.json"
#: Seconds before customers who are to find the server at rest, in turn.
PAUSES_S = (0.002, 0.006, 0.015, 0.04, 0.1)
_DUE, _RESPONSE = ROW.index("due_s"), ROW.index("response_s")


def capacity_per_s(journal: Path) -> float:
    """Authentications a second: whoever shares a processor keeps it busy to the last one's end."""
    rows = json.loads(journal.read_text())["attempts"]
    return len(rows) / float(max(row[_DUE] + row[_RESPONSE] for row in rows))
