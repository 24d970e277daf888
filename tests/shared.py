"""What is dear to make is made once a test run, whichever of its processes asks for it first."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
_folder: Path | None = None


def in_folder(factory: pytest.TempPathFactory) -> Path:
    """Have things kept in a folder of this run, which all of its processes know; that folder."""
    global _folder  # noqa: PLW0603 - one run has one
    base = factory.getbasetemp()
    _folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    _folder.mkdir(exist_ok=True)
    return _folder


def folder(name: str) -> Path:
    """A folder of this name that all of the run's processes know."""
    assert _folder is not None, "ask inside a test or a fixture"
    (_folder / name).mkdir(exist_ok=True)
    return _folder / name


def once(name: str, make: Callable[[], T]) -> T:
    """What `make` returns, which must be good for pickle; made by the first process that asks."""
    assert _folder is not None, "ask inside a test or a fixture"
    kept = _folder / name
    with (_folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            made = make()
            kept.with_suffix(".new").write_bytes(pickle.dumps(made))
            kept.with_suffix(".new").rename(kept)
            return made
    value: T = pickle.loads(kept.read_bytes())
    return value
