"""Find the image of a guest in the cache, or build it.

A guest is the virtual machine of a test network. Its image has three parts: a kernel, a root file
system, and libraries that programs in the guest preload (LD_PRELOAD). `ensure_image` returns the
paths of these parts as a `GuestImage`. It builds missing parts in parallel and shows the progress.
`find_image` only looks in the cache.
"""

from __future__ import annotations

import json
import platform
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from guest import debian, elf, kernel, libraries, root
from guest.build import (
    BuildCommands,
    BuildError,
    BuildProgress,
    BuildStatus,
    ProgressPrinter,
    summarize_progress,
)
from guest.cache import BuildStore, cache_root
from guest.releases import DEFAULT, Release
from guest.root_variants import (
    PackageList,
    PackageListWithStrongswan,
    RootWithMininetWifi,
    RootWithPackages,
    RootWithStrongswan,
    leave_out_strongswan,
)
from guest.vm_kernel import VmKernel

POLL_S = 0.2
#: Variants of the root file system: plain, and with Mininet-WiFi.
PLAIN, MININET_WIFI = "plain", "mininet-wifi"
PARTS = ("kernel", "root", "libraries")
#: Debian's name of this machine's architecture.
NATIVE_ARCHITECTURE = {machine: name for name, machine in root.MACHINES.items()}.get(
    platform.machine(), "")
TOOLS = ("mmdebstrap", "tar2sqfs", "sqfs2tar", "setpriv", "taskset", "apt-get", "dpkg-deb",
         "mount")

ProgressListener = Callable[[BuildStatus], None]


@dataclass(frozen=True)
class GuestImage:
    """A guest image: a kernel, a root file system and a folder of preloaded libraries.

    `manifest` has the manifests of `kernel`, `root` and `libraries`. `key` names kernel and root.
    """

    kernel: Path
    root: Path
    seccomp: bool
    key: str
    manifest: Mapping[str, Any]
    libraries: Path = Path()

    @property
    def processor_clock(self) -> bool:
        """Return whether the kernel of the image supports the processor clock.

        Manifests from before the processor clock do not state it.
        """
        return bool(self.manifest.get("kernel", {}).get("processor_clock"))


class BuildRecipe(Protocol):
    """A builder of one part of a guest image, such as the kernel. It may be a module."""

    @property
    def EXPECTED_S(self) -> Mapping[str, float]:  # noqa: N802 - a constant of modules
        """Return the usual duration of each stage of the build in seconds."""

    def key(self) -> str:
        """Return a hash of all inputs of the image part, such as the kernel.

        If the hash changes, the part must be built again.
        """

    def build(self, unfinished: Path, commands: BuildCommands,
              track: BuildProgress) -> Mapping[str, Any]:
        """Build the image part (such as the kernel) in a folder and return its manifest.

        Args:
            unfinished: An empty folder for the result.
            commands: Runs and logs the build's commands.
            track: Receives the stages as they begin.
        """


@dataclass(frozen=True)
class FunctionRecipe:
    """A recipe made of a module's functions. Its fields: `BuildRecipe`."""

    EXPECTED_S: Mapping[str, float]
    key: Callable[[], str]
    build: Callable[[Path, BuildCommands, BuildProgress], Mapping[str, Any]]


@dataclass(frozen=True)
class ImagePart:
    """A part of a guest image: its name, its cache folder and its build recipe.

    `check` gets the folder of a finished build, and raises BuildError if it cannot be used.
    """

    name: str
    store: BuildStore
    recipe: BuildRecipe
    check: Callable[[Path], None] = lambda _: None


def list_image_parts(
    cache: Path | None = None,
    variant: str = PLAIN,
    source: str = "",
    packages: PackageList | None = None,
    vm: str = "",
    release: Release = DEFAULT,
) -> tuple[ImagePart, ...]:
    """Return the parts of a guest image: kernel, root file system and preloaded libraries.

    They are separate, so that another package list does not rebuild the kernel. With `vm`, the
    architecture of a virtual machine, the kernel is Debian's own.
    """
    base = cache or cache_root()
    packages = leave_out_strongswan(packages, release)
    name = "-".join(["root", *([release.suite] if release != DEFAULT else []),
                     *([vm] if _is_foreign(vm) else []),
                     *([variant] if variant != PLAIN else []),
                     *([packages.name] if packages else [])])
    kernel_part = ImagePart("vm-kernel",
                            BuildStore(base / "vm-kernels", "kernel", debian.remove_build),
                            VmKernel(vm)) if vm else \
        ImagePart("kernel", BuildStore(base / "kernels", "kernel", debian.remove_build), kernel)
    return (
        kernel_part,
        ImagePart(name, BuildStore(base / "roots", "root file system", debian.remove_build),
                  _root_recipe(variant, source, packages, vm, release),
                  partial(_check_root, architecture=vm or NATIVE_ARCHITECTURE, release=release)),
        # A machine of another architecture works without preloaded libraries.
        *([] if _is_foreign(vm) else [ImagePart(
            "libraries", BuildStore(base / "libraries", "preloaded libraries", debian.remove_build),
            FunctionRecipe(libraries.EXPECTED_S, partial(libraries.key, release),
                          partial(libraries.build, release=release)))]),
    )


def _root_recipe(variant: str, source: str, packages: PackageList | None, vm: str,
                 release: Release) -> BuildRecipe:
    """Return the build recipe of a root file system with a network backend and packages.

    A virtual machine `vm` of another architecture than this machine's has only the plain one.
    """
    if _is_foreign(vm):
        return root.ForeignRoot(vm)
    if release != DEFAULT and packages is None:
        return FunctionRecipe(root.EXPECTED_S, partial(root.key, release),
                              partial(root.build, release=release))
    mininet_wifi = RootWithMininetWifi(source) if variant == MININET_WIFI else None
    if packages is None:
        return mininet_wifi or root
    recipe = RootWithStrongswan if isinstance(packages,
                                              PackageListWithStrongswan) else RootWithPackages
    return recipe(packages, mininet_wifi, release)


def _check_root(folder: Path, architecture: str, release: Release) -> None:
    """Check that a built root file system has the libraries and symbols that its programs need.

    Programs and libraries of Debian's packages are not checked: these packages depend on what they
    need.

    Raises:
        BuildError: A library or symbol is missing. The message names one program or library.
    """
    try:
        found = elf.read_squashfs(folder / "root.squashfs", architecture)
    except elf.ElfError as error:
        raise BuildError(f"building the root file system failed: {error}; try again") from None
    misfits = [line for path in found.list_own() for line in found.describe_misfits(path)[:1]]
    if misfits:
        more = f" (and {len(misfits) - 1} more)" if misfits[1:] else ""
        raise BuildError(f"building the root file system failed: {release.title} on "
                         f"{architecture} cannot load {misfits[0]}{more}; choose another version, "
                         "or add the Debian package that it needs")


def _is_foreign(vm: str) -> bool:
    """Return whether a virtual machine's architecture differs from this machine's."""
    return bool(vm) and root.MACHINES[vm] != platform.machine()


def find_image(
    cache: Path | None = None, variant: str = PLAIN, packages: PackageList | None = None,
    vm: str = "", release: Release = DEFAULT
) -> GuestImage | None:
    """Return the guest image for the present state of qop's files, None if it is not built."""
    if _is_foreign(vm) and (packages or variant != PLAIN):
        return None
    places = _find_places(list_image_parts(cache, variant, packages=packages, vm=vm,
                                           release=release))
    return _make_image(*places) if places else None


def _find_places(parts: Sequence[ImagePart]) -> list[Path] | None:
    """Return the folders of all parts, None if a part is not built."""
    places = [place for part in parts if (place := part.store.find_build(part.recipe.key()))]
    return places if len(places) == len(parts) else None


def _build_places(parts: Sequence[ImagePart], cache: Path | None,
                  progress: ProgressListener | None, what: str) -> list[Path]:
    """Build the parts that are missing, and return the folders of all."""
    _require_tools()
    build_all(parts, cache or cache_root(), progress, what=what)
    places = _find_places(parts)
    if places is None:
        raise BuildError(_CHANGED)
    return places


def ensure_image(
    progress: ProgressListener | None = None,
    cache: Path | None = None,
    variant: str = PLAIN,
    source: str = "",
    packages: PackageList | None = None,
    vm: str = "",
    release: Release = DEFAULT,
) -> GuestImage:
    """Return the guest image, built if it is missing.

    A build takes minutes and needs the Debian archive and pip's index.

    Args:
        progress: Called with a BuildStatus a few times a second, in this thread. An exception that
            it raises, or Ctrl-C, stops the build. Without it, a line on standard error shows
            progress.
        cache: Cache folder, by default `cache_root()`.
        variant: PLAIN or MININET_WIFI.
        source: Address to fetch Mininet-WiFi from; "" uses the address in its Ansible role.
        packages: Packages to add to the variant, in a separate image.
        vm: Architecture of a virtual machine that boots the image, "" for an embedded guest.
        release: Debian release of root file system and libraries. Only the default one has
            MININET_WIFI, and images for other architectures.

    Raises:
        BuildError: The build failed; the text is meant for the user.
    """
    packages = leave_out_strongswan(packages, release)
    found = find_image(cache, variant, packages, vm, release)
    if found:
        return found
    if _is_foreign(vm) and (packages or variant != PLAIN):
        raise BuildError(f"an image of another architecture ({vm}) has no additions; choose a "
                         "machine of this architecture")
    try:
        return _make_image(*_build_places(
            list_image_parts(cache, variant, source, packages, vm, release), cache, progress,
            "guest" + (f" with packages {packages.name}" if packages else "")
            + (f" of {release.title}" if release != DEFAULT else "")))
    except BuildError as error:
        if not release.is_testing or "was stopped" in str(error):
            raise
        first, *tail = str(error).split("\n")
        advice = (f"{first}; packages of {release.title} change every day, so try again tomorrow, "
                  f"or set {debian.MIRROR_VARIABLE} to a snapshot of Debian's archive")
        raise BuildError("\n".join([advice, *tail])) from None


def ensure_rootless_image(progress: ProgressListener | None = None,
                          cache: Path | None = None) -> GuestImage:
    """Return an image without a root file system, for machines with radios.

    Kernel and libraries are built if they are missing. `root` of the result is no file.

    Raises:
        BuildError: The build failed; the text is meant for the user.
    """
    found = find_rootless_image(cache)
    if found:
        return found
    return _make_rootless_image(_build_places(_list_rootless_parts(cache), cache, progress,
                                              "machine with radios"))


def find_rootless_image(cache: Path | None = None) -> GuestImage | None:
    """Return an image without a root file system, None if it is not built."""
    places = _find_places(_list_rootless_parts(cache))
    return _make_rootless_image(places) if places else None


def _list_rootless_parts(cache: Path | None) -> list[ImagePart]:
    return [part for part in list_image_parts(cache) if part.name in ("kernel", "libraries")]


def _make_rootless_image(places: Sequence[Path]) -> GuestImage:
    manifest = {name: BuildStore.read_manifest(place)
                for name, place in zip(("kernel", "libraries"), places, strict=True)}
    return GuestImage(places[0] / "linux", Path(), bool(manifest["kernel"]["seccomp"]),
                      places[0].name, manifest, places[1])


_CHANGED = "the guest's inputs changed while it was built; run the command again"


def _require_tools() -> None:
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        raise BuildError("building the guest needs " + ", ".join(missing) + "; ./qop installs them")


class _Build(threading.Thread):
    """A thread that builds one part of an image, so that compiling and downloading can overlap."""

    def __init__(self, part: ImagePart, cache: Path) -> None:
        super().__init__(name=f"build {part.name}", daemon=True)
        self.part = part
        self.key = part.recipe.key()
        self.error: BaseException | None = None
        self.commands = BuildCommands(part.store.what,
                                      cache / "logs" / f"{part.name}-{self.key}.log")
        self._times = cache / "logs" / f"{part.name}-times.json"
        self.track = BuildProgress(part.name,
                                   _expected_durations(part.recipe.EXPECTED_S, self._times))

    def run(self) -> None:
        try:
            self.part.store.find_or_build(self.key, self._build_part, self._note_waiting)
            self.track.finish()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that asked for the build
            self.error = error

    def _build_part(self, unfinished: Path) -> Mapping[str, Any]:
        self.track.set_note(None)
        started = time.monotonic()
        manifest = self.part.recipe.build(unfinished, self.commands, self.track)
        self.part.check(unfinished)
        self.track.finish()
        self._times.write_text(json.dumps(self.track.durations_s))
        return {**manifest, "build_s": round(time.monotonic() - started, 1)}

    def _note_waiting(self, text: str) -> None:
        self.track.set_note(text)
        if self.commands.stopped:
            raise self.commands.make_error("stopped")


def build_all(
    parts_to_build: Sequence[ImagePart], cache: Path, progress: ProgressListener | None = None,
    what: str = "guest"
) -> None:
    """Build those parts of an image that are missing, in parallel.

    Args:
        parts_to_build: The parts to build.
        cache: Folder of logs and earlier durations.
        progress: As for `ensure_image`.
        what: Name of the result in the progress line.
    """
    printer = None if progress else ProgressPrinter(what=what)
    try:
        _build_all(parts_to_build, cache, progress or printer or ProgressPrinter())
    finally:
        if printer:
            printer.close()


def _build_all(wanted: Sequence[ImagePart], cache: Path, progress: ProgressListener) -> None:
    builds = [_Build(part, cache) for part in wanted]
    for build in builds:
        build.start()
    try:
        fraction = 0.0
        while any(build.is_alive() for build in builds) and not any(b.error for b in builds):
            status = summarize_progress([build.track for build in builds], fraction)
            fraction = status.fraction
            progress(status)
            time.sleep(POLL_S)
    finally:
        # In every case: if one build failed or the user interrupted, the other builds are
        # pointless.
        if not all(build.track.finished for build in builds):
            for build in builds:
                build.commands.stop()
        for build in builds:
            build.join()
    errors = [build.error for build in builds if build.error]
    # The first error is the cause; "was stopped" is its consequence.
    for error in sorted(errors, key=lambda error: "was stopped" in str(error)):
        raise error


def _expected_durations(usual: Mapping[str, float], times: Path) -> dict[str, float]:
    try:
        last = json.loads(times.read_text())
    except (OSError, ValueError):
        last = {}
    return {name: float(last.get(name, seconds)) for name, seconds in usual.items()}


def _make_image(kernel_place: Path, root_place: Path,
                libraries_place: Path | None = None) -> GuestImage:
    places = [kernel_place, root_place, *([libraries_place] if libraries_place else [])]
    manifest = {name: BuildStore.read_manifest(place) for name, place in zip(
        PARTS, places, strict=False)}
    return GuestImage(
        kernel=kernel_place / "linux",
        root=root_place / "root.squashfs",
        seccomp=bool(manifest["kernel"]["seccomp"]),
        key=f"{kernel_place.name}-{root_place.name}",
        manifest=manifest,
        libraries=libraries_place or Path(),
    )
