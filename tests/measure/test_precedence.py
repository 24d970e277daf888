"""Who is measured goes before who looks on: whom that is given to, and that it is taken back."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from measure.cpu import realtime_priority


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A worker, 1, of two threads; 2 with 3, and a capture, 4, with 5, are below it; 9 is not."""
    for number, parent, name, threads in ((1, 0, "worker", (1, 7)), (2, 1, "a (b) c", (2,)),
                                          (3, 2, "child", (3,)), (4, 1, "tcpdump", (4,)),
                                          (5, 4, "sh", (5,)), (9, 0, "init", (9,))):
        for thread in threads:
            (tmp_path / str(number) / "task" / str(thread)).mkdir(parents=True)
        (tmp_path / str(number) / "stat").write_text(f"{number} ({name}) S {parent} 1 1 0\n")
    return tmp_path


def test_a_family_is_all_threads_of_all_below(proc: Path) -> None:
    """Parents first; whoever looks on is left out, and nobody else's processes are in it."""
    assert realtime_priority.list_threads(1, proc=proc) == [1, 7, 2, 3, 4, 5]
    assert realtime_priority.list_threads(1, ["tcpdump"], proc) == [1, 7, 2, 3, 5]
    assert realtime_priority.list_threads(2, proc=proc) == [2, 3]


def test_the_kernels_workers_are_known_by_their_names(proc: Path) -> None:
    """Below the one that starts all of its threads; what it does besides is left alone."""
    for number, name in ((2, "kthreadd"), (31, "kworker/u4:2-wiphy"), (32, "ksoftirqd/0"),
                         (33, "rcu_sched")):
        (proc / str(number) / "task" / str(number)).mkdir(parents=True, exist_ok=True)
        (proc / str(number) / "comm").write_text(f"{name}\n")
        (proc / str(number) / "stat").write_text(f"{number} ({name}) S {2 if number > 2 else 0} 0")
    (proc / "3" / "comm").write_text("child\n")
    assert realtime_priority.kernel_workers(proc) == [31, 32]


def test_our_own_threads_are_found() -> None:
    """By the kernel's own tables."""
    over = threading.Event()
    beside = threading.Thread(target=over.wait)
    beside.start()
    try:
        assert {os.getpid(), beside.native_id} <= set(realtime_priority.list_threads(os.getpid()))
    finally:
        over.set()
        beside.join()


def test_it_is_taken_back(proc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where something fails, and from captures, too; who has ended is passed over."""
    calls: list[tuple[int, int, int]] = []

    def schedule(thread: int, policy: int, parameter: os.sched_param) -> None:
        if thread == 3:
            raise ProcessLookupError
        calls.append((thread, policy, parameter.sched_priority))

    family = realtime_priority.list_threads
    monkeypatch.setattr(realtime_priority, "kernel_workers", lambda: [77])
    monkeypatch.setattr(realtime_priority, "list_threads", lambda root,
                        but=(): family(root, but, proc))
    monkeypatch.setattr(os, "sched_setscheduler", schedule)
    monkeypatch.setattr(realtime_priority, "_SHARE", tmp_path / "share")
    (tmp_path / "share").write_text("950000\n")
    with suppress(KeyError), realtime_priority.real_time_priority(1, ["tcpdump"]):
        assert calls == [(77, os.SCHED_FIFO, 2)] + [
            (thread, os.SCHED_FIFO, 1) for thread in (1, 7, 2, 5)]
        assert (tmp_path / "share").read_text() == "-1"
        calls.clear()
        raise KeyError
    assert calls == [(thread, os.SCHED_OTHER, 0) for thread in (1, 7, 2, 4, 5, 77)]
    assert (tmp_path / "share").read_text() == "950000\n"
