"""Fields of packets are read from captures by Wireshark's names, for what a study asks of its own.

`dissect` reads what link, port, tunnel and registration are proven by; a study with protocols of
its own names its fields here.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from measure.dissect import UNCONFIGURED, refuse_others
from measure.errors import MeasureError

_SEPARATOR = "\t"


def read(capture: Path, names: Sequence[str], display_filter: str = "", *,
         options: Sequence[str] = (), timeout_s: float = 300.0) -> list[tuple[str, ...]]:
    """The fields `names` of every packet that passes a display filter, in the file's order.

    What a packet lacks is ""; of a field that a packet has more than once, all values are joined by
    commas. `options` go to tshark as they are (`-d`, `-o`). Raises MeasureError where tshark is
    missing, does not know a name, or cannot read the file.
    """
    refuse_others(capture)
    asked = [argument for name in names for argument in ("-e", name)]
    argv = ["nice", "-n", "10", "tshark", "-n", "-r", str(capture), "-T", "fields",
            "-E", f"separator={_SEPARATOR}", *options, *asked]
    argv += ["-Y", display_filter] if display_filter else []
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False,
                              env=os.environ | UNCONFIGURED)
    except FileNotFoundError:
        raise MeasureError("testbed", "nice (of coreutils) is missing; './qop doctor' tells how "
                           "to get it") from None
    except subprocess.TimeoutExpired:
        raise MeasureError("testbed",
                           f"tshark took more than {timeout_s:g} s for {capture}") from None
    if done.returncode:
        raise MeasureError("testbed", f"tshark cannot read {capture}: "
                           f"{(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return [tuple(line.split(_SEPARATOR)) for line in done.stdout.splitlines()]
