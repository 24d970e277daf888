"""Read fields of captured packets by Wireshark's field names, for a study's own protocols.

`dissect` reads the fields that prove link, port, tunnel and registration.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from measure.dissect import NOT_FOUND, UNCONFIGURED, check_is_capture
from measure.errors import MeasureError

_SEPARATOR = "\t"


def read_fields(capture: Path, names: Sequence[str], display_filter: str = "", *,
                options: Sequence[str] = (), timeout_s: float = 300.0) -> list[tuple[str, ...]]:
    """Read fields of every packet that passes a display filter, in file order.

    Args:
        capture: The capture file.
        names: Names of fields.
        display_filter: A Wireshark display filter.
        options: Further options of tshark (`-d`, `-o`).
        timeout_s: Time limit in s.

    Returns:
        A tuple per packet. Missing fields are ""; several values of one field are joined by commas.

    Raises:
        MeasureError: tshark is missing, does not know a name, or cannot read the file.
    """
    check_is_capture(capture)
    rows, complaint = _run_tshark(capture, names, display_filter, options, timeout_s)
    if complaint:
        raise MeasureError("testbed", f"tshark cannot read {capture}: {complaint}")
    return rows


def read_foreign(capture: Path, names: Sequence[str], *, options: Sequence[str] = (),
                 timeout_s: float = 300.0) -> tuple[list[tuple[str, ...]], str]:
    """Read fields of all packets of a file in any format that tshark knows.

    Returns:
        The packets up to the first unreadable one, and tshark's reason ("" if all were read).

    Raises:
        MeasureError: tshark is missing or reads nothing.
    """
    rows, complaint = _run_tshark(capture, names, "", options, timeout_s)
    reason = _strip_file_name(complaint)
    if reason and not rows:
        raise MeasureError("testbed", reason)
    return rows, reason


def _strip_file_name(complaint: str) -> str:
    """Return tshark's message about a file without the file's name."""
    return re.sub(r'^tshark: The file ".*" (appears to have been |appears to be )?', "",
                  complaint).rstrip(".")


def _run_tshark(capture: Path, names: Sequence[str], display_filter: str, options: Sequence[str],
                timeout_s: float) -> tuple[list[tuple[str, ...]], str]:
    """Return the rows that tshark prints, and its last message if it failed."""
    asked = [argument for name in names for argument in ("-e", name)]
    argv = ["nice", "-n", "10", "tshark", "-n", "-r", str(capture.absolute()), "-T", "fields",
            "-E", f"separator={_SEPARATOR}", *options, *asked]
    argv += ["-Y", display_filter] if display_filter else []
    try:
        done = subprocess.run(argv, capture_output=True, encoding="utf-8", errors="replace",
                              timeout=timeout_s, check=False, env=os.environ | UNCONFIGURED)
    except FileNotFoundError:
        raise MeasureError("testbed", "nice (of coreutils) is missing; './qop doctor' tells how "
                           "to get it") from None
    except subprocess.TimeoutExpired:
        raise MeasureError("testbed",
                           f"tshark took more than {timeout_s:g} s for {capture}") from None
    if done.returncode == NOT_FOUND:
        raise MeasureError("testbed", "tshark is missing; './qop doctor' tells how to get it")
    rows = [tuple(line.split(_SEPARATOR)) for line in done.stdout.splitlines()]
    return rows, _last_message(done.stderr) if done.returncode else ""


def _last_message(words: str) -> str:
    """Return tshark's last message.

    A line in brackets is a detail of the line before.
    """
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("(")] or lines
    return (lines or ["no word"])[-1]
