"""Action `ansible.legacy.local_script`: a program of a role that prints a line for each change.

Why not ansible.builtin.command: a module is packed, unpacked and imported for it each time, a
quarter of a second of processor time around a program that takes a twentieth.
"""

# ruff: noqa: INP001  # an __init__.py in ansible/ would shadow ansible-core
from __future__ import annotations

import subprocess
from typing import Any

from ansible.errors import AnsibleActionFail  # type: ignore[import-untyped,unused-ignore]
from ansible.plugins.action import ActionBase  # type: ignore[import-untyped,unused-ignore]

ARGUMENTS = {"argv": {"type": "list", "elements": "str", "required": True}}


class ActionModule(ActionBase):  # type: ignore[misc,unused-ignore]  # ansible-core carries no types
    """Run `argv` here; in check mode nothing is run, and nothing is known of changes."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what it printed, by lines; changed if there are any."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        if self._task.check_mode:
            return result | {"skipped": True}
        done = subprocess.run(arguments["argv"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise AnsibleActionFail(done.stderr.strip())
        return result | {"stdout_lines": done.stdout.splitlines(), "changed": bool(done.stdout)}
