"""Builds what is preloaded into daemons, outside the machine, which has no compiler."""

from __future__ import annotations

import base64
import contextlib
import functools
import subprocess
import tempfile
from pathlib import Path

from measure.errors import MeasureError

#: What charges for signatures, in virtual time; what says which work is of which kind; what has
#: captures hand over soon what has come; what has a TCP stream last until all of it has arrived;
#: what has captures made by copies of a tcpdump that has started.
CHARGE, KINDS, PROMPT, DRAINED, COPIES = (
    Path(__file__).with_name(f"{name}.c")
    for name in ("charge", "kinds", "prompt", "drained", "copies"))
# Against no library: a machine's C library may be older than the one here.
ARGV = ("cc", "-shared", "-fPIC", "-O2", "-nostdlib", "-fno-stack-protector", "-s",
         "-Wall", "-Wextra", "-Werror")


@functools.cache
def encoded(source: Path = CHARGE) -> str:
    """A compiled library in base 64, to be sent into a machine. Raises MeasureError."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "charge.so"
        try:
            done = subprocess.run([*ARGV, "-o", str(library), str(source)], capture_output=True,
                                  text=True, check=False)
        except FileNotFoundError:
            raise MeasureError("testbed", "there is no C compiler") from None
        if done.returncode:
            raise MeasureError("testbed", f"cc cannot compile {source.name}: "
                               f"{(done.stderr.strip().splitlines() or ['no word'])[-1]}")
        return base64.b64encode(library.read_bytes()).decode("ascii")


def to_send(source: Path = CHARGE) -> str:
    """The same; "" where it cannot be compiled, which the machine says where it is needed."""
    with contextlib.suppress(MeasureError):
        return encoded(source)
    return ""
