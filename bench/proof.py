"""`qop bench proof`: show that each negative control (deliberate fault) fails its checks.

A control takes one protection away, in one cell (one policy in one scenario). The checks that its
study names for it must fail there, and no other checks. The same cell without it must be proven.
Each processor has one guest at a time. Results of the same code are reused, so an interrupted bench
continues.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import shutil
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

import studies
from guest.releases import FORKY, TRIXIE
from harness.engine import request, setup
from harness.engine.campaign import Campaign
from harness.engine.events import EventLog
from harness.engine.machine import ROOT, Machine
from harness.engine.plan import Plan, find_missing_feature
from harness.engine.provenance import hash_code
from harness.engine.request import RunRequest
from harness.engine.results import RESULTS, ResultsFolder
from harness.errors import UserError
from measure.records.record import Record, RecordError
from studies import records as stored
from studies.study import Fault, Study
from topologies.builders import MININET

#: Name of a cell's trial without a control.
_WITHOUT = "without"
TABLE = "proof.md"


@dataclass(frozen=True)
class ControlOutcome:
    """The result of measuring one cell under a control.

    `control` is "" for a measurement without a control.
    """

    control: str
    fault: Fault
    record: Record

    @property
    def failed(self) -> list[str]:
        """Return the names of the checks that failed, in the order of the evidence."""
        return [check.check for check in self.record.evidence if not check.ok]

    @property
    def broke_off(self) -> bool:
        """Return whether the repetition ended early, before everything was measured."""
        return bool(self.record.raw.get("failure")) or not self.record.evidence

    @property
    def is_lost(self) -> bool:
        """Return whether the guest died, so that the record says nothing about the control."""
        return _is_lost(self.record)

    @property
    def is_as_declared(self) -> bool:
        """Return whether exactly those checks failed that the study names for this control.

        If the study names no checks, the control must end the repetition early, because no traffic
        flows.
        """
        if not self.control:
            return self.record.status == "ok"
        if not self.fault.fails:
            return self.record.status == "failed" and self.broke_off and not self.is_lost
        return not self.broke_off and sorted(self.failed) == sorted(self.fault.fails)

    def format_line(self) -> str:
        """Return one line of text about the control and the checks that failed."""
        outcome = f"breaks off: {self.record.reason}" if self.broke_off else \
            f"fails: {', '.join(self.failed) or 'nothing'}"
        name = self.control or _WITHOUT
        wrong = "" if self.is_as_declared else " -- LOST: give the command again" \
            if self.is_lost else " -- NOT AS DECLARED" + (
            f" ({', '.join(self.fault.fails)})" if self.fault.fails else "")
        return f"{name} on {self.record.name}: {outcome}{wrong}"


@dataclass(frozen=True)
class ProofTrial:
    """A measurement with or without a control, and its record's folder.

    `control` is "" for a measurement without a control.
    """

    control: str
    fault: Fault
    plan: Plan
    folder: Path

    async def measure(self, machine: Machine) -> None:
        """Measure the one repetition of this trial, and replace the folder's content."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with ResultsFolder(self.folder) as results:
            results.adopt_plan(self.plan)
            await Campaign(self.plan, machine, results, EventLog(self.folder)).run(
                self.plan.all_steps())

    def find_record(self) -> Record | None:
        """Return the record that this version of the code has measured, None without one."""
        try:
            record = stored.read_record(self._record_path)
        except RecordError:
            return None
        made_with = (record.environment.get("plan"), record.environment.get("code_sha256"))
        return record if made_with == (self.plan.digest, hash_code(self.plan.study.id)) \
            and not _is_lost(record) else None

    def read_outcome(self) -> ControlOutcome:
        """Return the result that the stored record shows."""
        return ControlOutcome(self.control, self.fault, stored.read_record(self._record_path))

    @property
    def _record_path(self) -> Path:
        [step] = self.plan.all_steps()
        return self.folder / "records" / f"{step.name}.json"


def run_bench(out: Path | None = None, controls: Sequence[str] = ()) -> int:
    """Measure every control of every study, and print the results.

    Args:
        out: Folder for results and table; by default results/proof.
        controls: Names of the only controls to run, with their cells without a control. Only the
            table of all controls is stored.

    Returns:
        0, or 1 if a control is not as declared.

    Raises:
        UserError: No study has a cell for a control.
    """
    folder = out or RESULTS / "proof"
    trials = [trial for study, faults in choose_controls(controls)
              for trial in _make_trials(study, faults, folder / study.id)]
    _measure_trials([trial for trial in trials if trial.find_record() is None])
    outcomes: dict[str, list[ControlOutcome]] = {}
    for trial in trials:
        outcomes.setdefault(trial.plan.study.id, []).append(trial.read_outcome())
    # The default study first.
    shared = {name: group_failing_controls(outcomes[name])
              for name in sorted(outcomes, key=lambda name: (name != studies.DEFAULT, name))}
    text = "\n".join(line for name, entries in outcomes.items()
                     for line in render_tables(name, entries, shared))
    if not controls:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TABLE).write_text(text + "\n")
    click.echo(text)
    wrong = [entry for entries in outcomes.values() for entry in entries
             if not entry.is_as_declared]
    for entry in wrong:
        click.echo(entry.format_line(), err=True)
    return 1 if wrong else 0


def choose_controls(controls: Sequence[str] = ()) -> list[tuple[Study, dict[str, Fault]]]:
    """Return the studies, each with the negative controls that can be measured, by name.

    Args:
        controls: Names of the only controls to return, by default all.

    Raises:
        UserError: No study has a cell for a control.
    """
    known = [(study, {name: fault for name in study.faults
                      if (fault := study.find_fault(name)) is not None and fault.on})
             for study in map(studies.load_study, studies.study_names())]
    for name in controls:
        if not any(name in faults for _, faults in known):
            raise UserError(f"--control {name}: no study has a cell for it; docs/proof.md lists "
                            "all that have one")
    picked = [(study, {name: fault for name, fault in faults.items()
                       if not controls or name in controls}) for study, faults in known]
    return [(study, faults) for study, faults in picked if faults]


def _make_trials(study: Study, faults: Mapping[str, Fault], folder: Path) -> Iterator[ProofTrial]:
    """Yield a trial of each policy and scenario without a fault, then one for every control."""
    cells = {tuple(sorted((*fault.on.items(), *fault.sets.items()))): fault
             for fault in faults.values()}
    for fault in cells.values():
        plan = _make_plan(study, fault, None)
        name = "-".join((_WITHOUT, plan.cells[0].name, *map("-".join, fault.sets.items())))
        yield ProofTrial("", Fault(""), plan, folder / name)
    for name, fault in faults.items():
        yield ProofTrial(name, fault, _make_plan(study, fault, name), folder / name)


def _make_plan(study: Study, fault: Fault, name: str | None) -> Plan:
    """Return the plan of one repetition under a control, without warm-up.

    It is in virtual time, unless its policy needs a later release and the study another clock.

    `name` is the control's name, None for the cell without a control.
    """
    files = {factor: [ROOT / level] for factor, level in fault.on.items()
             if level.endswith(".yml")}
    plan = request.build_plan(
        RunRequest(study, levels={factor: [level] for factor, level in fault.on.items()
                                  if factor not in files},
                   files=files, repetitions=1, is_single=True,
                   sets={**study.proof_sets, **fault.sets}, refuses_idle=False),
        {"fault": name, "clock": "virtual", "builder": MININET})
    settings = dataclasses.replace(plan.settings, warm_up=0)
    # Policies that only a later release can carry out are measured there, by a clock that it has.
    specs = [testbed.spec for testbed in plan.testbeds.values()]
    if any(map(find_missing_feature, specs)):
        later = TRIXIE if not any(find_missing_feature(
            dataclasses.replace(spec, release=TRIXIE.suite)) for spec in specs) else FORKY
        settings = dataclasses.replace(
            settings, release=later.suite,
            clock="virtual" if study.clock == "virtual" else "processor")
    return dataclasses.replace(plan, settings=settings)


def _measure_trials(trials: Sequence[ProofTrial]) -> None:
    """Measure all trials, one guest on each processor at a time.

    Raises:
        UserError: A trial cannot be measured.
    """
    # Machines are created first, because that builds a missing image.
    waiting = deque((trial, setup.make_machine_for_plan(trial.plan)) for trial in trials)
    ended = itertools.count(1)

    async def keep_busy(processor: int) -> None:
        while waiting:
            trial, machine = waiting.popleft()
            machine.processors = [processor]
            await trial.measure(machine)
            click.echo(f"{next(ended)} of {len(trials)}: {trial.read_outcome().format_line()}",
                       err=True)

    async def on_all() -> None:
        async with asyncio.TaskGroup() as group:
            for processor in sorted(os.sched_getaffinity(0)):
                group.create_task(keep_busy(processor))

    try:
        asyncio.run(on_all())
    except* UserError as several:
        raise several.exceptions[0] from None


def _is_lost(record: Record) -> bool:
    """Return whether a record contains no judgement at all, because its guest died."""
    return not (record.raw or record.evidence)


def group_failing_controls(outcomes: Sequence[ControlOutcome]) -> dict[str, list[str]]:
    """Return, for each check, the controls under which it failed."""
    controls: dict[str, list[str]] = {}
    for entry in outcomes:
        for check in entry.failed if entry.control and not entry.broke_off else ():
            controls.setdefault(check, []).append(f"`{entry.control}`")
    return controls


def render_tables(study: str, outcomes: Sequence[ControlOutcome],
                  shared: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[str]:
    """Yield two Markdown tables of a study: checks by control, and controls by check.

    A check of `measure/checks/proof.py` is the same code in every study, so the controls of other
    studies test it, too. `shared` has these controls by study and check.
    """
    yield from (f"### {study}: what each control fails", "",
                "| control | takes away | cell | checks that fail | that hold |",
                "|---|---|---|---|---|")
    for entry in outcomes:
        if entry.control:
            fails = "none is asked: nothing flows" if entry.broke_off else ", ".join(entry.failed)
            passed = "" if entry.broke_off else str(len(entry.record.evidence) - len(entry.failed))
            yield (f"| `{entry.control}` | {entry.fault.title} | {entry.record.cell_name} "
                   f"| {fails} | {passed} |")
    yield from ("", f"### {study}: what each check is failed by", "",
                "| check | holds in cells without a control | fails under |", "|---|---|---|")
    own = group_failing_controls(outcomes)
    without = [entry.record.evidence for entry in outcomes if not entry.control]
    for name in dict.fromkeys((*(check.check for evidence in without for check in evidence), *own)):
        cells = sum(any(check.check == name and check.ok for check in evidence)
                    for evidence in without)
        holds = str(cells) if cells else "asked under its control only"
        yield f"| {name} | {holds} | {_failing_controls(name, own, shared)} |"


def _failing_controls(name: str, study_controls: Mapping[str, Sequence[str]],
                      shared: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """Return the controls under which a check fails.

    They are of this study, or of the first study in `shared` that has one.
    """
    the_same = name.partition(" (")[0]
    if name in study_controls:
        return ", ".join(study_controls[name])
    if the_same in study_controls:
        return f"as *{the_same}*, the same code: {', '.join(study_controls[the_same])}"
    for study, controls in shared.items():
        if name in controls:
            return f"of {study}: {', '.join(controls[name])}"
    return "no control yet"
