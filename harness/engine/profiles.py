"""Profiles: YAML files that say how much a run measures.

They are in the folder profiles/ of a study, or written by the user.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import UserError
from studies import FOLDER
from studies.study import Clock, Study
from studies.wording import describe_refusal
from topologies.numbers import MisreadNumber
from topologies.reading import StrictLoader

DEFAULT = "quick"


class ByClock(BaseModel):
    """A profile's changes for one clock, by which a repetition takes less or more time."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    title: str = ""
    repetitions: int | None = Field(default=None, ge=1, le=999)
    set: dict[str, Any] = {}


class Profile(BaseModel):
    """A profile. Options of the command line take precedence over it.

    `set` has settings of the study's workload, `only` the levels of its factors. `clock` is for
    profiles that the study's own clock cannot measure.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    title: str
    repetitions: int = Field(default=3, ge=1, le=999)
    #: Number of unrecorded repetitions that every testbed starts with.
    warm_up: int = Field(default=1, ge=0, le=10)
    clock: Clock | None = None
    set: dict[str, Any] = {}
    only: dict[str, Annotated[list[str | int | float], Field(min_length=1)]] = {}
    by_clock: dict[Clock, ByClock] = {}

    @property
    def settings(self) -> frozenset[str]:
        """Return the names of all settings that the profile sets, if only for one clock."""
        return frozenset(self.set).union(*(own.set for own in self.by_clock.values()))

    def for_clock(self, clock: Clock) -> Profile:
        """Return the profile with its changes for this clock."""
        own = self.by_clock.get(clock, ByClock())
        return self.model_copy(update={
            "title": own.title or self.title, "repetitions": own.repetitions or self.repetitions,
            "set": {**self.set, **own.set}})


def profile_names(study: Study) -> list[str]:
    """Return the names of a study's profiles, the default first.

    The default exists even without a file, and then has only default values.
    """
    own = sorted(path.stem for path in _folder(study).glob("*.yml"))
    return [DEFAULT, *(name for name in own if name != DEFAULT)]


def find_only_study(name: str) -> str:
    """Return the only study that has a profile of this name.

    The result is "" if no study has one, or several have one.
    """
    having = [path.parent.parent.name for path in FOLDER.glob("*/profiles/*.yml")
              if path.stem == name]
    return having[0] if len(having) == 1 else ""


def load_profile(study: Study, name: str) -> Profile:
    """Return a profile, by its name or from a `.yml` file.

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
    examples = f"see studies/{study.id}/profiles/ for examples" if _folder(study).is_dir() else \
        "see docs/running.md for an example"
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), StrictLoader)  # noqa: S506 - a safe one
        profile = Profile.model_validate(_move_settings(document, study))
    except ValidationError as error:
        raise UserError(f"{path}: {describe_refusal(error)}; {examples}") from None
    except MisreadNumber as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{path}:{line}: {error.problem}; {error.note}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read ({' '.join(str(error).split())[:200]}); give a "
                        "YAML file") from None
    factors = [factor.name for factor in study.factors]
    for factor in profile.only:
        if factor not in factors:
            raise UserError(f"{path}: only.{factor}: {study.id} has no such factor; it has "
                            f"{', '.join(factors)}")
    return profile


def _move_settings(document: Any, study: Study) -> Any:
    """Move settings of the workload from the top level of a document to `set`.

    Profiles of earlier versions, from the time of a single study, have them at the top level.
    """
    own = {name for name in document if name in study.asked.model_fields} \
        if isinstance(document, dict) else set()
    if not own or not isinstance(document.get("set", {}), dict):
        return document
    for name in own & document.get("set", {}).keys():
        raise yaml.YAMLError(f"{name} is there twice, at the top and in set")
    rest = {name: value for name, value in document.items() if name not in own}
    return {**rest, "set": {**{name: document[name] for name in own}, **document.get("set", {})}}


def _folder(study: Study) -> Path:
    return FOLDER / study.id / "profiles"
