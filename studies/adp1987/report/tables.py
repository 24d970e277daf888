"""Build the report's tables: those of the 1987 paper on ADP, and further ones.

Input are the measured values of a run and the printed ones. `build_paper_tables` yields Tables 2 to
6 and the processor utilisations. `build_air_table` shows security policies over the air.
`build_comparison_tables` compares ADP and ESP with WireGuard. The paper is the report of Anderson,
Ferrari, Rangan and Sartirana (1987).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from analysis import claims
from analysis.blocks import mean_of, ratio_of_means
from analysis.cells import Cells, Ids, Observation
from analysis.claims import TIMES, Band, Claim, DisplayUnit, Question, Verdict, judge_claim
from analysis.metrics import Metric
from analysis.reporting import run_table
from analysis.reporting.run_table import StudyColumn
from analysis.reporting.table_entries import (
    MISSING_ENTRY,
    estimate_entry,
    exact_entry,
    observation_entry,
)
from analysis.table import Column, Entry, Table
from studies.adp1987 import cells as adp1987_cells
from studies.adp1987.cells import SCOPES, URGENCY, cell_ids
from studies.adp1987.measurements import (
    ADP_BYTES,
    ESTABLISHMENT,
    LATENCY,
    RATE,
    THROUGHPUT,
    UTILISATION,
    WIRE_BYTES,
    WORK,
)
from studies.adp1987.published import QUEUES, PublishedValues, scope_ids
from studies.adp1987.traces import TRACES
from studies.policy_factors import NO_POLICY

# --- Marks of overloaded cells, whose latencies grow with the trace's length ---

OVERLOADED_TEXT = "overloaded"


def is_overloaded(cells: Cells, cell: Ids) -> bool:
    """Return whether a combination of factors was overloaded in any repetition.

    Then messages came faster than they could be sent.
    """
    value = cells.value("overloaded", cell)
    return isinstance(value, Observation) and value.estimate.mean > 0


def describe_overloaded(cells: Cells, places: Iterable[tuple[str, Ids]]) -> str:
    """Return a sentence that names the overloaded points of a figure, or "" without any."""
    names = [name for name, cell in places if is_overloaded(cells, cell)]
    listed = "; ".join(names)
    return f" Overloaded, so that latency grows with the trace's length: {listed}." if names else ""


def build_run_table(cells: Cells) -> Table:
    """Build the table of all measured values, with overloaded combinations marked."""
    column = StudyColumn(Column("load", "load"), lambda cell: (
        Entry(OVERLOADED_TEXT) if is_overloaded(cells, cell) else MISSING_ENTRY), LATENCY.name)
    is_any = any(is_overloaded(cells, cell) for cell in cells.results.cells)
    return run_table.make_run_table(cells, [column] * is_any)


# --- The paper's tables ---

_SOURCE = "the 1987 paper"
_CHOSEN = " ND's latency with trailer encrypted and queueing is Table 2's, which chose its trace."
#: A metric and its cell.
Place = tuple[Metric, Ids]
_OVERLOAD_NOTE = (
    "Overloaded: the trace offers more than the cell's throughput, or keeps its sender busy "
                  "all the time; its latency grows with the trace's length.")


def build_paper_tables(cells: Cells, paper: PublishedValues) -> Iterator[Table]:
    """Yield the tables that have measured values."""
    tables = (_table_2(cells, paper),
              _table_of_scopes(cells, paper, "3", "ALL", "all six are fitted to"),
              _table_of_scopes(cells, paper, "4", "ND", "all six are predictions"),
              _table_5(cells, paper),
              _table_6(cells, paper), _table_of_utilisation(cells, paper))
    for table in tables:
        if any(entry.number is not None for row in table.rows for entry in row):
            yield table


def measured_entry(cells: Cells, paper: PublishedValues, table: str, place: Place) -> Entry:
    """Return a table entry with the measured value and the printed one."""
    metric, cell = place
    value = cells.value(metric.name, cell)
    if not isinstance(value, Observation):
        return MISSING_ENTRY
    entry = estimate_entry(value.estimate, records=value.records)
    has_no_latency = metric is LATENCY and is_overloaded(cells, cell)
    return Entry(entry.text, entry.number, paper.tables.get(table, {}).get((metric.name, *cell)),
                 entry.marks, entry.records, detail=OVERLOADED_TEXT if has_no_latency
                 else "")


def metric_column(metric: Metric, ending: str = "", title: str = "", group: str = "") -> Column:
    """Return a table column for a metric, with an optional title and group."""
    key = f"{metric.name}_{ending}" if ending else metric.name
    return Column(key, title or metric.title, metric.unit, metric.scale, metric.digits, group)


def _build_table(cells: Cells, name: str, title: str, head: Sequence[Column],
                 rows: Sequence[Sequence[Entry]], caption: str) -> Table:
    return Table(f"table-{name}", title, tuple(head), tuple(tuple(row) for row in rows), caption,
                 (_OVERLOAD_NOTE,), clock=cells.results.clock, source=_SOURCE)


def _table_2(cells: Cells, paper: PublishedValues) -> Table:
    metrics = (ADP_BYTES, THROUGHPUT, LATENCY, ESTABLISHMENT)
    rows = [[Entry(trace),
             *(measured_entry(cells, paper, "2", (metric, cell_ids(trace))) for metric in metrics)]
            for trace in TRACES]
    return _build_table(cells, "2", "Table 2: the five traces at nominal levels",
                        [Column("trace", "Trace"), *map(metric_column, metrics)], rows,
                        "Throughputs are predictions, except for ALL. The traces were chosen by "
                        "ADP message sizes and latencies.")


def _table_of_scopes(cells: Cells, paper: PublishedValues, name: str, trace: str,
                     split: str) -> Table:
    places = [(metric, queue) for metric in (THROUGHPUT, LATENCY) for queue in QUEUES]
    rows = [[Entry(scope),
             *(measured_entry(cells, paper, name, (metric, scope_ids(trace, scope, queue)))
                             for metric, queue in places)] for scope in SCOPES]
    head = [Column("scope", "Encryption"),
            *(metric_column(metric, queue.lower(), f"queueing {queue.lower()}", metric.title)
              for metric, queue in places)]
    return _build_table(cells, name, f"Table {name}: encryption and queueing, {trace} trace", head,
                        rows,
                        "Throughput and latency; of the throughputs, "
                        f"{split}.{_CHOSEN * (name == '4')}")


def _table_5(cells: Cells, paper: PublishedValues) -> Table:
    places = [(metric, technology) for metric in (THROUGHPUT, LATENCY)
              for technology in ("HW", "SW")]
    rows = [[Entry(trace),
             *(measured_entry(cells, paper, "5", (metric, cell_ids(trace, technology=technology)))
                             for metric, technology in places)] for trace in ("ALL", "ND")]
    head = [Column("trace", "Trace"),
            *(metric_column(metric, technology.lower(), technology, metric.title)
                                        for metric, technology in places)]
    return _build_table(cells, "5", "Table 5: DES chip and DES routine", head, rows,
                        "The routine's cost is fitted to ALL's 50 kB/s; ND's is a prediction."
                        + _CHOSEN)


def _table_6(cells: Cells, paper: PublishedValues) -> Table:
    metrics = (THROUGHPUT, LATENCY, ADP_BYTES)
    rows = [[Entry(f"{urgency} ({share:.2%})"),
             *(measured_entry(cells, paper, "6", (metric, cell_ids("ALL", urgency=urgency)))
               for metric in metrics)] for urgency, share in URGENCY.items()]
    return _build_table(cells, "6", "Table 6: urgent messages, ALL trace",
                        [Column("urgency", "Urgent"), *map(metric_column, metrics)], rows,
                        "All rows except U3 (from Table 3) are predictions. The paper does not "
                        "say which messages are urgent. Here they are chosen at random.")


def _table_of_utilisation(cells: Cells, paper: PublishedValues) -> Table:
    rows = [[Entry(scope), *(measured_entry(cells, paper, "utilisation",
                                            (UTILISATION, scope_ids("ND", scope, queue)))
                             for queue in QUEUES)] for scope in SCOPES]
    head = [Column("scope", "Encryption"),
            *(metric_column(UTILISATION, queue.lower(), f"queueing {queue.lower()}",
                            UTILISATION.title)
              for queue in QUEUES)]
    return _build_table(cells, "utilisation", "Utilisation of the sender, ND trace (section 4.2)",
                        head,
                        rows, "All are predictions.")


# --- Channel under policies on the air, with ratios to no channel ---

_AIR_METRICS = {THROUGHPUT: "throughput", LATENCY: "latency", ESTABLISHMENT: "establishment",
                WIRE_BYTES: "air bytes a byte"}
_NAMED = ("trace", "policy", "scenario", "protocol", "queue")
_LOST = {"lost_by_handoff": "Lost by the handoff", "lost_otherwise": "otherwise"}
_AIR_NOTES = (
    ("Throughput: as fast as the other end counts, after the handoff where there is one, with two "
     "messages of ADP under way, or 16 of UDP. None: a datagram a message, by UDP. Latency: of "
     "urgent messages. Air bytes: of data frames, on every hop, a byte of user data."),
    ("Lost: user messages in datagrams that the capture at the peer has, and the one at the mobile "
     "node has not; by the handoff are those sent between leaving home and the first packet "
     "answered away. The rest found no room at an access point, or no way through the air. While "
     "throughput is measured, a message that is lost holds its sender up for half a second."),
    ("Of none's: means of the same messages under the same policy in the same scenario; intervals "
     "by blocks hold 95 % (Fieller's)."))


def build_air_table(cells: Cells) -> Table | None:
    """Build the table of measurements over the air, or return None without any."""
    rows = [_build_row(cells, ids) for ids in cells.results.cells
            if _levels_of(cells, ids).get("policy", NO_POLICY) != NO_POLICY]
    if not rows:
        return None
    return Table("table-on-air", "The channel over policies on the air", (
        *(Column(name, name.capitalize()) for name in _NAMED), *(
            metric_column(metric, title=title) for metric, title in _AIR_METRICS.items()),
        Column("throughput_share", "throughput, of none's", "%", 100, 0),
        *(Column(name, title, "messages", digits=1) for name, title in _LOST.items()),
        Column("handoff_s", "Handoff", "ms", 1e3, 0)), tuple(rows),
        "Messages go from the scenario's peer to its mobile node, which moves in the middle of "
        "the trace if the scenario roams.", _AIR_NOTES, clock=cells.results.clock)


def _levels_of(cells: Cells, ids: Ids) -> dict[str, str]:
    return dict(zip(cells.results.names, ids, strict=True))


def _build_row(cells: Cells, ids: Ids) -> tuple[Entry, ...]:
    levels = _levels_of(cells, ids)
    named = [Entry(levels[name]) for name in _NAMED]
    further = [observation_entry(cells.mean_of_any(metric.name, ids)) for metric in _AIR_METRICS]
    lost = [observation_entry(cells.mean_of_any(name, ids)) for name in (*_LOST, "handoff_s")]
    return (*named, *further, _throughput_share(cells, ids), *lost)


def _throughput_share(cells: Cells, ids: Ids) -> Entry:
    """Return the ratio of throughput to that without protection, in the same network."""
    levels = _levels_of(cells, ids)
    [beside] = [row for row in adp1987_cells.air_cells(
        levels["trace"], levels["policy"], levels["scenario"], None) if "none" in row]
    if ids == beside:
        return exact_entry(1.0)
    share = ratio_of_means(cells.observations, [(THROUGHPUT.name, *ids)],
                           [(THROUGHPUT.name, *beside)])
    return MISSING_ENTRY if share is None else estimate_entry(share)


# --- Modern ADP, ESP and no protection, compared with WireGuard in one run ---

_COMPARISON_METRICS = (ESTABLISHMENT, THROUGHPUT, RATE, WORK, LATENCY, WIRE_BYTES)
_COMPARED = (THROUGHPUT, WORK, LATENCY, WIRE_BYTES)
_REFERENCE = "wireguard"
#: User messages per second of a core, both ends together.
_RATE_ASKED = 10_000.0
_RATE, _THROUGHPUT, _LATENCY, _BYTES = (Claim(name, says, "real time") for name, says in (
    ("M1", "with queueing, a core carries 10,000 user messages a second, both ends together"),
    ("M2", "with queueing, throughput is WireGuard's or more"),
    ("M3", "with queueing, latency is more than WireGuard's"),
    ("M4", "with queueing, fewer bytes are on the wire than WireGuard's")))
_COMPARISON_NOTE = (
    "A message over UDP is one datagram in the kernel's tunnel, which delays none. ADP is a "
    "program in Python. Bytes on the wire include all headers, checksum, preamble and gap. "
    "Processor: user and system time of the host, for both ends together, with the emulation.")
_FREE = ("With the processor clock, work of kernel threads takes no time. That is most of "
         "WireGuard's work.")


def build_comparison_tables(cells: Cells) -> Iterator[Table]:
    """Yield the tables that compare modern ADP with WireGuard and ESP on this machine's processor.

    They are a table of measured values, a table of ratios to WireGuard, and a table of verdicts on
    claims. Nothing is yielded without measured values.
    """
    places = [(trace, row) for trace in cells.results.levels["trace"]
              for row in adp1987_cells.real_time_cells(trace)
              if isinstance(cells.value(THROUGHPUT.name, row), Observation)]
    if not places:
        return
    notes = (_COMPARISON_NOTE, _FREE) if cells.results.clock == "processor" else (_COMPARISON_NOTE,)
    head = [Column("trace", "Trace"), Column("protocol", "Protocol")]
    yield Table("table-beside", "Side by side, in one run",
                (*head, *map(metric_column, _COMPARISON_METRICS)),
                tuple(
        (Entry(trace), Entry(_protocol_name(row)), *(_measured_entry(cells, metric.name, row)
                                                     for metric in _COMPARISON_METRICS))
        for trace, row in places), "All in the same testbed, on the same traces.", notes,
        clock=cells.results.clock)
    ratios = [(Entry(trace), Entry(_protocol_name(row)), *entries) for trace, row in places
              if (entries := _ratio_entries(cells, trace, row))]
    if ratios:
        yield Table("table-ratios", "Ratios to WireGuard", (*head, *(
            Column(f"{metric.name}_ratio", metric.title, "", 1, 3) for metric in _COMPARED)),
            tuple(ratios), "Means over WireGuard's mean of the same trace, in this run; intervals "
            "by blocks hold 95 % (Fieller's).", clock=cells.results.clock)
    traces = list(dict.fromkeys(trace for trace, _ in places))
    yield replace(claims.make_claims_table(_judge_claims(cells, traces), "Modern ADP today",
                                           "What is said", looks=cells.results.planned_looks),
                  id="table-today", clock=cells.results.clock)


def _protocol_name(row: Ids) -> str:
    ids = dict(zip(adp1987_cells.NAMES, row, strict=True))
    queue = f", queueing {ids['queue'].lower()}" * (ids["protocol"] == "modern")
    return f"{ids['protocol']}{queue}"


def _measured_entry(cells: Cells, metric: str, row: Ids) -> Entry:
    value = cells.value(metric, row)
    if not isinstance(value, Observation):
        return MISSING_ENTRY
    return estimate_entry(value.estimate, records=value.records)


def _ratio_entries(cells: Cells, trace: str, row: Ids) -> list[Entry]:
    reference = _cell_of(trace, _REFERENCE)
    if row == reference:
        return []
    ratios = [ratio_of_means(cells.observations, [(metric.name, *row)],
                             [(metric.name, *reference)]) for metric in _COMPARED]
    if all(estimate is None for estimate in ratios):
        return []
    return [MISSING_ENTRY if estimate is None else estimate_entry(estimate)
            for estimate in ratios]


def _cell_of(trace: str, protocol: str) -> Ids:
    """Return the combination of factors that stands for a protocol. For ADP it has queueing."""
    return next(row for row in adp1987_cells.real_time_cells(trace) if protocol in row)


def _judge_claims(cells: Cells, traces: Sequence[str]) -> list[Verdict]:
    """Return the verdicts on statements M1 to M4, which compare ADP with WireGuard."""
    return [judge_claim(claim, [question for trace in traces for question in questions(trace)],
                        cells.observations, looks=cells.results.planned_looks)
            for claim, questions in (
        (_RATE, _rate_questions), (_THROUGHPUT, _throughput_questions),
        (_LATENCY, _latency_questions), (_BYTES, _bytes_questions))]


def _rate_questions(trace: str) -> Iterator[Question]:
    yield Question(f"{trace}: messages a second of the processor",
                   [(WORK.name, *_cell_of(trace, "modern"))], Band(low=_RATE_ASKED),
                   DisplayUnit("/s"),
                   mean_of)


def _throughput_questions(trace: str) -> Iterator[Question]:
    yield _ratio_question(trace, THROUGHPUT, Band(low=1.0))


def _latency_questions(trace: str) -> Iterator[Question]:
    yield _ratio_question(trace, LATENCY, Band(low=1.0))


def _bytes_questions(trace: str) -> Iterator[Question]:
    yield _ratio_question(trace, WIRE_BYTES, Band(high=1.0))


def _ratio_question(trace: str, metric: Metric, band: Band) -> Question:
    return Question(f"{trace}: {metric.title}, of WireGuard's",
                    [(metric.name, *_cell_of(trace, "modern"))], band, TIMES,
                    below=[(metric.name, *_cell_of(trace, _REFERENCE))])
