"""`qop lint`: the project's own style and types, as CONTRIBUTING.md wants them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import click

from harness.engine.machine import ROOT
from harness.errors import UserError

#: Both are configured in pyproject.toml, which says what they look at.
CHECKS = (("ruff", "check", "."), ("mypy",))


@click.command("lint")
def command() -> int:
    """Check style and types of the project's own code with ruff and mypy."""
    if importlib.util.find_spec("mypy") is None:
        raise UserError("lint: ruff and mypy are missing; start it as './qop lint', "
                        "which installs them")
    statuses = [subprocess.run([sys.executable, "-m", *check], cwd=ROOT, check=False).returncode
                for check in CHECKS]
    return max(statuses)
