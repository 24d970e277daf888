"""`qop export`: pack a results folder into an archive."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from harness.engine import results
from harness.portable import archive, exporting, interrupts
from harness.portable.documents import Choice
from measure.document import to_printable


@click.command("export", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("-o", "--output", "file", type=click.Path(path_type=Path), metavar="FILE",
              help="Archive to write, or a folder for it; default: FOLDER's name with .tar.gz, "
                   "here.")
@click.option("--captures", type=click.Choice(get_args(Choice)), default="none", show_default=True,
              help="Which repetitions' captures go along.")
def command(folder: Path | None, file: Path | None, captures: Choice) -> None:
    """Pack FOLDER into one archive with checksums (default: the newest in results/).

    The archive holds plan, records, provenance, events and logs, but no report. Two exports of a
    folder are equal in every byte. A damaged folder is refused.
    """
    folder = folder or results.latest_folder(results.RESULTS)
    results.require_manifest(folder)
    name = f"{archive.folder_name(folder)}.tar.gz"
    if file is None:
        file = Path(name)
    elif file.is_dir():
        file /= name
    with interrupts.interrupt_on_signals():
        done = exporting.export_folder(folder, file, captures)
    click.echo(f"{done.file}: {done.records} records, {done.captures} captures, "
               f"{done.bytes / 1e6:.1f} MB")
    click.echo(f"  digest of plan and records: {done.digest}")
    if done.foreign:
        names = to_printable(", ".join(map(click.format_filename, done.foreign)))
        click.echo(f"  left out, no part of the results: {names}")
