"""`qop provision`: build the guest's image, or install the testbed on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

from guest import image
from harness.engine import builders, setup
from harness.engine.machine import ROOT
from harness.errors import UserError
from topologies.builders import MININET_WIFI

_ANSIBLE = ROOT / "ansible"


@click.command("provision", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--on", type=click.Choice(["guest", "host"]), default="guest", show_default=True,
              help="Build the embedded guest, or install the testbed on this machine (root).")
@click.option("--mininet-wifi", is_flag=True, help="With Mininet-WiFi, which is fetched from where "
              "it is developed. (On this machine that is tried in any case; asked for, it must "
              "succeed.)")
@click.option("--mininet-wifi-source", "source", default="", metavar="PATH_OR_URL",
              help="Where to fetch Mininet-WiFi from: a clone, or another address.")
def command(on: str, mininet_wifi: bool, source: str) -> None:
    """Build what measuring needs, now; './qop run' would do it by itself.

    The guest's image with Mininet-WiFi is one of its own, beside the plain one, and only this
    command builds it.
    """
    with_mininet_wifi = mininet_wifi or bool(source)
    if on == "host":
        _install(source, must_have=with_mininet_wifi)
        return
    built = setup.build(image.MININET_WIFI if with_mininet_wifi else image.PLAIN, source)
    click.echo(f"guest image ready: kernel {built.kernel}, root file system {built.root}")


def _install(source: str, *, must_have: bool) -> None:
    if os.geteuid() != 0:
        raise UserError("provision --on host installs packages; run it with sudo")
    # Ansible works in the playbooks' folder, git in yet another.
    where = str(Path(source).absolute()) if Path(source).exists() and source else source
    extra = ["-e", f"mininet_wifi_source={where}"] if where else []
    playbook = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [str(playbook), "-i", "localhost,", "-c", "local", *extra, str(_ANSIBLE / "testbed.yml"),
         str(_ANSIBLE / "mininet_wifi.yml")],
        env={**os.environ, "ANSIBLE_CONFIG": str(_ANSIBLE / "ansible.cfg")}, check=False)
    if done.returncode:
        raise UserError("provision --on host: ansible-playbook failed, see above", status=1)
    lacking = builders.lacking("host")[MININET_WIFI]
    if lacking and must_have:
        raise UserError(f"provision --on host --mininet-wifi: {lacking}", status=1)
    click.echo(f"testbed ready; builders: {', '.join(builders.working('host'))}")
