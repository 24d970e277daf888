"""Objects of a newer Debian suite, and what a root file system lacks for its own objects."""

from __future__ import annotations

import subprocess
from pathlib import Path

from guest.elf import RootObjects

#: Objects of Debian's packages that no program of a testbed loads: one for debuggers, and one for
#: ATM, whose library is only recommended.
UNUSED = ("libthread_db.so.1", "q_atm.so")


def find_misfits(found: RootObjects) -> list[str]:
    """What a root lacks for any object in it, one line each."""
    return [line for path in sorted({*found.objects, *found.unread})
            if not path.endswith(UNUSED) for line in found.describe_misfits(path)]


def make_newer_object(folder: Path) -> Path:
    """An object as a compiler of a newer suite makes it, linked to that suite's C library."""
    folder.mkdir()
    (folder / "libc.c").write_text("long __isoc23_strtol(void) { return 0; }\n")
    (folder / "versions").write_text("GLIBC_2.38 { __isoc23_strtol; };\n")
    (folder / "newer.c").write_text(
        "extern long __isoc23_strtol(void);\nlong number(void) { return __isoc23_strtol(); }\n")
    for made, *arguments in (
            ("libc.so.6", "libc.c", "-Wl,-soname,libc.so.6", "-Wl,--version-script=versions"),
            ("newer.so", "newer.c", "libc.so.6")):
        subprocess.run(["cc", "-shared", "-fPIC", "-nostdlib", "-o", made, *arguments], cwd=folder,
                       check=True)
    return folder / "newer.so"
