"""The manifest of a results folder, `plan.json`: all that a report needs beside the records.

It keeps what every level says (a policy's layers, a scenario's network), the media and devices, and
the settings, so that a folder copied to another machine gives the same report there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from measure.record import Part, StudyRecord, said

FILE = "plan.json"
SCHEMA = 2

#: Makes the manifest of an earlier schema today's, given its folder.
Upgrade = Callable[[dict[str, Any], Path], dict[str, Any]]


class ManifestError(ValueError):
    """A folder without a manifest that this version can read; one line for the user."""


class LevelRecord(Part):
    """One level of a factor; `content` is all that it says, `digest` tells it from a changed one."""

    title: str = ""
    number: float | None = None
    digest: str = ""
    content: dict[str, Any] = {}


class FactorRecord(Part):
    """What was varied."""

    name: str
    title: str
    is_number: bool = False
    unit: str = ""


class Manifest(Part):
    """What a run set out to measure.

    `cells` are rows of level ids, in the order of `factors`. `asked` are the workload's settings,
    `settings` the engine's (repetitions, seed, clock, machine, builder, fault, warm-up). `media` and
    `devices` hold the documents of those in use, by name.
    """

    schema_: int = Field(alias="schema")
    study: StudyRecord
    factors: list[FactorRecord]
    levels: dict[str, dict[str, LevelRecord]]
    cells: list[list[str]]
    asked: dict[str, Any]
    settings: dict[str, Any]
    media: dict[str, dict[str, Any]] = {}
    devices: dict[str, dict[str, Any]] = {}
    digest: str


def read(folder: Path, upgrades: dict[int, Upgrade] | None = None) -> Manifest:
    """The manifest of a results folder; raises ManifestError."""
    path = folder / FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ManifestError(f"{path}: cannot be read ({error}); give a results folder") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    try:
        if schema != SCHEMA and upgrades and schema in upgrades:
            document = upgrades[schema](document, folder)
        return Manifest.model_validate(document)
    except ValidationError as error:
        raise ManifestError(f"{path}: {said(error)}; not the plan of a run") from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ManifestError(f"{path}: schema {schema}, which does not fit ({error}); "
                            "use the version that wrote it") from None
