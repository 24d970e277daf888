"""`qop image`: everything that measuring takes as one file for another machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from guest.commands import BuildError
from harness import setup
from harness.errors import UserError

_SETTINGS = {"help_option_names": ["-h", "--help"]}


@click.group("image", context_settings=_SETTINGS)
def command() -> None:
    """Build everything that measuring takes as one file for another machine."""


@command.command("container", context_settings=_SETTINGS)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE",
              help="Where to put the archive; default: it stays in the cache, where it is kept "
                   "until the project changes.")
def container(out: Path | None) -> None:
    """Build the container image, an OCI archive that podman and docker load.

    What is in it is what is here: the same guest, the same Python packages, the project as it is.
    Nothing is pulled from a registry of images. docs/container.md tells how to run it.
    """
    from harness.container import image

    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise UserError(f"--out {out}: name a file in a folder that exists")
    guest = setup.embedded().image
    try:
        made = image.ensure(guest)
    except BuildError as error:
        raise UserError(str(error), status=1) from None
    file = made.archive
    if out is not None:
        try:
            file = Path(shutil.copyfile(made.archive, out))
        except OSError as error:
            raise UserError(f"--out {out}: cannot be written ({error.strerror})",
                            status=1) from None
    click.echo(f"container image ready: {file} ({made.packed_bytes / 1e6:.0f} MB, "
               f"{made.unpacked_bytes / 1e6:.0f} MB unpacked), {made.name}\n"
               f"load it with 'podman load -i {file}' or 'docker load -i {file}'")
