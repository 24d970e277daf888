"""`qop provision`: build the guest's image, or install the testbed on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

import studies
from guest import air_module, image
from guest.packages import Packages
from harness.engine import builders, request, setup, variants
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
@click.option("--study", metavar="STUDY",
              help="With the packages that a study brings, too, each in an image of its own.")
def command(on: str, mininet_wifi: bool, source: str, study: str | None) -> None:
    """Build now what measuring needs. './qop run' also builds it when needed.

    The image with Mininet-WiFi is separate from the plain image, and only this command builds it.
    """
    with_mininet_wifi = mininet_wifi or bool(source)
    with request.convert_refusals():
        added = variants.declared_packages(studies.load_study(study).id) if study else {}
    if on == "host":
        _install_testbed(source, list(added.values()), must_have=with_mininet_wifi)
        return
    variant = image.MININET_WIFI if with_mininet_wifi else image.PLAIN
    for packages in (None, *added.values()):
        built = setup.ensure_variant(variant, source, packages)
        beside = f" with packages {packages.name}" if packages else ""
        click.echo(f"guest image{beside} ready: kernel {built.kernel}, "
                   f"root file system {built.root}")


def _install_testbed(source: str, added: Sequence[Packages], *, must_have: bool) -> None:
    if os.geteuid() != 0:
        raise UserError("provision --on host installs packages; run it with sudo")
    # Make the path absolute: Ansible works in the playbooks' folder, and git in another one.
    where = str(Path(source).absolute()) if Path(source).exists() and source else source
    extra = ["-e", f"mininet_wifi_source={where}"] if where else []
    _run_playbook(*extra, *(str(_ANSIBLE / f"{name}.yml")
                            for name in ("testbed", "mininet_wifi", "air_module")))
    for packages in added:
        if not packages.debian and not packages.lock:
            continue  # strongSwan with ML-KEM is only compiled for images
        with tempfile.NamedTemporaryFile("w", suffix=".lock") as lock:
            lock.write(packages.lock)
            lock.flush()
            variables = {"packages_debian": packages.debian,
                         "packages_lock": lock.name if packages.lock else ""}
            _run_playbook("-e", json.dumps(variables), str(_ANSIBLE / "packages.yml"))
    lacking = builders.missing_by_builder("host")[MININET_WIFI]
    if lacking and must_have:
        raise UserError(f"provision --on host --mininet-wifi: {lacking}", status=1)
    click.echo(f"testbed ready; builders: {', '.join(builders.working_builders('host'))}; "
               f"stations {'take turns' if air_module.describe_missing_module() else 'contend'}")


def _run_playbook(*arguments: str) -> None:
    """Run a playbook on this host. Raises UserError if it fails."""
    playbook = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [str(playbook), "-i", "localhost,", "-c", "local", *arguments],
        env={**os.environ, "ANSIBLE_CONFIG": str(_ANSIBLE / "ansible.cfg")}, check=False)
    if done.returncode:
        raise UserError("provision --on host: ansible-playbook failed, see above", status=1)
