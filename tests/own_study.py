"""Studies of a test's own, in a folder outside of the checkout."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import studies
from conftest import PROJECT


def tutorial() -> dict[str, str]:
    """The files of the study that docs/first-study.md adds, by name."""
    text = (PROJECT / "docs" / "first-study.md").read_text(encoding="utf-8")
    files = {}
    for block in text.split("```python studies/hops/")[1:]:
        name, _, code = block.partition("```")[0].partition("\n")
        files[name] = code
    return files


def write_study(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a study into a new folder."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


@contextmanager
def installed(place: Path, files: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """Studies by id, each as files by name, on the search path while the context lasts."""
    for study, contents in files.items():
        write_study(place / "studies" / study, contents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(studies.PATH_VARIABLE, str(place / "studies"))
        studies.extend_search_path(())
        try:
            yield
        finally:
            patch.undo()
            studies.extend_search_path(())
            for name in [name for name in sys.modules if name.split(".")[:1] == ["studies"]
                         and name.split(".")[1:2] and name.split(".")[1] in files]:
                del sys.modules[name]
