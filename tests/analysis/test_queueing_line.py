"""Tests of analysis.queueing's solvers against LINE's answers on 200 random networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analysis.queueing import solve_network
from analysis.queueing.solution import Method
from queueing_line import RECORDED, network_of

CLOSED = [number for number, recorded in enumerate(RECORDED) if "bs" in recorded]


def ours(recorded: dict[str, Any], method: Method) -> list[list[float]]:
    """By chain: throughput of the reference state, then the queue length of each state."""
    means = {(c.chain, c.name, c.station): c
             for c in solve_network(network_of(recorded), method).classes}
    answers = []
    for q, chain in enumerate(recorded["chains"]):
        states = [means[f"q{q}", f"r{r}", f"s{i}"] for i, r, _ in chain["states"]]
        answers.append([states[0].throughput_per_s, *(state.queue for state in states)])
    return answers


def test_there_are_200_networks_of_every_kind() -> None:
    """Closed with one and several chains, mixed, open; several servers, first come first served."""
    kinds = [recorded["kind"] for recorded in RECORDED]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "single": 70, "several": 60, "mixed": 50, "open": 20}
    stations = [recorded["stations"] for recorded in RECORDED]
    assert sum(any(s["servers"] > 1 for s in entry) for entry in stations) > 80
    assert sum(any(s["discipline"] == "fcfs" for s in entry) for entry in stations) > 60
    switching = [max(r for _, r, _ in chain["states"]) > 0
                 for recorded in RECORDED for chain in recorded["chains"]]
    assert sum(switching) > 200
    assert len(CLOSED) > 100


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_exact_is_what_line_says(first: int) -> None:
    """Throughput and every class's queue length at every station, to 1e-6."""
    for number in range(first, first + 20):
        for mine, theirs in zip(ours(RECORDED[number], "exact"), RECORDED[number]["exact"],
                                strict=True):
            assert mine == pytest.approx(theirs, rel=1e-6), number


def test_schweitzer_is_what_line_says() -> None:
    """Bard and Schweitzer's fixed point on the closed networks, to 1e-4."""
    for number in CLOSED:
        for mine, theirs in zip(ours(RECORDED[number], "schweitzer"), RECORDED[number]["bs"],
                                strict=True):
            assert mine == pytest.approx(theirs, rel=1e-4), number


def test_linearizer_is_nearer_than_schweitzer() -> None:
    """On single servers it errs by under 2 % in throughput, a tenth of the fixed point's error."""
    errors: dict[Method, list[float]] = {"linearizer": [], "schweitzer": []}
    for number in CLOSED:
        recorded = RECORDED[number]
        if all(station["servers"] == 1 for station in recorded["stations"]):
            for method, seen in errors.items():
                seen += [abs(mine[0] / theirs[0] - 1) for mine, theirs in
                         zip(ours(recorded, method), recorded["exact"], strict=True)]
    assert max(errors["linearizer"]) < 0.02
    assert max(errors["schweitzer"]) > 0.05
    assert np.mean(errors["linearizer"]) < 0.1 * np.mean(errors["schweitzer"])


def test_a_wrong_answer_is_seen() -> None:
    """The comparison itself: a thousandth more demand makes it fail."""
    recorded = RECORDED[CLOSED[0]]
    chain = recorded["chains"][0]
    spoilt = {**recorded, "chains": [
        {**chain, "states": [[i, r, service * 1.001] for i, r, service in chain["states"]]}]}
    assert ours(spoilt, "exact")[0] != pytest.approx(recorded["exact"][0], rel=1e-6)
    assert ours(spoilt, "schweitzer")[0] != pytest.approx(recorded["bs"][0], rel=1e-4)
