"""The guest's air as a module of this machine's kernel: its version, and whether it is there."""

from __future__ import annotations

import hashlib
from pathlib import Path

HERE = Path(__file__).parent
#: What the kernel says of the module that it has loaded.
LOADED = Path("/sys/module/sch_dcf/version")


def version() -> str:
    """Of all C code of the module; guest/module/version.sh says the same."""
    files = sorted(str(path.relative_to(HERE)) for folder in ("module", "sources")
                   for path in (HERE / folder).rglob("*.[ch]"))
    return hashlib.sha256(b"".join((HERE / name).read_bytes() for name in files)).hexdigest()[:16]


def lacking() -> str:
    """Why stations take turns on this machine's air instead of contending; "" where they contend.

    A module of other code does not count: what was measured on it would be of another air.
    """
    try:
        loaded = LOADED.read_text().strip()
    except OSError:
        return ("its kernel has no module sch_dcf; 'sudo ./qop provision --on host' builds it "
                "where the kernel's headers can be had")
    if loaded == version():
        return ""
    return (f"the module sch_dcf is of other code ({loaded}); 'sudo ./qop provision --on host' "
            "builds this one")
