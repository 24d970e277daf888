"""`qop provision`: build the guest's image, or install the testbed on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

from harness import setup
from harness.errors import UserError
from harness.machine import ROOT


@click.command("provision", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--on", type=click.Choice(["guest", "host"]), default="guest", show_default=True,
              help="Build the embedded guest, or install the testbed on this machine (root).")
def command(on: str) -> None:
    """Build what measuring needs, now; './qop run' would do it by itself."""
    if on == "guest":
        found = setup.embedded().image
        click.echo(f"guest image ready: kernel {found.kernel}, root file system {found.root}")
        return
    if os.geteuid() != 0:
        raise UserError("provision --on host installs packages; run it with sudo")
    playbook = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [str(playbook), "-i", "localhost,", "-c", "local", str(ROOT / "ansible" / "testbed.yml")],
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible" / "ansible.cfg")}, check=False)
    if done.returncode:
        raise UserError("provision --on host: ansible-playbook failed, see above", status=1)
