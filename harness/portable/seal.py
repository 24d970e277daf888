"""Compute the digest of results, and check the seal (SHA256SUMS) of their folder.

The digest is one line for the plan and all records, and is the same in every copy. A reader who
knows it sees whether anything behind a table was changed, even if SHA256SUMS was written again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.portable import builtin, checksums
from harness.portable.contents import PLAN, SUMS, FileKind, kind_of
from measure.document import has_digest
from measure.manifest import Manifest
from measure.record import read_document

#: Files that a report reads; `./qop verify` checks captures.
_READ = frozenset({FileKind.PLAN, FileKind.RECORD})
_BY_HAND = "sha256sum plan.json records/*.json | sha256sum"


@dataclass(frozen=True)
class Seal:
    """The digest of plan and records, with lines that a reader must know.

    `bare` names the files that carry no digest of their own, "" if all do.
    """

    digest: str
    bare: str = ""
    notices: tuple[str, ...] = ()


def digest_of(sums: Mapping[str, str]) -> str:
    """Return the digest of plan and records from checksums by path. _BY_HAND prints the same."""
    taken = {path: digest for path, digest in sums.items() if kind_of(path) in _READ}
    return hashlib.sha256(checksums.render_sums(taken).encode()).hexdigest()


def read_seal(folder: Path, plan: Manifest | None) -> Seal:
    """Return the seal of a results folder, as far as a report depends on it.

    Raises:
        OSError: A file cannot be read.
    """
    sums: dict[str, str] = {}
    bare: list[str] = []
    for path in [folder / PLAN, *sorted((folder / "records").glob("*.json"))]:
        relative = path.relative_to(folder).as_posix()
        if kind_of(relative) not in _READ or not path.is_file() or path.is_symlink():
            continue
        content = read_document(path)
        sums[relative] = hashlib.sha256(content).hexdigest()
        if not has_digest(content):
            bare.append(relative)
    return Seal(digest_of(sums), next(report_missing_digests(bare, len(sums)), ""),
                (*_report_broken(folder, sums),
                 *(builtin.find_changed_builtins(plan) if plan else ())))


def report_missing_digests(bare: list[str], count: int) -> Iterator[str]:
    """Yield a line about the documents that carry no digest of their own."""
    if bare:
        more = f" and {len(bare) - 1} more" if len(bare) > 1 else ""
        yield (f"no digest in {bare[0]}{more}, of {count}: written by an earlier version, or "
               "edited; a change there does not show by itself")


def _report_broken(folder: Path, sums: Mapping[str, str]) -> Iterator[str]:
    """Yield a line if a file that reports read differs from the folder's SHA256SUMS."""
    try:
        sealed = checksums.read_sums(folder)
    except (checksums.ChecksumError, OSError) as error:
        yield f"the seal is broken: {error}; './qop verify {folder}' tells more"
        return
    if sealed is None:
        return
    broken = [f"{path} is not what it was when {SUMS} was written" for path, digest in sums.items()
              if path in sealed and sealed[path] != digest]
    broken += [f"{path} is not listed in {SUMS}" for path in sums if path not in sealed]
    broken += [f"{path} is missing; {SUMS} lists it" for path in sealed
               if kind_of(path) in _READ and path not in sums]
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        yield f"the seal is broken: {broken[0]}{more}; './qop verify {folder}' names all"
