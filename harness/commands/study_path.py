"""Let commands use studies from folders outside of qop's checkout: the option `--study-path`.

A study is a folder that says what is measured. `use_study_path` takes a command line, and adds the
folders that this option or QOP_STUDY_PATH names. This happens before click parses the command line,
because the studies decide which options a command has.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

import studies
from harness.errors import UserError
from studies.search_path import find_path_problem

_NAME = "--study-path"
#: Commands that use studies. The live pages of studies do so, too.
COMMANDS = frozenset({"run", "studies", "report", "compare", "status", "export", "import", "verify",
                      "prune", "worker", "lab", "doctor", "provision", "bench", "site"})
#: Shown by --help. Its value is not used: `use_study_path` has read it.
OPTION = click.Option([_NAME], multiple=True, metavar="FOLDER", expose_value=False, help=(
    "Add the studies of a folder outside of the checkout (may be repeated; "
    f"default: {studies.PATH_VARIABLE})."))


def use_study_path(command: str, args: Sequence[str]) -> None:
    """Let qop find studies in the folders of `--study-path` and QOP_STUDY_PATH.

    Raises:
        UserError: A folder cannot be used.
    """
    folders = _find_folders(command, args)
    if problem := find_path_problem(folders):
        raise UserError(problem)
    studies.extend_search_path(folders)


def _find_folders(command: str, args: Sequence[str]) -> list[str]:
    """Return the values of `--study-path` in a command line.

    In `qop lab`, the search ends where the command for the node begins.
    """
    folders, words, is_lab = [], iter(args), command == "lab"
    for text in words:
        name, equals, value = text.partition("=")
        if text == "--" or (is_lab and not name.startswith("--")):
            break
        if name == _NAME:
            folders.append(value if equals else next(words, ""))
        elif is_lab and not equals and name != "--help":  # all other options have a value
            next(words, "")
    return folders
