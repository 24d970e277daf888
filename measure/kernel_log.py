"""What the kernel said of programs that it killed. Inside the machine: standard library only."""

from __future__ import annotations

import os
from pathlib import Path

_KMSG = Path("/dev/kmsg")
#: Messages of that level (`KERN_WARNING`) and more urgent ones are looked at.
_WARNING, _LEVELS = 4, 8


def last_killing(kmsg: Path = _KMSG) -> str:
    """The last message about a program being killed; empty if there is none, or it is secret."""
    try:
        descriptor = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    found = ""
    try:
        while record := os.read(descriptor, 8192):  # one message each
            for line in record.decode(errors="replace").splitlines():
                found = _killing(line) or found
    except OSError:
        pass  # there are no more, or one was overwritten meanwhile
    finally:
        os.close(descriptor)
    return found


def _killing(line: str) -> str:
    """The text of a record `PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT` that is about a killing."""
    head, semicolon, text = line.partition(";")
    priority = head.split(",")[0]
    is_urgent = semicolon and priority.isdecimal() and int(priority) % _LEVELS <= _WARNING
    return text.strip() if is_urgent and "kill" in text.lower() else ""
