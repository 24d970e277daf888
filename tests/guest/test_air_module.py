"""The air as a module of a stock kernel: when it counts, how it is built, what is said else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PATIENCE_S, PROJECT
from guest import kernel
from harness.commands import doctor
from plans import plan_of
from qemu_box import missing

MODULE = PROJECT / "guest/module"


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the kernel would say which module it has loaded; there is none yet."""
    monkeypatch.setattr(kernel, "LOADED_MODULE_VERSION", tmp_path / "version")
    return tmp_path / "version"


def airs() -> set[str]:
    """Which air this machine has, by a plan."""
    return {medium["air"] for medium in plan_of(on="host").manifest.media.values()}


def test_only_this_code_is_the_air(loaded: Path) -> None:
    """Stations contend where the kernel has it; without it, and with another's, they take turns."""
    assert airs() == {"queue"}
    assert "no module sch_dcf" in doctor._check_host_medium().remedy
    loaded.write_text("0123456789abcdef\n")
    assert airs() == {"queue"}
    assert "other code (0123456789abcdef)" in doctor._check_host_medium().remedy
    loaded.write_text(kernel.compute_module_version() + "\n")
    assert airs() == {"dcf"} and doctor._check_host_medium().ok
    assert plan_of(on="host").digest != plan_of().digest


def test_the_version_is_of_all_its_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What builds it and what asks for it count the same, and each file of C counts."""
    for name in ("module", "sources"):
        shutil.copytree(PROJECT / "guest" / name, tmp_path / name)
    monkeypatch.setattr(kernel, "HERE", tmp_path)
    seen = set[str]()
    files = sorted(tmp_path.rglob("*.[ch]"))
    assert {path.name for path in files} >= {"sch_dcf.c", "dcf_core.h", "older.h"}
    for file in [None, *files]:
        if file is not None:
            file.write_text(file.read_text() + "\n")
        said = subprocess.run([str(tmp_path / "module/version.sh")], text=True, check=True,
                              capture_output=True).stdout.strip()
        assert said == kernel.compute_module_version()
        seen.add(said)
    assert len(seen) == 1 + len(files)


def play(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """The role's part that builds, really played, with shell scripts in place of some programs."""
    (folder / "bin").mkdir()
    for name, script in programs.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bin" / name).chmod(0o755)
    tasks = PROJECT / "ansible/roles/air_module/tasks/build.yml"
    (folder / "play.json").write_text(json.dumps([{
        "hosts": "localhost", "gather_facts": False, "tasks": [{"include_tasks": str(tasks)}],
        "vars": {"ansible_python_interpreter": sys.executable, "air_module_packages": [],
                 "air_module_kernel": "0-none", "air_module_code": str(MODULE)}}]))
    return subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "-c",
         "local", str(folder / "play.json")], capture_output=True, text=True, check=False,
        timeout=PATIENCE_S, env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"})


def test_a_kernel_without_headers_is_one_line(tmp_path: Path) -> None:
    """Provisioning goes on, says why stations take turns, and leaves nothing behind."""
    done = play(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    [line] = [line for line in done.stdout.splitlines() if "No contention with --on host" in line]
    assert "Stations take turns there, and records say so." in line
    assert not Path("/lib/modules/0-none").exists()


@pytest.mark.skipif(bool(missing(["make", "gcc"])), reason="make or gcc is not installed")
@pytest.mark.skipif(not list(Path("/lib/modules").glob("*/build/Makefile")),
                    reason="no kernel's headers are installed (Debian: linux-headers-amd64)")
def test_it_builds_for_kernels_whose_headers_are_here(tmp_path: Path) -> None:
    """It says its version, and that it is what the kernel asks for by the discipline's name."""
    for makefile in Path("/lib/modules").glob("*/build/Makefile"):
        module = tmp_path / makefile.parts[3] / "sch_dcf.ko"
        subprocess.run([str(MODULE / "build.sh"), makefile.parts[3], str(module)], check=True,
                       capture_output=True, timeout=PATIENCE_S)
        assert f"version={kernel.compute_module_version()}\0".encode() in module.read_bytes()
