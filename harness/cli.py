"""Parse qop's command line, and run the subcommand that it names, such as `qop run`.

`main` takes the arguments and returns the exit status. Each subcommand is a module of
`harness.commands`, imported only when it is used, so that qop starts fast. Live pages of studies
are subcommands, too.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from harness import host_process
from harness.errors import UserError

ROOT = Path(__file__).parent.parent
#: Environment variable that is set in the container image (container/start).
IN_IMAGE = "QOP_IMAGE"
#: Subcommands in the order of --help, each with a short description.
COMMANDS = {
    "run": "Measure a study and print its table.",
    "studies": "List the studies, their factors and metrics.",
    "report": "Report on a results folder: a page, tables, verdicts.",
    "compare": "Compare two results folders.",
    "policy": "Make a policy of hostapd.conf or another configuration file.",
    "explain": "Explain a capture: who waited for whom, and why.",
    "measure": "Measure logins and roams on a network of yours with a card.",
    "cost": "Compute packets and time of an EAP-TLS authentication.",
    "model": "Ask a queueing model: predictions, what-ifs, capacity.",
    "status": "Show how far a run has come.",
    "tell": "Send a message to the repetitions that a run is measuring.",
    "export": "Pack a results folder into one archive.",
    "import": "Unpack an archive, or merge it into results that are there.",
    "verify": "Check a results folder or an archive.",
    "prune": "Remove captures of a results folder by choice.",
    "worker": "Lend this machine to runs on a cluster.",
    "lab": "Open a shell on a node of a running testbed.",
    "radio": "Run a command in a machine with emulated radios.",
    "doctor": "Say what this machine can do and what is missing.",
    "uninstall": "Remove the cache, and say which packages are left.",
    "provision": "Build what measuring needs, now.",
    "image": "Build a container image or a Vagrant box to measure with elsewhere.",
    "bench": "Measure the harness itself.",
    "test": "Run the project's tests.",
    "site": "Build the documentation as a static site.",
    "lint": "Check style and types of the project's code.",
    "completion": "Print the shell's completion script.",
}
_HELP = frozenset({"-h", "--help"})
#: Options with which a run renders no policy, or renders none on this machine.
_NOT_HERE = _HELP | {"--dry-run", "--cluster"}
#: Commands that start guests, Ansible or process pools. The live pages of studies do so, too.
_MEASURING = frozenset({"run", "verify", "worker", "lab", "doctor", "provision", "image", "bench",
                        "test"})
#: Modules whose subcommand's name is a Python keyword.
_MODULES = {"import": "import_"}


def _all_commands() -> dict[str, str]:
    """Return all subcommands with their descriptions, including the live pages of studies."""
    import studies  # absent while a box is built, which only runs --version

    return COMMANDS | {page: f"Show a run of {study} on a live page, and steer it."
                       for page, study in studies.live_pages().items() if page not in COMMANDS}


def _page_command(name: str) -> click.Command | None:
    """Return the command for a study's live page, or None if no study has a page of this name."""
    import studies

    study = studies.live_pages().get(name)
    if study is None:
        return None
    from harness.commands import live

    return live.page_command(name, study)


class _LazyGroup(click.Group):
    """A command group that imports a subcommand's module only when needed, for a quick start."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_all_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return _page_command(cmd_name)
        module = importlib.import_module(f"harness.commands.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = module.command
        from harness.commands import study_path

        if cmd_name in study_path.COMMANDS and study_path.OPTION not in command.params:
            command.params.append(study_path.OPTION)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[
            str | None, click.Command | None, list[str]]:
        """Find and import the module of a subcommand.

        Before that, check the limits of this process and set the search path of studies. For `run`,
        also start Ansible in the background, because Ansible takes longest to load.

        Returns:
            Name of the subcommand, the command, and the remaining arguments, as click returns them.
        """
        if not _HELP.intersection(args):
            host_process.require_limits(measures=args[0] in _MEASURING or args[0] not in COMMANDS)
        from harness.commands import study_path

        if args[0] in study_path.COMMANDS or args[0] not in COMMANDS:
            study_path.use_study_path(args[0], args[1:])
        if args[0] == "run" and not _NOT_HERE.intersection(args):
            from harness import ansible_process

            ansible_process.start_ansible_process()
            ctx.call_on_close(ansible_process.end_unused_process)
        resolved = super().resolve_command(ctx, args)
        host_process.raise_when_interrupted()
        return resolved

    def invoke(self, ctx: click.Context) -> object:
        """Run the subcommand. If it raises a usage error, add the command's name to the error."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click's parser does not set the context
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_all_commands().items()))


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option("0.1.0", prog_name="qop")
def qop() -> None:
    """Measure the cost of wireless security, and the protection it gives.

    qop runs real daemons over emulated radios and wires. './qop run' sets up what is missing,
    measures the default study and prints one table. './qop studies' lists the other studies.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Errors that the user can correct are printed on one line.

    Args:
        arguments: Words of the command line, by default those of this process.
    """
    host_process.replace_unencodable()
    try:
        status = qop.main(arguments, prog_name="qop", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - what is not known is raised again
        if _is_interruption(error):
            click.echo("qop: interrupted", err=True)
            return host_process.INTERRUPTED
        return _report_error(error)
    return status if isinstance(status, int) else 0


def _report_error(error: BaseException) -> int:
    """Print a user error or an interruption on one line, and return the exit status.

    Raises any other error again.
    """
    match error:
        case UserError() | ModuleNotFoundError():
            known = error if isinstance(error, UserError) else _missing_package_error(error)
            click.echo(f"qop: {known}", err=True)
            return known.status
        case click.exceptions.Exit():
            return error.exit_code
        case click.ClickException():
            _print_usage_error(error)
            return error.exit_code
        case BrokenPipeError():
            # The reader of the output has closed the pipe, which is not an error of this program.
            host_process.give_up_output()
            sys.stderr.close()
            return 0
    raise error


def _is_interruption(error: BaseException | None) -> bool:
    """Return whether Ctrl-C is the cause of an error.

    An interrupted operation may raise another error than KeyboardInterrupt. Python 3.11 does so
    while it creates a class, and libraries do so while they are imported.
    """
    while error is not None:
        if isinstance(error, click.Abort | KeyboardInterrupt):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _missing_package_error(error: ModuleNotFoundError) -> UserError:
    """Return a UserError that names a missing Python package and how to install it.

    A missing module of this project is a bug, so its error is raised again.
    """
    package = (error.name or "").partition(".")[0]
    if not package or (ROOT / package).exists():
        raise error
    what = "the container image leaves it out, use a checkout" if IN_IMAGE in os.environ else \
        f"remove {sys.prefix} and give the command again, which installs it anew"
    return UserError(f"{package} is not installed here; {what}", status=1)


def _print_usage_error(error: click.ClickException) -> None:
    """Print a usage error on one line: its command, the error and the remedy."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # click puts the help into its text
        error.show()
        return
    text = " ".join(error.format_message().split()).rstrip(".")
    where, advice = "", ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        program, *names = error.ctx.command_path.split()
        if error.ctx.invoked_subcommand and not names:
            names = [error.ctx.invoked_subcommand]
        where = f"{' '.join(names)}: " if names else ""
        text = text[0].lower() + text[1:]
        advice = f"; see './{' '.join([program, *names])} --help'"
    click.echo(f"qop: {where}{text}{advice}", err=True)
