"""The Vagrant box: made of files, starts by itself, and measures on Debian's own kernel."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import doc_commands
from conftest import PROJECT, checks
from guest import box
from guest.build import BuildError
from keyed import changing
from qemu_box import Box, missing

PAGE = "docs/vagrant.md"
KEYS = "/usr/share/rubygems-integration/all/gems"
needs_vagrant = pytest.mark.skipif(bool(missing(["vagrant"])), reason="vagrant is not installed")
needs_qemu = pytest.mark.skipif(
    bool(missing(["qemu-system-x86_64", "ssh"])), reason=f"not installed: "
    f"{missing(['qemu-system-x86_64', 'ssh'])} (Debian: qemu-system-x86, openssh-client)")
# As Vagrant copies a checkout in.
LEFT_OUT = (".git", "results", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache")


def test_what_a_box_is_made_with_says_its_version(tmp_path: Path) -> None:
    """./qop sets itself up in a box that has nothing else of the project yet."""
    for name in box.ENTRY:
        source = PROJECT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    done = subprocess.run([sys.executable, "-P", "-m", "harness", "--version"], cwd=tmp_path,
                          env={"PYTHONPATH": str(tmp_path)}, text=True, capture_output=True,
                          check=False)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("qop, version")


def vagrant(home: Path, *arguments: str, folder: Path = PROJECT,
            **environment: str) -> subprocess.CompletedProcess[str]:
    """Vagrant with a home of its own."""
    return subprocess.run(["vagrant", *arguments], cwd=folder, text=True, capture_output=True,
                          timeout=300, check=False,
                          env={**os.environ, "VAGRANT_HOME": str(home), **environment})


@pytest.fixture(scope="module")
def made() -> Path:
    """The box, from the cache where it is there."""
    return box.ensure_box()


def unpack(made: Path, folder: Path) -> None:
    """The box's files into a folder."""
    subprocess.run(["tar", "-x", "-f", made, "-C", folder], check=True)


def test_the_entry_points_packages_are_found() -> None:
    """What goes into the box is what ./qop asks for; another form of that line is noticed."""
    assert "mmdebstrap" in box.parse_entry_packages((PROJECT / "qop").read_text())
    with pytest.raises(BuildError, match="packages="):
        box.parse_entry_packages('packages="other"\n')


def test_the_key_follows_what_goes_in(monkeypatch, tmp_path) -> None:
    """The root, a file, a step, the lock and the set-up each make another box; words do not."""
    for name in ("guest", "requirements", "ansible"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    shutil.copy(PROJECT / "qop", tmp_path)
    for module, name, place in ((box, "PROJECT", ""), (box.root, "PROJECT", ""),
                                (box, "HERE", "guest/vagrant")):
        monkeypatch.setattr(module, name, tmp_path / place)
    monkeypatch.setattr(box.root, "key", lambda: "root")
    words = [
        ("qop", "# The one entry point", "# The entry point"), ("qop", "'git chromium", "'git"),
        ("qop", "# Another lock file", "# Another file"),
        ("guest/box.py", "# Packages of a complete machine", "# Packages of a machine"),
        ("guest/box.py", '"""Build the Vagrant box', '"""Build a Vagrant box'),
        ("guest/box.py", '"wheels": 20', '"wheels": 21')]
    deeds = [
        ("qop", "packages='python3 ", "packages='python3 hello "),
        ("qop", "-m venv", "-m venv --copies"), ("guest/box.py", '"rsync", ', ""),
        ("guest/box.py", '"--version"', '"--help"'), ("guest/vagrant/finish.sh", "qop", "q"),
        ("requirements/harness.lock", "sha256", "sha255"),
        ("guest/module/sch_dcf.c", "hwsim0", "hwsim1"),
        ("guest/sources/net/sched/dcf_core.h", "DCF_NEVER", "DCF_NONE"),
        ("ansible/roles/air_module/tasks/build.yml", "depmod", "depmode"),
        ("ansible/air_module.yml", "air_module", "air")]
    assert changing(tmp_path, box.key, words) == [False] * len(words)
    assert changing(tmp_path, box.key, deeds) == [True] * len(deeds)
    last = box.key()
    monkeypatch.setattr(box.root, "key", lambda: "another")
    assert box.key() != last


def test_an_entry_point_of_another_form_is_noticed() -> None:
    """One that sets itself up otherwise is not taken for the same."""
    assert len(box.parse_setup_functions((PROJECT / "qop").read_text())) == len(box.SET_UP)
    with pytest.raises(BuildError, match="find_environment"):
        box.parse_setup_functions("")


@pytest.mark.skipif(bool(missing(["modprobe"])), reason="modprobe is not installed (Debian: kmod)")
@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_a_missing_kernel_module_is_named(tmp_path, architecture) -> None:
    """Provisioning a machine whose kernel has no such radios says which module, and what to do.

    The package of the kernel is that of the machine's architecture, which dpkg names.
    """
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dpkg").write_text(
        f'#!/bin/sh\n[ "$*" = --print-architecture ] && echo {architecture}\n')
    (tmp_path / "bin/dpkg").chmod(0o755)
    play = {"hosts": "localhost", "gather_facts": False,
            "vars": {"testbed_services": [], "testbed_modules": ["qop_no_such_module"],
                     "ansible_python_interpreter": "/usr/bin/python3"},
            "tasks": [{"ansible.builtin.import_tasks": str(box.root.ROLE / "tasks/live.yml")}]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", "-c", "local",
         tmp_path / "play.yml"], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})
    assert done.returncode != 0
    assert "Module qop_no_such_module not found" in done.stdout + done.stderr
    assert f"install linux-image-{architecture} and" in done.stdout + done.stderr


@needs_vagrant
@pytest.mark.parametrize("environment", [{}, {"QOP_BOX": "somebody/elses"}])
def test_vagrantfile_is_valid(tmp_path, environment) -> None:
    """By Vagrant's own judgement."""
    done = vagrant(tmp_path, "validate", "--ignore-provider", **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "validated successfully" in done.stdout


@pytest.mark.guest
@pytest.mark.shareable
def test_box_is_what_vagrant_takes(made, tmp_path) -> None:
    """Three files, the disk of the announced kind and size."""
    with tarfile.open(made) as packed:
        assert packed.getnames() == ["metadata.json", "Vagrantfile", "box.img"]
    unpack(made, tmp_path)
    about = json.loads((tmp_path / "metadata.json").read_text())
    shown = subprocess.run(["qemu-img", "info", "--output=json", tmp_path / "box.img"], text=True,
                           capture_output=True, check=True).stdout
    disk = json.loads(shown)
    assert about["provider"] == "libvirt" and about["format"] == disk["format"] == "qcow2"
    assert disk["virtual-size"] == about["virtual_size"] << 30
    assert subprocess.run(["qemu-img", "check", "-q", tmp_path / "box.img"],
                          check=False).returncode == 0


@needs_vagrant
@pytest.mark.guest
@pytest.mark.shareable
def test_vagrant_takes_the_box(made, tmp_path, qop) -> None:
    """The page's commands for Vagrant, beside a box; to start it, they would need a hypervisor."""
    (tmp_path / "Vagrantfile").symlink_to(PROJECT / "Vagrantfile")
    (tmp_path / "qop.box").symlink_to(made)
    home = tmp_path / "home"
    for command in doc_commands.commands(PAGE, "vagrant"):
        program, *words = shlex.split(command.text)
        assert program in {"./qop", "vagrant"}, command
        done = qop(*words) if program == "./qop" else vagrant(home, *words, folder=tmp_path)
        assert done.returncode == command.status, f"{command}\n{done.stdout}{done.stderr}"
        assert command.missing(done.stdout) is None
    assert not (tmp_path / "qop.box").is_symlink(), "the page's command has not written it"
    assert "qop (libvirt, 0)" in vagrant(home, "box", "list").stdout


def checkout() -> bytes:
    """The project as a tar."""
    def chosen(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if Path(entry.name).name in LEFT_OUT or entry.name.endswith(".box") else entry

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(PROJECT, ".", filter=chosen)
    return packed.getvalue()


@needs_qemu
@needs_vagrant
@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.slow
def test_box_measures_on_its_own_kernel(made, tmp_path, qop) -> None:
    """From its boot loader to a record: P1 in N2, proven, without any network to the outside."""
    unpack(made, tmp_path)
    key = tmp_path / "key"
    key.write_bytes(next(Path(KEYS).glob("vagrant-*/keys/vagrant")).read_bytes())
    key.chmod(0o600)
    with Box(tmp_path / "box.img", tmp_path, key) as machine:
        put = machine.ssh("sudo mkdir /vagrant && sudo tar -x -C /vagrant", data=checkout())
        assert put.returncode == 0, put.stderr
        for command in doc_commands.commands(PAGE, "box"):
            done = machine.ssh(command.text)
            output = (done.stdout + done.stderr).decode()
            assert done.returncode == command.status, f"{command}\n{output}"
            assert command.missing(output) is None, f"{command}\n{output}"
        kept = machine.ssh("cat /tmp/box.tar.gz")
    (tmp_path / "box.tar.gz").write_bytes(kept.stdout)
    assert qop("import", "box.tar.gz").returncode == 0
    (one,) = qop.records("results/box").values()
    assert (one.name, one.status) == ("P1-N2-001", "ok"), one.reason
    assert one.environment["kernel"].startswith("Linux 6.")
    # Its kernel has the guest's air as a module, built while the box was made.
    assert (one.environment["machine"], one.environment["air"]) == ("host", "dcf")
    assert len(checks(one)) == len(one.evidence) > 0
