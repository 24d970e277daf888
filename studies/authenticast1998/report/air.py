"""Table of streams over policies on the air, with losses by cause."""

from __future__ import annotations

from analysis.cells import Cells
from analysis.numbers import observation_entry
from analysis.table import Column, Entry, Table
from studies.authenticast1998.metrics import DELAY_P99, LEVEL, RETENTION
from studies.mobile import NO_POLICY

_LOST = {"air": "Lost on the air", "handoff": "by the handoff", "buffer": "at the buffer",
         "shed": "shed"}
_METRICS = (RETENTION, LEVEL, DELAY_P99)
_NOTES = (
    ("Lost on the air, and by the handoff: sent, by the capture at the server (opened with the "
    "kernel's keys where a tunnel hides it), and not seen at the mobile node; by the handoff is "
    "what was sent between its leaving home and the first answered packet in the visited "
     "network."),
    ("At the buffer: arrived at the node, and found no room at the program's socket. By "
    "verification: came to a verdict that was no, alone, with its bundle, or because its bundle "
    "was not whole."),
    ("Handoff: how long the mobile node's daemons take is the one thing that two runs of a seed "
     "have alike to some ms only, and what was lost meanwhile to a packet or two (the study's "
     "README, How alike two runs are)."))


def air_table(cells: Cells) -> Table | None:
    """Return a row for each cell on the air, or None without any."""
    rows = []
    for ids in cells.results.cells:
        levels = dict(zip(cells.results.names, ids, strict=True))
        if levels.get("policy", NO_POLICY) == NO_POLICY:
            continue
        entries = [Entry(levels[name]) for name in ("policy", "scenario", "heuristic")]
        entries += [observation_entry(cells.mean_of_any(metric.name, ids)) for metric in _METRICS]
        entries += [observation_entry(cells.mean_of_any(f"lost_{cause}_packets", ids)) for cause
                    in _LOST]
        entries += [observation_entry(cells.mean_of_any(name, ids))
                    for name in ("failed_packets", "handoff_s")]
        rows.append(tuple(entries))
    if not rows:
        return None
    columns = (Column("policy", "Policy"), Column("scenario", "Scenario"),
               Column("heuristic", "Heuristic"), *(
                   Column(metric.name, metric.sentence, metric.unit, metric.scale, metric.digits)
                   for metric in _METRICS),
               *(Column(f"lost_{cause}_packets", title, "packets", digits=1)
                 for cause, title in _LOST.items()),
               Column("failed_packets", "by verification", "packets", digits=1),
               Column("handoff_s", "Handoff", "ms", 1e3, 0))
    return Table("on-air", "Streams over policies on the air", columns, tuple(rows),
                 "One client, the mobile node; a scenario that roams moves it in the middle of "
                 "the stream.", _NOTES)
