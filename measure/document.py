"""The documents of a results folder: the digest that each carries of itself, and what it may hold.

The digest is over every byte of the document but its own. It tells damage and careless edits from
what was written. Whoever edits a document can compute it anew, as any checksum: docs/results.md
says what tells then.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

#: The field that holds the digest; the last of its document.
DIGEST_FIELD = "content_sha256"
_EMPTY = f'"{DIGEST_FIELD}": ""'
_FILLED = re.compile(rf'"{DIGEST_FIELD}":\s*"([^"]+)"'.encode())
#: How JSON spells what is no finite number. One that overflows shows in the value itself.
_NON_FINITE = (b"NaN", b"Infinity")


def seal_text(text: str) -> str:
    """Return a document's text with its digest in the field, which is empty in `text`."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    before, _, after = text.rpartition(_EMPTY)
    return f'{before}"{DIGEST_FIELD}": "{digest}"{after}'


def is_as_written(text: str | bytes) -> bool:
    """Return whether the digest that a document carries is that of all else in it.

    So it is, too, where a document carries none: it is of an earlier version.
    """
    content = _encode(text)
    fields = list(_FILLED.finditer(content))
    if not fields:
        return True
    start, end = fields[-1].span()
    empty = content[:start] + _EMPTY.encode() + content[end:]
    return hashlib.sha256(empty).hexdigest() == fields[-1][1].decode(errors="replace")


def has_digest(content: bytes) -> bool:
    """Return whether a document carries a digest of itself, right or wrong."""
    return _FILLED.search(content) is not None


def may_hold_non_finite(text: str | bytes) -> bool:
    """Return whether a document may spell a number that is infinite or none; quick."""
    content = _encode(text)
    return any(word in content for word in _NON_FINITE)


def find_non_finite(document: Any) -> str:
    """Return where a document has a number that is infinite or none; "" where all are finite."""
    left: list[tuple[str, Any]] = [("", document)]
    while left:
        where, value = left.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return where or "file"
        pairs = value.items() if isinstance(value, dict) else \
            enumerate(value) if isinstance(value, list) else ()
        left += [(f"{where}.{key}" if where else str(key), entry) for key, entry in pairs]
    return ""


def printable(text: str) -> str:
    """Return text from a file, safe to show: on one line, without controls or bidirectional signs.

    Neither a terminal nor a reader's eye is steered by what is left.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else " " for c in text)


def printable_lines(text: str) -> str:
    """Return text from a file, safe to show, of as many lines as it has."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def screen_document(value: Any) -> Any:
    """Return plain data whose texts are safe to show; subclasses of str are left as they are."""
    if type(value) is str:
        return printable_lines(value)
    if isinstance(value, Mapping):
        return {screen_document(key): screen_document(entry) for key, entry in value.items()}
    return list(map(screen_document, value)) if isinstance(value, list | tuple) else value


def _encode(text: str | bytes) -> bytes:
    return text.encode(errors="surrogatepass") if isinstance(text, str) else text
