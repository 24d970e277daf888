"""The recorded networks of tests/recorded/queueing/line.json, as networks of analysis.queueing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from analysis.queueing.network import Chain, CustomerClass, QueueingNetwork, QueueingStation, Visit
from analysis.queueing.routing import visit_ratios

FILE = Path(__file__).parent / "recorded" / "queueing" / "line.json"
RECORDED: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))


def ratios_of(chain: dict[str, Any], stations: int) -> np.ndarray:
    """A chain's visit ratios (M, R), solved from its routes; outside is one more station."""
    where = [(i, r) for i, r, _ in chain["states"]]
    classes = max(r for _, r in where) + 1
    routing = np.zeros((stations + 1, classes, stations + 1, classes))
    outside = (stations, 0)
    for start, end, share in chain["routes"]:
        target = outside if end < 0 else where[end]
        routing[(*where[start], *target)] += share
    if "rate" in chain:
        routing[(*outside, *where[0])] = 1
        return visit_ratios(routing, outside)[:stations]
    return visit_ratios(routing, where[0])[:stations]


def network_of(recorded: dict[str, Any]) -> QueueingNetwork:
    """The network, each chain's classes named r0, r1, ... and visiting stations s0, s1, ..."""
    stations = tuple(QueueingStation(f"s{i}", station["discipline"], station["servers"])
                     for i, station in enumerate(recorded["stations"]))
    chains = []
    for q, chain in enumerate(recorded["chains"]):
        ratios = ratios_of(chain, len(stations))
        classes = tuple(
            CustomerClass(f"r{r}", tuple(Visit(f"s{i}", service, float(ratios[i, r]))
                                         for i, of_class, service in chain["states"]
                                         if of_class == r))
            for r in sorted({r for _, r, _ in chain["states"]}))
        chains.append(Chain(f"q{q}", classes, population=chain.get("population"),
                            rate_per_s=chain.get("rate")))
    return QueueingNetwork(stations, tuple(chains))
