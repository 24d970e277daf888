"""Build the base of the container image: Debian with tshark, and the locked Python environment."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from guest import root
from guest.cache import Store, code_of, key_of
from guest.commands import Commands
from guest.debian import (
    clear_scratch,
    find_mirrors,
    in_root_hook,
    make_hook,
    make_scratch,
    mmdebstrap_command,
)
from guest.progress import Track
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
RECIPE = ("ENVIRONMENT", "PACKAGES", "MAKING", "LEVEL", "build", "_hooks")
EXPECTED_S = {"wheels": 15, "packages": 45, "environment": 45, "layer": 25}


def key() -> str:
    """Return a hash of everything that goes into the base."""
    return key_of({
        "recipe": code_of(HERE / "base.py", *RECIPE), "packed": code_of(HERE / "layout.py", "pack"),
        "slimming": code_of(HERE / "slimming.py"), LOCK.name: LOCK.read_bytes(),
        "suite": repr((root.SUITE, root.WHEELS_FOR)).encode()})


def build(unfinished: Path, commands: Commands, track: Track) -> Mapping[str, Any]:
    """Build the layer in a folder and return the manifest."""
    track.begin_stage("wheels")
    inside = unfinished / "qop"
    commands.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input",
                  "download", "--dest", str(inside / "wheels"), *root.WHEELS_FOR,
                  "--require-hashes", "--no-deps", "--quiet", "--requirement", str(LOCK)])
    shutil.copy(LOCK, inside)
    shutil.copy(HERE / "slimming.py", inside)

    track.begin_stage("packages")
    target = make_scratch(unfinished)
    tar = unfinished / "base.tar"
    suites = (root.SUITE, f"{root.SUITE}-updates", f"{root.SUITE}-security")
    commands.run(
        mmdebstrap_command(root.SUITE, str(tar), find_mirrors().source_lines(*suites), PACKAGES
                           + MAKING,
                           _hooks(inside)),
        each_line=lambda line: _follow_stages(line, track),
        environment={**os.environ, "TMPDIR": str(target)})

    track.begin_stage("layer")
    clear_scratch(unfinished)
    shutil.rmtree(inside)
    size = tar.stat().st_size
    made = layout.pack(tar, "Debian, tshark, the harness' Python environment", commands,
                       level=LEVEL)
    return {"suite": root.SUITE, "packages": PACKAGES, "unpacked_bytes": size,
            "file": made.file.name, "digest": made.digest, "diff_id": made.diff_id,
            "made_by": made.made_by}


def read_layer(place: Path) -> layout.Layer:
    """Return the layer of a finished base."""
    said = Store.read_manifest(place)
    return layout.Layer(place / said["file"], said["digest"], said["diff_id"], said["made_by"])


def _hooks(inside: Path) -> list[str]:
    python = f"{ENVIRONMENT}/bin/python"
    compiled = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
    return [
        in_root_hook("mkdir", "/qop", "/results"),
        make_hook("sync-in", inside, "/qop"),
        "--customize-hook=echo @stage environment",
        in_root_hook("python3", "-m", "venv", ENVIRONMENT),
        in_root_hook(python, "-m", "pip", "install", "--quiet", "--no-input", "--no-index",
                     "--disable-pip-version-check", "--no-compile", "--require-hashes",
                     "--find-links",
                     "/qop/wheels", "--requirement", f"/qop/{LOCK.name}"),
        in_root_hook("python3", "/qop/slimming.py", "/"),
        in_root_hook("rm", "-rf", "/qop"),
        in_root_hook("apt-get", "-q", "-y", "purge", "--auto-remove", *MAKING),
        # The environment is read-only at run time: code that is not compiled now would be compiled
        # at every start.
        in_root_hook("python3", *compiled, f"{ENVIRONMENT}/lib"),
    ]


def _follow_stages(line: str, track: Track) -> None:
    if line.startswith("@stage "):
        track.begin_stage(line.removeprefix("@stage "))
