"""Find the largest load at which response times of a queueing network stay within a bound.

This answers questions such as "how many authentications per second can this RADIUS server take if
95 % of them must end within 150 ms?" (`./qop model --capacity`).

Results are computed where the response time's mean or distribution is known exactly, and simulated
elsewhere. Without a simulation, Markov's inequality on exact means may show that nearly every load
meets the bound. A chain is a kind of transaction, with customers or an arrival rate as its load.
The terms are those of `analysis.queueing.network`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from analysis.queueing.bounds import tail_limit
from analysis.queueing.intervals import Interval, exact_interval
from analysis.queueing.network import (
    MAX_COUNT,
    QueueingError,
    QueueingNetwork,
    demands_of,
    has_product_form,
)
from analysis.queueing.response import ResponseTime, find_response
from analysis.queueing.solution import (
    Method,
    choose_method,
    find_chain_means,
    with_processor_sharing,
)
from analysis.queueing.steady_state import VISIT_LIMIT, Progress, SteadySimulation
from analysis.queueing.what_if import with_load

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_BOUND = re.compile(r"\s*(mean|p(\d{1,2}(?:\.\d+)?))\s*<=?\s*(\d+(?:\.\d*)?|\.\d+)\s*(s|ms|us)\s*")
#: Number of customers above which means come from the Linearizer. It also gives the means that
#: guide a search for a percentile with several chains, where exact means would take long.
_EXACT_CUSTOMERS = 20_000
#: Number of visits of a pilot run, as a fraction of the limit of one run.
_PILOT = 0.1
#: Largest number of pilot runs.
_PILOTS = 6
#: Largest number of long runs.
_RUNS = 8
#: Largest number of visits of all runs together, as a multiple of the limit of one run.
_TOTAL = 2.0
#: Relative difference of two pilots' loads at which pilots end; the long run corrects the rest.
_NEAR = 0.03
#: Relative difference of the room below saturation up to which one run is valid for another load.
_FAR = 0.3
#: Required half width of the result's interval, as a fraction of the load.
_NARROW = 0.02
#: Factor by which a run's interval may be wider before the run is made twice as long.
_BEFORE = 1.2
#: Required distance from a load that certainly meets the bound to saturation, as a share of the
#: latter.
_NARROW_ENOUGH = 0.06
#: Smallest distance to saturation, as a share; closer loads make transforms lose precision.
_TOP = 1e-7

@dataclass(frozen=True)
class ResponseTimeBound:
    """An upper limit for response times in seconds: for the mean or for a percentile.

    `percent` is None for the mean.
    """

    percent: float | None
    limit_s: float

    def __str__(self) -> str:
        name = "mean" if self.percent is None else f"p{self.percent:g}"
        return f"{name} < {self.limit_s * 1000:g} ms"


@dataclass(frozen=True)
class Capacity:
    """The largest load at which a chain meets a response time bound.

    `load` is the number of customers of a closed chain, or the arrivals per second of an open
    chain. It has an interval, with equal ends if computed exactly. It is 0 if not even one customer
    meets the bound. `response_s` is the bounded mean or percentile at the load `checked_at`. That
    is `load` itself if computed, and otherwise the last simulated load (or the smallest load if
    none meets the bound).

    `saturation_per_s` is the throughput that no load exceeds, and `bottleneck` the station that
    causes it. `visited` counts simulated visits, 0 if computed. If the simulation was too short for
    a result (`is_known` false), `load` spans all possible values.

    `is_least` marks a computed load near saturation that certainly meets the bound (`load.low`).
    `response_s` then spans 0 to the limit.
    """

    chain: str
    is_open: bool
    bound: ResponseTimeBound
    load: Interval
    checked_at: float
    response_s: Interval
    saturation_per_s: float
    bottleneck: str
    visited: int = 0
    is_known: bool = True
    is_approximate: bool = False
    is_least: bool = False

    def to_sentence(self) -> str:
        """Return a sentence that states the largest load and what limits it."""
        unit = "a second" if self.is_open else "customers"
        if not self.is_known:
            return self._doubt_sentence(unit)
        if self.load.value == 0:
            return (f"{self.chain}: not even one customer alone keeps to {self.bound} "
                    f"({self.response_s.value * 1000:.3g} ms)")
        if self.is_least:
            return (f"{self.chain}: at least {self.load.low:.4g} {unit} keep to {self.bound} "
                    f"(computed, by Markov's inequality); {self.bottleneck} saturates at "
                    f"{self.saturation_per_s:.4g} a second")
        ends = "" if not self.visited else (
            f" ({self.load.low:.4g} to {self.load.high:.4g} with 95 % confidence, simulated)")
        if self.is_approximate:
            ends = " (approximately, by the Linearizer)"
        return (f"{self.chain}: up to {self.load.value:.4g} {unit}{ends} keep to {self.bound}; "
                f"{self.bottleneck} saturates at {self.saturation_per_s:.4g} a second")

    def _doubt_sentence(self, unit: str) -> str:
        known = (f"{self.load.low:.4g} {unit} do" if self.load.low else "no load is known to")
        return (f"{self.chain}: cannot tell how many {unit} keep to {self.bound}: {known}, and "
                f"{self.bottleneck} saturates at {self.saturation_per_s:.4g} a second; between "
                f"them {self.visited:.2g} simulated visits were too few to tell, so ask for a "
                "lower percentile or a shorter time")


def parse_bound(text: str) -> ResponseTimeBound:
    """Parse a response time bound such as `p95 < 150 ms` or `mean < 2 s`.

    Raises:
        QueueingError: The text is not a bound.
    """
    match = _BOUND.fullmatch(text)
    if not match or float(match[3]) == 0 or (match[2] is not None and float(match[2]) == 0):
        raise QueueingError(f"bound {text!r}", "is not understood",
                            "write for example p95 < 150 ms, or mean < 2 s")
    return ResponseTimeBound(float(match[2]) if match[2] else None,
                             float(match[3]) * _UNITS[match[4]])


def find_capacity(network: QueueingNetwork, bound: ResponseTimeBound, *, chain: str | None = None,
                  rng: np.random.Generator | None = None, visit_limit: int = VISIT_LIMIT,
                  progress: Progress | None = None) -> Capacity:
    """Return the largest load at which a chain meets a bound.

    The loads of other chains do not change. Quantities without an exact solution are simulated.

    Args:
        network: The network.
        bound: The bound on response times.
        chain: Name of the chain; None for the only chain.
        rng: The source of random numbers, needed for simulation.
        visit_limit: Largest number of simulated visits per run.
        progress: Receives the progress of the simulation.

    Raises:
        QueueingError: No station limits the load, other chains alone are above capacity, or a
            simulation has no `rng`.
    """
    search = _LoadSearch(network, chain, bound)
    if search.is_computed:
        load = search.largest_load()
        checked_at = load or search.smallest
        return search.make_capacity(exact_interval(load), checked_at,
                                    exact_interval(search.exact_response(checked_at)))
    if rng is None:
        raise QueueingError(f"bound {bound}", "has to be simulated", "pass an rng")
    return _SimulationSearch(search, int(rng.integers(2**63)), visit_limit,
                             progress).search_capacity()


class _SimulationSearch:
    """A search by simulation for the largest load at which response times stay within a bound.

    The bound is a limit for the mean or for a percentile of the response times. Pilot runs with
    equal random numbers lead to the load, and a long run gives its interval. The time that waiting
    adds to a percentile is nearly a fixed multiple of the time that it adds to the mean. The mean
    is computed (for processor sharing if necessary), so each run shows where to search next.
    """

    def __init__(self, search: _LoadSearch, seed: int, visit_limit: int,
                 progress: Progress | None) -> None:
        self.search, self.seed, self.limit, self.progress = search, seed, visit_limit, progress
        self.visited = 0
        self.sure = search.sure_load()

    def search_capacity(self) -> Capacity:
        """Return the largest load that meets the bound, with its interval or possible range."""
        search, limit_s = self.search, self.search.bound.limit_s
        if self._is_narrow(self.sure):
            return search.least(self.sure)
        lightest = self._simulate_load(search.smallest, self.seed, self.limit)
        base = search.estimate_response(lightest)
        if not search.is_known(lightest):
            return self._unknown_answer(0.0, base)
        if base.value > limit_s:
            return search.make_capacity(exact_interval(0.0), search.smallest, base, self.visited)
        curve = _PercentileCurve(search, base.value, search.mean_response(search.smallest))
        return self._narrow_down(curve, self._run_pilots(curve))

    def _narrow_down(self, curve: _PercentileCurve, load: float) -> Capacity:
        """Return the result of long simulations, each at the load that the previous one proposes.

        If a run cannot be long enough, the next run has a load farther from saturation.
        """
        search, limit_s, failed = self.search, self.search.bound.limit_s, math.inf
        simulated = {search.smallest}
        base = Interval(curve.base_s, curve.base_s, curve.base_s)
        valid_load, valid_response, proposed = search.smallest, base, search.highest
        for number in range(1, _RUNS + 1):
            run = self._simulate_load(load, self.seed + number, self.limit, curve)
            if not search.is_known(run):
                failed, load = min(failed, load), search.move_from_saturation(load)
                if load <= search.smallest or self.visited > _TOTAL * self.limit:
                    break
                continue
            response = search.estimate_response(run)
            answer = curve.loads_for(load, response)
            simulated.add(load)
            is_near = search.is_near(load, answer.value)
            # If the interval of this run does not contain the limit, run at the proposed load
            # instead.
            if response.low <= limit_s <= response.high or answer.value in simulated or (
                    is_near and number == _RUNS):
                return search.make_capacity(answer, load, response, self.visited)
            if response.high <= limit_s and load > valid_load:
                valid_load, valid_response, proposed = load, response, answer.value
            if self.visited > _TOTAL * self.limit or (
                    failed < math.inf and self._is_narrow(valid_load)):
                break
            if answer.value >= failed:
                if search.is_near(load, failed):
                    break
                load = search.load_between(load, failed)
            else:
                load = answer.value
        return self._answer_between(valid_load, valid_response, proposed)

    def _run_pilots(self, curve: _PercentileCurve) -> float:
        load = curve.load_for(self.search.first_multiple)
        for _ in range(_PILOTS):
            run = self._simulate_load(load, self.seed, int(_PILOT * self.limit))
            response = self.search.estimate_response(run)
            if not run.is_settled or not np.isfinite(response.value):
                break
            if response.low <= self.search.bound.limit_s <= response.high:
                break
            previous, load = load, curve.next_load(load, response.value)
            if abs(load - previous) <= _NEAR * min(load, self.search.distance_to_saturation(load)):
                break
        return load

    def _simulate_load(self, load: float, seed: int, limit: int,
                       curve: _PercentileCurve | None = None) -> SteadySimulation:
        network = with_load(self.search.network, self.search.chain.name, load)
        run = SteadySimulation(network, np.random.default_rng(seed), limit=limit,
                               progress=self.progress)

        def is_narrow(run: SteadySimulation) -> bool:
            if not run.is_narrow(self.search.chain.name, self.search.bound.percent):
                # Close to saturation it is sufficient to know that the load meets the bound.
                return (self._is_narrow(load) and self.search.is_known(run)
                        and self.search.estimate_response(run).high <= self.search.bound.limit_s)
            if curve is None:
                return True
            loads = curve.loads_for(load, self.search.estimate_response(run))
            width = (loads.high - loads.low) / 2
            narrow = max(_NARROW * loads.value, 0.0 if self.search.is_open else 0.5)
            return width <= _BEFORE * narrow

        run.run_until_narrow(is_narrow)
        self.visited += run.visited
        return run

    def _answer_between(self, valid_load: float, response: Interval, proposed: float) -> Capacity:
        """Return a result between a load that meets the bound, and saturation.

        The result is marked as unknown if these are not close to each other.
        """
        highest = self.search.highest
        if not self._is_narrow(valid_load):
            return self._unknown_answer(valid_load, response)
        return self.search.make_capacity(Interval(min(proposed, highest), valid_load, highest),
                                         valid_load, response,
                                         self.visited)

    def _is_narrow(self, valid_load: float) -> bool:
        """Return whether a load that meets the bound is close enough to saturation."""
        return self.search.highest - valid_load <= _NARROW_ENOUGH * self.search.highest

    def _unknown_answer(self, load: float, response: Interval) -> Capacity:
        low, top = max(load, self.sure), self.search.highest
        return replace(self.search.make_capacity(Interval(low, low, top), load, response,
                                                 self.visited), is_known=False)


@dataclass
class _PercentileCurve:
    """An estimate of how a response time percentile depends on the load, for the search.

    - `search`: the search, with its queueing network
    - `base_s`, `base_mean_s`: percentile and mean at the smallest load
    - `too_low`, `too_high`: loads that are known to meet the bound, and not to meet it
    """

    search: _LoadSearch
    base_s: float
    base_mean_s: float
    too_low: float = 0.0
    too_high: float = math.inf

    def waiting_ratio(self, load: float, percentile_s: float) -> float:
        """Return the ratio of the waiting in a percentile to the waiting in the mean, at a load.

        Waiting is the response time beyond that at the smallest load.

        Args:
            load: The load.
            percentile_s: The percentile of the response time at this load, in seconds.
        """
        added = self.search.mean_response(load) - self.base_mean_s
        return ((percentile_s - self.base_s) / added if added > 0
                else self.search.first_multiple)

    def load_for(self, multiple: float) -> float:
        """Return the load at which the percentile reaches its limit.

        `multiple` is the ratio of waiting in the percentile to waiting in the mean.
        """
        room = self.search.bound.limit_s - self.base_s
        # Noise can make the multiple almost 0, which would leave the mean without any limit.
        mean_s = self.base_mean_s + max(room, 0.0) / max(multiple, 1e-3)
        return max(self.search.load_for(mean_s), self.search.smallest)

    def loads_for(self, load: float, response: Interval) -> Interval:
        """Return the load at which the limit is reached, with an interval, from a simulation."""
        value, low, high = (self.load_for(self.waiting_ratio(load, end)) for end in (
            response.value, response.high, response.low))
        return Interval(value, low, high)

    def next_load(self, load: float, percentile_s: float) -> float:
        """Return the load for the next pilot simulation.

        It follows from the ratio of waiting times, or is the middle between the known ends.
        """
        if percentile_s <= self.search.bound.limit_s:
            self.too_low = max(self.too_low, load)
        else:
            self.too_high = min(self.too_high, load)
        proposed = self.load_for(self.waiting_ratio(load, percentile_s))
        if self.too_low <= proposed <= self.too_high:
            return proposed
        if math.isinf(self.too_high):
            return load
        middle = (self.too_low + self.too_high) / 2
        return middle if self.search.is_open else max(1.0, float(int(middle)))


class _LoadSearch:
    """The load of one kind of transaction (chain) as the unknown of a search.

    It knows the mean response time at each load.
    """

    def __init__(self, network: QueueingNetwork, chain: str | None,
                 bound: ResponseTimeBound) -> None:
        self.chain, self.bound = network.chain(chain), bound
        self.network, self.method = network, "exact"
        # The means of processor sharing guide the search where first come first served has no exact
        # means.
        self.guide = with_processor_sharing(network)
        self.is_open = self.chain.is_open
        empty = demands_of(with_load(network, self.chain.name, 0))
        empty.check_stable()
        column = empty.demand_s[:, network.chains.index(self.chain)]
        limits = ~empty.delay & (column > 0)
        room = np.where(limits, (empty.servers - empty.offered) / np.where(limits, column, 1),
                        np.inf)
        self.saturation, self.row = float(room.min()), int(room.argmin())
        if math.isinf(self.saturation):
            raise QueueingError(f"chain {self.chain.name!r}", "visits delays only, and nothing "
                                "limits its load", "give it a station with a queue")
        self.smallest = 1e-3 * self.saturation if self.is_open else 1.0
        self.is_computed = self._is_computable()
        if self.is_open and not self.is_computed:
            self.smallest = 0.02 * self.saturation

    @property
    def first_multiple(self) -> float:
        """Return the first guess of the ratio of waiting in the percentile to waiting in the mean.

        It is that of exponential times, at least 0.1, and 1 for a bound on the mean.
        """
        percent = self.bound.percent
        return 1.0 if percent is None else max(0.1, -math.log(1 - percent / 100))

    def distance_to_saturation(self, load: float) -> float:
        """Return how far a load is from saturation, for comparisons with other loads.

        With arrivals from outside, it is the saturation rate minus the load. A fixed number of
        circulating customers has no saturation load. There the load itself is returned, because the
        relative change of load is what matters.
        """
        return self.saturation - load if self.is_open else load

    def is_near(self, load: float, other: float) -> bool:
        """Return whether a simulation at one load is also valid for another load."""
        return abs(self.distance_to_saturation(other) / self.distance_to_saturation(load)
                   - 1) <= _FAR

    def move_from_saturation(self, load: float) -> float:
        """Return a load twice as far from saturation.

        For a closed chain (a fixed number of customers) it is half the load.
        """
        return load - self.distance_to_saturation(load) if self.is_open else float(int(load / 2))

    def load_between(self, load: float, other: float) -> float:
        """Return a load between two loads: its distance from saturation is their geometric mean."""
        room = math.sqrt(self.distance_to_saturation(load) * self.distance_to_saturation(other))
        return self.saturation - room if self.is_open else float(int(room))

    def estimate_response(self, run: SteadySimulation) -> Interval:
        """Return the simulated response time (mean or percentile) that the bound limits.

        Without a result, the value is NaN with an interval from 0 to infinity.
        """
        try:
            return (run.mean(self.chain.name) if self.bound.percent is None
                    else run.percentile(self.chain.name, self.bound.percent))
        except QueueingError:
            return Interval(math.nan, 0.0, math.inf)

    def is_known(self, run: SteadySimulation) -> bool:
        """Return whether a simulation was long enough for the bounded mean or percentile."""
        return run.is_known(self.chain.name, self.bound.percent)

    def _is_computable(self) -> bool:
        """Return whether the bounded mean or percentile can be computed without simulation."""
        if self._find_distribution(self.smallest) is not None:
            return True
        if self.bound.percent is not None:
            return False
        load = self.saturation / 2 if self.is_open else min(
            float(MAX_COUNT), 1 + int((self.bound.limit_s + self.chain.think_s) * self.saturation))
        self.method = choose_method(with_load(self.network, self.chain.name, load))
        return self.method != "simulation"

    def exact_response(self, load: float) -> float:
        """Return the computed mean or percentile of the response time at a load, in seconds."""
        if self.bound.percent is None and has_product_form(self.network):
            return self._compute_mean(self.network, load, quick=False)
        distribution = self._find_distribution(load)
        if distribution is None:
            return math.inf  # too close to saturation for a ps station
        percent = self.bound.percent
        return distribution.mean_s if percent is None else distribution.percentile(percent)

    def _find_distribution(self, load: float) -> ResponseTime | None:
        network = with_load(self.network, self.chain.name, load)
        return find_response(network, network.chain(self.chain.name))

    def excess_over_bound(self, load: float) -> float:
        """Return by how much the response time at a load exceeds the bound, negative if met.

        It is in seconds for a mean, and a probability for a percentile.
        """
        if self.bound.percent is None:
            return self.exact_response(load) - self.bound.limit_s
        distribution = self._find_distribution(load)
        return 1.0 if distribution is None else (
            distribution.tail(self.bound.limit_s) - (1.0 - self.bound.percent / 100))

    def largest_load(self) -> float:
        """Return the computed largest load that meets the bound, or 0 without one."""
        return self._find_largest(self.excess_over_bound)

    def sure_load(self) -> float:
        """Return a load that surely meets a percentile's bound by Markov's inequality, or 0."""
        if self.bound.percent is None or not has_product_form(self.network) or not all(
                chain.is_open for chain in self.network.chains):
            return 0.0
        above = 1.0 - self.bound.percent / 100
        return self._find_largest(lambda load: tail_limit(
            with_load(self.network, self.chain.name, load), self.chain.name, self.bound.limit_s)
            - above)

    def least(self, load: float) -> Capacity:
        """Return the result for a load that surely meets the bound and is near saturation."""
        limit_s = self.bound.limit_s
        return replace(self.make_capacity(Interval(load, load, self.highest), load,
                                          Interval(limit_s, 0.0, limit_s)), is_least=True)

    def mean_response(self, load: float) -> float:
        """Return the mean response time at a load in seconds, assuming processor sharing."""
        return self._compute_mean(self.guide, load, quick=len(self.network.chains) > 1)

    def _compute_mean(self, network: QueueingNetwork, load: float, *, quick: bool) -> float:
        loaded = with_load(network, self.chain.name, load)
        large = not self.is_open and load > _EXACT_CUSTOMERS
        method: Method = "linearizer" if quick or large else "auto"
        return find_chain_means(loaded, method)[self.chain.name].response_s

    def load_for(self, response_s: float) -> float:
        """Return the largest load whose mean response time meets a limit, or 0.

        Processor sharing is assumed.
        """
        return self._find_largest(lambda load: self.mean_response(load) - response_s)

    def _find_largest(self, excess: Callable[[float], float]) -> float:
        """Return the largest load for which a function is not above 0, or 0 without one."""
        if excess(self.smallest) > 0:
            return 0.0
        if not self.is_open:
            high = 2
            while high < MAX_COUNT and excess(high) <= 0:
                high = min(2 * high, MAX_COUNT)
            return float(_last_true(lambda load: excess(load) <= 0, high // 2, high))
        from scipy import optimize  # slow to import, and only needed here

        if excess(self.highest) <= 0:
            return self.highest
        rate: float = optimize.brentq(excess, self.smallest, self.highest, rtol=1e-9)
        return rate

    @property
    def highest(self) -> float:
        """Return a load just below saturation, or the largest number of customers.

        Customers are transactions in progress.
        """
        return self.saturation * (1 - _TOP) if self.is_open else float(MAX_COUNT)

    def make_capacity(self, load: Interval, checked_at: float, response_s: Interval,
                      visited: int = 0) -> Capacity:
        """Return the result for a load, with saturation and bottleneck of the transactions."""
        return Capacity(chain=self.chain.name, is_open=self.is_open, bound=self.bound, load=load,
                        checked_at=checked_at, response_s=response_s,
                        saturation_per_s=self.saturation, visited=visited,
                        is_approximate=self.method == "linearizer",
                        bottleneck=self.network.stations[self.row].name)


def _last_true(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest whole number for which a condition holds, by bisection.

    The condition must hold for `low` and not for `high`.
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


