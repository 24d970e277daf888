"""`qop prune`: delete packet captures from a results folder, and keep the records.

The option `--captures` says which ones are kept, for example those of failed measurements. The
deleted captures are listed in pruned.json, and their number and size are printed.
"""

from __future__ import annotations

from pathlib import Path

import click

from harness import host_process
from harness.engine import results
from harness.portable import archive


@click.command("prune", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--captures", metavar=f"{archive.KEEP_FAILED}|{archive.KEEP_NO_CAPTURES}|PART",
              required=True,
              help="Keep captures of repetitions that are not ok, none, or only those of one part "
              "of a repetition, by which their files are named.")
def command(folder: Path | None, captures: str) -> None:
    """Remove packet captures of FOLDER, or of the newest folder in results/.

    Records are kept, and so are the captures that --captures names: none, all of failed
    repetitions, or all of one part of a repetition, such as auth.

    There is no confirmation. pruned.json lists the removed captures, so that './qop verify' accepts
    their absence.
    """
    folder = folder or results.find_latest_folder(results.RESULTS)
    results.require_manifest(folder)
    with host_process.raise_interrupt_on_signals():
        freed = archive.prune_captures(folder, captures)
    click.echo(f"{folder}: removed {freed.captures} captures, {freed.bytes / 1e6:.1f} MB")
