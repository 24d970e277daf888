"""Read the manifest of a results folder. An unreadable manifest is an error."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UserError
from measure.manifest import FILE, Manifest, ManifestError
from studies import records as stored


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a folder, or None without one.

    A damaged manifest, or one of another version, never counts as absent: records depend on it.

    Raises:
        UserError: The manifest cannot be read.
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
    """Return the manifest of a folder, or None if there is none that can be read."""
    try:
        return read_manifest(folder)
    except UserError:
        return None
