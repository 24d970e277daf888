"""Studies: one folder each, found by their `STUDY`; nobody but the composition root looks here."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from studies.study import Study, StudyError

DEFAULT = "qop2007"
_FOLDER = Path(__file__).parent

__all__ = ["DEFAULT", "Study", "StudyError", "load", "names"]


def names() -> list[str]:
    """The studies that there are, the default first."""
    others = sorted(path.parent.name for path in _FOLDER.glob("*/__init__.py"))
    return [DEFAULT, *(name for name in others if name != DEFAULT)]


@cache
def load(name: str) -> Study:
    """A study by its id. Raises StudyError for one that there is not, or that lacks a part."""
    if name not in names():
        raise StudyError(f"no study {name!r}; choose from {', '.join(names())}")
    module = importlib.import_module(f"studies.{name}")
    study = getattr(module, "STUDY", None)
    where = f"studies/{name}/__init__.py"
    if not isinstance(study, Study):
        raise StudyError(f"{where}: has no STUDY; give it an instance of studies.study.Study")
    for part in ("title", "factors", "metrics", "measured", "inside"):
        if not hasattr(study, part):
            raise StudyError(f"{where}: its STUDY has no {part!r}; studies/study.py says what it is")
    if study.id != name:
        raise StudyError(f"{where}: its STUDY is called {study.id!r}; call it as its folder")
    return study
