"""Build a Vagrant box (a virtual machine image) in which `./qop run --on host` works.

This is for users of `./qop image box`, who measure on Debian's own kernel instead of User-Mode
Linux. The box has the Debian packages of the test networks, installed by the same Ansible role, and
Debian 12's kernel. `ensure_box` returns the file qop.box from the cache, or builds it first. `key`
returns a hash of all inputs, so the box is built again only if they change.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from guest import root
from guest.build import BuildCommands, BuildError, BuildProgress
from guest.cache import BuildStore, cache_root, hash_inputs, read_definitions
from guest.debian import (
    build_mmdebstrap_command,
    build_root_command,
    find_mirrors,
    make_chroot_hook,
    make_hook,
    remove_build,
    run_in_scratch,
)
from guest.image import ImagePart, ProgressListener, build_all

HERE = Path(__file__).parent / "vagrant"
PROJECT = root.PROJECT
NAME = "qop.box"
DISK_GIB = 16
TOOLS = ("mmdebstrap", "setpriv", "apt-get", "sfdisk", "mke2fs", "qemu-img")
# Packages of a complete machine: kernel with modules, init, network, and Vagrant's requirements.
# The boot loader's parts are Debian's; finish.sh and disk.sh install them.
PACKAGES = (
    *("linux-image-amd64", "zstd", "systemd-sysv", "udev", "dbus", "kmod", "passwd", "adduser"),
    *("ifupdown", "isc-dhcp-client", "netbase", "ca-certificates", "openssh-server", "sudo"),
    *("rsync", "grub-common", "grub-pc-bin", "linux-headers-amd64", "make"),
)
# Files that ./qop needs to set itself up and to print its version.
ENTRY = ("qop", "requirements", "harness")
LOCKS = ("testbed", "harness")
# Functions of ./qop that are part of the box's cache key: they decide whether setup is complete.
SET_UP = ("find_environment", "is_set_up", "make_environment", "set_up")
# Names of this file whose source is part of the box's cache key.
RECIPE = ("PACKAGES", "ENTRY", "LOCKS", "VARIABLES", "AIR", "PLAYBOOKS", "DISK_GIB", "build",
          "_gather_files", "_make_hooks", "_pack")
VARIABLES = {"testbed_live": False, "testbed_boots": True, "testbed_wheels": "/qop/wheels",
             "air_module_live": False}
# Code of the medium as a kernel module, and the role that builds the module.
AIR = ("guest/module", "guest/sources", "ansible/roles/air_module")
PLAYBOOKS = ("testbed.yml", "air_module.yml")
EXPECTED_S = {"wheels": 20, "packages": 70, "provision": 90, "disk": 30, "compress": 60}


def key() -> str:
    """Return a hash of all inputs of the Vagrant box, which changes if it must be built again."""
    inputs = root.read_files([PROJECT / "requirements/harness.lock", *HERE.rglob("*")])
    entry_point = (PROJECT / "qop").read_text()
    inputs |= root.read_files([PROJECT / "ansible/air_module.yml",
                               *(path for name in AIR for path in (PROJECT / name).rglob("*"))])
    inputs["set up"] = repr((parse_entry_packages(entry_point),
                             parse_setup_functions(entry_point))).encode()
    return hash_inputs({**inputs, "recipe": read_definitions(PROJECT / "guest/box.py", *RECIPE),
                        "root": root.key().encode()})


def ensure_box(progress: ProgressListener | None = None, cache: Path | None = None) -> Path:
    """Return the file of the Vagrant box, built if it is missing.

    A build takes minutes and needs the Debian archive and pip's index. `progress` is described in
    `guest.image.ensure_image`. Raises BuildError, whose text is meant for the user.
    """
    base = cache or cache_root()
    part = ImagePart("box", BuildStore(base / "boxes", "box", remove_build), sys.modules[__name__])
    found = part.store.find_build(key())
    if found is None:
        missing = [name for name in TOOLS if shutil.which(name) is None]
        if missing:
            raise BuildError("building the box needs " + ", ".join(missing)
                             + "; './qop image box' installs them")
        build_all((part,), base, progress, "box")
        found = part.store.find_build(key())
    if found is None:
        raise BuildError("the box's inputs changed while it was built; run the command again")
    return found / NAME


def parse_entry_packages(entry_point: str) -> list[str]:
    """Return the Debian packages that ./qop installs, read from its text."""
    found = re.search(r"^packages='([^']+)'$", entry_point, re.M)
    if not found:
        raise BuildError("qop: there is no line packages='...'")
    return found[1].split()


def parse_setup_functions(entry_point: str) -> list[str]:
    """Return the functions of ./qop that set it up, without their comments.

    They are read from the text of ./qop, `entry_point`.
    """
    functions = dict(re.findall(r"^(\w+)\(\) \{\n(.*?)^\}$", entry_point, re.M | re.S))
    if lacking := [name for name in SET_UP if name not in functions]:
        raise BuildError(f"qop: there is no function {lacking[0]}")
    return [re.sub(r"^\s*#.*\n", "", functions[name], flags=re.M) for name in SET_UP]


def build(unfinished: Path, commands: BuildCommands, track: BuildProgress) -> Mapping[str, Any]:
    """Build the Vagrant box `qop.box` in a folder and return its manifest."""
    track.begin_stage("wheels")
    inside = unfinished / "qop"
    _gather_files(inside, commands)

    track.begin_stage("packages")
    names = [*root.parse_packages((root.ROLE / "defaults/main.yml").read_text()), *PACKAGES]
    names += parse_entry_packages((PROJECT / "qop").read_text())
    suites = (root.SUITE, f"{root.SUITE}-updates", f"{root.SUITE}-security")
    command = build_mmdebstrap_command(
        root.SUITE, "-", find_mirrors().source_lines(*suites), dict.fromkeys(names),
        _make_hooks(inside)
    )
    disk = [*build_root_command(), "sh", str(HERE / "disk.sh"), str(unfinished), str(DISK_GIB)]
    run_in_scratch(
        commands, ["bash", "-o", "pipefail", "-c", f'"$@" | {shlex.join(disk)}', "bash", *command],
        unfinished, track.follow_line)
    shutil.rmtree(inside)
    _pack(unfinished)
    return {"suite": root.SUITE, "packages": sorted(set(names))}


def _gather_files(inputs_folder: Path, commands: BuildCommands) -> None:
    """Collect the files that go into the Vagrant box.

    These are wheels, the entry point, playbooks, roles and configuration files.
    """
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
    for name in LOCKS:
        lock = str(PROJECT / f"requirements/{name}.lock")
        commands.run([*pip, "--dest", str(inputs_folder / "wheels"), *root.WHEELS_FOR,
                      "--require-hashes",
                      "--no-deps", "--quiet", "--requirement", lock])
    project = inputs_folder / "project"
    for name in ENTRY:
        source = PROJECT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        project.mkdir(exist_ok=True)
        copy(source, project / name)
    (project / "ansible/roles").mkdir(parents=True)
    for name in (*PLAYBOOKS, "ansible.cfg"):
        shutil.copy(PROJECT / "ansible" / name, project / "ansible")
    shutil.copytree(root.ROLE, project / "ansible/roles/testbed")
    for name in AIR:
        shutil.copytree(PROJECT / name, project / name)
    shutil.copytree(HERE / "root", inputs_folder / "files")
    for name in ("finish.sh", "vagrant.pub"):
        shutil.copy(HERE / name, inputs_folder)
    (inputs_folder / "variables.json").write_text(json.dumps(VARIABLES))


def _make_hooks(inputs_folder: Path) -> list[str]:
    """Return the mmdebstrap hooks that fill the box's root file system.

    Files that packages read are copied before the packages are installed. Environments, the role
    and everything else follow after them.
    """
    # Run ./qop as root does, so that a later `sudo ./qop` finds its setup. pip uses only the local
    # wheels.
    offline = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/root",
               "QOP_SETS_UP=1", "PIP_NO_INDEX=1", "PIP_FIND_LINKS=/qop/wheels")
    playbook = (
        "cd /qop/project/ansible && exec /root/.cache/qop/python/harness-*/bin/ansible-playbook "
        "-i localhost, -c local -e @/qop/variables.json "
        f'-e air_module_release="$(ls /lib/modules)" {" ".join(PLAYBOOKS)}'
    )
    return [
        '--essential-hook=mkdir "$1/qop"',
        make_hook("sync-in", inputs_folder, "/qop").replace("customize", "essential", 1),
        '--essential-hook=chroot "$1" cp -r /qop/files/. /',
        "--customize-hook=echo @stage provision",
        make_chroot_hook(*offline, "/qop/project/qop", "--version"),
        make_chroot_hook(*offline, "ANSIBLE_NOCOLOR=1", "ANSIBLE_LOCAL_TEMP=/qop/tmp",
                         "ANSIBLE_REMOTE_TEMP=/qop/tmp", "sh", "-c", playbook),
        make_chroot_hook("sh", "/qop/finish.sh"),
        make_chroot_hook("rm", "-rf", "/qop"),
    ]


def _pack(unfinished: Path) -> None:
    """Pack the box: a tar of the disk, its metadata and its Vagrantfile."""
    disk = unfinished / "box.img"
    about = {"provider": "libvirt", "format": "qcow2", "virtual_size": DISK_GIB}
    (unfinished / "metadata.json").write_text(json.dumps(about) + "\n")
    with tarfile.open(unfinished / NAME, "w") as box:  # the disk image is already compressed
        box.add(unfinished / "metadata.json", "metadata.json")
        box.add(HERE / "Vagrantfile", "Vagrantfile")
        box.add(disk, "box.img")
    disk.unlink()
    (unfinished / "metadata.json").unlink()
