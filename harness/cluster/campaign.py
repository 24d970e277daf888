"""Run a plan on a cluster, from the plan to the last record.

This is the counterpart of harness.engine.campaign. The run decides, stores and counts; workers
measure. Each worker that passed the checks gets a share of the plan as a dask task and reports
results while it measures. What a lost worker has not sent is measured by another worker. So is the
rest of the share of a worker that sent an invalid message.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.cluster import measuring, received, spool
from harness.cluster.checking import Checker, ClusterWorker
from harness.cluster.connection import Cluster, WorkerLost, connect_to_cluster
from harness.cluster.received import (
    Ended,
    Happened,
    InvalidWorkerMessage,
    SentFinding,
    ShareHearing,
    printable_line,
)
from harness.cluster.shares import LOSSES, Backlog, Share, count_testbeds_per_share
from harness.engine import disk_full, recording, variants
from harness.engine.events import EventLog
from harness.engine.plan import Plan, Step
from harness.engine.results import ResultsFolder
from harness.errors import UserError
from measure.record import Record

#: Time to wait for workers when none is connected.
WAIT_S = 30.0
_LOOK_S = 1.0
#: A worker is stalled after this silence plus _SLOWER times its longest step; its steps go to
#: other workers.
STALLED_S = 3600.0
_SLOWER = 20.0
#: Longest time that a share waits while its worker measures shares of other runs.
TURN_S = 86_400.0


@dataclass
class ClusterCampaign:
    """The state of a run on a cluster. `run` is its entry point."""

    plan: Plan
    #: The cluster as --cluster names it.
    where: str
    results: ResultsFolder
    #: Log of the events of this run and of its workers.
    events: EventLog
    #: Returns further steps; called when all other steps are measured.
    more: Callable[[], Sequence[Step]] = tuple
    captures: str = "all"
    #: Measures a share on a worker.
    measurer: measuring.Measurer = measuring.run_campaign
    #: By the worker's address: the workers that may measure, and the tasks of workers that are
    #: being checked or measure.
    _workers: dict[str, ClusterWorker] = field(default_factory=dict)
    _busy: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _last_words: str = ""

    async def run(self, steps: Sequence[Step], flagged_steps: Sequence[Step] = ()) -> None:
        """Measure `steps`, and `flagged_steps` exclusively.

        Every worker is free again when this returns or raises.

        Args:
            steps: Steps to measure for the first time.
            flagged_steps: Steps whose record is flagged; each is measured while nothing else runs.

        Raises:
            UserError: There is no scheduler or no worker, or a record cannot be stored.
        """
        self._backlog = Backlog(self.plan, self.captures)
        self._backlog.add_steps(steps, flagged_steps)
        try:
            async with (connect_to_cluster(self.where, uuid.uuid4().hex) as self._cluster,
                        asyncio.TaskGroup() as self._group):
                await self._measure_all()
                await asyncio.gather(*(_remove_spool(self._cluster, address) for address
                                       in self._workers))
        except ExceptionGroup as group:
            for_user = group.subgroup(UserError)
            raise (for_user or group).exceptions[0] from None

    async def _measure_all(self) -> None:
        """Let every worker measure until no step is left, including workers that join later."""
        checker = Checker(self.plan, self._cluster, self.results.path)
        seen: set[str] = set()
        now = asyncio.get_running_loop().time
        last_there = now()
        while not self._is_finished():
            new = [ClusterWorker(f"worker-{number}", address) for number, address in enumerate(
                sorted(await self._cluster.worker_addresses() - seen), len(seen) + 1)]
            if new:
                seen.update(worker.address for worker in new)
                self._busy[new[0].address] = self._group.create_task(
                    self._admit_workers(new, checker))
            self._distribute_shares()
            if self._busy:
                last_there = now()
                await asyncio.wait(self._busy.values(), timeout=_LOOK_S,
                                   return_when=asyncio.FIRST_COMPLETED)
            elif self._backlog.steps:
                if now() > last_there + WAIT_S:
                    raise UserError(
                        f"--cluster: no worker is there; {self._last_words}start one on every "
                        "machine with './qop worker' and give the same command again, which goes "
                        "on from here", status=1)
                await asyncio.sleep(_LOOK_S)

    def _is_finished(self) -> bool:
        if self._busy or self._backlog.steps:
            return False
        steps = self.more()
        if steps:
            self.events.emit_event("run-extended", more=len(steps))
        self._backlog.add_steps(steps)
        return not steps

    async def _admit_workers(self, workers: Sequence[ClusterWorker], checker: Checker) -> None:
        """Admit the workers that pass their checks.

        They join together, because otherwise the first worker would get all testbeds.
        """
        checks = await asyncio.gather(*map(checker.check_worker, workers), return_exceptions=True)
        del self._busy[workers[0].address]
        for worker, check in zip(workers, checks, strict=True):
            if isinstance(check, ClusterWorker):
                self._add_worker(check)
            elif isinstance(check, WorkerLost):
                self._exclude_worker(worker, str(check))
            else:
                raise check

    def _add_worker(self, worker: ClusterWorker) -> None:
        self._workers[worker.address] = worker
        line = (f"{worker.label}: {worker.address}, {worker.processors} "
                f"processor{'' if worker.processors == 1 else 's'}")
        if lacking := variants.packages_of_plan(self.plan).keys() - worker.packages:
            line += (f", no guest image with packages {', '.join(sorted(lacking))}; give "
                     f"'{variants.provision_command(self.plan)}' there")
        self.events.emit_event("worker-joined", worker=worker.label, line=line)

    def _distribute_shares(self) -> None:
        """Give a share to every worker without one, the largest worker first."""
        waiting = len(self._backlog.waiting_testbeds())
        everyone = sum(worker.processors for worker in self._workers.values())
        packages = frozenset[str]().union(*(each.packages for each in self._workers.values()))
        for worker in sorted(self._workers.values(), key=lambda worker: -worker.processors):
            # Steps whose packages no worker has go to any worker, which records them as skipped.
            testbeds = self._backlog.waiting_testbeds(packages - worker.packages, worker.finished)
            if worker.address not in self._busy and testbeds:
                share = self._backlog.take_share(
                    testbeds[:count_testbeds_per_share(waiting, worker.processors, everyone)])
                self._busy[worker.address] = self._group.create_task(self._run_share(worker, share))

    async def _run_share(self, worker: ClusterWorker, share: Share) -> None:
        """Have one worker measure one share, until the share ends or the worker is lost.

        The steps without a record then go back to the backlog.
        """
        hearing = ShareHearing(share)
        loss = ""
        try:
            await self._receive_messages(worker, hearing)
        except (WorkerLost, TimeoutError) as error:
            loss = str(error) or "it says nothing of its share any more"
        except InvalidWorkerMessage as lie:
            loss = f"it lied: {lie}"
        reason = loss or hearing.broken or "its share ended without it"
        for step in self._backlog.hand_back(share, hearing.under_way):
            self._store_record(recording.unmeasured_record(
                self.plan, step, f"given up after {LOSSES} workers: {reason}", attempt=LOSSES,
                environment=recording.describe_circumstances(self.plan, step)))
        if loss or not (hearing.has_records or hearing.under_way):  # the worker cannot even begin
            self._exclude_worker(worker, reason)
        del self._busy[worker.address]

    async def _receive_messages(self, worker: ClusterWorker, hearing: ShareHearing) -> None:
        """Receive all messages of a worker about its share.

        Raises:
            WorkerLost: The worker or its task is gone.
            LieError: The worker sent an invalid message.
            TimeoutError: The worker sent nothing for too long.
        """
        longest_s = max(self.plan.expected_cost(step.cell).duration_s
                        for step in hearing.share.steps.values())
        now = asyncio.get_running_loop().time
        async with (asyncio.timeout(TURN_S) as silence,
                    contextlib.aclosing(self._cluster.run_on_worker(
                worker.address, measuring.measure_share, hearing.share, self.measurer,
                resources={measuring.RESOURCE: 1})) as said):
            async for document in said:
                silence.reschedule(now() + STALLED_S + _SLOWER * longest_s)
                try:
                    self._process_message(worker, hearing, received.parse_message(document))
                except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
                        ValueError) as error:
                    cause = printable_line(f"{type(error).__name__}: {error}")
                    raise InvalidWorkerMessage(
                        f"it said what nobody can take in ({cause})") from None

    def _exclude_worker(self, worker: ClusterWorker, reason: str) -> None:
        """Stop using a worker."""
        self._workers.pop(worker.address, None)
        self._last_words = f"worker {worker.address} {reason}; "
        self.events.emit_event("worker-left-out", worker=worker.label, reason=reason,
                               line=f"{worker.label} at {worker.address} is left out: {reason}")

    def _process_message(self, worker: ClusterWorker, hearing: ShareHearing,
                         message: received.Message) -> None:
        """Process one message of a worker. Its record is stored before the next message is read.

        Raises:
            LieError: The message is invalid.
        """
        if isinstance(message, SentFinding):
            entry = hearing.accept_record(message)
            environment = {**entry.environment, "worker": worker.label}
            self._store_record(entry.model_copy(update={"environment": environment}), message)
            hearing.mark_stored(entry)
        elif isinstance(message, Happened):
            event = hearing.accept_event(message.event)
            self.events.emit_event(event.pop("event"), **event, worker=worker.label)
        elif isinstance(message, Ended):
            hearing.accept_end(message)
            with contextlib.suppress(OSError):  # logs help to find errors, but are not results
                for path, content in message.logs.items():
                    self.results.keep_log(path, content)

    def _store_record(self, entry: Record, finding: SentFinding | None = None) -> None:
        """Store a record with the files that a worker sent for it.

        Without a finding, the step was not measured.
        """
        with disk_full.report_errors(self.results.path, f"{entry.name} cannot be kept"):
            if finding is None:
                self.results.keep_record(entry, None)
            else:
                self.results.keep_received(entry, finding)
        recording.announce_record(self.plan.study, entry, self.events)


async def _remove_spool(cluster: Cluster, address: str) -> None:
    """Let a worker's machine remove its spooled results of this run."""
    with contextlib.suppress(WorkerLost):
        async for _ in cluster.run_on_worker(address, spool.forget_run):
            pass
