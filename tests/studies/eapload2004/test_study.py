"""The study's design, its policies, what it refuses, and its model against closed forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import studies
from analysis.queueing import QueueingError, apply_settings, simulate_network, solve_network
from conftest import Qop
from harness.engine.request import RunRequest, build_plan
from policies import load_all
from studies.eapload2004 import cells as eapload2004_cells
from studies.eapload2004 import model, published
from studies.eapload2004.cells import ALONE, LOADS, NAMES, PLACES, TABLE_1, cell_ids
from studies.eapload2004.model import UnloadedCell
from studies.eapload2004.study import build_policy
from studies.study import StudyError

STUDY = studies.load_study("eapload2004")
UNLOADED = UnloadedCell(alone_s=0.0117, capacity_per_s=89.0, service_s=0.634, cycle_s=1.1,
                        round_trips=5)
DEMAND_S = 1 / UNLOADED.capacity_per_s


def levels() -> dict[str, list[studies.study.Level]]:
    """All levels of every factor."""
    return {factor.name: list(factor.read((), ())) for factor in STUDY.factors}


def test_every_printed_value_has_its_cell() -> None:
    """Table 1's sixteen are measured, and a cell without load by which the model is calibrated."""
    cells = {tuple(cell.ids.values()) for cell in STUDY.cells(levels())}
    assert set(published.load_values().service_time_s) <= cells
    assert len(published.load_values().service_time_s) == len(TABLE_1) * len(PLACES)
    assert ALONE in cells
    assert {row[0] for row in cells} == {str(load) for load in LOADS}


@pytest.mark.parametrize(("profile", "devices"), [
    ("real", ("r4400-200", "pentium2-400")), ("real-machine", ("today", "today"))])
def test_real_time_has_devices_or_the_machine_itself(profile: str,
                                                     devices: tuple[str, str]) -> None:
    """At the shares of the capacity at which the model is to hold, and without load."""
    made = build_plan(RunRequest(STUDY, profile=profile), {})
    assert [cell.ids["share"] for cell in made.cells] == ["0", "25", "50", "80"]
    assert made.settings.clock == "real"
    assert (made.asked.server_device, made.asked.client_device) == devices


@pytest.mark.parametrize(("profile", "clock", "cells"), [
    ("reference", "processor", {("full", "eapol_test")}),
    ("generator", "real", {("full", "generator"), ("resumed", "generator")})])
def test_the_generator_has_profiles_of_its_own(profile: str, clock: str,
                                               cells: set[tuple[str, str]]) -> None:
    """Beside its reference, and what it costs: by clocks in which computing takes time."""
    made = build_plan(RunRequest(STUDY, profile=profile), {})
    assert {(cell.ids["sessions"], cell.ids["driver"]) for cell in made.cells} == cells
    assert len(made.cells) == len(cells) and made.settings.clock == clock
    assert {made.asked.server_device, made.asked.client_device} == {"today"}


def test_a_cell_is_a_policy() -> None:
    """Certificates and sessions are the policy's; policies without them say nothing of them."""
    tls = build_policy(dict(zip(NAMES, cell_ids(key="rsa-2048", chain="3", path="proxied"),
                                strict=True))).layers.dot1x
    assert tls is not None and tls.tls is not None
    assert (tls.tls.key, tls.tls.chain, tls.tls.version) == ("rsa-2048", 3, "1.2")
    assert tls.tls.realm == "home.example"
    for other in load_all():
        if other.layers.dot1x:
            assert "tls" not in other.layers.dot1x.model_dump()


def test_a_device_without_the_keys_is_refused(tmp_path: Path) -> None:
    """Before anything is measured, in one line."""
    device = tmp_path / "hasher.yml"
    device.write_text("name: hasher\ntitle: hashes only\nwork:\n  sha1: {bytes_per_s: 1000, "
                      "source: made up}\n")
    cell = next(iter(STUDY.cells(levels())))
    for name, said in ((str(device), "does not say what rsa-1024-private takes"),
                       ("nonesuch", "nonesuch")):
        with pytest.raises(StudyError, match=said):
            STUDY.testbed(cell, STUDY.settings_type(server_device=name))


def test_more_than_the_server_takes_is_a_result_up_to_what_can_be_offered() -> None:
    """A slower device is overloaded by loads of Table 1; a queue without end is refused."""
    cells = {cell.ids["load"]: cell for cell in STUDY.cells(levels())
             if tuple(cell.ids.values()) == cell_ids(load=cell.ids["load"])}
    usual = STUDY.settings_type()
    assert not STUDY.task(cells["75"], usual)["overloads"]
    slow = STUDY.settings_type(server_device="testbed-pc-2002")
    capacity = eapload2004_cells.capacity_per_s(cells["75"].ids, slow)
    assert capacity is not None
    assert [load for load in cells if STUDY.task(cells[load], slow)["overloads"]] == [
        load for load in cells if float(load) >= capacity]
    STUDY.testbed(cells["75"], slow)
    with pytest.raises(StudyError, match=r"cannot be offered: .* has room for 2048"):
        STUDY.testbed(cells["75"],
                      STUDY.settings_type(server_device="testbed-pc-2002", overload_s=300))


@pytest.mark.parametrize(("words", "said"), [
    (["--only", "load=500"], "load: 500: no such level; choose from 0, 1"),
    (["--only", "chain=9"], "chain: 9: no such level"),
    (["--resumed-share", "1.5"], "--resumed-share"),
    (["--server-device", "today"], "computing is free in virtual time"),
    (["--clock", "real", "--server-device", "today"],
     "client: device pentium2-400: in real time the supplicant has a device only beside"),
    (["--fault", "nonesuch"], "is not one of 'no-cache'")])
def test_bad_input_gets_one_line(qop_here: Qop, words: list[str], said: str) -> None:
    """What, where and what to do."""
    done = qop_here("run", "eapload2004", "--dry-run", *words)
    assert done.returncode != 0
    assert said in done.stderr.splitlines()[-1]


def test_the_model_is_what_queueing_theory_says() -> None:
    """One supplicant beside Poisson arrivals: each finds the queue 1 / (1 - utilization)."""
    for rate in (10.0, 50.0, 75.0):
        solution = solve_network(model.build_network(UNLOADED, rate))
        alone_s = UNLOADED.service_s - DEMAND_S
        front = solution.chain("front")
        assert front.response_s == pytest.approx(
            alone_s + DEMAND_S / (1 - rate * DEMAND_S), rel=1e-9)
        busy = rate * DEMAND_S + DEMAND_S * front.throughput_per_s
        assert solution.station("server").utilization == pytest.approx(busy, rel=1e-6)


def test_the_model_is_calibrated_by_what_it_was_given() -> None:
    """Without load, it takes as long as was measured alone; what-ifs change it as they say."""
    network = model.build_network(UNLOADED, 1e-9)
    assert solve_network(network).chain("front").response_s == pytest.approx(UNLOADED.service_s)
    # The supplicant keeps the server 1 % busy.
    behind_s = solve_network(network).chain("background").response_s
    assert behind_s == pytest.approx(UNLOADED.alone_s, rel=0.02)
    near = solve_network(apply_settings(network, {"wan.rtt_ms": 40})).chain("front").response_s
    assert near == pytest.approx(UNLOADED.service_s - 5 * 0.08)


def test_resumed_sessions_are_a_what_if() -> None:
    """Nobody resumes until it is asked; a share that does leaves the server that much freer."""
    full = model.build_network(UNLOADED, 50.0)
    both = model.with_resumed(full, model.ResumptionTimes(0.361, 3, 0.001), UNLOADED.rtt_s)
    assert solve_network(both).chain("front").response_s == pytest.approx(
        solve_network(full).chain("front").response_s)
    changed = solve_network(apply_settings(both, {"resumed": 0.9}))
    assert changed.station("server").utilization == pytest.approx(
        0.1 * solve_network(full).station("server").utilization, rel=0.05)
    assert changed.chain("front").response_s == pytest.approx(0.9 * 0.361 + 0.1 * 0.634, rel=0.01)
    assert solve_network(apply_settings(both, {"resumed": 1})).chain(
        "background").response_s == pytest.approx(0.001)


def test_the_model_follows_arrivals() -> None:
    """Two at once share the server: each takes twice its demand and the rest."""
    made = simulate_network(model.build_network(UNLOADED, 1.0), np.random.default_rng(1),
                            arrivals_s={"background": np.array([100.0, 100.0])}).chain("background")
    rest_s = UNLOADED.alone_s - DEMAND_S
    assert min(made.responses_s) >= 2 * DEMAND_S + rest_s - 1e-9


def test_a_calibration_that_contradicts_itself_is_refused() -> None:
    """One alone cannot be quicker than its demand."""
    with pytest.raises(QueueingError, match="one customer takes"):
        model.build_network(UnloadedCell(0.005, 89.0, 0.634, 1.1, 5), 1.0)
    with pytest.raises(QueueingError, match="less than its round trips"):
        model.build_network(UnloadedCell(0.0117, 89.0, 0.5, 1.1, 5), 1.0)
