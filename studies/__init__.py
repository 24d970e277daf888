"""Studies, a folder each with a `STUDY` in its study.py; only the composition root looks here.

Nothing is imported before it is asked for: inside a machine, which has no pydantic, a study's own
module there is imported by this package's name.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from studies.study import Study, StudyError

DEFAULT = "qop2007"
FOLDER = Path(__file__).parent
_PARTS = ("title", "factors", "metrics", "measured", "inside")

__all__ = ["DEFAULT", "FOLDER", "Study", "StudyError", "load", "names", "pages", "unfinished"]


def __getattr__(name: str) -> Any:
    if name not in ("Study", "StudyError"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("studies.study"), name)


def unfinished() -> list[str]:
    """Folders in studies/ that hold something, but no study.py."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir()
                  and path.name.isidentifier() and path.name != "__pycache__"
                  and not (path / "study.py").exists()
                  and any(inner.name != "__pycache__" for inner in path.iterdir()))


def names() -> list[str]:
    """The studies that there are, the default first."""
    others = sorted(path.parent.name for path in FOLDER.glob("*/study.py"))
    return [DEFAULT, *(name for name in others if name != DEFAULT)]


def pages() -> dict[str, str]:
    """The folders of studies that hold a page to look on at a run (`Study.live`), and whose."""
    return {path.parent.name: path.parents[1].name
            for path in sorted(FOLDER.glob("*/*/page.html"), reverse=True)}


@cache
def load(name: str) -> Study:
    """A study by its id. Raises StudyError for one that there is not, or that lacks a part."""
    from studies.study import Study, StudyError
    from studies.validating import said, validate

    where = f"studies/{name}"
    if name not in names():
        raise StudyError(f"{where}: has no study.py; docs/first-study.md tells what belongs there"
                         if name.isidentifier() and (FOLDER / name).is_dir() else
                         f"no study {name!r}; choose from {', '.join(names())}")
    try:
        study = getattr(importlib.import_module(f"studies.{name}.study"), "STUDY", None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - its code may raise anything
        raise StudyError(f"{where}: cannot be loaded ({said(error)}); correct it, or move the "
                         "folder out of studies/") from None
    if not isinstance(study, Study):
        raise StudyError(f"{where}/study.py: has no STUDY; give it an instance of "
                         "studies.study.Study")
    lacking = [part for part in _PARTS if not hasattr(study, part)]
    if lacking:
        raise StudyError(f"{where}: its STUDY has no {lacking[0]!r}; studies/study.py says what "
                         "that is")
    if getattr(study, "id", None) != name:
        raise StudyError(f"{where}: its STUDY is called {getattr(study, 'id', None)!r}; call it as "
                         "its folder")
    validate(study, FOLDER.parent)
    return study
