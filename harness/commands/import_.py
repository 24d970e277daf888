"""`qop import`: unpack an archive, or merge it into results that are there."""

from __future__ import annotations

from pathlib import Path

import click

from harness.engine import results
from harness.portable import importing, interrupts
from measure.document import printable


@click.command("import", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="Where to unpack; default: results/ and the archive's own name.")
def command(file: Path, out: Path | None) -> None:
    """Unpack FILE, which './qop export' has made.

    Everything is checked before anything appears in FOLDER. If FOLDER holds results of the same
    plan, what it lacks is added; results that differ under one name are refused.
    """
    with interrupts.heeded():
        done = importing.import_archive(file, out, results.RESULTS)
    already = done.records - done.added
    there = f"; {already} records were there already" if already else ""
    how = "imported" if done.new else "added"
    click.echo(f"{done.folder}: {done.added} records and {done.captures} captures {how}{there}")
    click.echo(f"  digest of its plan and records: {done.digest}")
    for line in done.notices:
        click.echo(f"  ! {printable(line)}")
    if done.left_out:
        click.echo("  left out, './qop report' makes our own of the records: "
                   f"{printable(', '.join(done.left_out))}")
