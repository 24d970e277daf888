"""Detect changes and unsafe content in the JSON documents of a results folder.

The documents are records (results of one measurement each) and the plan of a run. `seal_text` adds
a digest over every other byte of a document, and `matches_digest` verifies it. The digest detects
damage and careless edits. An editor can compute it again, as any checksum. docs/results.md states
what detects that. `find_non_finite` finds NaN or infinity. `to_printable` and `screen_document`
remove control characters from text that is shown on a terminal.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

#: Field with the digest, the last one of a document.
DIGEST_FIELD = "content_sha256"
_EMPTY = f'"{DIGEST_FIELD}": ""'
_FILLED = re.compile(rf'"{DIGEST_FIELD}":\s*"([^"]+)"'.encode())
#: JSON spellings of non-finite numbers. An overflowing number shows in its parsed value.
_NON_FINITE = (b"NaN", b"Infinity")


def seal_text(text: str) -> str:
    """Return a document's text with its digest filled in, where `text` has an empty digest."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    before, _, after = text.rpartition(_EMPTY)
    return f'{before}"{DIGEST_FIELD}": "{digest}"{after}'


def matches_digest(text: str | bytes) -> bool:
    """Return whether the digest in a document matches the rest of its content.

    A document of an earlier version has no digest, and counts as unchanged.
    """
    content = _encode_value(text)
    fields = list(_FILLED.finditer(content))
    if not fields:
        return True
    start, end = fields[-1].span()
    empty = content[:start] + _EMPTY.encode() + content[end:]
    return hashlib.sha256(empty).hexdigest() == fields[-1][1].decode(errors="replace")


def has_digest(content: bytes) -> bool:
    """Return whether a document contains a digest of itself, right or wrong."""
    return _FILLED.search(content) is not None


def may_hold_non_finite(text: str | bytes) -> bool:
    """Return whether a document may contain NaN or infinity, by a quick text search."""
    content = _encode_value(text)
    return any(word in content for word in _NON_FINITE)


def find_non_finite(document: Any) -> str:
    """Return where a document contains NaN or infinity, "" if nowhere."""
    pending: list[tuple[str, Any]] = [("", document)]
    while pending:
        where, value = pending.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return where or "file"
        pairs = value.items() if isinstance(value, dict) else \
            enumerate(value) if isinstance(value, list) else ()
        pending += [(f"{where}.{key}" if where else str(key), entry) for key, entry in pairs]
    return ""


def to_printable(text: str) -> str:
    """Return text from a file as one line, without control and bidirectional characters.

    The result is safe to show on a terminal.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else " " for c in text)


def to_printable_lines(text: str) -> str:
    """Return text from a file with its line breaks, but without control characters."""
    return text if text.isprintable() else "\n".join(map(to_printable, text.split("\n")))


def screen_document(value: Any) -> Any:
    """Return JSON data in which all texts are safe to show on a terminal.

    Subclasses of str stay unchanged.
    """
    if type(value) is str:
        return to_printable_lines(value)
    if isinstance(value, Mapping):
        return {screen_document(key): screen_document(entry) for key, entry in value.items()}
    return list(map(screen_document, value)) if isinstance(value, list | tuple) else value


def _encode_value(text: str | bytes) -> bytes:
    return text.encode(errors="surrogatepass") if isinstance(text, str) else text
