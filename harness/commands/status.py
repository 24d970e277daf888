"""`qop status`: how far a run has come, from its folder alone."""

from __future__ import annotations

from pathlib import Path

import click

from harness import results
from harness.commands.run import RESULTS


@click.command("status", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", required=False, type=click.Path(path_type=Path))
def command(folder: Path | None) -> None:
    """Show how far a run has come: FOLDER, or the newest in results/."""
    folder = folder or results.latest(RESULTS)
    found = results.progress_of(folder)
    state = "running" if found["running"] else "not running"
    click.echo(f"{folder}: {state}; {found['ok']} of {found['planned']} repetitions ok, "
               f"{len(found['failed'])} failed, {found['missing']} to measure")
    for record in found["failed"]:
        click.echo(f"  {record.name}: {record.reason}")
    for complaint in found["complaints"]:
        click.echo(f"  left out: {complaint}")
