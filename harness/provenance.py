"""What a record was made with: a digest of the project's own code and data."""

from __future__ import annotations

import hashlib
from functools import cache

from harness.machine import ROOT

_PACKAGES = ("ansible", "guest", "harness", "measure", "policies", "topologies")
_SUFFIXES = frozenset({".py", ".yml", ".j2", ".sh", ".config", ".cfg", ""})


@cache
def code_digest() -> str:
    """SHA-256 over everything that decides how a repetition is measured, by path and content."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.is_file() and path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(ROOT)}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()
