"""`qop lint`: check style, types, docstrings and licences of qop's code.

This is for developers of qop. The command runs ruff, mypy, REUSE and qop's own check of plain
English (harness.prose). It prints what they found, and the exit status is not 0 if a check fails.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys

import click

from harness.engine.machine import ROOT
from harness.errors import UserError

#: Commands of the checks, which pyproject.toml configures.
CHECKS = (("ruff", "check", "."), ("mypy",), ("harness.prose",))


@click.command("lint")
def command() -> int:
    """Check style, types and plain English of the code, and the licence of each file."""
    if importlib.util.find_spec("mypy") is None:
        raise UserError("lint: ruff and mypy are missing; start it as './qop lint', "
                        "which installs them")
    commands = [*([sys.executable, "-m", *check] for check in CHECKS), licence_check()]
    return max(subprocess.run(check, cwd=ROOT, check=False).returncode for check in commands)


def licence_check() -> list[str]:
    """Return the command that checks that each file has a licence (REUSE.toml).

    Raises:
        UserError: reuse is missing.
    """
    if importlib.util.find_spec("reuse") is not None:
        return [sys.executable, "-m", "reuse", "lint", "--lines"]
    program = shutil.which("reuse")
    if program is None:
        raise UserError("lint: reuse is missing, for which Python's index has nothing for this "
                        "Python; install Debian's package reuse, version 5 or newer")
    return [program, "lint", "--lines"]
