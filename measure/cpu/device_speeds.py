"""Slow the nodes of a test network down to the speed of given processors (devices).

In a guest with the processor clock, a node's time passes with the CPU time that its programs use. A
device file states how long an operation takes on a processor, as published. `measure_speeds` times
the same operations on this machine. `apply_devices` takes both, and writes their ratios into the
guest's kernel, which multiplies each node's CPU time by them. There is one factor per kind of work,
such as ciphers or hashes. It returns a description of the factors for the records. This runs inside
the guest.
"""

from __future__ import annotations

import base64
import mmap
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.agent import kernel_state
from topologies.device import STANDS_FOR

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

#: Runs of each operation. The least time counts, because disturbance only adds time.
_TIMES = 9
_BYTES = 1 << 16
_SIGNATURES = 8
#: Rounds until a running mean of the guest's kernel has converged: it takes in 1/8 per 32 rounds.
_ROUNDS = 2048


def measure_speeds() -> dict[str, float]:
    """Return how long standard operations take on this machine (in s), and a system call."""
    return {**read_machine_speeds(), **read_switching_times()}


def apply_devices(testbed: Testbed, devices: Mapping[str, Mapping[str, Any]],
                  machine: Mapping[str, float]) -> dict[str, str]:
    """Slow nodes down to the speed of their devices (processor models).

    Args:
        testbed: The running testbed.
        devices: Device documents by node.
        machine: This machine's speeds, as `measure_speeds` returns them.

    Returns:
        A description of each node's factors, for its records.
    """
    given = {}
    for node, device in devices.items():
        thousandths = device_permille(device["work"], machine)
        entry_ns, fault_ns = constants_ns(device["work"], machine)
        testbed.run_command(node, ["sysctl", "-qw",
                                   f"net.core.processor_permille={' '.join(map(str, thousandths))}",
                                   f"net.core.processor_entry_ns={entry_ns}",
                                   f"net.core.processor_fault_ns={fault_ns}"])
        factors = (f"{kind} x{value / 1000:g}"
                   for kind, value in zip(STANDS_FOR, thousandths, strict=True))
        given[f"device_{node}"] = (f"{device['name']}: {', '.join(factors)}, beside its work a "
                                   f"system call {entry_ns} ns, a page fault {fault_ns} ns")
    return given


def constants_ns(work: Mapping[str, Mapping[str, Any]],
                 switching: Mapping[str, float]) -> tuple[int, int]:
    """Return the additional time of a system call and of a page fault on a device (ns).

    A device states the cost of a system call in seconds, or as a factor of this machine's. The
    factor applies to the page fault, too. Without a statement both costs are 0.

    Args:
        work: The device's `work`.
        switching: This machine's cost, as `read_switching_times` returns it.
    """
    call = work.get("system-call", {})
    if factor := call.get("factor"):
        return round(factor * switching["entry_ns"]), round(factor * switching["fault_ns"])
    return round((call.get("seconds") or 0) * 1e9), 0


def device_permille(work: Mapping[str, Mapping[str, Any]],
                    machine: Mapping[str, float]) -> list[int]:
    """Return how much slower a device is than this machine, in thousandths, by kind of work.

    The kinds are in the order of the kernel.

    Args:
        work: The device's `work`.
        machine: This machine's times, as `read_machine_speeds` returns them.

    Raises:
        KeyError: The device states nothing of a kind, which the error names.
    """
    return [round(_device_factor(kind, operation, work, machine) * 1000)
            for kind, operation in STANDS_FOR.items()]


def _device_factor(kind: str, operation: str, work: Mapping[str, Mapping[str, Any]],
                   machine: Mapping[str, float]) -> float:
    if factor := work.get(kind, {}).get("factor"):
        return float(factor)
    figure = work.get(operation, {})
    if seconds := figure.get("seconds"):
        return float(seconds) / machine[operation]
    if bytes_per_s := figure.get("bytes_per_s"):
        return 1 / float(bytes_per_s) / machine[operation]
    raise KeyError(kind)


def read_machine_speeds() -> dict[str, float]:
    """Return how long the standard operations take here, in s per operation or per byte."""
    return {"sha256-in-c": _worked_s(_hash_workload()) / _BYTES,
            "aes-128-in-c": _worked_s(_encrypt_workload()) / _BYTES,
            "rsa-1024-private": _worked_s(_sign_workload()) / _SIGNATURES}


def read_switching_times() -> dict[str, float]:
    """Return how long User-Mode Linux takes for a system call and for a page fault, in ns.

    The guest's kernel estimates the cost from equal rounds. The median of several estimates counts,
    because an estimate can be too low or too high (6.6 us where all other testbeds had 8).
    """
    return {name: sorted(_switching_ns(rounds) for _ in range(_TIMES))[_TIMES // 2]
            for name, rounds in (("entry_ns", _make_system_calls), ("fault_ns", _make_page_faults))}


def _switching_ns(rounds: Callable[[], object]) -> float:
    rounds()
    learnt = kernel_state.processor_clock()
    return float(learnt["kernel_switching_ns"]) + float(learnt["stub_switching_ns"])


def _make_system_calls() -> None:
    for _ in range(_ROUNDS):
        os.getppid()


def _make_page_faults() -> None:
    size = mmap.PAGESIZE
    with mmap.mmap(-1, _ROUNDS * size) as memory:
        for page in range(_ROUNDS):
            memory[page * size] = 1


def write_library(library: str, file: Path) -> Path:
    """Write a library that is given in base 64 to a file, and return the file."""
    file.write_bytes(base64.b64decode(library))
    return file


def _worked_s(work: Callable[[], object]) -> float:
    least = float("inf")
    for _ in range(_TIMES):
        before = _worked_ns()
        work()
        least = min(least, (_worked_ns() - before) / 1e9)
    return least


def _worked_ns() -> int:
    return int(kernel_state.processor_clock()["work_total_ns"])


def _hash_workload() -> Callable[[], object]:
    """Return a function that computes SHA-256 in the kernel, by its compiled C code."""
    data, taking = bytes(_BYTES), _kernel_cipher("hash", "sha256")

    def work() -> object:
        taking.sendall(data)
        return taking.recv(32)

    return work


def _encrypt_workload() -> Callable[[], object]:
    """Return a function that encrypts with AES-128 in the kernel."""
    data, taking = bytes(_BYTES), _kernel_cipher("skcipher", "ecb(aes)", bytes(16))

    def work() -> object:
        taking.sendmsg_afalg([data], op=socket.ALG_OP_ENCRYPT)
        return taking.recv(_BYTES)

    return work


def _kernel_cipher(kind: str, name: str, key: bytes = b"") -> socket.socket:
    listener = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
    listener.bind((kind, name))
    if key:
        listener.setsockopt(socket.SOL_ALG, socket.ALG_SET_KEY, key)
    return listener.accept()[0]


def _sign_workload() -> Callable[[], object]:
    """Return a function that signs with an RSA key in OpenSSL, as daemons do."""
    # Imported here only: nothing else in the worker needs it, and it loads slowly.
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    key = rsa.generate_private_key(65537, 1024)  # noqa: S505 - it protects nothing

    def work() -> object:
        for _ in range(_SIGNATURES):
            key.sign(b"", padding.PKCS1v15(), hashes.SHA256())
        return None

    return work
