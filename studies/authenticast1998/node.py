"""Program on a node: starts the protocol's programs in a moment, because it has them loaded.

`python3 -m studies.authenticast1998.node` takes JSON lines: `{"run": "serve" | "receive", "config",
"log"}` forks one that writes its events to the log, and answers once it is ready; `{"do": "wait",
"for_s"}` answers when it has ended, or was ended because it did not; `{"do": "stop"}` ends it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from protocols.authenticast import receive, serve

_READY = b'"event": "ready"'
_LOOK_S = 0.001
_READY_S = 30.0
_RUN = {"serve": serve.run, "receive": receive.run}


class Child:
    """A program of the protocol's, forked from this one."""

    def __init__(self, does: str, config: Path, log: Path) -> None:
        self.log = log
        log.touch()
        self.pid = os.fork()
        if self.pid == 0:
            _become(does, config, log)
        self.descriptor = os.pidfd_open(self.pid)

    def wait_ready(self) -> bool:
        """Whether it said so before it ended."""
        for _ in range(int(_READY_S / _LOOK_S)):
            if _READY in self.log.read_bytes():
                return True
            if self.wait(_LOOK_S):
                return False
        return False

    def wait(self, for_s: float) -> bool:
        """Whether it has ended by then."""
        return bool(select.select([self.descriptor], [], [], for_s)[0])

    def end(self) -> int:
        """End it, if it has not; its status."""
        if not self.wait(0):
            os.kill(self.pid, signal.SIGTERM)
            if not self.wait(5):
                os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(status)


def _become(does: str, config: Path, log: Path) -> None:
    """The forked process from here to its end."""
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        said = os.open(log, os.O_WRONLY | os.O_APPEND)
        for source, target in ((nothing, 0), (said, 1), (said, 2)):
            os.dup2(source, target)
        _RUN[does](config)
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def main() -> None:
    """Answer commands until there are no more."""
    child: Child | None = None
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        answer: dict[str, Any] = {}
        if "run" in command:
            child = Child(command["run"], Path(command["config"]), Path(command["log"]))
            answer["ready"] = child.wait_ready()
        elif command["do"] == "wait" and child is not None:
            answer["ended"] = child.wait(command["for_s"])
        elif child is not None:
            answer["status"] = child.end()
            child = None
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    if child is not None:
        child.end()


if __name__ == "__main__":
    main()
