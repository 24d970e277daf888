"""Tests of the check of commit subjects that continuous integration runs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).parent.parent / ".ci" / "commits"


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return its output."""
    return subprocess.run(
        ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments],
        check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(("subject", "problem"), [
    ("wires: count lost frames", ""), ("policies, harness/cli: refuse double keys", ""),
    ("tests: heed Ctrl-C", ""), ("Wires count lost frames", "no component"),
    ("wires: Count lost frames", "no component"), ("wires: counted lost frames", "'counted'"),
    ("wires: counts lost frames", "'counts'"), ("wires: counting of frames", "'counting'"),
    (f"wires: count {'x' * 53}", "66 characters"), (f"wires: count {'x' * 52}", "")])
def test_subject_is_checked(subject: str, problem: str, tmp_path: Path) -> None:
    """A component, an imperative verb, at most 65 characters; earlier commits are left alone."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(CHECK, tmp_path / ".ci")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "Whatever came before")
    first = git(tmp_path, "rev-parse", "HEAD")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", subject)
    done = subprocess.run([tmp_path / ".ci" / "commits", first], capture_output=True, text=True,
                          check=False)
    assert (done.returncode, problem in done.stderr) == (bool(problem), True)
    assert (subject in done.stderr) == bool(problem)
