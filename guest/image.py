"""Find the guest's image in the cache, or build it.

An image is a kernel and a root file system.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from guest import debian, kernel, root
from guest.cache import Store, cache_root
from guest.commands import BuildError, Commands
from guest.mininet_wifi import WithMininetWifi
from guest.packages import Packages, WithPackages
from guest.progress import Printer, Status, Track, status_of
from guest.strongswan import PackagesAndStrongswan, WithStrongswan

POLL_S = 0.2
#: Variants of the root file system: plain, and with Mininet-WiFi.
PLAIN, MININET_WIFI = "plain", "mininet-wifi"
TOOLS = ("mmdebstrap", "tar2sqfs", "setpriv", "taskset", "apt-get", "dpkg-deb")

Progress = Callable[[Status], None]


@dataclass(frozen=True)
class Image:
    """A kernel and a root file system. `manifest` has the manifests of `kernel` and `root`."""

    kernel: Path
    root: Path
    seccomp: bool
    key: str
    manifest: Mapping[str, Any]

    @property
    def processor_clock(self) -> bool:
        """Return whether the kernel has the processor clock.

        Manifests from before the processor clock do not state it.
        """
        return bool(self.manifest.get("kernel", {}).get("processor_clock"))


class Recipe(Protocol):
    """A builder of one part of an image. A module can implement this protocol."""

    @property
    def EXPECTED_S(self) -> Mapping[str, float]:  # noqa: N802 - a constant of modules
        """Return the usual duration of each stage in seconds."""

    def key(self) -> str:
        """Return a hash of everything that goes into the part."""

    def build(self, unfinished: Path, commands: Commands, track: Track) -> Mapping[str, Any]:
        """Build the part in a folder and return the manifest.

        Args:
            unfinished: An empty folder for the result.
            commands: Runs and logs the build's commands.
            track: Receives the stages as they begin.
        """


@dataclass(frozen=True)
class Part:
    """A part of an image: its name, its store and its recipe."""

    name: str
    store: Store
    recipe: Recipe


def image_parts(
    cache: Path | None = None,
    variant: str = PLAIN,
    source: str = "",
    packages: Packages | None = None,
) -> tuple[Part, Part]:
    """Return the kernel and the root file system as two parts.

    They are separate, so that another package list does not rebuild the kernel.
    """
    base = cache or cache_root()
    name = "-".join(["root", *([variant] if variant != PLAIN else []),
                     *([packages.name] if packages else [])])
    return (
        Part("kernel", Store(base / "kernels", "kernel", debian.remove_build), kernel),
        Part(name, Store(base / "roots", "root file system", debian.remove_build),
             _root_recipe(variant, source, packages)),
    )


def _root_recipe(variant: str, source: str, packages: Packages | None) -> Recipe:
    """Return the recipe of a root file system with the given variant and packages."""
    mininet_wifi = WithMininetWifi(source) if variant == MININET_WIFI else None
    if packages is None:
        return mininet_wifi or root
    recipe = WithStrongswan if isinstance(packages, PackagesAndStrongswan) else WithPackages
    return recipe(packages, mininet_wifi)


def find_image(
    cache: Path | None = None, variant: str = PLAIN, packages: Packages | None = None
) -> Image | None:
    """Return the image for the project's present state, or None if it was not built."""
    places = [part.store.find_build(part.recipe.key())
              for part in image_parts(cache, variant, packages=packages)]
    if places[0] is None or places[1] is None:
        return None
    return _make_image(places[0], places[1])


def ensure_image(
    progress: Progress | None = None,
    cache: Path | None = None,
    variant: str = PLAIN,
    source: str = "",
    packages: Packages | None = None,
) -> Image:
    """Return the image, built first if it is missing.

    A build takes minutes and needs the Debian archive and pip's index.

    Args:
        progress: Called with a Status a few times a second, in this thread. An exception that it
            raises, or Ctrl-C, stops the build. Without it, a line on standard error shows progress.
        cache: Cache folder, by default `cache_root()`.
        variant: PLAIN or MININET_WIFI.
        source: Address to fetch Mininet-WiFi from; "" uses the address in its Ansible role.
        packages: Packages to add to the variant, in a separate image.

    Raises:
        BuildError: The build failed; the text is meant for the user.
    """
    found = find_image(cache, variant, packages)
    if found:
        return found
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        raise BuildError("building the guest needs " + ", ".join(missing) + "; ./qop installs them")
    build_all(image_parts(cache, variant, source, packages), cache or cache_root(), progress,
              what=f"guest with packages {packages.name}" if packages else "guest")
    built = find_image(cache, variant, packages)
    if built is None:
        raise BuildError("the guest's inputs changed while it was built; run the command again")
    return built


class _Build(threading.Thread):
    """A thread that builds one part: compiling and downloading can overlap."""

    def __init__(self, part: Part, cache: Path) -> None:
        super().__init__(name=f"build {part.name}", daemon=True)
        self.part = part
        self.key = part.recipe.key()
        self.error: BaseException | None = None
        self.commands = Commands(part.store.what, cache / "logs" / f"{part.name}-{self.key}.log")
        self._times = cache / "logs" / f"{part.name}-times.json"
        self.track = Track(part.name, _expected_durations(part.recipe.EXPECTED_S, self._times))

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
        self.track.finish()
        self._times.write_text(json.dumps(self.track.durations_s))
        return {**manifest, "build_s": round(time.monotonic() - started, 1)}

    def _note_waiting(self, text: str) -> None:
        self.track.set_note(text)
        if self.commands.stopped:
            raise self.commands.make_error("stopped")


def build_all(
    parts_to_build: Sequence[Part], cache: Path, progress: Progress | None = None,
    what: str = "guest"
) -> None:
    """Build the missing parts in parallel.

    Args:
        parts_to_build: The parts to build.
        cache: Folder of logs and earlier durations.
        progress: As for `ensure_image`.
        what: Name of the result in the progress line.
    """
    printer = None if progress else Printer(what=what)
    try:
        _build_all(parts_to_build, cache, progress or printer or Printer())
    finally:
        if printer:
            printer.close()


def _build_all(wanted: Sequence[Part], cache: Path, progress: Progress) -> None:
    builds = [_Build(part, cache) for part in wanted]
    for build in builds:
        build.start()
    try:
        while any(build.is_alive() for build in builds) and not any(b.error for b in builds):
            progress(status_of([build.track for build in builds]))
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


def _make_image(kernel_place: Path, root_place: Path) -> Image:
    manifest = {"kernel": Store.read_manifest(kernel_place),
                "root": Store.read_manifest(root_place)}
    return Image(
        kernel=kernel_place / "linux",
        root=root_place / "root.squashfs",
        seccomp=bool(manifest["kernel"]["seccomp"]),
        key=f"{kernel_place.name}-{root_place.name}",
        manifest=manifest,
    )
