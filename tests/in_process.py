"""The command line runs in this process, for tests that say nothing of processes."""

from __future__ import annotations

import contextlib
import io
import subprocess

from conftest import PATIENCE_S, Qop
from harness import cli


class QopHere(Qop):
    """The command line in a folder of its own, without a process of its own."""

    def __call__(self, *arguments: str,
                 timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """Run it to its end, whose status and output are those that a process would have."""
        out, err = io.StringIO(), io.StringIO()
        with (contextlib.chdir(self.folder), contextlib.redirect_stdout(out),
              contextlib.redirect_stderr(err)):
            status = cli.main(arguments)
        return subprocess.CompletedProcess([*arguments], status, out.getvalue(), err.getvalue())
