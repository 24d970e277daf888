"""Kinds of files in a results folder by their path, and a scan for them."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from measure import manifest

SUMS = "SHA256SUMS"
PACKING_LIST = "manifest.json"
PLAN = manifest.FILE
PRUNED = "pruned.json"

_LONGEST_NAME_BYTES = 200
_DEEPEST = 8


class FileKind(Enum):
    """The kind of a file of a results folder or an archive."""

    PLAN = "plan"
    RECORD = "record"
    PROVENANCE = "provenance"
    PRUNED = "pruned"
    REPORT = "report"
    LOG = "log"
    CAPTURE = "capture"
    FILE = "file"
    SUMS = "sums"
    PACKING_LIST = "packing list"


#: Suffixes of data files that studies keep: types that no browser, shell or TeX opens.
DATA_SUFFIXES = ("csv", "json", "jsonl", "key", "keytab", "log", "pem", "txt")
#: Kinds by full path; a file that matches none does not belong to a results folder. An archive is
#: refused for one such file, so that a web page cannot be hidden among the logs.
_KINDS = tuple((re.compile(pattern), kind) for pattern, kind in (
    (r"plan\.json", FileKind.PLAN),
    (r"records/[^/]+\.json", FileKind.RECORD),
    # Superseded records of an edited policy are provenance, not results.
    (r"provenance([.-][^/]+)?\.json|(provenance|superseded/[^/]+/records)/[^/]+\.json",
     FileKind.PROVENANCE),
    (r"pruned\.json", FileKind.PRUNED),
    # The figures of a study (analysis.present.report.Drawing) may have any name.
    (r"report\.html|[^/]+\.(svg|png|pdf)|tables/.+", FileKind.REPORT),
    # The events that a run and its repetitions reported are logs, too.
    (r"logs/.+\.log|events\.jsonl|events/[^/]+\.jsonl", FileKind.LOG),
    (rf"files/[^/]+/[^/]+\.({'|'.join(DATA_SUFFIXES)})(\.gz)?", FileKind.FILE),
    (r"captures/[^/]+/[^/]+", FileKind.CAPTURE),
    (r"SHA256SUMS", FileKind.SUMS),
    (r"manifest\.json", FileKind.PACKING_LIST)))
#: Kinds that describe the other files instead of the measurement.
DESCRIBING = frozenset({FileKind.SUMS, FileKind.PACKING_LIST})


@dataclass
class Contents:
    """The files of a folder by relative path, sorted, and the names of foreign files.

    `odd` are the foreign entries in the place of results that are links or no plain files.
    """

    files: dict[str, Path] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)


def kind_of(path: str) -> FileKind | None:
    """Return the kind of the file at a relative path.

    The result is None if it does not belong there.
    """
    if not is_safe(path):
        return None
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(path)), None)


def is_safe(path: str) -> bool:
    """Return whether a relative path stays below its folder, is not hidden and fits SHA256SUMS."""
    parts = path.split("/")
    return len(parts) <= _DEEPEST and all(
        part and part[0] not in ".-" and part.isprintable() and "\\" not in part
        and len(part.encode()) <= _LONGEST_NAME_BYTES for part in parts)


def repetition_of(path: str) -> str:
    """Return the name of the repetition that a capture or a file belongs to."""
    return path.split("/")[1]


def scan_folder(folder: Path) -> Contents:
    """Return the files of a results folder.

    Links are not followed. Hidden files and `work/` belong to a run in progress and are skipped.

    Raises:
        OSError: A folder cannot be read.
    """
    contents = Contents()
    for place, folders, names in os.walk(folder, onerror=_raise_error):
        here = Path(place)
        if here == folder and "work" in folders:
            folders.remove("work")
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(name for name in folders if name[0] != "." and name not in links)
        for name in [*names, *links]:
            path = here / name
            relative = path.relative_to(folder).as_posix()
            if kind_of(relative) and stat.S_ISREG(path.lstat().st_mode):
                contents.files[relative] = path
            elif name[0] != ".":
                contents.foreign.append(relative)
                if not stat.S_ISREG(path.lstat().st_mode) and _is_ours(relative):
                    contents.odd.append(relative)
    contents.files = dict(sorted(contents.files.items()))
    contents.foreign.sort()
    return contents


def _is_ours(path: str) -> bool:
    """Return whether results have a file of this name, or in a folder of this name."""
    return any(kind_of(f"{path}{below}") for below in ("", "/x.json", "/x/x.json"))


def _raise_error(error: OSError) -> None:
    raise error
