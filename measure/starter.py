"""Program that starts Python programs on nodes by fork, with all imports done.

`python3 -m measure.starter PROCESS NAME=MODULE:FUNCTION ...` imports the functions and reads JSON
lines, each with a `node`:

- `{"run": NAME, "pid", "config", "log", "at_ns"}` forks a program, whose process is called PROCESS,
  into the network namespace of process `pid`. The program begins at that time of the machine's
  monotonic clock and logs to the file. With `"listens": true` it reads standard input.
- `{"do": "tell", "line"}` sends a line to the program's standard input.
- `{"do": "wait", "for_s"}` answers whether the program has ended by then.
- `{"do": "stop"}` ends the program.

So a guest's scarce memory holds the imports once, and no program's start delays another program.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from topologies import namespaces

#: Lead of the wake-up before a program's start time, in ns: other starts then do not disturb it.
_AWAKE_NS = 10_240_000
_STOP_S = 5.0
# Linux: <linux/prctl.h>. Without timer slack, sleeps end on time and do not wait for other timers.
_PR_SET_TIMERSLACK = 29
_RUN: dict[str, Callable[[Path], Any]] = {}


class Child:
    """A program forked from this process."""

    def __init__(self, command: dict[str, Any]) -> None:
        self._line: int | None = None
        if command.get("listens"):
            heard, self._line = os.pipe()
        else:
            heard = os.open(os.devnull, os.O_RDONLY)
        self.pid = os.fork()
        if self.pid == 0:
            if self._line is not None:
                os.close(self._line)
            _run_child(command, heard)
        os.close(heard)
        self.descriptor = os.pidfd_open(self.pid)

    def send_line(self, line: str) -> bool:
        """Send a line to the program and return whether the program listens."""
        if self._line is None:
            return False
        try:
            os.write(self._line, line.encode() + b"\n")
        except BrokenPipeError:
            return False
        return True

    def wait_ended(self, for_s: float) -> bool:
        """Return whether the program ends within `for_s` seconds."""
        return bool(select.select([self.descriptor], [], [], for_s)[0])

    def stop(self) -> int:
        """End the program, if it runs, and return its exit status."""
        if not self.wait_ended(0):
            os.kill(self.pid, signal.SIGTERM)
            if not self.wait_ended(_STOP_S):
                os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        if self._line is not None:
            os.close(self._line)
        return os.waitstatus_to_exitcode(status)


def _run_child(command: dict[str, Any], heard: int) -> None:
    """Run the forked process until its end."""
    status, log, at_ns = 1, command["log"], command["at_ns"]
    try:
        Path("/proc/self/comm").write_text(sys.argv[1])
        namespaces.enter_namespaces(command["pid"], "net")
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for source, target in ((heard, 0), (said, 1), (said, 2)):
            os.dup2(source, target)
        for moment_ns in (at_ns - _AWAKE_NS, at_ns):
            time.sleep(max(0, moment_ns - time.monotonic_ns()) / 1e9)
        _RUN[command["run"]](Path(command["config"]))
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def main() -> None:
    """Answer commands until the input ends."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    for argument in sys.argv[2:]:
        name, _, place = argument.partition("=")
        module, _, function = place.partition(":")
        _RUN[name] = getattr(importlib.import_module(module), function)
    # Otherwise each fork would copy all memory at its first garbage collection.
    gc.freeze()
    children: dict[str, Child] = {}
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        answer: dict[str, Any] = {}
        if "run" in command:
            children[command["node"]] = Child(command)
        elif command["do"] == "wait":
            answer["ended"] = children[command["node"]].wait_ended(command["for_s"])
        elif command["do"] == "tell":
            answer["told"] = children[command["node"]].send_line(command["line"])
        else:
            answer["status"] = children.pop(command["node"]).stop()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for child in children.values():
        child.stop()


if __name__ == "__main__":
    main()
