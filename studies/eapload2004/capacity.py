"""The capacity of a server by the generator's journal of a closed loop. Standard library only."""

from __future__ import annotations

import json
from pathlib import Path

from measure.load.generator import ROW

SATURATED = "saturated.json"
RESTED = "rested.json"
_DUE, _RESPONSE = ROW.index("due_s"), ROW.index("response_s")


def capacity_per_s(journal: Path) -> float:
    """Authentications a second: whoever shares a processor keeps it busy to the last one's end."""
    rows = json.loads(journal.read_text())["attempts"]
    return len(rows) / float(max(row[_DUE] + row[_RESPONSE] for row in rows))
