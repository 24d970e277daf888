"""Read records and manifests of any study and any schema, with the upgrades that studies know."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure import manifest, record
from measure.manifest import Manifest
from measure.record import Record, Upgrade
from studies.qop2007.body import from_schema_1
from studies.qop2007.former_plan import plan_from_schema_1

#: By the schema that each reads. Schema 1 knew one study only.
UPGRADES: dict[int, Upgrade] = {1: from_schema_1}
MANIFEST_UPGRADES: dict[int, manifest.Upgrade] = {1: plan_from_schema_1}


def read(path: Path) -> Record:
    """Read a record; raises RecordError for anything else."""
    return record.read(path, UPGRADES)


def parse(text: str | bytes, where: str) -> Record:
    """The record that a text is; raises RecordError, which names `where` it stands."""
    return record.parse(text, where, UPGRADES)


def read_all(folder: Path) -> tuple[list[Record], list[str]]:
    """Every record of a folder in order of name, and a line for each file that is none."""
    return record.read_all(folder, UPGRADES)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a results folder; raises ManifestError."""
    return manifest.read(folder, MANIFEST_UPGRADES)


def parse_manifest(text: str | bytes, where: str, history: Sequence[Any] = ()) -> Manifest:
    """The manifest that a text is, with what its folder was made with; raises ManifestError."""
    return manifest.parse(text, where, MANIFEST_UPGRADES, history)
