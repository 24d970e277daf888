"""What charon's log says of a negotiation that failed. Standard library only."""

from __future__ import annotations

import re

#: What a line begins with: thread, part of the daemon, connection.
_BEGINNING = re.compile(r"^\d+\[[A-Z]+\] (?:<[^>]*> )?")


def clue(said: bytes) -> str:
    """The last line that tells why it failed; "" where none does."""
    lines = said.decode("utf-8", "replace").splitlines()
    telling = [line for line in lines if "error notify" in line or "failed" in line]
    return _BEGINNING.sub("", telling[-1]) if telling else ""
