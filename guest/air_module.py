"""The kernel module sch_dcf, which gives this machine's own kernel the guest's medium."""

from __future__ import annotations

import hashlib
from pathlib import Path

HERE = Path(__file__).parent
#: Version of the module that is loaded in the kernel.
LOADED = Path("/sys/module/sch_dcf/version")


def compute_version() -> str:
    """Return a hash of all C code of the module, 16 hexadecimal digits.

    guest/module/version.sh prints the same hash.
    """
    files = sorted(str(path.relative_to(HERE)) for folder in ("module", "sources")
                   for path in (HERE / folder).rglob("*.[ch]"))
    return hashlib.sha256(b"".join((HERE / name).read_bytes() for name in files)).hexdigest()[:16]


def describe_missing_module() -> str:
    """Return why stations on this machine do not contend for the medium.

    The result is "" if they do contend. Without the module, stations take turns. A module built
    from other code does not count: its medium could behave differently.
    """
    try:
        loaded = LOADED.read_text().strip()
    except OSError:
        return ("its kernel has no module sch_dcf; 'sudo ./qop provision --on host' builds it "
                "where the kernel's headers can be had")
    if loaded == compute_version():
        return ""
    return (f"the module sch_dcf is of other code ({loaded}); 'sudo ./qop provision --on host' "
            "builds this one")
