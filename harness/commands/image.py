"""`qop image`: build one file with everything that is needed to measure on another machine.

`qop image container` builds an OCI archive, which podman and docker load. `qop image box` builds a
Vagrant box, a virtual machine with Debian's own kernel. The container has qop with its Python
packages and the guest, the machine in which networks are emulated. The box has everything that
`./qop run --on host` needs.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click

from guest.build import BuildError
from harness.engine import setup
from harness.errors import UserError

_SETTINGS = {"help_option_names": ["-h", "--help"]}


@click.group("image", context_settings=_SETTINGS)
def command() -> None:
    """Build one file that contains everything to measure on another machine."""


@command.command("container", context_settings=_SETTINGS)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE",
              help="Put the archive here (default: it stays in the cache until the project "
              "changes).")
@click.option("--radio", "is_for_radio", is_flag=True,
              help="Build the small image with './qop radio' alone, which measures nothing.")
def build_container(out: Path | None, *, is_for_radio: bool) -> None:
    """Build the container image, an OCI archive that podman and docker load.

    The image contains the guest, the Python packages and the project as they are here. Nothing is
    pulled from an image registry. docs/container.md explains how to run it.
    """
    from harness.container import image

    if out is not None:
        _check_output(out)
    try:
        built = image.ensure_radio_image() if is_for_radio else image.ensure_image(
            setup.make_embedded_machine().image)
    except BuildError as error:
        raise UserError(str(error), status=1) from None
    file = built.archive
    if out is not None:
        _copy_to(file, out)
        file = out
    click.echo(f"container image ready: {file} ({built.packed_bytes / 1e6:.0f} MB, "
               f"{built.unpacked_bytes / 1e6:.0f} MB unpacked), {built.name}\n"
               f"load it with 'podman load -i {file}' or 'docker load -i {file}'")


@command.command("box", context_settings=_SETTINGS)
@click.option("--out", type=click.Path(path_type=Path), default=Path("qop.box"), metavar="FILE",
              help="Put the box here (default: qop.box).")
def build_box(out: Path) -> None:
    """Build a Vagrant box for libvirt: Debian 12 with its own kernel, as a testbed.

    The box contains everything that './qop run --on host' needs. The Vagrantfile uses qop.box if it
    is in the same folder, or the file that QOP_BOX names. docs/vagrant.md explains how to start it.
    """
    from guest.box import ensure_box

    _check_output(out)
    try:
        built = ensure_box()
    except BuildError as error:
        raise UserError(str(error), status=1) from None
    _copy_to(built, out)
    click.echo(f"box ready: {out} ({out.stat().st_size / 1e6:.0f} MB)")


def _check_output(out: Path) -> None:
    """Raise UserError if the file cannot be written, before the build takes minutes."""
    folder = out.absolute().parent
    if out.is_dir() or not folder.is_dir():
        raise UserError(f"--out {out}: name a file in a folder that exists")
    if not os.access(folder, os.W_OK):
        raise UserError(f"--out {out}: you may not write to {folder}; name another place")


def _copy_to(source: Path, out: Path) -> None:
    """Copy a finished image under a temporary name, then rename it.

    So the file is never incomplete.
    """
    new = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        shutil.copyfile(source, new)
        new.rename(out)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written ({error.strerror})", status=1) from None
    finally:
        new.unlink(missing_ok=True)
