"""Builds the variant of the root file system that has a strongSwan with ML-KEM beside Debian's.

No stable release of Debian has one, but its archive has the source of later releases. That is
compiled in a throw-away root, as the kernel is, so that no compiler gets into the image.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from guest import root
from guest.cache import Store, key_of
from guest.commands import BuildError, Commands
from guest.debian import (
    clear_scratch,
    dispose,
    hook,
    in_root,
    mirrors,
    mmdebstrap,
    scratch,
)
from guest.packages import Packages, WithPackages
from guest.progress import Track

HERE = Path(__file__).parent
PLAYBOOK = root.PROJECT / "ansible/strongswan_mlkem.yml"
ROLE = root.PROJECT / "ansible/roles/strongswan_mlkem"
VERSION = "6.1.0"
SHA256 = "fe6c97481298767213cfc2e9a1da29fdd8018d481ff4cb9cf0283099654f20d4"
#: Where it is in the image.
HOME = "/opt/strongswan6"
_SOURCE = f"pool/main/s/strongswan/strongswan_{VERSION}.orig.tar.bz2"
_BUILD_PACKAGES = ("gcc", "make", "bzip2", "pkg-config", "libc6-dev", "libssl-dev")
_TAR = "strongswan.tar"
# It checks the sum, and goes by the machine's own proxies.
_FETCHER = "/usr/lib/apt/apt-helper"


@dataclass(frozen=True)
class PackagesAndStrongswan(Packages):
    """What a variant has that brings this strongSwan, too."""


@dataclass(frozen=True)
class WithStrongswan(WithPackages):
    """That variant, on the plain root or on the one with Mininet-WiFi."""

    EXPECTED_S: ClassVar[Mapping[str, float]] = {
        "strongswan": 100, **WithPackages.EXPECTED_S}

    def key(self) -> str:
        """Changes with what it has beside strongSwan, and with what makes and installs that."""
        files = [HERE / "strongswan.py", HERE / "strongswan.sh", PLAYBOOK, *ROLE.rglob("*")]
        return key_of({"below": super().key().encode(), **root.contents(files)})

    def build(self, unfinished: Path, commands: Commands, track: Track) -> Mapping[str, Any]:
        """Leave `root.squashfs` in the folder; returns the manifest."""
        track.stage("strongswan")
        # Beside roots and kernels: another root compiles nothing anew.
        store = Store(unfinished.parent.parent / "strongswans", "strongSwan", dispose)
        place = store.obtain(_key(), lambda folder: _compile(folder, commands), track.note)
        track.note(None)
        (unfinished / "qop").mkdir()
        shutil.copy(place / _TAR, unfinished / "qop")
        manifest = super().build(unfinished, commands, track)
        return {**manifest, "strongswan": {"version": VERSION, "sha256": SHA256}}

    def _addition(
        self, unfinished: Path, commands: Commands, track: Track
    ) -> tuple[root.Addition, Mapping[str, Any]]:
        """What is added below it, and then what was compiled."""
        below, about = super()._addition(unfinished, commands, track)
        project = unfinished / "qop" / "project" / "ansible"
        shutil.copytree(below.role, project / "roles" / below.role.name)
        shutil.copy(below.playbook, project)
        variables = {**below.variables, "strongswan_mlkem_below": below.playbook.name,
                     "strongswan_mlkem_tar": f"/qop/{_TAR}"}
        return replace(below, playbook=PLAYBOOK, role=ROLE, variables=variables), about


def _key() -> str:
    """Changes with what is compiled, and how."""
    return key_of({"script": (HERE / "strongswan.sh").read_bytes(),
                   "choice": repr((SHA256, HOME, root.SUITE, _BUILD_PACKAGES)).encode()})


def _compile(unfinished: Path, commands: Commands) -> Mapping[str, Any]:
    """Leave the tar of the installed folder; returns the manifest."""
    archive = mirrors()
    source = unfinished / Path(_SOURCE).name
    address = f"{archive.main.rstrip('/')}/{_SOURCE}"
    try:
        commands.run([_FETCHER, "download-file", address, str(source), f"SHA256:{SHA256}"])
    except BuildError as error:
        if commands.stopped:
            raise
        raise BuildError(
            f"strongSwan {VERSION} cannot be fetched from {address}; set QOP_DEBIAN_MIRROR to a "
            f"mirror or snapshot of Debian's archive that has it; full log: {commands.log}"
        ) from error
    target = scratch(unfinished)
    command = mmdebstrap(
        root.SUITE, "/dev/null", archive.sources(root.SUITE, f"{root.SUITE}-security"),
        _BUILD_PACKAGES,
        ['--customize-hook=mkdir "$1/qop"', hook("upload", source, "/qop/source.tar.bz2"),
         hook("upload", HERE / "strongswan.sh", "/qop/strongswan.sh"),
         in_root("sh", "/qop/strongswan.sh", "/qop/source.tar.bz2", HOME, f"/qop/{_TAR}"),
         hook("download", f"/qop/{_TAR}", unfinished / _TAR)])
    commands.run(command, environment={**os.environ, "TMPDIR": str(target)})
    clear_scratch(unfinished)
    source.unlink()
    return {"version": VERSION, "sha256": SHA256}
