"""Makes line.json: 200 random networks, and what LINE answers; README.md says how to run it."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import line_solver as line
import numpy as np

SEED = 2002
#: How many networks of each kind: closed with one chain, with several, mixed, open.
KINDS = {"single": 70, "several": 60, "mixed": 50, "open": 20}
OUTSIDE = -1  # in routes: where open customers come from and go to


def draw(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    """One random network: stations, and chains whose classes switch along random routes."""
    count = int(rng.integers(2, 6))
    stations = [{"discipline": "delay", "servers": 1}]
    for _ in range(count - 1):
        discipline = "fcfs" if rng.random() < 0.2 else "ps"
        stations.append({"discipline": discipline,
                         "servers": int(rng.integers(2, 5)) if rng.random() < 0.25 else 1})
    # First come first served has a product form with one service time for everybody.
    common = [round(float(rng.uniform(0.05, 1.0)), 3) for _ in stations]
    closed = {"single": 1, "several": int(rng.integers(2, 4)), "open": 0,
              "mixed": int(rng.integers(1, 3))}[kind]
    is_open = [False] * closed + [True] * (int(rng.integers(1, 3)) if kind in ("mixed", "open")
                                           else 0)
    chains = [draw_chain(rng, stations, common, is_open=entry) for entry in is_open]
    for chain in chains:
        if "population" in chain:
            chain["population"] = int(rng.integers(1, 21 if kind == "single" else 6))
    limit_rates(rng, stations, chains)
    return {"kind": kind, "stations": stations, "chains": chains}


def draw_chain(rng: np.random.Generator, stations: list[dict[str, Any]], common: list[float], *,
               is_open: bool) -> dict[str, Any]:
    """A chain: states (station, class, service), and routes [from, to, probability] among them.

    State 0 is the reference; every state leads on to the next with some probability, so that all
    are passed and customers come back.
    """
    pairs = [(i, r) for i in range(len(stations)) for r in range(int(rng.integers(1, 4)))
             if (i, r) != (0, 0)]
    chosen = [pairs[k] for k in rng.permutation(len(pairs))[:int(rng.integers(1, 6))]]
    # Numbered without a gap, for LINE wants each class to be served somewhere.
    numbers = {r: n for n, r in enumerate(sorted({0, *(r for _, r in chosen)}))}
    states = [(0, 0), *((i, numbers[r]) for i, r in chosen)]
    services = [common[i] if stations[i]["discipline"] == "fcfs"
                else round(float(rng.uniform(0.02, 1.5)), 3) for i, _ in states]
    routes: list[list[Any]] = []
    for k in range(len(states)):
        following = k + 1 if k + 1 < len(states) else (OUTSIDE if is_open else 0)
        other = int(rng.integers(0, len(states)))
        share = round(float(rng.uniform(0.1, 0.5)), 2)
        if other in (following, k):
            routes.append([k, following, 1])
        else:
            routes += [[k, other, share], [k, following, round(1 - share, 2)]]
    chain: dict[str, Any] = {"states": [[i, r, s] for (i, r), s in zip(states, services,
                                                                       strict=True)],
                             "routes": routes}
    chain["rate" if is_open else "population"] = 0
    return chain


def limit_rates(rng: np.random.Generator, stations: list[dict[str, Any]],
                chains: list[dict[str, Any]]) -> None:
    """Gives open chains rates that keep the busiest station 20 to 80 % busy."""
    opened = [chain for chain in chains if "rate" in chain]
    if not opened:
        return
    busy = np.zeros(len(stations))
    for chain in opened:
        size = len(chain["states"])
        flat = np.zeros((size, size))
        for start, end, share in chain["routes"]:
            if end != OUTSIDE:
                flat[start, end] += share
        visits = np.linalg.solve(np.eye(size) - flat.T, np.eye(size)[0])
        for (i, _, service), v in zip(chain["states"], visits, strict=True):
            if stations[i]["discipline"] != "delay":
                busy[i] += v * service / stations[i]["servers"]
    rate = round(float(rng.uniform(0.2, 0.8) / max(busy.max(), 0.1)), 4)
    for chain in opened:
        chain["rate"] = rate


def build(network: dict[str, Any]) -> tuple[Any, list[list[Any]]]:
    """The network as LINE's; its classes by chain."""
    model = line.Network("random")
    nodes = []
    for i, station in enumerate(network["stations"]):
        if station["discipline"] == "delay":
            nodes.append(line.Delay(model, f"s{i}"))
            continue
        nodes.append(line.Queue(model, f"s{i}", getattr(line.SchedStrategy,
                                                        station["discipline"].upper())))
        nodes[-1].setNumberOfServers(station["servers"])
    opened = any("rate" in chain for chain in network["chains"])
    source = line.Source(model, "source") if opened else None
    sink = line.Sink(model, "sink") if opened else None
    classes = [_classes(model, q, chain, nodes[0], source)
               for q, chain in enumerate(network["chains"])]
    for chain, members in zip(network["chains"], classes, strict=True):
        for i, r, service in chain["states"]:
            nodes[i].setService(members[r], line.Exp(1 / service))
    visited = {i for chain in network["chains"] for i, _, _ in chain["states"]}
    for i in set(range(len(nodes))) - visited:
        nodes[i].setService(classes[0][0], line.Exp(1))  # LINE wants one, though nobody comes
    routing = model.initRoutingMatrix()
    for chain, members in zip(network["chains"], classes, strict=True):
        where = [(members[r], nodes[i]) for i, r, _ in chain["states"]]
        if "rate" in chain:
            routing.set(members[0], members[0], source, nodes[0], 1.0)
        for start, end, share in chain["routes"]:
            from_class, node = where[start]
            to_class, target = (from_class, sink) if end == OUTSIDE else where[end]
            routing.set(from_class, to_class, node, target, float(share))
    model.link(routing)
    return model, classes


def _classes(model: Any, q: int, chain: dict[str, Any], home: Any, source: Any) -> list[Any]:
    count = max(r for _, r, _ in chain["states"]) + 1
    if "rate" in chain:
        members = [line.OpenClass(model, f"q{q}r{r}") for r in range(count)]
        for r, member in enumerate(members):
            source.setArrival(member, line.Exp(chain["rate"]) if r == 0 else line.Disabled())
        return members
    return [line.ClosedClass(model, f"q{q}r{r}", chain["population"] if r == 0 else 0, home, 0)
            for r in range(count)]


def answer(network: dict[str, Any], method: str) -> list[Any]:
    """By chain: throughput of the reference state, then the queue length of each state."""
    model, _ = build(network)
    table = line.MVA(model, method=method, verbose=False, tol=1e-12,
                     iter_max=100_000).getAvgTable()
    rows = {(row["Station"], row["JobClass"]): row for _, row in table.iterrows()}
    answers = []
    for q, chain in enumerate(network["chains"]):
        named = [rows[f"s{i}", f"q{q}r{r}"] for i, r, _ in chain["states"]]
        answers.append([float(f"{named[0]['Tput']:.10g}"),
                        *(float(f"{row['QLen']:.10g}") for row in named)])
    return answers


def main() -> None:
    """Draw, solve and write."""
    warnings.filterwarnings("ignore")
    rng = np.random.default_rng(SEED)
    networks = []
    for kind, count in KINDS.items():
        for _ in range(count):
            network = draw(rng, kind)
            network["exact"] = answer(network, "exact")
            # LINE's `bs` weighs first come first served chain by chain, which the paper does not.
            served = {station["discipline"] for station in network["stations"]}
            if kind == "single" or (kind == "several" and "fcfs" not in served):
                network["bs"] = answer(network, "bs")
            networks.append(network)
            sys.stderr.write(f"{len(networks)} {kind}\n")
    text = ",\n".join(json.dumps(network, separators=(",", ":")) for network in networks)
    Path(__file__).with_name("line.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
