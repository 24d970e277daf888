"""A run on a cluster, from its plan to its last record: the counterpart of harness.engine.campaign.

The client decides, keeps and counts; workers measure. Each worker that was checked gets a share of
the plan and is asked for what it has finished until the share ends. What a lost worker has not sent
is measured by another.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from harness.cluster import member
from harness.cluster.checking import Checker, ClusterWorker
from harness.cluster.connection import WorkerFailed, WorkerLost, connected
from harness.cluster.session import ShareProcess
from harness.cluster.shares import LOSSES, Shares, how_many
from harness.cluster.wire import Finished, Said, Share
from harness.engine import contention, disk_full, recording
from harness.engine.events import EventLog
from harness.engine.plan import Plan, Step
from harness.engine.results import ResultsFolder
from harness.errors import UserError
from measure.record import Record
from studies import records as stored

#: How long a worker thinks about an answer when it has nothing new.
_PATIENCE_S = 1.0
#: How long to wait for workers when there is none.
WAIT_S = 30.0
_LOOK_S = 1.0


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
    #: What begins a share on a worker.
    start: member.Start = ShareProcess
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
            async with connected(self.where) as self.cluster:
                checker = Checker(self.plan, self.cluster, self.results.path)
                self._workers = await checker.first(WAIT_S)
                for worker in self._workers.values():
                    self._welcome(worker)
                async with asyncio.TaskGroup() as self._group:
                    await self._all(checker)
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
            plain, again = self._shares.take(how_many(waiting, worker.processors, everyone))
            if plain or again:
                share = Share(uuid.uuid4().hex, self.plan, plain, again, self.captures)
                self._busy[worker.address] = self._group.create_task(self._serve(worker, share))

    async def _serve(self, worker: ClusterWorker, share: Share) -> None:
        """One share on one worker, to its end or to the worker's; then others may have the rest."""
        said, progress, reason = Said(), 0, ""
        begun = self._running[worker.label] = set()
        try:
            await self.cluster.call(worker.address, member.begin, share, self.start)
            serials: list[int] = []
            while not said.ended:
                said = await self.cluster.call(worker.address, member.attend, share.serial, serials,
                                               _PATIENCE_S)
                self._hear(said, worker)
                serials = [self._keep(finished, worker) for finished in said.finished]
                progress += len(serials)
            self._keep_logs(said.logs)
            reason = said.broken
            await self.cluster.call(worker.address, member.leave, share.serial)
        except (WorkerLost, WorkerFailed) as loss:
            reason = str(loss)
            self._put_aside(worker, reason)
        except BaseException:
            await asyncio.shield(self._dismiss(worker, share))
            raise
        finally:
            del self._running[worker.label]
            del self._busy[worker.address]
            self._changed.set()
        reason = reason or "its share ended without it"
        if not self._hand_back(share, begun, reason) and not progress:
            self._put_aside(worker, reason)  # it cannot even begin

    async def _dismiss(self, worker: ClusterWorker, share: Share) -> None:
        """Have a worker end what it measures; if that fails, it does so by itself in a minute."""
        with contextlib.suppress(WorkerLost, WorkerFailed, UserError):
            await self.cluster.call(worker.address, member.leave, share.serial)

    def _put_aside(self, worker: ClusterWorker, reason: str) -> None:
        """Use a worker no more."""
        if self._workers.pop(worker.address, None) is not None:
            self._last_words = f"{worker.label} at {worker.address}: {reason};"
            self.events.say("worker-left-out", worker=worker.label, reason=reason,
                            line=f"{worker.label} is left out: {reason}")

    def _hear(self, said: Said, worker: ClusterWorker) -> None:
        """What happened on a worker happened in this run."""
        for event in said.events:
            fields = {name: value for name, value in event.items() if name not in ("at", "event")}
            self.events.say(event["event"], **fields, worker=worker.label)
            if event["event"] == "repetition-started":
                self._running[worker.label].add(event["name"])
            elif event["event"] == "repetition-measured":
                self._running[worker.label].discard(event["name"])

    def _hand_back(self, share: Share, begun: Collection[str], reason: str) -> bool:
        """Have others measure what a share lacks, and record what was tried too often.

        Whether all is well: nothing is lacking, or what is was at least begun.
        """
        names = [step.name for step in (*share.steps, *share.again)]
        left = [name for name in names if self._shares.step(name) is not None]
        for step in self._shares.hand_back(left, begun):
            entry = recording.unmeasured(
                self.plan, step, f"given up after {LOSSES} workers: {reason}", attempt=LOSSES,
                environment=recording.circumstances(self.plan, step))
            self._note(entry, Finished(0, ""))
        return not left or any(name in begun for name in left)

    def _keep(self, finished: Finished, worker: ClusterWorker) -> int:
        """Keep a finished repetition; its number, by which the worker may forget it."""
        entry = stored.parse(finished.record, f"{worker.label}'s record")
        if self._shares.step(entry.name) is not None:
            environment = {**entry.environment, "worker": worker.label}
            self._note(entry.model_copy(update={"environment": environment}), finished)
            self._running[worker.label].discard(entry.name)
            self._shares.finish(entry.name, flagged=contention.is_due_again(environment))
        return finished.number

    def _note(self, entry: Record, finished: Finished) -> None:
        with disk_full.reported(self.results.path, f"{entry.name} cannot be kept"):
            self.results.keep_received(entry, finished)
        recording.announce(self.plan.study, entry, self.events)

    def _keep_logs(self, logs: Mapping[str, bytes]) -> None:
        """Logs of a share, as a local run keeps them; lines of a cell's own log are added."""
        for path, content in logs.items():
            with contextlib.suppress(OSError):  # logs are a help, not a result
                self.results.keep_log(path, content)
