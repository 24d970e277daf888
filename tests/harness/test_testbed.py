"""A testbed's line to its worker: reports, what is told to a repetition, turns and the watchdog.

The worker is a small program that speaks the protocol; measure.agent.worker itself is tested in
guests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import plans
from harness import secrets
from harness.engine import programs
from harness.engine import testbed as testbeds
from harness.engine.request import RunRequest, build_plan
from harness.errors import UserError
from speaking_machine import EmptyRenderer, SpeakingMachine
from studies.study import Fault


@asynccontextmanager
async def opened(work: Path, **settings: Any) -> AsyncIterator[testbeds.TestbedClient]:
    """A testbed with the program in it."""
    plan = plans.plan_of("P1", **settings)
    [planned] = plan.testbeds.values()
    testbed = testbeds.TestbedClient(SpeakingMachine(), 0, planned, plan, work)
    try:
        await testbed.open(secrets.make_secrets(),
                           EmptyRenderer(work / "none"))  # type: ignore[arg-type]
        yield testbed
    finally:
        await testbed.close()


async def test_reports_come_in_order_and_what_is_told_arrives(tmp_path: Path) -> None:
    """A repetition speaks and listens while it runs."""
    heard: list[Mapping[str, Any]] = []
    async with opened(tmp_path) as testbed:
        def hear(report: Mapping[str, Any]) -> None:
            heard.append(report)
            if report["name"] == "shareable":
                testbed.send_message({"level": 3})

        out = await testbed.measure_repetition("P1-N2-001", {"what": "listen"}, 20, on_report=hear)
        assert out.name == "P1-N2-001" and testbed.environment == {"kernel": "Linux"}
        assert [report["name"] for report in heard] == ["began", "shareable", "told"]
        assert heard[-1]["command"] == {"do": "tell", "level": 3}
        assert await testbed.call_command("connect", {"a": 1}) == {"said": {"a": 1}}


@pytest.mark.parametrize(("file", "further_s"), [
    ("mine/hostapd.deb", programs.INSTALLING_LIMIT_S), ("mine/hostapd", 0)])
async def test_a_guest_may_take_as_long_to_install_packages_as_they_were_tried(
        file: str, further_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that installs in more than a minute would pass the trial, and end the run."""
    limits: dict[str, float] = {}
    expect_event = testbeds.TestbedClient._expect_event

    async def expect(testbed: testbeds.TestbedClient, name: str, limit_s: float, *further: Any,
                     **named: Any) -> Any:
        limits[name] = limit_s
        return await expect_event(testbed, name, limit_s, *further, **named)

    monkeypatch.setattr(testbeds.TestbedClient, "_expect_event", expect)
    async with opened(tmp_path / "without"):
        usual_s = limits["ready"]
    async with opened(tmp_path / "with", programs_folder="mine", programs={
            "hostapd": {"file": file, "version": "2.11", "sha256": "0"}}) as testbed:
        assert limits["ready"] == usual_s + further_s * testbed.machine.patience


async def test_the_turn_is_over_once_the_processor_may_be_shared(tmp_path: Path) -> None:
    """From then on another one may get on the network; and in any case when it has ended."""
    turn, seen = asyncio.Lock(), []
    async with opened(tmp_path) as testbed:
        await testbed.measure_repetition(
            "x", {}, 20, turn=turn,
            on_report=lambda report: seen.append((report["name"], turn.locked())))
        assert seen == [("began", True), ("shareable", True)] and not turn.locked()
        with pytest.raises(testbeds.TestbedFailed, match="no such thing"):
            await testbed.measure_repetition("y", {"what": "fail"}, 20, turn=turn)
        assert not turn.locked()


async def test_a_jobs_keys_are_for_its_user_only(tmp_path: Path) -> None:
    """The run's secrets are in it, whatever others on this machine may read of results."""
    async with opened(tmp_path) as testbed:
        job = testbed.job_dir / "job.json"
        assert "key_hex" in job.read_text() and job.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("what", "words"), [
    ("hang", "no 'measured' within 1.2 s; killed by the watchdog"),
    ("nonsense", "the worker said b'nonsense\\n', which is not an event")])
async def test_what_hangs_or_speaks_nonsense_is_lost(tmp_path: Path, what: str, words: str,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog allows what the study does, and what a machine may take to answer."""
    monkeypatch.setenv("QOP_WATCHDOG_S", "1")
    async with opened(tmp_path) as testbed:
        with pytest.raises(testbeds.TestbedLost) as caught:
            await testbed.measure_repetition("x", {"what": what}, 0.2)
        assert words in str(caught.value)


def test_a_studys_control_is_what_the_study_says_of_it() -> None:
    """Its secrets and services are the study's; another study's control is refused in one line."""
    study = type("Spoiling", (type(plans.STUDY),), {"faults": {
        "no-server": Fault("no server", {"network.radius_secret": "x"}, ["echo"]),
        "by-itself": "the workload spoils it", "slip": Fault("", {"network.passwd": ""})}})()
    made = build_plan(RunRequest(study), {"fault": "no-server"})
    [planned] = list(made.testbeds.values())[:1]
    job = testbeds.TestbedClient(SpeakingMachine(), 0, planned, made, Path())._job_document("", {})
    assert (job["withhold"], job["fault"]) == (["echo"], "no-server")
    assert study.find_fault("by-itself") == Fault("the workload spoils it")
    unknown = "has no such negative control; choose from no-server, by-itself, slip"
    for name, words in (("wrong-ca", f"--fault wrong-ca: qop2007 {unknown}"),
                        ("slip", "spoils the secret 'network.passwd', which there is not")):
        with pytest.raises(UserError, match=words):
            build_plan(RunRequest(study), {"fault": name})
