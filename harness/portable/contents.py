"""What belongs to a results folder: the kinds of its files by name, and a walk that finds them."""

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
    """What a file of a results folder or an archive is."""

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


#: How the names end of data that studies keep: nothing that a browser, a shell or TeX would open.
DATA_SUFFIXES = ("csv", "json", "jsonl", "key", "keytab", "log", "pem", "txt")
#: Kinds by path, in full; whatever matches none does not belong to a results folder. An archive is
#: refused for one such file, so that a page cannot come in among the logs.
_KINDS = tuple((re.compile(pattern), kind) for pattern, kind in (
    (r"plan\.json", FileKind.PLAN),
    (r"records/[^/]+\.json", FileKind.RECORD),
    # What an edited policy's records said is kept with the circumstances, not with the results.
    (r"provenance([.-][^/]+)?\.json|(provenance|superseded/[^/]+/records)/[^/]+\.json",
     FileKind.PROVENANCE),
    (r"pruned\.json", FileKind.PRUNED),
    # A study's drawings (analysis.present.report.Drawing) may have any name.
    (r"report\.html|[^/]+\.(svg|png|pdf)|tables/.+", FileKind.REPORT),
    # What a run and its repetitions said while they lasted is a log, too.
    (r"logs/.+\.log|events\.jsonl|events/[^/]+\.jsonl", FileKind.LOG),
    (rf"files/[^/]+/[^/]+\.({'|'.join(DATA_SUFFIXES)})(\.gz)?", FileKind.FILE),
    (r"captures/[^/]+/[^/]+", FileKind.CAPTURE),
    (r"SHA256SUMS", FileKind.SUMS),
    (r"manifest\.json", FileKind.PACKING_LIST)))
#: Kinds that describe the files beside them rather than what was measured.
DESCRIBING = frozenset({FileKind.SUMS, FileKind.PACKING_LIST})


@dataclass
class Contents:
    """The files of a folder by relative path, sorted, and the names of foreign ones.

    `odd` are those of the foreign ones that stand where results do, and are links or no files.
    """

    files: dict[str, Path] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)


def kind_of(path: str) -> FileKind | None:
    """What the file at a relative path is; None for what does not belong there."""
    if not is_safe(path):
        return None
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(path)), None)


def is_safe(path: str) -> bool:
    """Whether a relative path stays below its folder, is not hidden and can stand in SHA256SUMS."""
    parts = path.split("/")
    return len(parts) <= _DEEPEST and all(
        part and part[0] not in ".-" and part.isprintable() and "\\" not in part
        and len(part.encode()) <= _LONGEST_NAME_BYTES for part in parts)


def owner(path: str) -> str:
    """The name of the repetition that a capture or a file belongs to."""
    return path.split("/")[1]


def scan(folder: Path) -> Contents:
    """The files of a results folder. Links are not followed; raises OSError where it cannot read.

    Hidden files and `work/` are a run's own while it lasts, and passed over in silence.
    """
    contents = Contents()
    for place, folders, names in os.walk(folder, onerror=_refuse):
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
    """Whether results have a file of this name, or in a folder of this name."""
    return any(kind_of(f"{path}{below}") for below in ("", "/x.json", "/x/x.json"))


def _refuse(error: OSError) -> None:
    raise error
