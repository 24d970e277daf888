"""A run on a cluster, from its plan to its last record: the counterpart of harness.engine.campaign.

The run decides, keeps and counts; workers measure. Each worker that was checked gets a share of the
plan as a task of dask's, and says what it has finished as it goes. What a lost worker has not sent
is measured by another, and so is what one that lied was to measure.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.cluster import measuring, received, spool
from harness.cluster.checking import Checker, ClusterWorker
from harness.cluster.connection import Cluster, WorkerLost, connected
from harness.cluster.received import (
    Ended,
    Happened,
    LieError,
    SentFinding,
    ShareHearing,
    ShareLog,
)
from harness.cluster.shares import LOSSES, Backlog, Share, how_many
from harness.engine import disk_full, recording
from harness.engine.events import EventLog
from harness.engine.plan import Plan, Step
from harness.engine.results import ResultsFolder
from harness.errors import UserError
from measure.record import Record

#: How long to wait for workers when there is none.
WAIT_S = 30.0
_LOOK_S = 1.0
#: A worker that says nothing of its share for so long, and so many times what its longest step
#: takes, has stalled: others measure it.
STALLED_S = 3600.0
_SLOWER = 20.0
#: For so long a share may wait until its worker is done with those of other runs.
TURN_S = 86_400.0


@dataclass
class ClusterCampaign:
    """The state of a run on a cluster; `run` is the whole of it."""

    plan: Plan
    #: A cluster as --cluster names it.
    where: str
    results: ResultsFolder
    #: Takes what happens here and on the workers.
    events: EventLog
    #: Asked when all else is measured: which further steps there are to be.
    more: Callable[[], Sequence[Step]] = tuple
    captures: str = "all"
    #: What measures a share on a worker.
    measurer: measuring.Measurer = measuring.campaign
    #: Workers that may measure, and the shares under way, by a worker's address.
    _workers: dict[str, ClusterWorker] = field(default_factory=dict)
    _busy: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _last_words: str = ""

    async def run(self, steps: Sequence[Step], again: Sequence[Step] = ()) -> None:
        """Measure `steps`, and `again` exclusively; every worker is free again on every way out."""
        self._backlog = Backlog(self.plan, self.captures)
        self._backlog.add(steps, again)
        self._changed = asyncio.Event()
        try:
            async with (connected(self.where, uuid.uuid4().hex) as self._cluster,
                        asyncio.TaskGroup() as self._group):
                checker = Checker(self.plan, self._cluster, self.results.path)
                watching = [self._group.create_task(self._cluster.watch()),
                            self._group.create_task(self._look_for_workers(checker))]
                await self._all(checker)
                await asyncio.gather(*(_tidy(self._cluster, address) for address in self._workers))
                for task in watching:
                    task.cancel()
        except ExceptionGroup as group:
            for_user = group.subgroup(UserError)
            raise (for_user or group).exceptions[0] from None

    async def _all(self, checker: Checker) -> None:
        """Have every worker measure, those that come later too, until there is nothing more."""
        while not self._is_finished():
            self._give_out()
            self._changed.clear()
            try:
                async with asyncio.timeout(WAIT_S):
                    await self._changed.wait()
            except TimeoutError:
                if not self._workers and not checker.is_busy:
                    raise UserError(
                        f"--cluster: no worker is there; {self._last_words}start one on every "
                        "machine with './qop worker' and give the same command again, which goes "
                        "on from here", status=1) from None

    def _is_finished(self) -> bool:
        if self._busy or self._backlog.testbeds():
            return False
        steps = self.more()
        if steps:
            self.events.say("run-extended", more=len(steps))
        self._backlog.add(steps)
        return not steps

    async def _look_for_workers(self, checker: Checker) -> None:
        """Let workers join that pass, at first and later."""
        while True:
            for worker in await checker.newcomers():
                self._workers[worker.address] = worker
                many = "" if worker.processors == 1 else "s"
                if worker.complaint:
                    self._put_aside(worker, worker.complaint)
                else:
                    self.events.say("worker-joined", worker=worker.label,
                                    line=f"{worker.label}: {worker.address}, {worker.processors} "
                                    f"processor{many}")
                self._changed.set()
            await asyncio.sleep(_LOOK_S)

    def _give_out(self) -> None:
        """A share to every worker that has none, the largest first."""
        waiting = len(self._backlog.testbeds())
        everyone = sum(worker.processors for worker in self._workers.values())
        for worker in sorted(self._workers.values(), key=lambda worker: -worker.processors):
            if worker.address not in self._busy and self._backlog.testbeds():
                share = self._backlog.take(how_many(waiting, worker.processors, everyone),
                                           worker.finished)
                self._busy[worker.address] = self._group.create_task(self._serve(worker, share))

    async def _serve(self, worker: ClusterWorker, share: Share) -> None:
        """One share on one worker, to its end or to the worker's; then others may have the rest."""
        hearing = ShareHearing(share)
        reason = await self._heard(worker, hearing)
        left = share.left(hearing.awaited)
        reason = reason or hearing.broken or "its share ended without it"
        for step in self._backlog.hand_back(left, hearing.under_way):
            self._note(recording.unmeasured(
                self.plan, step, f"given up after {LOSSES} workers: {reason}", attempt=LOSSES,
                environment=recording.circumstances(self.plan, step)))
        if left.awaited == share.awaited and not hearing.under_way:
            self._put_aside(worker, reason)  # it cannot even begin
        del self._busy[worker.address]
        self._changed.set()

    async def _heard(self, worker: ClusterWorker, hearing: ShareHearing) -> str:
        """Hear what a worker says of its share; why it was left out, "" if it was not."""
        longest_s = max(self.plan.expected(step.cell).duration_s
                        for step in hearing.share.all_steps)
        now = asyncio.get_running_loop().time
        try:
            async with (asyncio.timeout(TURN_S) as silence, contextlib.aclosing(self._cluster.call(
                    worker.address, measuring.measure, hearing.share, self.measurer,
                    resources={measuring.RESOURCE: 1})) as said):
                async for document in said:
                    silence.reschedule(now() + STALLED_S + _SLOWER * longest_s)
                    self._take(worker, hearing, received.read(document))
        except (WorkerLost, LieError, TimeoutError) as loss:
            reason = f"it lied: {loss}" if isinstance(loss, LieError) else \
                str(loss) or "it says nothing of its share any more"
            self._put_aside(worker, reason)
            return reason
        return ""

    def _put_aside(self, worker: ClusterWorker, reason: str) -> None:
        """Use a worker no more."""
        if self._workers.pop(worker.address, None) is not None:
            self._last_words = f"worker {worker.address} {reason}; "
            self.events.say("worker-left-out", worker=worker.label, reason=reason,
                            line=f"{worker.label} at {worker.address} is left out: {reason}")

    def _take(self, worker: ClusterWorker, hearing: ShareHearing,
              message: received.Message) -> None:
        """What a worker says of its share; kept before the next is heard. Raises LieError."""
        if isinstance(message, SentFinding):
            entry = hearing.record(message)
            environment = {**entry.environment, "worker": worker.label}
            self._note(entry.model_copy(update={"environment": environment}), message)
        elif isinstance(message, Happened):
            event = hearing.event(message.event)
            self.events.say(event.pop("event"), **event, worker=worker.label)
        elif isinstance(message, ShareLog):
            log = hearing.log(message)
            with contextlib.suppress(OSError):  # logs are a help, not a result
                self.results.keep_log(log.path, log.content)
        elif isinstance(message, Ended):
            hearing.broken = received.printable(message.broken)

    def _note(self, entry: Record, finding: SentFinding | None = None) -> None:
        """Keep a record, with what a worker has sent of it, if it was measured at all."""
        with disk_full.reported(self.results.path, f"{entry.name} cannot be kept"):
            if finding is None:
                self.results.keep(entry, None)
            else:
                self.results.keep_received(entry, finding)
        recording.announce(self.plan.study, entry, self.events)


async def _tidy(cluster: Cluster, address: str) -> None:
    """Have a worker's machine remove what it has kept of this run."""
    with contextlib.suppress(WorkerLost):
        async for _ in cluster.call(address, spool.forget_run):
            pass
