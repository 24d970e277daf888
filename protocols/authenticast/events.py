"""Events are what a program says to who started it: a JSON object a line, with the time."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def say(event: str, at_s: float | None = None, **fields: object) -> None:
    """One event, with the wall clock's time unless the program has one of its own."""
    at_s = time.time() if at_s is None else at_s
    try:
        sys.stdout.write(json.dumps({"event": event, "at_s": at_s, **fields}) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody listens any more; the stream goes on.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the program's end
