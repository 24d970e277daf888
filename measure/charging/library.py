"""Compile C sources to shared libraries that daemons and tools load by LD_PRELOAD.

`compile_library` takes a C source of this folder, calls the host's C compiler, and returns the
library in base 64. In this form it is sent to the place where daemons run. The libraries charge CPU
time for signatures, tell the kernel the kind of work, or change how tools send and capture.
`compile_if_possible` returns "" if the compiler is missing or fails. A guest's libraries are
compiled in a root of the guest's Debian release instead: see guest/libraries.py.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import subprocess
import tempfile
from pathlib import Path

from measure.agent.errors import MeasureError

#: Sources. `charge` charges for signatures in virtual time. `kinds` tells the kernel which work is
#: of which kind. `prompt` makes captures deliver packets soon. `drained` keeps a TCP stream open
#: until all data has arrived. `copies` captures with copies of a started tcpdump.
CHARGE, KINDS, PROMPT, DRAINED, COPIES = (
    Path(__file__).with_name(f"{name}.c")
    for name in ("charge", "kinds", "prompt", "drained", "copies"))
# Linked against no shared library: they use what the program that preloads them has loaded.
ARGV = ("cc", "-shared", "-fPIC", "-O2", "-nostdlib", "-fno-stack-protector",
        "-U_FORTIFY_SOURCE", "-s", "-Wall", "-Wextra", "-Werror")
#: Links the compiler's own functions (libgcc.a), which atomic operations call on ARM.
COMPILER_FUNCTIONS = "-lgcc"


@functools.cache
def compile_library(source: Path = CHARGE) -> str:
    """Compile a C source to a shared library, and return the library in base 64.

    Raises:
        MeasureError: There is no C compiler, or the compiler failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "charge.so"
        try:
            done = subprocess.run([*ARGV, "-o", str(library), str(source), COMPILER_FUNCTIONS],
                                  capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise MeasureError("testbed", "there is no C compiler") from None
        if done.returncode:
            raise MeasureError("testbed", f"cc cannot compile {source.name}: "
                               f"{(done.stderr.strip().splitlines() or ['no word'])[-1]}")
        return base64.b64encode(library.read_bytes()).decode("ascii")


def compile_if_possible(source: Path = CHARGE) -> str:
    """Compile a C source to a shared library in base 64, or return "" if that fails.

    The testbed reports a missing library if it needs one.
    """
    with contextlib.suppress(MeasureError):
        return compile_library(source)
    return ""
