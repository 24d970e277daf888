"""Modules are compiled once a test run: each of its processes takes a share before importing any.

In a fresh checkout every process would compile all of them, at the same time as the others.
"""

from __future__ import annotations

import compileall
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def share(config: pytest.Config, files: Sequence[Path]) -> None:
    """Compile this process's share of the files, those that are not yet; alone, it takes none."""
    if sys.dont_write_bytecode or not hasattr(config, "workerinput"):
        return
    worker = config.workerinput
    for file in files[int(worker["workerid"][2:])::worker["workercount"]]:
        compile_one(config, file)


def compile_one(config: pytest.Config, file: Path) -> None:
    """As it is imported: tests with assertions that explain themselves."""
    if not file.match("test_*.py") and file.name != "conftest.py":
        compileall.compile_file(file, quiet=2)
        return
    compiled = rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
    state = config.stash[rewrite.assertstate_key]
    if rewrite._read_pyc(file, compiled, state.trace) is None \
            and rewrite.try_makedirs(compiled.parent):
        source, code = rewrite._rewrite_test(file, config)
        rewrite._write_pyc(state, code, source, compiled)
