"""Measure other load on this host and scale the nodes' CPU factors to compensate.

By the processor clock, other load on the host lengthens a node's time, because it occupies the
caches. With seven other guests, the work of an authentication took up to 40 % longer. The loop by
which the guest's kernel calibrates took no longer.

Two calibration workloads grow with the nodes' work, to within a quarter. One starts a program. The
other sends a request to another Python process, which answers as an agent answers a registration.
Loops of system calls or of socket messages overstate the growth by a tenth. Both workloads run
before every timed part. The nodes' factors are divided by the ratio of their time to the least time
measured.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Never

from measure import kernel
from topologies.namespaces import network_of

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

#: Prefix of the names whose least value over all testbeds is kept (see harness.engine.speeds).
LEAST = "least_"
#: Rounds per sample, whose mean counts, and samples for the least value.
_ROUNDS, _LOOKS = 4, 3
_STARTS = 2
#: A request: length of the message in bytes, the number of signatures, and the key.
_MESSAGE, _SIGNED, _KEY = bytes(200), 10, bytes(16)
#: Factor of a node at the machine's own speed, in thousandths. Such a node takes frames at once;
#: only a slower node waits until it is free (see the kernel's patch). So `divide_factors` never
#: makes a node of this speed slower.
_OWN = 1000
_FACTORS = Path("/proc/sys/net/core/processor_permille")


class Company:
    """Host-load compensation: least times of the calibration workloads, and nodes' CPU factors."""

    def __init__(self, testbed: Testbed, calibration: Pieces, least_ns: Mapping[str, float],
                 permille: Mapping[str, Sequence[int]]) -> None:
        self._testbed = testbed
        self._pieces = calibration
        self._least_ns = least_ns
        self._factors: list[float] = []
        self._permille = {name: permille.get(name, [_OWN] * 4) for name in testbed.network.nodes}

    def apply(self) -> None:
        """Run the workloads and divide every node's factors by their slowdown."""
        now_ns = self._pieces.sample_ns()
        factor = slowdown(now_ns, self._least_ns)
        for name, permille in self._permille.items():
            with network_of(self._testbed.node(name).pid):
                _FACTORS.write_text(" ".join(map(str, divide_factors(permille, factor))))
        self._factors.append(factor)

    def take_mean_factor(self) -> float | None:
        """Return the mean slowdown since the last call, or None without a sample."""
        factors, self._factors = self._factors, []
        return _mean(factors) if factors else None


def slowdown(now_ns: Mapping[str, float], least_ns: Mapping[str, float]) -> float:
    """Return the slowdown of the workloads: the geometric mean of ratios, at least 1."""
    ratios = [now_ns[name] / least_ns[name] for name in now_ns]
    return max(1.0, prod(ratios) ** (1 / len(ratios)))


def divide_factors(permille: Sequence[int], factor: float) -> list[int]:
    """Divide factors (in thousandths) by a slowdown.

    A factor of 0 stays 0, and no other factor becomes 0. A slower node stays above 1000, because
    only a slower node takes frames when it is free.
    """
    return [value and max(1 if value <= _OWN else _OWN + 1, round(value / factor))
            for value in permille]


def least_times(speeds: Mapping[str, float]) -> dict[str, float]:
    """Return the workloads' least times among a machine's speeds."""
    return {name: value for name, value in speeds.items() if name.startswith(LEAST)}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class Pieces:
    """The calibration workloads, always of equal size. A context manager."""

    def __enter__(self) -> Pieces:
        self._here, there = socket.socketpair()
        self._other = os.fork()
        if not self._other:
            self._here.close()
            _answer_messages(there)
        there.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._here.close()
        os.waitpid(self._other, 0)

    def least_ns(self, *, is_known: bool) -> dict[str, float]:
        """Return the least sample: of one sample if a least is known, else of three.

        Means are compared with means; the fastest single round would bias the ratio.
        """
        looks = [self.sample_ns() for _ in range(1 if is_known else _LOOKS)]
        return {name: min(look[name] for look in looks) for name in looks[0]}

    def sample_ns(self) -> dict[str, float]:
        """Return the mean time of each workload now, by names that begin with `LEAST`."""
        # Wake up the other process: it slept longer than between two requests.
        self._exchange_message()
        pieces: dict[str, Callable[[], None]] = {"start": self._start_programs,
                                                 "errand": self._exchange_message}
        taken: dict[str, list[float]] = {name: [] for name in pieces}
        for _ in range(_ROUNDS):
            for name, piece in pieces.items():
                before = _work_ns()
                piece()
                taken[name].append(_work_ns() - before)
        return {f"{LEAST}look_{name}_ns": _mean(values) for name, values in taken.items()}

    @staticmethod
    def _start_programs() -> None:
        for _ in range(_STARTS):
            subprocess.run(["/bin/true"], check=True)

    def _exchange_message(self) -> None:
        self._here.send(_MESSAGE)
        self._here.recv(len(_MESSAGE))


def _answer_messages(end: socket.socket) -> Never:
    """Answer messages until the socket is closed.

    Each message is parsed and signed as a registration is.
    """
    while message := end.recv(len(_MESSAGE)):
        for number in range(_SIGNED):
            kind, _, address = struct.unpack(">HHI", message[:8])
            signed = struct.pack(">HHI", kind, number, address) + message[8:-16]
            message = signed + hmac.new(_KEY, signed, "md5").digest()
            str(ipaddress.IPv4Address(number))
        end.send(message)
    os._exit(0)


def _work_ns() -> float:
    return float(kernel.harness_work()["work_ns"])
