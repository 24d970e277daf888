"""Profiles: how much a run measures, as YAML files in harness/profiles/ or of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import UserError

FOLDER = Path(__file__).parent / "profiles"
DEFAULT = "quick"


class Profile(BaseModel):
    """What a profile decides; options of the command line go before it. Sizes in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    title: str
    repetitions: int = Field(ge=1, le=999)
    stream_bytes: int = Field(ge=1)
    #: Unrecorded repetitions of small streams that every testbed begins with.
    warm_up: int = Field(default=1, ge=0, le=10)
    #: Whether captures of streams keep every packet, or a sample of those that are as expected.
    stream_captures: Literal["whole", "sampled"] = "whole"


def names() -> list[str]:
    """Names of the profiles that come with the project, the default first."""
    found = sorted(path.stem for path in FOLDER.glob("*.yml"))
    return [DEFAULT, *(name for name in found if name != DEFAULT)]


def load(name: str) -> Profile:
    """A profile by its name, or from a `.yml` file; raises UserError."""
    path = Path(name) if name.endswith((".yml", ".yaml")) else FOLDER / f"{name}.yml"
    if not path.is_file():
        raise UserError(f"--profile {name}: no such profile; choose from {', '.join(names())}, or "
                        "give a .yml file")
    try:
        return Profile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "top level"
        raise UserError(f"{path}: {where}: {first['msg']}; see harness/profiles/ for examples") \
            from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read ({' '.join(str(error).split())[:200]}); give a "
                        "YAML file") from None
