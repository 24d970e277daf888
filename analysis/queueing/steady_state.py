"""Simulate a queueing network for long enough that its mean response times are precise.

`SteadySimulation` discards the events before the steady state. Then it simulates many times the
relaxation time, in which the network forgets its past (`relaxation_time_s`, which grows as 1 / (1 -
utilization)^2). It makes the run longer until the confidence intervals are as narrow as `Precision`
requires, and then twice as long. Without that last step, a run would often end when its intervals
are too narrow by chance.

The method follows Whitt (1989), "Planning queueing simulations", Management Science 35(11),
1341-1366. The terms are those of `analysis.queueing.network`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from analysis.queueing import intervals
from analysis.queueing.intervals import Interval
from analysis.queueing.network import Chain, QueueingNetwork, demands_of
from analysis.queueing.routing import list_visits, variant_shares
from analysis.queueing.simulation import SimulationRun

#: Largest number of simulated visits, about 15 seconds.
VISIT_LIMIT = 5_000_000
#: Numbers of batches whose intervals decide when a run is long enough.
FEW_BATCHES, BATCHES = 10, 20
#: Numbers of batches of the returned intervals, of which the widest is used. Few batches are long
#: enough to be independent, many show their spread well, and each may be too narrow by chance.
_GIVEN_BATCHES = (5, FEW_BATCHES, BATCHES)
#: Factor by which a run is lengthened while its intervals are too wide.
_LONGER = 1.5
#: Factor by which a run is lengthened once its intervals are narrow, to confirm them.
_CONFIRMED = 2.0
#: Time that is simulated before the statistics begin, as a multiple of the relaxation time.
_WARM_UP = 10.0
#: Shortest time that is simulated afterwards, as a multiple of the relaxation time.
_SPAN = 100.0
#: Multiple of the relaxation time, divided by the share above a percentile, that a run must last
#: for the percentile. Long waits come in groups. A shorter run may contain no such group, and then
#: its interval is too narrow.
_TAIL_SPAN = 8.0
#: Smallest number of cycles.
_FEWEST = 10_000
#: Smallest number of cycles of each closed customer in the warm-up.
_PASSES_BEFORE = 4
#: Smallest number of cycles of each closed customer after the warm-up.
_PASSES = 40
#: Cycles that are simulated between two checks of the limit.
_STEP = 20_000

#: Function that receives the number of simulated visits and the largest number.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Precision:
    """The required precision of simulated response times, relative to the values.

    - `mean`: half width of the mean's confidence interval, divided by the mean
    - `share`: required for a percentile. It is the half width of the interval of the fraction of
      response times above the percentile, in the logarithm of that fraction.

    If a simulation reaches its limit, intervals of twice these widths are accepted.
    """

    mean: float = 0.05
    share: float = 0.35


def relaxation_time_s(network: QueueingNetwork) -> float:
    """Return how long a queueing network remembers its past, in seconds (relaxation time).

    It is the longest time of a station under its open chains, and 0 without any open chain.
    """
    longest = 0.0
    moments = {chain.name: _work_moments(chain, network) for chain in network.chains}
    for row, station in enumerate(network.stations):
        if station.discipline == "delay":
            continue
        rates = [(chain.rate_per_s or 0.0, moments[chain.name][row]) for chain in network.chains]
        offered = sum(rate * mean for rate, (mean, _) in rates)
        second = sum(rate * square for rate, (_, square) in rates)
        idle = 1.0 - offered / station.servers
        if offered and idle > 0:
            longest = max(longest, 2.0 * second / (offered * idle) ** 2)
    return longest


def _work_moments(chain: Chain, network: QueueingNetwork) -> list[tuple[float, float]]:
    """Return the mean and the mean square of a transaction's work at each queueing station."""
    total = np.zeros((len(network.stations), 2))
    for variant, share in variant_shares(chain):
        mean = np.zeros(len(network.stations))
        variance = np.zeros(len(network.stations))
        for of_variant, chance, visit in list_visits(chain, network):
            if of_variant in (None, variant):
                first = chance * visit.mean_s
                mean[visit.station] += first
                variance[visit.station] += first * visit.mean_s * (1 + visit.variation) - first ** 2
        total += share * np.column_stack([mean, variance + mean ** 2])
    return [(float(mean), float(square)) for mean, square in total]


class SteadySimulation:
    """A simulation of a queueing network that continues until its results are precise.

    `is_settled` is true once the run was long enough for reliable intervals. The run ends after
    `limit` visits at the latest, and reports to `progress`.

    Raises:
        QueueingError: Open traffic is above capacity.
    """

    def __init__(self, network: QueueingNetwork, rng: np.random.Generator, *,
                 limit: int = VISIT_LIMIT, progress: Progress | None = None) -> None:
        demands_of(network).check_stable()
        self.network, self.limit, self.progress = network, limit, progress
        self.run = SimulationRun(network, rng, {})
        self.customers = sum(chain.population or 0 for chain in network.chains)
        self.forgetting_s = relaxation_time_s(network)
        self.parts: list[list[NDArray[np.float64]]] = [[] for _ in network.chains]
        self.marks: list[tuple[float, NDArray[np.float64], list[int]]] = []
        self.cycles, self.is_settled = 0, False
        self._warm_up()

    @property
    def visited(self) -> int:
        """Return the number of visits to queueing stations simulated so far."""
        return self.run.visited

    @property
    def is_exhausted(self) -> bool:
        """Return whether the limit of simulated visits is reached.

        The warm-up sets the limit to 0 if no steady state can be reached within it.
        """
        return self.visited >= self.limit

    def _warm_up(self) -> None:
        fewest = max(_FEWEST // 10, _PASSES_BEFORE * self.customers)
        done = 0
        while done < fewest or self.run.now < _WARM_UP * self.forgetting_s:
            done += self._simulate_cycles(min(_STEP, fewest))
            needed = self.visited * self._needed_s(warm_up=True) / max(self.run.now, 1e-300)
            if self.is_exhausted or needed > self.limit:
                self.limit = 0  # cannot reach a steady state
                return
        self.run.end_warm_up()
        for part in self.parts:
            part.clear()
        self.run.responses = [[] for _ in self.run.responses]
        self._record_mark()

    def _needed_s(self, *, warm_up: bool = False) -> float:
        return self.forgetting_s * (_SPAN + _WARM_UP if warm_up else _SPAN)

    def _simulate_cycles(self, cycles: int) -> int:
        """Simulate some more transactions, and return how many ended."""
        self.run.done = 0
        self.run.run_until(lambda: self.run.done >= cycles)
        for part, responses in zip(self.parts, self.run.responses, strict=True):
            part.append(np.array(responses))
            responses.clear()
        if self.progress:
            self.progress(self.visited, self.limit)
        return self.run.done

    def _record_mark(self) -> None:
        for server in self.run.servers:
            server.account(self.run.now)
        self.marks.append((self.run.now, np.array([
            [*row, server.busy_s] for row, server in
            zip(self.run.residence_s, self.run.servers, strict=True)]),
            [sum(map(len, part)) for part in self.parts]))

    def run_until_narrow(self, is_narrow: Callable[[SteadySimulation], bool]) -> None:
        """Simulate until intervals are narrow, then as long again, or until the limit."""
        fewest, is_confirmed = max(_FEWEST, _PASSES * self.customers), False
        step = max(1, min(_STEP, fewest // 10))
        while not self.is_exhausted:
            self.cycles += self._simulate_cycles(step)
            self._record_mark()
            passed_s = self.run.now - self.run.start
            if self.cycles < fewest or passed_s < self._needed_s():
                continue
            self.is_settled = True
            if is_confirmed:
                return
            is_confirmed = is_narrow(self)
            fewest = int((_CONFIRMED if is_confirmed else _LONGER) * self.cycles)

    def responses_s(self, chain: str) -> NDArray[np.float64]:
        """Return the simulated response times of a kind of transaction in order (s)."""
        part = self.parts[[each.name for each in self.network.chains].index(chain)]
        return np.concatenate(part) if part else np.zeros(0)

    def mean(self, chain: str) -> Interval:
        """Return the simulated mean response time of a kind of transaction, with its interval."""
        return _widest_of(partial(intervals.mean_interval, self.responses_s(chain)))

    def percentile(self, chain: str, percent: float) -> Interval:
        """Return a simulated percentile of a transaction's response time, with its interval."""
        return _widest_of(partial(intervals.percentile_interval, self.responses_s(chain), percent))

    def is_narrow(self, chain: str, percent: float | None = None, factor: float = 1.0,
                  precision: Precision = Precision()) -> bool:
        """Return whether the interval of a simulated mean or percentile is narrow enough.

        Args:
            chain: Name of the chain whose response times are judged.
            percent: The percentile in percent; None for the mean.
            factor: Factor by which the interval may be wider than `precision` says.
            precision: Largest half widths of the intervals.
        """
        values = self.responses_s(chain)
        if percent is None:
            if values.size < 2 * BATCHES:
                return False
            interval = _widest_of(partial(intervals.mean_interval, values), (FEW_BATCHES, BATCHES))
            return interval.high - interval.value <= factor * precision.mean * interval.value
        if values.size * min(percent, 100 - percent) / 100 < 5 * BATCHES or (
                not self._has_tail(percent, _CONFIRMED)):
            return False
        width = max(intervals.share_width(values, percent, batches)
                    for batches in (FEW_BATCHES, BATCHES))
        return width <= factor * precision.share

    def is_known(self, chain: str, percent: float | None = None) -> bool:
        """Return whether the simulation was long enough and its interval is acceptably narrow.

        The interval is that of the mean, or of a percentile if `percent` is given.
        """
        return self.is_settled and self._has_tail(percent) and self.is_narrow(
            chain, percent, 2.0, Precision(mean=0.1))

    def _has_tail(self, percent: float | None, longer: float = 1.0) -> bool:
        """Return whether the simulation (or one `longer` times as long) has enough long waits.

        A percentile needs a long run, because few response times are above it.
        """
        if percent is None:
            return True
        needed_s = self.forgetting_s * _TAIL_SPAN / (1.0 - percent / 100)
        return longer * (self.run.now - self.run.start) >= needed_s

    def throughput_per_s(self, chain: int) -> Interval:
        """Return how many transactions of a kind end per simulated second."""
        return self._rate_interval(lambda before, after: after[2][chain] - before[2][chain])

    def busy_servers(self, row: int) -> Interval:
        """Return the simulated mean number of busy servers of a station."""
        return self._rate_interval(lambda before,
                                   after: float(after[1][row, -1] - before[1][row, -1]))

    def residence_s(self, row: int) -> Interval:
        """Return how long transactions stay at a queueing station, in seconds.

        The times of all kinds of transactions are summed.
        """
        return self._to_interval(lambda before, after: float(sum(
            (after[1][row, chain] - before[1][row, chain])
            / max(after[2][chain] - before[2][chain], 1)
            for chain in range(len(self.network.chains)))))

    def _rate_interval(self, amount: Callable[[_Mark, _Mark], float]) -> Interval:
        return self._to_interval(
            lambda before, after: amount(before, after) / (after[0] - before[0]))

    def _to_interval(self, value: Callable[[_Mark, _Mark], float]) -> Interval:
        """Return a simulated value over the whole run, with its confidence interval."""
        whole = value(self.marks[0], self.marks[-1])
        return _widest_of(lambda batches: intervals.interval_around(
            whole, [value(*pair) for pair in self._batch_marks(batches)]))

    def _batch_marks(self, batches: int) -> list[tuple[_Mark, _Mark]]:
        places = np.linspace(0, len(self.marks) - 1, min(batches, len(self.marks) - 1) + 1)
        chosen = [self.marks[int(place)] for place in places.round()]
        return list(pairwise(chosen))


def _widest_of(estimate: Callable[[int], Interval],
            counts: tuple[int, ...] = _GIVEN_BATCHES) -> Interval:
    """Return the widest of the intervals computed from few and from more batches."""
    return max((estimate(batches) for batches in counts),
               key=lambda interval: interval.high - interval.low)


_Mark = tuple[float, NDArray[np.float64], list[int]]
