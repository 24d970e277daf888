"""Build the guest's kernel from Debian's source packages, inside a temporary root."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from guest.cache import key_of
from guest.commands import Commands
from guest.debian import (
    PrivateApt,
    clear_scratch,
    find_mirrors,
    in_root_hook,
    make_hook,
    make_scratch,
    mmdebstrap_command,
)
from guest.progress import Track

HERE = Path(__file__).parent

# Kernel sources in order of preference; a version of None means the newest in the suite. Since 6.16
# User-Mode Linux traps system calls with seccomp; 6.12 uses ptrace, at half the speed.
SOURCES: tuple[tuple[str, str, str | None], ...] = (
    ("trixie-backports", "linux-source-7.2", "7.2.12-1~bpo13+1"),
    ("trixie-backports", "linux-source-7.2", None),
    ("bookworm-security", "linux-source-6.12", None),
)
BUILD_SUITE = "bookworm"
BUILD_PACKAGES = ("gcc", "make", "flex", "bison", "bc", "xz-utils", "libc6-dev", "patch")
# Usual seconds on 2 cores, until this machine's own durations are known. OBJECTS is the number of
# object files, from which the share of the compilation done is estimated.
EXPECTED_S = {"download": 10, "root": 12, "unpack": 20, "configure": 8, "compile": 110}
OBJECTS = 1402
OBJECT_LINE = re.compile(r"^  (CC|AS|AR|HOSTCC)\s")
# Options and patches are written for this kernel. For an older kernel, missing ones are recorded
# and do not fail the build.
STRICT = "linux-source-7.2"
# Part of the names of the patches that the processor clock needs.
PROCESSOR_CLOCK = "processor"


def key() -> str:
    """Return a hash of everything that goes into the kernel."""
    inputs = {name: (HERE / name).read_bytes() for name in ("kernel.config", "kernel.sh")}
    inputs |= {str(path.relative_to(HERE)): path.read_bytes() for path
               in [*list_patches(), *list_sources()]}
    inputs["choice"] = repr((SOURCES, BUILD_SUITE, BUILD_PACKAGES)).encode()
    return key_of(inputs)


def list_patches() -> list[Path]:
    """Return the patches to the kernel, in the order in which they are applied."""
    return sorted((HERE / "patches").glob("*.patch"))


def list_sources() -> list[Path]:
    """Return the project's own kernel source files, which are copied over Debian's source."""
    return sorted(path for path in (HERE / "sources").rglob("*") if path.is_file())


def build(unfinished: Path, commands: Commands, track: Track) -> Mapping[str, Any]:
    """Build `linux` and `config` in a folder and return the manifest."""
    track.begin_stage("download")
    archive = find_mirrors()
    apt_folder = unfinished / "apt"
    suites = dict.fromkeys(suite for suite, _, _ in SOURCES)
    apt = PrivateApt(apt_folder, archive.source_lines(*suites), commands)
    apt.update_lists()
    package, version = _choose_source(apt, commands)
    source = apt.download_package(package, version, apt_folder)

    track.begin_stage("root")
    target = make_scratch(unfinished)
    command = mmdebstrap_command(
        BUILD_SUITE,
        "/dev/null",
        archive.source_lines(BUILD_SUITE, f"{BUILD_SUITE}-security"),
        BUILD_PACKAGES,
        [
            "--dpkgopt=force-unsafe-io",  # the root is temporary
            '--customize-hook=mkdir -p "$1/qop/patches" "$1/qop/sources"',
            make_hook("upload", source, "/qop/source.deb"),
            make_hook("upload", HERE / "kernel.config", "/qop/kernel.config"),
            make_hook("upload", HERE / "kernel.sh", "/qop/kernel.sh"),
            make_hook("sync-in", HERE / "patches", "/qop/patches"),
            make_hook("sync-in", HERE / "sources", "/qop/sources"),
            in_root_hook("sh", "/qop/kernel.sh", "/qop/source.deb", "/qop",
                         "all" if package == STRICT else "some"),
            *(make_hook("download", f"/qop/{name}", unfinished / name)
              for name in ("linux", "config", "left-out")),
        ],
    )
    commands.run(
        command,
        each_line=lambda line: _follow_stages(line, track),
        environment={**os.environ, "TMPDIR": str(target)},
    )
    clear_scratch(unfinished)
    shutil.rmtree(apt_folder)
    return _make_manifest(unfinished, package, version, commands)


def missing_options(wanted: str, config: str) -> list[str]:
    """Return the options of `kernel.config` that the final configuration does not have."""
    have = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", config, re.M))
    asked = re.findall(r"^(CONFIG_\w+)=(.*)$", wanted, re.M)
    return [f"{name}={value}" for name, value in asked if have.get(name, "n") != value]


def _choose_source(apt: PrivateApt, commands: Commands) -> tuple[str, str]:
    for suite, package, pinned in SOURCES:
        for version, origin in apt.list_versions(package):
            if f" {suite}/" in f" {origin}" and pinned in (None, version):
                return package, version
    tried = ", ".join(f"{package} in {suite}" for suite, package, _ in SOURCES)
    raise commands.make_error(f"the Debian archive has none of {tried}")


def _follow_stages(line: str, track: Track) -> None:
    if OBJECT_LINE.match(line):
        track.count_item()
    elif line.startswith("@stage "):
        name = line.removeprefix("@stage ")
        if name in track.expected_s:
            track.begin_stage(name, OBJECTS if name == "compile" else None)


def _make_manifest(
    unfinished: Path, package: str, version: str, commands: Commands
) -> Mapping[str, Any]:
    kernel = unfinished / "linux"
    kernel.chmod(0o755)
    wanted = (HERE / "kernel.config").read_text()
    missing = missing_options(wanted, (unfinished / "config").read_text())
    if missing and package == STRICT:
        raise commands.make_error("the kernel's configuration lacks " + ", ".join(missing))
    left_out = (unfinished / "left-out").read_text().split()
    seccomp = b"seccomp=<on/auto/off>" in kernel.read_bytes()
    return {
        "package": package,
        "version": version,
        "seccomp": seccomp,
        "patches_left_out": left_out,
        "processor_clock": seccomp and not any(PROCESSOR_CLOCK in name for name in left_out),
        "clock_read_ticks": 20,
        "options_missing": missing,
    }
