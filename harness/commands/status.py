"""`qop status`: how far a run has come, from its folder alone."""

from __future__ import annotations

import json
from pathlib import Path

import click

from harness import results
from harness.commands.run import RESULTS
from harness.progress import STATE, lasting


@click.command("status", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", required=False, type=click.Path(path_type=Path))
def command(folder: Path | None) -> None:
    """Show how far a run has come: FOLDER, or the newest in results/."""
    folder = folder or results.latest(RESULTS)
    found = results.progress_of(folder)
    state = "running" if found["running"] else "not running"
    click.echo(f"{folder}: {state}; {found['ok']} of {found['planned']} repetitions ok, "
               f"{len(found['failed'])} failed, {found['missing']} to measure, "
               f"{len(found['flagged'])} flagged (the processor was the limit)")
    if found["running"]:
        _show_live(folder)
    for record in found["failed"]:
        click.echo(f"  {record.name}: {record.reason}")
    for complaint in found["complaints"]:
        click.echo(f"  left out: {complaint}")


def _show_live(folder: Path) -> None:
    """What the run itself says of the moment; nothing where it has not said it yet."""
    try:
        state = json.loads((folder / STATE).read_text())
        left = f", about {lasting(state['left_s'])} left" if state["left_s"] is not None else ""
        click.echo(f"  {state['done']} of {state['total']} done in "
                   f"{lasting(state['elapsed_s'])}{left}; {state['testbeds']} testbeds, "
                   f"{len(state['running'])} measuring side by side")
        for name, seconds in state["running"].items():
            click.echo(f"  running: {name}, {seconds:.0f} s")
        if state["last"]:
            click.echo(f"  last: {state['last']}")
    except (OSError, ValueError, KeyError, TypeError):
        return
