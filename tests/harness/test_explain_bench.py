"""Tests of bench.explain: trials are drawn by their seed, and verdicts punish a wrong cause."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bench import mutations
from bench.explain import (
    CANNOT_TELL,
    RIGHT,
    WRONG,
    capture_trial,
    draw_trial,
    format_table,
    judge_trial,
    name_causes,
    wilson_interval,
)
from bench.explain_faults import CONTROLS
from bench.explain_keys import make_keys
from bench.explain_network import BSSIDS, STATION, Truth
from conftest import PROJECT
from harness.engine import setup

A, B = BSSIDS["join"], BSSIDS["roam"]


def test_trial_is_determined_by_seed_and_number(tmp_path: Path) -> None:
    for number in range(40):
        drawn = [draw_trial(seed, number, tmp_path) for seed in (1, 1, 2)]
        assert drawn[0].job_digest == drawn[1].job_digest
        assert drawn[0].job == drawn[1].job
        assert drawn[0].job_digest != drawn[2].job_digest


def test_every_control_is_drawn_and_names_causes_of_the_page(tmp_path: Path) -> None:
    page = (PROJECT / "docs/explain-causes.md").read_text()
    drawn = [draw_trial(3, number, tmp_path) for number in range(4 * len(CONTROLS))]
    assert {trial.control for trial in drawn} == set(CONTROLS)
    for trial in drawn:
        for cause in (*trial.truth.causes, *trial.truth.consequences):
            assert f"### `{cause}`" in page, cause


TRUTH = Truth(("late-radius",), ("deauthenticated",), STATION, A)


@pytest.mark.parametrize(("truth", "named", "verdict"), [
    (TRUTH, [("late-radius", STATION, A)], RIGHT),
    (TRUTH, [("late-radius", STATION, A), ("deauthenticated", STATION, A)], RIGHT),
    (TRUTH, [("late-radius", STATION, B)], WRONG),
    (TRUTH, [("late-radius", "02:00:00:00:02:00", A)], WRONG),
    (TRUTH, [("late-radius", STATION, A), ("long-scan", STATION, A)], WRONG),
    (TRUTH, [("deauthenticated", STATION, A)], CANNOT_TELL),
    (TRUTH, [], CANNOT_TELL),
    (Truth(), [], RIGHT),
    (Truth(), [("late-radius", STATION, A)], WRONG)])
def test_verdict(truth: Truth, named: list[tuple[str, str, str]], verdict: str) -> None:
    assert judge_trial(truth, named) == verdict


def test_wilson_interval_is_that_of_published_examples() -> None:
    """Newcombe 1998, Statistics in Medicine 17:857-872, table I: 81 of 263, and 0 of 20."""
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson_interval(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)


def test_table_counts_each_control() -> None:
    lines = list(format_table([("a", RIGHT), ("a", WRONG), ("b", CANNOT_TELL)]))
    assert lines[2:4] == ["| `a` | 2 | 1 |  | 1 |", "| `b` | 1 |  | 1 |  |"]
    assert lines[4].startswith("| all, with 95 % intervals | 3 | 1 (")


def test_mutated_captures_are_explained_or_refused(tmp_path: Path,
                                                   capsys: pytest.CaptureFixture[str],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted bench goes on where it was, and a traceback is counted and kept."""
    assert mutations.run_bench(3, 7, tmp_path) == 0
    assert mutations.run_bench(4, 7, tmp_path) == 0
    assert capsys.readouterr().err.splitlines()[-1].startswith("4 of 4: ")
    assert [file.name for file in (tmp_path / "7").iterdir()] == ["outcomes.jsonl"]
    monkeypatch.setattr(mutations, "explain_captures", lambda _: 1 / 0)
    assert mutations.run_bench(5, 7, tmp_path) == 1
    assert "ZeroDivisionError" in (tmp_path / "7" / "00004.txt").read_text()


@pytest.mark.parametrize("rest", ['{"explai', '{"explained": 50}', "[1]\n", "\0\0\n"])
def test_half_written_line_of_mutations_is_done_again(
        rest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A full disk cuts the last line."""
    log = tmp_path / "7" / "outcomes.jsonl"
    log.parent.mkdir()
    log.write_text('{"explained": 2}\n' + rest)
    assert mutations.run_bench(3, 7, tmp_path) == 0
    assert capsys.readouterr().err.splitlines()[-1].startswith("3 of 3: ")
    first, second = log.read_text().splitlines()
    assert first == '{"explained": 2}'
    assert sum(json.loads(second).values()) == 1


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("control", ["healthy", "late-radius"])
def test_fault_is_named_from_a_capture_of_the_guest(control: str, tmp_path: Path) -> None:
    """The same network without the fault has no finding."""
    trial = draw_trial(1, 0, tmp_path, [control])
    built = setup.make_embedded_machine().image
    assert not asyncio.run(capture_trial(trial, built, make_keys(tmp_path / "pki"), 0))
    assert judge_trial(trial.truth, name_causes(trial.capture_files)) == RIGHT
