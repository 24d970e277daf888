"""Build the archive of the container image.

It contains the base, the guest's image, the project and the start script.
"""

from __future__ import annotations

import compileall
import json
import shutil
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

from guest.cache import Store, key_of
from guest.commands import Commands
from guest.debian import clear_scratch, make_scratch
from guest.image import Image
from guest.progress import Track
from harness.container import base, layout
from harness.engine import provenance
from harness.engine.machine import ROOT

HERE = Path(__file__).parent
FILE = "qop-container.tar"
NAME = "qop:latest"
PROJECT = "/opt/qop/project"
CACHE = "/opt/qop/cache"
START = "/usr/local/bin/qop"
EXPECTED_S = {"layers": 4, "pack": 1}
#: zstd level. The guest's root is compressed already: higher levels take four times as long and
#: save 70 kB of 92 MB.
LEVEL = 9
#: Files of the project that commands read. Guest images are found by a hash of their inputs, which
#: are therefore included.
CONTENTS = ("analysis", "ansible", "examples", "guest", "harness", "measure", "policies",
            "protocols", "requirements", "studies", "topologies", "pyproject.toml")
#: Folders that are left out: Python's compiled files, and test data of studies.
LEFT_OUT = {"__pycache__", "recorded"}
_PYTHON_OF_THE_BASE = "cpython-311"
CONFIG = {
    "Entrypoint": [START],
    "Cmd": ["--help"],
    "Env": [f"PATH={base.ENVIRONMENT}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            f"PYTHONPATH={PROJECT}", f"QOP_CACHE={CACHE}", "LC_ALL=C.UTF-8"],
    # Results are in results/ below the working directory, where the user mounts a folder.
    "WorkingDir": "/",
}


class ImageArchive:
    """A recipe for `guest.image.build_all` that joins base, guest image and project."""

    EXPECTED_S = EXPECTED_S

    def __init__(self, base: Path, guest: Image) -> None:
        self._base = base
        self._guest = guest
        self._revision = provenance.read_revision()

    def key(self) -> str:
        """Return a hash of everything that goes into the image, including the commit's name."""
        inputs = {str(path.relative_to(ROOT)): path.read_bytes() for path in _project_files()}
        inputs["parts"] = repr((self._base.name, self._guest.key, self._revision)).encode()
        return key_of(inputs)

    def build(self, unfinished: Path, commands: Commands, track: Track) -> Mapping[str, Any]:
        """Build the archive in a folder and return the manifest."""
        track.begin_stage("layers")
        target = make_scratch(unfinished)
        layers = [base.read_layer(self._base)]
        unpacked = Store.read_manifest(self._base)["unpacked_bytes"]
        for name, what, fill in (("guest", "the guest's image", self._add_guest),
                                 ("project", "the project", self._add_project)):
            tar = target / f"{name}.tar"
            with tarfile.open(tar, "w", format=tarfile.PAX_FORMAT) as layer:
                fill(layer, target)
            unpacked += tar.stat().st_size
            layers.append(layout.pack(tar, what, commands, level=LEVEL))

        track.begin_stage("pack")
        layout.write_archive(layers, NAME, CONFIG, self._image_annotations(), unfinished / FILE)
        clear_scratch(unfinished)
        return {"name": NAME, "unpacked_bytes": unpacked, **self._revision}

    def _image_annotations(self) -> dict[str, str]:
        about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        known = {"title": about["name"], "description": about["description"],
                 "version": about["version"], "revision": self._revision["revision"]}
        return {f"org.opencontainers.image.{name}": value for name, value in known.items() if value}

    def _add_guest(self, layer: tarfile.TarFile, _scratch: Path) -> None:
        """Add the guest's image.

        The cache in the container image gets copies of the files of the cache here.
        """
        for kind, place in (("kernels", self._guest.kernel.parent),
                            ("roots", self._guest.root.parent)):
            for file in sorted(place.iterdir()):
                layer.add(file, f"{CACHE}/{kind}/{place.name}/{file.name}", filter=_owned_by_root)

    def _add_project(self, layer: tarfile.TarFile, folder: Path) -> None:
        """Add the project as it is here, and the start script.

        The code is compiled, because the container cannot write compiled files there.
        """
        copy = folder / "project"
        for path in _project_files():
            target = copy / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        (copy / provenance.REVISION.name).write_text(json.dumps(self._revision))
        if sys.implementation.cache_tag == _PYTHON_OF_THE_BASE:
            compileall.compile_dir(copy, quiet=1, stripdir=str(copy), prependdir=PROJECT,
                                   invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
        for path in sorted(path for path in copy.rglob("*") if path.is_file()):
            layer.add(path, f"{PROJECT}/{path.relative_to(copy)}", filter=_owned_by_root)
        layer.add(HERE / "start", START, filter=_owned_executable)


def _project_files() -> list[Path]:
    """Return the project's files that go into the image.

    Entries of CONTENTS that do not exist add no files.
    """
    files: list[Path] = []
    for name in CONTENTS:
        place = ROOT / name
        files += [place] if place.is_file() else [
            path for path in place.rglob("*") if path.is_file() and LEFT_OUT.isdisjoint(path.parts)]
    return sorted(files)


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Make an entry root's, readable by all and without a time.

    Equal files then give equal layers.
    """
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = 0
    entry.mode = 0o755 if entry.mode & 0o100 else 0o644
    return entry


def _owned_executable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mode = 0o755
    return _owned_by_root(entry)
