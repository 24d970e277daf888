"""Build variants of the guest's root file system, with more software than the plain one.

A guest is the virtual machine of a test network. Its root file system is built by an Ansible role
(`guest.root`). A run gets a variant if it needs more:

- `RootWithMininetWifi` adds Mininet-WiFi at a fixed revision, by the Ansible role `mininet_wifi`.
- `RootWithPackages` adds the Debian and Python packages of a study.
- `RootWithStrongswan` also adds a second strongSwan with ML-KEM. No stable release of Debian has
  ML-KEM, but its archive has the source of later releases. The source is compiled in a temporary
  root, so that no compiler gets into the image. Debian testing has ML-KEM, and needs no second one
  (`leave_out_strongswan`).
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from guest import root
from guest.build import BuildCommands, BuildError, BuildProgress
from guest.cache import BuildStore, hash_inputs
from guest.debian import (
    build_mmdebstrap_command,
    find_mirrors,
    make_chroot_hook,
    make_hook,
    remove_build,
    run_in_scratch,
)
from guest.releases import DEFAULT, Release

# --- Mininet-WiFi, at a fixed upstream revision ---

MININET_WIFI_PLAYBOOK = root.PROJECT / "ansible/mininet_wifi.yml"
MININET_WIFI_ROLE = root.PROJECT / "ansible/roles/mininet_wifi"
ROLE_DEFAULTS = "defaults/main.yml"


@dataclass(frozen=True)
class RootWithMininetWifi:
    """A root file system with Mininet-WiFi.

    `source` is the address from which Mininet-WiFi is fetched. With "", it is the address in the
    Ansible role `mininet_wifi`.
    """

    source: str = ""

    EXPECTED_S: ClassVar[Mapping[str, float]] = {"fetch": 5, **root.EXPECTED_S, "packages": 45}

    def key(self) -> str:
        """Return a hash of the plain root and of the role with its revision.

        The address of the source has no influence.
        """
        return hash_inputs(self.read_inputs())

    def read_inputs(self) -> dict[str, bytes]:
        """Return everything that goes into this root file system, by path."""
        files = [root.HERE / "root_variants.py", MININET_WIFI_PLAYBOOK,
                 *MININET_WIFI_ROLE.rglob("*")]
        return {**root.read_inputs(), **root.read_files(files)}

    def build(self, unfinished: Path, commands: BuildCommands,
              track: BuildProgress) -> Mapping[str, Any]:
        """Build `root.squashfs` in a folder and return the manifest."""
        addition, about = self.fetch_addition(unfinished, commands, track)
        return {**root.build(unfinished, commands, track, addition), **about}

    def fetch_addition(
        self, unfinished: Path, commands: BuildCommands, track: BuildProgress
    ) -> tuple[root.RootAddition, Mapping[str, Any]]:
        """Fetch Mininet-WiFi into a folder.

        Returns:
            The addition to the root file system, and its part of the manifest.
        """
        track.begin_stage("fetch")
        defaults = (MININET_WIFI_ROLE / ROLE_DEFAULTS).read_text()
        revision = parse_mininet_wifi_setting(defaults, "revision")
        source = self.source or parse_mininet_wifi_setting(defaults, "source")
        version = _fetch_mininet_wifi(source, revision, unfinished / "qop" / "mininet-wifi",
                                      commands)
        addition = root.RootAddition(
            playbook=MININET_WIFI_PLAYBOOK,
            role=MININET_WIFI_ROLE,
            packages=root.parse_packages(defaults, "mininet_wifi_packages"),
            variables={"mininet_wifi_tree": "/qop/mininet-wifi"},
            compiled=(parse_mininet_wifi_setting(defaults, "home") + "/mn_wifi",),
        )
        return addition, {"mininet_wifi": {"version": version, "revision": revision}}


def parse_mininet_wifi_setting(defaults: str, name: str) -> str:
    """Return one setting of the Ansible role `mininet_wifi`, such as its `revision`.

    The role's YAML file has one setting a line, so that no YAML reader is needed here.

    Args:
        defaults: Text of the role's file defaults/main.yml.
        name: Name of the setting, without `mininet_wifi_`.
    """
    found = re.search(rf"^mininet_wifi_{name}: (\S+)$", defaults, re.M)
    if found is None:
        raise BuildError(
            f"ansible/roles/mininet_wifi/{ROLE_DEFAULTS}: mininet_wifi_{name} has no value on its "
            "line"
        )
    return found[1]


def _fetch_mininet_wifi(source: str, revision: str, tree: Path, commands: BuildCommands) -> str:
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


# --- Additional packages, from the lists of a study ---

ANSIBLE = root.PROJECT / "ansible"
PACKAGES_PLAYBOOK = ANSIBLE / "packages.yml"
PACKAGES_ROLE = ANSIBLE / "roles/packages"
#: Playbook that applies both Mininet-WiFi's playbook and this one.
COMBINED_PLAYBOOK = ANSIBLE / "additions.yml"
# apt's messages for a package that does not exist.
_UNKNOWN_PACKAGE = re.compile(
    r"^E: (?:Unable to locate package (?=\S+$)|Package '(?=\S+' has no installation candidate))"
    r"([a-z0-9][a-z0-9.+-]*)", re.M)


@dataclass(frozen=True)
class PackageList:
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
class RootWithPackages:
    """A root file system with more packages: plain, or with Mininet-WiFi."""

    packages: PackageList
    mininet_wifi: RootWithMininetWifi | None = None
    release: Release = DEFAULT

    EXPECTED_S: ClassVar[Mapping[str, float]] = {"fetch": 3, **root.EXPECTED_S, "packages": 35}

    def key(self) -> str:
        """Return a hash of the base root, the package lists and their installer files."""
        below = self.mininet_wifi.read_inputs() if self.mininet_wifi else root.read_inputs()
        files = [root.HERE / "root_variants.py", PACKAGES_PLAYBOOK, COMBINED_PLAYBOOK,
                 *PACKAGES_ROLE.rglob("*")]
        own = {"debian": "\n".join(sorted(set(self.packages.debian))), "lock": self.packages.lock}
        if self.release != DEFAULT:
            own["release"] = self.release.suite
        return hash_inputs({**below, **root.read_files(files),
                            **{name: text.encode() for name, text in own.items()}})

    def build(self, unfinished: Path, commands: BuildCommands,
              track: BuildProgress) -> Mapping[str, Any]:
        """Build `root.squashfs` in a folder and return the manifest."""
        track.begin_stage("fetch")
        addition, about = self._fetch_addition(unfinished, commands, track)
        try:
            manifest = root.build(unfinished, commands, track, addition, release=self.release)
        except BuildError as error:
            unknown = sorted(
                set(_UNKNOWN_PACKAGE.findall(commands.log.read_text(errors="replace"))))
            if commands.stopped or not unknown:
                raise
            raise BuildError(
                f"{self.packages.where or self.packages.name}: Debian {self.release.suite} has no "
                f"package {', '.join(unknown)}; correct the list; full log: {commands.log}"
            ) from error
        added = {"debian": sorted(set(self.packages.debian)), "python": self.packages.python}
        return {**manifest, **about, "added": added}

    def _fetch_addition(
        self, unfinished: Path, commands: BuildCommands, track: BuildProgress
    ) -> tuple[root.RootAddition, Mapping[str, Any]]:
        """Fetch the packages into a folder, and Mininet-WiFi if the variant has it.

        Returns:
            The addition to the root file system, and Mininet-WiFi's part of the manifest.
        """
        inside = unfinished / "qop"
        variables: dict[str, Any] = {"packages_debian": list(self.packages.debian)}
        if self.packages.lock:
            variables |= self._fetch_wheels(inside / "packages", commands)
        own = root.RootAddition(playbook=PACKAGES_PLAYBOOK, role=PACKAGES_ROLE,
                                packages=self.packages.debian,
                                variables=variables, compiled=())
        if self.mininet_wifi is None:
            return own, {}
        below, about = self.mininet_wifi.fetch_addition(unfinished, commands, track)
        # The root gets a copy of only one playbook and one role; copy those of Mininet-WiFi and of
        # this addition here.
        project = inside / "project" / "ansible"
        shutil.copytree(below.role, project / "roles" / below.role.name)
        for playbook in (below.playbook, PACKAGES_PLAYBOOK):
            shutil.copy(playbook, project)
        return replace(own, playbook=COMBINED_PLAYBOOK, packages=[*below.packages, *own.packages],
                       variables={**below.variables, **variables}, compiled=below.compiled), about

    def _fetch_wheels(self, folder: Path, commands: BuildCommands) -> dict[str, str]:
        """Write the lock and its wheels to a folder.

        Returns:
            The variables by which the role finds them.
        """
        folder.mkdir(parents=True)
        (folder / "requirements.lock").write_text(self.packages.lock)
        commands.run([
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"),
            *("--dest", str(folder / "wheels"),
              *root.wheels_for(platform.machine(), self.release)),
            *("--require-hashes", "--no-deps"),
            *("--quiet", "--requirement", str(folder / "requirements.lock"))])
        return {"packages_lock": "/qop/packages/requirements.lock",
                "packages_wheels": "/qop/packages/wheels"}


# --- A second strongSwan, compiled with ML-KEM ---

HERE = Path(__file__).parent
STRONGSWAN_PLAYBOOK = root.PROJECT / "ansible/strongswan_mlkem.yml"
STRONGSWAN_ROLE = root.PROJECT / "ansible/roles/strongswan_mlkem"
STRONGSWAN_VERSION = "6.1.0"
STRONGSWAN_SHA256 = "fe6c97481298767213cfc2e9a1da29fdd8018d481ff4cb9cf0283099654f20d4"
#: Installation path in the image.
STRONGSWAN_HOME = "/opt/strongswan6"
_STRONGSWAN_SOURCE = f"pool/main/s/strongswan/strongswan_{STRONGSWAN_VERSION}.orig.tar.bz2"
_STRONGSWAN_BUILD_PACKAGES = ("gcc", "make", "bzip2", "pkg-config", "libc6-dev", "libssl-dev")
_STRONGSWAN_TAR = "strongswan.tar"
# apt's download helper: it verifies the checksum and uses the machine's proxies.
_APT_HELPER = "/usr/lib/apt/apt-helper"


@dataclass(frozen=True)
class PackageListWithStrongswan(PackageList):
    """The packages of a variant that also has the compiled strongSwan."""


def leave_out_strongswan(packages: PackageList | None, release: Release) -> PackageList | None:
    """Return a list of packages without the strongSwan that a release has itself.

    None if the release has all of them.
    """
    if not isinstance(packages, PackageListWithStrongswan) or not release.has_mlkem:
        return packages
    if not packages.debian and not packages.lock:
        return None
    return PackageList(packages.name, packages.debian, packages.lock, packages.where)


@dataclass(frozen=True)
class RootWithStrongswan(RootWithPackages):
    """A root file system with packages and the compiled strongSwan: plain, or with Mininet-WiFi."""

    EXPECTED_S: ClassVar[Mapping[str, float]] = {
        "strongswan": 100, **RootWithPackages.EXPECTED_S}

    def key(self) -> str:
        """Return a hash of the packages, of strongSwan's build files and of its role."""
        files = [HERE / "root_variants.py", HERE / "strongswan.sh", STRONGSWAN_PLAYBOOK,
                 *STRONGSWAN_ROLE.rglob("*")]
        return hash_inputs({"below": super().key().encode(), **root.read_files(files)})

    def build(self, unfinished: Path, commands: BuildCommands,
              track: BuildProgress) -> Mapping[str, Any]:
        """Build `root.squashfs` in a folder and return the manifest."""
        track.begin_stage("strongswan")
        # A store of its own, next to roots and kernels, so that another root does not compile it
        # again.
        store = BuildStore(unfinished.parent.parent / "strongswans", "strongSwan", remove_build)
        place = store.find_or_build(
            _compile_key(self.release),
            lambda folder: _compile_strongswan(folder, commands, self.release), track.set_note)
        track.set_note(None)
        (unfinished / "qop").mkdir()
        shutil.copy(place / _STRONGSWAN_TAR, unfinished / "qop")
        manifest = super().build(unfinished, commands, track)
        return {**manifest,
                "strongswan": {"version": STRONGSWAN_VERSION, "sha256": STRONGSWAN_SHA256}}

    def _fetch_addition(
        self, unfinished: Path, commands: BuildCommands, track: BuildProgress
    ) -> tuple[root.RootAddition, Mapping[str, Any]]:
        """Extend the addition of the packages by the compiled strongSwan.

        Returns:
            The addition to the root file system, and Mininet-WiFi's part of the manifest.
        """
        below, about = super()._fetch_addition(unfinished, commands, track)
        project = unfinished / "qop" / "project" / "ansible"
        shutil.copytree(below.role, project / "roles" / below.role.name)
        shutil.copy(below.playbook, project)
        variables = {**below.variables, "strongswan_mlkem_below": below.playbook.name,
                     "strongswan_mlkem_tar": f"/qop/{_STRONGSWAN_TAR}"}
        return replace(below, playbook=STRONGSWAN_PLAYBOOK, role=STRONGSWAN_ROLE,
                       variables=variables), about


def _compile_key(release: Release) -> str:
    """Return a hash of the source, the script and the build environment of a Debian release."""
    return hash_inputs({"script": (HERE / "strongswan.sh").read_bytes(),
                        "choice": repr((STRONGSWAN_SHA256, STRONGSWAN_HOME, release.suite,
                                        _STRONGSWAN_BUILD_PACKAGES)).encode()})


def _compile_strongswan(unfinished: Path, commands: BuildCommands,
                        release: Release) -> Mapping[str, Any]:
    """Build a tar of the installed folder and return the manifest.

    It is compiled in a Debian release, whose libraries it then needs.
    """
    archive = find_mirrors()
    source = unfinished / Path(_STRONGSWAN_SOURCE).name
    address = f"{archive.main.rstrip('/')}/{_STRONGSWAN_SOURCE}"
    try:
        commands.run([_APT_HELPER, "download-file", address, str(source),
                      f"SHA256:{STRONGSWAN_SHA256}"])
    except BuildError as error:
        if commands.stopped:
            raise
        raise BuildError(
            f"strongSwan {STRONGSWAN_VERSION} cannot be fetched from {address}; set "
            "QOP_DEBIAN_MIRROR to a "
            f"mirror or snapshot of Debian's archive that has it; full log: {commands.log}"
        ) from error
    command = build_mmdebstrap_command(
        release.suite, "/dev/null",
        archive.source_lines(release.suite, f"{release.suite}-security"),
        _STRONGSWAN_BUILD_PACKAGES,
        ['--customize-hook=mkdir "$1/qop"', make_hook("upload", source, "/qop/source.tar.bz2"),
         make_hook("upload", HERE / "strongswan.sh", "/qop/strongswan.sh"),
         make_chroot_hook("sh", "/qop/strongswan.sh", "/qop/source.tar.bz2", STRONGSWAN_HOME,
                          f"/qop/{_STRONGSWAN_TAR}"),
         make_hook("download", f"/qop/{_STRONGSWAN_TAR}", unfinished / _STRONGSWAN_TAR)])
    run_in_scratch(commands, command, unfinished)
    source.unlink()
    return {"version": STRONGSWAN_VERSION, "sha256": STRONGSWAN_SHA256}
