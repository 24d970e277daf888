"""Model of two hosts and a wire: a recursion over messages with a device's costs.

The model is compared with measurements, and the figures of the device files are fitted with it. It
adds up the work that the programs do for each message. It has no packets, cryptography or kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from studies.adp1987.traces import TraceMessage

#: Bytes of data in a fragment, and bytes of its frame, IP header and wire overhead.
FRAGMENT_BYTES, FRAME_BYTES = 1480, 58
#: Bytes of an ADP message without user messages (frame, counts of the body, trailer), and bytes
#: that a user message adds.
ADP_BYTES, RECORD_BYTES = 20 + 2 + 16, 9 + 3
WIRE_BPS = 10e6


@dataclass(frozen=True)
class ModelCosts:
    """Costs on a host's processor (s): see topologies/devices/sun3-50.yml."""

    user_send: float
    adp_send: float
    adp_receive: float
    user_receive: float
    des: float
    des_byte: float


@dataclass(frozen=True)
class ModelSetting:
    """The protocol settings of a cell."""

    scope: str = "PE"
    queue: bool = True
    timeout_s: float = 0.04
    bound_bytes: int = 24_576


@dataclass(frozen=True)
class ModelResult:
    """The results of the model, in SI units."""

    throughput: float
    latency_s: float
    adp_bytes: float
    utilisation: float
    latencies_s: tuple[float, ...] = ()


def time_on_wire_s(size: int) -> float:
    """Return the time of a datagram's fragments on the wire (s)."""
    return (size + -(-size // FRAGMENT_BYTES) * FRAME_BYTES) * 8 / WIRE_BPS


class _Sender:
    def __init__(self, costs: ModelCosts, setting: ModelSetting) -> None:
        self.costs, self.setting = costs, setting
        self.now = self.busy = self.receiver = self.delivered = 0.0
        self.latencies: list[float] = []
        self.sizes: list[int] = []
        self.queue: list[tuple[float, int, bool]] = []
        self.bytes, self.due = 0, float("inf")

    def crypto_s(self, size: int) -> float:
        scope = self.setting.scope
        length = {"NE": 0, "PE": 16, "FE": size}[scope]
        return (self.costs.des + self.costs.des_byte * length) if length else 0.0

    def ship_queue(self) -> None:
        costs, users = self.costs, self.bytes
        size = ADP_BYTES + users + RECORD_BYTES * len(self.queue)
        self.now += costs.adp_send + self.crypto_s(size)
        self.busy += costs.adp_send + self.crypto_s(size) + time_on_wire_s(size)
        self.now += time_on_wire_s(size)  # the driver waits until the last fragment has left
        self.receiver = (max(self.receiver, self.now) + costs.adp_receive + self.crypto_s(size)
                         + costs.user_receive * len(self.queue))
        self.latencies += [self.receiver - at for at, _, urgent in self.queue if urgent]
        self.sizes.append(users)
        self.queue, self.bytes, self.due = [], 0, float("inf")

    def hand_over(self, at: float, size: int, *, urgent: bool) -> None:
        setting = self.setting
        self.now += self.costs.user_send
        self.busy += self.costs.user_send
        overflows = bool(self.queue) and self.bytes + size > setting.bound_bytes
        if overflows:
            self.ship_queue()
        self.queue.append((at, size, urgent))
        self.bytes += size
        self.due = min(self.due, self.now + setting.timeout_s)
        # A message that makes the queue overflow counts as urgent and is shipped separately.
        if urgent or overflows or not setting.queue or self.bytes >= setting.bound_bytes:
            self.ship_queue()

    def run_until(self, time: float) -> None:
        if self.due <= time:
            self.now = max(self.now, self.due)
            self.ship_queue()


def run_model(trace: Sequence[TraceMessage], costs: ModelCosts, setting: ModelSetting, *,
              saturated: bool) -> ModelResult:
    """Run a trace through the model.

    Args:
        trace: Messages in order.
        costs: Costs of the device.
        setting: Settings of the protocol.
        saturated: Each message comes as soon as the previous one is taken.
    """
    sender = _Sender(costs, setting)
    for message in trace:
        at = sender.now if saturated else message.at_s
        sender.run_until(max(at, sender.now))
        sender.now = max(sender.now, at)
        sender.hand_over(at, message.bytes, urgent=message.urgent)
    if sender.queue:
        sender.run_until(float("inf") if saturated else sender.due)
    total = sum(message.bytes for message in trace)
    return ModelResult(total / sender.receiver, fmean(sender.latencies or [0.0]),
                       fmean(sender.sizes), sender.busy / sender.now, tuple(sender.latencies))
