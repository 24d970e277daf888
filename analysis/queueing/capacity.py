"""How many customers, or how many a second, before a response time passes its bound."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analysis.queueing.demands import demands_of
from analysis.queueing.errors import QueueingError
from analysis.queueing.intervals import Interval, certain
from analysis.queueing.network import QueueingNetwork
from analysis.queueing.simulate import simulate
from analysis.queueing.solve import Method, means_of, sharing
from analysis.queueing.whatif import with_load

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_BOUND = re.compile(r"\s*(mean|p(\d{1,2}(?:\.\d+)?))\s*<=?\s*(\d+(?:\.\d*)?|\.\d+)\s*(s|ms|us)\s*")
#: Beyond so many customers, means come from the Linearizer; so do those that only guide a search
#: for a percentile with several chains, where exact ones would take long.
_EXACT_CUSTOMERS = 20_000
#: A pilot's customers, as a share of those of the answer; and pilots at most.
_PILOT, _PILOTS = 0.25, 8
#: Cycles of all chains together at most, unless one of them would get fewer than so many.
_CYCLES, _FEWEST = 200_000, 200
#: For a start: of an exponential distribution's tail, the 95th percentile is three times the mean.
_FIRST_MULTIPLE = 3.0
#: How near, as a share, the last two loads of pilots have to be; the long run corrects the rest.
_NEAR = 0.03


@dataclass(frozen=True)
class Bound:
    """Response times that are asked for: the mean (`percent` None) or a percentile, in seconds."""

    percent: float | None
    limit_s: float

    def __str__(self) -> str:
        name = "mean" if self.percent is None else f"p{self.percent:g}"
        return f"{name} < {self.limit_s * 1000:g} ms"


@dataclass(frozen=True)
class Capacity:
    """The largest load of a chain that keeps to a bound.

    `load` counts customers of a closed chain, or those arriving a second at an open one: value with
    interval (equal ends where computed exactly); 0 if not even one customer keeps to the bound.
    `response_s` is what the bound limits, at the load `checked_at`: `load` itself where computed,
    the last one simulated otherwise (or the smallest, where none will do). `saturation_per_s` is
    the throughput that no load exceeds, and `bottleneck` the station that sets it.
    """

    chain: str
    is_open: bool
    bound: Bound
    load: Interval
    checked_at: float
    response_s: Interval
    saturation_per_s: float
    bottleneck: str

    def sentence(self) -> str:
        """The answer for people."""
        unit = "a second" if self.is_open else "customers"
        if self.load.value == 0:
            return (f"{self.chain}: not even one customer alone keeps to {self.bound} "
                    f"({self.response_s.value * 1000:.3g} ms)")
        ends = "" if self.load.low == self.load.high else (
            f" ({self.load.low:.4g} to {self.load.high:.4g} with 95 % confidence)")
        return (f"{self.chain}: up to {self.load.value:.4g} {unit}{ends} keep to {self.bound}; "
                f"{self.bottleneck} saturates at {self.saturation_per_s:.4g} a second")


def parse_bound(text: str) -> Bound:
    """A bound such as `p95 < 150 ms` or `mean < 2 s`; raises QueueingError for anything else."""
    match = _BOUND.fullmatch(text)
    if not match or float(match[3]) == 0 or (match[2] is not None and float(match[2]) == 0):
        raise QueueingError(f"bound {text!r}", "is not understood",
                            "write for example p95 < 150 ms, or mean < 2 s")
    return Bound(float(match[2]) if match[2] else None, float(match[3]) * _UNITS[match[4]])


def capacity(network: QueueingNetwork, bound: Bound, *, chain: str | None = None,
             rng: np.random.Generator | None = None, completions: int = 16_000) -> Capacity:
    """The largest load of `chain` (the only one by default) that keeps to a bound.

    Other chains keep theirs. Means are computed, percentiles simulated with `completions` cycles
    of the chain, which takes an `rng`. Raises QueueingError where no load reaches the bound, and
    as `solve` does.
    """
    search = _Search(network, chain, bound)
    if bound.percent is None:
        load = search.load_for(bound.limit_s)
        checked_at = load or search.smallest
        return search.answer(certain(load), checked_at, certain(search.mean(checked_at)))
    if rng is None:
        raise QueueingError(f"bound {bound}", "percentiles are simulated", "pass an rng")
    return _by_simulation(search, bound.percent, int(rng.integers(2**63)), completions)


def _by_simulation(search: _Search, percent: float, seed: int, completions: int) -> Capacity:
    """Pilots with the same random numbers lead to the load; a long simulation gives its interval.

    What waiting adds to the percentile is nearly a fixed multiple of what it adds to the mean,
    which is computed; so each pilot tells where to look next.
    """
    pilot = int(_PILOT * completions)
    base = search.simulated(search.smallest, percent, seed, pilot)
    if base.value > search.bound.limit_s:
        return search.answer(certain(0.0), search.smallest, base)
    curve = _Curve(search, base.value, search.mean(search.smallest))
    load = curve.load_for(_FIRST_MULTIPLE)
    for _ in range(_PILOTS):
        response = search.simulated(load, percent, seed, pilot)
        previous, load = load, curve.next_load(load, response.value)
        if abs(load - previous) <= _NEAR * load:
            break
    response = search.simulated(load, percent, seed + 1, completions)
    value, low, high = (curve.load_for(curve.multiple(load, end))
                        for end in (response.value, response.high, response.low))
    return search.answer(Interval(value, low, high), load, response)


@dataclass
class _Curve:
    """A percentile by load, between loads known to be too low and too high."""

    search: _Search
    base_s: float
    base_mean_s: float
    too_low: float = 0.0
    too_high: float = math.inf

    def multiple(self, load: float, percentile_s: float) -> float:
        """By how much more waiting adds to the percentile than to the mean, at a load."""
        added = self.search.mean(load) - self.base_mean_s
        return (percentile_s - self.base_s) / added if added > 0 else _FIRST_MULTIPLE

    def load_for(self, multiple: float) -> float:
        """The load whose percentile is at the limit, for a multiple."""
        room = self.search.bound.limit_s - self.base_s
        # A multiple that noise made nearly nothing would leave the mean without any limit.
        mean_s = self.base_mean_s + room / max(multiple, 1e-3)
        return max(self.search.load_for(mean_s), self.search.smallest)

    def next_load(self, load: float, percentile_s: float) -> float:
        """Where to look after a pilot: as its multiple says, or half-way between the known ends."""
        if percentile_s <= self.search.bound.limit_s:
            self.too_low = max(self.too_low, load)
        else:
            self.too_high = min(self.too_high, load)
        proposed = self.load_for(self.multiple(load, percentile_s))
        if self.too_low <= proposed <= self.too_high:
            return proposed
        if math.isinf(self.too_high):
            return load
        middle = (self.too_low + self.too_high) / 2
        return middle if self.search.is_open else max(1.0, float(int(middle)))


class _Search:
    """Loads of a chain, and the mean response time that each gives."""

    def __init__(self, network: QueueingNetwork, chain: str | None, bound: Bound) -> None:
        self.chain, self.bound = network.chain(chain), bound
        self.network = network
        # Means of processor sharing show the way where first come first served has none exact.
        self.guide = network if bound.percent is None else sharing(network)
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
        least = 1e-3 if bound.percent is None else 0.02
        self.smallest = least * self.saturation if self.is_open else 1.0

    def mean(self, load: float) -> float:
        """The mean response time in seconds at a load."""
        network = with_load(self.guide, self.chain.name, load)
        quick = self.bound.percent is not None and len(network.chains) > 1
        large = not self.is_open and load > _EXACT_CUSTOMERS
        method: Method = "linearizer" if quick or large else "auto"
        return means_of(network, method)[self.chain.name].response_s

    def load_for(self, response_s: float) -> float:
        """The largest load whose mean response time keeps to a limit; 0 if there is none."""
        if self.mean(self.smallest) > response_s:
            return 0.0
        if not self.is_open:
            return float(self._customers_for(response_s))
        from scipy import optimize  # large, and wanted here alone

        top = self.saturation * (1 - 1e-9)
        if self.mean(top) <= response_s:
            return top
        rate: float = optimize.brentq(lambda load: self.mean(load) - response_s, self.smallest,
                                      top, rtol=1e-9)
        return rate

    def _customers_for(self, response_s: float) -> int:
        # More cannot keep to it: the throughput would exceed saturation (asymptotic bound).
        low, high = 1, int((response_s + self.chain.think_s) * self.saturation) + 2
        return _last_true(lambda load: self.mean(load) <= response_s, low, high)

    def simulated(self, load: float, percent: float, seed: int, completions: int) -> Interval:
        """A percentile of the response time at a load, with its interval."""
        network = with_load(self.network, self.chain.name, load)
        flows = means_of(with_load(self.guide, self.chain.name, load), "linearizer")
        total = sum(means.throughput_per_s for means in flows.values())
        own = flows[self.chain.name].throughput_per_s
        # Every closed customer passes several times, or the slow ones would not be seen.
        cycles = max(completions, 0 if self.is_open else 4 * load)
        # A chain that is rare beside others gets an interval as wide as that makes it.
        all_cycles = min(cycles * total / own, max(_CYCLES, _FEWEST * total / own))
        run = simulate(network, np.random.default_rng(seed), completions=int(all_cycles))
        return run.chain(self.chain.name).percentile(percent)

    def answer(self, load: Interval, checked_at: float, response_s: Interval) -> Capacity:
        """The answer, with what limits the chain."""
        return Capacity(chain=self.chain.name, is_open=self.is_open, bound=self.bound, load=load,
                        checked_at=checked_at, response_s=response_s,
                        saturation_per_s=self.saturation,
                        bottleneck=self.network.stations[self.row].name)


def _last_true(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The largest number for which it holds, given that it does for low and not for high."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


