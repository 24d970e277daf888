"""Measure the speed of this machine, to compare benchmark results between machines."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench import machine_speed_program
from guest.boot import boot_guest
from guest.image import GuestImage
from harness.engine import setup
from harness.engine.machine import TESTBED_PYTHON
from harness.errors import UserError

#: Microseconds of a system call in a guest on the machine where the benches' bounds were set.
REFERENCE_SYSTEM_CALL_US = 7.6
_DEADLINE_S = 120.0
_PROGRAM = "yardsticks.py"


@dataclass(frozen=True)
class MachineSpeeds:
    """The speeds of a guest's basic operations and of a processor core.

    The operations are a system call, fork and exec, and a page fault. A core's speed is measured by
    integer steps and AES.
    """

    system_call_us: float
    fork_and_exec_ms: float
    page_fault_us: float
    integers_million_per_s: float
    aes_mb_per_s: float

    @property
    def scale(self) -> float:
        """Return the cost of a system call relative to the machine for which bounds were set."""
        return self.system_call_us / REFERENCE_SYSTEM_CALL_US

    def format_line(self) -> str:
        """Return all speeds as one line of text, to be printed before results."""
        return (f"this machine: in a guest a system call takes {self.system_call_us:.1f} us, fork "
                f"and exec {self.fork_and_exec_ms:.1f} ms, a page fault {self.page_fault_us:.1f} "
                f"us; {_of_core(self.integers_million_per_s, self.aes_mb_per_s)}. Bounds are for "
                f"{REFERENCE_SYSTEM_CALL_US} us a system call, here x {self.scale:.2f}.")


def format_core_speed() -> str:
    """Return the speed of a core as text, measured in this process without a guest."""
    return f"this machine: {_of_core(**machine_speed_program.measure_core())}."


def _of_core(integers_million_per_s: float, aes_mb_per_s: float) -> str:
    return (f"a core does {integers_million_per_s:.0f} million interpreted integer steps and "
            f"{aes_mb_per_s:.0f} MB of AES-128 a second")


def measure_machine_speeds() -> MachineSpeeds:
    """Measure the speed of this machine in a guest, on its last processor.

    Raises:
        UserError: The guest fails.
    """
    machine = setup.make_embedded_machine()
    return measure_guest(machine.image, machine.processors[-1])


def measure_guest(image: GuestImage, cpu: int) -> MachineSpeeds:
    """Boot a guest that measures its own speed.

    Raises:
        UserError: The guest fails.
    """
    with tempfile.TemporaryDirectory(prefix="qop-yardsticks-") as folder:
        return MachineSpeeds(**json.loads(asyncio.run(_run_program(image, cpu, Path(folder)))))


async def _run_program(image: GuestImage, cpu: int, folder: Path) -> bytes:
    job = folder / "job"
    job.mkdir()
    shutil.copyfile(machine_speed_program.__file__, job / _PROGRAM)
    async with asyncio.timeout(_DEADLINE_S), await boot_guest(
            image, job, cpu=cpu, console_log=folder / "console.log", scratch=folder / "scratch",
            command=[str(TESTBED_PYTHON), f"/host/{_PROGRAM}"]) as guest:
        guest.stdin.close()
        output: bytes = await guest.stdout.read()
        end = await guest.wait()
    if not end.ok:
        raise UserError(f"yardsticks: {end.reason or f'status {end.status}'}", status=1)
    return output
