"""Reads the manifest of a results folder, where there may be none."""

from __future__ import annotations

from pathlib import Path

from measure.manifest import Manifest, ManifestError
from studies import records as stored


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest kept in a folder, or None where there is none to be read."""
    try:
        return stored.read_manifest(folder)
    except ManifestError:
        return None
