"""Run a user's shell command on a node, optionally on a terminal of the machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Any

from measure.errors import MeasureError
from topologies.builder import Testbed

_PROMPT = r"[{}] \w # "


def run_command(testbed: Testbed, command: Mapping[str, Any]) -> dict[str, Any]:
    """Run `argv` on `node` and return its `status`, and without a `terminal` its `output`."""
    node = command["node"]
    if node not in testbed.network.nodes:
        raise MeasureError("testbed", f"no node {node!r}; there are "
                           f"{', '.join(testbed.network.nodes)}")
    argv = testbed.node_command(node, command["argv"])
    if "terminal" not in command:
        done = subprocess.run(argv, capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)
        return {"status": done.returncode, "output": done.stdout + done.stderr}
    # The worker ignores interrupts; a program on a terminal must not inherit that.
    argv = ["setsid", "-w", "-c", "env", "--default-signal=INT,QUIT", *argv]
    with open(command["terminal"], "r+b", buffering=0) as tty:
        status = subprocess.call(argv, stdin=tty, stdout=tty, stderr=tty, env={
            **os.environ, **_shell_environment(testbed, node),
            "TERM": command.get("term", "vt100")})
    return {"status": status}


def _shell_environment(testbed: Testbed, node: str) -> dict[str, str]:
    """Return a prompt with the node's name, and shell functions that enter the other nodes."""
    environment = {"PS1": _PROMPT.format(node)}
    for name in testbed.network.nodes:
        pid = testbed.node(name).pid
        environment[f"BASH_FUNC_{name}%%"] = (
            f'() {{ if [ $# -gt 0 ]; then mnexec -a {pid} "$@"; else '
            f"PS1='{_PROMPT.format(name)}' mnexec -a {pid} bash --norc -i; fi; }}")
    return environment
