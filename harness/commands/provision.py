"""`qop provision`: build now what measuring needs, instead of at the first `qop run`.

By default it builds the disk image of the guest, the User-Mode Linux machine in which networks are
emulated. With `--on vm` it builds the image of QEMU machines. With `--on host` it installs the
daemons on this machine by Ansible, so that networks can be emulated here.
"""

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
from guest import image, kernel
from guest.releases import DEFAULT, RELEASES
from guest.root_variants import PackageList
from harness.engine import request, setup
from harness.engine.machine import ROOT
from harness.errors import UserError
from topologies.builders import MININET_WIFI

_ANSIBLE = ROOT / "ansible"


@click.command("provision", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--on", type=click.Choice(["guest", "vm", "host"]), default="guest",
              help="Build the embedded guest or the image of virtual machines, or install the "
              "testbed on this machine as root (default: guest).")
@click.option("--mininet-wifi", is_flag=True, help="Require Mininet-WiFi, and download it. "
              "Without this option, --on host tries it and continues without it.")
@click.option("--mininet-wifi-source", "source", default="", metavar="PATH_OR_URL",
              help="Fetch Mininet-WiFi from this clone or address (default: from its developers).")
@click.option("--study", metavar="STUDY",
              help="Also build the images with the packages of this study (default: none).")
@click.option("--release", type=click.Choice(list(RELEASES)), default=DEFAULT.suite,
              metavar="RELEASE", help=f"Build the image of this Debian release: "
              f"{', '.join(RELEASES)} (default: {DEFAULT.suite}).")
def command(on: str, mininet_wifi: bool, source: str, study: str | None, release: str) -> None:
    """Build now what measuring needs. './qop run' also builds it when needed.

    The image with Mininet-WiFi is separate from the plain image, and only this command builds it.
    """
    with_mininet_wifi = mininet_wifi or bool(source)
    with request.convert_refusals():
        added = setup.read_declared_packages(studies.load_study(study).id) if study else {}
    if release != DEFAULT.suite and (on != "guest" or with_mininet_wifi):
        raise UserError(f"--release {release}: only the plain guest has another release than "
                        f"{DEFAULT.suite}; leave out --on and --mininet-wifi")
    if on == "host":
        _install_testbed(source, list(added.values()), must_have=with_mininet_wifi)
        return
    variant = image.MININET_WIFI if with_mininet_wifi else image.PLAIN
    for packages in (None, *added.values()):
        built = setup.ensure_variant(variant, source, packages, setup.vm_architecture(on),
                                     RELEASES[release])
        what = f"guest image {setup.describe_image(RELEASES[release], packages)}".rstrip()
        click.echo(f"{what} ready: kernel {built.kernel}, root file system {built.root}")


def _install_testbed(source: str, added: Sequence[PackageList], *, must_have: bool) -> None:
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
    lacking = setup.find_missing_by_builder("host")[MININET_WIFI]
    if lacking and must_have:
        raise UserError(f"provision --on host --mininet-wifi: {lacking}", status=1)
    click.echo(f"testbed ready; builders: {', '.join(setup.list_working_builders('host'))}; "
               f"stations {'take turns' if kernel.describe_missing_module() else 'contend'}")


def _run_playbook(*arguments: str) -> None:
    """Run an Ansible playbook on this host. Raises UserError if it fails."""
    playbook = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [str(playbook), "-i", "localhost,", "-c", "local", *arguments],
        env={**os.environ, "ANSIBLE_CONFIG": str(_ANSIBLE / "ansible.cfg")}, check=False)
    if done.returncode:
        raise UserError("provision --on host: ansible-playbook failed, see above", status=1)
