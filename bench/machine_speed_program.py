"""Program in a guest that times basic operations and the processor core, and prints JSON.

The program runs in real time in a guest that does nothing else. The fastest of several rounds
counts, because disturbances only add time.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Callable

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

ROUNDS = 15
PAGE, PAGES, MEGABYTE = 4096, 256, 1 << 20


def time_fastest_round(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest of several rounds of a function."""
    least = float("inf")
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - begun)
    return least


def system_calls() -> None:
    """Make a thousand of the cheapest system calls."""
    for _ in range(1000):
        os.getppid()


def fork_and_exec() -> None:
    """Start a process that does nothing, and wait for its end."""
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


def page_faults() -> None:
    """Touch memory pages for the first time, which causes page faults."""
    with mmap.mmap(-1, PAGES * PAGE) as memory:
        for page in range(PAGES):
            memory[page * PAGE] = 1


def add_integers() -> None:
    """Do a million steps of integer arithmetic in the interpreter."""
    value = 0
    for number in range(1_000_000):
        value = (value * 5 + number) & 0xFFFF


def measure_core() -> dict[str, float]:
    """Return the speeds of a processor core, in a guest or outside."""
    encrypt = Cipher(algorithms.AES(bytes(16)), modes.CTR(bytes(16))).encryptor()
    data = bytes(MEGABYTE)
    return {"integers_million_per_s": 1 / time_fastest_round(add_integers),
            "aes_mb_per_s": 1 / time_fastest_round(lambda: encrypt.update(data)) * MEGABYTE / 1e6}


def main() -> None:
    """Print the speed of each operation by its name, which ends in its unit."""
    print(json.dumps({
        "system_call_us": time_fastest_round(system_calls) * 1e3,
        "fork_and_exec_ms": time_fastest_round(fork_and_exec) * 1e3,
        "page_fault_us": time_fastest_round(page_faults) / PAGES * 1e6,
        **measure_core()}))


if __name__ == "__main__":
    main()
