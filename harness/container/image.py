"""Find qop's container image in the cache, or build it.

`ensure_image` takes the disk image of the guest (the virtual machine in which networks are
emulated) and returns the container image, an OCI archive that podman and docker load. It contains
the base layer (`harness.container.base`), the guest's image, qop's code and a start script.
`ensure_radio_image` does so for `qop radio` alone.
"""

from __future__ import annotations

import compileall
import json
import shutil
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

from guest import debian, image
from guest.build import BuildCommands, BuildError, BuildProgress
from guest.cache import BuildStore, cache_root, hash_inputs
from guest.debian import clear_scratch, make_scratch
from guest.image import GuestImage, ImagePart
from harness.container import base, layout
from harness.engine import provenance
from harness.engine.machine import ROOT

# --- Archive: base, guest's image, project and start script ---

HERE = Path(__file__).parent
ARCHIVE_NAME = "qop-container.tar"
IMAGE_NAME = "qop:latest"
RADIO_IMAGE_NAME = "qop-radio:latest"
PROJECT_IN_IMAGE = "/opt/qop/project"
CACHE_IN_IMAGE = "/opt/qop/cache"
START = "/usr/local/bin/qop"
EXPECTED_S = {"layers": 4, "pack": 1}
#: zstd level. The guest's root is compressed already: higher levels take four times as long and
#: save 70 kB of 92 MB.
COMPRESSION_LEVEL = 9
#: Files of the project that commands read. Guest images are found by a hash of their inputs, which
#: are therefore included.
CONTENTS = ("analysis", "ansible", "bench", "documents", "examples", "guest", "harness", "measure",
            "policies", "protocols", "requirements", "studies", "topologies", "pyproject.toml")
#: Folders that are left out: Python's compiled files, and test data of studies.
LEFT_OUT = {"__pycache__", "recorded"}
#: What each platform needs, as labels of the image; docs/container.md has more.
NEEDS = {
    "podman": "without root: a line for you in /etc/subuid and /etc/subgid; the default seccomp "
              "profile is enough. Tried: podman 4.3.1 and 5.4.2",
    "docker": "version 23 or later, else skopeo; --user $(id -u):$(id -g) and --tmpfs "
              "/tmp:exec,size=4g. Tried: docker 26.1.5",
    "wsl2": "podman or docker in WSL2, folders on the Linux disk and not below /mnt/c. Not tried",
}
_PYTHON_OF_THE_BASE = "cpython-311"
CONFIG = {
    "Entrypoint": [START],
    "Cmd": ["--help"],
    "Env": [f"PATH={base.ENVIRONMENT}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            f"PYTHONPATH={PROJECT_IN_IMAGE}", f"QOP_CACHE={CACHE_IN_IMAGE}", "LC_ALL=C.UTF-8"],
    # Results are in results/ below the working directory, where the user mounts a folder.
    "WorkingDir": "/",
}


class ImageArchive:
    """A build recipe that joins base layer, guest image and qop's code to a container image.

    `guest.image.build_all` executes it.
    """

    EXPECTED_S = EXPECTED_S

    def __init__(self, base: Path, guest: GuestImage, name: str = IMAGE_NAME) -> None:
        self._base = base
        self._guest = guest
        self._name = name
        self._revision = provenance.read_revision()

    def key(self) -> str:
        """Return a hash of all inputs of the container image, including the commit's name."""
        inputs = {str(path.relative_to(ROOT)): path.read_bytes() for path in _project_files()}
        inputs["parts"] = repr((self._base.name, self._guest.key, self._revision)).encode()
        return hash_inputs(inputs)

    def build(self, unfinished: Path, commands: BuildCommands,
              track: BuildProgress) -> Mapping[str, Any]:
        """Build the container image in a folder and return its manifest."""
        track.begin_stage("layers")
        target = make_scratch(unfinished)
        layers = [base.read_layer(self._base)]
        unpacked = BuildStore.read_manifest(self._base)["unpacked_bytes"]
        for name, what, fill in (("guest", "the guest's image", self._add_guest),
                                 ("project", "the project", self._add_project)):
            tar = target / f"{name}.tar"
            with tarfile.open(tar, "w", format=tarfile.PAX_FORMAT) as layer:
                fill(layer, target)
            unpacked += tar.stat().st_size
            layers.append(layout.pack(tar, what, commands, level=COMPRESSION_LEVEL))

        track.begin_stage("pack")
        layout.write_archive(layers, self._name, CONFIG, self._image_annotations(),
                             unfinished / ARCHIVE_NAME)
        clear_scratch(unfinished)
        return {"name": self._name, "unpacked_bytes": unpacked, **self._revision}

    def _image_annotations(self) -> dict[str, str]:
        about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        known = {"title": about["name"], "description": about["description"],
                 "version": about["version"], "revision": self._revision["revision"]}
        return {**{f"org.opencontainers.image.{name}": value
                   for name, value in known.items() if value},
                **{f"qop.needs.{platform}": text for platform, text in NEEDS.items()}}

    def _add_guest(self, layer: tarfile.TarFile, _scratch: Path) -> None:
        """Add the files of the guest's image to a layer, at their path in the container's cache."""
        roots = [] if self._guest.root == Path() else [("roots", self._guest.root.parent)]
        for kind, place in (("kernels", self._guest.kernel.parent), *roots,
                            ("libraries", self._guest.libraries)):
            for file in sorted(place.iterdir()):
                layer.add(file, f"{CACHE_IN_IMAGE}/{kind}/{place.name}/{file.name}",
                          filter=_owned_by_root)

    def _add_project(self, layer: tarfile.TarFile, folder: Path) -> None:
        """Add the code of qop and the start script to a layer of the image.

        The code is compiled, because the container cannot write compiled files there.
        """
        copy = folder / "project"
        for path in _project_files():
            target = copy / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        (copy / provenance.REVISION.name).write_text(json.dumps(self._revision))
        if sys.implementation.cache_tag == _PYTHON_OF_THE_BASE:
            compileall.compile_dir(copy, quiet=1, stripdir=str(copy), prependdir=PROJECT_IN_IMAGE,
                                   invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
        for path in sorted(path for path in copy.rglob("*") if path.is_file()):
            layer.add(path, f"{PROJECT_IN_IMAGE}/{path.relative_to(copy)}", filter=_owned_by_root)
        layer.add(HERE / "start", START, filter=_owned_executable)


def _project_files() -> list[Path]:
    """Return the files of qop's checkout that go into the container image."""
    files: list[Path] = []
    for name in CONTENTS:
        place = ROOT / name
        files += [place] if place.is_file() else [
            path for path in place.rglob("*") if path.is_file() and LEFT_OUT.isdisjoint(path.parts)]
    return sorted(files)


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Change a tar entry to belong to root, be readable by all and have no time stamp.

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


# --- Image in the cache ---

TOOLS = ("mmdebstrap", "zstd", "setpriv", "apt-get")
_DESCRIPTION = "container image"


@dataclass(frozen=True)
class ContainerImage:
    """A built container image: its file, and a `key` that identifies its inputs.

    `packed_bytes` is the size of the archive, `unpacked_bytes` that of the files in the image.
    """

    archive: Path
    name: str
    key: str
    packed_bytes: int
    unpacked_bytes: int


def ensure_image(guest: image.GuestImage, cache: Path | None = None) -> ContainerImage:
    """Return the container image with this guest image, built if it is missing.

    A build takes a few minutes. Raises BuildError, whose text is meant for the user.
    """
    place = cache or cache_root()
    foundation = _ensure_part(ImagePart("base", _make_store(place, "container-bases"), base), place)
    archive = ImageArchive(foundation, guest)
    return _describe_archive(
        _ensure_part(ImagePart("image", _make_store(place, "containers"), archive), place))


def ensure_radio_image(cache: Path | None = None) -> ContainerImage:
    """Return the container image for `qop radio` alone, built if it is missing.

    It has no root file system of guests, no tshark, and few Python packages. Raises BuildError,
    whose text is meant for the user.
    """
    place = cache or cache_root()
    foundation = _ensure_part(
        ImagePart("base", _make_store(place, "radio-bases"), image.FunctionRecipe(
            base.EXPECTED_S, base.hash_radio_inputs, base.build_radio_layer)), place)
    archive = ImageArchive(foundation, image.ensure_rootless_image(cache=cache), RADIO_IMAGE_NAME)
    return _describe_archive(
        _ensure_part(ImagePart("image", _make_store(place, "radio-containers"), archive), place))


def _describe_archive(folder: Path) -> ContainerImage:
    manifest: dict[str, Any] = BuildStore.read_manifest(folder)
    file = folder / ARCHIVE_NAME
    return ContainerImage(file, manifest["name"], folder.name, file.stat().st_size,
                          manifest["unpacked_bytes"])


def _ensure_part(part: ImagePart, cache: Path) -> Path:
    """Return the folder of a part of the container image, built if it is missing.

    After a build, older folders are removed, because they are large.
    """
    key = part.recipe.key()
    folder = part.store.find_build(key)
    if folder:
        return folder
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        raise BuildError(
            f"building the {_DESCRIPTION} needs {', '.join(missing)}; './qop image' on Debian "
            "installs them")
    image.build_all([part], cache, what=_DESCRIPTION)
    folder = part.store.find_build(key)
    if folder is None:
        raise BuildError(
            f"the inputs of the {_DESCRIPTION} changed while it was built; run the command again")
    for older in folder.parent.glob("[0-9a-f]*"):
        if older != folder:
            shutil.rmtree(older, ignore_errors=True)
    return folder


def _make_store(cache: Path, kind: str) -> BuildStore:
    return BuildStore(cache / kind, _DESCRIPTION, debian.remove_build)
