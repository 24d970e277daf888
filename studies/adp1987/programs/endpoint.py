"""Run an ADP host that is as slow as a computer of 1987.

ADP is the Authenticated Datagram Protocol. `PacedEndpoint` connects the protocol with a modelled
processor and a modelled wire. The programs of the sender and the receiver use it. A device file
states how long each operation took on such a computer. The processor (`PacedProcessor`) adds up
these times, and the program waits before others see a result. The wire (`DatagramWire`) delays
datagrams by its rate.

Like a kernel of 1987, the host does one thing at a time. While it handles a message, or while its
datagram is on the wire, it does nothing else. The paper is the report of Anderson, Ferrari, Rangan
and Sartirana (1987).
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure.cpu.clock import InstantTimer
from protocols.adp.config import HostConfig, load_config
from protocols.adp.crypto import Operation
from protocols.adp.effects import Effect
from protocols.adp.program import DatagramSocket, HostEndpoint

# --- Modelled processor and wire ---
# Times are ns of the guest's monotonic clock and exact. The kernel's timers wake a process a
# fraction of a microsecond late, by varying amounts. `PacedProcessor` and `DatagramWire` wait for
# this delay, and do not count it. The code runs in the guest with the standard library only.

FRAGMENT_BYTES = 1480
#: Ethernet and IP headers of a fragment, without the overhead of the wire itself.
HEADERS_BYTES = 14 + 20
_PR_SET_TIMERSLACK = 29
#: Allowed lateness of a datagram by the guest's clock. System calls usually take tens of
#: microseconds; the paper's clock had a resolution of milliseconds.
TOLERANCE_NS = 1_000_000
_ROUNDING_NS = 10_000
_STAMP_BYTES = 8


class UnknownCostError(ValueError):
    """An error: the device file has no time for an operation."""


def sharpen_timers() -> None:
    """Set the timer slack of this process to 1 ns. The kernel's default is 50 microseconds."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)


@dataclass
class PacedProcessor:
    """A modelled processor that does operations one after the other, each for a given time.

    - `seconds`: time (s) per operation and per byte, by operation
    - `busy_ns`: sum of the times of all operations done
    - `now_ns`: modelled time, on the guest's monotonic clock. By then the processor has done all
      settled operations, however fast this program really runs.
    """

    seconds: Mapping[str, tuple[float, float]]
    busy_ns: int = 0
    now_ns: int = field(default_factory=time.monotonic_ns)
    _owed_s: float = 0.0

    def charge_operation(self, operation: str, size: int = 0) -> None:
        """Add the time of an operation to the work that the processor must still do.

        Args:
            operation: name of the operation.
            size: bytes that it processes.

        Raises:
            UnknownCostError: the device file has no time for the operation.
        """
        if operation not in self.seconds:
            raise UnknownCostError(f"the device has no {operation}")
        each, byte = self.seconds[operation]
        self._owed_s += each + byte * size

    def charge_time(self, nanoseconds: int) -> None:
        """Add a time (ns) to the work that the processor must still do."""
        self._owed_s += nanoseconds / 1e9

    def advance_to(self, at_ns: int) -> None:
        """Advance the modelled time to `at_ns`, unless the processor is busy until later."""
        self.now_ns = max(self.now_ns, at_ns)

    def settle_charges(self) -> int:
        """Let the modelled processor do all operations that were charged so far.

        Nothing waits here: only the modelled time advances.

        Returns:
            The modelled time (ns) at which the operations end.
        """
        owed_ns, self._owed_s = round(self._owed_s * 1e9), 0.0
        self.busy_ns += owed_ns
        self.now_ns += owed_ns
        return self.now_ns

    def wait_for_clock(self) -> None:
        """Wait until the guest's clock reaches the modelled time, before others see a result.

        There is no wait per operation, because that would take more CPU time than the operation.
        """
        while (left_ns := self.now_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / 1e9)


class UnmodelledConnection:
    """A network without a model: datagrams take the time that they really take."""

    arrived = early = late = 0

    def duration_ns(self, size: int) -> int:
        """Return 0, because sending does not block the sender."""
        return 0

    def record_sent(self, at_ns: int) -> None:
        """Do nothing, because send times are not needed."""

    def arrival_ns(self, size: int, free_ns: int) -> int:
        """Return the current time (ns) as the time of arrival."""
        return time.monotonic_ns()


class DatagramWire:
    """A modelled wire on which datagrams take the time that its rate says.

    The sender writes the modelled time of each datagram to a file (a stamp). From this stamp the
    receiver computes the modelled time of arrival, which the guest's clock has to confirm.
    """

    def __init__(self, figures: Mapping[str, float], stamps_path: Path,
                 peer_stamps_path: Path) -> None:
        self._figures, self._theirs = figures, peer_stamps_path
        self._stamps = os.open(stamps_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._taken = (peer_stamps_path.stat().st_size // _STAMP_BYTES
                       if peer_stamps_path.exists() else 0)
        #: Received datagrams: all, those without a stamp or before their time, and those too late.
        self.arrived = self.early = self.late = 0

    def duration_ns(self, size: int) -> int:
        """Return how long a datagram's fragments are on the wire (ns)."""
        frame = HEADERS_BYTES + self._figures["overhead_bytes"]
        fragments = -(-size // FRAGMENT_BYTES)
        return round((size + fragments * frame) * 8 / self._figures["rate_bps"] * 1e9)

    def record_sent(self, at_ns: int) -> None:
        """Write the time (ns) at which a datagram is sent to the file for the receiver."""
        os.write(self._stamps, at_ns.to_bytes(_STAMP_BYTES))

    def arrival_ns(self, size: int, free_ns: int) -> int:
        """Return the modelled time (ns) at which the received datagram arrived.

        It is the time at which the sender sent the datagram, plus the datagram's time on the wire.
        A datagram counts as early if the guest's clock has not reached this time, or if the file
        has no stamp yet. Then the time of the guest's clock is returned. A datagram counts as late
        if it is read more than `TOLERANCE_NS` after it could be read.

        Args:
            size: bytes of the datagram.
            free_ns: time at which the receiver's processor was free to read it.
        """
        clock_ns = time.monotonic_ns()
        with self._theirs.open("rb") as stamps:
            stamps.seek(self._taken * _STAMP_BYTES)
            stamp = stamps.read(_STAMP_BYTES)
        self._taken += 1
        self.arrived += 1
        exact_ns = int.from_bytes(stamp) + self.duration_ns(size)
        if not stamp or clock_ns < exact_ns - _ROUNDING_NS:
            self.early += 1
            return clock_ns
        self.late += clock_ns > max(exact_ns, free_ns) + TOLERANCE_NS
        return exact_ns


# --- Host on the modelled processor ---

#: Bytes after the last user message: sequence number and check in 1987, the tag today.
_TRAILER_BYTES = 16


def operation_costs(work: Mapping[str, Mapping[str, Any]],
                    rsa_bits: int) -> dict[str, tuple[float, float]]:
    """Return the time (s) per operation and the time per byte from a device file, by operation.

    An operation with both a set-up time and a time per byte has two entries, `NAME-operation` and
    `NAME`. RSA has the time of the key size that the paper may have used (`rsa_bits`). The real
    keys have 1024 bits.
    """
    table: dict[str, tuple[float, float]] = {}
    for name, figure in work.items():
        operation = name.removesuffix("-operation").replace(f"rsa-{rsa_bits}-", "rsa-")
        each, byte = table.get(operation, (0.0, 0.0))
        rate = figure.get("bytes_per_s")
        table[operation] = (each + (figure.get("seconds") or 0.0), byte + (1 / rate if rate else 0))
    if Operation.DES in table:
        # A checksum runs DES over the same bytes.
        table.setdefault(Operation.DES_MAC, table[Operation.DES])
    return table


class PacedDatagrams(DatagramSocket):
    """A socket that sends a datagram once the modelled processor has finished it.

    The processor is blocked while the datagram is on the wire. With a `fault`, the socket repeats,
    changes or records datagrams like an attacker on the path.
    """

    def __init__(self, config: HostConfig, processor: PacedProcessor,
                 wire: DatagramWire | UnmodelledConnection,
                 fault: str = "") -> None:
        super().__init__(config.network.kind, config.network.number,
                         config.addresses[config.host])
        self._processor, self._wire, self._fault = processor, wire, fault
        self._gone: list[tuple[bytes, str]] = []
        #: Time at which the last datagram was sent (ns), without its time on the wire.
        self.sent_ns = 0

    def send(self, payload: bytes, address: str) -> None:
        """Send a datagram, and keep the processor busy until its last fragment has left."""
        self.sent_ns = self._processor.settle_charges()
        for copy in attack_datagram(payload, self._fault):
            self._put_on_wire(copy, address)
        if self._fault == "stale-channel":
            self._gone.append((payload, address))

    def resend_all(self) -> None:
        """Send all recorded datagrams again, like an attacker."""
        for payload, address in self._gone:
            self._put_on_wire(payload, address)

    def _put_on_wire(self, payload: bytes, address: str) -> None:
        self._processor.wait_for_clock()
        self._wire.record_sent(self._processor.now_ns)
        super().send(payload, address)
        self._processor.charge_time(self._wire.duration_ns(len(payload)))
        self._processor.settle_charges()


def attack_datagram(payload: bytes, fault: str) -> list[bytes]:
    """Return the datagrams that arrive in place of one that was sent, under an attack.

    Only datagrams with messages are attacked.
    """
    if not int.from_bytes(payload[2:4]):
        return [payload]
    if fault == "replayed":
        return [payload, payload]
    place = {"altered": -1, "unprotected-body": -1 - _TRAILER_BYTES}.get(fault)
    if place is None:
        return [payload]
    altered = bytearray(payload)
    altered[place] ^= 0x01
    return [bytes(altered)]


class PacedEndpoint(HostEndpoint):
    """An ADP host whose actions all happen at the times of a modelled processor.

    Without a `wire` in its configuration, datagrams arrive when they really do. `report` is called
    with each action of the host and its time (ns).
    """

    def __init__(self, job: Mapping[str, Any],
                 report: Callable[[Effect, int], None]) -> None:
        config = load_config(Path(job["config"]))
        sharpen_timers()
        self.processor = PacedProcessor(operation_costs(job["work"], job["rsa_bits"]))
        self.wire = DatagramWire(job["wire"], Path(job["stamps"]), Path(job["peer_stamps"])) \
            if job["wire"] else UnmodelledConnection()
        self.datagrams = PacedDatagrams(config, self.processor, self.wire, job.get("fault", ""))
        self._peer = job["peer"]
        self._is_receiving = False
        self._heard = report
        self._timer = InstantTimer()
        super().__init__(config, self.datagrams, self._charge_operation, self._report_effect)

    @property
    def now_s(self) -> float:
        """Return the time of the modelled processor (s)."""
        return self.processor.now_ns / 1e9

    def read_datagram(self) -> bool:
        """Process a datagram that has arrived, and return whether there was one."""
        received = self.datagrams.receive()
        if received is None:
            return False
        payload, address = received
        source = self._hosts.get(address, address)
        self.processor.advance_to(self.wire.arrival_ns(len(payload), self.processor.now_ns)
                                  if source == self._peer else time.monotonic_ns())
        self._is_receiving = True
        self.perform_effects(self.host.receive(payload, source, self.now_s))
        self.processor.settle_charges()
        self._is_receiving = False
        return True

    @property
    def off_time(self) -> dict[str, int]:
        """Return how many datagrams arrived in all, too early and too late."""
        return {"arrived": self.wire.arrived, "early": self.wire.early, "late": self.wire.late}

    def due_ns(self) -> int | None:
        """Return the time (ns) of the next timer, or None without a timer."""
        deadline_s = self.host.deadline_s()
        return None if deadline_s is None else round(deadline_s * 1e9)

    def tick(self) -> None:
        """Run the timers that are due at the modelled processor's time."""
        due_ns = self.due_ns()
        if due_ns is not None and due_ns <= self.processor.now_ns:
            # Rounding to nanoseconds can make the time slightly earlier than the deadline.
            deadline_s = self.host.deadline_s()
            self.perform_effects(self.host.tick(max(self.now_s, deadline_s or 0.0)))
            self.processor.settle_charges()

    def serve_until(self, until_ns: int | None, files: Sequence[Any] = ()) -> bool:
        """Receive datagrams and run timers until a time, or until a file is readable.

        Args:
            until_ns: end (ns of the monotonic clock), or None for no end.
            files: files that end the wait when they become readable.

        Returns:
            True if a file is readable.
        """
        while until_ns is None or self.processor.now_ns < until_ns:
            next_ns = min((at for at in (until_ns, self.due_ns()) if at is not None), default=None)
            ready = self._wait_for_readable([self.datagrams.fileno(),
                                             *(file.fileno() for file in files)],
                                            next_ns)
            if self.datagrams.fileno() in ready:
                self.read_datagram()
            elif ready:
                return True
            elif next_ns is not None:
                self.processor.advance_to(next_ns)
            self.tick()
        return False

    def _wait_for_readable(self, descriptors: Sequence[int], until_ns: int | None) -> Sequence[int]:
        """Wait until a descriptor is readable or until `until_ns`, and return the readable ones."""
        if until_ns is None:
            return select.select(descriptors, (), ())[0]
        return self._timer.wait_until(descriptors, until_ns / 1e9)[0]

    def _charge_operation(self, operation: Operation, size: int) -> None:
        way = "receive" if self._is_receiving else "send"
        if operation in (Operation.USER_MESSAGE, Operation.ADP_MESSAGE):
            # Sending a user message is charged when its process hands it over, not when it is
            # shipped.
            if operation is Operation.ADP_MESSAGE or self._is_receiving:
                self.processor.charge_operation(f"{operation}-{way}")
        else:
            self.processor.charge_operation(operation.value, size)

    def _report_effect(self, effect: Effect) -> None:
        """Report an action of the host with the time at which all of its work is finished."""
        self._heard(effect, self.processor.settle_charges())


def read_job(path: str) -> dict[str, Any]:
    """Read the configuration of a host's program from a JSON file."""
    job: dict[str, Any] = json.loads(Path(path).read_text())
    return job
