"""Compute how long a request stays at one server, with waiting: mean and distribution.

Percentiles of response times need this, such as "95 % of all authentications take less than 150
ms". In terms of queueing theory (see `analysis.queueing.network`), the server with its queue is a
*station*, and the request is a *visit* of a *customer* (a transaction). The time at the station is
called sojourn time. It is known exactly for these stations with Poisson arrivals:

- M/M/c and M/G/1 in order of arrival (Pollaczek and Khinchine)
- M/G/1 with preemptive priority (Kleinrock 1976, 3.3; Takacs 1964)
- M/M/c with processor sharing, a birth and death process seen by one customer (Coffman, Muntz and
  Trotter 1970)

It is also known if a fixed number of customers circulate and wait at one station only (a closed
chain, `closed_sojourn`). The number of other customers that a visit finds then follows from the
arrival theorem. Distributions are given by their Laplace transform, which `tail_probability`
inverts numerically.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.queueing.network import QueueingStation
from analysis.queueing.routing import PlannedVisit

# --- Numerical inversion of Laplace transforms ---
# The method is a Fourier series whose last terms are averaged (Euler summation). Abate and Whitt
# (1995), "Numerical inversion of Laplace transforms of probability distributions", ORSA Journal on
# Computing 7(1), 36-43.

Transform = Callable[[NDArray[np.complex128]], NDArray[np.complex128]]

#: Damping; the discretization error is exp(-_INVERSION_DAMPING), 4e-11.
_INVERSION_DAMPING = 24.0
_INVERSION_TERMS = 240
_AVERAGED_SUMS = 12

_TERM_ORDERS = np.arange(_INVERSION_TERMS + _AVERAGED_SUMS + 1)
#: Weights of the terms: binomial averages of the last partial sums, with alternating signs.
_TERM_WEIGHTS = np.where(_TERM_ORDERS <= _INVERSION_TERMS, 1.0, special.bdtrc(
    np.maximum(_TERM_ORDERS - _INVERSION_TERMS - 1, 0), _AVERAGED_SUMS,
    0.5)) * (-1.0) ** _TERM_ORDERS
_TERM_WEIGHTS[0] /= 2


def tail_probability(transform: Transform, time_s: float) -> float:
    """Return the probability that a random time exceeds a value, from its Laplace transform."""
    points = np.asarray((_INVERSION_DAMPING / 2 + 1j * np.pi * _TERM_ORDERS) / time_s,
                        dtype=np.complex128)
    values = ((1.0 - transform(points)) / points).real
    return float(np.exp(_INVERSION_DAMPING / 2) / time_s * (_TERM_WEIGHTS @ values))


def gamma_transform(mean: float, variation: float) -> Transform:
    """Return the Laplace transform of a gamma distributed time (a constant for variation 0)."""
    complement = gamma_complement(mean, variation)
    return lambda s: 1.0 - complement(s)


def gamma_complement(mean: float, variation: float) -> Transform:
    """Return 1 minus the Laplace transform of a gamma distributed time, precise for small s."""
    if variation == 0 or mean == 0:
        return lambda s: -np.expm1(-s * mean)
    if variation == 1:
        return lambda s: s * mean / (1.0 + s * mean)
    return lambda s: -np.expm1(-np.log1p(s * (mean * variation)) / variation)


# --- Sojourn times by discipline ---

#: Largest number of customers in the states of a processor-sharing station; near saturation there
#: are more.
STATE_LIMIT = 60_000
#: Probability of the tail that is cut off from a distribution of customers.
_CUT = 1e-13
_BUSY_PERIOD_STEPS = 200_000
_ONE_MEAN = 1e-9


class PoissonVisits(NamedTuple):
    """Poisson arrivals of one kind of visit at a queueing station: rate and service time."""

    rate_per_s: float
    visit: PlannedVisit


@dataclass(frozen=True)
class SojournTime:
    """The time of a visit at a queueing station, with waiting: a constant plus a random part.

    `transform` is the Laplace transform of the random part, None without one.
    """

    mean_s: float
    constant_s: float = 0.0
    transform: Transform | None = None


def is_markovian(station: QueueingStation, visits: Sequence[PlannedVisit]) -> bool:
    """Return whether service at a queueing station is exponential with one mean for all visits."""
    means = [visit.mean_s for visit in visits]
    return (not station.is_cold and station.variation == 1
            and max(means) - min(means) <= _ONE_MEAN * max(means))


def offered_load(arrivals: Sequence[PoissonVisits]) -> float:
    """Return the mean number of servers that arrivals at a station keep busy."""
    return sum(each.rate_per_s * each.visit.mean_s for each in arrivals)


def find_sojourn(station: QueueingStation, arrivals: Sequence[PoissonVisits],
                 visit: PlannedVisit) -> SojournTime | None:
    """Return the distribution of the time that a visit takes among Poisson arrivals.

    The result is None if the distribution is not known, or above saturation.
    """
    if station.discipline == "delay":
        return delay_sojourn(visit)
    if station.discipline == "priority" and visit.is_urgent:
        arrivals = [each for each in arrivals if each.visit.is_urgent]
    if station.is_cold or offered_load(arrivals) >= station.servers:
        return None
    if station.discipline == "priority" or (
            station.discipline == "fcfs" and station.servers == 1):
        # Without urgent visits among the arrivals, both kinds are served in order of arrival.
        is_behind = station.discipline == "priority" and not visit.is_urgent
        return (_preempted_sojourn if is_behind else _fcfs_sojourn)(arrivals, visit)
    return _markovian_sojourn(station, arrivals, visit)


def _markovian_sojourn(station: QueueingStation, arrivals: Sequence[PoissonVisits],
                       visit: PlannedVisit) -> SojournTime | None:
    """Return the distribution of the time of a visit in M/M/c, or None for other service.

    The discipline is FCFS or processor sharing.
    """
    if not is_markovian(station, [each.visit for each in arrivals]):
        return None
    offered = offered_load(arrivals)
    if station.discipline == "fcfs":
        return _multi_server_sojourn(station.servers, offered, visit)
    found = _before_arrival(station.servers, offered)
    if found is None:
        return None
    births = np.full(len(found), math.fsum(each.rate_per_s for each in arrivals))
    births[-1] = 0.0
    return _sharing_sojourn(station.servers, found, births, visit)


def delay_sojourn(visit: PlannedVisit) -> SojournTime:
    """Return the distribution of the time at a queueing station that is a pure delay."""
    if visit.variation == 0:
        return SojournTime(visit.mean_s, visit.mean_s)
    return SojournTime(visit.mean_s, 0.0, gamma_transform(visit.mean_s, visit.variation))


def _service_parts(visit: PlannedVisit) -> tuple[float, Transform]:
    """Return the constant part of a service time, and the Laplace transform of the random part."""
    if visit.variation == 0:
        return visit.mean_s, np.ones_like
    return 0.0, gamma_transform(visit.mean_s, visit.variation)


def _mix_arrivals(arrivals: Sequence[PoissonVisits]) -> tuple[float, Transform, float]:
    """Return the parameters of the service times of all arrivals together.

    These are the total rate, 1 minus the Laplace transform, and the second moment.
    """
    rate = math.fsum(each.rate_per_s for each in arrivals)
    parts = [(each.rate_per_s / rate, gamma_complement(each.visit.mean_s, each.visit.variation))
             for each in arrivals if each.rate_per_s]
    second = math.fsum(each.rate_per_s / rate * each.visit.mean_s ** 2 * (1 + each.visit.variation)
                       for each in arrivals if each.rate_per_s)
    return rate, lambda s: np.sum([share * part(s) for share, part in parts], axis=0), second


def _find_workload(arrivals: Sequence[PoissonVisits]) -> tuple[Transform, float]:
    """Return the unfinished work that an arrival finds at a single server (M/G/1).

    It is given as Laplace transform and mean, by the formula of Pollaczek and Khinchine.
    """
    rate, complement, second = _mix_arrivals(arrivals)
    idle = 1.0 - offered_load(arrivals)
    return lambda s: idle / (1.0 - rate * complement(s) / s), rate * second / 2 / idle


def _fcfs_sojourn(arrivals: Sequence[PoissonVisits], visit: PlannedVisit) -> SojournTime:
    constant_s, service = _service_parts(visit)
    if not any(each.rate_per_s for each in arrivals):
        return delay_sojourn(visit)
    waiting, mean_s = _find_workload(arrivals)
    return SojournTime(mean_s + visit.mean_s, constant_s, lambda s: waiting(s) * service(s))


def _preempted_sojourn(arrivals: Sequence[PoissonVisits], visit: PlannedVisit) -> SojournTime:
    """Return the distribution of the time of a visit that urgent visits interrupt.

    The work found and the visit's own work are lengthened by busy periods of urgent visits.
    """
    urgent = [each for each in arrivals if each.visit.is_urgent and each.rate_per_s]
    if not urgent:
        return _fcfs_sojourn(arrivals, visit)
    rate, complement, _ = _mix_arrivals(urgent)
    constant_s, service = _service_parts(visit)
    waiting, waiting_s = _find_workload(arrivals)

    def transform(s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        more = rate * _busy_complement(s, rate, complement)
        return waiting(s + more) * service(s + more) * np.exp(-more * constant_s)

    return SojournTime((waiting_s + visit.mean_s) / (1.0 - offered_load(urgent)), constant_s,
                       transform)


def _busy_complement(s: NDArray[np.complex128], rate: float, complement: Transform,
                     ) -> NDArray[np.complex128]:
    """Return 1 minus the Laplace transform of a server's busy period.

    It is the root of c = 1 - B(s + rate c).
    """
    found = np.ones_like(s)
    for _ in range(_BUSY_PERIOD_STEPS):
        previous, found = found, complement(s + rate * found)
        if np.abs(found - previous).max() < 1e-15:
            break
    return found


def _multi_server_sojourn(servers: int, offered: float, visit: PlannedVisit) -> SojournTime:
    """Return the distribution of the time of a visit in M/M/c: service and exponential wait.

    The probability of the wait is Erlang's C.
    """
    waits = 1.0 / (1.0 + (1.0 - offered / servers) * _erlang_sum(servers, offered))
    # Who waits, waits for an exponential time with this rate (1/s): the capacity that is to spare.
    spare = (servers - offered) / visit.mean_s
    return SojournTime(visit.mean_s + waits / spare, 0.0, lambda s: (
        (1.0 - waits + waits * spare / (spare + s)) / (1.0 + s * visit.mean_s)))


def _erlang_sum(servers: int, offered: float) -> float:
    """Return the sum over k < c of c! / k! offered^(k - c), for Erlang's C formula."""
    if offered == 0:
        return np.inf
    k = np.arange(servers)
    return float(np.exp(special.gammaln(servers + 1) - special.gammaln(k + 1)
                        + (k - servers) * np.log(offered)).sum())


def _before_arrival(servers: int, offered: float) -> NDArray[np.float64] | None:
    """Return the distribution of the number of customers (transactions) that an arrival finds.

    The result is None if the distribution is too long.
    """
    if offered == 0:
        return np.ones(1)
    size = servers + 2 + int(np.log(_CUT) / np.log(offered / servers))
    if size > STATE_LIMIT:
        return None
    return _normalize_weights(np.arange(size) * np.log(offered), servers)


def _normalize_weights(logs: NDArray[np.float64], servers: int) -> NDArray[np.float64]:
    """Return the distribution of the number of customers at a station with c servers.

    The result has the probabilities p(0), p(1), ... of n customers (transactions). p(n) is
    proportional to w(n) / (min(1, c) min(2, c) ... min(n, c)).

    Args:
        logs: Logarithms of the weights w(0), w(1), ...
        servers: Number of servers c.
    """
    rates = np.minimum(np.arange(1, len(logs)), servers)
    weights = logs - np.concatenate([[0.0], np.cumsum(np.log(rates))])
    weights = np.exp(weights - weights.max())
    return np.asarray(weights / weights.sum())


def _sharing_sojourn(servers: int, distribution: NDArray[np.float64], births: NDArray[np.float64],
                     visit: PlannedVisit) -> SojournTime:
    """Return the distribution of the time of a visit under processor sharing.

    Other customers come at the rates `births` and leave at the rate of the customer.
    """
    others = np.arange(len(distribution))
    rate = np.minimum(others + 1, servers) / visit.mean_s
    own, deaths = rate / (others + 1), rate * others / (others + 1)

    def passage(s: complex, to: NDArray[np.float64]) -> NDArray[np.complex128]:
        band = np.zeros((3, len(distribution)), dtype=np.complex128)
        band[0, 1:], band[2, :-1] = -births[:-1], -deaths[1:]
        band[1] = s + births + rate
        from scipy import linalg  # large, and left out of the container image

        return np.asarray(linalg.solve_banded((1, 1), band, to, check_finite=False))

    return SojournTime(float((distribution @ passage(0.0, np.ones(len(distribution)))).real), 0.0,
                       lambda s: (
        np.array([distribution @ passage(complex(point), own) for point in s])))


def closed_sojourn(station: QueueingStation, population: int, demand_s: float, pause_s: float,
                   ) -> Callable[[PlannedVisit], SojournTime] | None:
    """Return a function that computes how long a visit takes, where customers circulate.

    A fixed number of customers circulate, and wait at no other station. With first come first
    served, only the mean time outside of the station matters (Reiser and Lavenberg 1980). With
    processor sharing, that time is assumed to be exponential. The result is None for processor
    sharing with too many customers.

    Args:
        station: The station at which customers wait.
        population: Number of customers.
        demand_s: Service time at the station in one cycle, in seconds.
        pause_s: Mean time of a cycle outside of the station, in seconds.
    """
    if population > STATE_LIMIT and station.discipline == "ps":
        return None
    others = np.arange(population)
    logs = others * np.log(demand_s)
    if pause_s:
        away = population - 1 - others
        logs = logs + away * np.log(pause_s) - special.gammaln(away + 1)
        found = _normalize_weights(logs, station.servers)
    else:
        found = (others == population - 1).astype(np.float64)
    if station.discipline == "ps":
        if not pause_s:
            return lambda visit: _sharing_sojourn(station.servers, found, np.zeros(population),
                                                  visit)
        births = (population - 1 - others) / pause_s
        return lambda visit: _sharing_sojourn(station.servers, found, births, visit)
    return lambda visit: _sojourn_behind(station.servers, found, visit)


def _sojourn_behind(servers: int, distribution: NDArray[np.float64],
                    visit: PlannedVisit) -> SojournTime:
    """Return the distribution of the time of a visit that finds other transactions in the queue.

    Each customer in front that has no free server adds one wait.
    """
    ahead = np.maximum(np.arange(len(distribution)) - servers + 1, 0)
    weights = np.bincount(ahead, weights=distribution)
    likely = np.flatnonzero(weights > _CUT * weights.max())
    first, weights = likely[0], weights[likely[0]:likely[-1] + 1]
    step_s = visit.mean_s / servers

    def transform(s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        wait, factor = np.zeros_like(s), 1.0 / (1.0 + s * step_s)
        for weight in weights[::-1]:
            wait = wait * factor + weight
        return np.asarray(wait * factor ** first / (1.0 + s * visit.mean_s))

    return SojournTime(visit.mean_s + float(ahead @ distribution) * step_s, 0.0, transform)
