"""`qop doctor`: report what this machine can do, and how to get what is missing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

import studies
from guest import air_module, boot, image
from guest.cache import cache_root
from harness.engine import builders, memory, variants
from harness.engine.machine import TESTBED_PYTHON
from studies.study import StudyError

_GUEST_TOOLS = ("setpriv", "taskset", "tshark", "mergecap", "openssl")
_BUILD_TOOLS = ("mmdebstrap", "tar2sqfs", "apt-get")
_BUILD_ROOM_MB = 6000
_GUEST_ROOM_MB = 256


@dataclass(frozen=True)
class DoctorFinding:
    """A line of the diagnosis. If `needed`, measuring in guests is impossible without it."""

    ok: bool
    what: str
    remedy: str = ""
    needed: bool = True


def _check_tools(names: tuple[str, ...], purpose: str, package_hint: str) -> DoctorFinding:
    missing = [name for name in names if not shutil.which(name)]
    return DoctorFinding(not missing, f"{purpose}: {', '.join(names)}",
                         f"missing: {', '.join(missing)}; {package_hint}")


def _check_measuring_tools() -> DoctorFinding:
    return _check_tools(_GUEST_TOOLS, "tools for measuring",
                        "run './qop doctor' as root or with sudo "
                        "once, which installs them")


def _check_building_tools() -> DoctorFinding:
    tools = _check_tools(_BUILD_TOOLS, "tools for building the guest",
                         "needed once, to build the image")
    return DoctorFinding(tools.ok, tools.what, tools.remedy, needed=_find_image() is None)


def _find_image() -> image.Image | None:
    """Return the image that a run would boot, or None if it was not built."""
    return image.find_image(
        variant=builders.VARIANTS[builders.choose_builder(builders.AUTO, "guest")])


def _check_builders() -> DoctorFinding:
    """Check the network backends: the default, and why others do not work.

    The host is checked, too, if it is a testbed.
    """
    places = ["guest", *(["host"] if TESTBED_PYTHON.exists() else [])]
    lacks = [(place, name, lack) for place in places
             for name, lack in builders.missing_by_builder(place).items() if lack]
    default = ", ".join(f"{builders.choose_builder(builders.AUTO, place)} with --on {place}"
                        for place in places)
    return DoctorFinding(not lacks, f"builder of networks: {default}", "; ".join(
        f"--on {place} goes without {name}: {lack}" for place, name, lack in lacks),
        needed=False)


def _check_guest_image() -> DoctorFinding:
    built = _find_image()
    if built is None:
        return DoctorFinding(False, "guest image",
                             "not built yet; './qop provision' or './qop run' "
                             "builds it (some minutes)", needed=False)
    return DoctorFinding(True, f"guest image {built.key[:12]} in {cache_root()}")


def _check_packages() -> DoctorFinding:
    """Check that the images with packages of studies were built."""
    variant = builders.VARIANTS[builders.choose_builder(builders.AUTO, "guest")]
    try:
        brought = [(study, packages) for study in studies.study_names()
                   for packages in variants.declared_packages(study).values()]
    except StudyError as error:
        return DoctorFinding(False, "packages that studies bring", str(error), needed=False)
    lacking = [study for study, packages in brought
               if image.find_image(variant=variant, packages=packages) is None]
    names = [f"{packages.name} of {study}" for study, packages in brought]
    return DoctorFinding(not lacking, f"packages that studies bring: {', '.join(names) or 'none'}",
                         "not every image is built yet; './qop run' builds what it needs, now: "
                         + ", ".join(f"'./qop provision --study {study}'"
                                     for study in dict.fromkeys(lacking)), needed=False)


def _check_architecture() -> DoctorFinding:
    return DoctorFinding(os.uname().machine == "x86_64", f"processor: {os.uname().machine}",
                         "User-Mode Linux needs x86_64; use --on host")


def _check_seccomp() -> DoctorFinding:
    status = Path("/proc/self/status").read_text()
    return DoctorFinding("Seccomp:" in status, "seccomp, by which guests trap system calls",
                         "the kernel lacks CONFIG_SECCOMP_FILTER; guests will be slower")


def _check_memory() -> DoctorFinding:
    mb = memory.total_mb()
    return DoctorFinding(mb >= 4 * _GUEST_ROOM_MB, f"memory: {mb} MB",
                         f"a guest may take {_GUEST_ROOM_MB} MB")


def _check_shared_memory() -> DoctorFinding:
    place = boot.find_memory_folder(_GUEST_ROOM_MB)
    if place is None:
        return DoctorFinding(False, "a file system in memory for guests' memory",
                             "guests keep it on a disk instead, which is slower: "
                             f"{boot.SHARED_MEMORY} and {tempfile.gettempdir()} are on a disk, "
                             "too small or noexec (for a container: --tmpfs /tmp:exec,size=4g)",
                             needed=False)
    mb = shutil.disk_usage(place).free >> 20
    return DoctorFinding(True, f"{place}: {mb} MB free for guests' memory")


def _check_disk() -> DoctorFinding:
    place = cache_root()
    while not place.exists():
        place = place.parent
    mb = shutil.disk_usage(place).free >> 20
    return DoctorFinding(mb >= _BUILD_ROOM_MB, f"disk: {mb} MB free for {cache_root()}",
                         f"building takes {_BUILD_ROOM_MB} MB; set QOP_CACHE to a larger place",
                         needed=_find_image() is None)


def _check_processors() -> DoctorFinding:
    count = len(os.sched_getaffinity(0))
    return DoctorFinding(count >= 1, f"processors: {count}, one testbed measures on each at a time")


def _check_host_mode() -> DoctorFinding:
    lacking = []
    if os.geteuid() != 0:
        lacking.append("root (use sudo)")
    if not Path("/sys/module/mac80211_hwsim").exists():
        lacking.append("module mac80211_hwsim ('modprobe mac80211_hwsim radios=0'; hosted "
                       "machines and containers often have none)")
    if not TESTBED_PYTHON.exists():
        lacking.append("the testbed's packages ('./qop provision --on host')")
    return DoctorFinding(not lacking, "--on host, measuring on this machine's own kernel",
                         "lacking: " + "; ".join(lacking), needed=False)


def _check_host_medium() -> DoctorFinding:
    lack = air_module.describe_missing_module()
    return DoctorFinding(not lack, "contention with --on host, by the guest's air as a module",
                         f"stations take turns: {lack}", needed=False)


_CHECKS: tuple[Callable[[], DoctorFinding], ...] = (
    _check_architecture, _check_processors, _check_memory, _check_shared_memory, _check_disk,
    _check_seccomp, _check_measuring_tools,
    _check_building_tools, _check_guest_image, _check_packages, _check_builders, _check_host_mode,
    _check_host_medium)


@click.command("doctor", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> int:
    """Report what this machine can do, and how to get what is missing.

    Exit status: 0 if './qop run' can work here, 1 if something needed is missing.
    """
    findings = [check() for check in _CHECKS]
    for finding in findings:
        mark = "ok     " if finding.ok else ("MISSING" if finding.needed else "without")
        click.echo(f"{mark}  {finding.what}")
        if not finding.ok:
            click.echo(f"         {finding.remedy}")
    return int(any(finding.needed and not finding.ok for finding in findings))
