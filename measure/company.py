"""Company on the host makes the same work take longer: how much is timed, and divided out of it.

By the processor clock, what others leave of the caches takes part in a node's time: beside seven
other guests the work of getting on rose by up to 40 %, while the loop that the guest's kernel
calibrates by took the same. Starting a program, and an errand of another that waits for it in
Python as agents wait for a registration, rise with it: to the fourth part of that less and more.
Loops of system calls or of messages through a socket rise by a tenth more. So those two are timed
before whatever is timed, and nodes' factors are divided by what they take then over what they take
at the least.
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

#: What a name begins with whose least value of all testbeds is kept (see harness.engine.speeds).
LEAST = "least_"
#: A look is the mean of so many rounds; the least is that of so many looks.
_ROUNDS, _LOOKS = 4, 3
_STARTS = 2
#: An errand: a message of this length comes and goes, and is signed so often with this key.
_MESSAGE, _SIGNED, _KEY = bytes(200), 10, bytes(16)
#: A node's own factor: it takes frames at once, which only a slower node does not (see the kernel's
#: patch), so no node of this machine's own speed is slowed by a moment in less company than ever.
_OWN = 1000
_FACTORS = Path("/proc/sys/net/core/processor_permille")


class Company:
    """What the pieces take on this machine at the least, and which factors nodes have then."""

    def __init__(self, testbed: Testbed, pieces: Pieces, least_ns: Mapping[str, float],
                 permille: Mapping[str, Sequence[int]]) -> None:
        self._testbed = testbed
        self._pieces = pieces
        self._least_ns = least_ns
        self._factors: list[float] = []
        self._permille = {name: permille.get(name, [_OWN] * 4) for name in testbed.network.nodes}

    def divide_out(self) -> None:
        """Time the pieces, and set every node's factors by how many times the least they take."""
        now_ns = self._pieces.look_ns()
        factor = times(now_ns, self._least_ns)
        for name, permille in self._permille.items():
            with network_of(self._testbed.node(name).pid):
                _FACTORS.write_text(" ".join(map(str, divided(permille, factor))))
        self._factors.append(factor)

    def since(self) -> float | None:
        """How many times the least they took since this was last asked, in the mean of looks."""
        factors, self._factors = self._factors, []
        return _mean(factors) if factors else None


def times(now_ns: Mapping[str, float], least_ns: Mapping[str, float]) -> float:
    """How many times the least the pieces take now: the geometric mean, and 1 at the least."""
    ratios = [now_ns[name] / least_ns[name] for name in now_ns]
    return max(1.0, prod(ratios) ** (1 / len(ratios)))


def divided(permille: Sequence[int], factor: float) -> list[int]:
    """Factors in thousandths divided by that; what takes no time still takes none, and others some.

    A slower node stays one, however little slower: it takes frames when it is free.
    """
    return [value and max(1 if value <= _OWN else _OWN + 1, round(value / factor))
            for value in permille]


def of(speeds: Mapping[str, float]) -> dict[str, float]:
    """What of a machine's speeds is the pieces' least."""
    return {name: value for name, value in speeds.items() if name.startswith(LEAST)}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class Pieces:
    """The pieces of work, which are the same always. A context manager."""

    def __enter__(self) -> Pieces:
        self._here, there = socket.socketpair()
        self._other = os.fork()
        if not self._other:
            self._here.close()
            _serve(there)
        there.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._here.close()
        os.waitpid(self._other, 0)

    def least_ns(self, *, is_known: bool) -> dict[str, float]:
        """What a look takes here at the least, of one where a least is known, else of a few.

        A look is held to a look: the quickest of all rounds is quicker than any mean.
        """
        looks = [self.look_ns() for _ in range(1 if is_known else _LOOKS)]
        return {name: min(look[name] for look in looks) for name in looks[0]}

    def look_ns(self) -> dict[str, float]:
        """What each takes now, in the mean of a few rounds, by names that begin with `LEAST`."""
        self._errand()  # who waits longer than between two of them has to be woken up first
        pieces: dict[str, Callable[[], None]] = {"start": self._start, "errand": self._errand}
        taken: dict[str, list[float]] = {name: [] for name in pieces}
        for _ in range(_ROUNDS):
            for name, piece in pieces.items():
                before = _work_ns()
                piece()
                taken[name].append(_work_ns() - before)
        return {f"{LEAST}look_{name}_ns": _mean(values) for name, values in taken.items()}

    @staticmethod
    def _start() -> None:
        for _ in range(_STARTS):
            subprocess.run(["/bin/true"], check=True)

    def _errand(self) -> None:
        self._here.send(_MESSAGE)
        self._here.recv(len(_MESSAGE))


def _serve(end: socket.socket) -> Never:
    """Answer messages until there are none any more, each read and signed as a registration is."""
    while message := end.recv(len(_MESSAGE)):
        for number in range(_SIGNED):
            kind, _, address = struct.unpack(">HHI", message[:8])
            signed = struct.pack(">HHI", kind, number, address) + message[8:-16]
            message = signed + hmac.new(_KEY, signed, "md5").digest()
            str(ipaddress.IPv4Address(number))
        end.send(message)
    os._exit(0)


def _work_ns() -> float:
    return float(kernel.work_of_nobody()["work_ns"])
