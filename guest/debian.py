"""Make root file systems from Debian packages with mmdebstrap, as an ordinary user.

The builders of kernels, guest images and boxes use this module. `build_mmdebstrap_command` takes a
Debian suite, packages and hooks, and returns the command. `run_in_scratch` runs it in a temporary
folder. `PrivateApt` downloads packages. This machine's own apt configuration, package lists and
packages are never changed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from guest import namespaces
from guest.build import BuildCommands, BuildError
from guest.namespaces import can_run
from guest.releases import EXPIRING_SUITES

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR_VARIABLE = "QOP_DEBIAN_MIRROR"
SCRATCH = "scratch"


@dataclass(frozen=True)
class DebianMirrors:
    """The addresses of Debian's main archive and of its security archive.

    `security` is None if the main archive was chosen and the security archive is unknown.
    """

    main: str
    security: str | None

    def source_lines(self, *suites: str) -> str:
        """Return the lines of an apt sources file for some Debian suites.

        A `NAME-security` suite uses the security archive, and is left out if that is unknown. The
        signature of every suite is checked. The date of expiry is checked, too, but for those of
        `EXPIRING_SUITES`.
        """
        lines = []
        for suite in suites:
            address = self.security if suite.endswith("-security") else self.main
            options = f"signed-by={KEYRING}" + (
                " check-valid-until=no" if suite in EXPIRING_SUITES else "")
            if address:
                lines.append(f"deb [{options}] {address} {suite} main\n")
        return "".join(lines)


def find_mirrors() -> DebianMirrors:
    """Return the Debian mirrors of this machine's own apt, or else mmdebstrap's mirrors.

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
    if chosen or "Debian" in found:
        return DebianMirrors(chosen or found["Debian"], found.get("Debian-Security"))
    return _default_mirrors()


def _default_mirrors() -> DebianMirrors:
    """Return the Debian mirrors that mmdebstrap chooses by itself.

    They are needed where apt is that of another distribution.
    """
    found = list_default_archives("stable")
    if "stable" not in found:
        raise BuildError("apt on this machine knows no Debian archive, and mmdebstrap names none; "
                         f"set {MIRROR_VARIABLE} to the address of a Debian mirror")
    return DebianMirrors(found["stable"], found.get("stable-security"))


def list_default_archives(suite: str) -> dict[str, str]:
    """Return the addresses of the archives that mmdebstrap chooses for a suite, by their suites.

    mmdebstrap's first hook prints them and fails, before anything is downloaded.
    """
    hook = """--setup-hook=sed 's/^/@source /' "$1/etc/apt/sources.list"; false"""
    done = subprocess.run(
        [*_mmdebstrap_start(), "--variant=custom", "--format=null", f"--keyring={KEYRING}", hook,
         suite, "/dev/null"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False)
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        if line.startswith("@source "):
            *_, address, source, _ = line.split()
            found.setdefault(source, address)
    return found


class PrivateApt:
    """An apt with package lists, cache and sources of its own, below `folder`."""

    def __init__(self, folder: Path, sources: str, commands: BuildCommands) -> None:
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
        """Download the package lists. A suite that the mirror lacks is ignored."""
        self._run(["apt-get", *self._options, "-q", "update"], may_fail=True)

    def list_versions(self, package: str) -> list[tuple[str, str]]:
        """Return the available versions of a package with their origins, newest first."""
        output = self._run(["apt-cache", *self._options, "madison", package])
        rows = [line.split("|") for line in output.splitlines() if line.count("|") == 2]
        return [(version.strip(), origin.strip()) for _, version, origin in rows]

    def download_package(self, package: str, version: str, folder: Path) -> Path:
        """Download the file of a Debian package and verify it."""
        self._run(
            ["env", "-C", str(folder), "apt-get", *self._options, "-q", "download"]
            + [f"{package}={version}"]
        )
        return next(folder.glob(f"{package}_*.deb"))


def make_hook(*words: str | Path) -> str:
    """Return the text of an mmdebstrap hook, with quoted arguments."""
    return "--customize-hook=" + " ".join(shlex.quote(str(word)) for word in words)


def make_chroot_hook(*words: str) -> str:
    """Return the text of an mmdebstrap hook that runs a command inside the new root."""
    return '--customize-hook=chroot "$1" ' + " ".join(shlex.quote(word) for word in words)


def build_mmdebstrap_command(
    suite: str, target: str, sources: str, include: Iterable[str], hooks: Sequence[str],
    *, architecture: str = ""
) -> list[str]:
    """Return the mmdebstrap command that makes a root file system and packs it to `target`.

    The `hooks` run in the root. A `target` of "-" is a tar on standard output; /dev/null packs
    nothing. An `architecture` is Debian's name of it, by default that of this machine; for another
    one, binfmt_misc must start its programs. Mounts and processes are in namespaces that end with
    the command, even with SIGKILL (mmdebstrap alone would only wait). The kernel sends SIGKILL when
    this process dies. In that case the root remains in TMPDIR; see `remove_build`.
    """
    nothing = ("man", "doc", "info", "locale", "lintian", "bash-completion")
    return [
        *("setpriv", "--pdeathsig", "KILL", *_mmdebstrap_start(), "--variant=apt"),
        f"--keyring={KEYRING}",
        *([f"--architectures={architecture}"] if architecture else []),
        '--aptopt=Acquire::Languages "none"',
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in nothing),
        "--include=" + ",".join(include),
        *hooks,
        *(suite, target, *sources.splitlines()),
    ]


def _mmdebstrap_start() -> list[str]:
    """Return the start of an mmdebstrap command, with namespaces wherever they are allowed.

    Root in a locked-down container has no namespaces and works without them. Nothing is mounted in
    the new root then, and Ansible's semaphores need a folder /dev/shm.
    """
    spaces = [*build_root_command(), "setpriv", "--pdeathsig", "KILL", "unshare", "--mount",
              "--pid",
              "--fork", "--kill-child", "--mount-proc"]
    if can_run([*spaces, "true"]):
        return [*spaces, "mmdebstrap", "--mode=unshare"]
    if os.geteuid() == 0:
        return ["mmdebstrap", "--mode=root", "--skip=check/canmount",
                '--essential-hook=mkdir -p -m 1777 "$1/dev/shm"']
    raise BuildError("building the guest as an ordinary user: " + namespaces.describe_lack())


def build_root_command() -> list[str]:
    """Return a command prefix that runs a program as root inside a user namespace.

    The subordinate ids of an ordinary user become the other users of that namespace. Root itself
    needs no prefix.
    """
    return [] if os.geteuid() == 0 else namespaces.as_root_command()


def make_scratch(unfinished: Path) -> Path:
    """Create a folder for the root file system while it is built.

    The folder is on the same disk as the result.
    """
    place = unfinished / SCRATCH
    place.mkdir()
    return place


def clear_scratch(unfinished: Path) -> None:
    """Remove the folder that `make_scratch` created for a build."""
    remove_build(unfinished / SCRATCH)


def run_in_scratch(commands: BuildCommands, command: Sequence[str], unfinished: Path,
                   each_line: Callable[[str], None] = lambda _: None) -> None:
    """Run a command that makes a root file system in a folder of its own, and remove that folder.

    Args:
        commands: Runs and logs the command.
        command: A command from `build_mmdebstrap_command`, or one that contains it.
        unfinished: Folder of the build.
        each_line: Called with every line of output.
    """
    target = make_scratch(unfinished)
    commands.run(command, each_line=each_line, environment={**os.environ, "TMPDIR": str(target)})
    clear_scratch(unfinished)


def remove_build(folder: Path) -> None:
    """Remove an unfinished build, including files that belong to mapped user ids."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists() and os.geteuid() != 0:
        can_run([*build_root_command(), "rm", "-rf", "--one-file-system", str(folder)])
