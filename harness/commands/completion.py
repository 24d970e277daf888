"""`qop completion`: print a script that completes qop's command lines in a shell.

The argument is the name of the shell, such as bash. The user's shell reads the script at its start,
and then completes subcommands, options and their values.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh")


@click.command("completion", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    For this session, run: eval "$(./qop completion bash)". To keep it, put that line into ~/.bashrc
    or ~/.zshrc with the full path of qop.
    """
    from harness.cli import qop  # avoid a circular import

    kind = get_completion_class(shell)
    assert kind is not None, f"click knows no {shell}"
    click.echo(kind(qop, {}, "qop", "_QOP_COMPLETE").source())
