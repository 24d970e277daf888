"""Build the guest's root file system: Debian packages, configured by ansible/testbed.yml."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guest.cache import key_of
from guest.commands import BuildError, Commands
from guest.debian import (
    clear_scratch,
    find_mirrors,
    in_root_hook,
    make_hook,
    make_scratch,
    mmdebstrap_command,
)
from guest.progress import Track

HERE = Path(__file__).parent
PROJECT = HERE.parent
PLAYBOOK = PROJECT / "ansible/testbed.yml"
ROLE = PROJECT / "ansible/roles/testbed"
SUITE = "bookworm"
# pip's options for wheels of Debian 12's Python on x86_64, the only architecture of User-Mode
# Linux. The Python that runs this code may be another one.
WHEELS_FOR = (
    *("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "abi3"),
    *("--abi", "none", "--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_28_x86_64"),
    *("--platform", "manylinux_2_34_x86_64", "--platform", "any", "--only-binary", ":all:"),
)
EXPECTED_S = {"wheels": 5, "packages": 30, "provision": 20, "pack": 8}
VARIABLES = {"testbed_live": False, "testbed_wheels": "/qop/wheels"}
COMPILED = ("/opt/qop/venv/lib", "/usr/lib/python3/dist-packages")
COMPRESSION = ("--compressor", "zstd", "--comp-extra", "level=5", "--block-size", "131072")


@dataclass(frozen=True)
class Addition:
    """A variant's addition to the testbed, applied by a playbook with its role.

    `compiled` lists folders in the root whose Python code is compiled.
    """

    playbook: Path
    role: Path
    packages: Sequence[str]
    variables: Mapping[str, Any]
    compiled: Sequence[str]


def key() -> str:
    """Return a hash of everything that goes into the root file system."""
    return key_of(read_inputs())


def read_inputs() -> dict[str, bytes]:
    """Return everything that goes into the root file system, by path."""
    files = [HERE / "first-init", HERE / "root.py", PLAYBOOK, *ROLE.rglob("*")]
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
    unfinished: Path, commands: Commands, track: Track, addition: Addition | None = None
) -> Mapping[str, Any]:
    """Build `root.squashfs` in a folder and return the manifest.

    Content of its subfolder `qop` is available at /qop while the playbooks run.
    """
    track.begin_stage("wheels")
    inside = unfinished / "qop"
    _fetch_wheels(inside, commands)
    added = dict(addition.variables) if addition else {}
    (inside / "variables.json").write_text(json.dumps({**VARIABLES, **added}))

    track.begin_stage("packages")
    names = parse_packages((ROLE / "defaults/main.yml").read_text())
    names += addition.packages if addition else ()
    archive = find_mirrors()
    suites = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
    command = mmdebstrap_command(SUITE, "-", archive.source_lines(*suites), names,
                                 _make_hooks(inside, addition))
    target = make_scratch(unfinished)
    pack = '"${@:2}" | tar2sqfs --quiet --force ' + " ".join(COMPRESSION) + ' "$1"'
    shell = ["bash", "-o", "pipefail", "-c", pack, "bash", str(unfinished / "root.squashfs")]
    commands.run(
        [*shell, *command],
        each_line=lambda line: _follow_stages(line, track),
        environment={**os.environ, "TMPDIR": str(target)},
    )
    clear_scratch(unfinished)
    shutil.rmtree(inside)
    return {"suite": SUITE, "packages": names}


def _fetch_wheels(inputs_folder: Path, commands: Commands) -> None:
    """Fetch the worker's wheels, and unpack Ansible.

    Ansible runs inside the root and must not remain there.
    """
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    locked = [*WHEELS_FOR, "--require-hashes", "--no-deps", "--quiet", "--requirement"]
    lock = {name: str(PROJECT / f"requirements/{name}.lock") for name in ("testbed", "ansible")}
    commands.run([*pip, "download", "--dest", str(inputs_folder / "wheels"), *locked,
                  lock["testbed"]])
    commands.run([*pip, "install", "--target", str(inputs_folder / "python"), *locked,
                  lock["ansible"]])


def _make_hooks(inputs_folder: Path, addition: Addition | None) -> list[str]:
    playbooks = [PLAYBOOK, *([addition.playbook] if addition else [])]
    roles = [ROLE, *([addition.role] if addition else [])]
    play = ("-e", "@/qop/variables.json", *(f"/qop/project/ansible/{p.name}" for p in playbooks))
    environment = (
        *("PYTHONPATH=/qop/python", "HOME=/qop", "LC_ALL=C.UTF-8"),
        *("ANSIBLE_NOCOLOR=1", "ANSIBLE_REMOTE_TEMP=/qop/tmp"),
    )
    compiled = (*COMPILED, *(addition.compiled if addition else ()))
    return [
        in_root_hook("mkdir", "-p", "/qop/project/requirements", "/qop/project/ansible/roles",
                     "/host"),
        make_hook("sync-in", inputs_folder, "/qop"),
        make_hook("copy-in", PROJECT / "requirements/testbed.lock", "/qop/project/requirements"),
        *(make_hook("copy-in", playbook, "/qop/project/ansible") for playbook in playbooks),
        *(make_hook("copy-in", role, "/qop/project/ansible/roles") for role in roles),
        "--customize-hook=echo @stage provision",
        in_root_hook("env", *environment, "python3", "-m", "ansible", "playbook", *play),
        make_hook("upload", HERE / "first-init", "/sbin/qop-init"),
        in_root_hook("chmod", "755", "/sbin/qop-init"),
        in_root_hook("rm", "-rf", "/qop"),
        # Compile all Python code now: in a guest that would be slow, and lost when the guest ends.
        in_root_hook("python3", "-m", "compileall", "-q", *compiled),
        "--customize-hook=echo @stage pack",
    ]


def _follow_stages(line: str, track: Track) -> None:
    if line.startswith("@stage "):
        track.begin_stage(line.removeprefix("@stage "))
