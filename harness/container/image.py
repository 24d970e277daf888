"""Find the container image in the cache, or build it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guest import debian, image
from guest.cache import Store, cache_root
from guest.commands import BuildError
from guest.image import Part
from harness.container import archive, base

TOOLS = ("mmdebstrap", "zstd", "setpriv", "apt-get")
_WHAT = "container image"


@dataclass(frozen=True)
class ContainerImage:
    """The image as a file. `key` identifies its inputs."""

    archive: Path
    name: str
    key: str
    packed_bytes: int
    unpacked_bytes: int


def ensure_image(guest: image.Image, cache: Path | None = None) -> ContainerImage:
    """Return the container image with this guest image, built first if it is missing.

    A build takes a few minutes. Raises BuildError, whose text is meant for the user.
    """
    place = cache or cache_root()
    foundation = _ensure_part(Part("base", _make_store(place, "container-bases"), base), place)
    made = archive.ImageArchive(foundation, guest)
    folder = _ensure_part(Part("image", _make_store(place, "containers"), made), place)
    manifest: dict[str, Any] = Store.read_manifest(folder)
    file = folder / archive.FILE
    return ContainerImage(file, manifest["name"], folder.name, file.stat().st_size,
                          manifest["unpacked_bytes"])


def _ensure_part(part: Part, cache: Path) -> Path:
    """Return the folder of a part, built first if it is missing.

    After a build, older folders are removed, because they are large.
    """
    key = part.recipe.key()
    folder = part.store.find_build(key)
    if folder:
        return folder
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        raise BuildError(f"building the {_WHAT} needs {', '.join(missing)}; './qop image' on "
                         "Debian installs them")
    image.build_all([part], cache, what=_WHAT)
    folder = part.store.find_build(key)
    if folder is None:
        raise BuildError(f"the inputs of the {_WHAT} changed while it was built; run the command "
                         "again")
    for older in folder.parent.glob("[0-9a-f]*"):
        if older != folder:
            shutil.rmtree(older, ignore_errors=True)
    return folder


def _make_store(cache: Path, kind: str) -> Store:
    return Store(cache / kind, _WHAT, debian.remove_build)
