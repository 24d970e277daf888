"""A cluster that trusts nobody: who is let in, what is unpickled, and what a lie costs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import multiprocessing
import signal
import ssl
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, Security, Worker
from distributed.comm import connect
from distributed.comm.registry import get_backend
from distributed.protocol.serialize import ToPickle
from hypothesis import given, settings
from hypothesis import strategies as st

import made_up_measuring as made_up
from conftest import PATIENCE_S
from guest.cache import cache_root
from harness.cluster import campaign, connection, extra, guard, keys, received
from harness.cluster.checking import ClusterWorker
from harness.cluster.keys import ClusterKey, Role
from harness.cluster.serving import PlainWorker, _start_scheduler
from harness.cluster.shares import Share
from harness.engine import results
from harness.engine.events import EventLog
from harness.engine.plan import Step
from harness.engine.progress import Progress
from harness.errors import UserError
from made_up_cluster import Run, comes, plan_of, workers
from made_up_measuring import Lie, Script, finding, said
from measure import record
from measure.record import StudyRecord

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


# --- Who is let in --------------------------------------------------------------------------------


def plain(_: ClusterKey) -> Security:
    """No TLS at all."""
    return Security()


class Uncertified(Security):  # type: ignore[misc]
    """Believes the scheduler, and shows no certificate at all."""

    def _get_tls_context(self, tls: dict[str, str], purpose: ssl.Purpose) -> ssl.SSLContext:
        context = ssl.create_default_context(purpose, cadata=tls["ca_file"])
        context.check_hostname = False
        return context


STRANGERS: dict[str, Callable[[ClusterKey], Security]] = {
    "of another authority": lambda _: ClusterKey.from_secret().derive_key(
        Role.WORKER).tls_security(),
    # Believes the scheduler, which does not believe it.
    "of another secret": lambda key: replace(key, secret=bytes(32)).tls_security(),
    "no certificate": lambda key: Uncertified(tls_ca_file=key.tls_security().tls_ca_file),
    "no TLS": plain,
    "a worker that says it is a run": lambda key: replace(key, role=Role.RUN).tls_security()}


async def test_strangers_are_refused(script: Script) -> None:
    """Neither as a worker nor as a run; those with the cluster's own keys are let in."""
    async with workers(0) as cluster:
        for name, secure in STRANGERS.items():
            security = secure(cluster.key.derive_key(Role.WORKER))
            address = cluster.scheduler.address
            address = address.replace("tls", "tcp") if name == "no TLS" else address
            with pytest.raises((OSError, TimeoutError, RuntimeError)):
                await Worker(address, security=security, death_timeout=0.5, dashboard=False)
            with pytest.raises((OSError, TimeoutError)):
                await Client(address, asynchronous=True, security=security, timeout=0.5)
            assert not cluster.scheduler.workers, name
            assert set(cluster.scheduler.clients) == {"fire-and-forget"}, name
        await cluster.add()
        async with Client(cluster.scheduler.address, asynchronous=True,
                          security=cluster.key.derive_key(Role.RUN).tls_security()):
            assert len(cluster.scheduler.workers) == 1


@pytest.mark.parametrize("role", [Role.RUN, Role.WORKER])
async def test_key_of_another_cluster_is_refused_at_once(script: Script, role: Role) -> None:
    """A scheduler that is not there yet is no reason to refuse the key."""
    async with workers(0) as cluster:
        address, own = cluster.scheduler.address, cluster.key.derive_key(role)
        await keys.refuse_foreign_key(address, own)
        for foreign in (ClusterKey.from_secret().derive_key(role), replace(own, secret=bytes(32))):
            with pytest.raises(UserError, match="does not accept this key, which is another clust"):
                await keys.refuse_foreign_key(address, foreign)
    await keys.refuse_foreign_key(address, own)


async def test_client_whose_scheduler_ends_logs_nothing(
        script: Script, caplog: pytest.LogCaptureFixture) -> None:
    """Dask logs a traceback of its own when it cannot connect again."""
    extra.silence_logs()
    async with workers(0) as cluster:
        client = await Client(cluster.scheduler.address, asynchronous=True, timeout=0.5,
                              security=cluster.key.derive_key(Role.RUN).tls_security())
    caplog.clear()
    await asyncio.sleep(0.2)
    logging.getLogger("distributed.client").error("no connection")
    await client.close(timeout=0.5)
    assert not caplog.records


async def test_scheduler_on_a_port_in_use_is_one_line(script: Script) -> None:
    async with workers(0) as cluster, contextlib.AsyncExitStack() as stack:
        with pytest.raises(UserError, match=r"cannot listen there .*ddress already in use"):
            await _start_scheduler(cluster.scheduler.address, stack, print)


async def test_workers_let_in_their_scheduler_only(script: Script) -> None:
    """Another worker, or a run, cannot have a program run there."""
    async with workers(1) as cluster:
        for peer in (Role.WORKER, Role.RUN):
            arguments = cluster.key.derive_key(peer).tls_security().get_connection_args("worker")
            with pytest.raises(OSError, match=r"Timed out|TLS|closed"):
                await connect(cluster.workers[0].address, timeout=0.5, **arguments)
        arguments = cluster.key.tls_security().get_connection_args("scheduler")
        await (await connect(cluster.workers[0].address, **arguments)).close()


def test_a_key_is_for_one_role() -> None:
    """As text and back; no other use of one is accepted."""
    key = ClusterKey.from_secret()
    run, worker = key.derive_key(Role.RUN), key.derive_key(Role.WORKER)
    assert ClusterKey.parse(str(key), Role.SCHEDULER) == key
    own = ClusterKey.parse("scheduler-" + 43 * "-" + "=", Role.SCHEDULER)
    assert ClusterKey.parse(str(own.derive_key(Role.RUN)), Role.RUN).scheduler == own.scheduler
    assert ClusterKey.parse(f"{run}\n", Role.RUN) == run
    for text, role, words in ((str(worker), Role.RUN, "is the key for a worker, and this is a run"),
                              (str(run), Role.WORKER, "is the key for a run"),
                              (str(run), Role.SCHEDULER, "is the key for a run"),
                              (str(run)[:-9], Role.RUN, "no key of a cluster"),
                              ("run-ä", Role.RUN, "no key"), ("boss-aa", Role.RUN, "no key")):
        with pytest.raises(UserError, match=words) as caught:
            ClusterKey.parse(text, role)
        assert "\n" not in str(caught.value) and str(worker) not in str(caught.value)


def test_a_key_is_kept_for_its_user_only(script: Script) -> None:
    """Where the same user's workers and runs find it; without it one line says what to do."""
    key = ClusterKey.from_secret()
    paths = keys.store_keys("tls://127.0.0.1:1", key)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o600, 0o600]
    for role in (Role.RUN, Role.WORKER):
        assert keys.find_key("tls://127.0.0.1:1", role) == key.derive_key(role)
    for path in paths:
        path.unlink()
    with pytest.raises(UserError, match="no key for this cluster here; put QOP_CLUSTER_KEY="):
        keys.find_key("tls://127.0.0.1:1", Role.WORKER)


# --- What is unpickled, and what a lie costs ------------------------------------------------------


async def with_liars(script: Script, folder: Path, lies: Sequence[Lie]) -> Run:
    """A run on an honest worker and one for each lie, which tells it after its first repetition."""
    script.lies = list(lies)
    async with workers(len(lies) + 1) as cluster:
        measured = Run(folder, plan_of(2 * len(lies) + 2, 1), cluster.scheduler.address)
        async with asyncio.timeout(PATIENCE_S):
            await measured()
    assert len(script.liars) == len(lies)
    return measured


def assert_the_liars_alone_pay(script: Script, measured: Run) -> list[str]:
    """Liars are left out; what they had not sent is measured by the honest one. Why, of each."""
    records = measured.records()
    assert records.keys() == {step.name for step in measured.plan.all_steps()}
    assert all(entry.status == "ok" for entry in records.values())
    reasons = {line.split()[0]: line for line in measured.told if " is left out: " in line}
    assert len(reasons) == len(script.liars), reasons
    true = {script.measured[liar][0] for liar in script.liars}
    assert {name for name, entry in records.items()
            if entry.environment["worker"] in reasons} == true
    for name in records:
        [capture] = (measured.kept.captures / name).iterdir()
        assert (capture.name, capture.read_bytes()) == ("auth-mn.pcap.gz", name.encode())
    return sorted(reasons.values())


async def test_nothing_that_a_worker_pickled_is_unpickled(script: Script, tmp_path: Path) -> None:
    """Neither by the scheduler nor by the run, whichever way it comes; and the run goes on."""
    fuse = tmp_path / "unpickled"
    measured = await with_liars(script, tmp_path / "out", made_up.bombs(fuse))
    assert not fuse.exists()
    assert_the_liars_alone_pay(script, measured)


@pytest.mark.parametrize("bomb", [0, 2])
async def test_without_the_guard_it_would_be(script: Script, tmp_path: Path, bomb: int,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: dask by itself unpickles what a worker sends."""
    monkeypatch.setattr(guard, "refuse_pickles", lambda: None)
    monkeypatch.setattr(guard, "restrict_worker_messages", lambda _: None)
    fuse = tmp_path / "unpickled"
    task = asyncio.create_task(with_liars(script, tmp_path / "out", [made_up.bombs(fuse)[bomb]]))
    await asyncio.wait({task, asyncio.create_task(comes(fuse.exists, task))},
                       return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert fuse.exists()


@pytest.mark.parametrize("is_guarded", [True, False])
async def test_nor_is_the_first_thing_that_it_says(script: Script, tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch, *,
                                                   is_guarded: bool) -> None:
    """Before anybody knows who it is; without the guard it would be."""
    if not is_guarded:
        monkeypatch.setattr(guard, "refuse_pickles", lambda: None)
    fuse = tmp_path / "unpickled"
    async with workers(0) as cluster:
        arguments = cluster.key.derive_key(Role.WORKER).tls_security().get_connection_args("worker")
        comm = await get_backend("tls").get_connector().connect(
            cluster.scheduler.address.removeprefix("tls://"), **arguments)
        await comm.write(ToPickle(made_up.Bomb(fuse)))
        with contextlib.suppress(OSError):
            await comm.read()  # the scheduler's own first words
            # It hangs up, or is blown up and knows no further.
            await asyncio.wait_for(comm.read(), PATIENCE_S if is_guarded else 1.0)
        comm.abort()
    assert fuse.exists() is not is_guarded


async def test_a_worker_commands_nobody(script: Script, tmp_path: Path) -> None:
    """What is not a worker's to say ends its connection, and costs the others nothing."""
    measured = await with_liars(script, tmp_path, [
        lambda _: [{"op": "update-graph", "client": "x", "keys": set()}],
        lambda _: [{**said({}), "worker": "tls://127.0.0.1:1"}],
        lambda _: [{"op": "cancel-keys", "keys": [made_up.under_way()], "client": "",
                    "force": True}],
        lambda _: [{"op": "log-event", "topic": "warn", "msg": {"message": b""}}],
        lambda _: [{"op": "log-event", "topic": ["all"], "msg": {}}]])
    for line in assert_the_liars_alone_pay(script, measured):
        assert "the worker is gone" in line


async def test_a_worker_that_stalls_is_left_out(script: Script, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there and says nothing any more: the honest one measures its steps."""
    monkeypatch.setattr(campaign, "STALLED_S", 1.0)
    monkeypatch.setattr(campaign, "_SLOWER", 0.0)
    monkeypatch.setattr(connection, "_END_S", 0.0)  # it does not say its last word either
    measured = await with_liars(script, tmp_path, [lambda _: []])
    assert "it says nothing of its share any more" in "".join(
        assert_the_liars_alone_pay(script, measured))


async def test_a_lie_costs_the_liar_alone(script: Script, tmp_path: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out with what it said, and nothing is written where it wanted to."""
    monkeypatch.setattr(guard, "MESSAGE_BYTES", 16 << 20)
    measured = await with_liars(script, tmp_path / "out", [
        lambda share: [said(finding(share, step=made_up.of_another_worker(share)))],
        lambda share: [said(finding(share, captures={"../../x.gz": b""}))],
        lambda share: [said(finding(share, step=first(share)))],
        lambda _: [said(end({f"a{number}.log": MEGABYTE for number in range(9)}))],
        # The scheduler hangs up before it makes room for it.
        lambda _: [said(end({"a.log": 20 * MEGABYTE}))]])
    reasons = assert_the_liars_alone_pay(script, measured)
    for words in ("which is not of its share", "'../../x.gz'", "a second time", "8 MB of logs",
                  "the worker is gone"):
        assert sum(words in reason for reason in reasons) == 1, (words, reasons)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


MEGABYTE = bytes(1 << 20)


def first(share: Share) -> Step:
    """The first step of a share."""
    return next(iter(share.steps.values()))


def end(logs: dict[str, bytes], broken: str = "") -> dict[str, object]:
    """The end of a share, with logs."""
    return {"kind": "end", "broken": broken, "logs": logs}


LIES: dict[str, Callable[[Share], Sequence[dict[str, object]]]] = {
    "which is not of its share": lambda share: [
        finding(share, step=made_up.of_another_worker(share))],
    "another cell": lambda share: [finding(share, {"cell": {
        "policy": f"{first(share).cell.ids['policy']}-N2"}})],
    "another level's content": lambda share: [finding(share, {"digests": {"policy": "d" * 64}})],
    "other settings": lambda share: [finding(share, {"asked": {}})],
    "another machine": lambda share: [finding(share, {"environment": {"machine": "host"}})],
    "another study": lambda share: [finding(share, {"study": StudyRecord(id="x", version=1)})],
    "a reason that is not text": lambda share: [finding(share, {"reason": "\x1b[2J"})],
    "not a record": lambda share: [finding(share, record="[" * 9999)],
    "'../../x.gz'": lambda share: [finding(share, captures={"../../x.gz": b""})],
    "'/tmp/x'": lambda share: [finding(share, captures={"/tmp/x": b""})],
    "'..'": lambda share: [finding(share, {"files": [".."]}, files={"..": b""})],
    "'a/x'": lambda share: [finding(share, {"files": ["a/x"]}, files={"a/x": b""})],
    "'x.sh'": lambda share: [finding(share, files={"x.sh": b""})],
    "'x.html'": lambda share: [finding(share, {"files": ["x.html"]}, files={"x.html": b""})],
    "'../../x.log'": lambda _: [end({"../../x.log": b""})],
    "'/x.log'": lambda _: [end({"/x.log": b""})],
    "'report.html'": lambda _: [end({"report.html": b"<script>"})],
    "8 MB of logs": lambda _: [end({f"a{number}.log": MEGABYTE for number in range(9)})],
    "ended a second time": lambda _: 2 * [end({})],
    "do not end": lambda _: 1000 * [{"kind": "event", "event": {
        "event": "testbed-ready", "testbed": "P1"}}],
    "that there is not": lambda _: [{"kind": "event", "event": {
        "event": "worker-joined", "line": "x"}}],
    "of an event": lambda _: [{"kind": "event", "event": {
        "event": "testbed-lost", "testbed": "P1", "reason": 5}}],
    "a repetition that is not": lambda _: [{"kind": "event", "event": {
        "event": "repetition-measured", "name": "P2-N2-001", "lasted_s": 1.0}}],
    "a testbed that is not": lambda _: [{"kind": "event", "event": {
        "event": "testbed-ready", "testbed": "x"}}],
    "nobody does": lambda _: [{"kind": "exec", "code": "1"}],
    "description": lambda _: [{
        "kind": "identity", "code": "", "images": {}, "processors": 1,
        "description": '{"x": "' + (1 << 18) * "x" + '"}'}]}


def heard(share: Share, documents: Sequence[dict[str, object]]) -> None:
    """Hear what a worker says of a share."""
    hearing = received.ShareHearing(share)
    for document in documents:
        message = received.parse_message(document)
        if isinstance(message, received.SentFinding):
            hearing.mark_stored(hearing.accept_record(message))
        elif isinstance(message, received.Happened):
            hearing.accept_event(message.event)
        elif isinstance(message, received.Ended):
            hearing.accept_end(message)


@pytest.mark.parametrize("words", LIES)
def test_lies(script: Script, words: str) -> None:
    """Each is found out for its own reason, on one line; the same without the lie is not."""
    plan = plan_of(2, 2)

    def share() -> Share:
        made = Share(plan)
        made.add_steps(step for step in plan.all_steps() if step.cell.ids["policy"] == "P1")
        return made

    heard(share(), [finding(share()), {"kind": "event", "event": {
        "event": "testbed-ready", "testbed": "P1"}}, end({"a/b.log": b""})])
    with pytest.raises(received.InvalidWorkerMessage) as caught:
        heard(share(), LIES[words](share()))
    assert words in str(caught.value) and str(caught.value).isprintable()


class OneWorker:
    """A cluster whose worker says this of its share."""

    def __init__(self, *said: dict[str, object]) -> None:
        self._said = said

    async def run_on_worker(self, *_: object, **__: object) -> AsyncGenerator[dict[str, object]]:
        """What it says."""
        for message in self._said:
            yield message


def places(document: object, *before: str | int) -> Iterator[tuple[str | int, ...]]:
    """Where values stand in a document, by the keys that lead there."""
    pairs = document.items() if isinstance(document, dict) else \
        enumerate(document) if isinstance(document, list) else ()
    for key, value in pairs:
        yield (*before, key)
        yield from places(value, *before, key)


ODD = (None, 5, -1, float("nan"), float("inf"), 10**400, "", "x", "\x1b[2J", "\ud800", [], [5],
       ["\x1b[2J"], {}, {"a": []}, 70000 * "x")


@settings(max_examples=250)
@given(data=st.data())
def test_whatever_a_worker_says_ends_no_run(data: st.DataObject) -> None:
    """One value of what it says is odd: it is taken, or it is a lie; and no step is lost."""
    plan = plan_of(1, 2)
    share = Share(plan)
    share.add_steps(plan.all_steps())
    step = first(share)
    messages = [{"kind": "event", "event": {
        "event": kind, **{name: given_as for name, given_as in (
            ("testbed", "P1"), ("name", step.name), ("reason", "why"), ("attempt", 1),
            ("exclusive", False), ("processor", 0), ("lasted_s", 1.5)) if name in fields}}}
        for kind, fields in received._EVENTS.items()]
    messages += [finding(share, step=step), end({"a.log": b"x"})]
    messages[-2]["record"] = json.loads(str(messages[-2]["record"]))
    *way, last = data.draw(st.sampled_from([*places(messages)]).filter(lambda way: len(way) > 1))
    spoiled: Any = messages
    for key in way:
        spoiled = spoiled[key]
    spoiled[last] = data.draw(st.sampled_from(ODD))
    if isinstance(messages[-2].get("record"), dict):
        messages[-2]["record"] = json.dumps(messages[-2]["record"])
    with tempfile.TemporaryDirectory() as place:
        folder = results.ResultsFolder(Path(place))
        shown = Progress(plan, Path(place))
        run = campaign.ClusterCampaign(plan, "", folder, EventLog(Path(place), shown.show_event))
        run._cluster = OneWorker(*messages)
        hearing = received.ShareHearing(share)
        with contextlib.suppress(received.InvalidWorkerMessage):
            asyncio.run(run._receive_messages(ClusterWorker("worker-1", "tls://192.0.2.1:1"),
                                              hearing))
        kept, complaints = record.read_records(folder.records)
        assert not complaints
        assert {each.name for each in kept} | share.steps.keys() == {
            each.name for each in plan.all_steps()}


async def test_what_nobody_listens_to_is_not_kept(script: Script, tmp_path: Path) -> None:
    """Of a worker that speaks to topics of its own making, the scheduler remembers none."""
    script.lies = [lambda _: [{"op": "log-event", "topic": f"{guard.TOPIC}{number}",
                               "msg": {"x": MEGABYTE}} for number in range(8)] + [said({})]]
    async with workers(2) as cluster:
        await Run(tmp_path, plan_of(), cluster.scheduler.address)()
        topics = cluster.scheduler._broker._topics
        assert not [name for name in topics if len(name) < 16 and name.startswith(guard.TOPIC)]
        assert not [topic for topic in topics.values() if topic.events]
    assert len(script.liars) == 1


# --- No finished record is lost with a worker -----------------------------------------------------


async def lend(address: str, folder: Path) -> None:
    """Be a worker, as long as its scheduler is there."""
    with dask.config.set(extra.SETTINGS):
        key = keys.find_key(address, Role.WORKER)
        async with PlainWorker(address, key=key, local_directory=str(folder)) as worker:
            await worker.finished()


def _lend(told: Connection, folder: Path) -> None:
    address, made_up.SCRIPT.dies_before_sending = told.recv()
    asyncio.run(lend(address, folder))


@dataclass
class LendingProcess:
    """A worker that is a process of its own, once it is told where."""

    process: ForkProcess
    tell: Connection


@pytest.fixture
def lending(script: Script, tmp_path: Path) -> Iterator[list[LendingProcess]]:
    """Two of them, forked before there is any loop."""
    there = []
    for _ in range(2):
        ours, theirs = multiprocessing.Pipe()
        process = ForkProcess(target=_lend, args=(theirs, tmp_path / "lending"))
        process.start()
        there.append(LendingProcess(process, ours))
    yield there
    for each in there:
        each.process.kill()
        each.process.join()


async def test_what_a_killed_worker_had_finished_is_sent_by_the_next(
        lending: list[LendingProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed by its pid between the record's last byte and its sending: measured once all the same.

    The worker that comes after it on its machine sends that very record, and measures the rest.
    """
    monkeypatch.setattr(campaign, "WAIT_S", PATIENCE_S)
    first, second = lending
    async with workers(0) as cluster:
        address = cluster.scheduler.address
        first.tell.send((address, "P1-N2-002"))
        measured = Run(tmp_path / "out", plan_of(2), address)
        task = asyncio.create_task(measured())
        await comes(lambda: not first.process.is_alive(), task)
        assert first.process.exitcode == -signal.SIGKILL
        before = set(measured.records())
        assert "P1-N2-002" not in before
        second.tell.send((address, ""))
        records = await task
    assert records.keys() == {step.name for step in measured.plan.all_steps()}
    assert {name for name, entry in records.items()
            if entry.environment["pid"] == first.process.pid} == {*before, "P1-N2-002"}
    assert records["P1-N2-002"].environment["worker"] == "worker-2"
    assert not list((cache_root() / "cluster" / "spool").glob("*"))
