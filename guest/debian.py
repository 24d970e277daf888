"""Access to Debian's archive, and root file systems made from it.

Nothing here changes the machine's own apt configuration, package lists or packages.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from guest.commands import BuildError, Commands

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR_VARIABLE = "QOP_DEBIAN_MIRROR"
SCRATCH = "scratch"


@dataclass(frozen=True)
class Mirrors:
    """Addresses of Debian's main archive and of its security archive.

    `security` is None if the machine's apt does not know a security archive.
    """

    main: str
    security: str | None

    def source_lines(self, *suites: str) -> str:
        """Return apt source lines for suites.

        A `NAME-security` suite uses the security archive, and is left out if that is unknown.
        """
        lines = []
        for suite in suites:
            address = self.security if suite.endswith("-security") else self.main
            if address:
                lines.append(f"deb [signed-by={KEYRING}] {address} {suite} main\n")
        return "".join(lines)


def find_mirrors() -> Mirrors:
    """Return the mirrors that this machine's own apt uses.

    Mirrors, proxies and snapshots of the machine are therefore respected. The environment variable
    QOP_DEBIAN_MIRROR overrides the main archive.
    """
    chosen = os.environ.get(MIRROR_VARIABLE)
    listing = "$(ORIGIN)|$(LABEL)|$(CODENAME)|$(REPO_URI)"
    command = ["apt-get", "indextargets", "--format", listing, "Created-By: Packages"]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found: dict[str, str] = {}
    for line in output.splitlines():
        origin, label, codename, address = line.split("|", 3)
        if origin == "Debian" and not codename.endswith(("-backports", "-proposed-updates")):
            found.setdefault(label, address)
    main = chosen or found.get("Debian")
    if not main:
        raise BuildError(
            "apt on this machine knows no Debian archive; set "
            f"{MIRROR_VARIABLE} to the address of a Debian mirror"
        )
    return Mirrors(main, found.get("Debian-Security"))


class PrivateApt:
    """An apt with separate lists, cache and sources below `folder`."""

    def __init__(self, folder: Path, sources: str, commands: Commands) -> None:
        self._run = commands.run
        for name in ("state/lists/partial", "cache/archives/partial", "etc/sources.list.d"):
            (folder / name).mkdir(parents=True)
        (folder / "etc/sources.list").write_text(sources)
        (folder / "state/status").touch()
        self._options = [
            *("-o", f"Dir::State={folder}/state", "-o", f"Dir::Cache={folder}/cache"),
            *("-o", f"Dir::State::status={folder}/state/status"),
            *("-o", f"Dir::Etc::SourceList={folder}/etc/sources.list"),
            *("-o", f"Dir::Etc::SourceParts={folder}/etc/sources.list.d"),
            *("-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User=root"),
            # The lists of other suites are larger than the packages wanted from them, and hooks
            # belong to the machine's own apt.
            *("-o", "APT::Update::Post-Invoke-Success=", "-o", "APT::Update::Post-Invoke="),
        ]

    def update_lists(self) -> None:
        """Fetch the package lists. A suite that the mirror lacks is ignored."""
        self._run(["apt-get", *self._options, "-q", "update"], may_fail=True)

    def list_versions(self, package: str) -> list[tuple[str, str]]:
        """Return the versions of a package with their origins, newest first."""
        output = self._run(["apt-cache", *self._options, "madison", package])
        rows = [line.split("|") for line in output.splitlines() if line.count("|") == 2]
        return [(version.strip(), origin.strip()) for _, version, origin in rows]

    def download_package(self, package: str, version: str, folder: Path) -> Path:
        """Download one package's file and verify it."""
        self._run(
            ["env", "-C", str(folder), "apt-get", *self._options, "-q", "download"]
            + [f"{package}={version}"]
        )
        return next(folder.glob(f"{package}_*.deb"))


def make_hook(*words: str | Path) -> str:
    """Return one mmdebstrap hook with quoted arguments."""
    return "--customize-hook=" + " ".join(shlex.quote(str(word)) for word in words)


def in_root_hook(*words: str) -> str:
    """Return a hook that runs a command inside the new root."""
    return '--customize-hook=chroot "$1" ' + " ".join(shlex.quote(word) for word in words)


def mmdebstrap_command(
    suite: str, target: str, sources: str, include: Iterable[str], hooks: Sequence[str]
) -> list[str]:
    """Return the command that creates a root file system and packs it to `target`.

    The `hooks` run in the root. A `target` of "-" is a tar on standard output; /dev/null packs
    nothing. Mounts and processes are in namespaces that end with the command, even with SIGKILL
    (mmdebstrap alone would only wait). The kernel sends SIGKILL when this process dies. In that
    case the root remains in TMPDIR; see `remove_build`.
    """
    nothing = ("man", "doc", "info", "locale", "lintian", "bash-completion")
    return [
        *("setpriv", "--pdeathsig", "KILL", *_mmdebstrap_start(), "--variant=apt"),
        f"--keyring={KEYRING}",
        '--aptopt=Acquire::Languages "none"',
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in nothing),
        "--include=" + ",".join(include),
        *hooks,
        *(suite, target, *sources.splitlines()),
    ]


def _mmdebstrap_start() -> list[str]:
    """Return the start of the command, with namespaces wherever they are allowed.

    Root in a locked-down container has no namespaces and works without them.
    """
    spaces = [*as_root_command(), "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if _can_run([*spaces, "true"]):
        return [*spaces, "mmdebstrap", "--mode=unshare"]
    if os.geteuid() == 0:
        return ["mmdebstrap", "--mode=root", "--skip=check/canmount"]
    raise BuildError(
        "building the guest as an ordinary user needs user namespaces and a line for this user "
        "in /etc/subuid and /etc/subgid; have root add one, or build as root"
    )


def as_root_command() -> list[str]:
    """Return a command prefix that runs a program as root of a user namespace.

    The subordinate ids of an ordinary user become the other users of that namespace. Root itself
    needs no mapping.
    """
    mapped = [] if os.geteuid() == 0 else ["--user", "--map-root-user", "--map-auto"]
    return ["unshare", *mapped]


def _can_run(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def make_scratch(unfinished: Path) -> Path:
    """Create a folder for the root file system during a build.

    The folder is on the same disk as the result.
    """
    place = unfinished / SCRATCH
    place.mkdir()
    return place


def clear_scratch(unfinished: Path) -> None:
    """Remove the folder that `make_scratch` created."""
    remove_build(unfinished / SCRATCH)


def remove_build(folder: Path) -> None:
    """Remove an unfinished build, with files that belong to mapped ids of an ordinary user."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists() and os.geteuid() != 0:
        _can_run([*as_root_command(), "rm", "-rf", "--one-file-system", str(folder)])
