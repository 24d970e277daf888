"""`qop doctor`: report what this machine can measure, and how to get what is missing.

The command checks programs, memory, disk and permissions. Then it makes a trial: it starts a small
emulated network and measures once. It prints a line for each check, and the exit status is 1 if
`./qop run` would not work.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

import studies
from guest import boot, image, kernel, vm
from guest.cache import cache_root
from harness import removal
from harness.engine import host_checks, setup, trial, virtual
from harness.engine.host_checks import DoctorFinding
from harness.engine.machine import TESTBED_PYTHON
from harness.errors import UserError
from policies import load_named, policy_ids
from studies.study import StudyError

#: Largest parts of the cache that the diagnosis names.
_NAMED_PARTS = 3
#: What a trial does first, by the kind of machine.
_STARTS = {"guest": "a guest boots", "vm": "a virtual machine boots", "host": "nodes start here"}
#: Names of images, and the option of the commands that build them, by the kind of machine.
_IMAGES = {"guest": ("guest image", ""), "vm": ("image of virtual machines", " --on vm")}


def _check_measuring_tools() -> DoctorFinding:
    return host_checks.check_tools(host_checks.MEASURING_TOOLS, "tools for measuring")


def _check_building_tools() -> DoctorFinding:
    return host_checks.check_tools(host_checks.building_tools(), "tools for building the guest")


def _choose_image_kind(on: str) -> str:
    """Return which image concerns a kind of machine: that of guests or of virtual machines.

    Only the latter can be built where User-Mode Linux does not run.
    """
    return "vm" if on == "vm" or not host_checks.check_architecture().ok else "guest"


def _choose_variant(kind: str) -> str:
    """Return the variant of the image that a run would boot, for the best network builder."""
    return setup.VARIANT_OF_BUILDER[setup.choose_builder(setup.AUTO_BUILDER, kind)]


def _find_image(kind: str) -> image.GuestImage | None:
    """Return the image that a run would boot, or None if it was not built.

    Args:
        kind: Kind of machine, "guest" or "vm".
    """
    return image.find_image(variant=_choose_variant(kind), vm=setup.vm_architecture(kind))


def _check_builders(kind: str) -> DoctorFinding:
    """Check the network backends (Mininet, Mininet-WiFi), in images and on this host."""
    places = [kind, *(["host"] if TESTBED_PYTHON.exists() else [])]
    lacks = [(place, name, lack) for place in places
             for name, lack in setup.find_missing_by_builder(place).items() if lack]
    default = ", ".join(f"{setup.choose_builder(setup.AUTO_BUILDER, place)} with --on {place}"
                        for place in places)
    return DoctorFinding(not lacks, f"builder of networks: {default}", "; ".join(
        f"--on {place} goes without {name}: {lack}" for place, name, lack in lacks),
        needed=False)


def _check_image(kind: str) -> DoctorFinding:
    name, option = _IMAGES[kind]
    built = _find_image(kind)
    if built is None:
        return DoctorFinding(False, name, f"not built yet; './qop provision{option}' or "
                             f"'./qop run{option}' builds it (some minutes)", needed=False)
    return DoctorFinding(True, f"{name} {built.key[:12]} in {cache_root()}")


def _check_packages(kind: str) -> DoctorFinding:
    """Check that the images with additional packages of studies were built."""
    variant, architecture = _choose_variant(kind), setup.vm_architecture(kind)
    try:
        brought = [(study, packages) for study in studies.study_names()
                   for packages in setup.read_declared_packages(study).values()]
    except StudyError as error:
        return DoctorFinding(False, "packages that studies bring", str(error), needed=False)
    lacking = [study for study, packages in brought
               if image.find_image(variant=variant, packages=packages, vm=architecture) is None]
    names = [f"{packages.name} of {study}" for study, packages in brought]
    option = _IMAGES[kind][1]
    commands = ", ".join(f"'./qop provision{option} --study {study}'"
                         for study in dict.fromkeys(lacking))
    remedy = (f"not every image is built yet; './qop run{option}' builds what it needs, now: "
              f"{commands}")
    if kind == "vm" and vm.is_foreign(vm.find_architecture()):
        remedy = f"an image of another architecture ({architecture}) has none"
    return DoctorFinding(not lacking, f"packages that studies bring: {', '.join(names) or 'none'}",
                         remedy, needed=False)


def _check_trapping() -> DoctorFinding:
    built = _find_image("guest")
    return host_checks.check_trapping(by_seccomp=built is None or built.seccomp)


def _check_shared_memory() -> DoctorFinding:
    place = boot.find_memory_folder(host_checks.GUEST_ROOM_MB)
    if place is None:
        return DoctorFinding(False, "a file system in memory for guests' memory",
                             "guests keep it on a disk instead, which is slower: "
                             f"{boot.SHARED_MEMORY} and {tempfile.gettempdir()} are on a disk, "
                             "too small or noexec (for a container: --tmpfs /tmp:exec,size=4g)",
                             needed=False)
    mb = shutil.disk_usage(place).free >> 20
    return DoctorFinding(True, f"{place}: {mb} MB free for guests' memory")


def _check_cache() -> DoctorFinding:
    if kind := os.environ.get(removal.IN_IMAGE):
        return DoctorFinding(True, f"cache: {cache_root()}, a part of this {kind} image")
    return host_checks.check_cache()


def _check_disk_use() -> DoctorFinding:
    """Report how much disk space qop's cache takes, and its largest parts."""
    parts = removal.measure_parts(cache_root())
    largest = sorted(parts, key=lambda part: -parts[part])[:_NAMED_PARTS]
    named = ", ".join(f"{part.name} {removal.format_bytes(parts[part])}" for part in largest)
    advice = "" if removal.IN_IMAGE in os.environ else "; './qop uninstall' removes it"
    return DoctorFinding(True, f"disk in use: {removal.format_bytes(sum(parts.values()))} in "
                         f"{cache_root()}{f' ({named})' if named else ''}{advice}")


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
    lack = kernel.describe_missing_module()
    return DoctorFinding(not lack, "contention with --on host, by the guest's air as a module",
                         f"stations take turns: {lack}", needed=False)


def _check_virtual_machines() -> DoctorFinding:
    found = virtual.describe_support()
    return DoctorFinding(found.is_whole, found.what, found.remedy, needed=False)


def _check_virtual_proofs() -> DoctorFinding:
    return DoctorFinding(*virtual.describe_unproven(), needed=False)


def _check_host_proofs(shows: bool | None = None) -> DoctorFinding:
    """Name the policies whose keys this host's kernel does not show.

    Args:
        shows: Whether it showed keys in a trial, None to look at its configuration.
    """
    lacking = virtual.unproven_policies(map(load_named, policy_ids()))
    release = os.uname().release
    if shows is None:
        shows = host_checks.kernel_shows_keys()
    what = "proofs of every policy with --on host"
    if shows is None:
        return DoctorFinding(False, what, f"{', '.join(lacking)}: need a kernel that shows keys "
                             f"({host_checks.KEYS_OPTION}), and the configuration of {release} "
                             "cannot be read; measure these in guests", needed=False)
    return DoctorFinding(shows, what, f"{', '.join(lacking)}: cannot be proven, because kernel "
                         f"{release} lacks {host_checks.KEYS_OPTION}; measure these in guests",
                         needed=False)


def _check_trial(on: str = "guest", study: str = "") -> Iterator[DoctorFinding]:
    """Measure the smallest repetition on a kind of machine, of a study if one is named.

    On this host, the trial also shows which policies its kernel can prove.
    """
    measured = f"{study} is measured" if study else "a station joins an access point"
    what = f"trial: {_STARTS[on]}, {measured}, captures have frames"
    if obstacle := _find_trial_obstacle(on):
        yield DoctorFinding(False, what, obstacle, needed=False)
        if on == "host":
            yield _check_host_proofs()
        return
    result = trial.run_trial(on, study)
    counts = ", ".join(f"{name} {count}" for name, count in result.frames.items())
    place = "" if on == "guest" else f" --on {on}"
    yield DoctorFinding(not result.reason, f"{what} ({counts or 'none'}; "
                        f"{result.duration_s:.1f} s)",
                        f"{result.reason}; './qop run{place}' fails likewise until this is mended")
    if on == "host":
        yield _check_host_proofs(result.shows_keys)


def _find_trial_obstacle(on: str) -> str:
    """Return why a trial is not possible yet, "" if it is."""
    if on == "host":
        host = _check_host_mode()
        return "" if host.ok else f"not possible before the rest is there: {host.remedy}"
    if on == "guest" and not host_checks.check_architecture().ok:
        return ("not possible, because User-Mode Linux needs x86_64; './qop provision --on vm' "
                "builds the image of virtual machines, and './qop doctor --on vm' tries one")
    if on == "vm" and not virtual.describe_support().is_possible:
        return "not possible without QEMU, as above"
    if _find_image(on):
        return ""
    name, option = _IMAGES[on]
    first = "QEMU" if on == "vm" else "a trapped system call"
    return (f"not possible before the {name} is built; './qop provision{option}' builds it (some "
            f"minutes). Tried without it: {first}, user namespaces and tshark")


_Check = Callable[[], DoctorFinding]
#: All checks but the trial, in the order of the diagnosis: of resources and programs, of images,
#: and of other kinds of machines.
_CHECKS: tuple[_Check, ...] = (
    host_checks.check_architecture, _check_processors, host_checks.check_memory,
    _check_shared_memory, _check_cache, host_checks.check_disk, _check_disk_use,
    _check_trapping, _check_measuring_tools, host_checks.check_dissection,
    _check_building_tools, host_checks.check_namespaces)
_IMAGE_CHECKS = (_check_image, _check_packages, _check_builders)
_MACHINE_CHECKS: tuple[_Check, ...] = (
    _check_host_mode, _check_host_proofs, _check_host_medium, _check_virtual_machines,
    _check_virtual_proofs)


def _find_needs(on: str, kind: str) -> dict[_Check, bool]:
    """Return which checks a run needs, where that depends on the machine or on what is built.

    A run makes these checks of a build only if a part of its image is missing, and that of disk
    space only if all parts are (`setup.check_plan_build`).
    """
    missing = {} if on == "host" else setup.find_missing_parts(
        _choose_variant(kind), vm=setup.vm_architecture(kind))
    return {
        _check_cache: bool(missing), _check_building_tools: bool(missing),
        host_checks.check_namespaces: bool(missing),
        host_checks.check_disk: bool(missing) and all(missing.values()),
        host_checks.check_architecture: on == "guest", _check_trapping: on == "guest",
        _check_host_mode: on == "host",
        _check_virtual_machines: on == "vm" and not virtual.describe_support().is_possible}


def _find_all(on: str, study: str, *, with_trial: bool) -> Iterator[DoctorFinding]:
    """Yield the findings about a kind of machine, in order."""
    kind = _choose_image_kind(on)
    needs = _find_needs(on, kind)
    checks: list[_Check] = [*_CHECKS, *(partial(check, kind) for check in _IMAGE_CHECKS),
                            *_MACHINE_CHECKS]
    for check in checks:
        if check is _check_host_proofs and on == "host" and with_trial:
            continue  # the trial knows more
        finding = check()
        yield replace(finding, needed=needs.get(check, finding.needed))
    if with_trial:
        yield from _check_trial(on, study)


@click.command("doctor", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--on", type=click.Choice(["guest", "vm", "host"]), default="guest",
              help="Try an embedded guest, a virtual machine, or this machine's own kernel as root "
              "(default: guest).")
@click.option("--study", metavar="STUDY", default="",
              help="Measure the shortest repetition of this study in the trial, with its packages "
              "(default: one station and one access point).")
@click.option("--no-trial", "without_trial", is_flag=True,
              help="Boot nothing and measure nothing (default: a station sends in a testbed).")
def command(on: str, study: str, without_trial: bool) -> int:
    """Report what this machine can do, and how to get what is missing.

    Exit status: 1 if something is missing that './qop run' needs, with the same --on. Else 0. That
    is a proof only if the trial was made: without an image or with --no-trial nothing is booted.
    """
    if study and without_trial:
        raise UserError("doctor: --study is for the trial; leave out --no-trial")
    if study:
        trial.choose_study(study)
    failed = False
    for finding in _find_all(on, study, with_trial=not without_trial):
        mark = "ok     " if finding.ok else ("MISSING" if finding.needed else "without")
        click.echo(f"{mark}  {finding.what}")
        if not finding.ok:
            click.echo(f"         {finding.remedy}")
        failed |= finding.needed and not finding.ok
    return int(failed)
