"""Measure a part of a run on a worker of a cluster, and send the results to the run.

A worker is a machine that measures for runs on other machines. The run starts the functions here on
the worker as dask tasks. `send_identity` describes the worker's code, disk images and processors.
`measure_share` measures the repetitions of one share (part of the run), like a local run, in a
temporary results folder, the spool. It sends each finished repetition, with its record and files,
as an ordered stream of bytes (dask events). If a worker was killed, a restarted worker on the same
machine sends what the killed one had finished (`find_leftovers`).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import shutil
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from distributed import get_worker

from guest.cache import cache_root
from harness.cluster import security
from harness.cluster.shares import Share
from harness.engine import provenance, setup
from harness.engine.campaign import Campaign
from harness.engine.events import Event, EventLog
from harness.engine.plan import Plan
from harness.engine.results import ResultsFolder
from harness.errors import UserError
from harness.portable import folder as portable_folder
from measure.records.record import Record
from studies import records as stored

# --- Spool: results folders of workers, which keep finished steps until the run has them ---
# Dask stores what a task returns, but loses it with the worker. `SPOOL/RUN/WORKER` remains. If no
# process holds the lock of such a folder, its worker was killed or has sent everything. The next
# worker on this machine that measures for the same run sends what is needed of it.

#: Age in seconds after which folders that no run has used are removed.
_SPOOL_LIFETIME_S = 86_400.0


def spool_path(run: str, worker: str = "") -> Path:
    """Return the temporary results folder of a worker.

    Without `worker`, return the folder with the temporary results folders of all workers of a run.
    """
    return cache_root() / "cluster" / "spool" / run / worker


@contextlib.contextmanager
def open_spool(run: str, worker: str, captures: str) -> Iterator[ResultsFolder]:
    """Open a worker's temporary results folder for writing inside the context.

    Raises:
        UserError: The folder cannot be created, or another process writes there.
    """
    with contextlib.ExitStack() as stack:
        with _lock_spool():
            results = stack.enter_context(ResultsFolder(spool_path(run, worker), captures))
        yield results


def find_leftovers(run: str) -> Iterator[tuple[ResultsFolder, str]]:
    """Yield the repetitions that ended workers on this machine had finished for a run.

    Yields:
        The temporary results folder, and the name of the repetition.
    """
    for folder in map(ResultsFolder, _idle_folders(spool_path(run))):
        for path in sorted(folder.records.glob("*.json")):
            yield folder, path.stem


def remove_spool(run: str, worker: str) -> None:
    """Delete the folder in which a worker stored results until its run received them."""
    with _lock_spool():
        shutil.rmtree(spool_path(run, worker), ignore_errors=True)
        with contextlib.suppress(OSError):  # the folder did not exist, or another worker uses it
            spool_path(run).rmdir()


def forget_run(run: str, _: str = "") -> None:
    """Delete the temporary folders of a run's ended workers, and all that are too old."""
    for there in spool_path("").glob("*"):
        # The folder may contain one that is in use.
        with _lock_spool(), contextlib.suppress(OSError):
            is_old = there.stat().st_mtime < time.time() - _SPOOL_LIFETIME_S
            for folder in _idle_folders(there) if is_old or there.name == run else []:
                shutil.rmtree(folder, ignore_errors=True)
            there.rmdir()


@contextlib.contextmanager
def _lock_spool() -> Iterator[None]:
    """Keep other workers on this machine from creating or deleting temporary folders.

    A worker creates a folder in several steps: its parent, the folder, its lock. Without this lock,
    another worker could delete the parent or the folder between two steps.
    """
    lock = cache_root() / "cluster" / "spool.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _idle_folders(run: Path) -> list[Path]:
    return [folder for folder in sorted(run.glob("*"))
            if not portable_folder.is_folder_locked(folder)]


# --- Tasks ---

#: Dask resource that a share takes; each worker has one.
MEASURING_RESOURCE = "machine"
#: Largest size in bytes of the logs of a share that are sent, the newest first.
LOG_BYTES = 8 << 20
_LOOK_S = 0.5


@dataclass(frozen=True)
class WorkerIdentity:
    """A worker's code, guest images and processors.

    `code` is a digest. `images` are image keys by the packages in the image, "" for none.
    `description` is what a results folder stores as provenance. `finished` are repetitions that an
    earlier worker left on the machine's disk.
    """

    code: str
    images: Mapping[str, str]
    processors: int = 1
    description: Mapping[str, Any] = field(default_factory=dict)
    finished: Collection[str] = ()


#: Measures a share in a results folder; gets the event log and a callback for each stored record.
Measurer = Callable[[Share, ResultsFolder, EventLog, Callable[[Record], None]], Awaitable[None]]


async def run_campaign(share: Share, results: ResultsFolder, events: EventLog,
                       on_record: Callable[[Record], None]) -> None:
    """Measure a worker's repetitions like a local run, with the existing guest images.

    Args:
        share: The repetitions to measure.
        results: The results folder, open for writing.
        events: Log for the events of the share.
        on_record: Called with each record once it is stored.
    """
    machine = await asyncio.to_thread(setup.make_machine_for_plan, share.plan, builds=False)
    await Campaign(share.plan, machine, results, events, kept=on_record).run(*share.split_steps())


class _MessageSender:
    """A sender of the worker's messages about one task, in order."""

    def __init__(self, serial: str) -> None:
        self._say = functools.partial(get_worker().log_event, f"{security.TOPIC}{serial}")

    def __call__(self, kind: str, **content: Any) -> None:
        self._say({"data": security.pack_message({"kind": kind, **content})})

    def send_event(self, event: Event) -> None:
        """Send an event of the measurement to the run.

        Events about records are not sent, because the run creates its own event for each record.
        """
        if event["event"] not in ("repetition-recorded", "repetition-flagged"):
            self("event", event=dict(event))

    def send_finding(self, results: ResultsFolder, entry: Record) -> None:
        """Send a finished repetition: its record as JSON, and its files as bytes by name."""
        captures, files = (
            {path.name: path.read_bytes() for path in sorted((folder / entry.name).glob("*"))}
            for folder in (results.captures, results.files))
        reports = results.reports / f"{entry.name}.jsonl"
        report_lines = reports.read_bytes() if reports.exists() else b""
        self("finding", name=entry.name, reports=report_lines, captures=captures, files=files,
             record=(results.records / f"{entry.name}.json").read_text())


def describe_machine(plan: Plan) -> WorkerIdentity:
    """Return the code, images and processors of this worker."""
    images = setup.list_built_image_keys(plan)
    code = provenance.hash_code(plan.study.id)
    if not setup.can_measure(plan, images):
        return WorkerIdentity(code, images)
    machine = setup.make_machine_for_plan(plan, builds=False)
    return WorkerIdentity(code, images, len(machine.processors),
                          provenance.describe_provenance(plan, machine))


def send_identity(run: str, serial: str, plan: Plan) -> None:
    """Send the run a description of this worker, and the repetitions finished on its machine."""
    finished = tuple(sorted({name for _, name in find_leftovers(run)}))
    identity = replace(describe_machine(plan), finished=finished)
    _MessageSender(serial)("identity", **asdict(identity))


async def measure_share(run: str, serial: str, share: Share,
                        measurer: Measurer = run_campaign) -> None:
    """Measure repetitions and send messages about them.

    The last message says how it ended.

    The measurement also ends if the run gave it up or is gone, which dask shows by the task's
    state.
    """
    worker = get_worker()
    say = _MessageSender(serial)
    remove_spool(run,
                 worker.id)  # the run has all of the last share, or it would send no new one
    task = asyncio.create_task(_measure_remaining(run, share, measurer, say))
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK_S))[0]:
            state = worker.state.tasks.get(f"{measure_share.__name__}-{serial}")
            if state is None or state.state != "executing":
                break
    finally:  # dask cancels this when the worker closes
        task.cancel()  # only once: a second cancellation would interrupt the clean-up
        await asyncio.wait({task})
        say("end", broken="stopped" if task.cancelled() else _describe_failure(task.exception()),
            logs=_collect_logs(spool_path(run, worker.id)))
        if task.cancelled():
            remove_spool(run, worker.id)


def _describe_failure(error: BaseException | None) -> str:
    if error is None:
        return ""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def _collect_logs(folder: Path) -> dict[str, bytes]:
    """Return the newest log files of a results folder up to LOG_BYTES, by path below logs/."""
    logs = ResultsFolder(folder).logs
    left = LOG_BYTES
    sent: dict[str, bytes] = {}
    paths = (path for path in logs.rglob("*") if path.is_file())
    for path in sorted(paths, key=lambda path: -path.stat().st_mtime):
        sent[path.relative_to(logs).as_posix()] = data = path.read_bytes()[-left:] if left else b""
        left -= len(data)
    return sent


async def _measure_remaining(run: str, share: Share, measurer: Measurer,
                             say: _MessageSender) -> None:
    """Send the results that a killed worker left, then measure the other repetitions."""
    for folder, name in find_leftovers(run):
        if name in share.steps and share.is_expected(
                entry := stored.read_record(folder.records / f"{name}.json")):
            say.send_finding(folder, entry)
            share.mark_received(entry)
    with open_spool(run, get_worker().id, share.captures) as results:
        await measurer(share, results, EventLog(results.path, say.send_event),
                       functools.partial(say.send_finding, results))
