"""Kernel messages about killed programs. Inside the machine: standard library only."""

from __future__ import annotations

import os
from pathlib import Path

_KMSG = Path("/dev/kmsg")
#: Least urgent level that counts (`KERN_WARNING`), and the number of levels.
_WARNING, _LEVELS = 4, 8


def last_kill_message(kmsg: Path = _KMSG) -> str:
    """Return the last kernel message about a killed program.

    The result is "" if there is none, or if the log is not readable.
    """
    try:
        descriptor = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    found = ""
    try:
        while record := os.read(descriptor, 8192):  # one message per read
            for line in record.decode(errors="replace").splitlines():
                found = _parse_kill_message(line) or found
    except OSError:
        pass  # no more messages, or one was overwritten meanwhile
    finally:
        os.close(descriptor)
    return found


def _parse_kill_message(line: str) -> str:
    """Return the text of a kernel record about a killed program, or else "".

    The record's format is `PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT`.
    """
    head, semicolon, text = line.partition(";")
    priority = head.split(",")[0]
    is_urgent = semicolon and priority.isdecimal() and int(priority) % _LEVELS <= _WARNING
    return text.strip() if is_urgent and "kill" in text.lower() else ""
