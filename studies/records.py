"""Read records and manifests of any study and any schema, with the upgrades that studies know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import studies
from measure import manifest, record
from measure.manifest import Manifest
from measure.record import Record


def _of_records() -> Mapping[int, record.Upgrade]:
    """By the schema that each reads. Schema 1 named no study: all it knew was the default one."""
    return studies.load(studies.DEFAULT).record_upgrades


def _of_manifests() -> Mapping[int, manifest.Upgrade]:
    return studies.load(studies.DEFAULT).manifest_upgrades


def read(path: Path) -> Record:
    """Read a record; raises RecordError for anything else."""
    return record.read(path, _of_records())


def parse(text: str | bytes, where: str) -> Record:
    """The record that a text is; raises RecordError, which names `where` it stands."""
    return record.parse(text, where, _of_records())


def read_all(folder: Path) -> tuple[list[Record], list[str]]:
    """Every record of a folder in order of name, and a line for each file that is none."""
    return record.read_all(folder, _of_records())


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a results folder; raises ManifestError."""
    return manifest.read(folder, _of_manifests())


def parse_manifest(text: str | bytes, where: str, history: Sequence[Any] = ()) -> Manifest:
    """The manifest that a text is, with what its folder was made with; raises ManifestError."""
    return manifest.parse(text, where, _of_manifests(), history)
