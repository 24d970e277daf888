"""A run on a cluster, from its plan to its last record: the counterpart of harness.campaign.

The client decides, keeps and counts; workers measure. Each worker that was checked gets a share of
the plan and is asked for what it has finished until the share ends. What a lost worker has not sent
is measured by another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness import room
from harness.cluster import member
from harness.cluster.checking import Checker, Worker
from harness.cluster.connection import WorkerFailed, WorkerLost, connected
from harness.cluster.session import Session
from harness.cluster.shares import LOSSES, Shares, how_many
from harness.cluster.wire import Finding, Said, Share
from harness.errors import UserError
from harness.plan import Plan, Step
from harness.provenance import code_digest
from harness.results import ResultsFolder
from harness.tally import Tally
from measure import assemble, record
from measure.record import Record

#: How long a worker thinks about an answer when it has nothing new.
_PATIENCE_S = 1.0
#: How long to wait for workers when there is none.
WAIT_S = 30.0
_LOOK_S = 1.0

Report = Callable[[Record, "ClusterCampaign"], None]


@dataclass
class ClusterCampaign(Tally):
    """The state of a run on a cluster; `run` is the whole of it."""

    plan: Plan
    #: A cluster as --cluster names it.
    where: str
    results: ResultsFolder
    report: Report
    #: Asked when all else is measured: which further steps there are to be.
    more: Callable[[], Sequence[Step]] = tuple
    #: One line to the user about workers that come and go.
    tell: Callable[[str], None] = print
    captures: str = "all"
    #: What begins a share on a worker.
    start: member.Start = Session
    _last_words: str = ""
    _running: dict[str, tuple[float, Said]] = field(default_factory=dict)

    async def run(self, steps: Sequence[Step], again: Sequence[Step] = ()) -> None:
        """Measure `steps`, and `again` alone; every worker is free again on every way out."""
        self.total = len(steps) + len(again)
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

    @property
    def testbeds(self) -> int:
        """How many there are at the moment, on all workers."""
        return sum(said.testbeds for _, said in self._running.values())

    @property
    def started(self) -> Mapping[str, float]:
        """When what is under way began, by its name, on this event loop's clock."""
        return {name: heard - seconds for heard, said in self._running.values()
                for name, seconds in said.running.items()}

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
        self.total += len(steps)
        self._shares.add(steps)
        return not steps

    def _welcome(self, worker: Worker) -> None:
        many = "" if worker.processors == 1 else "s"
        self.tell(f"{worker.label}: {worker.address}, {worker.processors} processor{many}")

    def _give_out(self) -> None:
        """A share to every worker that has none, the largest first."""
        waiting = len(self._shares.policies())
        everyone = sum(worker.processors for worker in self._workers.values())
        for worker in sorted(self._workers.values(), key=lambda worker: -worker.processors):
            if worker.address in self._busy:
                continue
            plain, again = self._shares.take(how_many(waiting, worker.processors, everyone))
            if plain or again:
                share = Share(uuid.uuid4().hex, self.plan, plain, again, self.captures)
                self._busy[worker.address] = self._group.create_task(self._serve(worker, share))

    async def _serve(self, worker: Worker, share: Share) -> None:
        """One share on one worker, to its end or to the worker's; then others may have the rest."""
        said, progress, reason = Said(), 0, ""
        try:
            await self.cluster.call(worker.address, member.begin, share, self.start)
            kept: list[int] = []
            while not said.ended:
                said = await self.cluster.call(worker.address, member.attend, share.serial, kept,
                                               _PATIENCE_S)
                self._running[worker.label] = (asyncio.get_running_loop().time(), said)
                kept = [self._keep(finding, worker) for finding in said.findings]
                progress += len(kept)
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
            _, last = self._running.pop(worker.label, (0.0, Said()))
            del self._busy[worker.address]
            self._changed.set()
        reason = reason or "its share ended without it"
        if not self._hand_back(share, last, reason) and not progress:
            self._put_aside(worker, reason)  # it cannot even begin

    async def _dismiss(self, worker: Worker, share: Share) -> None:
        """Have a worker end what it measures; if that fails, it does so by itself in a minute."""
        with contextlib.suppress(WorkerLost, WorkerFailed, UserError):
            await self.cluster.call(worker.address, member.leave, share.serial)

    def _put_aside(self, worker: Worker, reason: str) -> None:
        """Use a worker no more."""
        if self._workers.pop(worker.address, None) is not None:
            self._last_words = f"{worker.label} at {worker.address}: {reason};"
            self.tell(f"{worker.label} is left out: {reason}")

    def _hand_back(self, share: Share, last: Said, reason: str) -> bool:
        """Have others measure what a share lacks, and record what was tried too often.

        Whether all is well: nothing is lacking, or what is was at least begun.
        """
        names = [step.name for step in (*share.steps, *share.again)]
        left = [name for name in names if self._shares.step(name) is not None]
        for step in self._shares.hand_back(left, last.running):
            medium = self.plan.medium.name if self.plan.medium else None
            self._note(assemble.unmeasured(
                step.cell.policy, step.cell.scenario, step.repetition,
                f"given up after {LOSSES} workers: {reason}", attempt=LOSSES,
                environment={"machine": self.plan.settings.on, "medium": medium,
                             "clock": self.plan.settings.clock,
                             "builder": self.plan.settings.builder, "plan": self.plan.digest(),
                             "fault": self.plan.settings.fault, "code_sha256": code_digest(),
                             "load_average": os.getloadavg()[0]}), {})
        return not left or any(name in last.running for name in left)

    def _keep(self, finding: Finding, worker: Worker) -> int:
        """Keep a finding; its number, by which the worker may forget it."""
        found = record.parse(finding.record, f"{worker.label}'s record")
        if self._shares.step(found.name) is not None:
            environment = {**found.environment, "worker": worker.label}
            self._note(found.model_copy(update={"environment": environment}), finding.captures)
            is_flagged = bool(environment.get("flags")) and not environment.get("alone")
            self.total += is_flagged
            self._shares.finish(found.name, flagged=is_flagged)
        return finding.number

    def _note(self, found: Record, captures: Mapping[str, bytes]) -> None:
        with room.told(self.results.path, f"{found.name} cannot be kept"):
            self.results.keep_received(found, captures)
        self.count(found)
        self.report(found, self)

    def _keep_logs(self, logs: Mapping[str, bytes]) -> None:
        """Logs of a share, as a local run keeps them; lines of a cell's own log are added."""
        for path, content in logs.items():
            with contextlib.suppress(OSError):  # logs are a help, not a result
                self.results.keep_log(path, content)
