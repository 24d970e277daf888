"""`qop prune`: remove selected captures from a results folder."""

from __future__ import annotations

from pathlib import Path

import click

from harness.engine import results
from harness.portable import interrupts, pruning


@click.command("prune", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--captures", metavar=f"{pruning.KEEP_FAILED}|{pruning.NONE}|PART", required=True,
              help="Keep those of repetitions that are not ok; keep none; or keep only those of "
                   "one part of a repetition, by which their files are named.")
def command(folder: Path | None, captures: str) -> None:
    """Remove captures of FOLDER, or of the newest in results/. Records are kept.

    There is no confirmation. pruned.json lists the removed captures, so that './qop verify' accepts
    their absence.
    """
    folder = folder or results.latest_folder(results.RESULTS)
    results.require_manifest(folder)
    with interrupts.interrupt_on_signals():
        freed = pruning.prune_captures(folder, captures)
    click.echo(f"{folder}: removed {freed.captures} captures, {freed.bytes / 1e6:.1f} MB")
