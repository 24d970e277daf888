"""`qop tell`: send a message to the running repetitions of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from harness.engine import control, results
from harness.errors import UserError


@click.command("tell", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--repetition", metavar="NAME",
              help="Only the repetition of this name; by default all that are being measured.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("message", nargs=-1, required=True, metavar="KEY=VALUE...")
def command(folder: Path, repetition: str | None, message: tuple[str, ...]) -> None:
    """Send the message KEY=VALUE to running repetitions of the run that writes to FOLDER.

    Values are parsed as JSON if possible, otherwise taken as text. The study's README lists the
    keys that its workload accepts. The accepted values are reported in the folder's
    events/NAME.jsonl. Runs on a cluster do not accept messages.
    """
    results.require_manifest(folder)
    told = control.send_message(folder, repetition, dict(map(_parse_pair, message)))
    if not told:
        raise UserError(f"{folder}: {repetition or 'no repetition'} is "
                        f"{'not ' if repetition else ''}being measured at this moment", status=1)
    click.echo(f"told: {', '.join(told)}")


def _parse_pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not (equals and key.isidentifier()) or key == "do":
        raise UserError(f"'{text}' is not KEY=VALUE; write for example level=20")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
