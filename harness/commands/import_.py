"""`qop import`: unpack an archive of `qop export`, or merge it into existing results.

The command verifies all checksums first. Then it writes the records of the archived run to a
results folder. If the folder has results of the same plan, only missing ones are added.
"""

from __future__ import annotations

from pathlib import Path

import click

from harness import host_process
from harness.engine import results
from harness.portable import importing
from measure.records.document import to_printable


@click.command("import", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="Unpack into this folder (default: results/ and the archive's own name).")
def command(file: Path, out: Path | None) -> None:
    """Unpack FILE, an archive of './qop export'.

    Everything is checked before any file appears in FOLDER. If FOLDER holds results of the same
    plan, missing results are added. Results of the same name that differ are refused.
    """
    with host_process.raise_interrupt_on_signals():
        done = importing.import_archive(file, out, results.RESULTS)
    already = done.records - done.added
    present = f"; {already} records were there already" if already else ""
    how = "imported" if done.new else "added"
    click.echo(f"{done.folder}: {done.added} records and {done.captures} captures {how}{present}")
    click.echo(f"  digest of its plan and records: {done.digest}")
    for line in done.notices:
        click.echo(f"  ! {to_printable(line)}")
    if done.left_out:
        click.echo("  left out, './qop report' makes our own of the records: "
                   f"{to_printable(', '.join(done.left_out))}")
