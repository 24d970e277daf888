"""Write and read the checksums of a results folder, and find policies that have changed since.

SHA256SUMS lists the folder's files in the format of sha256sum: `write_sums` writes it, `read_sums`
reads it. A run that adds to a folder removes the file (`remove_sums`), because it would become
wrong. `hash_results` computes one digest of plan and records, which a report shows.
`find_changed_builtins` compares the plan's policies, scenarios, media and devices with those of the
same name in this version of qop.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.portable.folder import (
    PACKING_LIST_FILE,
    PLAN_FILE,
    SUMS_FILE,
    FileKind,
    find_file_kind,
    is_safe_path,
    scan_folder,
)
from measure.records.document import has_digest
from measure.records.manifest import LevelRecord, Manifest
from measure.records.record import read_document
from studies import release_factor
from studies.study import Factor, Level, Study, StudyError
from topologies.checks import TopologyError
from topologies.device import Device
from topologies.loader import device_names, load_device, load_medium, medium_names
from topologies.model import Medium, from_json

# --- SHA256SUMS ---

CHUNK_BYTES = 1 << 18
_SUM_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
#: Kinds that are not listed: they can be created from records at any time, so they may change.
_FREE_NAMES = frozenset({FileKind.REPORT, FileKind.SUMS, FileKind.PACKING_LIST})


class ChecksumError(ValueError):
    """An error: text is not in the format of sha256sum. The message is one line for the user."""


def parse_sums(text: str, where: str) -> dict[str, str]:
    """Parse the text of a SHA256SUMS file to checksums by path.

    Raises:
        ChecksumError: A line is no checksum, or a path occurs twice.
    """
    sums: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _SUM_LINE.fullmatch(line)
        if not match or not is_safe_path(match[2]):
            raise ChecksumError(f"{where}: line {number} is not a checksum of a file below it")
        if match[2] in sums:
            raise ChecksumError(f"{where}: line {number} names a file for the second time")
        sums[match[2]] = match[1]
    return sums


def render_sums(sums: Mapping[str, str]) -> str:
    """Return the text of a SHA256SUMS file, in order of path."""
    return "".join(f"{digest}  {path}\n" for path, digest in sorted(sums.items()))


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_listed(path: str) -> bool:
    """Return whether SHA256SUMS of a results folder lists this file.

    Reports and SHA256SUMS itself are not listed.
    """
    return find_file_kind(path) not in {*_FREE_NAMES, None}


def read_sums(folder: Path) -> dict[str, str] | None:
    """Return the checksums in a folder's SHA256SUMS, or None if it has none.

    Raises:
        ChecksumError: The file is invalid.
    """
    path = folder / SUMS_FILE
    try:
        return parse_sums(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ChecksumError(f"{path}: is not text") from None


def write_sums(folder: Path, known: Mapping[str, str]) -> int:
    """Write SHA256SUMS of a results folder and return the number of files in it.

    Args:
        folder: The results folder.
        known: Checksums by path that are not computed again. They stay in the list even if the file
            is absent, so that a changed or lost file is still detected.

    Raises:
        OSError: A file cannot be read or written.
    """
    sums = {path: digest for path, digest in known.items() if is_listed(path)}
    sums |= {path: hash_file(file) for path, file in scan_folder(folder).files.items()
             if is_listed(path) and path not in sums}
    replace_file(folder / SUMS_FILE, render_sums(sums))
    # manifest.json lists the sizes of an archive, and the folder differs from the archive now.
    (folder / PACKING_LIST_FILE).unlink(missing_ok=True)
    return len(sums)


def remove_sums(folder: Path) -> None:
    """Remove SHA256SUMS and manifest.json, which become wrong when the folder changes."""
    for name in (SUMS_FILE, PACKING_LIST_FILE):
        (folder / name).unlink(missing_ok=True)


def replace_file(path: Path, text: str) -> None:
    """Write a small text file.

    If writing fails, the old file remains unchanged.

    Raises:
        OSError: The file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


# --- Levels, media and devices of a plan that differ from qop's own of the same names ---

_NOT_BUILTIN = ("is not qop's own of that name: somebody's file has its name, "
                "or it has changed since")


def find_changed_builtins(plan: Manifest) -> list[str]:
    """Return a line for each level in a plan (such as a policy) that differs from qop's own.

    Media and devices are compared, too.
    """
    try:
        study = release_factor.load_study(plan.study.id, plan.levels)
    except StudyError:
        return []
    lines = [f"{factor.name} {name} {_NOT_BUILTIN}" for factor, name, entry
             in _iterate_levels(study, plan)
             if entry.digest and (own := _load_builtin_level(factor, name)) is not None
             and entry.digest != own.digest]
    lines += _find_changed("medium", plan.media, medium_names(), Medium, _medium_forms)
    return lines + list(_find_changed("device", plan.devices, device_names(), Device,
                                      lambda name: [load_device(name)]))


def find_changed_texts(study: Study, plan: Manifest) -> Iterator[str]:
    """Yield a line for each changed title, number or content of a level that comes with qop.

    A level is a policy or a scenario, for instance. Only levels with an unchanged digest are
    compared, because titles, drives and places are in no digest.
    """
    for factor, name, entry in _iterate_levels(study, plan):
        own = _load_builtin_level(factor, name)
        if own is None or own.digest != entry.digest:
            continue
        for what, then, here in (("title", entry.title, own.title),
                                 ("number", entry.number, own.number)):
            if then != here:
                yield (f"levels.{factor.name}.{name}.{what} is {then!r}, and {here!r} comes with "
                       "qop")
        if entry.content and own.content and entry.title == own.title and (
                entry.content != json.loads(json.dumps(dict(own.content)))):
            yield f"levels.{factor.name}.{name}.content is another one than comes with qop"


def _iterate_levels(study: Study, plan: Manifest) -> Iterator[tuple[Factor, str, LevelRecord]]:
    for factor in study.factors:
        for name, entry in plan.levels.get(factor.name, {}).items():
            yield factor, name, entry


def _load_builtin_level(factor: Factor, name: str) -> Level | None:
    """Return the level (such as a policy) that qop ships under a name, None if there is none."""
    # A path would be read relative to the current directory.
    if "/" in name or name.endswith((".yml", ".yaml")):
        return None
    try:
        return next(iter(factor.read([name], [])), None)
    except Exception:  # noqa: BLE001 - a study's own code may raise anything for a name
        return None


def _medium_forms(name: str) -> Sequence[Medium]:
    """Return the forms in which a plan may store a built-in medium: with and without contention."""
    medium = load_medium(name)
    return medium, medium.without_contention


def _find_changed(what: str, documents: Any, names: Sequence[str], kind: type[Any],
                  load_builtin: Callable[[str], Sequence[Any]]) -> Iterator[str]:
    for name, document in documents.items():
        if name not in names:
            continue
        try:
            is_own = from_json(kind, document) in load_builtin(name)
        except (TopologyError, AttributeError, LookupError, TypeError, ValueError):
            is_own = False
        if not is_own:
            yield f"{what} {name} {_NOT_BUILTIN}"


# --- Digest of results, and the seal (SHA256SUMS) of their folder ---
# The digest is one line for the plan and all records, and is the same in every copy. A reader who
# knows it sees whether anything behind a table was changed, even if SHA256SUMS was written again.

#: Files that a report reads; `./qop verify` checks captures.
_REPORT_KINDS = frozenset({FileKind.PLAN, FileKind.RECORD})
_BY_HAND = "sha256sum plan.json records/*.json | sha256sum"


@dataclass(frozen=True)
class ResultsSeal:
    """A digest of a folder's plan and records, with lines that a reader of the report must know.

    `bare` names the files without a digest of their own, "" if there are none.
    """

    digest: str
    bare: str = ""
    notices: tuple[str, ...] = ()


def hash_results(sums: Mapping[str, str]) -> str:
    """Return one digest of plan and records, computed from the checksums of the files.

    _BY_HAND is a shell command with the same result.
    """
    taken = {path: digest for path, digest in sums.items() if find_file_kind(path) in _REPORT_KINDS}
    return hashlib.sha256(render_sums(taken).encode()).hexdigest()


def read_seal(folder: Path, plan: Manifest | None) -> ResultsSeal:
    """Read the checksums of a results folder, as far as a report depends on them.

    Raises:
        OSError: A file cannot be read.
    """
    sums: dict[str, str] = {}
    bare: list[str] = []
    for path in [folder / PLAN_FILE, *sorted((folder / "records").glob("*.json"))]:
        relative = path.relative_to(folder).as_posix()
        if find_file_kind(relative) not in _REPORT_KINDS or not path.is_file() or path.is_symlink():
            continue
        content = read_document(path)
        sums[relative] = hashlib.sha256(content).hexdigest()
        if not has_digest(content):
            bare.append(relative)
    return ResultsSeal(hash_results(sums), next(report_missing_digests(bare, len(sums)), ""),
                       (*_report_broken(folder, sums),
                        *(find_changed_builtins(plan) if plan else ())))


def report_missing_digests(bare: list[str], count: int) -> Iterator[str]:
    """Yield a line about plan and records that contain no digest of their own content."""
    if bare:
        more = f" and {len(bare) - 1} more" if len(bare) > 1 else ""
        yield (f"no digest in {bare[0]}{more}, of {count}: written by an earlier version, or "
               "edited; a change there does not show by itself")


def _report_broken(folder: Path, sums: Mapping[str, str]) -> Iterator[str]:
    """Yield a line if a file that the report reads does not match SHA256SUMS."""
    try:
        sealed = read_sums(folder)
    except (ChecksumError, OSError) as error:
        yield f"the seal is broken: {error}; './qop verify {folder}' tells more"
        return
    if sealed is None:
        return
    broken = [f"{path} is not what it was when {SUMS_FILE} was written" for path, digest
              in sums.items()
              if path in sealed and sealed[path] != digest]
    broken += [f"{path} is not listed in {SUMS_FILE}" for path in sums if path not in sealed]
    broken += [f"{path} is missing; {SUMS_FILE} lists it" for path in sealed
               if find_file_kind(path) in _REPORT_KINDS and path not in sums]
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        yield f"the seal is broken: {broken[0]}{more}; './qop verify {folder}' names all"
