"""Licences: of the kernel's files, as lint sees them, and the version in CITATION.cff."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from doc_commands import PROJECT

#: Code of kernels, and what configures and builds it: files of these folders or of this name.
KERNEL_FOLDERS, KERNEL_NAME = ("patches", "sources", "module", "dcf"), "kernel"
LINE = re.compile("SPDX-License-" r"Identifier: GPL-2\.0-(only|or-later)( \*/)?")
needs_reuse = pytest.mark.skipif(importlib.util.find_spec("reuse") is None,
                                 reason="reuse has no wheel for this Python")


def kernel_files() -> set[Path]:
    """Return all files below guest/ that are under the kernel's licence."""
    guest = PROJECT / "guest"
    return {path for path in guest.rglob("*") if path.is_file() and path.suffix not in {
        ".py", ".pyc"} and (path.relative_to(guest).parts[0] in KERNEL_FOLDERS
                            or path.stem == KERNEL_NAME)}


def test_each_file_of_the_kernel_says_its_licence_first() -> None:
    """Patches, sources and build files begin with their licence, scripts after their #! line."""
    assert len(kernel_files()) > 30
    for path in kernel_files():
        first, second, *_ = path.read_text(encoding="utf-8").split("\n")
        assert LINE.search(second if first.startswith("#!") else first), path


def test_reuse_gives_no_licence_to_files_of_the_kernel() -> None:
    """REUSE.toml states their copyright alone, so `reuse lint` demands each file's own line."""
    annotations = tomllib.loads((PROJECT / "REUSE.toml").read_text())["annotations"]
    [alone] = [each for each in annotations if "SPDX-License-Identifier" not in each]
    assert {path for pattern in alone["path"] for path in PROJECT.glob(
        pattern.replace("/**", "/**/*")) if path.is_file()} == kernel_files()


@needs_reuse
@pytest.mark.parametrize("name", ["guest/patches/60-dcf.patch", "guest/dcf/trial.c",
                                  "guest/sources/net/sched/sch_dcf.c", "guest/module/older.h",
                                  "guest/module/Kbuild", "guest/module/build.sh",
                                  "guest/kernel.config", "guest/vm/kernel.sh"])
def test_lint_finds_a_kernel_file_without_its_line(name: str, tmp_path: Path) -> None:
    """`reuse lint` fails for such a file, and holds with the line."""
    for kept in ("LICENSES", "REUSE.toml", "guest/sources", "guest/dcf", name):
        target = tmp_path / kept
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (PROJECT / kept).is_dir() else shutil.copy)(PROJECT / kept, target)
    (tmp_path / "apache.py").write_text('"""Nothing."""\n')

    def lint() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "reuse", "lint", "--lines"], cwd=tmp_path,
                              capture_output=True, text=True, check=False)

    done = lint()
    assert done.returncode == 0, done.stdout
    lines = (tmp_path / name).read_text().splitlines(keepends=True)
    (tmp_path / name).write_text("".join(line for line in lines if not LINE.search(line)))
    done = lint()
    assert done.returncode == 1
    assert f"{name}: no license identifier" in done.stdout


def test_texts_of_licences_are_whole() -> None:
    """LICENSE is Apache's text, which is among those in LICENSES/."""
    text = (PROJECT / "LICENSE").read_text()
    assert text == (PROJECT / "LICENSES/Apache-2.0.txt").read_text()
    assert "END OF TERMS AND CONDITIONS" in text


def test_citation_names_the_version_and_the_licence() -> None:
    """CITATION.cff, pyproject.toml and the command line have one version."""
    cited = yaml.safe_load((PROJECT / "CITATION.cff").read_text())
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    assert cited["cff-version"] == "1.2.0"
    assert {"title", "message", "authors"} <= cited.keys()
    assert cited["version"] == version
    assert cited["license"] == "Apache-2.0"
    done = subprocess.run([sys.executable, "-m", "harness", "--version"], cwd=PROJECT,
                          capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == version
