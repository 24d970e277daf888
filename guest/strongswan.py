"""Build the variant of the root file system with a second strongSwan, which has ML-KEM.

No stable release of Debian has ML-KEM, but its archive has the source of later releases. The source
is compiled in a temporary root, as the kernel is, so that no compiler gets into the image.
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
    find_mirrors,
    in_root_hook,
    make_hook,
    make_scratch,
    mmdebstrap_command,
    remove_build,
)
from guest.packages import Packages, WithPackages
from guest.progress import Track

HERE = Path(__file__).parent
PLAYBOOK = root.PROJECT / "ansible/strongswan_mlkem.yml"
ROLE = root.PROJECT / "ansible/roles/strongswan_mlkem"
VERSION = "6.1.0"
SHA256 = "fe6c97481298767213cfc2e9a1da29fdd8018d481ff4cb9cf0283099654f20d4"
#: Installation path in the image.
HOME = "/opt/strongswan6"
_SOURCE = f"pool/main/s/strongswan/strongswan_{VERSION}.orig.tar.bz2"
_BUILD_PACKAGES = ("gcc", "make", "bzip2", "pkg-config", "libc6-dev", "libssl-dev")
_TAR = "strongswan.tar"
# apt's download helper: it verifies the checksum and uses the machine's proxies.
_FETCHER = "/usr/lib/apt/apt-helper"


@dataclass(frozen=True)
class PackagesAndStrongswan(Packages):
    """The packages of a variant that also has the compiled strongSwan."""


@dataclass(frozen=True)
class WithStrongswan(WithPackages):
    """A root file system with packages and the compiled strongSwan: plain, or with Mininet-WiFi."""

    EXPECTED_S: ClassVar[Mapping[str, float]] = {
        "strongswan": 100, **WithPackages.EXPECTED_S}

    def key(self) -> str:
        """Return a hash of the packages, of strongSwan's build files and of its role."""
        files = [HERE / "strongswan.py", HERE / "strongswan.sh", PLAYBOOK, *ROLE.rglob("*")]
        return key_of({"below": super().key().encode(), **root.read_files(files)})

    def build(self, unfinished: Path, commands: Commands, track: Track) -> Mapping[str, Any]:
        """Build `root.squashfs` in a folder and return the manifest."""
        track.begin_stage("strongswan")
        # A store of its own, next to roots and kernels, so that another root does not compile it
        # again.
        store = Store(unfinished.parent.parent / "strongswans", "strongSwan", remove_build)
        place = store.find_or_build(
            _compile_key(), lambda folder: _compile_strongswan(folder, commands), track.set_note)
        track.set_note(None)
        (unfinished / "qop").mkdir()
        shutil.copy(place / _TAR, unfinished / "qop")
        manifest = super().build(unfinished, commands, track)
        return {**manifest, "strongswan": {"version": VERSION, "sha256": SHA256}}

    def _fetch_addition(
        self, unfinished: Path, commands: Commands, track: Track
    ) -> tuple[root.Addition, Mapping[str, Any]]:
        """Return the addition of the packages, extended by the compiled strongSwan."""
        below, about = super()._fetch_addition(unfinished, commands, track)
        project = unfinished / "qop" / "project" / "ansible"
        shutil.copytree(below.role, project / "roles" / below.role.name)
        shutil.copy(below.playbook, project)
        variables = {**below.variables, "strongswan_mlkem_below": below.playbook.name,
                     "strongswan_mlkem_tar": f"/qop/{_TAR}"}
        return replace(below, playbook=PLAYBOOK, role=ROLE, variables=variables), about


def _compile_key() -> str:
    """Return a hash of the source, the script and the build environment."""
    return key_of({"script": (HERE / "strongswan.sh").read_bytes(),
                   "choice": repr((SHA256, HOME, root.SUITE, _BUILD_PACKAGES)).encode()})


def _compile_strongswan(unfinished: Path, commands: Commands) -> Mapping[str, Any]:
    """Build a tar of the installed folder and return the manifest."""
    archive = find_mirrors()
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
    target = make_scratch(unfinished)
    command = mmdebstrap_command(
        root.SUITE, "/dev/null", archive.source_lines(root.SUITE, f"{root.SUITE}-security"),
        _BUILD_PACKAGES,
        ['--customize-hook=mkdir "$1/qop"', make_hook("upload", source, "/qop/source.tar.bz2"),
         make_hook("upload", HERE / "strongswan.sh", "/qop/strongswan.sh"),
         in_root_hook("sh", "/qop/strongswan.sh", "/qop/source.tar.bz2", HOME, f"/qop/{_TAR}"),
         make_hook("download", f"/qop/{_TAR}", unfinished / _TAR)])
    commands.run(command, environment={**os.environ, "TMPDIR": str(target)})
    clear_scratch(unfinished)
    source.unlink()
    return {"version": VERSION, "sha256": SHA256}
