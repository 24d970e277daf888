"""Predict the authentication times at a loaded RADIUS server by a queueing model.

Input are measurements without load (`read_unloaded_cell`). `predict_background` and
`modelled_service_times` return the predicted times under load, which the report compares with
measured ones. The server serves the measured station, again and again, and background clients, once
each. The inputs are fixed in advance:

- The server's CPU time D per authentication follows from X, the rate in saturation (see below).
- The station's other time is its time without load, less D and its round trips.
- The background's other time is that of a single client, less D.

All other values are predictions. A device is a model of a node's processor, whose times stand for
those of the machine. The inputs depend on the clock and on the device:

- Virtual time: D = 1 / X. All repetitions have the same inputs.
- Real time, in general: the speed of a machine changes within minutes. So inputs are measured
  before and after the load of each repetition, and their mean is taken (`calibrate_repetition`). A
  repetition is valid only if a fixed calibration workload took equally long throughout.
- Real time, the server has a device: D = U / X. U is the device's utilization in saturation. It is
  below 1, because the machine's own work also takes time, and the device is idle meanwhile. If a
  client finds the server idle, this work takes longer, depending on the pause before
  (`UnloadedCell.cooling`).
- Real time, no device: D = 1 / X. The guest has one processor for all nodes. Steps of load
  generator and server alternate on it, with the durations of a single client
  (`UnloadedCell.steps_s`). The generator's steps have priority, and the server's are served in
  order.

The queueing network has two kinds of transactions, called chains (`analysis.queueing.network`).
`BEHIND` is the background: the authentications of other clients, which arrive from outside (open
chain). `FRONT` is the station, which authenticates again and again (closed chain, one customer).
When measured arrivals are predicted, each kind of request of the station and each step of its own
computing is a chain in place of `FRONT`. The paper is Kambourakis, Rouskas and Gritzalis (2004).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from analysis.queueing.prediction import REST_STATION
from analysis.statistics import mean
from studies.eapload2004.cells import ALONE, NAMES, NOMINAL, TABLE_1, cell_ids, share_ids
from studies.eapload2004.measurements import (
    BACKGROUND,
    CAPACITY,
    LATENCIES,
    ROUND_TRIPS,
    SERVICE,
    SERVICES,
)

# --- Calibration: measurements of a server without load ---

SERVER_STATION = "server"


@dataclass(frozen=True)
class UnloadedCell:
    """Measurements without load (s and 1/s), which are the inputs of the queueing model.

    - `alone_s`: authentication time of a single client of the background
    - `capacity_per_s`: rate of authentications in saturation
    - `service_s`, `round_trips`: authentication time of the station, and its requests
    - `cycle_s`: time from one authentication of the station to the next
    - `warm_up_s`: additional time of a client that finds the server idle
    - `cooling`: the same by the pause before: pairs of pause and additional time
    - `steps_s`: times of a single client's steps, load generator and server in turn, if both share
      a processor
    """

    alone_s: float
    capacity_per_s: float
    service_s: float
    cycle_s: float
    round_trips: float
    warm_up_s: float = 0.0
    cooling: tuple[tuple[float, float], ...] = ()
    steps_s: tuple[float, ...] = ()

    @property
    def server_share(self) -> float:
        """Return the server's fraction of the CPU time of an authentication."""
        return sum(self.steps_s[1::2]) / sum(self.steps_s) if self.steps_s else 1.0

    def steps(self) -> tuple[Visit, ...]:
        """Return an authentication as visits to the server's processor, one for each step.

        Steps of load generator and server alternate, beginning with the generator, whose steps are
        urgent. Their sum is the CPU time D. Without `steps_s`, the result is one visit.
        """
        demand_s = 1 / self.capacity_per_s
        if not self.steps_s:
            return (Visit(SERVER_STATION, demand_s),)
        scale = demand_s / sum(self.steps_s)
        return tuple(Visit(SERVER_STATION, step_s * scale, is_urgent=number % 2 == 0)
                     for number, step_s in enumerate(self.steps_s))

    @property
    def rtt_s(self) -> float:
        """Return the configured round-trip time between the networks (s)."""
        return float(NOMINAL["rtt"]) / 1e3


def read_unloaded_cell(cells: Cells) -> UnloadedCell | None:
    """Return the measurements without load, or None if there are none."""
    values = [cells.mean_of_any(name, ALONE) for name in (
        "alone_s", CAPACITY.name, SERVICE.name, "cycle_s", ROUND_TRIPS.name)]
    means = [value.estimate.mean for value in values if value is not None]
    if len(means) != len(values):
        return None
    alone_s, capacity, service_s, cycle_s, round_trips = means
    measured = UnloadedCell(alone_s, capacity, service_s, cycle_s, round_trips)
    return _not_quicker_than_demand(measured) if cells.results.clock == "real" else measured


def _not_quicker_than_demand(measured: UnloadedCell) -> UnloadedCell:
    """Raise the time of a single client to the CPU time in saturation if it is less.

    In real time, chance can make a single client appear slightly faster.
    """
    return replace(measured, alone_s=max(measured.alone_s, 1 / measured.capacity_per_s))


def calibrate_repetition(cells: Cells, place: int, measured: UnloadedCell) -> UnloadedCell:
    """Return the inputs of the model for a single repetition.

    In real time they are the means of the values before and after the repetition's load. Else, and
    if these were not measured, the result is `measured`.

    Args:
        cells: the results.
        place: number of the repetition in the results.
        measured: inputs from the cell without load.
    """
    samples = cells.results.samples[place]
    alone_s, demand_s = (_mean_list(samples, name) for name in ("alone_s", "saturated_demand_s"))
    if cells.results.clock != "real" or not (alone_s.size and demand_s.size):
        return measured
    calibrated = _not_quicker_than_demand(replace(
        measured, alone_s=float(alone_s[0]), capacity_per_s=1 / float(demand_s[0])))
    rested_s, steps_s, paused_s, rests_s = (
        _mean_list(samples, name) for name in ("rested_s", "steps_s", "paused_s", "rests_s"))
    if rested_s.size:
        return replace(calibrated, warm_up_s=max(0.0, float(rested_s[0]) - calibrated.alone_s))
    return replace(
        calibrated, steps_s=tuple(map(float, steps_s)),
        cooling=tuple((float(pause_s), max(0.0, float(took_s) - calibrated.alone_s))
                      for pause_s, took_s in zip(paused_s, rests_s, strict=True)))


def _mean_list(samples: Mapping[str, Sequence[float]], name: str) -> NDArray[np.float64]:
    """Return a list whose entries are the means of those measured before and after the load.

    The list is empty if it was not measured.
    """
    lists = [values for when in ("before", "after") if (values := samples.get(f"{name}_{when}"))]
    return np.mean(lists, axis=0) if lists else np.empty(0)


def demand_drift(cells: Cells, row: Ids) -> float | None:
    """Return by which fraction the server's CPU time grew during a repetition's load."""
    before, after = (cells.mean_of_any(name, row) for name in (
        CAPACITY.name, "capacity_after_per_s"))
    return before.estimate.mean / after.estimate.mean - 1 if before and after else None


# --- Measured times of authentications in a cell or in one repetition ---

def measured_service_times(cells: Cells, row: Ids) -> Observation | None:
    """Return the station's authentication times in a cell, or None without authentications.

    Each authentication counts as a block of its own.
    """
    values = [float(value) for place in cells.good_rows(row)
              for value in cells.results.samples[place][SERVICES.name]]
    if not values:
        return None
    return Observation(mean(values), dict(enumerate(values)), cells.record_names(row))


def first_samples(cells: Cells, row: Ids) -> Mapping[str, Sequence[float]]:
    """Return all lists of values of the first repetition with status `ok`, by name."""
    rows = cells.good_rows(row)
    return cells.results.samples[rows[0]] if rows else {}


# --- Arrivals at the server in one repetition, or in several one after the other ---

SERVER, SUPPLICANT = "server", "supplicant"
#: Pause between repetitions that are put one after the other (s), when all customers have left.
_APART_S = 1.0
#: In virtual time, shorter times at the server come from readings of the clock alone (s).
_SOME_S = 0.0002


@dataclass(frozen=True)
class ArrivalTrace:
    """The arrivals at the server in several repetitions, one after the other (s).

    - `arrivals_s`, `latencies_s`: of the background
    - `meetings`: the station's requests at the server, a pair for each kind of request: fraction of
      an authentication's CPU time that it takes, and when each such request reaches the server
    - `alongside`: the station's own computing on the server's processor, a pair for each step of an
      authentication: its duration, and when it begins. Empty unless both share a processor.
    - `span_s`: duration of the load, without the pauses between repetitions
    """

    arrivals_s: NDArray[np.float64]
    latencies_s: NDArray[np.float64]
    meetings: tuple[tuple[float, NDArray[np.float64]], ...]
    span_s: float
    alongside: tuple[tuple[float, NDArray[np.float64]], ...] = ()


def join_repetitions(cells: Cells, places: Sequence[int]) -> ArrivalTrace:
    """Return the arrivals of several repetitions, each starting after the end of the one before.

    `places` are the numbers of the repetitions in the results.
    """
    samples = [cells.results.samples[place] for place in places]
    shares = _demand_shares(cells, samples)
    # By repetition: arrivals, latencies, and then the times of each of the station's requests.
    columns, begins_s, span_s = [(np.empty(0),) * (2 + len(shares))], 0.0, 0.0
    for values in samples:
        arrivals, latencies, *requests = (np.asarray(values[name], dtype=np.float64)
                                          for name in ("arrivals_s", LATENCIES.name, *shares))
        columns.append((begins_s + arrivals, latencies, *(
            begins_s + np.sort(times_s) for times_s in requests)))
        if arrivals.size:
            span_s += float(np.ptp(arrivals))
        begins_s += float(max([*(arrivals + latencies), *np.concatenate(requests)],
                              default=0.0)) + _APART_S
    arrivals, latencies, *requests = map(np.concatenate, zip(*columns, strict=True))
    return ArrivalTrace(arrivals, latencies, tuple(zip(shares.values(), requests, strict=True)),
                        span_s, _supplicant_work(cells, dict(zip(shares, requests, strict=True))))


def _supplicant_work(cells: Cells, request_times: Mapping[str, NDArray[np.float64]],
                     ) -> tuple[tuple[float, NDArray[np.float64]], ...]:
    """Return the station's own computing before its requests, in real time only.

    A guest has one processor for all nodes. So requests at the server wait for the station, unless
    a modelled processor takes the server's time. Each part of the station's computing is as long as
    without load, and ends when its request is sent.

    Args:
        cells: the results.
        request_times: when the requests reach the server (s), by the name of the values.

    Returns:
        Duration (s) and times of begin of each part.
    """
    charged = cells.mean_of_any("demand_s", ALONE)
    if cells.results.clock != "real" or (charged and charged.estimate.mean):
        return ()
    durations_s = first_samples(cells, ALONE).get(f"demand_{SUPPLICANT}_s", ())
    delay_s = float(NOMINAL["rtt"]) / 2e3
    parts = []
    for number, duration_s in enumerate(durations_s):
        name = f"asked_{number}_s"
        if name in request_times:
            begins_s = request_times[name] - delay_s - duration_s
            if (begins_s >= 0).any():
                parts.append((duration_s, begins_s[begins_s >= 0]))
    return tuple(parts)


def _demand_shares(cells: Cells,
                   samples: Sequence[Mapping[str, Sequence[float]]]) -> Mapping[str, float]:
    """Return the fraction of an authentication's CPU time at the server that each request takes.

    The keys are the names of the values with the times of the requests. The fractions are those
    measured without load. In older records without the times of each request, the longest request
    takes all of the CPU time.
    """
    demands_s = first_samples(cells, ALONE).get(f"demand_{SERVER}_s", ())
    longer_s = {f"asked_{number}_s": seconds for number, seconds in enumerate(demands_s)
                if seconds > _SOME_S}
    if not longer_s or any(name not in values for values in samples for name in longer_s):
        return {"meetings_s": 1.0}
    return {name: seconds / sum(longer_s.values()) for name, seconds in longer_s.items()}


# --- Network of the model, and its predictions ---

RESUMED, FULL = "resumed", "full"
WAN = "wan"
BEHIND, FRONT = "background", "front"
_SEED = 2004
#: Smallest number of arrivals for percentiles and means of parts.
_ENOUGH = 300


@dataclass(frozen=True)
class ResumptionTimes:
    """Measurements with resumed TLS sessions (s), for what-if predictions only.

    - `service_s`, `round_trips`: authentication time of the station, and its requests to the server
    - `background_s`: authentication time of the background
    """

    service_s: float
    round_trips: float
    background_s: float


@dataclass(frozen=True)
class LoadedCell:
    """A combination of factors that differs from the paper's experiment only in its load.

    `title` names the load in tables. `row` has the factor values. `rate_per_s` is the load (1/s).
    """

    title: str
    row: Ids
    rate_per_s: float


@dataclass(frozen=True)
class BackgroundPrediction:
    """Prediction of background authentication times at one load, for the measured arrivals.

    - `title`, `rate_per_s`: name of the load in tables, and its rate (1/s)
    - `utilization`: predicted utilization of the server
    - `response_s`, `p95_s`: predicted mean and 95th percentile of the authentication times
    - `measured_s`, `measured_p95_s`: the measured ones
    - `parts`: measured and predicted means of consecutive groups of authentications
    - `p95_parts`: the 95th percentiles of such groups
    - `drift`: growth of CPU time per authentication during the load, None if not measured

    The groups are empty with too few arrivals.
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


def build_network(measured: UnloadedCell, rate_per_s: float) -> QueueingNetwork:
    """Return the queueing network for a background of the given rate (1/s).

    Raises:
        QueueingError: the station's time without load is shorter than the sum of its parts.
    """
    demand_s = 1 / measured.capacity_per_s
    stations = (QueueingStation(SERVER_STATION, "ps", scv=0.0),)
    full = CustomerClass("full", (Visit(SERVER_STATION, demand_s),))
    uncalibrated = QueueingNetwork(stations, (Chain(BEHIND, (full,),
                                                    rate_per_s=min(rate_per_s, 1e-6)),))
    calibrated = calibrate_network(uncalibrated, alone_s=measured.alone_s,
                                   saturation_per_s=measured.capacity_per_s,
                                   chain=BEHIND, station=SERVER_STATION)
    rest_s = measured.service_s - demand_s - measured.round_trips * measured.rtt_s
    if rest_s < 0:
        raise QueueingError("calibration", "the supplicant alone takes less than its round trips "
                            "and the server's demand", "measure the cell without load again")
    visits = (Visit(SERVER_STATION, demand_s), Visit(WAN, measured.rtt_s, measured.round_trips),
              Visit(SUPPLICANT, rest_s))
    front = Chain(FRONT, (CustomerClass("all", visits),), population=1,
                  think_s=max(0.0, measured.cycle_s - measured.service_s))
    behind = calibrated.chain(BEHIND)
    return QueueingNetwork(
        (*calibrated.stations, QueueingStation(WAN, "delay", direction="round_trip"),
         QueueingStation(SUPPLICANT, "delay")),
        (Chain(BEHIND, behind.classes, rate_per_s=rate_per_s), front))


def build_model(cells: Cells) -> Model:
    """Return the queueing network, and the measured times of the background clients under load.

    Args:
        cells: the results. The inputs come from the cell without load.

    Raises:
        QueueingError: no measurement without load, or none with load.
    """
    measured, loaded = read_unloaded_cell(cells), _loaded_cells(cells)
    if measured is None or not loaded:
        raise QueueingError("results", "have no cell without load, or none with it, at the "
                            "nominal levels", "measure loads 0 and another one")
    rates = [cell.rate_per_s for cell in loaded]
    top = max((rate for rate in rates if rate in TABLE_1), default=rates[-1])
    points = tuple(_measure_background(cells, cell) for cell in loaded)
    return Model(_with_resumed(cells, build_network(measured, top), measured.rtt_s),
                 {BEHIND: points})


def _with_resumed(cells: Cells, full: QueueingNetwork, rtt_s: float) -> QueueingNetwork:
    """Add resumed TLS sessions to the network as an option, if they were measured.

    No client uses the option until a what-if prediction says so.
    """
    row = cell_ids(sessions=RESUMED)
    values = [cells.mean_of_any(name, row) for name in (SERVICE.name, ROUND_TRIPS.name,
                                                        BACKGROUND.name)]
    means = [value.estimate.mean for value in values if value is not None]
    return with_resumed(full, ResumptionTimes(*means), rtt_s) if len(means) == len(values) else full


def with_resumed(full: QueueingNetwork, resumed: ResumptionTimes, rtt_s: float) -> QueueingNetwork:
    """Add resumed TLS sessions to the network as an option for station and background.

    Resumed sessions need no public-key operation.
    """
    front, behind = full.chain(FRONT), full.chain(BEHIND)
    rest_s = sum(visit.service_s for member in behind.classes for visit in member.visits
                 if visit.station == REST_STATION)
    variants = {
        FRONT: (Visit(WAN, rtt_s, resumed.round_trips),
                Visit(SUPPLICANT, max(0.0, resumed.service_s - resumed.round_trips * rtt_s))),
        BEHIND: (Visit(REST_STATION, max(0.0, resumed.background_s - rest_s)),)}
    chains = []
    for chain in (behind, front):
        classes = tuple(replace(member, variant=FULL) if member.name != REST_STATION else member
                        for member in chain.classes)
        chains.append(replace(chain, shares={FULL: 1.0, RESUMED: 0.0}, classes=(
            *classes, CustomerClass(RESUMED, variants[chain.name], variant=RESUMED))))
    return replace(full, chains=tuple(chains))


def _measure_background(cells: Cells, loaded: LoadedCell) -> Measurement:
    """Return the measured background of a cell, with its arrivals unless they are too few."""
    trace = join_repetitions(cells, cells.good_rows(loaded.row))
    if len(trace.arrivals_s) < _ENOUGH:
        return Measurement(loaded.rate_per_s, _mean_of(cells, BACKGROUND.name, loaded))
    return Measurement(loaded.rate_per_s, float(trace.latencies_s.mean()),
                       arrivals_s=trace.arrivals_s,
                       p95_s=float(np.quantile(trace.latencies_s, 0.95)))


def predict_background(cells: Cells) -> list[BackgroundPrediction]:
    """Predict the background at every measured load, for the measured arrivals.

    Repetitions are put one after the other. In real time each one is predicted by its own inputs.
    """
    measured = read_unloaded_cell(cells)
    if measured is None:
        return []
    predictions = []
    for cell in _loaded_cells(cells):
        rows = cells.good_rows(cell.row)
        groups = [[row] for row in rows] if cells.results.clock == "real" else [rows]
        blocks = [(calibrate_repetition(cells, places[0], measured), trace) for places in groups
                  # One customer alone has no rate and therefore no utilization.
                  if (trace := join_repetitions(cells, places)).span_s]
        if blocks:
            predictions.append(replace(_predict_cell(cell, blocks),
                                       drift=demand_drift(cells, cell.row)))
    return predictions


def modelled_service_times(cells: Cells) -> dict[float, float]:
    """Return the predicted mean authentication time of the station (s) by load (1/s)."""
    measured = read_unloaded_cell(cells)
    if measured is None:
        return {}
    rates = (cell.rate_per_s for cell in _loaded_cells(cells)
             if cell.row == cell_ids(load=cell.row[0]))
    loads = [rate for rate in (0.001, *rates) if rate < measured.capacity_per_s]
    return {load: solve_network(build_network(measured, load)).chain(FRONT).response_s
            for load in loads}


def _predict_cell(loaded: LoadedCell,
                  blocks: Sequence[tuple[UnloadedCell, ArrivalTrace]]) -> BackgroundPrediction:
    """Predict the background of a cell.

    Each block has the inputs of the model, and the arrivals that they predict.
    """
    modelled_s = np.concatenate([_modelled_responses(measured, loaded.rate_per_s, trace)
                                 for measured, trace in blocks])
    # The model's times are in the order of departure, so the measured ones are sorted likewise.
    measured_s = np.concatenate([
        trace.latencies_s[np.argsort(trace.arrivals_s + trace.latencies_s)] for _, trace in blocks])
    offered = sum(len(trace.arrivals_s) / measured.capacity_per_s for measured, trace in blocks)
    return BackgroundPrediction(
        loaded.title, loaded.rate_per_s, offered / sum(trace.span_s for _, trace in blocks),
        float(modelled_s.mean()), float(np.quantile(modelled_s, 0.95)), float(measured_s.mean()),
        float(np.quantile(measured_s, 0.95)),
        _figures_by_part(measured_s, modelled_s, 30, np.mean),
        _figures_by_part(measured_s, modelled_s, 60, lambda part: np.quantile(part, 0.95)))


def _modelled_responses(measured: UnloadedCell, rate_per_s: float,
                        trace: ArrivalTrace) -> NDArray[np.float64]:
    """Return predicted response times of the background (s) in the order of departure."""
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
    """Split times into at most 20 parts, and return a statistic of each part.

    Args:
        measured_s: measured times (s), in order.
        modelled_s: modelled times (s) of the same authentications.
        size: smallest number of times in a part.
        figure: the statistic, such as the mean.

    Returns:
        The statistic of measured and of modelled times, by part. Empty with too few times.
    """
    if len(measured_s) < _ENOUGH:
        return ()
    count = min(20, len(measured_s) // size)
    return tuple((float(figure(measured)), float(figure(modelled))) for measured, modelled in zip(
        np.array_split(measured_s, count), np.array_split(modelled_s, count), strict=True))


def _on_arrivals(measured: UnloadedCell, rate_per_s: float,
                 works: Sequence[float]) -> QueueingNetwork:
    """Return the network for measured arrivals, with a chain for each part of the station's work.

    `works` are the durations of these parts (s), as `_modelled_responses` lists them.
    """
    network = build_network(measured, rate_per_s)
    meetings = (Chain(f"{FRONT}-{number}", (
        CustomerClass("meeting", (Visit(SERVER_STATION, work_s),)),),
        rate_per_s=1 / measured.cycle_s) for number, work_s in enumerate(works))
    stations = (replace(station, discipline="priority" if measured.steps_s else "ps",
                        warm_up_s=measured.warm_up_s, cooling=measured.cooling)
                if station.name == SERVER_STATION else station for station in network.stations)
    behind = network.chain(BEHIND)
    return QueueingNetwork(tuple(stations), (replace(behind, classes=tuple(
        replace(member, visits=measured.steps()) if member.name == "full" else member
        for member in behind.classes)), *meetings))


def _loaded_cells(cells: Cells) -> list[LoadedCell]:
    """Return the combinations that differ from the paper's experiment only in their load."""
    loaded = []
    for row in cells.results.cells:
        load, share = float(row[0]), float(row[NAMES.index("share")])
        if not cells.good_rows(row) or not (load or share) or row not in (cell_ids(load=row[0]),
                                                                          share_ids(share)):
            continue
        if cells.mean_of_any("growth", row) is not None:
            continue  # overloaded: there is no steady state to predict
        if cells.mean_of_any(BACKGROUND.name, row) is None:
            continue  # no arrivals in the steady part: there is nothing to compare
        requested = cells.mean_of_any("rate_per_s", row)
        rate = requested.estimate.mean if requested is not None else load
        loaded.append(LoadedCell(f"{share:g} %" if share else f"{load:g}", row, rate))
    return loaded


def _mean_of(cells: Cells, name: str, loaded: LoadedCell) -> float:
    value = cells.mean_of_any(name, loaded.row)
    assert isinstance(value, Observation)
    return value.estimate.mean
