"""Queueing model of the experiment with one server and two kinds of customers.

The background's customers come once each, the supplicant again and again. The calibration is fixed
in advance and uses only the nominal cell without load:

- The server's demand D is 1/X, with X the rate in saturation.
- The supplicant's other time is its time alone, less D and its round trips.
- The background's other time is that of one of its clients alone, less D.

All other points are predictions. In real time the speed of a machine changes within minutes. A
repetition that measures these values before and after its load is therefore predicted by their mean
(`calibration`). It is proven only if the calibration workload took equally long throughout.

If a device takes the server's time in real time, the model has two differences. D is the device's
utilization in saturation over X, because the device can rest while all clients are with the
machine. A client that finds the server idle takes longer, depending on the pause before. That is
the machine's own part of the work.

If the machine itself takes the server's time, a guest has one processor for all. The generator's
steps have priority over the server's, which are served in order. Their shares are those of one
client alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.cells import Cells, Ids, Observation
from analysis.queueing import (
    Chain,
    CustomerClass,
    Measurement,
    Model,
    QueueingError,
    QueueingNetwork,
    QueueingStation,
    Visit,
    calibrate_network,
    simulate_network,
    solve_network,
)
from analysis.queueing.calibrate import REST
from studies.eapload2004.calibration import (
    SERVER,
    Unloaded,
    calibrate_repetition,
    demand_drift,
    read_unloaded,
)
from studies.eapload2004.design import NAMES, TABLE_1, ids, share_ids
from studies.eapload2004.metrics import (
    BACKGROUND,
    ROUND_TRIPS,
    SERVICE,
)
from studies.eapload2004.traces import SUPPLICANT, ArrivalTrace, join_repetitions

RESUMED, FULL = "resumed", "full"
WAN = "wan"
BEHIND, FRONT = "background", "front"
_SEED = 2004
#: Smallest number of arrivals for percentiles and means of parts.
_ENOUGH = 300


@dataclass(frozen=True)
class ResumedTimes:
    """The measurements of the cell with resumed sessions (s), for what-ifs only."""

    service_s: float
    round_trips: float
    background_s: float


@dataclass(frozen=True)
class LoadedCell:
    """A cell that differs from the paper's experiment only in its load."""

    title: str
    row: Ids
    rate_per_s: float


@dataclass(frozen=True)
class Predicted:
    """The model's prediction of the background at one load, on the measured arrivals.

    `parts` are measured and modelled means of consecutive parts of the repetitions, in order of
    departure; `p95_parts` are their 95th percentiles. Both are empty with too few arrivals. `drift`
    is the growth of an authentication's processor time from before to after the load, where
    measured.
    """

    title: str
    rate_per_s: float
    utilization: float
    response_s: float
    p95_s: float
    measured_s: float
    measured_p95_s: float
    parts: tuple[tuple[float, float], ...]
    p95_parts: tuple[tuple[float, float], ...]
    drift: float | None = None


def build_network(measured: Unloaded, rate_per_s: float) -> QueueingNetwork:
    """Return the calibrated network with a background of a rate.

    Raises:
        QueueingError: The supplicant's time alone is shorter than its parts.
    """
    handshake = (Visit(SERVER, 1 / measured.capacity_per_s),)
    stations = (QueueingStation(SERVER, "ps", scv=0.0),)
    base = QueueingNetwork(stations, (Chain(BEHIND, (CustomerClass("full", handshake),),
                                            rate_per_s=min(rate_per_s, 1e-6)),))
    found = calibrate_network(base, alone_s=measured.alone_s,
                              saturation_per_s=measured.capacity_per_s,
                              chain=BEHIND, station=SERVER)
    demand_s = 1 / measured.capacity_per_s
    rest_s = measured.service_s - demand_s - measured.round_trips * measured.rtt_s
    if rest_s < 0:
        raise QueueingError("calibration", "the supplicant alone takes less than its round trips "
                            "and the server's demand", "measure the cell without load again")
    visits = (Visit(SERVER, demand_s), Visit(WAN, measured.rtt_s, measured.round_trips),
              Visit(SUPPLICANT, rest_s))
    front = Chain(FRONT, (CustomerClass("all", visits),), population=1,
                  think_s=max(0.0, measured.cycle_s - measured.service_s))
    behind = found.chain(BEHIND)
    return QueueingNetwork(
        (*found.stations, QueueingStation(WAN, "delay", direction="round_trip"),
         QueueingStation(SUPPLICANT, "delay")),
        (Chain(BEHIND, behind.classes, rate_per_s=rate_per_s), front))


def build_model(cells: Cells) -> Model:
    """Return the network with the measurements of the background.

    Raises:
        QueueingError: No cell without load, or none with load, was measured.
    """
    measured, loaded = read_unloaded(cells), _loaded_cells(cells)
    if measured is None or not loaded:
        raise QueueingError("results", "have no cell without load, or none with it, at the "
                            "nominal levels", "measure loads 0 and another one")
    rates = [each.rate_per_s for each in loaded]
    top = max((rate for rate in rates if rate in TABLE_1), default=rates[-1])
    points = tuple(_measure_background(cells, each) for each in loaded)
    return Model(_with_resumed(cells, build_network(measured, top), measured.rtt_s),
                 {BEHIND: points})


def _with_resumed(cells: Cells, full: QueueingNetwork, rtt_s: float) -> QueueingNetwork:
    """Return the network with a variant of resumed sessions, where they were measured.

    No customer follows the variant until a what-if says so.
    """
    row = ids(sessions=RESUMED)
    values = [cells.mean_of_any(name, row) for name in (SERVICE.name, ROUND_TRIPS.name,
                                                        BACKGROUND.name)]
    means = [value.estimate.mean for value in values if value is not None]
    return with_resumed(full, ResumedTimes(*means), rtt_s) if len(means) == len(values) else full


def with_resumed(full: QueueingNetwork, resumed: ResumedTimes, rtt_s: float) -> QueueingNetwork:
    """Return the network with resumed sessions as a variant of both chains.

    Resumed sessions need no public-key operation.
    """
    front, behind = full.chain(FRONT), full.chain(BEHIND)
    rest_s = sum(visit.service_s for member in behind.classes for visit in member.visits
                 if visit.station == REST)
    variants = {
        FRONT: (Visit(WAN, rtt_s, resumed.round_trips),
                Visit(SUPPLICANT, max(0.0, resumed.service_s - resumed.round_trips * rtt_s))),
        BEHIND: (Visit(REST, max(0.0, resumed.background_s - rest_s)),)}
    chains = []
    for chain in (behind, front):
        classes = tuple(replace(member, variant=FULL) if member.name != REST else member
                        for member in chain.classes)
        chains.append(replace(chain, shares={FULL: 1.0, RESUMED: 0.0}, classes=(
            *classes, CustomerClass(RESUMED, variants[chain.name], variant=RESUMED))))
    return replace(full, chains=tuple(chains))


def _measure_background(cells: Cells, loaded: LoadedCell) -> Measurement:
    trace = join_repetitions(cells, cells.good_rows(loaded.row))
    if len(trace.arrivals_s) < _ENOUGH:
        return Measurement(loaded.rate_per_s, _mean_of(cells, BACKGROUND.name, loaded))
    return Measurement(loaded.rate_per_s, float(trace.latencies_s.mean()),
                       arrivals_s=trace.arrivals_s,
                       p95_s=float(np.quantile(trace.latencies_s, 0.95)))


def predict_background(cells: Cells) -> list[Predicted]:
    """Return the predictions of the background at every measured load, on equal arrivals.

    Repetitions are put one after the other. In real time each one is predicted by its own
    calibration.
    """
    measured = read_unloaded(cells)
    if measured is None:
        return []
    made = []
    for each in _loaded_cells(cells):
        rows = cells.good_rows(each.row)
        together = [[row] for row in rows] if cells.results.clock == "real" else [rows]
        blocks = [(calibrate_repetition(cells, places[0], measured), trace) for places in together
                  # One customer alone has no rate and therefore no utilization.
                  if (trace := join_repetitions(cells, places)).span_s]
        if blocks:
            made.append(replace(_predict_cell(each, blocks), drift=demand_drift(cells, each.row)))
    return made


def service_times(cells: Cells) -> dict[float, float]:
    """Return the modelled mean service time of the supplicant (s) by load (1/s)."""
    measured = read_unloaded(cells)
    if measured is None:
        return {}
    rates = (each.rate_per_s for each in _loaded_cells(cells) if each.row == ids(load=each.row[0]))
    loads = [rate for rate in (0.001, *rates) if rate < measured.capacity_per_s]
    return {load: solve_network(build_network(measured, load)).chain(FRONT).response_s for load
            in loads}


def _predict_cell(loaded: LoadedCell, blocks: Sequence[tuple[Unloaded, ArrivalTrace]]) -> Predicted:
    made = np.concatenate([_modelled_responses(measured, loaded.rate_per_s, trace)
                           for measured, trace in blocks])
    left = np.concatenate([  # in the model's order, for the comparison
        trace.latencies_s[np.argsort(trace.arrivals_s + trace.latencies_s)] for _, trace in blocks])
    offered = sum(len(trace.arrivals_s) / measured.capacity_per_s for measured, trace in blocks)
    return Predicted(
        loaded.title, loaded.rate_per_s, offered / sum(trace.span_s for _, trace in blocks),
        float(made.mean()), float(np.quantile(made, 0.95)), float(left.mean()),
        float(np.quantile(left, 0.95)), _figures_by_part(left, made, 30, np.mean),
        _figures_by_part(left, made, 60, lambda part: np.quantile(part, 0.95)))


def _modelled_responses(measured: Unloaded, rate_per_s: float,
                        trace: ArrivalTrace) -> NDArray[np.float64]:
    """Return the model's response times of the background (s) in order of departure."""
    demand_s = measured.server_share / measured.capacity_per_s
    works = (*((part * demand_s, instants) for part, instants in trace.meetings),
             *trace.alongside)
    return simulate_network(
        _on_arrivals(measured, rate_per_s, [work_s for work_s, _ in works]),
        np.random.default_rng(_SEED), arrivals_s={BEHIND: trace.arrivals_s, **{
            f"{FRONT}-{number}": instants for number, (_, instants) in enumerate(works)}},
    ).chain(BEHIND).responses_s


def _figures_by_part(measured_s: NDArray[np.float64], modelled_s: NDArray[np.float64], size: int,
                     figure: Callable[[NDArray[np.float64]], np.floating[Any]],
                     ) -> tuple[tuple[float, float], ...]:
    """Return a figure of both lists by consecutive parts of at least `size` customers.

    The result is empty with too few customers.
    """
    if len(measured_s) < _ENOUGH:
        return ()
    count = min(20, len(measured_s) // size)
    return tuple((float(figure(mine)), float(figure(modelled))) for mine, modelled in zip(
        np.array_split(measured_s, count), np.array_split(modelled_s, count), strict=True))


def _on_arrivals(measured: Unloaded, rate_per_s: float, works: Sequence[float]) -> QueueingNetwork:
    """Return the network with measured arrivals and the supplicant's demands among them."""
    whole = build_network(measured, rate_per_s)
    meetings = (Chain(f"{FRONT}-{number}", (
        CustomerClass("meeting", (Visit(SERVER, work_s),)),),
        rate_per_s=1 / measured.cycle_s) for number, work_s in enumerate(works))
    stations = (replace(station, discipline="priority" if measured.steps_s else "ps",
                        warm_up_s=measured.warm_up_s, cooling=measured.cooling)
                if station.name == SERVER else station for station in whole.stations)
    behind = whole.chain(BEHIND)
    return QueueingNetwork(tuple(stations), (replace(behind, classes=tuple(
        replace(member, visits=measured.steps()) if member.name == "full" else member
        for member in behind.classes)), *meetings))


def _loaded_cells(cells: Cells) -> list[LoadedCell]:
    """Return the cells with load that differ from the paper's only in the load."""
    made = []
    for row in cells.results.cells:
        load, share = float(row[0]), float(row[NAMES.index("share")])
        if not cells.good_rows(row) or not (load or share) or row not in (ids(load=row[0]),
                                                                          share_ids(share)):
            continue
        if cells.mean_of_any("growth", row) is not None:
            continue  # overloaded: there is no steady state to predict
        if cells.mean_of_any(BACKGROUND.name, row) is None:
            continue  # no arrivals in the steady part: there is nothing to compare
        said = cells.mean_of_any("rate_per_s", row)
        rate = said.estimate.mean if said is not None else load
        made.append(LoadedCell(f"{share:g} %" if share else f"{load:g}", row, rate))
    return made


def _mean_of(cells: Cells, name: str, loaded: LoadedCell) -> float:
    value = cells.mean_of_any(name, loaded.row)
    assert isinstance(value, Observation)
    return value.estimate.mean
