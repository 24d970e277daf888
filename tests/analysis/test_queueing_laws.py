"""Tests of analysis.queueing's solvers: laws, limits and bounds, on random networks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.queueing import (
    Chain,
    CustomerClass,
    QueueingError,
    QueueingNetwork,
    QueueingStation,
    Visit,
    asymptotic_bounds,
    balanced_job_bounds,
    find_bottleneck,
    solve_network,
)
from analysis.queueing.solution import Method, find_chain_means

METHODS: tuple[Method, ...] = ("exact", "schweitzer", "linearizer")


def chain_of(name: str, demands: dict[str, float], **load: float) -> Chain:
    """A chain of one class that visits each station once."""
    visits = tuple(Visit(station, demand) for station, demand in demands.items())
    return Chain(name, (CustomerClass("all", visits),), **load)


seconds = st.floats(0.001, 10)
demand_lists = st.lists(seconds, min_size=1, max_size=4)
#: A busy machine may take its time over an example.
quick = settings(deadline=None, max_examples=40)


def closed(demands: list[float], population: int, think_s: float = 0.0,
           servers: int = 1) -> QueueingNetwork:
    """A closed network of one chain: a delay of half a second, and a queue for each demand."""
    stations = (QueueingStation("delay", "delay"),
                *(QueueingStation(f"s{i}", servers=servers) for i in range(len(demands))))
    visits = {"delay": 0.5, **{f"s{i}": demand for i, demand in enumerate(demands)}}
    return QueueingNetwork(stations,
                           (chain_of("only", visits, population=population, think_s=think_s),))


@quick
@given(demand_lists, st.integers(1, 40), st.floats(0, 20), st.integers(1, 4))
def test_littles_law_and_utilization(demands: list[float], population: int, think_s: float,
                                     servers: int) -> None:
    """Everybody is somewhere, no station is more than busy, and the bounds hold."""
    network = closed(demands, population, think_s, servers)
    for method in METHODS:
        solution = solve_network(network, method)
        means = solution.chain()
        present = sum(station.queue for station in solution.stations)
        assert present + means.throughput_per_s * think_s == pytest.approx(population)
        assert means.throughput_per_s * (means.response_s + think_s) == pytest.approx(population)
        for station in solution.stations[1:]:
            assert station.utilization <= 1 + 1e-9
            assert station.queue >= station.utilization * 0.999999
    bounds = asymptotic_bounds(network)
    exact = solve_network(network, "exact").chain()
    assert bounds.throughput_low_per_s <= exact.throughput_per_s * (1 + 1e-9)
    assert bounds.throughput_high_per_s >= exact.throughput_per_s * (1 - 1e-9)
    assert bounds.response_low_s <= exact.response_s * (1 + 1e-9)
    assert bounds.response_high_s >= exact.response_s * (1 - 1e-9)


@quick
@given(demand_lists, st.integers(1, 40), st.floats(0, 20))
def test_balanced_bounds_are_inside_the_asymptotic_ones(demands: list[float], population: int,
                                                        think_s: float) -> None:
    """They hold, and are nowhere wider."""
    network = closed(demands, population, think_s)
    wide, narrow = asymptotic_bounds(network), balanced_job_bounds(network)
    exact = solve_network(network, "exact").chain().throughput_per_s
    assert wide.throughput_low_per_s <= narrow.throughput_low_per_s * (1 + 1e-9)
    assert narrow.throughput_low_per_s <= exact * (1 + 1e-9)
    assert exact <= narrow.throughput_high_per_s * (1 + 1e-9)
    assert narrow.throughput_high_per_s <= wide.throughput_high_per_s * (1 + 1e-9)
    assert narrow.knee == wide.knee


@quick
@given(demand_lists, st.floats(0, 20), st.integers(1, 4))
def test_one_customer_never_waits(demands: list[float], think_s: float, servers: int) -> None:
    """N = 1: the response time is the sum of the demands, by every method."""
    for method in METHODS:
        means = solve_network(closed(demands, 1, think_s, servers), method).chain()
        assert means.response_s == pytest.approx(0.5 + sum(demands))


@settings(quick, max_examples=20)
@given(st.lists(st.floats(0.05, 10), min_size=1, max_size=4), st.integers(1, 3))
def test_many_customers_saturate_the_bottleneck(demands: list[float], servers: int) -> None:
    """N to infinity: throughput is c over the largest demand."""
    for method in METHODS:
        throughput = solve_network(closed(demands, 500, servers=servers),
                                   method).chain().throughput_per_s
        assert throughput == pytest.approx(servers / max(demands), rel=0.05)


@quick
@given(demand_lists, st.integers(1, 30), st.floats(0.01, 100))
def test_units_do_not_matter(demands: list[float], population: int, factor: float) -> None:
    """Every time multiplied by a factor divides throughput by it."""
    network = closed(demands, population)
    visits = tuple(replace(visit, service_s=visit.service_s * factor)
                   for visit in network.chains[0].classes[0].visits)
    slower = replace(network, chains=(Chain("only", (CustomerClass("all", visits),), population),))
    for method in METHODS:
        assert (find_chain_means(slower, method)["only"].throughput_per_s * factor
                == pytest.approx(find_chain_means(network, method)["only"].throughput_per_s,
                                 rel=1e-6))


@quick
@given(demand_lists, st.integers(0, 12), st.floats(0.0, 0.9), st.integers(1, 4))
def test_a_station_without_demand_changes_nothing(demands: list[float], population: int,
                                                  rho: float, servers: int) -> None:
    """D = 0, with and without open traffic and several servers; nobody at all included."""
    network = closed(demands, population, servers=servers)
    opened = chain_of("open", {"s0": 1.0}, rate_per_s=rho * servers)
    network = replace(network, chains=(*network.chains, opened))
    idle = Visit("idle", 0.0)
    first = network.chains[0]
    wider = QueueingNetwork((*network.stations, QueueingStation("idle", servers=3)), (
        replace(first, classes=(*first.classes, CustomerClass("idle", (idle,)))), opened))
    for method in METHODS:
        for before, after in zip(solve_network(network, method).chains,
                                 solve_network(wider, method).chains,
                                 strict=True):
            assert after.throughput_per_s == pytest.approx(before.throughput_per_s)
            assert after.response_s == pytest.approx(before.response_s)


@quick
@given(st.integers(0, 6), st.integers(0, 6), st.integers(1, 3))
def test_chains_alike_are_one_chain(first: int, second: int, servers: int) -> None:
    """Two chains of the same demands share what one with all their customers has."""
    stations = (QueueingStation("delay", "delay"), QueueingStation("queue", servers=servers))
    demands = {"delay": 1.0, "queue": 0.7}
    both = solve_network(QueueingNetwork(stations, (chain_of("a", demands, population=first),
                                                    chain_of("b", demands, population=second))),
                         "exact")
    whole = solve_network(QueueingNetwork(stations,
                                          (chain_of("c", demands, population=first + second),)),
                          "exact")
    assert (sum(means.throughput_per_s for means in both.chains)
            == pytest.approx(whole.chain().throughput_per_s))


def test_bounds_by_hand() -> None:
    """Lazowska et al., 5.2: D = 3 + 2 s, Dmax = 3 s, Z = 15 s: knee at 20/3 customers."""
    network = QueueingNetwork((QueueingStation("cpu"), QueueingStation("disk")),
                              (chain_of("only", {"cpu": 3.0, "disk": 2.0}, population=4,
                                        think_s=15),))
    bounds = asymptotic_bounds(network)
    assert bounds.knee == pytest.approx(20 / 3)
    assert bounds.saturation_per_s == pytest.approx(1 / 3)
    assert bounds.throughput_high_per_s == pytest.approx(4 / 20)
    assert bounds.throughput_low_per_s == pytest.approx(4 / (20 + 15))
    assert find_bottleneck(network).station == "cpu"
    assert find_bottleneck(network).knee == pytest.approx(20 / 3)
    opened = QueueingNetwork((QueueingStation("queue"),),
                             (chain_of("only", {"queue": 1.0}, rate_per_s=0.5),))
    rate = asymptotic_bounds(opened)
    assert (rate.saturation_per_s, rate.response_low_s, rate.response_high_s) == (1, 1, math.inf)
    with pytest.raises(QueueingError, match="asymptotic"):
        balanced_job_bounds(closed([1.0], 3, servers=2))
