"""Convert a user's request to a plan, with all checks before anything starts.

The value of a setting is the field's default in the study's model, unless the profile's `set` or
the command line gives another. The command line takes precedence. The levels of a factor are the
study's own choice, unless the profile's `only` or the command line gives others.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from harness import secrets
from harness.engine import effects, profiles, variants
from harness.engine.plan import Plan, RunSettings, node_devices
from harness.engine.profiles import Profile
from harness.errors import UserError
from policies import PolicyError
from studies import wording
from studies.parts import EVERY_NODE
from studies.study import Asked, Cell, Clock, Factor, Level, LevelError, Study, StudyError
from studies.validating import describe_exception
from topologies import checks
from topologies.device import Device
from topologies.loader import TopologyError
from topologies.model import from_json

#: Pattern of a level's id, which is part of file names on any file system.
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,39}")


@dataclass(frozen=True)
class RunRequest:
    """A user's request to measure a study.

    `levels` are names of levels by factor, `files` the user's own files by factor. `options` are
    texts for settings that have an option of their own, by the setting's name. `sets` are those of
    `--set`. Both take precedence over the profile.

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
    """Return the plan of a request.

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
        usual, asked = _profile_settings(study, profile,
                                         request.profile), _read_settings(request, profile)
        levels = {factor.name: _chosen_levels(factor, request, profile) for factor in study.factors}
        made = Plan(study, levels, asked, RunSettings(
            repetitions=request.repetitions or profile.repetitions, warm_up=profile.warm_up,
            **{**settings, "clock": clock}))
        _check_study_methods(made)
        for testbed in made.testbeds.values():
            network = testbed.spec.network
            with convert_study_errors(study, f"network {network.name}"):
                checks.check_network(network, f"{study.id}: network {network.name}")
        variants.packages_of_plan(made)
        secrets.make_secrets(study.find_fault(made.settings.fault))
        _check_effects(made, request, profile, usual)
        if not request.is_single:
            _check_clock(made)
            _check_devices(made)
            study.check_clock(made.settings.clock, asked)
        _ = made.digest
    return made


def _usual_clock(study: Study, settings: Mapping[str, Any]) -> Clock:
    """Return the study's own clock, or the real clock where it cannot be used.

    This host's own kernel does not count work, so it has no processor clock.
    """
    return "real" if study.clock == "processor" and settings.get("on") == "host" else study.clock


@contextlib.contextmanager
def convert_refusals() -> Iterator[None]:
    """Convert a refusal by a study, a policy or a topology to a UserError."""
    try:
        yield
    except (StudyError, PolicyError, TopologyError) as error:
        raise UserError(str(error)) from None


@contextlib.contextmanager
def convert_study_errors(study: Study, what: str,
                         passing: type[Exception] = UserError) -> Iterator[None]:
    """Convert every exception of a study's own code to a UserError.

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
            f"studies/{study.id}: {what}: {describe_exception(error)}; correct the study") from None


def read_levels(study: Study, factor: Factor, names: Sequence[str] = (), files: Sequence[Path] = (),
                where: str = "") -> list[Level]:
    """Return the levels of a factor by name or from files.

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
    """Call all methods of a study that a run uses before and while it measures.

    Mistakes in a study then show before anything starts.
    """
    study = run_plan.study
    for factor in study.factors:
        if factor.name in study.baseline:
            read_levels(study, factor, [study.baseline[factor.name]], where=f"{study.id}, baseline")
    with convert_study_errors(study, "cells"):
        _check_cells(study, run_plan.cells)
    with convert_study_errors(study, "testbed"):
        testbeds = run_plan.testbeds.values()
    with convert_study_errors(study, "warm_up"):
        _require_condition(isinstance(study.warm_up(run_plan.asked), study.asked),
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


def _profile_settings(study: Study, profile: Profile, name: str) -> Asked:
    """Return the settings of a profile. Raises UserError."""
    _refuse_unknown(study, profile.set, f"profile {name}: set")
    try:
        return study.asked.model_validate(profile.set)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(
            f"profile {name}: set.{_error_path(first)}: {wording.describe_error(first)}") from None


def _check_effects(run_plan: Plan, request: RunRequest, profile: Profile,
                   profile_settings: Asked) -> None:
    """Refuse settings and levels of the command line or profile that change nothing."""
    if not request.refuses_idle:
        return
    study = run_plan.study
    given = {name: f"{study.asked.option_of(name)} {text}" for name, text in
             request.options.items()} | {name: f"--set {name}={text}"
                                         for name, text in request.sets.items()}
    with convert_study_errors(study, "task"):
        effects.refuse_idle_settings(run_plan, given, profile_settings, measures=request.measures)
        if request.is_single:
            return
        effects.refuse_idle_levels(run_plan, [
            factor.name for factor in study.factors
            if request.levels.get(factor.name) or request.files.get(factor.name)])
        if not any(request.levels.values()) and not any(request.files.values()):
            where = f"profile {request.profile}"
            own = {name: f"{where}: set.{name}" for name in profile.set if name not in given}
            effects.refuse_idle_settings(run_plan, own, study.asked())


def _read_settings(request: RunRequest, profile: Profile) -> Asked:
    study = request.study
    _refuse_unknown(study, request.sets, "--set")
    twice = request.options.keys() & request.sets.keys()
    if twice:
        name = min(twice)
        raise UserError(f"--set {name}: was given with {study.asked.option_of(name)}, too; leave "
                        "one out")
    of_profile = _profile_settings(study, profile, request.profile)
    values = {name: getattr(of_profile, name) for name in profile.set}
    texts = {**request.options, **request.sets}
    try:
        # Values of the command line are texts. They are converted to numbers only here.
        return study.asked.model_validate(
            values | {name: _parse_value(text) for name, text in texts.items()}, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        option = study.asked.option_of(name) if name in request.options else f"--set {name}"
        given = f" {texts[name]}" if name in request.options else f"={texts.get(name, '')}"
        raise UserError(f"{option}{given}: {wording.describe_error(first)}") from None


def _refuse_unknown(study: Study, settings: Mapping[str, Any], where: str) -> None:
    known = study.asked.model_fields
    for name in settings:
        if name not in known:
            raise UserError(f"{where} {name}: {study.id} has no such setting; "
                            + (f"choose from {', '.join(known)}" if known else "it has none"))


def _parse_value(text: str) -> Any:
    """Return the value of a text that is a JSON list or object.

    Any other text is returned unchanged.
    """
    if text[:1] in ("[", "{"):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    return text


def _error_path(error: ErrorDetails) -> str:
    return ".".join(map(str, error["loc"]))


def _chosen_levels(factor: Factor, request: RunRequest, profile: Profile) -> list[Level]:
    """Return the levels of a factor to measure."""
    names, files = list(request.levels.get(factor.name, ())), request.files.get(factor.name, ())
    place = request.study.id
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
    """Refuse cells that cannot be measured by the plan's clock."""
    for testbed in run_plan.testbeds.values():
        clocks = testbed.spec.clocks
        if clocks and run_plan.settings.clock not in clocks:
            raise UserError(f"{testbed.cells[0].name}: is not measured by the "
                            f"{run_plan.settings.clock} clock; add --clock {clocks[0]}, or choose "
                            "other levels")


def _check_devices(run_plan: Plan) -> None:
    """Refuse devices that would not slow down any computation."""
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
    """Refuse a device that the processor clock cannot emulate for a node."""
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
