"""Build a variant of the root file system with additional packages from a caller's lists."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from guest import root
from guest.cache import key_of
from guest.commands import BuildError, Commands
from guest.mininet_wifi import WithMininetWifi
from guest.progress import Track

ANSIBLE = root.PROJECT / "ansible"
PLAYBOOK = ANSIBLE / "packages.yml"
ROLE = ANSIBLE / "roles/packages"
#: Playbook that applies both Mininet-WiFi's playbook and this one.
BOTH = ANSIBLE / "additions.yml"
# apt's messages for a package that does not exist.
_UNKNOWN = re.compile(
    r"^E: (?:Unable to locate package (?=\S+$)|Package '(?=\S+' has no installation candidate))"
    r"([a-z0-9][a-z0-9.+-]*)", re.M)


@dataclass(frozen=True)
class Packages:
    """A list of Debian and Python packages that a variant adds to the testbed.

    The Python packages are for the worker. `lock` is the text of a requirements file with hashes,
    "" for none. `name` and `where` (the file that lists the packages) are used in messages only.
    The image's content depends on the other fields.
    """

    name: str
    debian: tuple[str, ...]
    lock: str = ""
    where: str = ""

    @property
    def python(self) -> list[str]:
        """Return the packages that the lock installs, as NAME==VERSION."""
        return re.findall(r"^([A-Za-z0-9][\w.-]*==[^\s;\\]+)", self.lock, re.M)


@dataclass(frozen=True)
class WithPackages:
    """A root file system with more packages: plain, or with Mininet-WiFi."""

    packages: Packages
    mininet_wifi: WithMininetWifi | None = None

    EXPECTED_S: ClassVar[Mapping[str, float]] = {"fetch": 3, **root.EXPECTED_S, "packages": 35}

    def key(self) -> str:
        """Return a hash of the base root, the package lists and their installer files."""
        below = self.mininet_wifi.read_inputs() if self.mininet_wifi else root.read_inputs()
        files = [root.HERE / "packages.py", PLAYBOOK, BOTH, *ROLE.rglob("*")]
        own = {"debian": "\n".join(sorted(set(self.packages.debian))), "lock": self.packages.lock}
        return key_of({**below, **root.read_files(files),
                       **{name: text.encode() for name, text in own.items()}})

    def build(self, unfinished: Path, commands: Commands, track: Track) -> Mapping[str, Any]:
        """Build `root.squashfs` in a folder and return the manifest."""
        track.begin_stage("fetch")
        addition, about = self._fetch_addition(unfinished, commands, track)
        try:
            manifest = root.build(unfinished, commands, track, addition)
        except BuildError as error:
            unknown = sorted(set(_UNKNOWN.findall(commands.log.read_text(errors="replace"))))
            if commands.stopped or not unknown:
                raise
            raise BuildError(
                f"{self.packages.where or self.packages.name}: Debian {root.SUITE} has no package "
                f"{', '.join(unknown)}; correct the list; full log: {commands.log}") from error
        added = {"debian": sorted(set(self.packages.debian)), "python": self.packages.python}
        return {**manifest, **about, "added": added}

    def _fetch_addition(
        self, unfinished: Path, commands: Commands, track: Track
    ) -> tuple[root.Addition, Mapping[str, Any]]:
        """Return the whole addition and its part of the manifest.

        Mininet-WiFi is included if the variant has it.
        """
        inside = unfinished / "qop"
        variables: dict[str, Any] = {"packages_debian": list(self.packages.debian)}
        if self.packages.lock:
            variables |= self._fetch_wheels(inside / "packages", commands)
        own = root.Addition(playbook=PLAYBOOK, role=ROLE, packages=self.packages.debian,
                            variables=variables, compiled=())
        if self.mininet_wifi is None:
            return own, {}
        below, about = self.mininet_wifi.fetch_addition(unfinished, commands, track)
        # The root gets a copy of only one playbook and one role; copy those of Mininet-WiFi and of
        # this addition here.
        project = inside / "project" / "ansible"
        shutil.copytree(below.role, project / "roles" / below.role.name)
        for playbook in (below.playbook, PLAYBOOK):
            shutil.copy(playbook, project)
        return replace(own, playbook=BOTH, packages=[*below.packages, *own.packages],
                       variables={**below.variables, **variables}, compiled=below.compiled), about

    def _fetch_wheels(self, folder: Path, commands: Commands) -> dict[str, str]:
        """Write the lock and its wheels to a folder.

        Returns:
            The variables by which the role finds them.
        """
        folder.mkdir(parents=True)
        (folder / "requirements.lock").write_text(self.packages.lock)
        commands.run([
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"),
            *("--dest", str(folder / "wheels"), *root.WHEELS_FOR, "--require-hashes", "--no-deps"),
            *("--quiet", "--requirement", str(folder / "requirements.lock"))])
        return {"packages_lock": "/qop/packages/requirements.lock",
                "packages_wheels": "/qop/packages/wheels"}
