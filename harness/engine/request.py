"""Convert the user's options to the plan of a run, and refuse invalid ones before it starts.

`build_plan` takes a `RunRequest` (the study and the options) and returns a validated `Plan`. A
setting of the study's workload has the study's default, unless the profile's `set` or the command
line gives another. The command line takes precedence. The levels of a factor, such as the policies,
are the study's own choice, unless the profile's `only` or the command line gives others. Settings
and levels that change nothing in the chosen measurements are refused.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from harness import secrets
from harness.engine import profiles, setup
from harness.engine.plan import Plan, RunSettings, node_devices
from harness.engine.profiles import Profile
from harness.errors import UserError
from policies import PolicyError
from studies import contract, place_of_study
from studies.contract import EVERY_NODE
from studies.study import Cell, Clock, Factor, Level, LevelError, Settings, Study, StudyError
from studies.validation import describe_exception
from topologies import checks
from topologies.device import Device
from topologies.errors import TopologyError
from topologies.model import from_json

# --- Refusal of settings and levels that change nothing in the chosen cells ---

def refuse_idle_settings(plan: Plan, given_settings: Mapping[str, str], default_settings: Settings,
                         *,
                         measures: bool = True) -> None:
    """Raise UserError if a setting has no effect on any measurement of the run.

    A setting has an effect if it changes the testbed, or the task of the workload. Without
    `measures` (in a lab) only the testbed counts.

    Args:
        plan: The plan with these settings.
        given_settings: Settings by name, with the words of the command line or profile.
        default_settings: The settings without those.
        measures: Whether the workload will run.

    Raises:
        UserError: A setting changes nothing; the first one is named.
    """
    for name, words in given_settings.items():
        value = getattr(default_settings, name)
        if getattr(plan.asked, name) == value:
            continue  # the value equals the usual one
        other = plan.asked.model_copy(update={name: value})
        if not any(changes_plan(plan.study, cell, name, plan.asked, other, measures=measures)
                   for cell in plan.cells):
            where = "the cells that were chosen" if measures else "a lab, which measures nothing"
            raise UserError(f"{words}: would change nothing in {where}; leave it out, or choose "
                            "other levels")


def changes_plan(study: Study, cell: Cell, name: str, settings: Settings, other_settings: Settings,
                 *,
                 measures: bool = True) -> bool:
    """Return whether two values of a setting lead to different measurements of a cell.

    A cell is a combination of levels, such as one policy in one scenario.

    Args:
        study: The study of the cell.
        cell: The cell to compare in.
        name: Name of the setting.
        settings: Settings with the first value.
        other_settings: Settings with the second value.
        measures: Whether the workload's task counts, too.
    """
    if name in study.unused_settings(cell, settings):
        return False
    built, task = study.testbed(cell, settings), study.task(cell, settings)
    try:
        return built != study.testbed(cell, other_settings) or (
            measures and task != study.task(cell, other_settings))
    except (StudyError, TopologyError):
        return True  # the cell cannot be measured without it


def refuse_idle_levels(plan: Plan, factor_names: Collection[str]) -> None:
    """Raise UserError if a level that the user named is not measured at all.

    A study may define which levels are combined, such as which policies in which scenarios. A level
    may then occur in no combination.

    Args:
        plan: The plan.
        factor_names: Factors whose levels the user named.

    Raises:
        UserError: A level is in no cell.
    """
    for factor in factor_names:
        used = {cell.ids[factor] for cell in plan.cells}
        for level in plan.levels[factor]:
            if level.id not in used:
                raise UserError(f"{plan.study.id}, factor {factor}: level {level.id} is in no cell "
                                "with the other levels chosen; leave it out, or choose others")


# --- Request and plan ---

#: Pattern of a level's id, which is part of file names on any file system.
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,39}")


@dataclass(frozen=True)
class RunRequest:
    """The options with which a user asks for measurements of a study.

    `levels` are names of levels by factor, such as policies. `files` are the user's own files by
    factor. `options` are texts for settings that have an option of their own, by the setting's
    name. `sets` are settings from `--set`. Both take precedence over the profile.

    `is_single` requests a single testbed, for a lab or a live page. It uses the last level of each
    factor, and devices may be without effect. Without `measures`, only the testbed is built. With
    `refuses_idle`, a setting that changes nothing in the chosen cells is refused; a bench gives the
    same settings to every cell.
    """

    study: Study
    profile: str = profiles.DEFAULT
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    files: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)
    repetitions: int | None = None
    is_single: bool = False
    measures: bool = True
    refuses_idle: bool = True


def build_plan(request: RunRequest, settings: Mapping[str, Any]) -> Plan:
    """Return the validated plan of a run from the user's options.

    Args:
        request: The user's request.
        settings: Fields of RunSettings. Without a clock, that of the profile is used, or else that
            of the study.

    Raises:
        UserError: The request cannot be measured.
    """
    study = request.study
    profile = profiles.load_profile(study, request.profile)
    clock = settings.get("clock") or profile.clock or _usual_clock(study, settings)
    profile = profile.for_clock(clock)
    with convert_refusals():
        usual = _profile_settings(study, profile, request.profile)
        settings_of_run = _read_settings(request, profile)
        levels = {factor.name: _chosen_levels(factor, request, profile) for factor in study.factors}
        plan = Plan(study, levels, settings_of_run, RunSettings(
            repetitions=request.repetitions or profile.repetitions, warm_up=profile.warm_up,
            **{**settings, "clock": clock}), _find_baseline(request, profile, levels))
        _check_study_methods(plan)
        for testbed in plan.testbeds.values():
            network = testbed.spec.network
            with convert_study_errors(study, f"network {network.name}"):
                checks.check_network(network, f"{study.id}: network {network.name}")
            plan.apply_fault(testbed.spec.policy)
        # Both results are made again later. Here they raise an error if a testbed names unknown
        # packages, or the fault an unknown secret.
        setup.list_plan_packages(plan)
        secrets.make_secrets(study.find_fault(plan.settings.fault))
        _check_effects(plan, request, profile, usual)
        if not request.is_single:
            _check_clock(plan)
            _check_devices(plan)
            study.check_clock(plan.settings.clock, settings_of_run)
        _ = plan.digest  # raises an error if the plan cannot be stored as JSON
    return plan


def _find_baseline(request: RunRequest, profile: Profile,
                   levels: Mapping[str, Sequence[Level]]) -> dict[str, str]:
    """Return the baseline's level by factor, if the profile names one and the user measures it.

    Raises:
        UserError: The profile itself does not measure that level.
    """
    baseline = dict[str, str]()
    for factor, name in profile.baseline.items():
        if name in [level.id for level in levels[factor]]:
            baseline[factor] = name
        elif not request.levels.get(factor) and not request.files.get(factor):
            raise UserError(f"profile {request.profile}: baseline.{factor}: {name} is not measured "
                            f"by this profile; name one of its levels, or add it to only.{factor}")
    return baseline


def _usual_clock(study: Study, settings: Mapping[str, Any]) -> Clock:
    """Return the study's default clock, or the real clock if the machine lacks that clock.

    Only the kernel of embedded guests can count CPU time for the processor clock.
    """
    is_guest = settings.get("on", "guest") == "guest"
    return study.clock if is_guest or study.clock != "processor" else "real"


@contextlib.contextmanager
def convert_refusals() -> Iterator[None]:
    """Convert errors of studies, policies and topologies in this context to a UserError."""
    try:
        yield
    except (StudyError, PolicyError, TopologyError) as error:
        raise UserError(str(error)) from None


@contextlib.contextmanager
def convert_study_errors(study: Study, what: str,
                         passing: type[Exception] = UserError) -> Iterator[None]:
    """Convert every exception of a study's own code in this context to a UserError.

    Args:
        study: The study whose code runs in this context.
        what: The part of the study, for the error's text.
        passing: Class of exceptions that are passed on, because the caller handles them.
    """
    try:
        with convert_refusals():
            yield
    except (UserError, passing):
        raise
    except Exception as error:  # noqa: BLE001 - it may be anything
        raise UserError(
            f"{place_of_study(study.id)}: {what}: {describe_exception(error)}; correct the study") \
            from None


def read_levels(study: Study, factor: Factor, names: Sequence[str] = (), files: Sequence[Path] = (),
                where: str = "") -> list[Level]:
    """Return levels of a factor, such as policies, by their names or from the user's files.

    Args:
        study: The study of the factor.
        factor: The factor.
        names: Names of levels. Without names and files, the study chooses.
        files: The user's own files.
        where: Place of the request, for the error's text.

    Raises:
        UserError: There is no such level.
    """
    with convert_study_errors(study, f"factor {factor.name}"):
        try:
            levels: list[Any] = list(factor.read(names, files))
        except LevelError as error:
            raise UserError(f"{where or study.id}, factor {factor.name}: {error}") from None
        for level in levels:
            _require_condition(isinstance(level, Level) and isinstance(level.id, str),
                               f"{level!r:.80} is no Level with a text for its id")
    return levels


def _check_study_methods(run_plan: Plan) -> None:
    """Call all methods of a study that a run will use, to find mistakes before it starts."""
    study = run_plan.study
    for factor in study.factors:
        if factor.name in study.baseline:
            read_levels(study, factor, [study.baseline[factor.name]], where=f"{study.id}, baseline")
    with convert_study_errors(study, "cells"):
        _check_cells(study, run_plan.cells)
    with convert_study_errors(study, "testbed"):
        testbeds = run_plan.testbeds.values()
    with convert_study_errors(study, "warm_up"):
        _require_condition(isinstance(study.warm_up(run_plan.asked), study.settings_type),
                           "gives no settings")
    for cell in run_plan.cells:
        with convert_study_errors(study, "expected_cost"):
            expected = run_plan.expected_cost(cell)
            _require_condition(all(map(_is_amount, (expected.duration_s, expected.processor_s,
                                                    expected.capture_bytes))), f"gives {expected}")
    with convert_study_errors(study, "notes"):
        _require_condition(all(isinstance(note, str) for note
                               in study.notes(run_plan.cells, run_plan.asked)),
                           "gives something else than text")
    for testbed in testbeds:  # only the first cell of each is checked
        with convert_study_errors(study, "task"):
            json.dumps(dict(study.task(testbed.cells[0], run_plan.asked)))
        with convert_study_errors(study, "deadline_s"):
            deadline_s = study.deadline_s(testbed.cells[0], run_plan.asked)
            _require_condition(_is_amount(deadline_s) and deadline_s > 0, f"gives {deadline_s!r}")


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def _require_condition(condition: object, what: str) -> None:
    if not condition:
        raise ValueError(what)


def _profile_settings(study: Study, profile: Profile, name: str) -> Settings:
    """Return the workload's settings from a profile. Raises UserError if they are invalid."""
    _refuse_unknown(study, profile.set, f"profile {name}: set")
    try:
        return study.settings_type.model_validate(profile.set)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(
            f"profile {name}: set.{_error_path(first)}: "
            f"{contract.describe_refused_value(first)}") from None


def _check_effects(run_plan: Plan, request: RunRequest, profile: Profile,
                   profile_settings: Settings) -> None:
    """Raise UserError if the user gives settings or levels (such as policies) without effect."""
    if not request.refuses_idle:
        return
    study = run_plan.study
    given = {name: f"{study.settings_type.option_of(name)} {text}" for name, text in
             request.options.items()} | {name: f"--set {name}={text}"
                                         for name, text in request.sets.items()}
    with convert_study_errors(study, "task"):
        refuse_idle_settings(run_plan, given, profile_settings, measures=request.measures)
        if request.is_single:
            return
        refuse_idle_levels(run_plan, [
            factor.name for factor in study.factors
            if request.levels.get(factor.name) or request.files.get(factor.name)])
        if not any(request.levels.values()) and not any(request.files.values()):
            where = f"profile {request.profile}"
            own = {name: f"{where}: set.{name}" for name in profile.set if name not in given}
            refuse_idle_settings(run_plan, own, study.settings_type())


def _read_settings(request: RunRequest, profile: Profile) -> Settings:
    study = request.study
    _refuse_unknown(study, request.sets, "--set")
    twice = request.options.keys() & request.sets.keys()
    if twice:
        name = min(twice)
        raise UserError(
            f"--set {name}: was given with {study.settings_type.option_of(name)}, too; leave one "
            "out")
    of_profile = _profile_settings(study, profile, request.profile)
    values = {name: getattr(of_profile, name) for name in profile.set}
    texts = {**request.options, **request.sets}
    try:
        # Values of the command line are texts. They are converted to numbers only here.
        return study.settings_type.model_validate(
            values | {name: _parse_value(text) for name, text in texts.items()}, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        option = study.settings_type.option_of(name) if name in request.options else f"--set {name}"
        given = f" {texts[name]}" if name in request.options else f"={texts.get(name, '')}"
        raise UserError(f"{option}{given}: {contract.describe_refused_value(first)}") from None


def _refuse_unknown(study: Study, settings: Mapping[str, Any], where: str) -> None:
    known = study.settings_type.model_fields
    for name in settings:
        if name not in known:
            raise UserError(f"{where} {name}: {study.id} has no such setting; "
                            + (f"choose from {', '.join(known)}" if known else "it has none"))


def _parse_value(text: str) -> Any:
    """Return a command-line value as list or object if it is JSON, else as unchanged text."""
    if text[:1] in ("[", "{"):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    return text


def _error_path(error: ErrorDetails) -> str:
    return ".".join(map(str, error["loc"]))


def _chosen_levels(factor: Factor, request: RunRequest, profile: Profile) -> list[Level]:
    """Return the levels of a factor (such as policies) to measure, from options or profile.

    If the user gives files and no names, the profile's baseline is measured, too, if it has one.
    """
    names, files = list(request.levels.get(factor.name, ())), request.files.get(factor.name, ())
    place = request.study.id
    if files and not names and factor.name in profile.baseline:
        names = [profile.baseline[factor.name]]
    if not names and not files:
        names = [str(level) for level in profile.only.get(factor.name, ())]
        place = f"profile {request.profile}"
    where = f"{request.study.id}, factor {factor.name}"
    levels = read_levels(request.study, factor, names, files, place)[-1 if request.is_single
                                                                     else 0:]
    if not levels:
        raise UserError(f"{where}: has no levels; nothing would be measured")
    for level in levels:
        if not _ID.fullmatch(level.id):
            raise UserError(f"{where}: level {level.id!r} cannot be part of a file's name; use up "
                            "to 40 letters, digits, '.', '+', '-' and '_'")
        if level.number is not None and not math.isfinite(level.number):
            raise UserError(f"{where}: level {level.id} stands at {level.number}; give it a finite "
                            "number in the study")
    repeated = [name for name, count in Counter(level.id for level in levels).items() if count > 1]
    if repeated:
        raise UserError(f"{where}: level {repeated[0]} is there twice; leave one out")
    return levels


def _check_clock(run_plan: Plan) -> None:
    """Raise UserError if a measurement of the plan is not possible with the plan's clock."""
    for testbed in run_plan.testbeds.values():
        clocks = testbed.spec.clocks
        if clocks and run_plan.settings.clock not in clocks:
            raise UserError(f"{testbed.cells[0].name}: is not measured by the "
                            f"{run_plan.settings.clock} clock; add --clock {clocks[0]}, or choose "
                            "other levels")


def _check_devices(run_plan: Plan) -> None:
    """Raise UserError if a device (processor model) has no effect, or its node does not exist."""
    specs = [testbed.spec for testbed in run_plan.testbeds.values()]
    nodes = [EVERY_NODE, *(node for spec in specs for node in spec.network.nodes)]
    for node in (node for spec in specs for node in spec.devices):
        if node not in nodes:
            raise UserError(f"{node}: no such node to compute on a device; choose from "
                            f"{', '.join(dict.fromkeys(nodes))}")
    clock, by = run_plan.settings.clock, run_plan.study.devices_by
    for node, document in (pair for spec in specs for pair in node_devices(spec).items()):
        device = from_json(Device, document)
        if clock == "processor":
            _check_processor(node, device)
        elif clock not in by and not device.is_neutral:
            elsewhere = (f"{' or '.join(by)}, where programs that charge their work do" if by
                         else "processor")
            raise UserError(f"{node}: device {device.name}: no effect by the {clock} clock; leave "
                            f"it out, or measure with --clock {elsewhere}")


def _check_processor(node: str, device: Device) -> None:
    """Raise UserError if the processor clock cannot emulate a device (processor model)."""
    if unsaid := device.missing_kinds():
        raise UserError(f"{node}: device {device.name} says nothing of {unsaid[0]} work, which the "
                        "processor clock needs; choose another, or add it with its source")
    if device.processors != 1:
        raise UserError(f"{node}: device {device.name} has {device.processors} processors, and a "
                        "node of the processor clock one; choose another")


def _check_cells(study: Study, cells: Sequence[Cell]) -> None:
    if not cells:
        raise UserError(f"{study.id}: has no cell of these levels; choose others")
    names = Counter(cell.name for cell in cells)
    for name, count in names.items():
        if count > 1:
            raise UserError(f"{study.id}: two cells are called {name}; give their levels other ids")
