"""`qop test`: the project's own tests, end to end ones included."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import click

from harness.engine.machine import ROOT
from harness.errors import UserError


@click.command("test", context_settings={"help_option_names": ["-h", "--help"],
                                         "ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST ARGUMENT]...")
def command(arguments: tuple[str, ...]) -> int:
    """Run the tests; arguments go to pytest ('-m "not guest"' leaves out what boots guests)."""
    if importlib.util.find_spec("pytest") is None:
        raise UserError("test: pytest is missing; start it as './qop test', which installs it")
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT,
                          check=False).returncode
