"""Gives nodes the processors of their devices, by the processor clock: a factor a kind of work.

A device states what an operation takes there, and by whom that was published; the same operation is
timed here, in work that the guest's kernel counts, and the ratio is the factor. Inside the machine.
"""

from __future__ import annotations

import base64
import mmap
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import kernel
from measure.errors import MeasureError
from topologies.device import STANDS_FOR

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

#: Each operation is timed so often, and the least counts: what disturbs only adds.
_TIMES = 9
_BYTES = 1 << 16
_SIGNATURES = 8
#: A mean that the guest's kernel keeps has followed by then: it takes an eighth of each 32 rounds.
_ROUNDS = 2048


def speeds() -> dict[str, float]:
    """What this machine takes for the standing operations, and its switching, for `give`."""
    return {**this_machine(), **this_switching()}


def give(testbed: Testbed, devices: Mapping[str, Mapping[str, Any]],
         own: Mapping[str, float]) -> dict[str, str]:
    """Slow the nodes down to their devices; what each was given, in words for its records.

    `own` is what `speeds` said of this machine.
    """
    given = {}
    for node, device in devices.items():
        thousandths = permille(device["work"], own)
        entry_ns, fault_ns = constants_ns(device["work"], own)
        testbed.run(node, ["sysctl", "-qw",
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
    """What a system call and a page fault take beside their work; `switching` is this machine's.

    A device states its system call's in seconds, or how many times this machine's own it takes; the
    page fault's goes with that. Where it says nothing, both cost their work alone.
    """
    call = work.get("system-call", {})
    if factor := call.get("factor"):
        return round(factor * switching["entry_ns"]), round(factor * switching["fault_ns"])
    return round((call.get("seconds") or 0) * 1e9), 0


def permille(work: Mapping[str, Mapping[str, Any]], own: Mapping[str, float]) -> list[int]:
    """Factors in thousandths, in the kernel's order of kinds; `own` is `this_machine`'s.

    Raises KeyError with a kind of which the device says nothing.
    """
    return [round(_factor(kind, operation, work, own) * 1000)
            for kind, operation in STANDS_FOR.items()]


def _factor(kind: str, operation: str, work: Mapping[str, Mapping[str, Any]],
            own: Mapping[str, float]) -> float:
    if factor := work.get(kind, {}).get("factor"):
        return float(factor)
    figure = work.get(operation, {})
    if seconds := figure.get("seconds"):
        return float(seconds) / own[operation]
    if bytes_per_s := figure.get("bytes_per_s"):
        return 1 / float(bytes_per_s) / own[operation]
    raise KeyError(kind)


def this_machine() -> dict[str, float]:
    """Seconds of work that the standing operations take here: one of each, or a byte of each."""
    return {"sha256-in-c": _worked_s(_hash()) / _BYTES,
            "aes-128-in-c": _worked_s(_encrypt()) / _BYTES,
            "rsa-1024-private": _worked_s(_sign()) / _SIGNATURES}


def this_switching() -> dict[str, float]:
    """Nanoseconds that User-Mode Linux' own switching takes here beside the work, by what for.

    Of rounds of the same, as the guest's kernel learns it; the median, for it learns too little as
    often as too much (6.6 us where all other testbeds had 8).
    """
    return {name: sorted(_switching_ns(rounds) for _ in range(_TIMES))[_TIMES // 2]
            for name, rounds in (("entry_ns", _call), ("fault_ns", _fault))}


def _switching_ns(rounds: Callable[[], object]) -> float:
    rounds()
    learnt = kernel.processor_clock()
    return float(learnt["kernel_switching_ns"]) + float(learnt["stub_switching_ns"])


def _call() -> None:
    for _ in range(_ROUNDS):
        os.getppid()


def _fault() -> None:
    size = mmap.PAGESIZE
    with mmap.mmap(-1, _ROUNDS * size) as memory:
        for page in range(_ROUNDS):
            memory[page * size] = 1


def preload(library: str, folder: Path) -> Path:
    """Put the library that says which work is public-key's where programs can load it."""
    if not library:
        raise MeasureError("testbed", "devices need a C compiler where the run was started; "
                           "install gcc and libc6-dev")
    return place(library, folder / "kinds.so")


def place(library: str, file: Path) -> Path:
    """A library as it was sent, in a file of this machine's."""
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
    return int(kernel.processor_clock()["work_total_ns"])


def _hash() -> Callable[[], object]:
    """SHA-256 by the kernel, whose implementation is compiled C."""
    data, taking = bytes(_BYTES), _kernel_cipher("hash", "sha256")

    def work() -> object:
        taking.sendall(data)
        return taking.recv(32)

    return work


def _encrypt() -> Callable[[], object]:
    """AES-128 by the kernel, likewise."""
    data, taking = bytes(_BYTES), _kernel_cipher("skcipher", "ecb(aes)", bytes(16))

    def work() -> object:
        taking.sendmsg_afalg([data], op=socket.ALG_OP_ENCRYPT)
        return taking.recv(_BYTES)

    return work


def _kernel_cipher(kind: str, name: str, key: bytes = b"") -> socket.socket:
    asked = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
    asked.bind((kind, name))
    if key:
        asked.setsockopt(socket.SOL_ALG, socket.ALG_SET_KEY, key)
    return asked.accept()[0]


def _sign() -> Callable[[], object]:
    """RSA with the private key, by OpenSSL as the daemons use it."""
    # Only here: nothing else of the worker's needs it, and it takes a while to load.
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    key = rsa.generate_private_key(65537, 1024)  # noqa: S505 - it protects nothing

    def work() -> object:
        for _ in range(_SIGNATURES):
            key.sign(b"", padding.PKCS1v15(), hashes.SHA256())
        return None

    return work
