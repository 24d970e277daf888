"""Measure how much other load slows this host down, and correct the nodes' CPU times.

By the processor clock, a node's time passes with the CPU time that its programs use. The guest's
kernel multiplies this CPU time by the node's CPU factors. There are four, one for each kind of
work: public-key operations, ciphers, hashes, and all other work. Factors above 1 model a slower
device (`measure.cpu.device_speeds`).

Other load on the host lengthens the CPU time, because it occupies the caches. With seven other
guests, the work of an authentication took up to 40 % longer. So two calibration workloads
(`CalibrationWorkload`) run before every timed part. `LoadCompensation` divides the nodes' CPU
factors by the ratio of the workloads' time to the shortest time that was ever measured.
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

from measure.agent import kernel_state
from topologies.namespaces import network_of

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

#: Prefix of the names whose least value over all testbeds is kept (see harness.engine.testbed).
LEAST = "least_"
#: Rounds of a sample, whose result is their mean.
_ROUNDS = 4
#: Samples from which the shortest time is taken.
_SAMPLES = 3
#: Programs that a round of the first workload starts.
_STARTS = 2
#: Message of a request, in the length of a registration.
_MESSAGE = bytes(200)
#: Signatures that the answer to a request takes.
_SIGNED = 10
_KEY = bytes(16)
#: CPU factor of a node at the machine's own speed, in thousandths. The guest's kernel handles a
#: frame for such a node at once. With a larger factor, the frame waits until the node's earlier
#: work is done. So `divide_factors` keeps every factor on its side of this limit.
_UNSCALED_PERMILLE = 1000
_FACTORS = Path("/proc/sys/net/core/processor_permille")


class LoadCompensation:
    """A correction of the nodes' CPU factors for other load on the host.

    The constructor takes the shortest times of the calibration workloads on this host (`least_ns`),
    and the four CPU factors of each slower node in thousandths (`permille`).
    """

    def __init__(self, testbed: Testbed, calibration: CalibrationWorkload,
                 least_ns: Mapping[str, float],
                 permille: Mapping[str, Sequence[int]]) -> None:
        self._testbed = testbed
        self._calibration = calibration
        self._least_ns = least_ns
        self._factors: list[float] = []
        self._permille = {name: permille.get(name, [_UNSCALED_PERMILLE] * 4) for name
                          in testbed.network.nodes}

    def apply(self) -> None:
        """Run the calibration workloads, and divide every node's CPU factors by their slowdown."""
        now_ns = self._calibration.sample_ns()
        factor = compute_slowdown(now_ns, self._least_ns)
        for name, permille in self._permille.items():
            with network_of(self._testbed.node(name).pid):
                _FACTORS.write_text(" ".join(map(str, divide_factors(permille, factor))))
        self._factors.append(factor)

    def take_mean_factor(self) -> float | None:
        """Return the mean slowdown by other load since the last call, None if none was measured."""
        factors, self._factors = self._factors, []
        return _mean(factors) if factors else None


def compute_slowdown(now_ns: Mapping[str, float], least_ns: Mapping[str, float]) -> float:
    """Return how much slower the calibration workloads are now than at best (at least 1).

    The result is the geometric mean of their ratios.
    """
    ratios = [now_ns[name] / least_ns[name] for name in now_ns]
    return max(1.0, prod(ratios) ** (1 / len(ratios)))


def divide_factors(permille: Sequence[int], factor: float) -> list[int]:
    """Divide CPU factors (in thousandths) by the slowdown of the host.

    A factor of 0 (free computing) stays 0, and no other factor becomes 0. A factor above 1000
    stays above 1000, because the kernel delays frames only for such a slower node.
    """
    return [value and max(1 if value <= _UNSCALED_PERMILLE else _UNSCALED_PERMILLE + 1,
                          round(value / factor))
            for value in permille]


def select_least_times(speeds: Mapping[str, float]) -> dict[str, float]:
    """Return the shortest times of the calibration workloads, out of all measured speeds."""
    return {name: value for name, value in speeds.items() if name.startswith(LEAST)}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class CalibrationWorkload:
    """Two calibration workloads of fixed size, whose duration shows other load on the host.

    One starts a program. The other sends a request to another Python process, which answers as an
    agent answers a registration. Their time grows with other load as the nodes' work does, to
    within a quarter. Loops of system calls or of socket messages overstate the growth by a tenth,
    and the loop by which the guest's kernel calibrates shows none. A context manager.
    """

    def __enter__(self) -> CalibrationWorkload:
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
        """Return the shortest mean time of each workload, of one sample or of three.

        One sample is enough if a shortest time is known (`is_known`). Means are compared with
        means; the fastest single round would bias the ratio.
        """
        samples = [self.sample_ns() for _ in range(1 if is_known else _SAMPLES)]
        return {name: min(sample[name] for sample in samples) for name in samples[0]}

    def sample_ns(self) -> dict[str, float]:
        """Run each calibration workload several times, and return its mean time in ns, by name."""
        # Wake up the other process: it slept longer than between two requests.
        self._exchange_message()
        workloads: dict[str, Callable[[], None]] = {"start": self._start_programs,
                                                    "errand": self._exchange_message}
        taken: dict[str, list[float]] = {name: [] for name in workloads}
        for _ in range(_ROUNDS):
            for name, run_workload in workloads.items():
                before = _work_ns()
                run_workload()
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
    """Answer messages of the calibration workload until the socket is closed.

    Each message is parsed and signed as a Mobile IP registration is.
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
    return float(kernel_state.harness_work()["work_ns"])
