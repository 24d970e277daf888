"""Manifest of a results folder, `plan.json`: all that a report needs besides the records.

The manifest has the content of every level (a policy's layers, a scenario's network), the media and
devices, and the settings. So a folder that is copied to another machine gives the same report
there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from measure.document import (
    DIGEST_FIELD,
    find_non_finite,
    matches_digest,
    seal_text,
    to_printable,
)
from measure.record import Record, RecordPart, StudyRecord, describe_validation_error, read_document

FILE = "plan.json"
SCHEMA = 2

#: Settings of how much is measured: another run may ask for more repetitions of the plan.
HOW_MUCH = ("repetitions",)
#: File with the circumstances of all runs that made a folder's results, as a list.
HISTORY = "provenance.json"

#: Converts the manifest of an earlier schema to the current one, given the folder's history.
Upgrade = Callable[[dict[str, Any], Sequence[Any]], dict[str, Any]]


class ManifestError(ValueError):
    """A folder without a readable manifest, described in one line for the user."""

    def __init__(self, text: str) -> None:
        super().__init__(to_printable(text))


class LevelRecord(RecordPart):
    """A level of a factor, with its full `content` and the `digest` of the content."""

    title: str = ""
    number: float | None = None
    digest: str = ""
    content: dict[str, Any] = Field(default_factory=dict)


class FactorRecord(RecordPart):
    """A factor that a study varies."""

    name: str
    title: str
    is_number: bool = False
    unit: str = ""


class Manifest(RecordPart):
    """The plan of a run.

    - `cells`: rows of level ids, in the order of `factors`.
    - `asked`: the workload's settings.
    - `settings`: the engine's settings (repetitions, seed, clock, machine, builder, fault,
      warm-up).
    - `media`, `devices`: the documents in use, by name.
    - `wires`: descriptions of what links do to packets.
    - `content_sha256`: the digest of the file itself, "" in memory.
    """

    schema_: int = Field(alias="schema")
    study: StudyRecord
    factors: list[FactorRecord]
    levels: dict[str, dict[str, LevelRecord]]
    cells: list[list[str]]
    asked: dict[str, Any]
    settings: dict[str, Any]
    media: dict[str, dict[str, Any]] = Field(default_factory=dict)
    devices: dict[str, dict[str, Any]] = Field(default_factory=dict)
    wires: list[str] = Field(default_factory=list)
    digest: str
    #: Digests of this manifest in earlier schemas, which older records of this folder name.
    former_digests: list[str] = Field(default_factory=list)
    content_sha256: str = ""

    @property
    def has_valid_digest(self) -> bool:
        """Return whether `digest` matches the manifest's content."""
        return self.digest == plan_digest(self.model_dump(mode="json", by_alias=True))

    @property
    def planned(self) -> int:
        """Return the number of planned repetitions, without those that a stopping rule adds."""
        return len(self.cells) * int(self.settings["repetitions"])

    def contains(self, entry: Record) -> bool:
        """Return whether the plan includes this record's cell and repetition."""
        return (list(entry.cell.values()) in self.cells
                and 1 <= entry.repetition <= int(self.settings["repetitions"]))

    def is_compatible_with(self, other: Manifest) -> bool:
        """Return whether results measured under `other` can be reused.

        An edited level shows in its own digest, record by record. If no level was edited, the
        levels' numbers and the wires must be equal: nothing else would show a difference, and a
        report states them.
        """
        if self.digest != other.digest:
            return False
        pairs = [(level, other.levels[factor][name]) for factor, levels in self.levels.items()
                 for name, level in levels.items() if name in other.levels.get(factor, {})]
        if any(level.digest != there.digest for level, there in pairs):
            return True
        # Upgraded manifests and the first ones of schema 2 have no wires.
        are_known = "wires" in self.model_fields_set & other.model_fields_set
        return (all(level.number == there.number for level, there in pairs)
                and (self.wires == other.wires or not are_known))

    def describe_difference(self, other: Manifest) -> str:
        """Return the first difference between this plan and another, in a few words."""
        if self.study != other.study:
            return (f"study {self.study.id} version {self.study.version} there, {other.study.id} "
                    f"version {other.study.version} here")
        for mine, theirs in ((self.asked, other.asked),
                             (self._compared_settings, other._compared_settings)):
            for name in dict.fromkeys((*mine, *theirs)):
                if mine.get(name) != theirs.get(name):
                    return (f"{name} {_format_setting(mine, name)} there, "
                            f"{_format_setting(theirs, name)} here")
        for factor in dict.fromkeys((*self.levels, *other.levels)):
            if list(self.levels.get(factor, {})) != list(other.levels.get(factor, {})):
                return f"other levels of {factor}"
        what = next((what for what in ("cells", "media", "devices", "wires")
                     if getattr(self, what) != getattr(other, what)), "numbers of levels")
        return f"other {what}"

    @property
    def _compared_settings(self) -> dict[str, Any]:
        """Return the engine's settings that affect how it is measured."""
        return {name: value for name, value in self.settings.items() if name not in HOW_MUCH}

    def to_text(self) -> str:
        """Return the text of `plan.json`, with the digest of its content."""
        plain = self.model_copy(update={DIGEST_FIELD: ""})
        return seal_text(plain.model_dump_json(by_alias=True, indent=1) + "\n")

    @model_validator(mode="after")
    def _counts(self) -> Manifest:
        repetitions = self.settings.get("repetitions")
        if not isinstance(repetitions, int) or isinstance(repetitions, bool) or repetitions < 0:
            raise ValueError("settings.repetitions: no number")
        return self


def _format_setting(settings: Mapping[str, Any], name: str) -> str:
    return " ".join(json.dumps(settings[name]).split())[:80] if name in settings else "not given"


def plan_digest(document: Mapping[str, Any]) -> str:
    """Return the hash of a plan's content, without the number of repetitions.

    A run is continued if this hash is equal. The content of levels is left out: if a level is
    edited, only its records are measured again.
    """
    settings = {name: value for name, value in document["settings"].items()
                if name not in HOW_MUCH}
    levels = {factor: list(levels) for factor, levels in document["levels"].items()}
    text = json.dumps([document["study"], levels, document["cells"], document["asked"], settings,
                       document["media"], document["devices"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_manifest(folder: Path, upgrades: Mapping[int, Upgrade] | None = None) -> Manifest:
    """Read the manifest of a results folder.

    Args:
        folder: The results folder.
        upgrades: Upgrade functions by the schema that each reads.

    Raises:
        ManifestError: The manifest is missing or cannot be read.
    """
    return parse_manifest(read_text(folder), str(folder / FILE), upgrades, read_history(folder))


def read_text(folder: Path) -> bytes:
    """Return the text of a folder's manifest.

    Raises:
        ManifestError: The file cannot be read.
    """
    path = folder / FILE
    try:
        return read_document(path)
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read ({error.strerror or error}); give a results "
                            "folder") from None


def read_history(folder: Path) -> list[Any]:
    """Return the circumstances of a folder's runs, or nothing if they cannot be read."""
    try:
        entries = json.loads(read_document(folder / HISTORY))
    except (OSError, ValueError, RecursionError):
        return []
    return entries if isinstance(entries, list) else []


def parse_manifest(text: str | bytes, where: str, upgrades: Mapping[int, Upgrade] | None = None,
                   entries: Sequence[Any] = ()) -> Manifest:
    """Parse the text of a manifest.

    Args:
        text: The content of `plan.json`.
        where: Place for messages.
        upgrades: Upgrade functions by the schema that each reads.
        entries: The folder's history.

    Raises:
        ManifestError: The text is no manifest that this version can read.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{where}: cannot be read ({error}); give a results folder") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    upgrade = (upgrades or {}).get(schema) if isinstance(schema, int) else None
    if isinstance(schema, int) and schema != SCHEMA and upgrade is None:
        raise ManifestError(f"{where}: schema {schema}, this version reads {SCHEMA}; "
                            "use the version that wrote it")
    if name := find_non_finite(document):
        raise ManifestError(f"{where}: {name}: not a finite number; not the plan of a run")
    try:
        plain = json.dumps(upgrade(document, entries) if upgrade else document)
        manifest = Manifest.model_validate_json(plain, strict=True)
    except ValidationError as error:
        raise ManifestError(
            f"{where}: {describe_validation_error(error)}; not the plan of a run") from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ManifestError(f"{where}: schema {schema}, which does not fit ({what}); "
                            "use the version that wrote it") from None
    return manifest.model_copy(update={DIGEST_FIELD: ""})


def check_unaltered(manifest: Manifest, text: str | bytes, where: str) -> None:
    """Check that a manifest matches the digests in its text.

    Raises:
        ManifestError: The manifest was altered or damaged.
    """
    if not (manifest.has_valid_digest and matches_digest(text)):
        raise ManifestError(f"{where}: is not what its digest says; it was altered or damaged, "
                            "restore what was written")
