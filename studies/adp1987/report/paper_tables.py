"""The paper's Tables 2 to 6 and its utilisations, with published and measured values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.cells import Cells, Ids, Observation
from analysis.metrics import Metric
from analysis.numbers import NOTHING, estimate_entry
from analysis.table import Column, Entry, Table
from studies.adp1987.body import (
    ADP_BYTES,
    ESTABLISHMENT,
    LATENCY,
    THROUGHPUT,
    UTILISATION,
)
from studies.adp1987.design import SCOPES, URGENCY, ids
from studies.adp1987.published import QUEUES, PaperValues, scope_ids
from studies.adp1987.report import overloaded
from studies.adp1987.traces import TRACES

_SOURCE = "the 1987 paper"
_CHOSEN = " ND's latency with trailer encrypted and queueing is Table 2's, which chose its trace."
#: A metric and its cell.
Place = tuple[Metric, Ids]
_NOTE = ("Overloaded: the trace offers more than the cell's throughput, or keeps its sender busy "
         "all the time; its latency grows with the trace's length.")


def build_tables(cells: Cells, paper: PaperValues) -> Iterator[Table]:
    """Yield the tables that have measured values."""
    made = (_table_2(cells, paper),
            _table_of_scopes(cells, paper, "3", "ALL", "all six are fitted to"),
            _table_of_scopes(cells, paper, "4", "ND", "all six are predictions"),
            _table_5(cells, paper),
            _table_6(cells, paper), _table_of_utilisation(cells, paper))
    for table in made:
        if any(entry.number is not None for row in table.rows for entry in row):
            yield table


def measured_entry(cells: Cells, paper: PaperValues, table: str, place: Place) -> Entry:
    """Return the measured value of a cell, with the published value of a table."""
    metric, cell = place
    value = cells.value(metric.name, cell)
    if not isinstance(value, Observation):
        return NOTHING
    made = estimate_entry(value.estimate, records=value.records)
    is_overloaded = metric is LATENCY and overloaded.is_overloaded(cells, cell)
    return Entry(made.text, made.number, paper.tables.get(table, {}).get((metric.name, *cell)),
                 made.marks, made.records, detail=overloaded.WORD if is_overloaded else "")


def metric_column(metric: Metric, ending: str = "", title: str = "", group: str = "") -> Column:
    """Return a column for a metric, with an optional title and group of its own."""
    key = f"{metric.name}_{ending}" if ending else metric.name
    return Column(key, title or metric.title, metric.unit, metric.scale, metric.digits, group)


def _build_table(cells: Cells, name: str, title: str, head: Sequence[Column],
                 rows: Sequence[Sequence[Entry]], caption: str) -> Table:
    return Table(f"table-{name}", title, tuple(head), tuple(tuple(row) for row in rows), caption,
                 (_NOTE,), clock=cells.results.clock, source=_SOURCE)


def _table_2(cells: Cells, paper: PaperValues) -> Table:
    metrics = (ADP_BYTES, THROUGHPUT, LATENCY, ESTABLISHMENT)
    rows = [[Entry(trace),
             *(measured_entry(cells, paper, "2", (metric, ids(trace))) for metric in metrics)]
            for trace in TRACES]
    return _build_table(cells, "2", "Table 2: the five traces at nominal levels",
                        [Column("trace", "Trace"), *map(metric_column, metrics)], rows,
                        "Throughputs are predictions but for ALL; ADP messages and latencies are "
                        "what "
                        "the traces were chosen by.")


def _table_of_scopes(cells: Cells, paper: PaperValues, name: str, trace: str, split: str) -> Table:
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


def _table_5(cells: Cells, paper: PaperValues) -> Table:
    places = [(metric, technology) for metric in (THROUGHPUT, LATENCY)
              for technology in ("HW", "SW")]
    rows = [[Entry(trace),
             *(measured_entry(cells, paper, "5", (metric, ids(trace, technology=technology)))
                             for metric, technology in places)] for trace in ("ALL", "ND")]
    head = [Column("trace", "Trace"),
            *(metric_column(metric, technology.lower(), technology, metric.title)
                                        for metric, technology in places)]
    return _build_table(cells, "5", "Table 5: DES chip and DES routine", head, rows,
                        "The routine's cost is fitted to ALL's 50 kB/s; ND's is a prediction."
                        + _CHOSEN)


def _table_6(cells: Cells, paper: PaperValues) -> Table:
    metrics = (THROUGHPUT, LATENCY, ADP_BYTES)
    rows = [[Entry(f"{urgency} ({share:.2%})"),
             *(measured_entry(cells, paper, "6", (metric, ids("ALL", urgency=urgency)))
               for metric in metrics)] for urgency, share in URGENCY.items()]
    return _build_table(cells, "6", "Table 6: urgent messages, ALL trace",
                        [Column("urgency", "Urgent"), *map(metric_column, metrics)], rows,
                        "All but U3, which is of Table 3, are predictions. Which messages are "
                        "urgent the "
                        "paper does not say; here, any.")


def _table_of_utilisation(cells: Cells, paper: PaperValues) -> Table:
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
