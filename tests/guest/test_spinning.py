"""Nothing spins in virtual time without its clock moving, nor for want of memory: real guests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from conftest import PATIENCE_S
from guest.boot import read_guest_clock
from guest.image import GuestImage, ensure_image
from guest_bench import Bench
from harness.engine import clock_watchdog
from harness.engine.machine import TESTBED_PYTHON

pytestmark = pytest.mark.guest

#: Ways to wait for another process without sleeping; each is done over and over.
SPINS = """
import ctypes, json, mmap, os, select, signal, socket, sys, time

libc = ctypes.CDLL(None)
flag = mmap.mmap(-1, 1)
silent, _other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
poll, epoll = select.poll(), select.epoll()
poll.register(silent)
epoll.register(silent, select.EPOLLIN)

def receive():
    try:
        silent.recv(1, socket.MSG_DONTWAIT)
    except BlockingIOError:
        pass

def ping_pong():
    (mine, to_other), (others, to_me) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(to_other)
        while os.read(mine, 1):
            os.write(to_me, b"x")
        os._exit(0)
    os.close(mine)
    def turn():
        os.write(to_other, b"x")
        os.read(others, 1)
    return turn

KINDS = {"poll": lambda: poll.poll(0), "epoll_wait": lambda: epoll.poll(0),
         "select": lambda: select.select([silent], [], [], 0),
         "sched_yield": lambda: libc.sched_yield(), "recv": receive, "clock": time.monotonic,
         "getppid": os.getppid, "ping-pong": ping_pong()}

def wait(kind):
    flag[0] = 0
    begin = time.monotonic()
    if os.fork() == 0:
        for _ in range(10):
            time.sleep(0.01)
        flag[0] = 1
        os._exit(0)
    while not flag[0]:
        kind()
    os.wait()
    return time.monotonic() - begin

for name, kind in KINDS.items():
    print(json.dumps([name, wait(kind)]), flush=True)
os._exit(0)
"""
#: A program fills the memory; its parent reads how many pages of files are left after each MB.
FILLS = """
import json, os, re, signal

def file_kb():
    text = open("/proc/meminfo").read()
    return sum(int(kb) for kb in re.findall(r"^(?:Active|Inactive)\\(file\\): +(\\d+)", text, re.M))

told, tell = os.pipe()
child = os.fork()
if child == 0:
    taken = []
    while True:
        taken.append(bytearray(os.urandom(4096) * 256))
        os.write(tell, b"x")
os.close(tell)
left = []
while os.read(told, 1):
    left.append(file_kb())
print(json.dumps([min(left), os.waitpid(child, 0)[1]]))
"""


@pytest.fixture(scope="session")
def image() -> GuestImage:
    """The real image, built if this machine has none."""
    return ensure_image()


@pytest.fixture
def bench(image: GuestImage, tmp_path: Path) -> Bench:
    """A place to boot guests at."""
    return Bench(image, tmp_path)


async def test_programs_that_spin_get_to_when_they_wait_for(bench: Bench) -> None:
    """Another process sleeps ten times for 10 ms: that passes, whatever the program calls.

    The scheduler gives the processor to whoever has slept within a tick or two of 10 ms, also after
    a hundred thousand calls of sched_yield.
    """
    (bench.job / "program.py").write_text(SPINS)
    output, end = await bench.run(str(TESTBED_PYTHON), "/host/program.py", clock="virtual")
    waited = dict(map(json.loads, output.splitlines()))
    assert end.ok, (bench.folder / "console.log").read_text()
    assert list(waited) == ["poll", "epoll_wait", "select", "sched_yield", "recv", "clock",
                            "getppid", "ping-pong"]
    for name, seconds in waited.items():
        assert 0.1 <= seconds < 0.4, name


async def test_program_that_takes_all_memory_is_ended_before_files_are_given_up(
        bench: Bench) -> None:
    """Those that run keep their pages: 16 MB of files stay, and the console tells who was ended."""
    (bench.job / "program.py").write_text(FILLS)
    output, end = await bench.run(str(TESTBED_PYTHON), "/host/program.py", clock="virtual")
    console = (bench.folder / "console.log").read_text()
    assert end.ok, console
    least_kb, status = json.loads(output)
    assert status == 9 and "Out of memory: Killed process" in console
    assert least_kb > 15 << 10


async def test_watch_ends_with_the_program_that_spins_without_its_kernel(
        bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """No clock moves where a program asks for nothing; the kernel tells both from outside."""
    monkeypatch.setattr(clock_watchdog, "REPORTED_AFTER_S", 1.0)
    monkeypatch.setattr(clock_watchdog, "_ASK_S", 0.5)
    monkeypatch.setattr(clock_watchdog, "_EVERY_S", 0.2)
    shown: list[clock_watchdog.Standstill | None] = []
    async with asyncio.timeout(PATIENCE_S), await bench.boot(
            str(TESTBED_PYTHON), "-c", "print('begun', flush=True)\nwhile True: pass",
            clock="virtual") as guest:
        await guest.stdout.readline()
        found = await clock_watchdog.watch_clock(guest.pid, shown.append, ended_s=3.0)
        clock = await read_guest_clock(guest.pid)
    assert found.program == "python3" and found.computed_s >= 3
    assert clock is not None and clock.at_s - (found.at_s or 0) < 0.05
    assert [each is not None for each in shown] == [True]
