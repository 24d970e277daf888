"""Somebody who does what the documentation says: types its commands, saves its files."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import KEEP_FLAGGED, PATIENCE_S, Qop
from doc_commands import PROJECT, Block, Command


class Reader:
    """Somebody who types what a page says, into a checkout of their own."""

    def __init__(self, folder: Path, project: Path = PROJECT) -> None:
        self.folder = folder / "qop"
        self.here = self.folder
        self._state = folder / "here"
        for name in _files(project):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(project / name, self.folder / name)

    def start(self, text: str) -> tuple[subprocess.Popen[bytes], int]:
        """Begin a command on a terminal of its own; the process, and that terminal."""
        ours, theirs = pty.openpty()
        script = f'trap \'pwd >"$0"\' EXIT\n{text}\n'
        process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", script, str(self._state)], cwd=self.here,
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env=_environment())
        os.close(theirs)
        return process, ours

    def type(self, command: Command, then: bytes = b"", timeout_s: float = PATIENCE_S) -> None:
        """Run a command to its end, `then` answering its first prompt; it does as the page says."""
        process, terminal = self.start(command.text)
        alarm = threading.Timer(timeout_s, os.killpg, (process.pid, signal.SIGKILL))
        alarm.start()
        said = bytearray()
        try:
            while piece := _read(terminal):
                said += piece
                if then and re.search(rb"\] \S+ # $", said):
                    os.write(terminal, then)
                    then = b""
            status = process.wait()
        finally:
            alarm.cancel()
            os.close(terminal)
        output = said.decode(errors="replace")
        assert status == command.status, f"{command}: exit status {status}\n{output}"
        assert not (missing := command.missing(output)), (
            f"{command}: the page shows\n{missing}\nbut it printed\n{output}")
        self.here = Path(self._state.read_text().rstrip("\n"))

    @contextmanager
    def staying(self, command: Command, timeout_s: float = PATIENCE_S) -> Iterator[None]:
        """A command that stays on; from when it has printed what the page shows, until Ctrl-C."""
        process, terminal = self.start(command.text)
        alarm = threading.Timer(timeout_s, os.killpg, (process.pid, signal.SIGKILL))
        alarm.start()
        said = bytearray()
        while command.missing(said.decode(errors="replace")):
            piece = _read(terminal)
            assert piece, f"{command}: it ended: {said.decode(errors='replace')}"
            said += piece
        try:
            yield
            os.killpg(process.pid, signal.SIGINT)
            process.wait()
        finally:
            alarm.cancel()
            os.close(terminal)

    def save(self, block: Block) -> None:
        """Write a block's text to the file that it names."""
        assert block.file is not None
        path = self.here / block.file
        path.parent.mkdir(exist_ok=True)
        path.write_text(block.text)

    def left_over(self) -> list[str]:
        """Processes that still work here."""
        return Qop(self.folder).left_over()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so at the end of a terminal
        return b""


def _files(project: Path) -> list[str]:
    """What a clone would hold, with the changes that are not committed yet."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=project, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [name for name in listed.stdout.split("\0") if (project / name).is_file()]
    found = [path.relative_to(project) for path in project.rglob("*") if path.is_file()]
    return [str(path) for path in found if not {"results", "__pycache__"} & set(path.parts)]


def _environment() -> dict[str, str]:
    """A user's, not that of these tests; on a terminal without abilities, of 80 columns."""
    ours = ("PYTEST", "PYTHON", "VIRTUAL_ENV", "COLUMNS", "LINES")
    theirs = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**KEEP_FLAGGED, **theirs, "TERM": "dumb"}
