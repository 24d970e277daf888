"""Tests of measure.cpu.device_speeds: factors by kind of work, and who says what is of a kind."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from measure.charging import library
from measure.cpu import device_speeds
from topologies.device import STANDS_FOR, Device, Work
from topologies.loader import load_device

OWN = {"sha256-in-c": 4e-9, "aes-128-in-c": 1e-8, "rsa-1024-private": 1e-4}


def figures(**work: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A device's work, with underscores for hyphens."""
    return {operation.replace("_", "-"): figure for operation, figure in work.items()}


def test_factors_are_ratios_of_the_same_operation() -> None:
    """Seconds of an operation and bytes a second are each divided by this machine's own."""
    work = figures(sha256_in_c={"bytes_per_s": 2.5e6}, aes_128_in_c={"bytes_per_s": 1e6},
                   rsa_1024_private={"seconds": 0.05})
    assert device_speeds.device_permille(work, OWN) == [100_000, 500_000, 100_000, 100_000]


def test_stated_factor_goes_before_an_operation() -> None:
    """Where a device says how many times slower it is at a kind, nothing is derived."""
    work = figures(sha256_in_c={"bytes_per_s": 2.5e6}, aes_128_in_c={"bytes_per_s": 1e6},
                   rsa_1024_private={"seconds": 0.05}, public_key={"factor": 7.0})
    assert device_speeds.device_permille(work, OWN)[list(STANDS_FOR).index("public-key")] == 7000


@pytest.mark.parametrize(("call", "constants"), [
    ({}, (0, 0)), ({"seconds": 3e-6}, (3000, 0)), ({"factor": 2.0}, (13_000, 18_000))])
def test_system_calls_cost_what_the_device_says(call: dict[str, float],
                                                constants: tuple[int, int]) -> None:
    """In seconds, or so many times this machine's own switching; without a word their work alone.

    The neutral device takes this machine's own, as real time has it.
    """
    own = {"entry_ns": 6500.0, "fault_ns": 9000.0}
    assert device_speeds.constants_ns({"system-call": call} if call else {}, own) == constants
    neutral = {kind: {"factor": work.factor} for kind, work in load_device("today").work.items()}
    assert device_speeds.constants_ns(neutral, own) == (6500, 9000)


@pytest.mark.parametrize("kind", STANDS_FOR)
def test_device_that_says_nothing_of_a_kind(kind: str) -> None:
    """It is named, before a run (`unsaid`) and inside (KeyError)."""
    device = Device("slow", "slow", {other: Work("someone", factor=2.0)
                                     for other in STANDS_FOR if other != kind})
    assert device.missing_kinds() == [kind]
    with pytest.raises(KeyError, match=kind):
        device_speeds.device_permille({name: {"factor": work.factor} for name, work
                                       in device.work.items()},
                                      OWN)


@pytest.mark.parametrize("name", ["strongarm-206", "xscale-400", "pentium4-2600", "today"])
def test_devices_of_2007_say_all_kinds_with_a_source(name: str) -> None:
    """The paper's devices, and this machine, can be given to nodes."""
    device = load_device(name)
    assert device.missing_kinds() == []
    assert all(work.source for work in device.work.values())


def test_library_marks_public_key_work_and_nothing_else(tmp_path: Path) -> None:
    """A program that signs says so around it, back and forth; one that hashes says nothing."""
    kinds, told = tmp_path / "kinds.so", tmp_path / "told.so"
    kinds.write_bytes(base64.b64decode(library.compile_library(library.KINDS)))
    # Stands in the kernel's place: it writes what it is told.
    (tmp_path / "told.c").write_text("""
#include <stdio.h>
long syscall(long number, long what, long kind, long a, long b, long c)
{
    static long now;
    long before = now;
    (void)number; (void)a; (void)b; (void)c;
    if (what == 0x716f7001) { fprintf(stderr, "%ld", kind); now = kind; }
    return before;
}
""")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", told, tmp_path / "told.c"], check=True)
    program = """
import ctypes, sys
crypto = ctypes.CDLL("libcrypto.so.3")
context = crypto.BN_CTX_new
context.restype = new = ctypes.c_void_p
crypto.BN_new.restype = new
numbers = [ctypes.c_void_p(crypto.BN_new()) for _ in range(4)]
for value, number in zip((0, 3, 5, 7), numbers):
    crypto.BN_set_word(number, value)
if sys.argv[1] == "sign":
    used = ctypes.CDLL(None).BN_mod_exp
    used(*numbers, ctypes.c_void_p(context()))
    print(crypto.BN_is_word(numbers[0], 5))
"""
    for does, said in (("sign", "10"), ("hash", "")):
        done = subprocess.run(
            [sys.executable, "-c", program, does], capture_output=True, text=True, check=True,
            env={**os.environ, "LD_PRELOAD": f"{kinds} {told}"})
        assert done.stderr == said
        assert (done.stdout == "1\n") == (does == "sign")
