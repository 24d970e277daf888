"""Find and import studies: experiments, each a folder with an instance `STUDY` in its study.py.

`study_names` lists the studies. `load_study` takes a name, and returns the checked `Study`. Studies
of the project are in this package. Further ones are in the folders of the environment variable
QOP_STUDY_PATH, which `extend_search_path` (option `--study-path`) extends, so that child processes
find them, too.

The commands in `harness` and the benchmarks in `bench` use it. Studies are imported on first use,
because the guest imports a study's workload through this package, and has no pydantic.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studies.search_path import (
    FOLDER,
    PATH_VARIABLE,
    place_of_study,
    search_folders,
    split_path,
    study_folder,
)

if TYPE_CHECKING:
    from studies.study import Study, StudyError

DEFAULT = "qop2007"
_PARTS = ("title", "factors", "metrics", "measurements_type", "workload_module")

__all__ = ["DEFAULT", "FOLDER", "PATH_VARIABLE", "Study", "StudyError", "extend_search_path",
           "live_pages", "load_study", "place_of_study", "study_folder", "study_names",
           "unfinished_folders"]


def __getattr__(name: str) -> Any:
    if name not in ("Study", "StudyError"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("studies.study"), name)


def extend_search_path(texts: Iterable[str]) -> None:
    """Search further folders for studies, before those of QOP_STUDY_PATH.

    Args:
        texts: folders, or several separated by ":" as in PATH.
    """
    folders = split_path(os.pathsep.join((*texts, os.environ.get(PATH_VARIABLE, ""))))
    if folders:
        os.environ[PATH_VARIABLE] = os.pathsep.join(map(str, folders))
    __path__[:] = [*(place for place in __path__ if place not in _added),
                   *(str(folder) for folder in folders)]
    _added[:] = map(str, folders)
    load_study.cache_clear()


def unfinished_folders() -> list[str]:
    """Return the folders of studies that have content but no study.py.

    In a folder outside of the checkout, only folders with a workload (`sign`) count. Python's own
    folders, and folders whose name cannot be a package, do not.
    """
    places = [(path, path if path.parent == FOLDER else path / "workload.py")
              for folder in search_folders() if folder.is_dir() for path in folder.iterdir()]
    return sorted(path.name for path, sign in places if path.is_dir()
                  and path.name.isidentifier() and path.name != "__pycache__"
                  and not (path / "study.py").exists() and sign.exists()
                  and any(inner.name != "__pycache__" for inner in path.iterdir()))


def study_names() -> list[str]:
    """Return the names of all studies, the default first."""
    others = sorted({path.parent.name for folder in search_folders()
                     for path in folder.glob("*/study.py")})
    return [DEFAULT, *(name for name in others if name != DEFAULT)]


def live_pages() -> dict[str, str]:
    """Return the studies that have a live web page (`Study.live`).

    Returns:
        Names of studies, by the name of the page's folder (which is a command).
    """
    return {path.parent.name: path.parents[1].name
            for folder in reversed(search_folders())
            for path in sorted(folder.glob("*/*/page.html"), reverse=True)}


@cache
def load_study(name: str) -> Study:
    """Import a study and return it.

    Args:
        name: id of the study, which is also the name of its folder.

    Returns:
        The instance `STUDY` of the study's study.py. Its names and parts have been checked.

    Raises:
        StudyError: there is no such study, it cannot be imported, or it lacks a part of the
            contract.
    """
    from studies.study import Study, StudyError
    from studies.validation import describe_exception, validate_study

    if name not in study_names():
        raise StudyError(f"{place_of_study(name)}: has no study.py; docs/first-study.md tells what "
                         "belongs there"
                         if name.isidentifier() and study_folder(name).is_dir() else
                         f"no study {name!r}; choose from {', '.join(study_names())}, or name the "
                         "folder of your studies with --study-path")
    where = place_of_study(name)
    try:
        study = getattr(importlib.import_module(f"studies.{name}.study"), "STUDY", None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - its code may raise anything
        raise StudyError(
            f"{where}: cannot be loaded ({describe_exception(error)}); correct it, or move the "
            f"folder out of {Path(where).parent}/") from None
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
    validate_study(study)
    return study


#: Entries of `__path__` that are outside of the checkout.
_added: list[str] = []
extend_search_path(())
