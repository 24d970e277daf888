"""ADP host whose operations take the time that its device states.

A host has one thread, like the kernel of 1987. While it handles a message, or while a datagram is
on the wire, it does nothing else.
"""

from __future__ import annotations

import json
import select
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure.load.instants import InstantTimer
from protocols.adp.config import Config, load_config
from protocols.adp.crypto import Operation
from protocols.adp.effects import Effect
from protocols.adp.network import Datagrams
from protocols.adp.program import HostEndpoint
from studies.adp1987.processor import AnyWay, DatagramWire, PacedProcessor, sharpen_timers

#: Bytes after the last user message: sequence number and check in 1987, the tag today.
_TRAILER_BYTES = 16


def operation_costs(work: Mapping[str, Mapping[str, Any]],
                    rsa_bits: int) -> dict[str, tuple[float, float]]:
    """Return seconds per operation and per byte from a device's document.

    An operation with both set-up time and time per byte has two entries, `NAME-operation` and
    `NAME`. RSA is charged with the key size that the paper may have had (`rsa_bits`). The keys
    really used have 1024 bits.
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


class PacedDatagrams(Datagrams):
    """A network socket that sends a datagram when the modelled processor has finished it.

    The processor is blocked while the datagram is on the wire. With a `fault`, an attacker on the
    path repeats, changes or stores datagrams.
    """

    def __init__(self, config: Config, processor: PacedProcessor, wire: DatagramWire | AnyWay,
                 fault: str = "") -> None:
        super().__init__(config.network.kind, config.network.number,
                         config.addresses[config.host])
        self._processor, self._wire, self._fault = processor, wire, fault
        self._gone: list[tuple[bytes, str]] = []
        #: Time at which the last datagram was sent (ns), without its time on the wire.
        self.sent_ns = 0

    def send(self, payload: bytes, address: str) -> None:
        """Send a datagram and keep the processor busy until its last fragment has left."""
        self.sent_ns = self._processor.settle_charges()
        for copy in attack_datagram(payload, self._fault):
            self._put_on_wire(copy, address)
        if self._fault == "stale-channel":
            self._gone.append((payload, address))

    def resend_all(self) -> None:
        """Send all recorded datagrams again, like an attacker who has recorded them."""
        for payload, address in self._gone:
            self._put_on_wire(payload, address)

    def _put_on_wire(self, payload: bytes, address: str) -> None:
        self._processor.wait_for_clock()
        self._wire.record_sent(self._processor.now_ns)
        super().send(payload, address)
        self._processor.charge_time(self._wire.duration_ns(len(payload)))
        self._processor.settle_charges()


def attack_datagram(payload: bytes, fault: str) -> list[bytes]:
    """Return the datagrams that arrive for one that was sent.

    Only datagrams with user messages are attacked.
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
    """A host with a modelled processor that does everything at the processor's exact time.

    Without a `wire` in its job, datagrams take the time that the machine's clock shows. `heard` is
    called with each reported effect and its time (ns).
    """

    def __init__(self, job: Mapping[str, Any],
                 report: Callable[[Effect, int], None]) -> None:
        config = load_config(Path(job["config"]))
        sharpen_timers()
        self.processor = PacedProcessor(operation_costs(job["work"], job["rsa_bits"]))
        self.wire = DatagramWire(job["wire"], Path(job["stamps"]), Path(job["peer_stamps"])) \
            if job["wire"] else AnyWay()
        self.datagrams = PacedDatagrams(config, self.processor, self.wire, job.get("fault", ""))
        self._peer = job["peer"]
        self._is_receiving = False
        self._heard = report
        self._timer = InstantTimer()
        super().__init__(config, self.datagrams, self._charge_operation, self._report_effect)

    @property
    def now_s(self) -> float:
        """Return the processor's exact time as the protocol takes it (s)."""
        return self.processor.now_ns / 1e9

    def read_datagram(self) -> bool:
        """Take a datagram that has arrived, and return whether there was one."""
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
        """Return the numbers of datagrams that arrived in all, too early and too late."""
        return {"arrived": self.wire.arrived, "early": self.wire.early, "late": self.wire.late}

    def due_ns(self) -> int | None:
        """Return the time of the next timer (ns), None without a timer."""
        deadline_s = self.host.deadline_s()
        return None if deadline_s is None else round(deadline_s * 1e9)

    def tick(self) -> None:
        """Run the host's timers that are due at the exact time."""
        due_ns = self.due_ns()
        if due_ns is not None and due_ns <= self.processor.now_ns:
            # Rounding to nanoseconds can make the time slightly earlier than the deadline.
            deadline_s = self.host.deadline_s()
            self.perform_effects(self.host.tick(max(self.now_s, deadline_s or 0.0)))
            self.processor.settle_charges()

    def serve_until(self, until_ns: int | None, files: Sequence[Any] = ()) -> bool:
        """Receive datagrams and run timers until a time or until a file is readable.

        Args:
            until_ns: End (ns of the monotonic clock), None for no end.
            files: Files that end the wait when they become readable.

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
        """Return the readable descriptors as soon as there is one, or none at `until_ns`.

        A timeout of select may be late by a thousandth of the wait, and therefore by more for long
        waits.
        """
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
        """Report an effect with the time at which all of its work is finished."""
        self._heard(effect, self.processor.settle_charges())


def read_job(path: str) -> dict[str, Any]:
    """Return a host's job from a JSON file."""
    job: dict[str, Any] = json.loads(Path(path).read_text())
    return job
