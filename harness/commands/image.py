"""`qop image`: build a file that contains everything to measure on another machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click

from guest.commands import BuildError
from harness.engine import setup
from harness.errors import UserError

_SETTINGS = {"help_option_names": ["-h", "--help"]}


@click.group("image", context_settings=_SETTINGS)
def command() -> None:
    """Build one file that contains everything to measure on another machine."""


@command.command("container", context_settings=_SETTINGS)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE",
              help="Where to put the archive; default: it stays in the cache, where it is kept "
                   "until the project changes.")
def build_container(out: Path | None) -> None:
    """Build the container image, an OCI archive that podman and docker load.

    The image contains the guest, the Python packages and the project as they are here. Nothing is
    pulled from an image registry. docs/container.md explains how to run it.
    """
    from harness.container import image

    if out is not None:
        _check_output(out)
    guest = setup.embedded_machine().image
    try:
        made = image.ensure_image(guest)
    except BuildError as error:
        raise UserError(str(error), status=1) from None
    file = made.archive
    if out is not None:
        _copy_to(file, out)
        file = out
    click.echo(f"container image ready: {file} ({made.packed_bytes / 1e6:.0f} MB, "
               f"{made.unpacked_bytes / 1e6:.0f} MB unpacked), {made.name}\n"
               f"load it with 'podman load -i {file}' or 'docker load -i {file}'")


@command.command("box", context_settings=_SETTINGS)
@click.option("--out", type=click.Path(path_type=Path), default=Path("qop.box"), metavar="FILE",
              show_default=True, help="Where to put the box.")
def build_box(out: Path) -> None:
    """Build a Vagrant box for libvirt: Debian 12 with its own kernel, as a testbed.

    The box contains everything that './qop run --on host' needs. The Vagrantfile uses qop.box if it
    is in the same folder, or the file that QOP_BOX names. docs/vagrant.md explains how to start it.
    """
    from guest.box import ensure_box

    _check_output(out)
    try:
        made = ensure_box()
    except BuildError as error:
        raise UserError(str(error), status=1) from None
    _copy_to(made, out)
    click.echo(f"box ready: {out} ({out.stat().st_size / 1e6:.0f} MB)")


def _check_output(out: Path) -> None:
    """Raise UserError if the file cannot be written, before the build takes minutes."""
    folder = out.absolute().parent
    if out.is_dir() or not folder.is_dir():
        raise UserError(f"--out {out}: name a file in a folder that exists")
    if not os.access(folder, os.W_OK):
        raise UserError(f"--out {out}: you may not write to {folder}; name another place")


def _copy_to(source: Path, out: Path) -> None:
    """Copy the file under a temporary name, then rename it.

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
