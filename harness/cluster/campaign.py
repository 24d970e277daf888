"""Measure a run on the workers of a cluster, and store the records that they send.

A worker is another machine that measures (`./qop worker`), a record is the JSON file of one
repetition (measurement). `ClusterCampaign` is the counterpart of harness.engine.campaign, which
measures on one machine. The run decides, stores and counts; workers measure. `WorkerChecker` admits
only workers with the same code and guest images as this machine. Each admitted worker gets a part
of the repetitions (a share) as a dask task, and sends results while it measures. If a worker is
lost, another worker measures the rest of its share.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness import errors
from harness.cluster import worker_tasks
from harness.cluster.connection import Cluster, WorkerLost, connect_to_cluster
from harness.cluster.shares import Backlog, Share, ShareProgress, count_testbeds_per_share
from harness.cluster.worker_tasks import WorkerIdentity
from harness.engine import provenance, recording, setup
from harness.engine.events import EventLog
from harness.engine.plan import Plan, Step
from harness.engine.results import ReceivedFiles, ResultsFolder
from harness.engine.retries import WORKER_ATTEMPTS
from harness.errors import UserError
from measure.records import record
from measure.records.record import Record, RecordError

# --- Check of workers: they need the same code and guest images as this machine ---

#: Time limit in seconds for a worker to describe its code and images.
_IDENTITY_DEADLINE_S = 300.0


@dataclass(frozen=True)
class AdmittedWorker:
    """A worker machine that may measure for this run.

    `label` is its name in records, which contain no addresses. `packages` are the package sets that
    its guest images contain, "" for none. `finished` are the repetitions that another worker of the
    same machine had finished for this run.
    """

    label: str
    address: str
    processors: int = 1
    packages: frozenset[str] = frozenset()
    finished: Collection[str] = ()


class WorkerChecker:
    """A check whether workers have the run's code and images. It stores a description of each."""

    def __init__(self, plan: Plan, cluster: Cluster, folder: Path) -> None:
        self._plan = plan
        self._cluster = cluster
        self._folder = folder
        self._advice = f"give '{setup.provision_command(plan)}'"
        # Where this machine lacks an image, the first worker's image is the reference.
        self._images = setup.list_built_image_keys(plan)

    async def check_worker(self, worker: AdmittedWorker) -> AdmittedWorker:
        """Check a worker, and return it with its processors, packages and finished repetitions.

        Raises:
            WorkerLost: The worker may not measure; the text is the reason.
        """
        identity = await self._request_identity(worker.address)
        if complaint := self._find_difference(identity):
            raise WorkerLost(complaint)
        self._images = {**identity.images, **self._images}
        provenance.add_circumstances(self._folder, {**identity.description, "worker": worker.label})
        return replace(worker, processors=identity.processors,
                       finished=frozenset(identity.finished), packages=frozenset(identity.images))

    async def _request_identity(self, address: str) -> WorkerIdentity:
        reason = "it says nothing"
        try:
            async with asyncio.timeout(_IDENTITY_DEADLINE_S), contextlib.aclosing(
                self._cluster.run_on_worker(
                    address, worker_tasks.send_identity, self._plan)) as worker_messages:
                async for message in worker_messages:
                    if message.pop("kind") == "identity":
                        return WorkerIdentity(**message)
        except (WorkerLost, TimeoutError, TypeError) as error:
            reason = str(error) or reason
        raise WorkerLost(f"cannot say what it measures with ({reason}); start it with './qop "
                         "worker' from the same checkout as this one")

    def _find_difference(self, identity: WorkerIdentity) -> str:
        """Return a message about how the worker's code or images differ, "" if they do not."""
        code = provenance.hash_code(self._plan.study.id)
        if identity.code != code:
            return (f"measures with other code ({identity.code[:12]}, here "
                    f"{code[:12]}); bring both to the same version and start it again")
        if not setup.can_measure(self._plan, identity.images):
            return (f"has no guest image for builder {self._plan.settings.builder}; "
                    f"{self._advice} there")
        kernel = (identity.description.get("image") or {}).get("kernel")
        if self._plan.settings.clock == "processor" and kernel \
                and not kernel.get("processor_clock"):
            return ("has a guest image whose kernel lacks the processor clock; add --clock real, "
                    f"or {self._advice} there")
        for name, key in identity.images.items():
            if key != self._images.get(name, key):
                return (
                    f"has another guest image ({key}, not {self._images[name]}); "
                        f"{self._advice} on both and start it again")
        return ""


# --- Distribution of shares to workers, and storage of their results ---

#: Time to wait for workers when none is connected.
WAIT_S = 30.0
_LOOK_S = 1.0
#: A worker is stalled after a silence of this time plus _SLOWER times its longest step, in seconds.
#: Its steps then go to other workers.
STALLED_S = 3600.0
_SLOWER = 20.0
#: Longest time that a share waits while its worker measures shares of other runs.
TURN_S = 86_400.0


@dataclass
class ClusterCampaign:
    """A run that is measured on a cluster. `run` performs all of it."""

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
    measurer: worker_tasks.Measurer = worker_tasks.run_campaign
    #: By the worker's address: the workers that may measure, and the tasks of workers that are
    #: being checked or measure.
    _workers: dict[str, AdmittedWorker] = field(default_factory=dict)
    _busy: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _last_words: str = ""

    async def run(self, steps: Sequence[Step], flagged_steps: Sequence[Step] = ()) -> None:
        """Measure all repetitions on the workers of the cluster.

        Every worker is free again when this returns or raises.

        Args:
            steps: Repetitions to measure for the first time.
            flagged_steps: Repetitions whose record is flagged as disturbed. Each of them is
                measured while nothing else runs.

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
        """Let the workers measure until no repetition is left. Workers may join later."""
        checker = WorkerChecker(self.plan, self._cluster, self.results.path)
        seen: set[str] = set()
        now = asyncio.get_running_loop().time
        last_there = now()
        while not self._is_finished():
            new = [AdmittedWorker(f"worker-{number}", address) for number, address in enumerate(
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

    async def _admit_workers(self, workers: Sequence[AdmittedWorker],
                             checker: WorkerChecker) -> None:
        """Check new workers, and admit all that pass at the same time.

        If they were admitted one by one, the first worker would get all emulated networks
        (testbeds).
        """
        checks = await asyncio.gather(*map(checker.check_worker, workers), return_exceptions=True)
        del self._busy[workers[0].address]
        for worker, check in zip(workers, checks, strict=True):
            if isinstance(check, AdmittedWorker):
                self._add_worker(check)
            elif isinstance(check, WorkerLost):
                self._exclude_worker(worker, str(check))
            else:
                raise check

    def _add_worker(self, worker: AdmittedWorker) -> None:
        self._workers[worker.address] = worker
        line = (f"{worker.label}: {worker.address}, {worker.processors} "
                f"processor{'' if worker.processors == 1 else 's'}")
        images = setup.list_plan_images(self.plan)
        if lacking := sorted(images.keys() - worker.packages):
            named = ", ".join(setup.describe_image(*images[name]) for name in lacking)
            line += f", no guest image {named}; give '{setup.provision_command(self.plan)}' there"
        self.events.emit_event("worker-joined", worker=worker.label, line=line)

    def _distribute_shares(self) -> None:
        """Give repetitions to every worker that has none, the largest worker first."""
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

    async def _run_share(self, worker: AdmittedWorker, share: Share) -> None:
        """Let a worker measure its part of the repetitions, until it ends or is lost.

        Repetitions without a record then return to the queue.
        """
        progress = ShareProgress(share)
        loss = ""
        try:
            await self._receive_messages(worker, progress)
        except (WorkerLost, TimeoutError) as error:
            loss = str(error) or "it says nothing of its share any more"
        reason = loss or progress.broken or "its share ended without it"
        for step in self._backlog.hand_back(share, progress.under_way):
            self._store_record(recording.make_unmeasured_record(
                self.plan, step, f"given up after {WORKER_ATTEMPTS} workers: {reason}",
                attempt=WORKER_ATTEMPTS,
                environment=recording.describe_circumstances(self.plan, step)))
        if loss or not (progress.has_records or progress.under_way):  # the worker cannot even begin
            self._exclude_worker(worker, reason)
        del self._busy[worker.address]

    async def _receive_messages(self, worker: AdmittedWorker, progress: ShareProgress) -> None:
        """Receive all messages of a worker about its part of the repetitions.

        Raises:
            WorkerLost: The worker or its task is gone.
            TimeoutError: The worker sent nothing for too long.
        """
        longest_s = max(self.plan.expected_cost(step.cell).duration_s
                        for step in progress.share.steps.values())
        now = asyncio.get_running_loop().time
        async with (asyncio.timeout(TURN_S) as silence,
                    contextlib.aclosing(self._cluster.run_on_worker(
                worker.address, worker_tasks.measure_share, progress.share, self.measurer,
                resources={worker_tasks.MEASURING_RESOURCE: 1})) as worker_messages):
            async for message in worker_messages:
                silence.reschedule(now() + STALLED_S + _SLOWER * longest_s)
                self._process_message(worker, progress, message)

    def _exclude_worker(self, worker: AdmittedWorker, reason: str) -> None:
        """Exclude a worker from the rest of the run, and print the reason."""
        self._workers.pop(worker.address, None)
        self._last_words = f"worker {worker.address} {reason}; "
        self.events.emit_event("worker-left-out", worker=worker.label, reason=reason,
                               line=f"{worker.label} at {worker.address} is left out: {reason}")

    def _process_message(self, worker: AdmittedWorker, progress: ShareProgress,
                         message: Mapping[str, Any]) -> None:
        """Process one message of a worker. Its record is stored before the next message is read.

        Raises:
            WorkerLost: The record was damaged on its way.
        """
        if message["kind"] == "finding":
            try:
                entry = record.parse_record(message["record"], "its record")
            except RecordError as error:
                raise WorkerLost(str(error)) from None
            environment = {**entry.environment, "worker": worker.label}
            self._store_record(entry.model_copy(update={"environment": environment}), ReceivedFiles(
                message["captures"], message["files"], message["reports"]))
            progress.note_record(entry)
        elif message["kind"] == "event":
            event = {name: value for name, value in message["event"].items() if name != "at"}
            progress.note_event(event)
            self.events.emit_event(event.pop("event"), **event | {"worker": worker.label})
        elif message["kind"] == "end":
            progress.broken = message["broken"]
            with contextlib.suppress(OSError):  # logs help to find errors, but are not results
                for path, content in message["logs"].items():
                    self.results.keep_log(path, content)

    def _store_record(self, entry: Record, received: ReceivedFiles | None = None) -> None:
        """Store a record, with the files that a worker sent for it.

        `received` is None if the repetition was not measured.
        """
        with errors.report_disk_errors(self.results.path, f"{entry.name} cannot be kept"):
            if received is None:
                self.results.keep_record(entry, None)
            else:
                self.results.keep_received(entry, received)
        recording.announce_record(self.plan.study, entry, self.events)


async def _remove_spool(cluster: Cluster, address: str) -> None:
    """Have a worker machine delete the results of this run that it stores temporarily."""
    with contextlib.suppress(WorkerLost):
        async for _ in cluster.run_on_worker(address, worker_tasks.forget_run):
            pass
