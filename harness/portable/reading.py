"""Reads the manifest of a results folder: none where there is no file, an error where it is bad."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UserError
from measure.manifest import FILE, Manifest, ManifestError
from studies import records as stored


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest kept in a folder, or None without one; raises UserError if it cannot be read.

    What is of another version, or damaged, is never taken for absent: records depend on it.
    """
    if not (folder / FILE).exists():
        return None
    try:
        return stored.read_manifest(folder)
    except ManifestError as error:
        what = str(error).partition("; ")[0]
        raise UserError(f"{what}; use the version that wrote it, or move {FILE} away if it is "
                        "damaged") from None


def readable_manifest(folder: Path) -> Manifest | None:
    """The same for looking through folders, where one that cannot be read is passed over."""
    try:
        return read_manifest(folder)
    except UserError:
        return None
