"""`qop image`: build what others can run without this checkout's set-up."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click

from guest import box
from guest.commands import BuildError
from harness.errors import UserError


@click.group("image", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Build what others can run."""


@command.command("box")
@click.option("--out", type=click.Path(path_type=Path), default=Path(box.NAME), show_default=True,
              metavar="FILE", help="Where to put it.")
def make_box(out: Path) -> None:
    """Build a Vagrant box that is a testbed, for './qop run --on host' inside.

    Debian 12 with its own kernel, for libvirt. The Vagrantfile takes qop.box where it lies beside
    it, or the file that QOP_BOX names.
    """
    _check(out)
    try:
        built = box.ensure()
    except BuildError as error:
        raise UserError(str(error), status=1) from None
    _place(built, out)
    click.echo(f"{out}: {out.stat().st_size >> 20} MB, a Vagrant box for libvirt")


def _check(out: Path) -> None:
    """Refuse, before minutes are spent, where the file cannot be put."""
    folder = out.absolute().parent
    if out.is_dir():
        raise UserError(f"--out {out}: is a folder; give the name of a file")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UserError(f"--out {out}: cannot write to {folder}; give another place")


def _place(built: Path, out: Path) -> None:
    """Copy under another name, then rename: the file is whole or not there."""
    new = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        shutil.copyfile(built, new)
        new.rename(out)
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror}", status=1) from None
    finally:
        new.unlink(missing_ok=True)
