"""Read profiles: YAML files that define how much a run measures, such as `quick` or `full`.

A profile has a number of repetitions, settings, and the policies and scenarios to measure. Profiles
are in the folder profiles/ of a study, or written by the user. `load_profile` takes a profile's
name or file and returns a validated `Profile`. Options of the command line take precedence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from documents.refusals import MISREADING_ADVICE, explain_refusal
from documents.unquoted import validate_values
from documents.yaml_reader import YamlDocument, YamlProblem, YamlRules, parse_yaml, read_text
from harness.errors import UserError
from studies.search_path import place_of_study, search_folders, study_folder
from studies.study import Clock, Study

DEFAULT = "quick"
_RULES = YamlRules("profile", manual="docs/running.md", has_aliases=True,
                   empty="write title: and repetitions:")


class ClockOverrides(BaseModel):
    """A profile's changes for one clock, because repetitions take less or more time with it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    title: str = ""
    repetitions: int | None = Field(default=None, ge=1, le=999)
    set: dict[str, Any] = {}


class Profile(BaseModel):
    """A profile: repetitions, settings and levels of a run.

    Options of the command line take precedence over it. `set` has settings of the study's workload,
    `only` the levels of its factors, such as policies. `baseline` has the level of a factor that
    differences refer to, in place of the study's. `clock` is for profiles that the study's own
    clock cannot measure.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    title: str
    repetitions: int = Field(default=3, ge=1, le=999)
    #: Number of unrecorded repetitions that every testbed starts with.
    warm_up: int = Field(default=1, ge=0, le=10)
    clock: Clock | None = None
    set: dict[str, Any] = {}
    only: dict[str, Annotated[list[str | int | float], Field(min_length=1)]] = {}
    baseline: dict[str, str] = {}
    by_clock: dict[Clock, ClockOverrides] = {}

    @property
    def settings(self) -> frozenset[str]:
        """Return the names of all settings in the profile, including those for one clock only."""
        return frozenset(self.set).union(*(own.set for own in self.by_clock.values()))

    def for_clock(self, clock: Clock) -> Profile:
        """Return a copy of the profile with its changes for this clock applied."""
        own = self.by_clock.get(clock, ClockOverrides())
        return self.model_copy(update={
            "title": own.title or self.title, "repetitions": own.repetitions or self.repetitions,
            "set": {**self.set, **own.set}})


def profile_names(study: Study) -> list[str]:
    """Return the names of a study's profiles, the default first.

    The default profile exists even without a file, and then has only default values.
    """
    own = sorted(path.stem for path in _folder(study).glob("*.yml"))
    return [DEFAULT, *(name for name in own if name != DEFAULT)]


def find_only_study(name: str) -> str:
    """Return the name of the only study with a profile of this name.

    The result is "" if no study or several studies have such a profile.
    """
    having = [path.parent.parent.name for folder in search_folders()
              for path in folder.glob("*/profiles/*.yml") if path.stem == name]
    return having[0] if len(having) == 1 else ""


def load_profile(study: Study, name: str) -> Profile:
    """Read and validate a profile, given by its name or as a `.yml` file.

    Args:
        study: The study of the profile.
        name: Name of a profile of the study, or path of a file.

    Raises:
        UserError: There is no such profile, or it is not valid.
    """
    path = Path(name) if name.endswith((".yml", ".yaml")) else _folder(study) / f"{name}.yml"
    if not path.is_file():
        if name == DEFAULT:
            return Profile(title="all cells, 3 repetitions")
        raise UserError(f"--profile {name}: no such profile; choose from "
                        f"{', '.join(profile_names(study))}, or give a .yml file")
    examples = f"see {place_of_study(study.id)}/profiles/ for examples" \
        if _folder(study).is_dir() else "see docs/running.md for an example"
    try:
        document = parse_yaml(name, read_text(str(path), _RULES), _RULES)
        _refuse_misread_settings(document)
        values = _move_settings(document, study)
    except YamlProblem as problem:
        raise UserError(f"{problem.format_place(path)}: {problem.what}; {problem.advice}") \
            from None
    try:
        profile = validate_values(Profile.model_validate, values, document.spots.get)
    except ValidationError as error:
        refusal = explain_refusal(error, document, Profile, examples)
        raise UserError(f"{path}:{refusal.line}: {refusal.name}: {refusal.what}; "
                        f"{refusal.advice}") from None
    factors = [factor.name for factor in study.factors]
    for field, factor in [*(("only", name) for name in profile.only),
                          *(("baseline", name) for name in profile.baseline)]:
        if factor not in factors:
            raise UserError(f"{path}: {field}.{factor}: {study.id} has no such factor; it has "
                            f"{', '.join(factors)}")
    return profile


def _refuse_misread_settings(document: YamlDocument) -> None:
    """Refuse numbers that YAML 1.1 misreads in settings, whose types only the study knows."""
    for path, spot in document.spots.items():
        if spot.misreading and "title" not in path:
            raise YamlProblem(spot.line, f"{'.'.join(map(str, path))}: {spot.misreading}",
                              MISREADING_ADVICE + ", or the text in quotes")


def _move_settings(document: YamlDocument, study: Study) -> dict[str, Any]:
    """Move the workload's settings in an old profile from the top level to `set`.

    Profiles of earlier versions of qop have these settings at the top level.
    """
    data = document.data
    own = {name for name in data if name in study.settings_type.model_fields}
    if not own or not isinstance(data.get("set", {}), dict):
        return data
    for name in own & data.get("set", {}).keys():
        raise YamlProblem(document.spots[name,].key_line,
                          f"{name} is there twice, at the top and in set", "keep one of them")
    others = {name: value for name, value in data.items() if name not in own}
    return {**others, "set": {**{name: data[name] for name in own}, **data.get("set", {})}}


def _folder(study: Study) -> Path:
    return study_folder(study.id) / "profiles"
