"""Build the report's tables: Table 1 of the 1998 paper from measurements, and streams over the air.

`build_tables` takes the measured values of a run. It yields both tables, then those of
`comparisons.py`. The paper is Schneck and Schwan (1998) on signed video streams.
`studies.authenticast1998` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator

from scipy import stats

from analysis.cells import Cells
from analysis.reporting.table_entries import observation_entry
from analysis.table import Column, Entry, Table
from studies.authenticast1998.cells import HEURISTICS
from studies.authenticast1998.measurements import DELAY_P99, LEVEL, RETENTION
from studies.authenticast1998.report import comparisons
from studies.policy_factors import NO_POLICY

# --- Streams over policies on the air, with losses by cause ---

_LOST = {"air": "Lost on the air", "handoff": "by the handoff", "buffer": "at the buffer",
         "shed": "shed"}
_METRICS = (RETENTION, LEVEL, DELAY_P99)
_AIR_NOTES = (
    ("Lost on the air, and by the handoff: packets in the capture at the server (decrypted if "
     "there is a tunnel) that are not in the capture at the mobile node. The handoff lost those "
     "that were sent between leaving home and the first answered packet in the visited network."),
    ("At the buffer: packets that arrived at the node when the program's socket was full. By "
     "verification: packets that failed verification alone or with their bundle, or whose bundle "
     "was incomplete."),
    ("Handoff: its duration is the only value that differs by some ms between two runs of a seed, "
     "and its lost packets differ by one or two (the study's README, How alike two runs are)."))


def build_air_table(cells: Cells) -> Table | None:
    """Build the table of streams over the air, with a row per combination. None without any."""
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
                 "the stream.", _AIR_NOTES)


# --- The paper's Table 1, and the list of all tables ---

#: Rows of the paper's Table 1 with its printed entries, then schemes that the paper lacks.
_TABLE_1 = {"p20": ("by percentage", "low", "0 to 100 %"),
            "delayed": ("delayed", "varies with bundle", "100 %"),
            "secret-key": ("secret key", "low", "100 %"),
            "tree-16": ("tree", "", ""), "tesla": ("TESLA", "", "")}
_NOTES = (
    ("Non-repudiation: whether a third party can be convinced. Signatures can do that; keys that "
     "both ends know cannot."),
    ("Lost with each altered packet: packets that the receiver gave up because verification "
     "failed, by altered packet that it took up. 1 where one costs itself alone, 0.2 where one in "
     "five is verified."))


def build_tables(cells: Cells) -> Iterator[Table]:
    """Yield the tables for which there are measurements."""
    first = _table_1(cells)
    if first is not None:
        yield first
    of_air = build_air_table(cells)
    if of_air is not None:
        yield of_air
    yield from comparisons.build_comparison_tables(cells)


def _table_1(cells: Cells) -> Table | None:
    """Build Table 1 of the paper: what each way to authenticate packets (heuristic) gives.

    One packet in 8 was altered on the wire. The risk of loss is the number of packets that the
    receiver gave up, divided by the number of altered packets that arrived. The security level is
    the fraction of altered packets that did not get to the application.
    """
    rows = []
    for heuristic, (name, risk, level) in _TABLE_1.items():
        passed, settled = _count_tampered(cells, heuristic)
        if settled == 0:
            continue
        rows.append((Entry(name, note=HEURISTICS[heuristic].title),
                     Entry("yes" if HEURISTICS[heuristic].has_non_repudiation else "no"),
                     _risk_entry(cells, heuristic), Entry(risk or "-"),
                     _level_entry(passed, settled),
                     Entry(f"{passed} of {settled}"), Entry(level or "-")))
    if not rows:
        return None
    columns = (Column("heuristic", "Heuristic"), Column("non_repudiation", "Non-repudiation"),
               Column("risk_packets", "Lost with each altered packet"),
               Column("risk_published", "Loss risk, published"),
               Column("level_share", "Level, by altered packets"),
               Column("altered_processed", "Altered packets processed"),
               Column("level_published", "Level, published"))
    return Table("table-1", "Table 1: what each heuristic gives, as its control measured it",
                 columns, tuple(rows), "One packet in 8 was altered on the wire after it was "
                 "signed. Intervals are exact ones of the binomial distribution, 95 %.",
                 _NOTES)


def _count_packets(cells: Cells, heuristic: str, name: str) -> float:
    observed = cells.values_by_block(name,
                                     comparisons.wired_cell(cells, (heuristic, "1", "tampered")))
    return sum(observed.values())


def _count_tampered(cells: Cells, heuristic: str) -> tuple[int, int]:
    """Count the altered packets that applications got, and all altered packets with a result."""
    return (int(_count_packets(cells, heuristic, "altered_processed_packets")),
            int(_count_packets(cells, heuristic, "altered_settled_packets")))


def _risk_entry(cells: Cells, heuristic: str) -> Entry:
    refused = _count_packets(cells, heuristic, "failed_packets")
    _, settled = _count_tampered(cells, heuristic)
    return Entry(f"{refused / settled:.2f}")


def _level_entry(passed: int, settled: int) -> Entry:
    interval = stats.binomtest(passed, settled).proportion_ci(0.95, "exact")
    return Entry(f"{100 * (1 - passed / settled):.0f} % ({100 * (1 - interval.high):.0f} to "
                 f"{100 * (1 - interval.low):.0f})")
