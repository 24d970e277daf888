"""Documents of a results folder: their own digest, and limits on their content.

The digest covers every byte of the document except itself. It detects damage and careless edits. An
editor can recompute it, as any checksum; docs/results.md states what detects that.
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
    """Return a document's text with its digest in the field, which is empty in `text`."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    before, _, after = text.rpartition(_EMPTY)
    return f'{before}"{DIGEST_FIELD}": "{digest}"{after}'


def matches_digest(text: str | bytes) -> bool:
    """Return whether a document's digest matches the rest of its content.

    A document of an earlier version has no digest, and counts as unchanged.
    """
    content = _encode(text)
    fields = list(_FILLED.finditer(content))
    if not fields:
        return True
    start, end = fields[-1].span()
    empty = content[:start] + _EMPTY.encode() + content[end:]
    return hashlib.sha256(empty).hexdigest() == fields[-1][1].decode(errors="replace")


def has_digest(content: bytes) -> bool:
    """Return whether a document has a digest, right or wrong."""
    return _FILLED.search(content) is not None


def may_hold_non_finite(text: str | bytes) -> bool:
    """Return whether a document may contain a non-finite number, by a quick search."""
    content = _encode(text)
    return any(word in content for word in _NON_FINITE)


def find_non_finite(document: Any) -> str:
    """Return the path of a non-finite number in a document, or ""."""
    left: list[tuple[str, Any]] = [("", document)]
    while left:
        where, value = left.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return where or "file"
        pairs = value.items() if isinstance(value, dict) else \
            enumerate(value) if isinstance(value, list) else ()
        left += [(f"{where}.{key}" if where else str(key), entry) for key, entry in pairs]
    return ""


def to_printable(text: str) -> str:
    """Return text from a file on one line, without control and bidirectional characters.

    The result is safe to show on a terminal.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else " " for c in text)


def to_printable_lines(text: str) -> str:
    """Return text from a file with its line breaks, safe to show."""
    return text if text.isprintable() else "\n".join(map(to_printable, text.split("\n")))


def screen_document(value: Any) -> Any:
    """Return plain data with all texts made safe to show.

    Subclasses of str stay unchanged.
    """
    if type(value) is str:
        return to_printable_lines(value)
    if isinstance(value, Mapping):
        return {screen_document(key): screen_document(entry) for key, entry in value.items()}
    return list(map(screen_document, value)) if isinstance(value, list | tuple) else value


def _encode(text: str | bytes) -> bytes:
    return text.encode(errors="surrogatepass") if isinstance(text, str) else text
