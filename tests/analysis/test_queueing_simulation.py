"""Tests of analysis.queueing's event simulation: closed forms, coverage, repeatability, traces."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from analysis.queueing import (
    Chain,
    CustomerClass,
    Interval,
    QueueingError,
    QueueingNetwork,
    QueueingStation,
    Visit,
    simulate_network,
    solve_network,
)
from analysis.queueing.intervals import mean_interval, percentile_interval
from queueing_line import RECORDED, network_of


def single(station: QueueingStation, *, service_s: float = 1.0, **load: float) -> QueueingNetwork:
    """One station, one class, one chain."""
    member = CustomerClass("all", (Visit(station.name, service_s),))
    return QueueingNetwork((station,), (Chain("only", (member,), **load),))


def covers(interval: Interval, truth: float) -> bool:
    """Whether the interval holds the truth."""
    return interval.low <= truth <= interval.high


@pytest.mark.parametrize("discipline", ["ps", "fcfs"])
def test_intervals_cover_m_m_1(discipline: str) -> None:
    """The mean's 95 % interval holds 1 / (mu - lambda) in nine of ten short runs or so."""
    network = single(QueueingStation("queue", discipline), rate_per_s=0.5)
    runs = [simulate_network(network, np.random.default_rng(seed), completions=2000).chain()
            for seed in range(80)]
    # 92 % of 300 runs: ten batches of 200 customers are still slightly correlated.
    assert 0.85 * 80 <= sum(covers(run.mean(), 2.0) for run in runs) < 80
    assert np.mean([run.mean().value for run in runs]) == pytest.approx(2.0, rel=0.02)


def test_percentiles_cover_m_m_1() -> None:
    """First come first served, response times are exponential: p95 is ln(20) of their mean."""
    network = single(QueueingStation("queue", "fcfs"), rate_per_s=0.5)
    runs = [simulate_network(network, np.random.default_rng(seed), completions=4000).chain()
            for seed in range(40)]
    assert sum(covers(run.percentile(95), 2 * math.log(20)) for run in runs) >= 35
    assert np.mean([run.percentile(95).value for run in runs]) == pytest.approx(
        2 * math.log(20), rel=0.02)


@pytest.mark.parametrize(("scv", "waiting_s"), [(0.0, 1.0), (0.5, 1.5), (4.0, 5.0)])
def test_first_come_first_served_is_pollaczek_and_khinchine(scv: float, waiting_s: float) -> None:
    """M/G/1 at rho = 2/3: W = rho s (1 + scv) / 2 / (1 - rho), which product forms do not know."""
    network = single(QueueingStation("queue", "fcfs", scv=scv), rate_per_s=2 / 3)
    run = simulate_network(network, np.random.default_rng(5), completions=40_000)
    assert run.chain().mean().value - 1 == pytest.approx(waiting_s, rel=0.1)
    assert run.stations[0].utilization == pytest.approx(2 / 3, rel=0.03)
    with pytest.raises(QueueingError, match="simulate it"):
        solve_network(network)


@pytest.mark.parametrize("scv", [0.0, 4.0])
def test_processor_sharing_is_insensitive(scv: float) -> None:
    """M/G/1 with processor sharing has the mean of M/M/1, whatever the service times."""
    network = single(QueueingStation("queue", "ps", scv=scv), rate_per_s=0.6)
    run = simulate_network(network, np.random.default_rng(6), completions=40_000).chain()
    assert run.mean().value == pytest.approx(2.5, rel=0.06)
    assert solve_network(network).chain().response_s == pytest.approx(2.5)


@pytest.mark.parametrize("discipline", ["ps", "fcfs"])
def test_who_finds_nobody_takes_longer(discipline: str) -> None:
    """Exceptional first service (Welch 1964), M/G/1: an idle share, and FCFS's mean wait.

    rho = 0.5, S = 1 constant, S0 = 1.5: the server is busy for 0.5 * 1.5 / (1 - 0.5 + 0.5 * 1.5).
    """
    station = QueueingStation("queue", discipline, scv=0.0, warm_up_s=0.5)
    network = single(station, rate_per_s=0.5)
    run = simulate_network(network, np.random.default_rng(7), completions=40_000)
    rate, first_s = 0.5, 1.5
    busy = rate * first_s / (1 - rate + rate * first_s)
    assert run.stations[0].utilization == pytest.approx(busy, rel=0.02)
    if discipline == "fcfs":
        share_first = 1 - busy
        wait_s = rate / 2 / (1 - rate) + rate * (first_s ** 2 - 1) / 2 / (
            1 - rate + rate * first_s)
        assert run.chain().mean().value == pytest.approx(
            wait_s + 1 + 0.5 * share_first, rel=0.03)
    with pytest.raises(QueueingError, match="simulate it"):
        solve_network(network)


def test_who_is_urgent_interrupts_the_others() -> None:
    """M/M/1 with preemptive resume: urgent ones see each other only, the rest see all.

    T1 = S / (1 - rho1), T2 = S / (1 - rho1) / (1 - rho1 - rho2) (Kleinrock 1976, 3.3).
    """
    station = QueueingStation("queue", "priority")
    chains = tuple(Chain(name, (CustomerClass("all", (Visit("queue", 1.0, is_urgent=is_urgent),)),),
                         rate_per_s=0.3) for name, is_urgent in (("urgent", True), ("rest", False)))
    network = QueueingNetwork((station,), chains)
    run = simulate_network(network, np.random.default_rng(9), completions=60_000)
    assert run.chain("urgent").mean().value == pytest.approx(1 / 0.7, rel=0.03)
    assert run.chain("rest").mean().value == pytest.approx(1 / 0.7 / 0.4, rel=0.05)
    assert run.stations[0].utilization == pytest.approx(0.6, rel=0.03)
    with pytest.raises(QueueingError, match="priorities have no exact mean values"):
        solve_network(network)


def test_of_steps_in_turn_the_urgent_ones_go_before() -> None:
    """Two customers of four steps, instant by instant, worked out by hand."""
    visits = tuple(Visit("queue", seconds, is_urgent=number % 2 == 0)
                   for number, seconds in enumerate((1.0, 4.0, 2.0, 3.0)))
    network = QueueingNetwork((QueueingStation("queue", "priority", scv=0.0),), (
        Chain("all", (CustomerClass("all", visits),), rate_per_s=0.1),))
    # The second comes at 2, takes the server for 1, and waits; from 6 the first is urgent until
    # 8, the second has its 4 until 12, is urgent until 14; the first's 3 end at 17, its own at 20.
    run = simulate_network(network, np.random.default_rng(1),
                           arrivals_s={"all": np.array([0.0, 2.0])})
    assert run.chain("all").responses_s.tolist() == pytest.approx([17.0, 18.0])


@pytest.mark.parametrize("discipline", ["ps", "fcfs", "priority"])
def test_a_server_cools_while_nobody_is_there(discipline: str) -> None:
    """By how long that was, interpolated between what is given, and as the last after longer."""
    station = QueueingStation("queue", discipline, scv=0.0, cooling=((2.0, 0.2), (4.0, 0.6)))
    network = single(station, rate_per_s=0.1)
    # After 1, 3 and 10 s without anybody; the last finds one there, the first came to a cold one.
    instants = np.cumsum([0.0, 2.6, 4.1, 11.4, 0.5])
    took_s = simulate_network(network, np.random.default_rng(1),
                              arrivals_s={"only": instants}).chain().responses_s
    assert took_s[:3].tolist() == pytest.approx([1.6, 1.1, 1.4])
    assert took_s[3:].sum() == pytest.approx(2.0 + 2.6 if discipline == "ps" else 1.6 + 2.1)
    with pytest.raises(QueueingError, match="simulate it"):
        solve_network(network)


def test_intervals_cover_exact_answers_of_recorded_networks() -> None:
    """Every tenth network of those that LINE answered: chains, class switching, several servers."""
    hits = total = 0
    for number in range(5, 200, 10):
        network = network_of(RECORDED[number])
        exact = solve_network(network)
        run = simulate_network(network, np.random.default_rng(number), completions=3000)
        for station, means in zip(run.stations, exact.stations, strict=True):
            assert station.utilization == pytest.approx(means.utilization, rel=0.35, abs=0.08)
        for chain in run.chains:
            if len(chain.responses_s) >= 400:
                total += 1
                hits += covers(chain.mean(), exact.chain(chain.name).response_s)
    assert total >= 25
    assert hits >= 0.85 * total


def test_littles_law_holds_within_a_run() -> None:
    """Customers present = throughput times response time, but for those still under way."""
    network = network_of(RECORDED[0])
    run = simulate_network(network, np.random.default_rng(7), completions=20_000)
    chain = run.chain()
    present = sum(station.queue for station in run.stations)
    assert present == pytest.approx(network.chains[0].population, rel=1e-9)
    assert chain.throughput_per_s * chain.responses_s.mean() == pytest.approx(present, rel=0.01)


def test_the_same_generator_gives_the_same_run() -> None:
    """Replicable to the last digit; another seed gives another run."""
    network = network_of(RECORDED[140])
    first, again, other = (simulate_network(network, np.random.default_rng(seed), completions=500)
                           for seed in (1, 1, 2))
    for chain, same, different in zip(first.chains, again.chains, other.chains, strict=True):
        assert (chain.responses_s == same.responses_s).all()
        assert list(chain.responses_s) != list(different.responses_s)


def test_given_arrivals_are_followed() -> None:
    """First come first served, 1 s each: arrivals at 0, 0.5, 3 s take 1, 1.5 and 1 s."""
    network = single(QueueingStation("queue", "fcfs", scv=0), rate_per_s=1)
    arrivals = {"only": np.array([0.0, 0.5, 3.0])}
    run = simulate_network(network, np.random.default_rng(0), arrivals_s=arrivals)
    assert run.chain("only").responses_s == pytest.approx([1.0, 1.5, 1.0])
    sharing = simulate_network(replace(network, stations=(QueueingStation("queue", scv=0),)),
                               np.random.default_rng(0), arrivals_s=arrivals)
    # Shared from 0.5 s on: the first has half left, and gets it by 1.5 s; the second ends at 2 s.
    assert sharing.chain().responses_s == pytest.approx([1.5, 1.5, 1.0])
    assert sharing.stations[0].utilization == pytest.approx(3 / 4)


def test_variants_and_broken_visits_keep_their_shares() -> None:
    """A quarter of the cycles resume, with 1 visit in place of 2.5; think times do not count."""
    classes = (CustomerClass("hello", (Visit("wan", 1.0),)),
               CustomerClass("full", (Visit("wan", 1.0, 2.5),), "full"),
               CustomerClass("short", (Visit("wan", 1.0),), "resumed"))
    network = QueueingNetwork((QueueingStation("wan", "delay"),), (
        Chain("auth", classes, population=3, think_s=2.0,
              shares={"full": 0.75, "resumed": 0.25}),))
    run = simulate_network(network, np.random.default_rng(3), completions=8000).chain()
    lengths, counts = np.unique(run.responses_s.round(6), return_counts=True)
    assert lengths.tolist() == [2, 3, 4]
    assert counts / counts.sum() == pytest.approx([0.25, 0.375, 0.375], abs=0.02)
    assert run.mean().value == pytest.approx(solve_network(network).chain().response_s, rel=0.01)
    assert run.throughput_per_s == pytest.approx(solve_network(network).chain().throughput_per_s,
                                                 rel=0.02)


def test_constant_service_locks_a_closed_network() -> None:
    """Two customers in step always meet: 2 in 3 s, where exact mean values say 0.8/s."""
    stations = (QueueingStation("queue", scv=0), QueueingStation("pause", "delay"))
    classes = (CustomerClass("all", (Visit("queue", 1.0), Visit("pause", 1.0))),)
    network = QueueingNetwork(stations, (Chain("only", classes, population=2),))
    run = simulate_network(network, np.random.default_rng(0), completions=500).chain()
    assert solve_network(network).chain().throughput_per_s == pytest.approx(0.8)
    assert run.throughput_per_s == pytest.approx(2 / 3, rel=0.01)


def test_intervals_by_hand() -> None:
    """Two batches of two: means 1 and 3, so 2 +- 12.7 / sqrt(2) sqrt(2); and what is refused."""
    values = np.array([0.0, 2.0, 2.0, 4.0])
    interval = mean_interval(values, batches=2)
    assert interval.value == 2
    assert interval.high - interval.value == pytest.approx(12.7062, rel=1e-4)
    with pytest.raises(QueueingError, match="too few"):
        mean_interval(values)
    with pytest.raises(QueueingError, match="outside 0 to 100"):
        percentile_interval(values, 100)


@pytest.mark.parametrize(("network", "arrivals", "words"), [
    (single(QueueingStation("q"), rate_per_s=1.5), None, "lower rate_per_s"),
    (single(QueueingStation("q"), population=0), None, "nobody is in it"),
    (single(QueueingStation("q"), population=1), {"only": np.array([1.0])}, "the chain is closed"),
    (single(QueueingStation("q"), rate_per_s=1), {"only": np.array([2.0, 1.0])},
     "no ascending instants"),
    (single(QueueingStation("q"), rate_per_s=1), {"other": np.array([1.0])},
     "is not in this network"),
])
def test_what_cannot_be_simulated_says_why(network: QueueingNetwork, words: str,
                                           arrivals: dict[str, np.ndarray] | None) -> None:
    """Overload, an empty network, arrivals that fit no chain: one line each."""
    with pytest.raises(QueueingError, match=words) as refusal:
        simulate_network(network, np.random.default_rng(0), arrivals_s=arrivals)
    assert "\n" not in str(refusal.value)
