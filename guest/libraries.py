"""Compile the shared libraries that programs in a guest preload (LD_PRELOAD), and static programs.

A guest is the virtual machine of a test network. `build` compiles the C sources inside a temporary
root of the guest's Debian release, so that the host's compiler and C library have no influence.
`key` returns a hash of all inputs, so they are compiled again only if these change.
`describe_misfit` says why a program that was compiled elsewhere, such as a study's own, cannot run
in a guest.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guest import elf, root
from guest.build import BuildCommands, BuildError, BuildProgress
from guest.cache import hash_inputs
from guest.debian import (
    build_mmdebstrap_command,
    find_mirrors,
    make_chroot_hook,
    make_hook,
    run_in_scratch,
)
from guest.releases import DEFAULT, Release

#: Folder of the sources. Each `NAME.c` becomes `NAME.so`.
SOURCES = root.PROJECT / "measure/charging"
PACKAGES = ("gcc", "libc6-dev")
#: Options of the compiler. The libraries are linked against no shared library: they use what the
#: program that preloads them has loaded. The compiler's own functions (libgcc.a) are linked into
#: them: on ARM, atomic operations call these.
OPTIONS = ("-shared", "-fPIC", "-O2", "-nostdlib", "-fno-stack-protector", "-U_FORTIFY_SOURCE",
           "-s", "-Wall", "-Wextra", "-Werror")
EXPECTED_S = {"root": 25, "compile": 3}
#: Folder of programs that need nothing of a root file system. Each `NAME.c` becomes `NAME`.
PROGRAM_SOURCES = Path(__file__).parent / "programs"
PROGRAM_OPTIONS = ("-static", "-O2", "-s", "-Wall", "-Wextra", "-Werror")
_COMPILE = f"""
set -e
echo "@compiler $(gcc -dumpfullversion)"
for source in /qop/*.c; do
    gcc {' '.join(OPTIONS)} -o "${{source%.c}}.so" "$source" -lgcc
done
for source in /qop/programs/*.c; do
    gcc {' '.join(PROGRAM_OPTIONS)} -o "${{source%.c}}" "$source"
done"""

#: Copy the C library and the loader of programs, which every program has loaded.
_COPY_C_LIBRARY = """
set -e
mkdir /qop/c-library
cp -L /lib/*-linux-gnu/libc.so.6 /lib/*-linux-gnu/ld-linux-*.so.* /qop/c-library"""


def list_sources() -> list[Path]:
    """Return the C sources of all libraries that are preloaded in the guest."""
    return sorted(SOURCES.glob("*.c"))


def list_programs() -> list[Path]:
    """Return the C sources of all static programs."""
    return sorted(PROGRAM_SOURCES.glob("*.c"))


def key(release: Release = DEFAULT) -> str:
    """Return a hash of all sources and of the environment that compiles them."""
    sources = {path.name: path.read_bytes() for path in (*list_sources(), *list_programs())}
    return hash_inputs({**sources, "choice": repr((release.suite, PACKAGES, _COMPILE)).encode()})


def build(unfinished: Path, commands: BuildCommands, track: BuildProgress,
          release: Release = DEFAULT) -> Mapping[str, Any]:
    """Build each library and program into a folder, and return the manifest."""
    track.begin_stage("root")
    archive = find_mirrors()
    sources, programs = list_sources(), list_programs()
    compiler: list[str] = []

    def follow_stages(line: str) -> None:
        if line.startswith("@compiler "):
            track.begin_stage("compile")
            compiler.append(line.removeprefix("@compiler "))

    c_library = unfinished / "c-library"
    c_library.mkdir()
    command = build_mmdebstrap_command(
        release.suite, "/dev/null",
        archive.source_lines(release.suite, f"{release.suite}-security"), PACKAGES,
        ["--dpkgopt=force-unsafe-io",  # the root is temporary
         '--customize-hook=mkdir -p "$1/qop/programs"',
         *(make_hook("upload", source, f"/qop/{source.name}") for source in sources),
         *(make_hook("upload", source, f"/qop/programs/{source.name}") for source in programs),
         make_chroot_hook("sh", "-c", _COMPILE),
         make_chroot_hook("sh", "-c", _COPY_C_LIBRARY),
         make_hook("sync-out", "/qop/c-library", c_library),
         *(make_hook("download", f"/qop/{name}", unfinished / name)
           for name in (f"{source.stem}.so" for source in sources)),
         *(make_hook("download", f"/qop/programs/{source.stem}", unfinished / source.stem)
           for source in programs)])
    run_in_scratch(commands, command, unfinished, follow_stages)
    check_symbols([unfinished / f"{source.stem}.so" for source in sources],
                  list(c_library.iterdir()), release)
    shutil.rmtree(c_library)
    return {"suite": release.suite, "compiler": f"gcc {compiler[0]}"}


def check_symbols(preloaded: Sequence[Path], c_library: Sequence[Path], release: Release) -> None:
    """Check that preloaded libraries need nothing but the C library.

    Args:
        preloaded: The libraries. A program that preloads them may have loaded nothing else.
        c_library: The C library of the release, and its loader of programs.
        release: The release, for the message.

    Raises:
        BuildError: A symbol is missing.
    """
    loaded = [elf.parse_object(path.read_bytes()) for path in c_library]
    for path in preloaded:
        if lacking := elf.list_lacking(elf.parse_object(path.read_bytes()), loaded):
            raise BuildError(f"building the preloaded libraries failed: {path.name}: needs "
                             f"{lacking[0]}, which {release.title} lacks; change {path.stem}.c")


# --- Objects that somebody else compiled ---

#: Version of the C library of the default release: what runs there runs on later ones, too.
C_LIBRARY = DEFAULT.c_library
_NEEDED = re.compile(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)*(?=\0)")


def describe_misfit(content: bytes, architecture: str = "amd64") -> str:
    """Return why a program or library cannot run in a guest, "" if it can or is neither.

    Args:
        content: The file's content.
        architecture: Debian's name of the machine's architecture.
    """
    if not elf.is_object(content):
        return ""
    if not elf.is_for(content, architecture):
        return f"is not for {architecture}"
    # Names in the table follow each other with one zero byte between, which ends and begins one.
    versions = [tuple(map(int, found.groups())) for found in _NEEDED.finditer(content)]
    newest = max(versions, default=(0, 0))
    if newest <= C_LIBRARY:
        return ""
    wanted, had = (".".join(map(str, version)) for version in (newest, C_LIBRARY))
    return f"needs GLIBC_{wanted}, and Debian {root.SUITE} has {had}"

