"""Build the report's tables of authentication times at a RADIUS server.

`build_tables` takes the measured values of a run, the printed values of the paper, and the
predictions of the model. It yields the tables that have measurements. Table 1 is that of the 2004
paper: the mean time of an EAP-TLS authentication by load of the server. Further tables are:

- `methods`: EAP-TLS and EAP-AKA without load, by server
- `model`: predictions of the queueing model, compared with measurements
- `overload`: more load than the server's capacity
- `todays`: today's certificates and post-quantum ones, at shares of the capacity
- tables for changed networks, the load generator, CPU times, and the parts of an authentication

The paper is Kambourakis, Rouskas and Gritzalis (2004). `studies.eapload2004` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from analysis.cells import Cells, Ids, Observation
from analysis.claims import Finding
from analysis.queueing import QueueingError, apply_settings, solve_network
from analysis.reporting.table_entries import MISSING_ENTRY, estimate_entry
from analysis.table import Column, Entry, Quantity, Table
from studies.eapload2004 import model
from studies.eapload2004.cells import (
    ALONE,
    HSS_RTTS_MS,
    PLACES,
    SHARES,
    TABLE_1,
    TODAYS,
    aka_ids,
    cell_ids,
    share_ids,
)
from studies.eapload2004.measurements import (
    BACKGROUND,
    BACKGROUND_P95,
    CAPACITY,
    ROUND_TRIPS,
    SERVICE,
    UTILIZATION,
)
from studies.eapload2004.model import BackgroundPrediction, first_samples, measured_service_times
from studies.eapload2004.published import PublishedValues
from studies.eapload2004.report.claims import WITHIN, find_equivalence
from studies.eapload2004.waterfall import SERVER, SUPPLICANT

_SOURCE = "the 2004 paper"
#: Cells of the table `methods`, by title.
_METHOD_CELLS = {
    "EAP-TLS, FreeRADIUS": ALONE,
    "EAP-TLS, hostapd": cell_ids(load="0", server="hostapd"),
    **{f"EAP-AKA, hostapd, HSS at {rtt} ms": aka_ids(rtt) for rtt in HSS_RTTS_MS},
    "EAP-TLS, FreeRADIUS, temporary identity": cell_ids(load="0", identity="p-tmsi"),
    "EAP-TLS, near server by cross-certificates": cell_ids(load="0", path="near")}
_WHAT_IFS: Mapping[str, Mapping[str, float]] = {
    "as it is": {}, "a server ten times as fast": {"server.speed": 10},
    "two processors in the server": {"server.servers": 2},
    "networks 40 ms apart": {"wan.rtt_ms": 40}, "90 % of sessions resumed": {"resumed": 0.9}}
_SPLIT = {"client_s": "supplicant", "air_s": "air", "authenticator_s": "access point",
          "wire_s": "wire", "server_s": "server", "waiting_s": "waiting for it"}

#: Note on drift: the speed of a machine changes within minutes, which no model knows.
_DRIFT = (" In real time a loaded cell is calibrated before and after its load, and by how much "
          "longer one authentication takes the processor then is the last column: where that is "
          "x, a mean is known to x / (1 - utilization) at best.")


def _ms_column(key: str, title: str, group: str = "") -> Column:
    return Column(key, title, "ms", 1e3, 1, group)


def build_tables(cells: Cells, paper: PublishedValues, service: Mapping[float, float],
                 predicted: Sequence[BackgroundPrediction]) -> Iterator[Table]:
    """Yield the report's tables, without those for which nothing was measured.

    Args:
        cells: the records of the run, by combination of factors.
        paper: values of the 2004 paper.
        service: modelled authentication time (s), by load (1/s).
        predicted: predictions for the load generator's authentications, by load.
    """
    tables = (_table_1(cells, paper, service), _methods_table(cells), _model_table(predicted),
              _overload_table(cells), _todays_table(cells),
              _what_if_table(cells), _generator_table(cells), _demands_table(cells),
              _split_table(cells))
    yield from (table for table in tables if table is not None)


def _table_1(cells: Cells, paper: PublishedValues, service: Mapping[float, float]) -> Table | None:
    rows = []
    for load in TABLE_1:
        values = [_measured_entry(cells, cell_ids(load=str(load), place=place), paper,
                                  service.get(float(load))) for place in PLACES]
        if any(value is not MISSING_ENTRY for value in values):
            rows.append((Entry(str(load)), *values))
    if not rows:
        return None
    columns = (Column("load_per_s", "Load, 1/s"), *(
        Column(f"{SERVICE.name}_{name}", place.title, "s", 1.0, 3)
        for name, place in PLACES.items()))
    return Table("table-1", "Table 1: mean EAP-TLS service time", columns, tuple(rows),
                 "Time from the first 802.1X frame to EAP-Success at the supplicant. The model is "
                 "calibrated without load. Intervals are over the authentications of one "
                 "combination of factors.",
                 paper.inconsistent, clock=cells.results.clock, source=_SOURCE)


def _measured_entry(cells: Cells, row: Ids, paper: PublishedValues, model: float | None) -> Entry:
    value = measured_service_times(cells, row)
    if value is None:
        return MISSING_ENTRY
    cell = estimate_entry(value.estimate, records=value.records)
    return Entry(cell.text, cell.number, paper.service_time_s.get(row), cell.marks, cell.records,
                 modelled=model)


def _model_table(predicted: Sequence[BackgroundPrediction]) -> Table | None:
    if not predicted:
        return None
    columns = (Column("load_per_s", "Load, 1/s or % of capacity"),
               Column("utilization_share", "utilization", "%", 100.0, 1),
               *_comparison_columns("", "mean latency", "mean"),
               *_comparison_columns("_p95", "95th percentile", "p95"))
    has_drift = any(each.drift is not None for each in predicted)
    if has_drift:
        columns += (Column("drift", "longer after the load by", "%", 100.0, 1),)
    tested = find_equivalence(predicted)
    rows = tuple((
        Entry(each.title), Entry(number=Quantity(each.utilization)),
        *_comparison_entries(each.measured_s, each.response_s),
        _equivalence_entry(each, tested, "mean"),
        *_comparison_entries(each.measured_p95_s, each.p95_s),
        _equivalence_entry(each, tested, "p95"),
        *([_drift_entry(each)] if has_drift else []))
        for each in predicted)
    return Table("model", "The background authentications, measured and modelled with the same "
                          "arrivals", columns,
                 rows, "Calibrated by one customer alone and by saturation, in the cell without "
                 "load; everything here is a prediction. Equivalent: a 95 % interval of measured / "
                 "modelled, over parts of the repetitions, is all within what the column says "
                 "(K1's test, of 300 arrivals at least, up to 85 % of utilization)."
                 + (_DRIFT if has_drift else ""))


def _drift_entry(point: BackgroundPrediction) -> Entry:
    return Entry(number=Quantity(point.drift)) if point.drift is not None else MISSING_ENTRY


def _comparison_columns(ending: str, group: str, figure: str) -> Sequence[Column]:
    return (_ms_column(f"measured{ending}_s", "measured", group),
            _ms_column(f"modelled{ending}_s", "modelled", group),
            Column(f"error{ending}", "error", "%", 100.0, 1, group=group),
            Column(f"equivalent{ending}", f"equivalent within {WITHIN[figure]:.0%}", group=group))


def _comparison_entries(measured_s: float, modelled_s: float) -> Sequence[Entry]:
    """Return table entries: measured value, prediction and its relative error."""
    return tuple(Entry(number=Quantity(value)) for value in (
        measured_s, modelled_s, modelled_s / measured_s - 1))


def _equivalence_entry(point: BackgroundPrediction, tested: Mapping[tuple[str, str], Finding],
                       figure: str) -> Entry:
    """Return a table entry with the result of the equivalence test at a load, with interval."""
    finding = tested.get((point.title, figure))
    if finding is None:
        return Entry("-", note="not tested: " + (
            "too few arrivals" if not point.parts else "beyond 85 % of utilization"))
    low, high = finding.estimate.low, finding.estimate.high
    return Entry(finding.word, note=finding.text,
                 detail=f"{low:.3f} to {high:.3f}" if low is not None and high is not None else "")


def _overload_table(cells: Cells) -> Table | None:
    """Build the table of authentications at an overloaded server."""
    columns = (Column("offered_per_s", "offered", "1/s", 1.0, 1),
               Column(UTILIZATION.name, "server busy", "%", 100.0, 1),
               _ms_column(BACKGROUND.name, "mean latency"),
               Column("growth", "later by a second: longer by", "ms", 1e3, 0),
               Column("retransmitted", "requests sent again", "", 1.0, 0),
               Column("failed", "failed in the background", "", 1.0, 0),
               Column("refused", "failed at the supplicant", "", 1.0, 0))
    rows = []
    for row in cells.results.cells:
        values = [cells.mean_of_any(column.key, row) for column in columns]
        if all(values) and values[3] is not None:
            rows.append((Entry("-".join(row)),
                         *(estimate_entry(value.estimate, records=value.records)
                                                 for value in values if value)))
    if not rows:
        return None
    return Table("overload", "More load than the server's capacity", (
        Column("cell", "Cell"), *columns),
                 tuple(rows), "There is no steady state, so the model predicts nothing. The table "
                              "shows how fast times grow.", clock=cells.results.clock)


def _todays_table(cells: Cells) -> Table | None:
    """Build the table of today's certificates and post-quantum ones under load."""
    names = (CAPACITY.name, ROUND_TRIPS.name, BACKGROUND.name, BACKGROUND_P95.name)
    rows = []
    for share in SHARES:
        first: float | None = None
        for title, policy in TODAYS.items():
            values = [cells.mean_of_any(name, share_ids(share, **policy)) for name in names]
            measured = [value for value in values if value is not None]
            if len(measured) < len(names):
                continue
            capacity, *others = measured
            first = first or capacity.estimate.mean
            rows.append((Entry(title), Entry(f"{share}"), estimate_entry(
                capacity.estimate, records=capacity.records),
                         Entry(number=Quantity(capacity.estimate.mean / first)),
                         *(estimate_entry(value.estimate, records=value.records)
                           for value in others)))
    if not rows:
        return None
    columns = (Column("policy", "Certificates and group"), Column("share", "load, % of capacity"),
               Column(CAPACITY.name, "capacity", "1/s", 1.0, 1),
               Column("ratio", "of the first row's", "", 1.0, 2),
               Column(ROUND_TRIPS.name, "round trips", "", 1.0, 0),
               _ms_column(BACKGROUND.name, "mean latency"),
               _ms_column(BACKGROUND_P95.name, "95th percentile"))
    return Table("todays", "Today's and post-quantum certificates under load, TLS 1.3", columns,
                 tuple(rows), "Each load is a share of the capacity that the same repetition "
                 "measured before. Latencies are those of the background, next to the server.",
                 clock=cells.results.clock)


def _methods_table(cells: Cells) -> Table | None:
    """Build the table of EAP-AKA and EAP-TLS without load, by distance of server and HSS."""
    rows = []
    for title, row in _METHOD_CELLS.items():
        service, trips = measured_service_times(cells, row), cells.value(ROUND_TRIPS.name, row)
        if service is not None and isinstance(trips, Observation):
            rows.append((Entry(title), estimate_entry(trips.estimate, records=trips.records),
                         estimate_entry(service.estimate, records=service.records)))
    if len(rows) < 2:
        return None
    columns = (Column("method", "Method and server"),
               Column(ROUND_TRIPS.name, "round trips", "", 1.0, 0),
               _ms_column(SERVICE.name, "service time"))
    return Table("methods", "EAP-AKA and EAP-TLS, by server", columns, tuple(rows),
                 "Without load. The round trip between the networks is 120 ms. The round trip of "
                 "the HSS is between server and HSS.", clock=cells.results.clock)


def _what_if_table(cells: Cells) -> Table | None:
    """Build the table of predictions for changed networks, such as a faster server."""
    try:
        network = model.build_model(cells).network
    except QueueingError:
        return None
    rows = []
    for title, settings in _WHAT_IFS.items():
        try:
            solution = solve_network(apply_settings(network, settings))
        except QueueingError:
            continue  # no measurement of resumed sessions
        rows.append((Entry(title), *(Entry(number=Quantity(solution.chain(name).response_s))
                                     for name in (model.FRONT, model.BEHIND))))
    columns = (Column("what_if", "What if"), _ms_column("front_s", "supplicant"),
               _ms_column("background_s", "background"))
    return Table("what-if", "What if: predictions of the model", columns, tuple(rows),
                 "At the highest measured load of Table 1, by the model that was calibrated "
                 "without load. Nothing here was measured.")


def _generator_table(cells: Cells) -> Table | None:
    """Build the table of the load generator's delays and CPU time."""
    # In virtual time, computing takes no time, so none is counted.
    takes = cells.results.clock != "virtual"
    rows = []
    for row in cells.results.cells:
        late, worst, latency, rate, used = (cells.mean_of_any(name, row) for name in (
            "lateness_s", "lateness_p99_s", BACKGROUND.name, "offered_per_s",
            "generator_processor_s"))
        if late is None or worst is None or latency is None or rate is None:
            continue
        share = Quantity(late.estimate.mean / latency.estimate.mean)
        rows.append((Entry("-".join(row)), estimate_entry(rate.estimate, records=rate.records),
                     estimate_entry(late.estimate), estimate_entry(worst.estimate),
                     Entry(number=share),
                     *((MISSING_ENTRY if used is None else estimate_entry(used.estimate),) if takes
                       else ())))
    if not rows:
        return None
    columns = (Column("cell", "Cell"), Column("offered_per_s", "offered", "1/s", 1.0, 1),
               Column("lateness_s", "mean", "us", 1e6, 1, "late by"),
               Column("lateness_p99_s", "99th percentile", "us", 1e6, 1, "late by"),
               Column("lateness_share", "of mean latency", "%", 100.0, 2, "late by"),
               *((Column("generator_processor_s", "of a processor, each", "ms", 1e3, 2),)
                 if takes else ()))
    return Table("generator", "How late the load generator was", columns, tuple(rows),
                 "Time from the instant at which a background authentication was due until it "
                 'began. Latencies include it. The check "lateness" permits 2 % of the mean.',
                 clock=cells.results.clock)


def _split_table(cells: Cells) -> Table | None:
    rows = []
    for row in cells.results.cells:
        parts = [cells.value(name, row) for name in _SPLIT]
        if isinstance(parts[0], Observation):
            rows.append((Entry("-".join(row)), *(
                estimate_entry(part.estimate, records=part.records) if isinstance(part, Observation)
                else MISSING_ENTRY for part in parts)))
    if not rows:
        return None
    columns = (Column("cell", "Cell"), *(_ms_column(name, title)
                                         for name, title in _SPLIT.items()))
    return Table("split", "Where the time of an authentication goes", columns, tuple(rows),
                 "From captures. Supplicant and server: time between request and answer. Access "
                 "point: time between its radio and the wire, in both directions. Wire: the rest "
                 "of the time that the access point waits. Air: all other time. Waiting: by how "
                 "much an answer of the server takes longer than the fastest of its kind in the "
                 "repetition. Older records lack the access point or waiting. These times are "
                 "then in the column to the left.")


def _demands_table(cells: Cells) -> Table | None:
    """Build the table of CPU times for the queueing model, step by step."""
    rows = []
    for row in cells.results.cells:
        samples = first_samples(cells, row)
        for part in (SUPPLICANT, SERVER):
            taken_s = samples.get(f"demand_{part}_s", ())
            if len(taken_s):
                rows.append((Entry("-".join(row)), Entry(part), *(
                    Entry(number=Quantity(float(seconds))) for seconds in taken_s)))
    if not rows:
        return None
    steps = max(map(len, rows)) - 2
    padded = tuple((*each, *[MISSING_ENTRY] * (steps + 2 - len(each))) for each in rows)
    columns = (Column("cell", "Cell"), Column("process", "process"), *(
        Column(f"step_{number}_s", str(number), "ms", 1e3, 2, "step")
        for number in range(1, steps + 1)))
    return Table("demands", "Time of each step at supplicant and server", columns, padded,
                 "Time between request and answer, in the order of requests: the fastest of the "
                 "first good repetition, which did not wait.", clock=cells.results.clock)
