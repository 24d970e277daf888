"""A share under way on a worker: the process that measures it, and what has come of it so far.

The process is a group of its own and ends when its standard input does, so that it and its guests
are gone however the worker ends, and within a lease when nobody asks for what it has finished any
more.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from harness.cluster.wire import Finished, Said, Share
from harness.engine.machine import ROOT

#: For this long nobody may ask before a share is given up: its client is gone.
LEASE_S = 60.0
#: What a process may take to end its guests before it is killed, and they with it.
_TIDY_S = 20.0
#: How much of what is finished goes in one answer, the last of them not counted.
_BATCH_BYTES = 16_000_000
_EVERY_S = 0.5


class ShareProcess:
    """A share's process. `place` is where its folder is made; `argv` takes that folder last."""

    def __init__(self, share: Share, place: Path, argv: Collection[str] = (),
                 lease_s: float = LEASE_S) -> None:
        self.serial = share.serial
        self._lease_s = lease_s
        self._asked = time.monotonic()
        self._folder = Path(tempfile.mkdtemp(prefix="share-", dir=place))
        self._changed = threading.Condition()
        self._numbers: list[int] = []
        self._events: list[dict[str, Any]] = []
        self._end: str | None = None
        self._log = self._folder / "share.log"
        program = argv or (sys.executable, "-P", "-m", "harness.cluster.share")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*program, str(self._folder)], cwd=self._folder, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self._reader = threading.Thread(target=self._read, daemon=True, name="share")
        self._reader.start()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the reader tells why it is gone
            pickle.dump(share, self._process.stdin)
            self._process.stdin.flush()

    def ask(self, received: Collection[int], patience_s: float) -> Said:
        """What is new, after forgetting what was `received` of it; waits a while for more."""
        with self._changed:
            self._asked = time.monotonic()
            for number in received:
                shutil.rmtree(self._folder / "outbox" / str(number), ignore_errors=True)
            self._numbers = [number for number in self._numbers if number not in received]
            self._changed.wait_for(lambda: self._numbers or self._end is not None, patience_s)
            finished = self._batch()
            events, self._events = self._events, []
            ended = self._end is not None and len(finished) == len(self._numbers)
            return Said(finished, events, ended, self._end or "" if ended else "",
                        self._logs() if ended else {})

    def close(self) -> None:
        """End the process and all its guests, and remove its folder; idempotent."""
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(_TIDY_S)
        except subprocess.TimeoutExpired:
            # Its guests go with it: the kernel was told so when they were booted.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if threading.current_thread() is not self._reader:
            self._reader.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self) -> None:
        """Note what the process says until it is gone, or until nobody wants to know."""
        assert self._process.stdout is not None
        stream, rest = self._process.stdout, b""
        while True:
            readable, _, _ = select.select([stream], [], [], _EVERY_S)
            if time.monotonic() - self._asked > self._lease_s and self._end is None:
                self._give_up()
            if not readable:
                continue
            data = os.read(stream.fileno(), 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._note(json.loads(line))
        status = self._process.wait()
        self._finish(f"its process ended with status {status}: {self._last_words()}")
        stream.close()

    def _note(self, said: dict[str, Any]) -> None:
        with self._changed:
            if self._end is not None:
                return  # given up: what comes late has no files any more
            if "finished" in said:
                self._numbers.append(said["finished"])
            elif "end" in said:
                self._end = said["end"]
            else:
                self._events.append(said["event"])
            self._changed.notify_all()

    def _finish(self, reason: str) -> None:
        with self._changed:
            if self._end is None:
                self._end = reason
            self._changed.notify_all()

    def _give_up(self) -> None:
        with self._changed:
            self._end = "nobody asked for what it had finished"
            self._numbers = []
        self.close()

    def _batch(self) -> list[Finished]:
        batch, size = [], 0
        for number in self._numbers:
            folder = self._folder / "outbox" / str(number)
            captures, files = ({path.name: path.read_bytes() for path in folder.glob(f"{kind}/*")}
                               for kind in ("captures", "files"))
            reports = folder / "reports.jsonl"
            batch.append(Finished(number, (folder / "record.json").read_text(), captures, files,
                                  reports.read_bytes() if reports.exists() else b""))
            size += sum(map(len, (*captures.values(), *files.values())))
            if size > _BATCH_BYTES:
                break
        return batch

    def _logs(self) -> dict[str, bytes]:
        logs = self._folder / "results" / "logs"
        return {path.relative_to(logs).as_posix(): path.read_bytes()
                for path in sorted(logs.rglob("*")) if path.is_file()}

    def _last_words(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").splitlines()
        except OSError:
            return "no log"
        return " ".join((lines or ["it said nothing"])[-1].split())[:300]
