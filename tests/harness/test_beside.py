"""A run's own work beside its first testbeds: done before anything of it is kept."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import plans
from harness.engine import results, testbed_pool
from harness.engine.campaign import Campaign
from harness.engine.events import EventLog
from measure.records.record import Record
from speaking_machine import EmptyRenderer, SpeakingMachine


@pytest.mark.parametrize("what", ["fail", "no captures"])
async def test_what_is_done_beside_the_start_is_done_before_the_first_record(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """However long it takes, and however the first repetition ends."""
    plan = plans.plan_of("P1", repetitions=1, warm_up=0)
    monkeypatch.setattr(testbed_pool.render, "Renderer",
                        lambda *_: EmptyRenderer(tmp_path / "none"))
    monkeypatch.setattr(type(plan.study), "task", lambda *_: {"what": what})
    done: list[str] = []

    def work_in_background() -> None:
        time.sleep(1)
        done.append("background")

    def kept(record: Record) -> None:
        done.append(record.status)

    with results.ResultsFolder(tmp_path / "out") as folder:
        folder.adopt_plan(plan)
        await Campaign(plan, SpeakingMachine(), folder, EventLog(folder.path), kept=kept,
                       background_work=work_in_background).run(plan.all_steps())
    assert done == ["background", "failed"]
