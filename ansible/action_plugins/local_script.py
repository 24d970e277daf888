"""Run a program of an Ansible role in the Ansible process: the action `local_script`.

Roles that make a policy's keys use it in place of ansible.builtin.command. The argument `argv` is
the command line. The program prints a line for each change that it makes, so the task has changed
if there is any output.

Ansible's own action, ansible.builtin.command, packs, unpacks and imports a module for each call.
That takes a quarter of a second of processor time, around a program that takes a twentieth. Here a
Python program runs in a fork of the Ansible process, which has already imported most of what it
needs.
"""

# ruff: noqa: INP001  # an __init__.py in ansible/ would shadow ansible-core
from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from ansible.errors import AnsibleActionFail  # type: ignore[import-untyped,unused-ignore]
from ansible.plugins.action import ActionBase  # type: ignore[import-untyped,unused-ignore]

ARGUMENTS = {"argv": {"type": "list", "elements": "str", "required": True}}


class ActionModule(ActionBase):  # type: ignore[misc,unused-ignore]  # ansible-core carries no types
    """The Ansible action that runs a program. In check mode it runs nothing."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the program and return its output lines.

        The result is "changed" for Ansible if the program printed a line.
        """
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        if self._task.check_mode:
            return result | {"skipped": True}
        done = run_program(arguments["argv"])
        if done.returncode:
            raise AnsibleActionFail(done.stderr.strip())
        return result | {"stdout_lines": done.stdout.splitlines(), "changed": bool(done.stdout)}


def run_program(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. A Python program runs in a fork of this process."""
    plain = [argument.encode().decode() for argument in argv]  # not Ansible's own strings
    if plain[0] != sys.executable:
        return subprocess.run(plain, capture_output=True, text=True, check=False)
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as complained:
        copy = multiprocessing.get_context("fork").Process(
            target=_run_python, args=(plain[1:], output.fileno(), complained.fileno()))
        copy.start()
        copy.join()
        for file in (output, complained):
            file.seek(0)
        return subprocess.CompletedProcess(plain, copy.exitcode or 0, output.read(),
                                           complained.read())


def _run_python(argv: Sequence[str], stdout: int, stderr: int) -> None:
    """Run a Python program in the forked process, with its output in these files."""
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    sys.argv = list(argv)
    runpy.run_path(argv[0], run_name="__main__")
