"""Tables of the report, such as Table 1, the model and the time's parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from analysis.cells import Cells, Ids, Observation
from analysis.claims.finding import Finding
from analysis.numbers import NOTHING, estimate_entry
from analysis.queueing import QueueingError, apply_settings, solve_network
from analysis.table import Column, Entry, Quantity, Table
from studies.eapload2004 import modelled
from studies.eapload2004.design import ALONE, HSS_RTTS_MS, PLACES, TABLE_1, aka_ids, ids
from studies.eapload2004.metrics import BACKGROUND, ROUND_TRIPS, SERVICE, UTILIZATION
from studies.eapload2004.modelled import Predicted
from studies.eapload2004.published import PrintedTimes
from studies.eapload2004.report.claims import WITHIN, find_equivalence
from studies.eapload2004.samples import first_samples, service_times
from studies.eapload2004.waterfall import SERVER, SUPPLICANT

_SOURCE = "the 2004 paper"
#: Cells of the table `methods`, by title.
_METHOD_CELLS = {
    "EAP-TLS, FreeRADIUS": ALONE,
    "EAP-TLS, hostapd": ids(load="0", server="hostapd"),
    **{f"EAP-AKA, hostapd, HSS at {rtt} ms": aka_ids(rtt) for rtt in HSS_RTTS_MS},
    "EAP-TLS, FreeRADIUS, temporary identity": ids(load="0", identity="p-tmsi"),
    "EAP-TLS, near server by cross-certificates": ids(load="0", path="near")}
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


def build_tables(cells: Cells, paper: PrintedTimes, service: Mapping[float, float],
                 predicted: Sequence[Predicted]) -> Iterator[Table]:
    """Yield the tables that have measured values."""
    made = (_table_1(cells, paper, service), _methods_table(cells), _model_table(predicted),
            _overload_table(cells),
            _what_if_table(cells), _generator_table(cells), _demands_table(cells),
            _split_table(cells))
    yield from (table for table in made if table is not None)


def _table_1(cells: Cells, paper: PrintedTimes, service: Mapping[float, float]) -> Table | None:
    rows = []
    for load in TABLE_1:
        values = [_measured_entry(cells, ids(load=str(load), place=place), paper,
                                  service.get(float(load))) for place in PLACES]
        if any(value is not NOTHING for value in values):
            rows.append((Entry(str(load)), *values))
    if not rows:
        return None
    columns = (Column("load_per_s", "Load, 1/s"), *(
        Column(f"{SERVICE.name}_{name}", place.title, "s", 1.0, 3)
        for name, place in PLACES.items()))
    return Table("table-1", "Table 1: mean EAP-TLS service time", columns, tuple(rows),
                 "First frame of 802.1X to EAP-Success at the supplicant; the model is calibrated "
                 "without load. Intervals are over the authentications of a cell.",
                 paper.inconsistent, clock=cells.results.clock, source=_SOURCE)


def _measured_entry(cells: Cells, row: Ids, paper: PrintedTimes, model: float | None) -> Entry:
    value = service_times(cells, row)
    if value is None:
        return NOTHING
    made = estimate_entry(value.estimate, records=value.records)
    return Entry(made.text, made.number, paper.service_time_s.get(row), made.marks, made.records,
                 modelled=model)


def _model_table(predicted: Sequence[Predicted]) -> Table | None:
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
    return Table("model", "The background, measured and modelled on the same arrivals", columns,
                 rows, "Calibrated by one customer alone and by saturation, in the cell without "
                 "load; everything here is a prediction. Equivalent: a 95 % interval of measured / "
                 "modelled, over parts of the repetitions, is all within what the column says "
                 "(K1's test, of 300 arrivals at least, up to 85 % of utilization)."
                 + (_DRIFT if has_drift else ""))


def _drift_entry(point: Predicted) -> Entry:
    return Entry(number=Quantity(point.drift)) if point.drift is not None else NOTHING


def _comparison_columns(ending: str, group: str, figure: str) -> Sequence[Column]:
    return (_ms_column(f"measured{ending}_s", "measured", group),
            _ms_column(f"modelled{ending}_s", "modelled", group),
            Column(f"error{ending}", "error", "%", 100.0, 1, group=group),
            Column(f"equivalent{ending}", f"equivalent within {WITHIN[figure]:.0%}", group=group))


def _comparison_entries(measured_s: float, modelled_s: float) -> Sequence[Entry]:
    """Return the measured value, the prediction and its relative error."""
    return tuple(Entry(number=Quantity(value)) for value in (
        measured_s, modelled_s, modelled_s / measured_s - 1))


def _equivalence_entry(point: Predicted, tested: Mapping[tuple[str, str], Finding],
                       figure: str) -> Entry:
    """Return the result of the equivalence test at a point, with its interval."""
    finding = tested.get((point.title, figure))
    if finding is None:
        return Entry("-", note="not tested: " + (
            "too few arrivals" if not point.parts else "beyond 85 % of utilization"))
    low, high = finding.estimate.low, finding.estimate.high
    return Entry(finding.word, note=finding.text,
                 detail=f"{low:.3f} to {high:.3f}" if low is not None and high is not None else "")


def _overload_table(cells: Cells) -> Table | None:
    """Return the table of authentications at an overloaded server."""
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
    return Table("overload", "More than the server can take", (Column("cell", "Cell"), *columns),
                 tuple(rows), "There is no steady state, and nothing of it is predicted: what is "
                 "measured is how fast it becomes worse.", clock=cells.results.clock)


def _methods_table(cells: Cells) -> Table | None:
    """Return the table of EAP-AKA and EAP-TLS without load, by server and HSS distance."""
    rows = []
    for title, row in _METHOD_CELLS.items():
        service, trips = service_times(cells, row), cells.value(ROUND_TRIPS.name, row)
        if service is not None and isinstance(trips, Observation):
            rows.append((Entry(title), estimate_entry(trips.estimate, records=trips.records),
                         estimate_entry(service.estimate, records=service.records)))
    if len(rows) < 2:
        return None
    columns = (Column("method", "Method and server"),
               Column(ROUND_TRIPS.name, "round trips", "", 1.0, 0),
               _ms_column(SERVICE.name, "service time"))
    return Table("methods", "EAP-AKA beside EAP-TLS, and who decides", columns, tuple(rows),
                 "Without load. Round trip between the networks 120 ms; the HSS's is between the "
                 "server and it.", clock=cells.results.clock)


def _what_if_table(cells: Cells) -> Table | None:
    """Return the table of the calibrated model's answers for changed networks."""
    try:
        network = modelled.build_model(cells).network
    except QueueingError:
        return None
    rows = []
    for title, settings in _WHAT_IFS.items():
        try:
            made = solve_network(apply_settings(network, settings))
        except QueueingError:
            continue  # no measurement of resumed sessions
        rows.append((Entry(title), *(Entry(number=Quantity(made.chain(name).response_s))
                                     for name in (modelled.FRONT, modelled.BEHIND))))
    columns = (Column("what_if", "What if"), _ms_column("front_s", "supplicant"),
               _ms_column("background_s", "background"))
    return Table("what-if", "What if: by the model alone", columns, tuple(rows),
                 "At the highest load of Table 1 that was measured, by the model as the cell "
                 "without load calibrates it; nothing here was measured.")


def _generator_table(cells: Cells) -> Table | None:
    """Return the table of the generator's lateness and processor time."""
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
                     *((NOTHING if used is None else estimate_entry(used.estimate),) if takes
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
                 "From when each in the background was due to when it was begun; latency has it in "
                 'it. The check "lateness" asks for 2 % of the mean at most.',
                 clock=cells.results.clock)


def _split_table(cells: Cells) -> Table | None:
    rows = []
    for row in cells.results.cells:
        parts = [cells.value(name, row) for name in _SPLIT]
        if isinstance(parts[0], Observation):
            rows.append((Entry("-".join(row)), *(
                estimate_entry(part.estimate, records=part.records) if isinstance(part, Observation)
                else NOTHING for part in parts)))
    if not rows:
        return None
    columns = (Column("cell", "Cell"), *(_ms_column(name, title)
                                         for name, title in _SPLIT.items()))
    return Table("split", "Where the time of an authentication goes", columns, tuple(rows),
                 "From captures: between request and answer at the supplicant and at the server; "
                 "what the access point waits beside is the wire's; what a packet takes from its "
                 "radio to the wire, and back, is its own; the rest is the air's. "
                 "What an answer of the server's takes longer than the quickest of its kind in the "
                 "repetition waits for its processor. Records of before have what they lack in the "
                 "column to the left: of the access point in the air's, of waiting in the "
                 "server's.")


def _demands_table(cells: Cells) -> Table | None:
    """Return the table of the model's demands, step by step."""
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
    padded = tuple((*each, *[NOTHING] * (steps + 2 - len(each))) for each in rows)
    columns = (Column("cell", "Cell"), Column("process", "process"), *(
        Column(f"step_{number}_s", str(number), "ms", 1e3, 2, "step")
        for number in range(1, steps + 1)))
    return Table("demands", "What each step takes supplicant and server", columns, padded,
                 "Between a request and its answer, in the order of requests: the quickest of the "
                 "first good repetition, which waited for nobody.", clock=cells.results.clock)
