"""Modern ADP, WireGuard and ESP carry the same messages, each proven; beside its tunnel none is."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import studies
from conftest import PROJECT
from driven import Driven, job
from harness.engine.request import RunRequest, build_plan
from studies.adp1987 import judge
from studies.adp1987.measurements import Measurements
from studies.study import Judgement, Repetition

pytestmark = [pytest.mark.guest, pytest.mark.shareable, pytest.mark.asyncio(loop_scope="module")]

STUDY = studies.load_study("adp1987")
#: The processor clock skips what waits.
MADE = build_plan(RunRequest(STUDY, "beside", levels={"trace": ["ALL"], "queue": ["ON", "OFF"]},
                             sets={
    "messages": "300", "paced_messages": "200", "proof_messages": "40"}), {"clock": "processor"})
CHECKS = {"modern": {"intact", "nothing-else", "handshake", "sessions", "owner", "private",
                     "in-time"},
          "wireguard": {"intact", "handshake", "tunnelled", "sessions", "carried", "kernel",
                        "private"},
          "esp": {"intact", "nothing-else", "handshake", "sessions", "carried", "private"},
          "none": {"intact", "nothing-else", "private"}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def driven(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Driven]:
    """One guest for all of this file's repetitions."""
    [testbed] = MADE.testbeds.values()
    told = job(testbed.spec.network, "studies.adp1987.workload", clock="processor",
               options=dict(testbed.spec.options))
    made = Driven(tmp_path_factory.mktemp("real"), told,
                  PROJECT / "studies" / "adp1987" / "workload.py")
    code = made.folder / "code"
    for room in ("protocols", "policies", "studies/adp1987"):
        shutil.copytree(PROJECT / room, code / room, ignore=shutil.ignore_patterns("*.yml"))
    for package in ("studies", "studies/adp1987"):
        (code / package / "__init__.py").write_text("")
    async with made:
        await made.ready()
        yield made
        await made.ask("bye", do="stop")


async def judged(driven: Driven, protocol: str, fault: str = "") -> Judgement:
    """A repetition, with a control if asked for, as the judge sees it."""
    cell = next(cell for cell in MADE.cells if cell.ids["protocol"] == protocol)
    name = f"{cell.name}-{fault or 'plain'}"
    await driven.measure(name, **STUDY.task(cell, MADE.asked), fault=fault)
    out: Path = driven.folder / "out" / name
    return judge.judge_repetition(Repetition(cell, MADE.asked, out, {}))


@pytest.mark.parametrize("protocol", CHECKS)
async def test_each_protocol_carries_the_messages_and_is_proven(driven: Driven,
                                                                protocol: str) -> None:
    """Every check holds, and every number of the comparison is there."""
    came = await judged(driven, protocol)
    assert came.reason == ""
    assert {check.check for check in came.evidence} == CHECKS[protocol]
    measured = came.measured
    assert isinstance(measured, Measurements)
    assert measured.throughput_bytes_per_s and measured.messages_per_s and measured.latency_s
    assert measured.wire_bytes_per_byte and measured.wire_bytes_per_byte > 1
    assert (measured.establishment_s is None) is (protocol == "none")


@pytest.mark.parametrize(("protocol", "checks"), [
    ("wireguard", {"tunnelled", "carried", "kernel", "private"}),
    ("esp", {"nothing-else", "sessions", "carried", "private"})])
async def test_messages_beside_a_standing_tunnel_are_seen(driven: Driven, protocol: str,
                                                          checks: set[str]) -> None:
    """The tunnel is negotiated and stays up, all messages arrive, and every proof of it fails."""
    came = await judged(driven, protocol, "beside-tunnel")
    assert {check.check for check in came.evidence if not check.ok} == checks
    assert came.status == "failed"


async def test_a_longer_timeout_is_told_in_real_time_too(driven: Driven) -> None:
    """All messages arrive, and those that wait do so half as long again."""
    came = await judged(driven, "modern", "longer-timeout-in-real-time")
    assert {check.check for check in came.evidence if not check.ok} == {"in-time"}
