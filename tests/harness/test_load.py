"""Was the processor the limit? Samples of a process, and the verdict on a repetition."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from guest.processes import list_programs
from harness.engine import cpu_contention
from harness.engine.cpu_contention import CpuWaitSampler
from studies.qop2007.measurements import STAGES

LIMITS = {stage.name: stage.limit for stage in STAGES}
STAMPS = {"start": 100.0, "first_packet": 101.0, "tcp_start": 101.0, "tcp_end": 103.0,
          "udp_start": 103.0, "udp_end": 104.0, "end": 104.0}


def judge(waits: CpuWaitSampler, stamps: dict[str, float],
          *earlier: dict[str, float]) -> dict[str, Any]:
    """The verdict by the stages of the 2007 study; `earlier` are the stamps of its parts."""
    raw: dict[str, Any] = {"stamps": stamps}
    if earlier:
        raw["parts"] = {str(number): {"stamps": each} for number, each in enumerate(earlier)}
    return cpu_contention.judge_contention(waits, raw, STAGES)


def waits_of(waited_until_s: dict[float, float]) -> CpuWaitSampler:
    """A process seen from 99 to 105 s; it had waited so long by each of the given moments."""
    waits = CpuWaitSampler(0)
    total = 0.0
    for step in range(61):
        at = 99 + step / 10
        total = waited_until_s.get(round(at, 1), total)
        waits.at.append(at)
        waits.unseen.append((at - 99) * 0.01)
        waits.ran.append((at - 99) * 0.2)
        waits.waited.append(total)
    return waits


def test_shares_are_of_the_time_asked_for() -> None:
    """Half a second of waiting in the UDP stream is half of that second, and nobody else's."""
    judged = judge(waits_of({103.5: 0.5}), STAMPS)
    assert judged["udp_wait_share"] == pytest.approx(0.5, abs=0.06)
    assert judged["tcp_wait_share"] == judged["authentication_wait_share"] == 0
    assert judged["ran_share"] == pytest.approx(0.2, abs=0.01)
    assert judged["unseen_share"] == pytest.approx(0.01, abs=0.001)
    assert judged["limits"] == ["udp"]


def test_each_authentication_is_a_window_of_its_own() -> None:
    """An authentication that waited flags its repetition, however quiet the others were."""
    last = STAMPS | {"start": 100.6}
    first = {"start": 99.2, "first_packet": 99.6}
    second = {"start": 99.9, "first_packet": 100.3}
    disturbed = waits_of({100.1: 0.3})
    assert judge(disturbed, last, first, second)["limits"] == ["authentication"]
    # Between two authentications, waiting keeps neither of them.
    assert judge(waits_of({99.8: 0.1}), last, first, second)["limits"] == []
    # Judged as one window from the first start to the last end, it would have passed unseen.
    assert judge(disturbed, STAMPS | {"start": 99.2})["limits"] == []


@pytest.mark.parametrize("name", ["authentication", "tcp", "udp"])
def test_what_stays_below_its_limit_is_not_flagged(name: str) -> None:
    """A little waiting is part of every machine."""
    begin, lasts = {"authentication": (100.0, 1), "tcp": (101.0, 2), "udp": (103.0, 1)}[name]
    for factor, limits in ((0.5, []), (1.6, [name])):
        waited = LIMITS[name] * lasts * factor
        assert judge(waits_of({begin + 0.5: waited}), STAMPS)["limits"] == limits


def test_a_repetition_that_broke_off_is_judged_as_far_as_it_got() -> None:
    """No stream, no verdict on it."""
    judged = judge(waits_of({}), {"start": 100.0, "end": 100.5})
    assert set(judged) == {"ran_share", "unseen_share", "limits", "severity"}


def test_roaming_counts_the_second_stay_as_getting_on() -> None:
    """What the processor did to the handoff is what it did to the authentication."""
    stamps = {**STAMPS, "handoff": 100.4, "foreign_first_packet": 101.0, "first_packet": 100.3}
    assert judge(waits_of({100.8: 0.9}), stamps)["limits"] == ["authentication"]


def test_nothing_seen_is_nothing_known() -> None:
    """A process that was never there has no shares."""
    unseen = CpuWaitSampler(2**22 + 1)
    unseen.take_sample()
    assert unseen.at == [] and unseen.run_and_wait_shares(0, 1) == (0.0, 0.0)


def test_a_process_that_is_kept_from_running_is_seen_waiting() -> None:
    """Two busy processes on one processor: each waits about half of the time. Real counters."""
    core = str(min(os.sched_getaffinity(0)))
    busy = [subprocess.Popen(["taskset", "-c", core, sys.executable, "-c", "while True: pass"])
            for _ in range(3)]
    try:
        waits = CpuWaitSampler(busy[0].pid)

        async def watch() -> None:
            task = asyncio.create_task(waits.sample_until_cancelled())
            await asyncio.sleep(1.5)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        time.sleep(0.2)
        asyncio.run(watch())
        ran, waited = waits.run_and_wait_shares(waits.at[0], waits.at[-1])
        assert ran < 0.7 and waited > 0.3
    finally:
        for process in busy:
            process.send_signal(signal.SIGKILL)
            process.wait()


def test_waiting_of_programs_counts_as_the_machines() -> None:
    """A kernel that sleeps while its program waits has waited, also once that has ended."""
    core = str(min(os.sched_getaffinity(0)))
    loop = f"taskset -c {core} {sys.executable} -c 'while True: pass'"
    others = [subprocess.Popen(["taskset", "-c", core, sys.executable, "-c", "while True: pass"])
              for _ in range(2)]
    machine = subprocess.Popen(["sh", "-c", f"{loop} & echo $!; wait"], stdout=subprocess.PIPE,
                               text=True)
    assert machine.stdout is not None
    program = int(machine.stdout.readline())
    try:
        waits = CpuWaitSampler(machine.pid)
        for _ in range(30):
            waits.take_sample()
            time.sleep(0.05)
        ran, waited = waits.run_and_wait_shares(waits.at[0], waits.at[-1])
        assert ran < 0.7 and waited > 0.3
        before = waits.waited[-1]
        os.kill(program, signal.SIGKILL)
        time.sleep(0.2)
        waits._read_programs([program])
        waits.take_sample()
        assert waits.waited[-1] >= before
    finally:
        for process in (*others, machine):
            process.send_signal(signal.SIGKILL)
            process.wait()
        machine.stdout.close()


MACHINE = """
import subprocess, sys
for line in sys.stdin:
    subprocess.Popen([sys.executable, "-c", line.replace(";", chr(10))]).wait()
    print("gone", flush=True)
"""
SPINS = """
import signal, time
while time.process_time() < 0.2: pass
print("spun", flush=True)
if {stays}: signal.pause()
"""


@pytest.mark.parametrize("stays", [False, True])
def test_programs_that_come_and_go_between_looks_are_told_of(stays: bool) -> None:
    """What they ran their parent knows: it is told, but of one that was looked at before it went.

    Real counters: a program that has spun for 0.2 s and is gone, one that stays to be looked at.
    """
    machine = subprocess.Popen([sys.executable, "-c", MACHINE], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert machine.stdin is not None and machine.stdout is not None
    try:
        waits = CpuWaitSampler(machine.pid)
        waits.take_sample()
        begun = waits.at[-1]
        print(SPINS.format(stays=stays).strip().replace("\n", ";"), file=machine.stdin, flush=True)
        assert machine.stdout.readline() == "spun\n"
        if stays:
            waits.take_sample()
            os.kill(*list_programs(machine.pid), signal.SIGKILL)
        assert machine.stdout.readline() == "gone\n"
        waits.take_sample()
        unseen_s = waits.unseen_share(begun, waits.at[-1]) * (waits.at[-1] - begun)
        assert (unseen_s < 0.1) is stays
    finally:
        machine.kill()
        machine.wait()
        machine.stdin.close()
        machine.stdout.close()
