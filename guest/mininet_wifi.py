"""Build the variant of the root file system with Mininet-WiFi, at a fixed upstream revision."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from guest import root
from guest.cache import key_of
from guest.commands import BuildError, Commands
from guest.progress import Track

PLAYBOOK = root.PROJECT / "ansible/mininet_wifi.yml"
ROLE = root.PROJECT / "ansible/roles/mininet_wifi"
DEFAULTS = "defaults/main.yml"


@dataclass(frozen=True)
class WithMininetWifi:
    """A root file system with Mininet-WiFi, fetched from `source` ("": the role's address)."""

    source: str = ""

    EXPECTED_S: ClassVar[Mapping[str, float]] = {"fetch": 5, **root.EXPECTED_S, "packages": 45}

    def key(self) -> str:
        """Return a hash of the plain root and of the role with its revision.

        The address of the source has no influence.
        """
        return key_of(self.read_inputs())

    def read_inputs(self) -> dict[str, bytes]:
        """Return everything that goes into this root file system, by path."""
        files = [root.HERE / "mininet_wifi.py", PLAYBOOK, *ROLE.rglob("*")]
        return {**root.read_inputs(), **root.read_files(files)}

    def build(self, unfinished: Path, commands: Commands, track: Track) -> Mapping[str, Any]:
        """Build `root.squashfs` in a folder and return the manifest."""
        addition, about = self.fetch_addition(unfinished, commands, track)
        return {**root.build(unfinished, commands, track, addition), **about}

    def fetch_addition(
        self, unfinished: Path, commands: Commands, track: Track
    ) -> tuple[root.Addition, Mapping[str, Any]]:
        """Fetch Mininet-WiFi into a folder.

        Returns:
            The addition to the root file system, and its part of the manifest.
        """
        track.begin_stage("fetch")
        defaults = (ROLE / DEFAULTS).read_text()
        revision = parse_setting(defaults, "revision")
        source = self.source or parse_setting(defaults, "source")
        version = _fetch_revision(source, revision, unfinished / "qop" / "mininet-wifi", commands)
        addition = root.Addition(
            playbook=PLAYBOOK,
            role=ROLE,
            packages=root.parse_packages(defaults, "mininet_wifi_packages"),
            variables={"mininet_wifi_tree": "/qop/mininet-wifi"},
            compiled=(parse_setting(defaults, "home") + "/mn_wifi",),
        )
        return addition, {"mininet_wifi": {"version": version, "revision": revision}}


def parse_setting(defaults: str, name: str) -> str:
    """Return one setting of the role.

    The role's YAML has one setting a line, so that no YAML reader is needed here.
    """
    found = re.search(rf"^mininet_wifi_{name}: (\S+)$", defaults, re.M)
    if found is None:
        raise BuildError(
            f"ansible/roles/mininet_wifi/{DEFAULTS}: mininet_wifi_{name} has no value on its line"
        )
    return found[1]


def _fetch_revision(source: str, revision: str, tree: Path, commands: Commands) -> str:
    """Fetch the files of a revision into `tree` and return their Mininet-WiFi version.

    The revision is a commit's hash, which authenticates the files. Raises BuildError if git is
    missing, or if the source cannot be reached or lacks the revision.
    """
    if shutil.which("git") is None:
        raise BuildError("fetching Mininet-WiFi needs git; install it with 'apt-get install git'")
    tree.mkdir(parents=True)
    git = ["git", "-C", str(tree)]
    commands.run([*git, "init", "--quiet"])
    # git would resolve a relative path below `tree`.
    where = str(Path(source).absolute()) if Path(source).exists() else source
    # Disable git's password prompt: its output is logged, so the user could not see the question.
    quiet = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    said = commands.run(
        [*git, "fetch", "--quiet", "--depth", "1", where, revision],
        environment=quiet,
        may_fail=True,
    )
    fetched = commands.run([*git, "rev-parse", "--verify", "--quiet", "FETCH_HEAD"], may_fail=True)
    if fetched.strip() != revision:
        lines = said.strip().splitlines() or ["git said nothing"]
        reason = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
        raise BuildError(
            f"{source}: Mininet-WiFi cannot be fetched from there ({reason}); give another address "
            "or a clone with --mininet-wifi-source, or do without: plain Mininet builds the same"
        )
    commands.run([*git, "checkout", "--quiet", "--detach", revision])
    shutil.rmtree(tree / ".git")
    found = re.search(r'^VERSION = "([^"]+)"', (tree / "mn_wifi/net.py").read_text(), re.M)
    return found[1] if found else "unknown"
