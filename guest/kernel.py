"""Build the User-Mode Linux kernel of guests from Debian's kernel source, with qop's patches.

A guest is the virtual machine of a test network. `build` adds patches and source files to Debian's
kernel source, among them the emulation of the 802.11 medium. It writes the kernel and its
configuration to a folder of the cache. `key` returns a hash of all inputs, so the kernel is built
again only if they change.

With `--on host`, this machine's own kernel emulates the medium by the module `sch_dcf`.
`describe_missing_module` says whether that module is loaded.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from guest.build import BuildCommands, BuildProgress
from guest.cache import hash_inputs
from guest.debian import (
    PrivateApt,
    build_mmdebstrap_command,
    find_mirrors,
    make_chroot_hook,
    make_hook,
    run_in_scratch,
)

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
OBJECTS = 1579
OBJECT_LINE = re.compile(r"^  (CC|AS|AR|HOSTCC)\s")
# Options and patches are written for this kernel. For an older kernel, missing ones are recorded
# and do not fail the build.
STRICT = "linux-source-7.2"
# Part of the names of the patches that the processor clock needs.
PROCESSOR_CLOCK = "processor"


def key() -> str:
    """Return a hash of all inputs of the kernel, which changes if it must be built again."""
    inputs = {name: (HERE / name).read_bytes() for name in ("kernel.config", "kernel.sh")}
    inputs |= {str(path.relative_to(HERE)): path.read_bytes() for path
               in [*list_patches(), *list_sources()]}
    inputs["choice"] = repr((SOURCES, BUILD_SUITE, BUILD_PACKAGES)).encode()
    return hash_inputs(inputs)


def list_patches() -> list[Path]:
    """Return the patches to the kernel, in the order in which they are applied."""
    return sorted((HERE / "patches").glob("*.patch"))


def list_sources() -> list[Path]:
    """Return qop's own kernel source files, which are copied over Debian's source."""
    return sorted(path for path in (HERE / "sources").rglob("*") if path.is_file())


def build(unfinished: Path, commands: BuildCommands, track: BuildProgress) -> Mapping[str, Any]:
    """Build the guest's kernel `linux` and its `config` in a folder, and return the manifest."""
    track.begin_stage("download")
    archive = find_mirrors()
    apt_folder = unfinished / "apt"
    suites = dict.fromkeys(suite for suite, _, _ in SOURCES)
    apt = PrivateApt(apt_folder, archive.source_lines(*suites), commands)
    apt.update_lists()
    package, version = _choose_source(apt, commands)
    source = apt.download_package(package, version, apt_folder)

    track.begin_stage("root")
    command = build_mmdebstrap_command(
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
            make_chroot_hook("sh", "/qop/kernel.sh", "/qop/source.deb", "/qop",
                             "all" if package == STRICT else "some"),
            *(make_hook("download", f"/qop/{name}", unfinished / name)
              for name in ("linux", "config", "left-out")),
        ],
    )
    run_in_scratch(commands, command, unfinished, lambda line: _follow_stages(line, track))
    shutil.rmtree(apt_folder)
    return _make_manifest(unfinished, package, version, commands)


def missing_options(wanted: str, config: str) -> list[str]:
    """Return the kernel options in `kernel.config` that the final configuration lacks."""
    have = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", config, re.M))
    asked = re.findall(r"^(CONFIG_\w+)=(.*)$", wanted, re.M)
    return [f"{name}={value}" for name, value in asked if have.get(name, "n") != value]


def _choose_source(apt: PrivateApt, commands: BuildCommands) -> tuple[str, str]:
    """Return package and newest version of the first source in `SOURCES` that Debian still has."""
    for suite, package, pinned in SOURCES:
        for version, origin in apt.list_versions(package):
            if f" {suite}/" in f" {origin}" and pinned in (None, version):
                return package, version
    tried = ", ".join(f"{package} in {suite}" for suite, package, _ in SOURCES)
    raise commands.make_error(f"the Debian archive has none of {tried}")


def _follow_stages(line: str, track: BuildProgress) -> None:
    if OBJECT_LINE.match(line):
        track.count_item()
    elif line.startswith("@stage "):
        name = line.removeprefix("@stage ")
        if name in track.expected_s:
            track.begin_stage(name, OBJECTS if name == "compile" else None)


def _make_manifest(
    unfinished: Path, package: str, version: str, commands: BuildCommands
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


# The kernel module sch_dcf, which gives this machine's own kernel the guest's medium.

#: Version of the module that is loaded in the kernel.
LOADED_MODULE_VERSION = Path("/sys/module/sch_dcf/version")


def compute_module_version() -> str:
    """Return a hash of the C code of qop's kernel module, 16 hexadecimal digits.

    guest/module/version.sh prints the same hash.
    """
    files = sorted(str(path.relative_to(HERE)) for folder in ("module", "sources")
                   for path in (HERE / folder).rglob("*.[ch]"))
    return hashlib.sha256(b"".join((HERE / name).read_bytes() for name
                                   in files)).hexdigest()[:16]


def describe_missing_module() -> str:
    """Return why stations on this host do not contend for the air, "" if they do.

    Without qop's kernel module, stations take turns. A module built from other code does not count:
    its medium could behave differently.
    """
    try:
        loaded = LOADED_MODULE_VERSION.read_text().strip()
    except OSError:
        return ("its kernel has no module sch_dcf; 'sudo ./qop provision --on host' builds it "
                "where the kernel's headers can be had")
    if loaded == compute_module_version():
        return ""
    return (f"the module sch_dcf is of other code ({loaded}); 'sudo ./qop provision --on host' "
            "builds this one")
