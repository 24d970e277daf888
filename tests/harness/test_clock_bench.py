"""The bench of the processor clock and the yardsticks: what they say of what was measured."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from bench import clock, machine_speed, machine_speed_program
from bench.clock import AIR, ALONE, GUESTS, HOST_LOAD, REAL
from bench.harness import BenchLine
from bench.machine_speed import REFERENCE_SYSTEM_CALL_US, MachineSpeeds
from bench.quick import QuickRun
from harness.commands import bench

if TYPE_CHECKING:
    from measure.records.record import Record

CELL = "P8-N2"


def conditions(real: float = 0.1, guests: float = 0.1, hogs: float = 0.1, spread: float = 0.0,
               goodput: float = 5e6, air: float = 0.0) -> dict[str, clock.Values]:
    """One cell whose authentication takes a tenth of a second by the clock alone."""
    def cell(time: float, rate: float = 5e6) -> clock.Values:
        return {CELL: {"authentication_time_s": [time * (1 - spread), time * (1 + spread)],
                       "tcp_goodput_bps": [rate]}}

    by_luck = {CELL: {"authentication_time_s": [0.02 - 0.1 * air, 0.02 + 0.1 * air]}}
    return {REAL: cell(real, goodput), ALONE: cell(0.1), GUESTS: cell(guests),
            HOST_LOAD: cell(hogs),
            AIR: by_luck}


def verdicts(measured: dict[str, clock.Values]) -> list[bool]:
    """Whether each bound is kept."""
    return [holds for _, holds
            in clock.judge_bounds(clock.compare_cells(measured))]


def test_equal_runs_keep_all_bounds() -> None:
    """Nothing differs: everything holds, and the table has the cell."""
    assert all(verdicts(conditions()))
    line = clock.format_table(clock.compare_cells(conditions()))[-1]
    assert line.startswith(f"| {CELL} | 100.0 ms | 100.0 ms | +0.0 % |  |  | +0.0 % |")


@pytest.mark.parametrize(("measured", "own"), [
    (conditions(spread=0.05), 0.05 * 2 ** 0.5),
    (conditions(spread=0.05, air=0.03), 0.04 * 2 ** 0.5),
    (conditions(spread=0.05, air=0.2), 0.0), ({**conditions(spread=0.05), AIR: {}}, None)])
def test_variation_is_told_without_the_airs_luck(measured: dict[str, clock.Values],
                                                 own: float | None) -> None:
    """Variances add up; where luck alone varies by more, nothing is left, and the bound stays."""
    [cell] = clock.compare_cells(measured)
    assert cell.own_variation == (own if own is None else pytest.approx(own))
    assert cell.variation == pytest.approx(0.05 * 2 ** 0.5)


@dataclass
class Counted:
    """As much of a record as tells what the harness did."""

    raw: dict[str, Any]
    environment: dict[str, Any]


def test_what_the_harness_did_is_told_as_a_nodes_work() -> None:
    """Work, and this machine's constants for calls and faults, of all that is on the way."""
    device = "today: other x1, beside its work a system call 8000 ns, a page fault 14000 ns"
    harness = "of the harness: authentication_time_s"
    record = Counted({"harness_work": {
        "start": {"work_ns": 1_000_000, "entries": 100, "faults": 10},
        "link": {"work_ns": 2_000_000, "entries": 250, "faults": 11},
        "first_packet": {"work_ns": 4_000_000, "entries": 400, "faults": 20}}},
        {"processor_clock": {"counter": "processor-time", "device_a2": device}})
    told = clock.collect_explanatory_values(cast("Record", record))
    assert told == {harness: pytest.approx(3e-3 + 300 * 8e-6 + 10 * 14e-6)}
    record.environment["processor_clock"] = {"company": "1.250"}
    told = clock.collect_explanatory_values(cast("Record", record))
    assert told == {clock.LOAD_COMPENSATION: 1.25}
    assert clock.collect_explanatory_values(cast("Record", Counted({}, {}))) == {}


@pytest.mark.parametrize(("real", "beyond"), [
    (0.09, -0.1), (0.1, 0.0), (0.13, 0.0), (0.154, 0.1)])
def test_what_caches_and_the_harness_explain_is_told_from_the_rest(real: float,
                                                                   beyond: float) -> None:
    """A tenth of a second, in usual company 0.12, and 20 ms of the harness': up to 0.14."""
    alone = {"authentication_time_s": 0.1, clock.LOAD_COMPENSATION: 1.2,
             "of the harness: authentication_time_s": 0.02}
    cell = clock.ClockCell(CELL, {ALONE: alone, REAL: {"authentication_time_s": real}})
    assert cell.unexplained_share("authentication_time_s") == pytest.approx(beyond)
    assert clock.ClockCell(CELL, {ALONE: alone}).unexplained_share(
        "authentication_time_s") is None


@pytest.mark.parametrize(("measured", "broken"), [
    (conditions(real=0.106), [0]),
    (conditions(real=0.094), [0]),
    (conditions(goodput=5.03e6), [1]),
    (conditions(spread=0.05), [2]),
    (conditions(spread=0.05, air=0.2), [2]),
    (conditions(guests=0.104), [3]),
    (conditions(guests=0.108), [3, 4]),
    (conditions(hogs=0.104), [5]),
    (conditions(hogs=0.108), [5, 6])])
def test_each_bound_is_seen_to_break(measured: dict[str, clock.Values],
                                     broken: list[int]) -> None:
    """What is beyond a bound breaks that, and no other."""
    assert [number for number, holds in enumerate(verdicts(measured)) if not holds] == broken


@pytest.mark.parametrize(("guests", "spread", "named"), [
    (0.12, 0.001, CELL), (0.12, 0.1, "no cell"), (0.105, 0.001, "no cell")])
def test_cells_beyond_the_bound_for_sure_are_named(guests: float, spread: float,
                                                   named: str) -> None:
    """Where the interval of the difference is all beyond; not where luck may be all of it."""
    cells = clock.compare_cells(conditions(guests=guests, spread=spread))
    lines = [line for line, _ in clock.judge_bounds(cells)]
    assert lines[4].endswith(f"more than 7.0% for sure: {named}")


@pytest.mark.parametrize(("rates", "named"), [
    ((5.1e6, 5.11e6), f"{CELL} tcp_goodput_bps"), ((5.1e6, 4.9e6), "no cell"),
    ((5.1e6,), "no cell")])
def test_streams_whose_luck_alone_differs_are_told_from_others(rates: tuple[float, ...],
                                                               named: str) -> None:
    """Two streams are never as long; whether the clock is off is what their interval says."""
    measured = conditions()
    for condition, there in ((ALONE, [5e6, 5.01e6]), (REAL, list(rates))):
        measured[condition] = {CELL: {**measured[condition][CELL], "tcp_goodput_bps": there}}
    lines = [line for line, _
             in clock.judge_bounds(clock.compare_cells(measured))]
    assert lines[1].endswith(f"more than 0.5% for sure: {named}")


def test_cells_that_vary_are_measured_more_often() -> None:
    """Until their mean of the time that is judged is as sure as a cell may vary."""
    assert clock._request_repetitions(3) == [
        "--until-ci", "auth:5%", "--max-repetitions", "9"]


def test_what_is_not_measured_does_not_hold() -> None:
    """A run that has no proven repetition decides nothing."""
    assert verdicts({**conditions(), HOST_LOAD: {}})[5:] == [False, False]


def test_eight_guests_share_the_cells() -> None:
    """Four runs have every level once among them, and few levels make no run without any."""
    levels = [f"P{number}" for number in range(1, 13)]
    dealt = clock.split_runs(Path("out"), levels)
    assert [run.folder for run in dealt] == [Path("out", str(number)) for number in range(4)]
    assert sorted(level for run in dealt for level in run.levels) == sorted(levels)
    assert max(len(run.levels) for run in dealt) == 3
    assert [run.levels for run in clock.split_runs(Path("out"), ["P1"])] == [("P1",)]


def test_the_programs_disturb_the_slowest_policy_and_some_others() -> None:
    """One level in four, in their order; the last is always among them."""
    assert clock.select_loaded_levels([f"P{number}" for number in range(1, 13)]) == [
        "P4", "P8", "P12"]
    assert clock.select_loaded_levels(["P1", "P2"]) == ["P2"]


def test_the_profile_names_the_levels_that_are_shared() -> None:
    """All of the paper's policies are compared."""
    assert clock._profile_levels() == [f"P{number}" for number in range(1, 13)]


def test_yardsticks_scale_bounds_in_seconds_only() -> None:
    """Where a system call is twice as dear, times may be twice as long, and memory not larger."""
    scale = MachineSpeeds(2 * REFERENCE_SYSTEM_CALL_US, 3.6, 5, 20, 3000).scale
    assert "<= 4.0 s" in BenchLine("start", [1.0], "s", 2.0).format_line(scale)
    assert "<= 200.0 MB" in BenchLine("memory", [1.0], "MB", 200.0).format_line(scale)


def test_every_figure_of_time_has_yardsticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any bench whose figures are times or speeds the machine is said; counts need none."""
    said: list[str] = []
    scales = MachineSpeeds(2 * REFERENCE_SYSTEM_CALL_US, 3.6, 5, 20, 3000)
    monkeypatch.setattr(machine_speed, "measure_machine_speeds", lambda: scales)
    monkeypatch.setattr(machine_speed, "format_core_speed", lambda: "this machine: a core")
    monkeypatch.setattr(bench.click, "echo", said.append)
    for name, each in bench._BENCHES.items():
        said.clear()
        module = importlib.import_module(each.module)
        monkeypatch.setattr(module, "run_bench", lambda **given: given.get("scales") is scales)
        takes_scales = bench.command.callback(  # type: ignore[misc]
            what=name, **dict.fromkeys({option for other in bench._BENCHES.values()
                                        for option in other.takes} - {"scales"}))
        assert takes_scales == ("scales" in each.takes)
        assert (said or [""])[0].startswith("this machine: ") == (
            name not in ("faults", "explain", "mutations", "proof", "cards"))


def test_quick_run_is_held_to_its_bound_for_this_machine() -> None:
    """What a run came to by status, and the bound scaled by what a system call takes here."""
    lines = QuickRun(Counter(ok=179, failed=1), 100).format_lines(2.0)
    assert lines == ["1 failed, 179 ok", "quick profile: 100 s  <= 420 s"]


def test_program_prints_what_the_harness_reads(capsys: pytest.CaptureFixture[str],
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Every yardstick, above zero; here it runs outside of a guest, once."""
    monkeypatch.setattr(machine_speed_program, "ROUNDS", 1)
    machine_speed_program.main()
    printed = MachineSpeeds(**json.loads(capsys.readouterr().out))
    assert min(vars(printed).values()) > 0
