"""Build the root file system of a guest: Debian packages, configured by ansible/testbed.yml.

A guest is the virtual machine of a test network, so it needs hostapd, wpa_supplicant, FreeRADIUS,
strongSwan and others. `build` writes `root.squashfs` to a folder of the cache. `key` returns a hash
of all inputs, so it is built again only if they change. `RootAddition` is further software of a
variant (`guest.root_variants`).
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from guest.build import BuildCommands, BuildError, BuildProgress
from guest.cache import hash_inputs
from guest.debian import (
    DebianMirrors,
    PrivateApt,
    build_mmdebstrap_command,
    find_mirrors,
    make_chroot_hook,
    make_hook,
    run_in_scratch,
)
from guest.releases import DEFAULT, Release

HERE = Path(__file__).parent
PROJECT = HERE.parent
PLAYBOOK = PROJECT / "ansible/testbed.yml"
ROLE = PROJECT / "ansible/roles/testbed"
SUITE = DEFAULT.suite
#: Kernels' and Python's names of Debian's architectures.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def wheels_for(machine: str, release: Release = DEFAULT) -> tuple[str, ...]:
    """Return pip's options for wheels of a release's Python on a kind of processor.

    The Python that runs this code may be another one.
    """
    return (
        *release.wheel_options, *("--platform", f"manylinux2014_{machine}"),
        *("--platform", f"manylinux_2_28_{machine}", "--platform", f"manylinux_2_34_{machine}"),
        *("--platform", "any", "--only-binary", ":all:"),
    )


WHEELS_FOR = wheels_for(platform.machine())
#: Packages of the default release in every root. They generate traffic and are not what is
#: measured, so their version is the same everywhere. iperf3 from 3.16 on ends a stream at its next
#: report, up to 1 s late. By a clock that skips waiting, it sends all datagrams of UDP at once.
PROBES = ("libiperf0", "iperf3")
EXPECTED_S = {"wheels": 5, "packages": 30, "provision": 20, "pack": 8}
VARIABLES = {"testbed_live": False, "testbed_wheels": "/qop/wheels"}
COMPILED = ("/opt/qop/venv/lib", "/usr/lib/python3/dist-packages")
COMPRESSION = ("--compressor", "zstd", "--comp-extra", "level=5", "--block-size", "131072")


@dataclass(frozen=True)
class RootAddition:
    """A variant's addition to the testbed, applied by a playbook with its role.

    `compiled` lists folders in the root whose Python code is compiled.
    """

    playbook: Path
    role: Path
    packages: Sequence[str]
    variables: Mapping[str, Any]
    compiled: Sequence[str]


def key(release: Release = DEFAULT) -> str:
    """Return a hash of everything that goes into the root file system."""
    other = {} if release == DEFAULT else {"release": release.suite.encode()}
    return hash_inputs({**read_inputs(), **other})


def read_inputs() -> dict[str, bytes]:
    """Return everything that goes into the root file system, by path."""
    files = [*(HERE / name for name in ("first-init", "root.py", "releases.py")), PLAYBOOK,
             *ROLE.rglob("*")]
    files += [PROJECT / "requirements" / name for name in ("testbed.lock", "ansible.lock")]
    return read_files(files)


def read_files(files: Sequence[Path]) -> dict[str, bytes]:
    """Return the content of those paths that are files, by path below the project."""
    return {str(path.relative_to(PROJECT)): path.read_bytes() for path in files if path.is_file()}


def parse_packages(defaults: str, variable: str = "testbed_packages") -> list[str]:
    """Return a role's list of packages.

    The role's YAML has one package a line, so that no YAML reader is needed here.
    """
    block = re.search(rf"^{variable}:\n((?:[ ]+.*\n)+)", defaults, re.M)
    names = re.findall(r"^  - ([a-z0-9][a-z0-9.+-]+)$", block[1] if block else "", re.M)
    if not names:
        role = variable.removesuffix("_packages")
        raise BuildError(f"ansible/roles/{role}/defaults/main.yml: {variable} is not a list")
    return names


def build(
    unfinished: Path, commands: BuildCommands, track: BuildProgress,
    addition: RootAddition | None = None,
    architecture: str = "", release: Release = DEFAULT
) -> Mapping[str, Any]:
    """Build `root.squashfs` in a folder and return the manifest.

    Content of its subfolder `qop` is available at /qop while the playbooks run. `architecture` is
    as in `build_mmdebstrap_command`.
    """
    track.begin_stage("wheels")
    inside = unfinished / "qop"
    _fetch_wheels(inside, commands, architecture, release)
    added = dict(addition.variables) if addition else {}
    (inside / "variables.json").write_text(json.dumps({**VARIABLES, **added}))

    track.begin_stage("packages")
    names = parse_packages((ROLE / "defaults/main.yml").read_text())
    names += addition.packages if addition else ()
    archive = find_mirrors()
    probes = [] if release == DEFAULT else _fetch_probes(unfinished, archive, commands)
    command = build_mmdebstrap_command(release.suite, "-",
                                       archive.source_lines(*release.archive_suites), names,
                                       _make_hooks(inside, addition, probes),
                                       architecture=architecture)
    pack = '"${@:2}" | tar2sqfs --quiet --force ' + " ".join(COMPRESSION) + ' "$1"'
    shell = ["bash", "-o", "pipefail", "-c", pack, "bash", str(unfinished / "root.squashfs")]
    run_in_scratch(commands, [*shell, *command], unfinished, track.follow_line)
    shutil.rmtree(inside)
    return {"suite": release.suite, "packages": names}


@dataclass(frozen=True)
class ForeignRoot:
    """A recipe for the plain root file system of another architecture than this machine's."""

    architecture: str
    EXPECTED_S: ClassVar[Mapping[str, float]] = {
        name: 10.0 * seconds for name, seconds in EXPECTED_S.items()}

    def key(self) -> str:
        """Return a hash of everything that goes into the root file system."""
        return hash_inputs({**read_inputs(), "architecture": self.architecture.encode()})

    def build(self, unfinished: Path, commands: BuildCommands,
              track: BuildProgress) -> Mapping[str, Any]:
        """Build `root.squashfs` in a folder and return the manifest."""
        return {**build(unfinished, commands, track, architecture=self.architecture),
                "architecture": self.architecture}


def _fetch_wheels(inputs_folder: Path, commands: BuildCommands, architecture: str,
                  release: Release) -> None:
    """Fetch the worker's wheels, and unpack Ansible.

    Ansible runs inside the root and must not remain there.
    """
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    machine = MACHINES[architecture] if architecture else platform.machine()
    wheels = wheels_for(machine, release)
    locked = [*wheels, "--require-hashes", "--no-deps", "--quiet", "--requirement"]
    lock = {name: str(PROJECT / f"requirements/{name}.lock") for name in ("testbed", "ansible")}
    commands.run([*pip, "download", "--dest", str(inputs_folder / "wheels"), *locked,
                  lock["testbed"]])
    commands.run([*pip, "install", "--target", str(inputs_folder / "python"), *locked,
                  lock["ansible"]])


def _fetch_probes(unfinished: Path, archive: DebianMirrors, commands: BuildCommands) -> list[str]:
    """Download the packages of Debian 12 that generate traffic (`PROBES`), for every root.

    Returns:
        The names of the files, which the root has in /qop/probes.
    """
    folder, apt_folder = unfinished / "qop/probes", unfinished / "apt"
    folder.mkdir()
    apt = PrivateApt(apt_folder, archive.source_lines(*DEFAULT.archive_suites), commands)
    apt.update_lists()
    for name in PROBES:
        versions = apt.list_versions(name)
        if not versions:
            raise commands.make_error(f"the Debian archive has no {name} of {DEFAULT.title}")
        apt.download_package(name, versions[0][0], folder)
    shutil.rmtree(apt_folder)
    return sorted(file.name for file in folder.iterdir())


def _make_hooks(inputs_folder: Path, addition: RootAddition | None,
                probes: Sequence[str]) -> list[str]:
    playbooks = [PLAYBOOK, *([addition.playbook] if addition else [])]
    roles = [ROLE, *([addition.role] if addition else [])]
    play = ("-e", "@/qop/variables.json", *(f"/qop/project/ansible/{p.name}" for p in playbooks))
    environment = (
        *("PYTHONPATH=/qop/python", "HOME=/qop", "LC_ALL=C.UTF-8"),
        *("ANSIBLE_NOCOLOR=1", "ANSIBLE_REMOTE_TEMP=/qop/tmp"),
    )
    compiled = (*COMPILED, *(addition.compiled if addition else ()))
    return [
        make_chroot_hook("mkdir", "-p", "/qop/project/requirements", "/qop/project/ansible/roles",
                         "/host"),
        make_hook("sync-in", inputs_folder, "/qop"),
        *([make_chroot_hook("dpkg", "--install", *(f"/qop/probes/{name}" for name in probes))]
          if probes else []),
        make_hook("copy-in", PROJECT / "requirements/testbed.lock", "/qop/project/requirements"),
        *(make_hook("copy-in", playbook, "/qop/project/ansible") for playbook in playbooks),
        *(make_hook("copy-in", role, "/qop/project/ansible/roles") for role in roles),
        "--customize-hook=echo @stage provision",
        make_chroot_hook("env", *environment, "python3", "-m", "ansible", "playbook", *play),
        make_hook("upload", HERE / "first-init", "/sbin/qop-init"),
        make_chroot_hook("chmod", "755", "/sbin/qop-init"),
        make_chroot_hook("rm", "-rf", "/qop"),
        # Compile all Python code now: in a guest that would be slow, and lost when the guest ends.
        make_chroot_hook("python3", "-m", "compileall", "-q", *compiled),
        "--customize-hook=echo @stage pack",
    ]
