"""JSON event output for the caller of a program.

Each event is an object on its own line, with its time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def write_event(event: str, at_s: float | None = None, **fields: object) -> None:
    """Write an event to standard output.

    `at_s` is its time in seconds since 1970 (default: the wall clock).
    """
    at_s = time.time() if at_s is None else at_s
    try:
        sys.stdout.write(json.dumps({"event": event, "at_s": at_s, **fields}) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe. The stream continues without output.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the program's end
