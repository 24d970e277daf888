"""Policies are rendered before their testbeds ask for it, but in nobody's way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import plans
from harness import secrets
from harness.engine import testbed_pool
from harness.engine.plan import RunSettings
from policies import Policy
from speaking_machine import EmptyRenderer, SpeakingMachine


class NotingRenderer(EmptyRenderer):
    """Notes which policies it was to begin with."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.begun: list[str] = []

    def begin_rendering(self, *asked: object) -> asyncio.Task[Path]:
        """An empty folder."""
        policy = asked[0]
        assert isinstance(policy, Policy)
        self.begun.append(policy.id)
        return super().begin_rendering()


@pytest.mark.parametrize(("waits", "starting", "ahead"), [
    (False, 0, ["P2", "P3"]), (False, 1, []), (True, 0, [])])
async def test_the_next_policies_are_rendered_ahead(
        waits: bool, starting: int, ahead: list[str],
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are measured at once; not while another testbed starts, and not in real time."""
    renderer = NotingRenderer(tmp_path / "none")
    monkeypatch.setattr(testbed_pool.render, "Renderer", lambda *_: renderer)
    # The program that stands in for the worker takes its commands from a line in any case.
    monkeypatch.setattr(testbed_pool.TestbedClient, "_skips_waiting", False)
    plan = plans.plan_of("P1,P2,P3,P4", warm_up=0)
    monkeypatch.setattr(RunSettings, "is_real_time", waits)
    machine: Any = SpeakingMachine()
    machine.processors = [0, 1]
    scheduler = Mock(waiting_testbeds=lambda: [*plan.testbeds])
    there = testbed_pool.TestbedPool(plan, machine, Mock(work=tmp_path), scheduler=scheduler,
                                     secrets=secrets.make_secrets(), events=Mock())
    there._starting = starting
    try:
        await there.get_or_start(next(iter(plan.testbeds)), 0)
    finally:
        await there.close()
    assert renderer.begun == ["P1", *ahead]
