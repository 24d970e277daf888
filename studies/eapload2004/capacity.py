"""Capacity of a server from the generator's journal of a closed loop.

This module needs only the standard library.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from measure.load.generator import ROW


class Journals(NamedTuple):
    """The journal files of one client alone, of saturation and of pauses."""

    alone: str
    saturated: str
    rested: str


BEFORE = Journals("alone.json", "saturated.json", "rested.json")
#: Journals after the load, in real time: the speed of a machine changes within minutes.
AFTER = Journals("alone-after.json", "saturated-after.json", "rested-after.json")
#: Part of the capture's name during the calibration: `auth-calibration.pcap`.
CALIBRATION = "calibration"
#: File with the times of a fixed calibration workload throughout the repetition.
YARDSTICK = "yardstick.json"
#: Pauses before clients that find the server idle (s), used in turn.
PAUSES_S = (0.002, 0.006, 0.015, 0.04, 0.1)
_DUE, _RESPONSE = ROW.index("due_s"), ROW.index("response_s")


def capacity_per_s(journal: Path) -> float:
    """Return the authentications per second in saturation.

    Clients that share a processor keep it busy until the last one ends.
    """
    rows = json.loads(journal.read_text())["attempts"]
    return len(rows) / float(max(row[_DUE] + row[_RESPONSE] for row in rows))
