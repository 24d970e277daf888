"""Preloaded libraries for testbeds, compiled once and kept in the cache."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from guest.cache import Store, cache_root, key_of
from measure.charging import library
from measure.errors import MeasureError

_FILE = "library.base64"


def to_send(source: Path) -> str:
    """Return a compiled library in base 64.

    The result is "" if it cannot be compiled; the testbed reports that if it needs the library. To
    compile three libraries takes as long as everything else that a run does before its first
    testbed.
    """
    def build(folder: Path) -> dict[str, Any]:
        (folder / _FILE).write_text(library.compile_library(source))
        return {"of": source.name}

    key = key_of({"source": source.read_bytes(), "by": " ".join(library.ARGV).encode()})
    with contextlib.suppress(MeasureError, OSError):
        store = Store(cache_root() / "libraries", "preloaded library")
        return (store.find_or_build(key, build) / _FILE).read_text()
    return library.compile_if_possible(source)  # without a cache, or without a compiler
