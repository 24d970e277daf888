"""Build the base layer of qop's container images: Debian with a Python environment.

`build` makes the layer of the image that measures, with tshark and all Python packages of the
harness. `build_radio_layer` makes a layer for `qop radio` alone, a fifth of the size. Both write to
a folder of the cache. `key` and `hash_radio_inputs` return a hash of all inputs, so a layer is
built again only if they change. `harness.container.image` adds qop itself.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from guest import root
from guest.build import BuildCommands, BuildError, BuildProgress
from guest.cache import BuildStore, hash_inputs, read_definitions
from guest.debian import (
    build_mmdebstrap_command,
    find_mirrors,
    make_chroot_hook,
    make_hook,
    run_in_scratch,
)
from harness.container import layout
from harness.engine.machine import ROOT

HERE = Path(__file__).parent
LOCK = ROOT / "requirements" / "harness.lock"
#: Path of the Python environment in the image.
ENVIRONMENT = "/opt/qop/python"
# Programs that the harness starts: tshark and mergecap, openssl, setpriv and taskset (part of
# util-linux, which is essential). tini is the container's first process.
PACKAGES = ("openssl", "python3", "tini", "tshark")
#: Packages that are needed to create the environment, and removed afterwards.
MAKING = ("binutils", "python3-venv")
#: zstd level. The archive's limit is 250 MB: this level takes a minute, once for each lock file.
LEVEL = 15
#: Names of this file whose source is part of the base's cache key.
RECIPE = ("ENVIRONMENT", "PACKAGES", "MAKING", "LEVEL", "build", "_build_layer", "_COMPILE",
          "_environment_hooks", "_hooks")
#: Python packages that `qop radio` imports. Everything else of the lock file is left out.
RADIO_MODULES = ("annotated-types", "click", "pydantic", "pydantic-core", "pyyaml",
                 "typing-extensions", "typing-inspection")
RADIO_PACKAGES = ("python3", "tini")
RADIO_MAKING = ("python3-venv",)
#: Files of Debian's that no command of the smaller image reads.
RADIO_UNUSED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*",
                "/var/cache/*", "/var/lib/apt/lists/*", "/usr/share/python-wheels")
EXPECTED_S = {"wheels": 15, "packages": 45, "environment": 45, "layer": 25}


def key() -> str:
    """Return a hash of all inputs of the base layer, which changes if it must be built again."""
    return hash_inputs({
        "recipe": read_definitions(HERE / "base.py", *RECIPE),
        "packed": read_definitions(HERE / "layout.py", "pack"),
        "slimming": read_definitions(HERE / "slimming.py"), LOCK.name: LOCK.read_bytes(),
        "suite": repr((root.SUITE, root.WHEELS_FOR)).encode()})


def build(unfinished: Path, commands: BuildCommands, track: BuildProgress) -> Mapping[str, Any]:
    """Build the base layer in a folder and return its manifest."""
    return _build_layer(unfinished, commands, track, LOCK.read_text(), PACKAGES + MAKING, _hooks)


def hash_radio_inputs() -> str:
    """Return a hash of all inputs of the base layer in the container image for `qop radio`."""
    return hash_inputs({"recipe": (HERE / "base.py").read_bytes(),
                        LOCK.name: select_locked(LOCK.read_text(), RADIO_MODULES).encode(),
                        "suite": repr((root.SUITE, root.WHEELS_FOR)).encode()})


def build_radio_layer(unfinished: Path, commands: BuildCommands,
                      track: BuildProgress) -> Mapping[str, Any]:
    """Build the base layer for `qop radio` alone in a folder and return its manifest."""
    return _build_layer(unfinished, commands, track,
                        select_locked(LOCK.read_text(), RADIO_MODULES),
                        RADIO_PACKAGES + RADIO_MAKING, _radio_hooks)


def select_locked(lock: str, names: Collection[str]) -> str:
    """Return the entries of a lock file for some packages, with their hashes.

    Raises:
        BuildError: A package is missing in the lock file.
    """
    entries = dict[str, str]()
    for text in re.split(r"^(?=[a-z])", lock, flags=re.MULTILINE):
        name = re.match(r"[a-z0-9-]+", text)
        if name:
            entries[name[0]] = text
    if missing := [name for name in names if name not in entries]:
        raise BuildError(f"{LOCK.name}: has no entry of {', '.join(missing)}; lock it again")
    return "".join(entries[name] for name in names)


def _build_layer(unfinished: Path, commands: BuildCommands, track: BuildProgress,
                 lock: str, packages: tuple[str, ...], make_hooks: Callable[[Path], list[str]]
                 ) -> Mapping[str, Any]:
    """Build a base layer in a folder and return its manifest.

    Args:
        unfinished: The folder.
        commands: Runs and logs the programs of the build.
        track: Gets the stages of the build.
        lock: The locked Python packages with their hashes.
        packages: Debian's packages, with those that are removed afterwards.
        make_hooks: Returns the hooks of mmdebstrap, from the folder with the Python packages.
    """
    track.begin_stage("wheels")
    inside = unfinished / "qop"
    inside.mkdir()
    (inside / LOCK.name).write_text(lock)
    commands.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input",
                  "download", "--dest", str(inside / "wheels"), *root.WHEELS_FOR,
                  "--require-hashes", "--no-deps", "--quiet", "--requirement",
                  str(inside / LOCK.name)])
    shutil.copy(HERE / "slimming.py", inside)

    track.begin_stage("packages")
    tar = unfinished / "base.tar"
    suites = (root.SUITE, f"{root.SUITE}-updates", f"{root.SUITE}-security")
    run_in_scratch(
        commands, build_mmdebstrap_command(
            root.SUITE, str(tar), find_mirrors().source_lines(*suites), packages,
            make_hooks(inside)), unfinished, track.follow_line)

    track.begin_stage("layer")
    shutil.rmtree(inside)
    size = tar.stat().st_size
    layer = layout.pack(tar, f"Debian, {', '.join(packages)}, the harness' Python environment",
                        commands, level=LEVEL)
    return {"suite": root.SUITE, "packages": packages, "unpacked_bytes": size,
            "file": layer.file.name, "digest": layer.digest, "diff_id": layer.diff_id,
            "made_by": layer.made_by}


def read_layer(place: Path) -> layout.ImageLayer:
    """Return the description of a base layer that was built earlier."""
    stored = BuildStore.read_manifest(place)
    return layout.ImageLayer(place / stored["file"], stored["digest"], stored["diff_id"],
                             stored["made_by"])


_COMPILE = ("python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash",
            f"{ENVIRONMENT}/lib")


def _environment_hooks(inside: Path) -> list[str]:
    python = f"{ENVIRONMENT}/bin/python"
    return [
        make_chroot_hook("mkdir", "/qop", "/results"),
        make_hook("sync-in", inside, "/qop"),
        "--customize-hook=echo @stage environment",
        make_chroot_hook("python3", "-m", "venv", ENVIRONMENT),
        make_chroot_hook(python, "-m", "pip", "install", "--quiet", "--no-input", "--no-index",
                         "--disable-pip-version-check", "--no-compile", "--require-hashes",
                         "--find-links",
                         "/qop/wheels", "--requirement", f"/qop/{LOCK.name}"),
    ]


def _hooks(inside: Path) -> list[str]:
    return [
        *_environment_hooks(inside),
        make_chroot_hook("python3", "/qop/slimming.py", "/"),
        make_chroot_hook("rm", "-rf", "/qop"),
        make_chroot_hook("apt-get", "-q", "-y", "purge", "--auto-remove", *MAKING),
        # The environment is read-only at run time: code that is not compiled now would be compiled
        # at every start.
        make_chroot_hook(*_COMPILE),
    ]


def _radio_hooks(inside: Path) -> list[str]:
    return [
        *_environment_hooks(inside),
        make_chroot_hook("rm", "-rf", "/qop"),
        make_chroot_hook("sh", "-c", f"cd {ENVIRONMENT}/lib/python3*/site-packages && "
                         "rm -rf pip pip-* setuptools setuptools-* pkg_resources"),
        make_chroot_hook("apt-get", "-q", "-y", "purge", "--auto-remove", *RADIO_MAKING),
        make_chroot_hook("sh", "-c", f"rm -rf {' '.join(RADIO_UNUSED)}"),
        make_chroot_hook(*_COMPILE),
    ]
