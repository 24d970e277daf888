"""Gives nodes the processors of their devices, by the processor clock: a factor a kind of work.

A device states what an operation takes there, and by whom that was published; the same operation is
timed here, in work that the guest's kernel counts, and the ratio is the factor. Inside the machine.
"""

from __future__ import annotations

import base64
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


def give(testbed: Testbed, devices: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Slow the nodes down to their devices; what each was given, in words for its records."""
    if not devices:
        return {}
    own, given = this_machine(), {}
    for node, device in devices.items():
        thousandths = permille(device["work"], own)
        setting = f"net.core.processor_permille={' '.join(map(str, thousandths))}"
        call_ns = round((device["work"].get("system-call", {}).get("seconds") or 0) * 1e9)
        testbed.run(node, ["sysctl", "-qw", setting, f"net.core.processor_entry_ns={call_ns}"])
        factors = (f"{kind} x{value / 1000:g}"
                   for kind, value in zip(STANDS_FOR, thousandths, strict=True))
        given[f"device_{node}"] = f"{device['name']}: {', '.join(factors)}"
    return given


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


def preload(library: str, folder: Path) -> Path:
    """Put the library that says which work is public-key's where programs can load it."""
    if not library:
        raise MeasureError("testbed", "devices need a C compiler where the run was started; "
                           "install gcc and libc6-dev")
    place = folder / "kinds.so"
    place.write_bytes(base64.b64decode(library))
    return place


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
