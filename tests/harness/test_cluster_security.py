"""A cluster is for those with its key; messages are data; no record is lost with a worker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import pickle
import signal
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, Security, Worker
from distributed.comm import connect
from distributed.protocol.serialize import ToPickle

import made_up_measuring as made_up
from conftest import PATIENCE_S
from guest.cache import cache_root
from harness.cluster import campaign, connection, dask_settings, security
from harness.cluster.security import ClusterKey
from harness.cluster.servers import TlsWorker, _start_scheduler
from harness.engine.results import ResultsFolder
from harness.engine.retries import WORKER_ATTEMPTS
from harness.errors import UserError
from made_up_cluster import Run, comes, plan_of, workers
from made_up_measuring import LINE, Script
from measure.records.record import Record

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


# --- Who is let in --------------------------------------------------------------------------------


class Uncertified(Security):  # type: ignore[misc]
    """Believes the scheduler, and shows no certificate at all."""

    def _get_tls_context(self, tls: dict[str, str], purpose: ssl.Purpose) -> ssl.SSLContext:
        context = ssl.create_default_context(purpose, cadata=tls["ca_file"])
        context.check_hostname = False
        return context


def believes_the_scheduler(key: ClusterKey) -> Security:
    """The scheduler does not believe it: its certificate is of another key."""
    other, own = ClusterKey.make_new().tls_security(), key.tls_security()
    other.tls_ca_file = own.tls_ca_file
    return other


STRANGERS: dict[str, Callable[[ClusterKey], Security]] = {
    "of another cluster": lambda _: ClusterKey.make_new().tls_security(),
    "of another secret": believes_the_scheduler,
    "no certificate": lambda key: Uncertified(tls_ca_file=key.tls_security().tls_ca_file),
    "no TLS": lambda _: Security()}


async def test_strangers_are_refused(script: Script) -> None:
    """Neither as a worker nor as a run; those with the cluster's own key are let in."""
    async with workers(0) as cluster:
        for name, secure in STRANGERS.items():
            security = secure(cluster.key)
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
                          security=cluster.key.tls_security()):
            assert len(cluster.scheduler.workers) == 1


async def test_workers_refuse_strangers(script: Script) -> None:
    """No program without the key can have a program run there."""
    async with workers(1) as cluster:
        for secure in (STRANGERS["of another cluster"], STRANGERS["of another secret"]):
            arguments = secure(cluster.key).get_connection_args("worker")
            with pytest.raises(OSError, match=r"Timed out|TLS|closed"):
                await connect(cluster.workers[0].address, timeout=0.5, **arguments)
        arguments = cluster.key.tls_security().get_connection_args("scheduler")
        await (await connect(cluster.workers[0].address, **arguments)).close()


async def test_key_of_another_cluster_is_refused_at_once(script: Script) -> None:
    """A scheduler that is not there yet is no reason to refuse the key."""
    async with workers(0) as cluster:
        address = cluster.scheduler.address
        await security.refuse_foreign_key(address, cluster.key)
        with pytest.raises(UserError, match="does not accept this key, which is another clust"):
            await security.refuse_foreign_key(address, ClusterKey.make_new())
    await security.refuse_foreign_key(address, cluster.key)


async def test_client_whose_scheduler_ends_logs_nothing(
        script: Script, caplog: pytest.LogCaptureFixture) -> None:
    """Dask logs a traceback of its own when it cannot connect again."""
    dask_settings.silence_logs()
    async with workers(0) as cluster:
        client = await Client(cluster.scheduler.address, asynchronous=True, timeout=0.5,
                              security=cluster.key.tls_security())
    caplog.clear()
    await asyncio.sleep(0.2)
    logging.getLogger("distributed.client").error("no connection")
    await client.close(timeout=0.5)
    assert not caplog.records


async def test_scheduler_on_a_port_in_use_is_one_line(script: Script) -> None:
    async with workers(0) as cluster, contextlib.AsyncExitStack() as stack:
        with pytest.raises(UserError, match=r"cannot listen there .*ddress already in use"):
            await _start_scheduler(cluster.scheduler.address, stack, print)


def test_key_is_a_text() -> None:
    """And back; what is no key is one line, which does not show it."""
    key = ClusterKey.make_new()
    assert ClusterKey.from_text(f"{key}\n") == key
    assert ClusterKey.from_text(43 * "-" + "=").secret[:3] == b"\xfb\xef\xbe"
    for text in (str(key)[:-9], "ä", "", f"run-{key}"):
        with pytest.raises(UserError, match="no key of a cluster") as caught:
            ClusterKey.from_text(text)
        assert "\n" not in str(caught.value) and str(key) not in str(caught.value)


def test_key_is_kept_for_its_user_only(script: Script) -> None:
    """Where the same user's workers and runs find it; without it one line says what to do."""
    key = ClusterKey.make_new()
    path = security.store_key("tls://127.0.0.1:1", key)
    assert path.stat().st_mode & 0o777 == 0o600
    assert security.find_key("tls://127.0.0.1:1") == key
    path.unlink()
    with pytest.raises(UserError, match="no key for this cluster here; put QOP_CLUSTER_KEY="):
        security.find_key("tls://127.0.0.1:1")


async def test_worker_that_stalls_is_left_out(script: Script, tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there and sends nothing any more: the other one measures its steps."""
    monkeypatch.setattr(campaign, "STALLED_S", 1.0)
    monkeypatch.setattr(campaign, "_SLOWER", 0.0)
    monkeypatch.setattr(connection, "_END_S", 0.0)  # it does not say its last word either
    script.stalls_after = 1
    async with workers(2) as cluster:
        measured = Run(tmp_path, plan_of(), cluster.scheduler.address)
        async with asyncio.timeout(PATIENCE_S):
            records = await measured()
    assert records.keys() == {step.name for step in measured.plan.all_steps()}
    [line] = [line for line in measured.told if " is left out: " in line]
    assert "it says nothing of its share any more" in line


# --- Messages of workers --------------------------------------------------------------------------


def test_message_is_plain_data_of_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoded and decoded alike; other objects, and too many bytes, are refused at both ends."""
    message = {"kind": "finding", "name": "P1-N2-001", "captures": {"a.gz": b"\xff"}, "lasted": 1.5}
    data = security.pack_message(message)
    assert security.unpack_message(data) == message
    with pytest.raises(TypeError):
        security.pack_message({"kind": "event", "path": Path("a")})
    monkeypatch.setattr(security, "MESSAGE_BYTES", len(data) - 1)
    with pytest.raises(UserError, match=f"P1-N2-001: {len(data)} bytes, more than a worker may"):
        security.pack_message(message)
    with pytest.raises(ValueError, match="its data is no message"):
        security.unpack_message(data)


@pytest.mark.parametrize("is_packed", [True, False])
async def test_no_message_of_a_worker_is_unpickled(script: Script, tmp_path: Path, *,
                                                   is_packed: bool,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor kept by the scheduler; without our encoding, dask would pickle and unpickle messages."""
    unpickled: list[bytes] = []
    real = pickle.loads

    def loads(data: Any, *arguments: Any, **options: Any) -> Any:
        """The real function; what it gets is noted."""
        unpickled.append(bytes(data))
        return real(data, *arguments, **options)

    monkeypatch.setattr(pickle, "loads", loads)
    if not is_packed:
        monkeypatch.setattr(security, "pack_message", ToPickle)
        monkeypatch.setattr(security, "unpack_message", dict)
    async with workers(1) as cluster:
        measured = Run(tmp_path, plan_of(2), cluster.scheduler.address)
        records = await measured()
        topics = cluster.scheduler._broker._topics
        assert any(name.startswith(security.TOPIC) for name in topics)
        assert not [name for name, topic in topics.items() if topic.events]
    assert records.keys() == {step.name for step in measured.plan.all_steps()}
    assert unpickled  # the share
    assert any(LINE in data for data in unpickled) is not is_packed


@pytest.mark.parametrize("data", [b"\xc1", b"", {"kind": "end", "broken": "", "logs": {}},
                                  security.pack_message({"broken": ""}),
                                  security.pack_message({"kind": "end", "broken": "", "logs": {
                                      "a.log": bytes(1 << 20)}})],
                         ids=["no MessagePack", "nothing", "no bytes", "no kind", "too large"])
async def test_worker_whose_data_is_no_message_is_left_out(
        script: Script, tmp_path: Path, data: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one line; the other one measures its steps."""
    monkeypatch.setattr(security, "MESSAGE_BYTES", (1 << 20) - 1)
    spoiled: list[str] = []
    real = security.pack_message

    def pack(message: Mapping[str, Any]) -> object:
        """The first record is replaced."""
        if message["kind"] != "finding" or spoiled:
            return real(message)
        spoiled.append(message["name"])
        return data

    monkeypatch.setattr(security, "pack_message", pack)
    async with workers(2) as cluster:
        measured = Run(tmp_path, plan_of(), cluster.scheduler.address)
        async with asyncio.timeout(PATIENCE_S):
            records = await measured()
    assert records.keys() == {step.name for step in measured.plan.all_steps()}
    assert all(entry.status == "ok" for entry in records.values())
    [line] = [line for line in measured.told if " is left out: " in line]
    assert "its data is no message of this version" in line
    assert spoiled[0] in records


async def test_repetition_that_is_too_large_is_recorded_as_failed(
        script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason says what to do; everything else is measured."""
    monkeypatch.setattr(security, "MESSAGE_BYTES", 1 << 20)
    real = made_up.put

    def put(results: ResultsFolder, entry: Record) -> None:
        """One repetition has a large capture."""
        real(results, entry)
        if entry.name == "P2-N2-001":
            (results.captures / entry.name / "auth-mn.pcap.gz").write_bytes(bytes(1 << 20))

    monkeypatch.setattr(made_up, "put", put)
    async with workers(1) as cluster:
        measured = Run(tmp_path, plan_of(2), cluster.scheduler.address)
        async with asyncio.timeout(PATIENCE_S):
            records = await measured()
    assert records.keys() == {step.name for step in measured.plan.all_steps()}
    failed = records.pop("P2-N2-001")
    assert failed.status == "failed" and failed.attempt == WORKER_ATTEMPTS
    assert "bytes, more than a worker may send; measure it with '--captures none'" in failed.reason
    assert all(entry.status == "ok" for entry in records.values())


# --- No finished record is lost with a worker -----------------------------------------------------


async def lend(address: str, folder: Path) -> None:
    """Be a worker, as long as its scheduler is there."""
    with dask.config.set(dask_settings.DASK_SETTINGS):
        key = security.find_key(address)
        async with TlsWorker(address, key=key, local_directory=str(folder)) as worker:
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
