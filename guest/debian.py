"""Debian's archive: which mirror this machine uses, other suites' packages, and build roots.

Nothing here touches the machine's own apt configuration, lists or packages.
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
    """Addresses of Debian's main and, where the machine knows one, security archive."""

    main: str
    security: str | None

    def sources(self, *suites: str) -> str:
        """apt's one-line sources for these suites (`NAME-security` goes to that archive)."""
        lines = []
        for suite in suites:
            address = self.security if suite.endswith("-security") else self.main
            if address:
                lines.append(f"deb [signed-by={KEYRING}] {address} {suite} main\n")
        return "".join(lines)


def mirrors() -> Mirrors:
    """What this machine's own apt uses, so that mirrors, proxies and snapshots are respected."""
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
    """apt with lists, cache and sources of its own below `folder`."""

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
            # Other suites' lists are larger than what is wanted from them; hooks are the machine's.
            *("-o", "APT::Update::Post-Invoke-Success=", "-o", "APT::Update::Post-Invoke="),
        ]

    def update(self) -> None:
        """Fetch the lists; a suite that the mirror lacks is not there to choose from, no more."""
        self._run(["apt-get", *self._options, "-q", "update"], may_fail=True)

    def versions(self, package: str) -> list[tuple[str, str]]:
        """(version, origin) of a package, newest first."""
        output = self._run(["apt-cache", *self._options, "madison", package])
        rows = [line.split("|") for line in output.splitlines() if line.count("|") == 2]
        return [(version.strip(), origin.strip()) for _, version, origin in rows]

    def download(self, package: str, version: str, into: Path) -> Path:
        """Fetch and verify one package's file."""
        self._run(
            ["env", "-C", str(into), "apt-get", *self._options, "-q", "download"]
            + [f"{package}={version}"]
        )
        return next(into.glob(f"{package}_*.deb"))


def hook(*words: str | Path) -> str:
    """One mmdebstrap hook; its arguments quoted."""
    return "--customize-hook=" + " ".join(shlex.quote(str(word)) for word in words)


def in_root(*words: str) -> str:
    """A hook that runs a command inside the new root."""
    return '--customize-hook=chroot "$1" ' + " ".join(shlex.quote(word) for word in words)


def mmdebstrap(
    suite: str, target: str, sources: str, include: Iterable[str], hooks: Sequence[str]
) -> list[str]:
    """Return the command that makes a root, runs the hooks in it and packs it to `target`.

    "-" is a tar on standard output, /dev/null is not at all. Mounts and processes are in
    namespaces that end with the command, even with SIGKILL (mmdebstrap would only wait); the
    kernel sends that when this process dies. The root stays in TMPDIR then; see `dispose`.
    """
    nothing = ("man", "doc", "info", "locale", "lintian", "bash-completion")
    return [
        *("setpriv", "--pdeathsig", "KILL", *_mode(), "--variant=apt"),
        f"--keyring={KEYRING}",
        '--aptopt=Acquire::Languages "none"',
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in nothing),
        "--include=" + ",".join(include),
        *hooks,
        *(suite, target, *sources.splitlines()),
    ]


def _mode() -> list[str]:
    """Namespaces wherever they are allowed; root in a locked-down container does without."""
    spaces = [*as_root(), "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if _works([*spaces, "true"]):
        return [*spaces, "mmdebstrap", "--mode=unshare"]
    if os.geteuid() == 0:
        return ["mmdebstrap", "--mode=root", "--skip=check/canmount"]
    raise BuildError(
        "building the guest as an ordinary user needs user namespaces and a line for this user "
        "in /etc/subuid and /etc/subgid; have root add one, or build as root"
    )


def as_root() -> list[str]:
    """What starts a command where an ordinary user is root, and their other ids are its users."""
    mapped = [] if os.geteuid() == 0 else ["--user", "--map-root-user", "--map-auto"]
    return ["unshare", *mapped]


def _works(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def scratch(unfinished: Path) -> Path:
    """A folder for the root while it is made, on the same disk as the result."""
    place = unfinished / SCRATCH
    place.mkdir()
    return place


def clear_scratch(unfinished: Path) -> None:
    """Remove what `scratch` made."""
    dispose(unfinished / SCRATCH)


def dispose(folder: Path) -> None:
    """Remove an unfinished build; for an ordinary user, some of its files belong to mapped ids."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists() and os.geteuid() != 0:
        _works([*as_root(), "rm", "-rf", "--one-file-system", str(folder)])
