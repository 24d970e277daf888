"""Whether edits of files in a copied checkout make another key of what is built from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

#: A file, what is in it, and what stands there instead.
Edit = tuple[str, str, str]


def changing(folder: Path, key: Callable[[], str], edits: Sequence[Edit]) -> list[bool]:
    """Of each edit, made after the one before it, whether the key is another one."""
    changes, before = [], key()
    for name, old, new in edits:
        text = (folder / name).read_text()
        assert old in text, (name, old)
        (folder / name).write_text(text.replace(old, new, 1))
        changes.append(before != (before := key()))
    return changes
