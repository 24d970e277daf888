"""`qop lint`: check the project's style and types as CONTRIBUTING.md requires."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import click

from harness.engine.machine import ROOT
from harness.errors import UserError

#: Commands of the checks, which pyproject.toml configures.
CHECKS = (("ruff", "check", "."), ("mypy",), ("harness.selftest.prose",))


@click.command("lint")
def command() -> int:
    """Check style, types and plain English of the project's code."""
    if importlib.util.find_spec("mypy") is None:
        raise UserError("lint: ruff and mypy are missing; start it as './qop lint', "
                        "which installs them")
    statuses = [subprocess.run([sys.executable, "-m", *check], cwd=ROOT, check=False).returncode
                for check in CHECKS]
    return max(statuses)
