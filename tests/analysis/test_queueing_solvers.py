"""Tests of analysis.queueing's solvers: closed forms, and enumeration of states."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from analysis.queueing import (
    Chain,
    CustomerClass,
    QueueingError,
    QueueingNetwork,
    QueueingStation,
    Visit,
    aggregate_classes,
    solve_network,
    visit_ratios,
)


def chain_of(name: str, demands: dict[str, float], **load: float) -> Chain:
    """A chain of one class that visits each station once."""
    visits = tuple(Visit(station, demand) for station, demand in demands.items())
    return Chain(name, (CustomerClass("all", visits),), **load)


def one_station(servers: int = 1, discipline: str = "ps", **load: float) -> QueueingNetwork:
    """One queue with a mean service time of 1 s."""
    return QueueingNetwork((QueueingStation("queue", discipline, servers),),
                           (chain_of("only", {"queue": 1.0}, **load),))


@pytest.mark.parametrize("discipline", ["ps", "fcfs"])
@pytest.mark.parametrize("rho", [0.01, 0.5, 0.85, 0.999])
def test_m_m_1(rho: float, discipline: str) -> None:
    """R = 1 / (1 - rho), L = rho / (1 - rho)."""
    solution = solve_network(one_station(discipline=discipline, rate_per_s=rho))
    assert solution.chain().response_s == pytest.approx(1 / (1 - rho), rel=1e-12)
    assert solution.station("queue").queue == pytest.approx(rho / (1 - rho), rel=1e-12)
    assert solution.station("queue").utilization == pytest.approx(rho)


@pytest.mark.parametrize("servers", [1, 2, 3, 8, 64, 200])
@pytest.mark.parametrize("rho", [0.05, 0.5, 0.9, 0.99])
def test_m_m_c(servers: int, rho: float) -> None:
    """Erlang's C formula: R = 1 + C / (c - a)."""
    offered = servers * rho
    blocking = 1.0  # Erlang B by its recursion
    for count in range(1, servers + 1):
        blocking = offered * blocking / (count + offered * blocking)
    waiting = blocking / (1 - rho * (1 - blocking))
    response = solve_network(one_station(servers, rate_per_s=offered)).chain().response_s
    assert response == pytest.approx(1 + waiting / (servers - offered), rel=1e-10)


def repairman(machines: int, repairers: int, up_s: float) -> float:
    """Throughput of the machine repairman model (M/M/c//N), repairs of 1 s, by birth and death."""
    log_weight, logs = 0.0, [0.0]
    for down in range(1, machines + 1):
        log_weight += math.log((machines - down + 1) / up_s / min(down, repairers))
        logs.append(log_weight)
    weights = np.exp(np.array(logs) - max(logs))
    busy = np.minimum(np.arange(machines + 1), repairers)
    return float((weights * busy).sum() / weights.sum())


@pytest.mark.parametrize(("machines", "repairers"), [
    (1, 1), (2, 1), (10, 1), (10, 2), (3, 5), (40, 7), (200, 64), (600, 64)])
@pytest.mark.parametrize("up_s", [0.5, 9.0])
def test_machine_repairman(machines: int, repairers: int, up_s: float) -> None:
    """Also far beyond saturation of many servers, where the usual recursion is unstable."""
    network = QueueingNetwork((QueueingStation("repair", servers=repairers),),
                              (chain_of("machines", {"repair": 1.0}, population=machines,
                                        think_s=up_s),))
    throughput = repairman(machines, repairers, up_s)
    means = solve_network(network).chain()
    assert means.throughput_per_s == pytest.approx(throughput, rel=1e-9)
    assert means.response_s == pytest.approx(machines / throughput - up_s, rel=1e-8)


def weight(demands: np.ndarray, servers: int | None, counts: tuple[int, ...]) -> float:
    """The product form's factor of one station (BCMP 1975), `servers` None for delay."""
    total = sum(counts)
    orders = math.factorial(total)
    rates = (math.factorial(total) if servers is None
             else math.prod(min(k, servers) for k in range(1, total + 1)))
    for demand, count in zip(demands, counts, strict=True):
        orders *= demand**count / math.factorial(count)
    return orders / rates


def constant(demands: np.ndarray, servers: list[int | None], population: tuple[int, ...]) -> float:
    """The normalising constant, by enumeration of all states."""
    if len(servers) == 1:
        return weight(demands[0], servers[0], population)
    return sum(weight(demands[0], servers[0], counts)
               * constant(demands[1:], servers[1:],
                          tuple(n - k for n, k in zip(population, counts, strict=True)))
               for counts in itertools.product(*(range(n + 1) for n in population)))


@pytest.mark.parametrize("seed", range(6))
def test_exact_is_the_enumeration_of_states(seed: int) -> None:
    """Two and three chains, one to four servers: X_q = G(N - 1_q) / G(N)."""
    rng = np.random.default_rng(seed)
    population = tuple(int(n) for n in rng.integers(1, 4, size=2 + seed % 2))
    servers: list[int | None] = [None, *(int(c) for c in rng.integers(1, 5, size=3))]
    demands = rng.uniform(0.1, 2.0, size=(4, len(population)))
    stations = tuple(QueueingStation(f"s{i}", "ps" if c else "delay", c or 1)
                     for i, c in enumerate(servers))
    network = QueueingNetwork(stations, tuple(
        chain_of(f"q{q}", {f"s{i}": float(demands[i, q]) for i in range(4)}, population=n)
        for q, n in enumerate(population)))
    whole = constant(demands, servers, population)
    for q, means in enumerate(solve_network(network).chains):
        fewer = tuple(n - (k == q) for k, n in enumerate(population))
        assert means.throughput_per_s == pytest.approx(constant(demands, servers, fewer) / whole)


def test_one_foreground_customer_beside_open_traffic() -> None:
    """R = Z + sum of D / (1 - rho): one customer sees each station slowed down, and no more."""
    stations = (QueueingStation("wan", "delay"), QueueingStation("radius"),
                QueueingStation("database"))
    network = QueueingNetwork(stations, (
        chain_of("foreground", {"wan": 0.84, "radius": 0.0055, "database": 0.002}, population=1,
                 think_s=3.0),
        chain_of("background", {"radius": 0.0079, "database": 0.001}, rate_per_s=50)))
    means = solve_network(network).chain("foreground")
    assert means.response_s == pytest.approx(0.84 + 0.0055 / (1 - 0.395) + 0.002 / (1 - 0.05))
    assert means.throughput_per_s == pytest.approx(1 / (3.0 + means.response_s))


# A client (row 0, delay) logs in as class a (1 s), then as class b (0.5 s); the KDC (row 1) takes
# 0.3 s for a, 0.06 s for b, and sends a quarter of the b back to be tried again.
SWITCHING = np.zeros((2, 2, 2, 2))
SWITCHING[0, 0, 1, 0] = SWITCHING[1, 0, 0, 1] = SWITCHING[0, 1, 1, 1] = 1
SWITCHING[1, 1, 0, 0], SWITCHING[1, 1, 0, 1] = 0.75, 0.25
SERVICE = np.array([[1.0, 0.5], [0.3, 0.06]])


def test_class_switching_by_hand() -> None:
    """v_b = 4/3; Z = 1 + 2/3, D = 0.3 + 0.08 s; X(1) = 150/307, L(1) = 57/307, so X(2) follows."""
    ratios = visit_ratios(SWITCHING, (0, 0))
    assert ratios == pytest.approx(np.array([[1, 4 / 3], [1, 4 / 3]]))
    classes = tuple(CustomerClass(name, (Visit("client", SERVICE[0, r], ratios[0, r]),
                                         Visit("kdc", SERVICE[1, r], ratios[1, r])))
                    for r, name in enumerate("ab"))
    network = QueueingNetwork((QueueingStation("client", "delay"), QueueingStation("kdc")),
                              (Chain("login", classes, population=2),))
    solution = solve_network(network)
    throughput = 2 / (5 / 3 + 0.38 * 364 / 307)
    assert solution.chain().throughput_per_s == pytest.approx(throughput)
    kdc = {means.name: means for means in solution.classes if means.station == "kdc"}
    assert kdc["a"].residence_s == pytest.approx(0.3 * 364 / 307)      # (B.8)
    assert kdc["b"].residence_s == pytest.approx(0.06 * 364 / 307)
    assert kdc["b"].throughput_per_s == pytest.approx(throughput * 4 / 3)   # (B.9)
    assert kdc["b"].queue == pytest.approx(throughput * 4 / 3 * 0.06 * 364 / 307)  # (B.10)


def test_chains_as_printed() -> None:
    """(B.6) and (B.7): throughput counts visits to the client, of which there are 7/3 a cycle."""
    parameters = aggregate_classes(visit_ratios(SWITCHING, (0, 0)), SERVICE, reference=0)
    assert parameters.visits == pytest.approx([1, 1])
    assert parameters.alpha[1] == pytest.approx([3 / 7, 4 / 7])
    assert parameters.service_s == pytest.approx([5 / 3 / (7 / 3), 0.38 / (7 / 3)])
    by_cycle = aggregate_classes(visit_ratios(SWITCHING, (0, 0)), SERVICE)
    assert by_cycle.visits * by_cycle.service_s == pytest.approx([5 / 3, 0.38])


@pytest.mark.parametrize(("spoil", "words"), [
    ((1, 1, 0, 0, 0.5), "a row is not a set of probabilities"),
    ((1, 0, 0, 1, -1.0), "a row is not a set of probabilities"),
])
def test_bad_routing_is_refused(spoil: tuple[int, int, int, int, float], words: str) -> None:
    """Rows that do not add up, and negative ones."""
    *where, value = spoil
    routing = SWITCHING.copy()
    routing[tuple(where)] = value
    with pytest.raises(QueueingError, match=words):
        visit_ratios(routing, (0, 0))


def test_routing_has_to_come_back() -> None:
    """A customer caught in class b never passes the reference again."""
    routing = SWITCHING.copy()
    routing[1, 1, 0, 0], routing[1, 1, 0, 1] = 0.0, 1.0
    with pytest.raises(QueueingError, match="do not return"):
        visit_ratios(routing, (0, 0))
    with pytest.raises(QueueingError, match="shape"):
        visit_ratios(np.eye(4), (0, 0))
    with pytest.raises(QueueingError, match="never visited"):
        aggregate_classes([[0, 0], [1, 1]], SERVICE, reference=0)


def test_schweitzer_solves_the_printed_equations() -> None:
    """(B.11), (B.2) to (B.5), written out for three chains at three stations and a delay."""
    rng = np.random.default_rng(11)
    s, v, n = rng.uniform(0.1, 1, (4, 3)), rng.uniform(0.5, 3, (4, 3)), [2, 5, 9]
    stations = (QueueingStation("s0", "delay"), *(QueueingStation(f"s{i}") for i in (1, 2, 3)))
    network = QueueingNetwork(stations, tuple(
        Chain(f"q{q}", (CustomerClass("all", tuple(
            Visit(f"s{i}", s[i, q], v[i, q]) for i in range(4))),), population=n[q])
        for q in range(3)))
    classes = solve_network(network, "schweitzer").classes
    waits = np.array([means.residence_s for means in classes]).reshape(3, 4).T
    queues = np.array([means.queue for means in classes]).reshape(3, 4).T
    for q in range(3):
        flow = n[q] / sum(v[i, q] * waits[i, q] for i in range(4))                       # (B.2)
        for i in range(4):
            others = sum(queues[i, other] for other in range(3) if other != q)
            seen = 0 if i == 0 else (n[q] - 1) / n[q] * queues[i, q] + others
            assert waits[i, q] == pytest.approx(s[i, q] * (1 + seen), rel=1e-8)         # (B.11)
            assert queues[i, q] == pytest.approx(flow * v[i, q] * waits[i, q], rel=1e-8)  # (B.4)


def test_what_cannot_be_solved_says_why() -> None:
    """One line each: overload, no product form, too many states, unknown method."""
    with pytest.raises(QueueingError, match=r"station 'queue': open chains bring 120.0% of the "
                                            r"work .*; lower rate_per_s of \w+ from 1.2 to less "):
        solve_network(one_station(rate_per_s=1.2))
    unequal = QueueingNetwork((QueueingStation("queue", "fcfs"),), (
        chain_of("a", {"queue": 1.0}, population=2), chain_of("b", {"queue": 2.0}, population=2)))
    with pytest.raises(QueueingError, match="use discipline ps, or simulate it"):
        solve_network(unequal)
    many = QueueingNetwork((QueueingStation("queue"), QueueingStation("pause", "delay")), tuple(
        chain_of(f"q{q}", {"queue": 1.0, "pause": 2.0}, population=200) for q in range(4)))
    with pytest.raises(QueueingError, match="use the method linearizer"):
        solve_network(many, "exact")
    assert solve_network(many).method == "linearizer"
    assert sum(c.throughput_per_s for c in solve_network(many).chains) == pytest.approx(1, rel=1e-3)
    with pytest.raises(QueueingError, match="did you mean exact"):
        solve_network(many, "exat")  # type: ignore[arg-type]
