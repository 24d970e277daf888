"""One plan on several workers: shared out, kept as it comes, and whole whoever is lost on the way.

Workers are dask's own, in this process; what they measure is made up.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from distributed import get_worker

import made_up_measuring
import plans
from conftest import PATIENCE_S, PROJECT, Qop, wait_until
from guest import image
from guest.cache import cache_root
from harness.cluster import campaign, connection, security, worker_tasks
from harness.cluster.campaign import AdmittedWorker
from harness.cluster.connection import WorkerLost
from harness.cluster.shares import Backlog, count_testbeds_per_share
from harness.cluster.worker_tasks import WorkerIdentity
from harness.commands import run, worker
from harness.engine import provenance
from harness.engine.events import RunState
from harness.engine.plan import Plan
from harness.engine.retries import WORKER_ATTEMPTS
from harness.errors import UserError
from made_up_cluster import Run, comes, plan_of, workers
from made_up_measuring import BROKEN, LINE
from measure.records import record

# Tornado and dask warn of what they leave to the garbage collector themselves.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
CODE, IMAGE = "c" * 64, made_up_measuring.IMAGE.key


def names(plan: Plan) -> set[str]:
    """Of all steps."""
    return {step.name for step in plan.all_steps()}


async def test_all_steps_once_and_a_policy_stays_on_its_worker(script, tmp_path) -> None:
    """Both workers measure; every record, capture and log is there, and nothing is twice."""
    plan = plan_of()
    async with workers(2) as cluster:
        measuring = Run(tmp_path, plan, cluster.scheduler.address)
        records = await measuring()
    assert records.keys() == names(plan) and len(measuring.recorded) == len(records)
    assert len(script.measured) == 2
    policies = [{name.split("-")[0] for name in found} for found in script.measured.values()]
    assert len(policies[0]) == len(policies[1]) == 2 and not policies[0] & policies[1]
    for name in records:
        assert (tmp_path / "captures" / name / "auth-mn.pcap.gz").read_bytes() == name.encode()
        assert (tmp_path / "files" / name / "trace.txt").read_bytes() == name.encode()
        assert (tmp_path / "events" / f"{name}.jsonl").read_bytes() == LINE
    assert (tmp_path / "logs" / "cells" / "P1-N2.log").read_bytes() == 2 * LINE
    assert sorted(script.closed) == sorted(script.measured)
    assert (measuring.state.done, measuring.state.total) == (8, 8)
    assert RunState.from_folder(tmp_path) == measuring.state and not measuring.state.running


async def test_records_name_workers_but_no_address(script, tmp_path) -> None:
    """A neutral label for each; what each measured with is kept under it."""
    async with workers(2) as cluster:
        records = await Run(tmp_path, plan_of(), cluster.scheduler.address)()
        addresses = [w.address for w in cluster.workers]
    assert {found.environment["worker"] for found in records.values()} == {"worker-1", "worker-2"}
    kept = "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert not any(address.rpartition("/")[2] in kept for address in addresses)
    assert "127.0.0.1" not in kept
    assert '"worker": "worker-2"' in (tmp_path / provenance.FILE).read_text()


async def test_a_lost_worker_loses_no_finished_record(script, tmp_path) -> None:
    """What it had sent stays as it was; the rest is measured by the other, once."""
    script.stalls_after = 2
    plan = plan_of()
    async with workers(2) as cluster:
        measuring = Run(tmp_path, plan, cluster.scheduler.address)
        task = asyncio.create_task(measuring())
        await comes(lambda: script.stalled and len(measuring.records()) >= 6, task)
        before = {path: path.stat().st_mtime_ns for path in measuring.kept.records.iterdir()}
        [lost] = [w for w in cluster.workers if w.address == script.stalled]
        await lost.close()
        records = await task
    assert records.keys() == names(plan)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())
    measured = [name for found in script.measured.values() for name in found]
    assert sorted(measured) == sorted(names(plan))
    assert any("is left out: the worker is gone" in line for line in measuring.told)


async def test_what_no_process_survives_is_recorded_as_failed(script, tmp_path) -> None:
    """After so many tries, with the reason; everything else is measured, on a lone worker too."""
    script.poisonous = {"P2-N2-001"}
    plan = plan_of()
    async with workers(1) as cluster:
        measuring = Run(tmp_path, plan, cluster.scheduler.address)
        records = await measuring()
    assert records.keys() == names(plan)
    failed = records.pop("P2-N2-001")
    assert failed.status == "failed" and failed.attempt == WORKER_ATTEMPTS
    assert "its guest killed it" in failed.reason
    assert failed.digests["policy"] == plan.levels["policy"][1].digest
    assert all(found.status == "ok" for found in records.values())
    assert measuring.state.failed == {"P2-N2-001"}


async def test_a_worker_that_cannot_begin_is_left_out(script, tmp_path) -> None:
    """Its share goes to the other one, and no step counts it as a try of its own."""
    plan = plan_of()
    async with workers(2) as cluster:
        bad = cluster.workers[0].address
        script.broken = {bad}
        measuring = Run(tmp_path, plan, cluster.scheduler.address)
        records = await measuring()
    assert records.keys() == names(plan)
    assert all(found.status == "ok" for found in records.values())
    assert bad not in script.measured
    assert any(BROKEN in line for line in measuring.told)


async def test_no_worker_is_left(script, tmp_path) -> None:
    """One line with the last one's reason, and how to go on; nothing is recorded as failed."""
    async with workers(1) as cluster:
        script.broken = {cluster.workers[0].address}
        measuring = Run(tmp_path, plan_of(), cluster.scheduler.address)
        with pytest.raises(UserError, match=rf"no worker is there.*{BROKEN}.*same command again"):
            await measuring()
    assert measuring.records() == {}


async def test_flagged_repetitions_are_measured_exclusively(script, tmp_path) -> None:
    """The second record replaces the first; a folder that holds a flagged one sends it, too."""
    script.flagged = {"P1-N2-001", "P3-N2-002"}
    plan = plan_of()
    async with workers(2) as cluster:
        measuring = Run(tmp_path, plan, cluster.scheduler.address)
        records = await measuring()
        assert (measuring.state.done, measuring.state.total) == (10, 10)
        assert all(not found.environment["flags"] for found in records.values())
        assert records["P1-N2-001"].environment["alone"] is True
        old = records["P4-N2-001"]
        record.write_record(old.model_copy(update={"environment": {
            **old.environment, "flags": ["processor"]}}), measuring.kept.records)
        records = await Run(tmp_path, plan, cluster.scheduler.address)()
    assert records["P4-N2-001"].environment["alone"] is True


async def test_more_steps_when_all_is_measured(script, tmp_path) -> None:
    """A stopping rule's further repetitions are given out like the planned ones."""
    plan, further = plan_of(2, 1), plan_of(2, 2).block_steps(2)
    blocks = [further]
    async with workers(2) as cluster:
        measuring = Run(tmp_path, plan, cluster.scheduler.address)
        measuring.campaign.more = lambda: blocks.pop() if blocks else []
        records = await measuring()
    assert records.keys() == names(plan_of(2, 2))


async def test_stopping_frees_every_worker_and_the_run_continues(script, tmp_path) -> None:
    """Cancelled in the middle, the run ends what its workers measure before it is gone.

    However long that takes: a worker that is told a second time would leave something behind.
    """
    script.stalls_after, script.ending_s = 1, 1.5
    async with workers(1) as cluster:
        measuring = Run(tmp_path, plan_of(), cluster.scheduler.address)
        task = asyncio.create_task(measuring())
        await comes(lambda: script.stalled and measuring.records(), task)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert script.closed == [script.stalled]
        [kept] = measuring.kept.records.iterdir()
        stamp = kept.stat().st_mtime_ns
        # The same command continues, and measures nothing twice.
        script.stalls_after = 10**6
        records = await Run(tmp_path, plan_of(), cluster.scheduler.address)()
    assert records.keys() == names(plan_of())
    assert kept.stat().st_mtime_ns == stamp and kept.stem in records
    assert sorted(script.measured[script.stalled]) == sorted(records)


async def test_a_run_that_goes_without_a_word_frees_its_workers(script, tmp_path,
                                                                monkeypatch) -> None:
    """A client that was killed: dask tells its workers that nobody wants their shares any more."""
    monkeypatch.setattr(connection, "_END_S", 0.0)  # it does not wait for them
    script.stalls_after = 1
    async with workers(1) as cluster:
        task = asyncio.create_task(Run(tmp_path, plan_of(), cluster.scheduler.address)())
        await comes(lambda: script.stalled, task)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await comes(lambda: script.closed)
        # Nor is an empty folder of the run left, which only another run would remove.
        await comes(lambda: not list((cache_root() / "cluster" / "spool").glob("*")))


async def test_two_runs_take_turns_on_a_worker(script, tmp_path) -> None:
    """Its shares are measured one after the other: each has the machine for itself."""
    async with workers(1) as cluster:
        runs = [Run(tmp_path / name, plan_of(2, 1), cluster.scheduler.address) for name in "ab"]
        for records in await asyncio.gather(*(each() for each in runs)):
            assert records.keys() == names(plan_of(2, 1))
    assert script.side_by_side == [1, 1]


async def test_a_worker_may_come_later(script, tmp_path) -> None:
    """It is checked like the others and takes over what a lost one left."""
    script.stalls_after = 1
    plan = plan_of()
    async with workers(1) as cluster:
        measuring = Run(tmp_path, plan, cluster.scheduler.address)
        task = asyncio.create_task(measuring())
        await comes(lambda: script.stalled, task)
        await cluster.add()
        await comes(lambda: any(line.startswith("worker-2") for line in measuring.told), task)
        await cluster.workers[0].close()
        records = await task
    assert records.keys() == names(plan)


async def test_nobody_there(script, tmp_path, monkeypatch) -> None:
    """A scheduler without workers, and none at all: one line each, which says what to start."""
    monkeypatch.setattr(connection, "_CONNECT_S", 1.0)
    async with workers(0) as cluster:
        address = cluster.scheduler.address
        with pytest.raises(UserError, match=r"no worker is there; start one .*qop worker"):
            await Run(tmp_path, plan_of(), address)()
    with pytest.raises(UserError, match="no scheduler answers there") as caught:
        await Run(tmp_path, plan_of(), address)()
    assert "\n" not in str(caught.value)


@pytest.mark.slow  # dask's own cluster takes its time to close without its scheduler
async def test_a_scheduler_that_goes_ends_the_run_with_one_line(script, tmp_path) -> None:
    """What was kept stays, and the line says how to go on."""
    script.stalls_after = 1
    async with workers(1) as cluster:
        measuring = Run(tmp_path, plan_of(), cluster.scheduler.address)
        task = asyncio.create_task(measuring())
        await comes(lambda: script.stalled, task)
        await cluster.scheduler.close()
        with pytest.raises(UserError, match=r"the scheduler is gone.*same command again") as caught:
            await asyncio.wait_for(task, PATIENCE_S)
    assert "\n" not in str(caught.value)
    assert len(measuring.records()) == 1


# --- Who may measure ------------------------------------------------------------------------------

def identity(code: str, image_key: str) -> WorkerIdentity:
    """Of a worker with two processors."""
    return WorkerIdentity(code, {"": image_key} if image_key else {}, processors=2)


class Claims:
    """A cluster whose workers say this of themselves."""

    def __init__(self, *said: WorkerIdentity | dict[str, object] | Exception) -> None:
        self._said = {f"tls://10.0.0.{number}:1": each for number, each in enumerate(said, 1)}

    async def check(self, folder: Path,
                    plan: Plan | None = None) -> list[AdmittedWorker | str]:
        """All of them, checked: what is known of each, or why it is refused."""
        checker = campaign.WorkerChecker(plan or plan_of(), self, folder)
        checked: list[AdmittedWorker | str] = []
        for number, address in enumerate(self._said, 1):
            try:
                checked.append(
                    await checker.check_worker(AdmittedWorker(f"worker-{number}", address)))
            except WorkerLost as refusal:
                checked.append(str(refusal))
        return checked

    async def run_on_worker(self, address: str, *_: object) -> AsyncGenerator[dict[str, object]]:
        """What one of them claims."""
        said = self._said[address]
        if isinstance(said, Exception):
            raise said
        yield {"kind": "identity", **(said if isinstance(said, dict) else asdict(said))}


@pytest.mark.parametrize(("odd", "words"), [
    (identity("d" * 64, IMAGE),
     "measures with other code (dddddddddddd, here cccccccccccc)"),
    (identity(CODE, ""),
     "has no guest image for builder mininet; give './qop provision' there"),
    (identity(CODE, "other-root"),
     "has another guest image (other-root, not kernel-root)"),
    (WorkerLost("its task failed"), "its task failed"),
    ({"machine": "of another version"}, "cannot say what it measures with"),
])
async def test_a_worker_that_differs_is_refused(odd, words, tmp_path, monkeypatch) -> None:
    """One line with what differs, and nothing of it is kept."""
    monkeypatch.setattr(provenance, "hash_code", lambda _: CODE)
    monkeypatch.setattr(image, "find_image", lambda **_: SimpleNamespace(key=IMAGE))
    good, refused = await Claims(identity(CODE, IMAGE), odd).check(tmp_path)
    assert good.processors == 2
    assert words in refused and "\n" not in refused
    assert "worker-1" in (tmp_path / provenance.FILE).read_text()
    assert "worker-2" not in (tmp_path / provenance.FILE).read_text()


async def test_a_worker_whose_kernel_lacks_the_clock_is_refused(tmp_path, monkeypatch) -> None:
    """In one line, by that clock alone; a worker that says nothing of its kernel passes."""
    monkeypatch.setattr(provenance, "hash_code", lambda _: CODE)
    monkeypatch.setattr(image, "find_image", lambda **_: None)
    silent, old, new = (
        replace(identity(CODE, IMAGE), description=said) for said in (
            {}, {"image": {"kernel": {"version": "6.12.1", "processor_clock": False}}},
            {"image": {"kernel": {"version": "7.2.12", "processor_clock": True}}}))
    for clock in ("processor", "real"):
        found = await Claims(silent, old, new).check(tmp_path, plans.plan_of(clock=clock))
        refused = [each for each in found if isinstance(each, str)]
        assert len(refused) == (clock == "processor")
        assert all("lacks the processor clock; add --clock real" in line for line in refused)


async def test_without_an_image_here_workers_must_agree(tmp_path, monkeypatch) -> None:
    """A client that has none of its own still refuses two kinds."""
    monkeypatch.setattr(provenance, "hash_code", lambda _: CODE)
    monkeypatch.setattr(image, "find_image", lambda **_: None)
    same, other = identity(CODE, IMAGE), identity(CODE, "other-root")
    *good, refused = await Claims(same, same, other).check(tmp_path)
    assert [worker.label for worker in good] == ["worker-1", "worker-2"]
    assert "other-root" in refused


async def test_who_differs_is_left_out_with_a_line(script, tmp_path, monkeypatch) -> None:
    """The others measure all of it."""
    odd: list[str] = []
    real = worker_tasks.describe_machine

    def differing(plan: Plan) -> WorkerIdentity:
        """The first that is asked has other code."""
        here = get_worker().address
        odd.append(here)
        return replace(real(plan), code="d" * 64) if odd[0] == here else real(plan)

    monkeypatch.setattr(worker_tasks, "describe_machine", differing)
    async with workers(2) as cluster:
        measured = Run(tmp_path, plan_of(), cluster.scheduler.address)
        assert (await measured()).keys() == names(plan_of())
    assert odd[0] not in script.measured
    assert [line for line in measured.told if odd[0] in line and "is left out: measures with other "
            "code" in line]


@pytest.mark.guest  # a worker has an image before it says that it is there
@pytest.mark.shareable
def test_a_worker_ends_with_its_input(qop: Qop) -> None:
    """Started over SSH it has its key from there, and leaves with the run that started it."""
    lent = subprocess.Popen(
        qop.argv("worker", "--scheduler", "tls://127.0.0.1:0"), cwd=qop.folder, text=True,
        env=qop.environment() | {security.KEY_VARIABLE: security.KEY_FROM_INPUT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert lent.stdin is not None and lent.stdout is not None
    lent.stdin.write(f"{security.ClusterKey.make_new()}\n")
    lent.stdin.flush()
    wait_until(lambda: lent.stdout.readline().startswith("worker at "))
    lent.communicate(timeout=PATIENCE_S)  # its input ends
    assert lent.returncode == 130 and qop.left_over() == []


@pytest.mark.parametrize("where",
                         ["", "tls://", "tls://host", "host:8786", "http://host:1", "tcp://host:1",
                                   "tls://ho st:1", "ssh:", "ssh:a,,b", "ssh:a;reboot", "ssh:a b"])
def test_what_is_no_cluster_is_one_line(where: str) -> None:
    """Named, with an example of each kind."""
    with pytest.raises(UserError, match="tls://HOST:8786, or hosts as in ssh:HOST1,HOST2"):
        connection.check_cluster_name(where)


@pytest.mark.parametrize("where", ["tls://10.1.2.3:8786", "tls://lab-1.example:8786",
                                   "tls://[::1]:8786", "ssh:lab1", "ssh:me@lab-1,lab2.example"])
def test_clusters(where: str) -> None:
    """Schedulers by address, hosts by name."""
    connection.check_cluster_name(where)


def test_without_dask_the_commands_say_how_to_get_it(monkeypatch) -> None:
    """One line that names the lock file; nothing is measured and nothing listens."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec",
                        lambda name, *rest: None if name == "distributed" else real(name, *rest))
    for command, arguments in ((run.command, ["--cluster", "tls://127.0.0.1:1"]),
                               (worker.command, ["tls://127.0.0.1:1"])):
        done = CliRunner().invoke(command, arguments)
        assert isinstance(done.exception, UserError)
        assert "pip install --require-hashes" in str(done.exception)
        assert "requirements/cluster.lock" in str(done.exception)


def test_empty_cluster_is_refused(qop_here: Qop) -> None:
    """Such as that of an unset variable: the run would measure here."""
    done = qop_here("run", "--cluster", "", "--policies", "P1", "--dry-run")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("qop: --cluster : no cluster; give the address")


def test_hosts_are_not_for_clusters() -> None:
    """--on host has one air a machine and is refused."""
    done = CliRunner().invoke(run.command, ["--cluster", "tls://127.0.0.1:1", "--on", "host"])
    assert isinstance(done.exception, UserError) and "--on host" in str(done.exception)


# --- Sharing out ----------------------------------------------------------------------------------

@pytest.mark.parametrize(("testbeds", "processors", "everyone", "expected"), [
    (12, 1, 1, 12),  # a lone worker has a scheduler of its own
    (12, 1, 2, 6), (12, 2, 4, 6),  # half of it keeps each just busy
    (48, 1, 2, 12),  # in two goes, so that a faster one may take the rest
    (13, 1, 2, 4), (1, 1, 8, 1), (0, 1, 2, 0), (12, 4, 6, 8)])
def test_how_many_testbeds_a_worker_gets(testbeds, processors, everyone, expected) -> None:
    """Its part by processors."""
    assert count_testbeds_per_share(testbeds, processors, everyone) == expected


def test_the_longest_testbeds_go_first() -> None:
    """What has most left to measure is given out before what is nearly done."""
    plan = plan_of(3, 3)
    backlog = Backlog(plan)
    backlog.add_steps([step for step in plan.all_steps()
                       if step.cell.ids["policy"] != "P1" or step.repetition == 3])
    assert backlog.waiting_testbeds()[-1] == "P1"
    share = backlog.take_share(backlog.waiting_testbeds()[:1])
    assert len({step.cell.ids["policy"] for step in share.steps.values()}) == 1
    assert [step.repetition for step in share.steps.values()] == [1, 2, 3]


def test_a_flagged_record_stays_when_its_second_try_is_given_up() -> None:
    """It has a good number, if a doubtful one; a failed record would replace it."""
    plan = plan_of(1, 1)
    [step] = plan.all_steps()
    backlog = Backlog(plan)
    backlog.add_steps([], [step])
    for _ in range(WORKER_ATTEMPTS):
        share = backlog.take_share(backlog.waiting_testbeds())
        assert share.split_steps() == ([], [step])
        assert backlog.hand_back(share, {step.name}) == []
    assert backlog.waiting_testbeds() == []


_OPEN_AND_FORGET = """
import sys
from harness.cluster import worker_tasks
for _ in range(300):
    with worker_tasks.open_spool("run", sys.argv[1], "none"):
        pass
    forget = worker_tasks.remove_spool if sys.argv[1] != "other" else worker_tasks.forget_run
    forget("run", sys.argv[1])
"""


def test_workers_of_one_machine_do_not_remove_folders_in_the_making(tmp_path: Path) -> None:
    """Each makes and removes its own folder; the last also removes all of the run's idle ones."""
    working = [subprocess.Popen(
        [sys.executable, "-c", _OPEN_AND_FORGET, name], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "QOP_CACHE": str(tmp_path), "PYTHONPATH": str(PROJECT)})
        for name in ("one", "two", "other")]
    assert [process.communicate()[1] for process in working] == [""] * 3
