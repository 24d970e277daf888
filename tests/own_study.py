"""Studies of a test's own, as folders beside those of the project."""

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


@contextmanager
def installed(place: Path, files: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """Studies by id, each as files by name, beside the default one while the context lasts."""
    (place / "studies").mkdir()
    (place / "studies" / studies.DEFAULT).symlink_to(PROJECT / "studies" / studies.DEFAULT)
    for study, contents in files.items():
        folder = place / "studies" / study
        folder.mkdir(parents=True)
        for name, text in contents.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studies, "FOLDER", place / "studies")
        patch.setattr(studies, "__path__", [*studies.__path__, str(place / "studies")])
        studies.load_study.cache_clear()
        try:
            yield
        finally:
            studies.load_study.cache_clear()
            for name in [name for name in sys.modules if name.split(".")[:1] == ["studies"]
                         and name.split(".")[1:2] and name.split(".")[1] in files]:
                del sys.modules[name]
