"""`qop bench model`: time how long questions to a queueing model take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import click
import numpy as np

from analysis.queueing import (
    Chain,
    CustomerClass,
    QueueingNetwork,
    QueueingStation,
    Visit,
    apply_settings,
    find_capacity,
    parse_bound,
    solve_network,
)

#: Seconds of LINE 3.0.8 for the same kind of model, including its construction (docs/queueing.md).
_LINE_S = 0.34
_CUSTOMERS = (2, 5, 10, 50)
_WHAT_IFS = 1000


def run_bench() -> int:
    """Time a solution, a thousand what-if changes and a capacity, all in this process."""
    for count in _CUSTOMERS:
        network = _make_protocol(population=count)
        took_s = _each_s(partial(solve_network, network), 50)
        click.echo(f"a solution, 5 stations, 20 classes, {count} customers: {took_s * 1e3:.2f} ms, "
                   f"{_LINE_S / took_s:.0f} times as fast as LINE's {_LINE_S:g} s")
    network = _make_protocol(population=10)
    speeds = [1 + number / 100 for number in range(_WHAT_IFS)]
    took_s = _each_s(lambda: [solve_network(apply_settings(network, {"kdc.speed": speed})) for speed
                              in speeds], 3)
    click.echo(f"{_WHAT_IFS} what-ifs: {took_s:.2f} s")
    open_network, bound = _make_protocol(steps=6, rate_per_s=20), parse_bound("p95 < 270 ms")
    took_s = _each_s(lambda: find_capacity(
        open_network, bound, rng=np.random.default_rng(1)), 3)
    click.echo(f"a capacity by a 95th percentile, 18 visits a customer: {took_s:.2f} s")
    return 0


def _each_s(answer: Callable[[], object], times: int) -> float:
    """Return the median CPU seconds of one call, which other load does not change."""
    took = []
    for _ in range(times):
        began_s = time.process_time()
        answer()
        took.append(time.process_time() - began_s)
    return statistics.median(took)


def _make_protocol(steps: int = 20, population: int = 0,
                   rate_per_s: float = 0.0) -> QueueingNetwork:
    """Build a queueing model of a protocol with `steps` steps between client and servers."""
    stations = (QueueingStation("client", "delay"), QueueingStation("wan", "delay"),
                QueueingStation("proxy"), QueueingStation("kdc"), QueueingStation("application"))
    servers = ("proxy", "kdc", "application")
    classes = tuple(CustomerClass(f"step-{number}", (
        Visit("client", 0.001), Visit("wan", 0.04), Visit(servers[number % 3], 0.0005 * (
            1 + number % 4)))) for number in range(steps))
    chain = Chain("transaction", classes, population=population) if population else Chain(
        "transaction", classes, rate_per_s=rate_per_s)
    return QueueingNetwork(stations, (chain,))
