"""Studies, each a folder with an instance `STUDY` in its study.py.

Only the composition root (`harness`) imports this package. Studies are imported on first use,
because a guest has no pydantic and imports a study's workload module through this package.
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

__all__ = ["DEFAULT", "FOLDER", "Study", "StudyError", "live_pages", "load_study", "study_names",
           "unfinished_folders"]


def __getattr__(name: str) -> Any:
    if name not in ("Study", "StudyError"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("studies.study"), name)


def unfinished_folders() -> list[str]:
    """Return the folders in studies/ that have content but no study.py."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir()
                  and path.name.isidentifier() and path.name != "__pycache__"
                  and not (path / "study.py").exists()
                  and any(inner.name != "__pycache__" for inner in path.iterdir()))


def study_names() -> list[str]:
    """Return the names of all studies, the default first."""
    others = sorted(path.parent.name for path in FOLDER.glob("*/study.py"))
    return [DEFAULT, *(name for name in others if name != DEFAULT)]


def live_pages() -> dict[str, str]:
    """Return the studies that have a live page (`Study.live`).

    Returns:
        Names of studies, by the name of the page's folder (which is a command).
    """
    return {path.parent.name: path.parents[1].name
            for path in sorted(FOLDER.glob("*/*/page.html"), reverse=True)}


@cache
def load_study(name: str) -> Study:
    """Return a study by its id.

    Args:
        name: The id, which is also the name of the folder.

    Returns:
        The instance `STUDY` of the study's study.py, with a valid contract.

    Raises:
        StudyError: There is no such study, it cannot be imported, or it lacks a part of the
            contract.
    """
    from studies.study import Study, StudyError
    from studies.validating import describe_exception, validate_study

    where = f"studies/{name}"
    if name not in study_names():
        raise StudyError(f"{where}: has no study.py; docs/first-study.md tells what belongs there"
                         if name.isidentifier() and (FOLDER / name).is_dir() else
                         f"no study {name!r}; choose from {', '.join(study_names())}")
    try:
        study = getattr(importlib.import_module(f"studies.{name}.study"), "STUDY", None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - its code may raise anything
        raise StudyError(
            f"{where}: cannot be loaded ({describe_exception(error)}); correct it, or move the "
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
    validate_study(study, FOLDER.parent)
    return study
