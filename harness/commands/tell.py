"""`qop tell`: change what a running measurement does, by sending it a message.

The message is a list of KEY=VALUE, which the code of the study receives in the test network's
virtual machine. The study defines the keys. For example, `./qop tell FOLDER level=20` sets the
fraction of packets that clients verify to 20 %, in a study whose clients verify packets. The
command prints which measurements received the message. Demonstrations need this, such as the live
page of docs/thermostat.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from harness.engine import control_socket, results
from harness.errors import UserError


@click.command("tell", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--repetition", metavar="NAME",
              help="Tell only the repetition of this name (default: all that are being measured).")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("message", nargs=-1, required=True, metavar="KEY=VALUE...")
def command(folder: Path, repetition: str | None, message: tuple[str, ...]) -> None:
    """Change what running repetitions do, by the message KEY=VALUE to the run in FOLDER.

    The study's README lists the keys that it accepts, such as level=20. Values are parsed as JSON
    if possible, otherwise taken as text. The accepted values are reported in the folder's
    events/NAME.jsonl. Runs on a cluster do not accept messages.
    """
    results.require_manifest(folder)
    recipients = control_socket.send_message(folder, repetition, dict(map(_parse_pair, message)))
    if not recipients:
        raise UserError(f"{folder}: {repetition or 'no repetition'} is "
                        f"{'not ' if repetition else ''}being measured at this moment", status=1)
    click.echo(f"told: {', '.join(recipients)}")


def _parse_pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not (equals and key.isidentifier()) or key == "do":
        raise UserError(f"'{text}' is not KEY=VALUE; write for example level=20")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
