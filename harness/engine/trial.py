"""Try whether this machine can measure: run the smallest repetition of a study.

`./qop doctor` calls `run_trial` after its other checks. The trial starts an emulated network,
measures once, and dissects the captures. The result has the number of frames in each capture, or
the reason why the trial failed.
"""

from __future__ import annotations

import asyncio
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import studies
from guest import image
from guest.cache import cache_root
from harness import render, secrets
from harness.engine import host_checks, request, results, setup
from harness.engine.machine import Machine
from harness.engine.plan import Plan, Step
from harness.engine.testbed import TestbedClient, TestbedFailed, TestbedLost
from harness.errors import UserError
from measure.agent.errors import MeasureError
from measure.capture import tshark
from studies.study import Cell, Study


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial: frames by capture, or the reason why it failed.

    `shows_keys` says whether this host's kernel showed the keys of radios while the testbed
    existed. It is None if the trial did not get that far, or used another kernel.
    """

    frames: dict[str, int]
    duration_s: float
    reason: str = ""
    shows_keys: bool | None = None


@dataclass(frozen=True)
class PlannedTrial:
    """A repetition to measure: its plan, cell and machine.

    `captures` are files that must have frames; without any, all captures are counted.
    """

    plan: Plan
    cell: Cell
    machine: Machine
    captures: Sequence[str]


def run_trial(on: str = "guest", study: str = "") -> TrialResult:
    """Start an emulated network, measure one small repetition, and dissect the captures.

    After a failure, the logs are in the cache's folder `logs/doctor`.

    Args:
        on: Kind of machine: "guest", "vm" or "host". The image of the first two must be built.
        study: Study to measure, by default the first that declares a trial.
    """
    begin_s = time.monotonic()
    frames: dict[str, int] = {}
    reason, shows_keys = "", None
    with tempfile.TemporaryDirectory(prefix=".qop-doctor-", dir=_find_work_folder()) as work:
        try:
            planned = plan_trial(choose_study(study), on)
            frames, shows_keys = asyncio.run(_measure_frames(planned, Path(work)))
            reason = find_lacking_frames(frames, planned.captures)
        except (TestbedFailed, TestbedLost, MeasureError, UserError, OSError) as error:
            reason = str(error)
        if reason:
            reason += _keep_logs(Path(work))
    return TrialResult(frames, time.monotonic() - begin_s, reason,
                       shows_keys if on == "host" else None)


def _find_work_folder() -> Path | None:
    """Return where a run would work, so that a trial has the same disk: in or for the results.

    The result is None, for the system's temporary folder, if nothing can be written there.
    """
    places = (results.RESULTS, Path(), cache_root())
    return next((place.absolute() for place in places if os.access(place, os.W_OK | os.X_OK)), None)


async def _measure_frames(planned: PlannedTrial, work: Path) -> tuple[dict[str, int], bool]:
    """Measure one repetition, and count the frames of its captures.

    Returns:
        The number of frames by capture, and whether the kernel shows the keys of the radios.
    """
    plan, machine = planned.plan, planned.machine
    testbed = TestbedClient(machine, machine.processors[-1],
                            plan.testbeds[plan.testbed_of(planned.cell)], plan, work)
    run_secrets = secrets.make_secrets()
    try:
        await testbed.open(run_secrets, render.Renderer(run_secrets, work))
        shows_keys = bool(glob.glob(host_checks.RADIO_KEYS))
        out = await testbed.measure_repetition(
            Step(planned.cell, 1).name, plan.study.task(planned.cell, plan.asked),
            plan.study.deadline_s(planned.cell, plan.asked), repetition=1)
    finally:
        await testbed.close()
    names = planned.captures or sorted(path.name for path in out.glob("*.pcap"))
    return {name: len(tshark.read_fields(out / name, ("frame.number",)))
            for name in names}, shows_keys


def find_lacking_frames(frames: dict[str, int], required: Sequence[str]) -> str:
    """Return which captures lack frames, "" if none does.

    Without required captures, one with frames is enough.
    """
    empty = [name for name, count in frames.items() if not count]
    if empty and (required or len(empty) == len(frames)):
        return f"no frame was captured in {', '.join(empty)}"
    return "" if frames else "no frame was captured in any file"


def choose_study(name: str = "") -> Study:
    """Return a study by its name, or else the first that declares a trial.

    Raises:
        UserError: There is no such study.
    """
    with request.convert_refusals():
        if name:
            return studies.load_study(name)
        known_studies = map(studies.load_study, studies.study_names())
        return next((study for study in known_studies if study.trial is not None),
                    None) or studies.load_study(studies.DEFAULT)


def plan_trial(study: Study, on: str) -> PlannedTrial:
    """Plan the trial that a study declares, or else the shortest cell of its default profile.

    Raises:
        UserError: The study cannot be measured on this kind of machine, or an image is missing.
    """
    builder = setup.choose_builder(setup.AUTO_BUILDER, on)
    clock = _choose_clock(study, on, builder)
    settings = {"on": on, "builder": builder, **({"clock": clock} if clock else {})}
    if study.trial is not None:
        trial_request = request.RunRequest(
            study, levels={factor: [level] for factor, level in study.trial.levels.items()},
            sets=study.trial.settings, repetitions=1, is_single=True)
        plan = request.build_plan(trial_request, settings)
        [cell] = plan.cells
        captures = study.trial.captures
    else:
        plan = request.build_plan(request.RunRequest(study, repetitions=1), settings)
        cell = min(plan.cells, key=lambda each: plan.expected_cost(each).duration_s)
        plan = Plan(study, {name: [level] for name, level in cell.levels.items()},
                    study.warm_up(plan.asked), plan.settings)
        captures = ()
    return PlannedTrial(plan, cell, setup.make_machine_for_plan(plan, builds=False), captures)


def _choose_clock(study: Study, on: str, builder: str) -> str:
    """Return the clock of a trial: by default the processor clock, where the kernel has one.

    The result is "" for the clock that a run of the study has.
    """
    if on != "guest":
        return "real"
    built = image.find_image(variant=setup.VARIANT_OF_BUILDER[builder])
    has_processor_clock = built is not None and built.processor_clock
    if study.trial is None and (has_processor_clock or study.clock != "processor"):
        return ""
    return "processor" if has_processor_clock else "real"


def _keep_logs(work: Path) -> str:
    """Copy the logs of a failed trial to the cache, and return a text with their path."""
    logs = cache_root() / "logs" / "doctor"
    folders = sorted(work.glob("jobs/*/out/logs"))
    if not folders:
        return ""
    try:
        shutil.rmtree(logs, ignore_errors=True)
        shutil.copytree(folders[-1], logs)
    except (OSError, shutil.Error):
        return ""
    return f" (logs: {logs})"
