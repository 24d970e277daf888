"""The queueing model of the experiment: one server, many stations once each, one again and again.

The rule is fixed beforehand: everything is taken from the nominal cell without load. The server's
demand is what saturation says, D = 1/X; the supplicant's other time is what it takes alone, less D
and its round trips; the background's is what one of it takes alone, less D. All other points are
predictions. In real time a machine is not as quick in one minute as in the next: there, a cell that
measures all that before and after its load is predicted by its own, the mean of both
(`calibrated_there`). A guest has one processor for all: the generator's steps go before the
server's, which are served in order, by the shares that one customer alone showed; and who finds
nobody takes longer, by how long nobody was there.
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
    calibrate,
    simulate,
    solve,
)
from analysis.queueing.calibrate import REST
from studies.eapload2004.design import ALONE, NAMES, NOMINAL, TABLE_1, ids, share_ids
from studies.eapload2004.metrics import (
    BACKGROUND,
    CAPACITY,
    LATENCIES,
    ROUND_TRIPS,
    SERVICE,
)
from studies.eapload2004.samples import of_first

RESUMED, FULL = "resumed", "full"
SERVER, WAN, SUPPLICANT = "server", "wan", "supplicant"
BEHIND, FRONT = "background", "front"
_SEED = 2004
#: Between repetitions that are put one behind the other, when everybody has left.
_APART_S = 1.0
#: Fewer arrivals say nothing of percentiles, and little of means.
_ENOUGH = 300
#: What takes the server less is readings of the clock, in virtual time.
_SOME_S = 0.0002


@dataclass(frozen=True)
class Unloaded:
    """What the cell without load says, in seconds and 1/s.

    By `warm_up_s` one takes longer who comes to a server at rest, or by `cooling` after pauses.
    `steps_s` has the parts of one alone, generator and server in turn, where they share one
    processor.
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
        """What of the demand is the server's own."""
        return sum(self.steps_s[1::2]) / sum(self.steps_s) if self.steps_s else 1.0

    def steps(self) -> tuple[Visit, ...]:
        """An authentication's demand, step by step where that is known; the generator's first."""
        demand_s = 1 / self.capacity_per_s
        if not self.steps_s:
            return (Visit(SERVER, demand_s),)
        scale = demand_s / sum(self.steps_s)
        return tuple(Visit(SERVER, step_s * scale, is_urgent=number % 2 == 0)
                     for number, step_s in enumerate(self.steps_s))

    @property
    def rtt_s(self) -> float:
        """The nominal round trip."""
        return float(NOMINAL["rtt"]) / 1e3


@dataclass(frozen=True)
class ResumedTimes:
    """What the cell of resumed sessions says, in seconds: for what-ifs, and for no prediction."""

    service_s: float
    round_trips: float
    background_s: float


@dataclass(frozen=True)
class LoadedCell:
    """A cell of the paper's experiment but for the load; `title` says which."""

    title: str
    row: Ids
    rate_per_s: float


@dataclass(frozen=True)
class ArrivalTrace:
    """Who came when, in all repetitions of a cell, one behind the other; seconds.

    `arrivals_s` and `latencies_s` are the background's. `meetings` are the supplicant's: parts of
    its demand at the server, and when it asked for each; `alongside` is what it computes itself
    before it asks, in seconds, and when it begins, where that takes the server's processor. The
    load took `span_s`, without what is between repetitions.
    """

    arrivals_s: NDArray[np.float64]
    latencies_s: NDArray[np.float64]
    meetings: tuple[tuple[float, NDArray[np.float64]], ...]
    span_s: float
    alongside: tuple[tuple[float, NDArray[np.float64]], ...] = ()


@dataclass(frozen=True)
class Predicted:
    """What the model says of the background at one load, on the arrivals that were measured.

    `parts` are measured and modelled means of as many parts of the repetitions, by when customers
    left, `p95_parts` their 95th percentiles; none where there are too few arrivals. By `drift` an
    authentication took the processor longer after the load than before, where both was measured.
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


def unloaded(cells: Cells) -> Unloaded | None:
    """The calibration's measurements; None where the cell was not measured."""
    values = [cells.mean_of_any(name, ALONE) for name in (
        "alone_s", CAPACITY.name, SERVICE.name, "cycle_s", ROUND_TRIPS.name)]
    means = [value.estimate.mean for value in values if value is not None]
    if len(means) != len(values):
        return None
    alone_s, capacity, service_s, cycle_s, round_trips = means
    measured = Unloaded(alone_s, capacity, service_s, cycle_s, round_trips)
    return _not_quicker_than_demand(measured) if cells.results.clock == "real" else measured


def _not_quicker_than_demand(measured: Unloaded) -> Unloaded:
    """In real time chance may say a little more of those who come together than of one alone."""
    return replace(measured, alone_s=max(measured.alone_s, 1 / measured.capacity_per_s))


def network(measured: Unloaded, rate_per_s: float) -> QueueingNetwork:
    """The calibrated network at a background of that rate. Raises QueueingError."""
    handshake = (Visit(SERVER, 1 / measured.capacity_per_s),)
    stations = (QueueingStation(SERVER, "ps", scv=0.0),)
    base = QueueingNetwork(stations, (Chain(BEHIND, (CustomerClass("full", handshake),),
                                            rate_per_s=min(rate_per_s, 1e-6)),))
    found = calibrate(base, alone_s=measured.alone_s, saturation_per_s=measured.capacity_per_s,
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


def model(cells: Cells) -> Model:
    """The network with what was measured of both chains. Raises QueueingError without any."""
    measured, loaded = unloaded(cells), _loaded(cells)
    if measured is None or not loaded:
        raise QueueingError("results", "have no cell without load, or none with it, at the "
                            "nominal levels", "measure loads 0 and another one")
    rates = [each.rate_per_s for each in loaded]
    top = max((rate for rate in rates if rate in TABLE_1), default=rates[-1])
    points = tuple(_measured(cells, each) for each in loaded)
    return Model(_with_resumed(cells, network(measured, top), measured.rtt_s), {BEHIND: points})


def _with_resumed(cells: Cells, full: QueueingNetwork, rtt_s: float) -> QueueingNetwork:
    """The network with resumed sessions as a variant that nobody follows until a what-if says so.

    Where they were not measured, the network as it is.
    """
    row = ids(sessions=RESUMED)
    values = [cells.mean_of_any(name, row) for name in (SERVICE.name, ROUND_TRIPS.name,
                                                        BACKGROUND.name)]
    means = [value.estimate.mean for value in values if value is not None]
    return with_resumed(full, ResumedTimes(*means), rtt_s) if len(means) == len(values) else full


def with_resumed(full: QueueingNetwork, resumed: ResumedTimes, rtt_s: float) -> QueueingNetwork:
    """The network with resumed sessions as a variant of both chains: they ask no public key."""
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


def _measured(cells: Cells, loaded: LoadedCell) -> Measurement:
    trace = _trace(cells, loaded)
    if len(trace.arrivals_s) < _ENOUGH:
        return Measurement(loaded.rate_per_s, _mean(cells, BACKGROUND.name, loaded))
    return Measurement(loaded.rate_per_s, float(trace.latencies_s.mean()),
                       arrivals_s=trace.arrivals_s,
                       p95_s=float(np.quantile(trace.latencies_s, 0.95)))


def predictions(cells: Cells) -> list[Predicted]:
    """The background at every measured load, on the same arrivals."""
    measured = unloaded(cells)
    if measured is None:
        return []
    traces = ((each, _trace(cells, each)) for each in _loaded(cells))
    # Of one customer alone there is no rate, and so no utilization.
    return [replace(_predicted(calibrated_there(cells, each.row, measured), each, trace),
                    drift=drift(cells, each.row))
            for each, trace in traces if trace.span_s]


def calibrated_there(cells: Cells, row: Ids, measured: Unloaded) -> Unloaded:
    """What a cell itself says of its server before its load, in real time; else the same."""
    alone, capacity = (cells.mean_of_any(name, row) for name in ("alone_s", CAPACITY.name))
    if cells.results.clock != "real" or alone is None or capacity is None:
        return measured
    there = _not_quicker_than_demand(replace(
        measured, alone_s=alone.estimate.mean, capacity_per_s=capacity.estimate.mean))
    rested = cells.mean_of_any("rested_s", row)
    if rested:
        return replace(there, warm_up_s=max(0.0, rested.estimate.mean - there.alone_s))
    return _in_steps(cells, row, there)


def drift(cells: Cells, row: Ids) -> float | None:
    """By how much more than before its load a cell's server had to do after it, as a share."""
    before, after = (cells.mean_of_any(name, row) for name in (
        CAPACITY.name, "capacity_after_per_s"))
    return before.estimate.mean / after.estimate.mean - 1 if before and after else None


def _in_steps(cells: Cells, row: Ids, there: Unloaded) -> Unloaded:
    """The same with what a cell says of steps and of pauses, means of before and after its load."""
    after = [cells.mean_of_any(name, row) for name in ("alone_after_s", "capacity_after_per_s")]
    if all(after):
        alone_s, capacity = (each.estimate.mean for each in after if each)
        there = _not_quicker_than_demand(replace(
            there, alone_s=(there.alone_s + alone_s) / 2,
            capacity_per_s=2 / (1 / there.capacity_per_s + 1 / capacity)))
    steps_s, *pauses = (_lists(cells, row, name) for name in ("steps_s", "paused_s", "rests_s"))
    if not pauses[0]:
        return there
    paused_s, rests_s = (np.mean(those, axis=0) for those in pauses)
    return replace(
        there, steps_s=tuple(np.mean(steps_s, axis=0)) if steps_s else (),
        cooling=tuple((float(pause_s), max(0.0, float(took_s) - there.alone_s))
                      for pause_s, took_s in zip(paused_s, rests_s, strict=True)))


def _lists(cells: Cells, row: Ids, name: str) -> list[Sequence[float]]:
    """Before and after the loads of a cell's repetitions, where that was measured."""
    return [each[f"{name}_{when}"] for each in (
        cells.results.samples[place] for place in cells.rows(row))
        for when in ("before", "after") if each.get(f"{name}_{when}")]


def service_times(cells: Cells) -> dict[float, float]:
    """The supplicant's mean service time by load, as modelled."""
    measured = unloaded(cells)
    if measured is None:
        return {}
    rates = (each.rate_per_s for each in _loaded(cells) if each.row == ids(load=each.row[0]))
    loads = [rate for rate in (0.001, *rates) if rate < measured.capacity_per_s]
    return {load: solve(network(measured, load)).chain(FRONT).response_s for load in loads}


def _predicted(measured: Unloaded, loaded: LoadedCell, trace: ArrivalTrace) -> Predicted:
    arrivals, latencies = trace.arrivals_s, trace.latencies_s
    demand_s = measured.server_share / measured.capacity_per_s
    works = (*((part * demand_s, instants) for part, instants in trace.meetings),
             *trace.alongside)
    made = simulate(
        _on_arrivals(measured, loaded.rate_per_s, [work_s for work_s, _ in works]),
        np.random.default_rng(_SEED), arrivals_s={BEHIND: arrivals, **{
            f"{FRONT}-{number}": instants for number, (_, instants) in enumerate(works)}},
    ).chain(BEHIND).responses_s
    left = latencies[np.argsort(arrivals + latencies)]  # as the model has them, to be compared
    return Predicted(
        loaded.title, loaded.rate_per_s, len(arrivals) / trace.span_s / measured.capacity_per_s,
        float(made.mean()), float(np.quantile(made, 0.95)), float(latencies.mean()),
        float(np.quantile(latencies, 0.95)), _in_parts(left, made, 30, np.mean),
        _in_parts(left, made, 60, lambda part: np.quantile(part, 0.95)))


def _in_parts(ours: NDArray[np.float64], theirs: NDArray[np.float64], size: int,
              figure: Callable[[NDArray[np.float64]], np.floating[Any]],
              ) -> tuple[tuple[float, float], ...]:
    """A figure of both, by parts of at least that size; none of too few customers."""
    if len(ours) < _ENOUGH:
        return ()
    count = min(20, len(ours) // size)
    return tuple((float(figure(mine)), float(figure(modelled))) for mine, modelled in zip(
        np.array_split(ours, count), np.array_split(theirs, count), strict=True))


def _on_arrivals(measured: Unloaded, rate_per_s: float, works: Sequence[float]) -> QueueingNetwork:
    """The same server for customers who come when they came, the supplicant's works among them."""
    whole = network(measured, rate_per_s)
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


def _loaded(cells: Cells) -> list[LoadedCell]:
    """Cells with a load, of those that are the paper's but for it."""
    made = []
    for row in cells.results.cells:
        load, share = float(row[0]), float(row[NAMES.index("share")])
        if not cells.rows(row) or not (load or share) or row not in (ids(load=row[0]),
                                                                     share_ids(share)):
            continue
        if cells.mean_of_any("growth", row) is not None:
            continue  # overloaded: there is no steady state to be predicted
        if cells.mean_of_any(BACKGROUND.name, row) is None:
            continue  # nobody came while it was measured: there is nothing to compare with
        said = cells.mean_of_any("rate_per_s", row)
        rate = said.estimate.mean if said is not None else load
        made.append(LoadedCell(f"{share:g} %" if share else f"{load:g}", row, rate))
    return made


def _trace(cells: Cells, loaded: LoadedCell) -> ArrivalTrace:
    """All good repetitions, each begun when the one before is over."""
    samples = [cells.results.samples[row] for row in cells.rows(loaded.row)]
    parts = _parts(cells, samples)
    traced, begins_s, span_s = [(np.empty(0),) * (2 + len(parts))], 0.0, 0.0
    for each in samples:
        arrivals, latencies, *meetings = (np.asarray(each[name], dtype=np.float64) for name in (
            "arrivals_s", LATENCIES.name, *parts))
        traced.append((begins_s + arrivals, latencies, *(
            begins_s + np.sort(instants) for instants in meetings)))
        if arrivals.size:
            span_s += float(np.ptp(arrivals))
        begins_s += float(max([*(arrivals + latencies), *np.concatenate(meetings)],
                              default=0.0)) + _APART_S
    arrivals, latencies, *meetings = map(np.concatenate, zip(*traced, strict=True))
    return ArrivalTrace(arrivals, latencies, tuple(zip(parts.values(), meetings, strict=True)),
                        span_s, _alongside(cells, dict(zip(parts, meetings, strict=True))))


def _alongside(cells: Cells, asked: Mapping[str, NDArray[np.float64]],
               ) -> tuple[tuple[float, NDArray[np.float64]], ...]:
    """The supplicant's own computing before each of its longer requests, in real time only.

    A guest has one processor for all, so that the server's customers wait for it. Each part is as
    long as without load, and ends when its request begins its way to the server.
    """
    if cells.results.clock != "real":
        return ()
    taken_s = of_first(cells, ALONE).get(f"demand_{SUPPLICANT}_s", ())
    way_s = float(NOMINAL["rtt"]) / 2e3
    begun = [(seconds, asked[name] - way_s - seconds) for number, seconds in enumerate(taken_s)
             if (name := f"asked_{number}_s") in asked]
    return tuple((seconds, instants[instants >= 0]) for seconds, instants in begun
                 if (instants >= 0).any())


def _parts(cells: Cells, samples: Sequence[Mapping[str, Sequence[float]]]) -> Mapping[str, float]:
    """Which lists say when the supplicant asked, and for which part of its demand at the server.

    Parts are those of the cell without load. Where records do not say when it asked for each: one
    list, of when it asked for the longest, for all of it.
    """
    taken_s = of_first(cells, ALONE).get(f"demand_{SERVER}_s", ())
    longer_s = {f"asked_{number}_s": seconds for number, seconds in enumerate(taken_s)
                if seconds > _SOME_S}
    if not longer_s or any(name not in each for each in samples for name in longer_s):
        return {"meetings_s": 1.0}
    return {name: seconds / sum(longer_s.values()) for name, seconds in longer_s.items()}


def _mean(cells: Cells, name: str, loaded: LoadedCell) -> float:
    value = cells.mean_of_any(name, loaded.row)
    assert isinstance(value, Observation)
    return value.estimate.mean
