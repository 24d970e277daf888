"""From what a user asks for to a plan: everything is checked here, before anything starts.

A setting goes: the field's default in the study's model, the profile's `set`, then the command
line. Levels likewise: the study's own choice, the profile's `only`, then the command line.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from harness import secrets
from harness.engine import profiles, variants
from harness.engine.plan import Plan, RunSettings, devices
from harness.engine.profiles import Profile
from harness.errors import UserError
from policies import PolicyError
from studies.study import Asked, Cell, Factor, Level, Study, StudyError
from topologies import checks
from topologies.device import Device
from topologies.loader import TopologyError
from topologies.model import from_json

#: The clock by which programs charge a device for their work: all other computing is free.
CHARGING = "virtual"
#: A level is part of the names of files, on any file system.
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,39}")


@dataclass(frozen=True)
class RunRequest:
    """What of a study a user asks to be measured.

    `levels` are names of levels by factor, `files` the user's own files by factor. `options` are
    texts for settings that have an option of their own, by the setting's name, `sets` those of
    `--set`; both go before the profile. `is_single` takes one level of each factor, the last.
    """

    study: Study
    profile: str = profiles.DEFAULT
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    files: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)
    repetitions: int | None = None
    is_single: bool = False


def plan(request: RunRequest, settings: Mapping[str, Any]) -> Plan:
    """The plan of a request; `settings` are the engine's own. Raises UserError.

    Without a clock among them, the study's own counts.
    """
    study = request.study
    profile = profiles.load(study, request.profile)
    with of_user():
        asked = _asked(request, profile)
        levels = {factor.name: _levels(factor, request, profile) for factor in study.factors}
        made = Plan(study, levels, asked, RunSettings(
            repetitions=request.repetitions or profile.repetitions, warm_up=profile.warm_up,
            **{"clock": study.clock, **settings}))
        _check_cells(study, made.cells)
        for testbed in made.testbeds.values():
            network = testbed.spec.network
            checks.network(network, f"{study.id}: network {network.name}")
        variants.named(made)
        secrets.make(study.fault(made.settings.fault))
        _check_devices(made)
        _ = made.digest  # all that a study is asked for a plan: what is wrong shows here
    return made


@contextlib.contextmanager
def of_user() -> Iterator[None]:
    """What a study refuses is the user's to put right."""
    try:
        yield
    except (StudyError, PolicyError, TopologyError) as error:
        raise UserError(str(error)) from None


def option_of(study: Study, setting: str) -> str:
    """The command line's option of a setting; "" if it has none."""
    extra = study.asked.model_fields[setting].json_schema_extra
    return str(extra.get("option", "")) if isinstance(extra, dict) else ""


def _asked(request: RunRequest, profile: Profile) -> Asked:
    study = request.study
    _refuse_unknown(study, profile.set, f"profile {request.profile}: set")
    _refuse_unknown(study, request.sets, "--set")
    twice = request.options.keys() & request.sets.keys()
    if twice:
        name = min(twice)
        raise UserError(f"--set {name}: was given with {option_of(study, name)}, too; leave one "
                        "out")
    try:
        of_profile = study.asked.model_validate(profile.set)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"profile {request.profile}: set.{_where(first)}: {_what(first)}") from None
    values = {name: getattr(of_profile, name) for name in profile.set}
    texts = {**request.options, **request.sets}
    try:
        # Words of the command line are texts, which become numbers here and nowhere else.
        return study.asked.model_validate(
            values | {name: _parsed(text) for name, text in texts.items()}, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        option = option_of(study, name) if name in request.options else f"--set {name}"
        given = f" {texts[name]}" if name in request.options else f"={texts.get(name, '')}"
        raise UserError(f"{option}{given}: {_what(first)}") from None


def _refuse_unknown(study: Study, settings: Mapping[str, Any], where: str) -> None:
    known = study.asked.model_fields
    for name in settings:
        if name not in known:
            raise UserError(f"{where} {name}: {study.id} has no such setting; "
                            + (f"choose from {', '.join(known)}" if known else "it has none"))


def _parsed(text: str) -> Any:
    """A text, or what it is in JSON where it is a list or an object."""
    if text[:1] in ("[", "{"):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    return text


def _where(error: ErrorDetails) -> str:
    return ".".join(map(str, error["loc"]))


def _what(error: ErrorDetails) -> str:
    return " ".join(error["msg"].removeprefix("Value error, ").split())


def _levels(factor: Factor, request: RunRequest, profile: Profile) -> list[Level]:
    """The levels of a factor that are to be measured."""
    names, files = list(request.levels.get(factor.name, ())), request.files.get(factor.name, ())
    is_of_profile = not names and not files
    if is_of_profile:
        names = [str(level) for level in profile.only.get(factor.name, ())]
    try:
        levels = list(factor.read(names, files))[-1 if request.is_single else 0:]
    except StudyError as error:
        how = f"profile {request.profile}: only.{factor.name}: " if is_of_profile and names else \
            _named_by(factor, names, str(error), is_single=request.is_single)
        raise StudyError(f"{how}{error}") from None
    where = f"{request.study.id}, factor {factor.name}"
    if not levels:
        raise UserError(f"{where}: has no levels; nothing would be measured")
    for level in levels:
        if not _ID.fullmatch(level.id):
            raise UserError(f"{where}: level {level.id!r} cannot be part of a file's name; use up "
                            "to 40 letters, digits, '.', '+', '-' and '_'")
    repeated = [name for name, count in Counter(level.id for level in levels).items() if count > 1]
    if repeated:
        raise UserError(f"{where}: level {repeated[0]} is there twice; leave one out")
    return levels


def _named_by(factor: Factor, names: Sequence[str], said: str, *, is_single: bool) -> str:
    """The option that named the level which an error begins with; "" where a file is wrong."""
    if not any(said.startswith(f"{name}: ") for name in names
               if not name.endswith((".yml", ".yaml"))):
        return ""
    if is_single:
        return f"--{factor.name} "
    return f"{factor.option} " if factor.option else f"--only {factor.name}="


def _check_devices(made: Plan) -> None:
    """Refuse devices where nothing would compute as slowly as they say."""
    if made.settings.clock == CHARGING:
        return
    for testbed in made.testbeds.values():
        for node, document in devices(testbed.spec).items():
            if not from_json(Device, document).is_neutral:
                raise UserError(f"{node}: device {document['name']}: no effect by the "
                                f"{made.settings.clock} clock; leave it out, or measure with "
                                f"--clock {CHARGING}, where programs that charge their work do")


def _check_cells(study: Study, cells: Sequence[Cell]) -> None:
    if not cells:
        raise UserError(f"{study.id}: has no cell of these levels; choose others")
    names = Counter(cell.name for cell in cells)
    for name, count in names.items():
        if count > 1:
            raise UserError(f"{study.id}: two cells are called {name}; give their levels other ids")
