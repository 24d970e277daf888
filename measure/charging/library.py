"""Compile the libraries that daemons preload, outside the machine (it has no compiler)."""

from __future__ import annotations

import base64
import contextlib
import functools
import subprocess
import tempfile
from pathlib import Path

from measure.errors import MeasureError

#: Sources. `charge` charges for signatures in virtual time. `kinds` tells the kernel which work is
#: of which kind. `prompt` makes captures deliver packets soon. `drained` keeps a TCP stream open
#: until all data has arrived. `copies` captures with copies of a started tcpdump.
CHARGE, KINDS, PROMPT, DRAINED, COPIES = (
    Path(__file__).with_name(f"{name}.c")
    for name in ("charge", "kinds", "prompt", "drained", "copies"))
# Linked against no library: a machine's C library may be older than the host's.
ARGV = ("cc", "-shared", "-fPIC", "-O2", "-nostdlib", "-fno-stack-protector", "-s",
         "-Wall", "-Wextra", "-Werror")


@functools.cache
def compile_library(source: Path = CHARGE) -> str:
    """Compile a library and return it in base 64, for sending to a machine.

    Raises:
        MeasureError: There is no C compiler, or the compiler failed.
    """
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


def compile_if_possible(source: Path = CHARGE) -> str:
    """Compile a library and return it in base 64, or "" if that fails.

    The machine reports a missing library where one is needed.
    """
    with contextlib.suppress(MeasureError):
        return compile_library(source)
    return ""
