"""Read and verify the plan of a measurement, which its results folder has as `plan.json`.

This file, the manifest, has all that the run was to measure. It has the content of every policy,
scenario and similar value of a factor (`LevelRecord`), the emulated air, devices and settings. So a
folder that is copied to another machine gives an equal report there. `parse_manifest` takes the
text, and returns a `Manifest`. `check_unaltered` compares its content with its digests. Reports and
the run command use it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from measure.records.document import (
    DIGEST_FIELD,
    find_non_finite,
    matches_digest,
    seal_text,
    to_printable,
)
from measure.records.record import (
    Record,
    RecordPart,
    StudyRecord,
    describe_validation_error,
    format_programs,
    read_document,
)

FILE = "plan.json"
SCHEMA = 2
#: Name of the Debian release of the guests, as a factor or as a setting of the run.
RELEASE = "release"
#: The release of plans that name none.
_DEFAULT_RELEASE = "bookworm"

#: Settings of how much is measured: another run may ask for more repetitions of the plan.
#: `looks` are those of a sequential design, in folders that have one.
HOW_MUCH = ("repetitions", "looks")
#: File with the circumstances of all runs that made a folder's results, as a list.
HISTORY = "provenance.json"


class ManifestError(ValueError):
    """An error: the manifest of a folder cannot be read. The text is one line for the user."""

    def __init__(self, text: str) -> None:
        super().__init__(to_printable(text))


class LevelRecord(RecordPart):
    """A level of a factor in plan.json, such as one policy, with its content and digest."""

    title: str = ""
    number: float | None = None
    digest: str = ""
    content: dict[str, Any] = Field(default_factory=dict)


class FactorRecord(RecordPart):
    """A factor in plan.json: a property that the study varies, such as the policy."""

    name: str
    title: str
    is_number: bool = False
    unit: str = ""


class Manifest(RecordPart):
    """The plan of a run, as stored in plan.json.

    - `cells`: combinations to measure, each a row of level ids in the order of `factors`.
    - `asked`: the workload's settings.
    - `settings`: the engine's settings (repetitions, seed, clock, machine, builder, fault,
      warm-up).
    - `media`, `devices`: the documents in use, by name.
    - `wires`: descriptions of what links do to packets.
    - `baseline`: the level of a factor that differences refer to, where the profile names one.
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
    baseline: dict[str, str] = Field(default_factory=dict)
    digest: str
    content_sha256: str = ""

    @property
    def has_valid_digest(self) -> bool:
        """Return whether the stored digest matches the manifest's content."""
        return self.digest == plan_digest(self.model_dump(mode="json", by_alias=True))

    @property
    def planned(self) -> int:
        """Return how many repetitions are planned, without those that a stopping rule adds."""
        return len(self.cells) * int(self.settings["repetitions"])

    @property
    def releases(self) -> tuple[str, ...]:
        """Return the suites (names such as "trixie") of the guests' Debian releases.

        A plan with the default release does not store its suite.
        """
        return tuple(self.levels.get(RELEASE, {})) or (
            str(self.settings.get(RELEASE, _DEFAULT_RELEASE)),)

    @property
    def own_programs(self) -> str:
        """Return the user's own daemons (`--programs`) with their versions, "" without any."""
        return format_programs(self.settings.get("programs"))

    def contains(self, entry: Record) -> bool:
        """Return whether the plan contains the repetition that a record is about."""
        return (list(entry.cell.values()) in self.cells
                and 1 <= entry.repetition <= int(self.settings["repetitions"]))

    def is_compatible_with(self, other: Manifest) -> bool:
        """Return whether a run of this plan can use results that were measured by another plan.

        The digests of both plans must be equal. Then there are two cases:

        - A level was edited: its digest differs. The results can be used, because each record has
          the digests of its levels, and is compared on its own.
        - No level was edited: the levels' numbers (the values on axes) and the wires must be equal.
          Records do not contain them, and reports state them.
        """
        if self.digest != other.digest:
            return False
        pairs = [(level, other.levels[factor][name]) for factor, levels in self.levels.items()
                 for name, level in levels.items() if name in other.levels.get(factor, {})]
        if any(level.digest != stored.digest for level, stored in pairs):
            return True
        # The first manifests of schema 2 have no wires.
        are_known = "wires" in self.model_fields_set & other.model_fields_set
        return (all(level.number == stored.number for level, stored in pairs)
                and (self.wires == other.wires or not are_known))

    def describe_difference(self, other: Manifest) -> str:
        """Return in a few words the first difference between this plan and another one."""
        if self.study != other.study:
            return (f"study {self.study.id} version {self.study.version} there, {other.study.id} "
                    f"version {other.study.version} here")
        if self.releases != other.releases:
            return (f"release {', '.join(self.releases)} there, {', '.join(other.releases)} "
                    "here")
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
        """Return those engine settings that affect the measured results."""
        return {name: value for name, value in self.settings.items() if name not in HOW_MUCH}

    def to_text(self) -> str:
        """Return the content of `plan.json`, with the digest of its content."""
        plain = self.model_copy(update={DIGEST_FIELD: ""})
        return seal_text(plain.model_dump_json(by_alias=True, indent=1) + "\n")

    @model_validator(mode="after")
    def _counts(self) -> Manifest:
        repetitions = self.settings.get("repetitions")
        if not isinstance(repetitions, int) or isinstance(repetitions, bool) or repetitions < 0:
            raise ValueError("settings.repetitions: no number")
        _ = self.own_programs  # raises an error if they have another form
        return self


def _format_setting(settings: Mapping[str, Any], name: str) -> str:
    return " ".join(json.dumps(settings[name]).split())[:80] if name in settings else "not given"


def plan_digest(document: Mapping[str, Any]) -> str:
    """Return a hash of a plan's content, without the number of repetitions.

    A run is continued if this hash is equal. The content of levels is left out: if a level is
    edited, only its records are measured again.
    """
    settings = {name: value for name, value in document["settings"].items()
                if name not in HOW_MUCH}
    levels = {factor: list(levels) for factor, levels in document["levels"].items()}
    text = json.dumps([document["study"], levels, document["cells"], document["asked"], settings,
                       document["media"], document["devices"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_text(folder: Path) -> bytes:
    """Return the bytes of a folder's manifest (plan.json).

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
    """Return the provenance entries of a results folder: code, programs and host of its runs.

    The list is empty if they cannot be read.
    """
    try:
        entries = json.loads(read_document(folder / HISTORY))
    except (OSError, ValueError, RecursionError):
        return []
    return entries if isinstance(entries, list) else []


def parse_manifest(text: str | bytes, where: str) -> Manifest:
    """Parse the text of a manifest. The caller checks whether the manifest was altered.

    Args:
        text: The content of `plan.json`.
        where: Place for messages.

    Raises:
        ManifestError: The text is no manifest that this version can read.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{where}: cannot be read ({error}); give a results folder") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if isinstance(schema, int) and schema != SCHEMA:
        raise ManifestError(f"{where}: schema {schema}, this version reads {SCHEMA}; "
                            "use the version that wrote it")
    if name := find_non_finite(document):
        raise ManifestError(f"{where}: {name}: not a finite number; not the plan of a run")
    if isinstance(document, dict):  # earlier versions wrote the digests of schema 1
        document.pop("former_digests", None)
    try:
        manifest = Manifest.model_validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise ManifestError(
            f"{where}: {describe_validation_error(error)}; not the plan of a run") from None
    return manifest.model_copy(update={DIGEST_FIELD: ""})


def check_unaltered(manifest: Manifest, text: str | bytes, where: str) -> None:
    """Check that the content of a manifest matches the digests in it.

    Raises:
        ManifestError: The manifest was altered or damaged.
    """
    if not (manifest.has_valid_digest and matches_digest(text)):
        raise ManifestError(f"{where}: is not what its digest says; it was altered or damaged, "
                            "restore what was written")
