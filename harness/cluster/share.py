"""The process that measures a share: a campaign of its own, whose records go to the worker.

`python -m harness.cluster.share FOLDER`: the share comes pickled on standard input, whose end
means stop; JSON lines on standard output tell what is finished (`finished`), what happens
(`event`), and how it ended (`end`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.cluster.wire import Share
from harness.engine import setup
from harness.engine.campaign import Campaign
from harness.engine.events import Event, EventLog
from harness.engine.results import ResultsFolder
from harness.errors import UserError
from measure.record import Record

Say = Callable[..., None]


class RepetitionOutbox:
    """Finished repetitions, each in a folder of its own until the worker has sent it."""

    def __init__(self, folder: Path, results: ResultsFolder, say: Say) -> None:
        self._folder = folder
        self._results = results
        self._say = say
        self._number = 0

    def put(self, entry: Record) -> None:
        """Take a repetition out of the results folder, where its next try may come, and tell."""
        self._number += 1
        target = self._folder / str(self._number)
        target.mkdir(parents=True)
        (self._results.records / f"{entry.name}.json").rename(target / "record.json")
        for place, name in ((self._results.captures / entry.name, "captures"),
                            (self._results.files / entry.name, "files"),
                            (self._results.reports / f"{entry.name}.jsonl", "reports.jsonl")):
            with contextlib.suppress(FileNotFoundError):  # not every repetition has them all
                place.rename(target / name)
        self._say(finished=self._number)


async def measure(share: Share, folder: Path, say: Say) -> None:
    """Measure a share; cancelled, it ends everything that it started."""
    with ResultsFolder(folder / "results", share.captures) as results:
        outbox = RepetitionOutbox(folder / "outbox", results, say)
        machine = setup.machine(share.plan)

        def tell(event: Event) -> None:
            # Records are sent as files; what the client makes of them is its own event.
            if event["event"] not in ("repetition-recorded", "repetition-flagged"):
                say(event=dict(event))

        campaign = Campaign(share.plan, machine, results, EventLog(results.path, tell),
                            kept=outbox.put)
        await campaign.run(share.steps, share.again)


async def _until_told_to_stop(share: Share, folder: Path, say: Say) -> None:
    """Measure until the end, SIGTERM, or the end of standard input, whichever comes first."""
    task = asyncio.create_task(measure(share, folder, say))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)

    def heard() -> None:
        if not os.read(0, 1 << 16):
            loop.remove_reader(0)
            task.cancel()

    loop.add_reader(0, heard)
    await task


def main() -> int:
    """Measure the share on standard input; the exit status."""
    # What libraries print must not come between the lines.
    line_out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(**what: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # the end of standard input tells it, too
            line_out.write(json.dumps(what) + "\n")
            line_out.flush()

    share: Share = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the worker that started this
    try:
        asyncio.run(_until_told_to_stop(share, Path(sys.argv[1]), say))
    except UserError as error:
        say(end=str(error))
        return 1
    except asyncio.CancelledError:
        say(end="stopped")
        return 1
    say(end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
