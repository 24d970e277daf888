"""A run on a cluster, from its plan to its last record: the counterpart of harness.engine.campaign.

The run decides, keeps and counts; workers measure. Each worker that was checked gets a share of the
plan as a task of dask's, and says what it has finished as it goes. What a lost worker has not sent
is measured by another, and so is what one that lied was to measure.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.cluster import measuring, received, spool
from harness.cluster.checking import Checker, ClusterWorker
from harness.cluster.connection import WorkerLost, connected
from harness.cluster.measuring import Share
from harness.cluster.received import (
    Ended,
    Happened,
    LieError,
    SentFinding,
    ShareHearing,
    ShareLog,
)
from harness.cluster.shares import LOSSES, Shares, how_many
from harness.engine import contention, disk_full, recording
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
#: What a worker may take to end its guests when a run is stopped.
_DISMISS_S = 30.0


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
    _run: str = field(default_factory=lambda: uuid.uuid4().hex)
    _last_words: str = ""
    #: Steps that workers have begun and not finished, by the worker's label.
    _running: dict[str, set[str]] = field(default_factory=dict)

    async def run(self, steps: Sequence[Step], again: Sequence[Step] = ()) -> None:
        """Measure `steps`, and `again` exclusively; every worker is free again on every way out."""
        self._shares = Shares(self.plan)
        self._shares.add(steps, again)
        self._changed = asyncio.Event()
        self._busy: dict[str, asyncio.Task[None]] = {}
        try:
            async with connected(self.where, self._run) as self.cluster:
                checker = Checker(self.plan, self.cluster, self.results.path, self._run)
                self._workers = await checker.first(WAIT_S)
                for worker in self._workers.values():
                    self._welcome(worker)
                async with asyncio.TaskGroup() as self._group:
                    await self._all(checker)
                await asyncio.gather(*map(self._tidy, self._workers))
        except ExceptionGroup as group:
            for_user = group.subgroup(UserError)
            raise (for_user or group).exceptions[0] from None

    async def _all(self, checker: Checker) -> None:
        """Have every worker measure, those that come later too, until there is nothing more."""
        lonely_since: float | None = None
        while not self._is_finished():
            for worker in await checker.newcomers():
                self._workers[worker.address] = worker
                self._welcome(worker)
            self._give_out()
            now = asyncio.get_running_loop().time()
            lonely_since = None if self._workers else lonely_since or now
            if lonely_since is not None and now - lonely_since > WAIT_S:
                raise UserError(f"--cluster: no worker is left; {self._last_words} start one "
                                "with './qop worker' and give the same command again, which goes "
                                "on from here", status=1)
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._changed.wait()

    def _is_finished(self) -> bool:
        if not self._shares.is_finished:
            return False
        steps = self.more()
        if steps:
            self.events.say("run-extended", more=len(steps))
        self._shares.add(steps)
        return not steps

    def _welcome(self, worker: ClusterWorker) -> None:
        many = "" if worker.processors == 1 else "s"
        self.events.say("worker-joined", worker=worker.label,
                        line=f"{worker.label}: {worker.address}, {worker.processors} "
                        f"processor{many}")

    def _give_out(self) -> None:
        """A share to every worker that has none, the largest first."""
        waiting = len(self._shares.testbeds())
        everyone = sum(worker.processors for worker in self._workers.values())
        for worker in sorted(self._workers.values(), key=lambda worker: -worker.processors):
            if worker.address in self._busy:
                continue
            plain, again = self._shares.take(how_many(waiting, worker.processors, everyone),
                                             worker.finished)
            if plain or again:
                share = Share(self._run, uuid.uuid4().hex, self.plan, plain, again, self.captures)
                self._busy[worker.address] = self._group.create_task(self._serve(worker, share))

    async def _serve(self, worker: ClusterWorker, share: Share) -> None:
        """One share on one worker, to its end or to the worker's; then others may have the rest."""
        begun = self._running[worker.label] = set()
        heard = _Heard(ShareHearing(share), asyncio.timeout(TURN_S))
        reason = ""
        try:
            async with heard.until:
                await self.cluster.call(
                    worker.address, measuring.measure, share, self.measurer, serial=share.serial,
                    take=functools.partial(self._take, worker, heard),
                    resources={measuring.RESOURCE: 1})
            await self.cluster.call(worker.address, spool.forget, share.run, share.serial,
                                    serial=share.serial)
        except (WorkerLost, LieError, TimeoutError) as loss:
            reason = f"it lied: {loss}" if isinstance(loss, LieError) else \
                str(loss) or "it says nothing of its share any more"
            self._put_aside(worker, reason)
        except BaseException:
            await asyncio.shield(self._dismiss(worker, share))
            raise
        finally:
            del self._running[worker.label]
            del self._busy[worker.address]
            self._changed.set()
        reason = reason or heard.broken or "its share ended without it"
        if not self._hand_back(share, begun, reason) and not heard.kept:
            self._put_aside(worker, reason)  # it cannot even begin

    async def _tidy(self, address: str) -> None:
        """Have a worker's machine remove what killed workers left of this run there."""
        with contextlib.suppress(WorkerLost):
            await self.cluster.call(address, spool.forget_run, self._run, serial=uuid.uuid4().hex)

    async def _dismiss(self, worker: ClusterWorker, share: Share) -> None:
        """Have a worker end what it measures; if that fails, dask tells it that nobody asks."""
        with contextlib.suppress(WorkerLost, UserError, TimeoutError):
            async with asyncio.timeout(_DISMISS_S):
                await self.cluster.call(worker.address, measuring.stop, share.serial,
                                        serial=share.serial)

    def _put_aside(self, worker: ClusterWorker, reason: str) -> None:
        """Use a worker no more."""
        if self._workers.pop(worker.address, None) is not None:
            self._last_words = f"{worker.label} at {worker.address}: {reason};"
            self.events.say("worker-left-out", worker=worker.label, reason=reason,
                            line=f"{worker.label} is left out: {reason}")

    def _take(self, worker: ClusterWorker, heard: _Heard, document: Mapping[str, Any]) -> None:
        """What a worker says of its share; kept before the next is heard. Raises LieError."""
        heard.be_patient()
        message = received.read(document)
        if isinstance(message, SentFinding):
            self._keep(message, heard.of.record(message), worker)
            heard.kept += 1
        elif isinstance(message, Happened):
            self._hear(heard.of.event(message.event), worker)
        elif isinstance(message, ShareLog):
            log = heard.of.log(message)
            with contextlib.suppress(OSError):  # logs are a help, not a result
                self.results.keep_log(log.path, log.content)
        elif isinstance(message, Ended):
            heard.broken = received.printable(message.broken)

    def _hear(self, event: Mapping[str, Any], worker: ClusterWorker) -> None:
        """What happened on a worker happened in this run."""
        fields = {name: value for name, value in event.items() if name != "event"}
        self.events.say(event["event"], **fields, worker=worker.label)
        if event["event"] == "repetition-started":
            self._running[worker.label].add(event["name"])
        elif event["event"] == "repetition-measured":
            self._running[worker.label].discard(event["name"])

    def _hand_back(self, share: Share, begun: Collection[str], reason: str) -> bool:
        """Have others measure what a share lacks, and record what was tried too often.

        Whether all is well: nothing is lacking, or what is was at least begun.
        """
        left = [step.name for step in share.all_steps
                if self._shares.step(step.name) is not None]
        for step in self._shares.hand_back(left, begun):
            entry = recording.unmeasured(
                self.plan, step, f"given up after {LOSSES} workers: {reason}", attempt=LOSSES,
                environment=recording.circumstances(self.plan, step))
            self._note(entry)
        return not left or any(name in begun for name in left)

    def _keep(self, finding: SentFinding, entry: Record, worker: ClusterWorker) -> None:
        """Keep a finished repetition. Raises LieError if it was finished before."""
        if not self._shares.awaits(entry.name, exclusive=bool(entry.environment.get("alone"))):
            raise LieError(f"the record {entry.name} a second time")
        environment = {**entry.environment, "worker": worker.label}
        self._note(entry.model_copy(update={"environment": environment}), finding)
        self._running[worker.label].discard(entry.name)
        self._shares.finish(entry.name, flagged=contention.is_due_again(environment))

    def _note(self, entry: Record, finding: SentFinding | None = None) -> None:
        """Keep a record, with what a worker has sent of it, if it was measured at all."""
        with disk_full.reported(self.results.path, f"{entry.name} cannot be kept"):
            if finding is None:
                self.results.keep(entry, None)
            else:
                self.results.keep_received(entry, finding)
        recording.announce(self.plan.study, entry, self.events)


@dataclass
class _Heard:
    """What has come of a share: how many findings were kept, and why it broke, "" if it did not."""

    of: ShareHearing
    #: When the worker has said nothing for too long.
    until: asyncio.Timeout
    kept: int = 0
    broken: str = ""

    @functools.cached_property
    def patience_s(self) -> float:
        """For how long a worker may have nothing to say: its longest step takes as long."""
        share = self.of.share
        longest_s = max(share.plan.expected(step.cell).duration_s for step in share.all_steps)
        return STALLED_S + _SLOWER * longest_s

    def be_patient(self) -> None:
        """It said something."""
        self.until.reschedule(asyncio.get_running_loop().time() + self.patience_s)
