"""Predict throughput and latency of two ADP hosts and a wire by a model.

ADP is the Authenticated Datagram Protocol of 1987. `run_model` takes a trace (list of messages),
the times of operations (`ModelCosts`) and the protocol's settings (`ModelSetting`). It adds up the
times of the work for each message, and returns a `ModelResult`. It has no packets, cryptography or
kernel. The study adp1987 compares its measurements with the result. `fit.py` fits the times of
device files with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from studies.adp1987.traces import TraceMessage

#: Bytes of data in a fragment.
FRAGMENT_BYTES = 1480
#: Bytes of a fragment's frame, IP header and wire overhead.
FRAME_BYTES = 58
#: Bytes of an ADP message without user messages: frame, counts of the body, trailer.
ADP_BYTES = 20 + 2 + 16
#: Bytes that a user message adds to an ADP message, in addition to its data.
RECORD_BYTES = 9 + 3
#: Rate of the Ethernet of 1987 (bit/s).
WIRE_BPS = 10e6


@dataclass(frozen=True)
class ModelCosts:
    """Times (s) of operations on a host's processor, as in topologies/devices/sun3-50.yml.

    - `user_send`, `user_receive`: take a message from its process, and deliver one
    - `adp_send`, `adp_receive`: send a datagram, and receive one
    - `des`, `des_byte`: encrypt with DES, per call and per byte
    """

    user_send: float
    adp_send: float
    adp_receive: float
    user_receive: float
    des: float
    des_byte: float


@dataclass(frozen=True)
class ModelSetting:
    """Protocol settings for the model.

    - `scope`: encrypted part: NE (nothing), PE (the trailer) or FE (everything)
    - `queue`: whether messages that are not urgent wait for others
    - `timeout_s`, `bound_bytes`: longest wait, and size of a full queue
    """

    scope: str = "PE"
    queue: bool = True
    timeout_s: float = 0.04
    bound_bytes: int = 24_576


@dataclass(frozen=True)
class ModelResult:
    """Results of the model in SI units.

    - `throughput`: user data per second (bytes/s)
    - `latency_s`, `latencies_s`: mean latency of urgent messages, and all their latencies
    - `adp_bytes`: mean user data of a datagram (bytes)
    - `utilisation`: fraction of time in which the sender's processor is busy
    """

    throughput: float
    latency_s: float
    adp_bytes: float
    utilisation: float
    latencies_s: tuple[float, ...] = ()


def time_on_wire_s(size: int) -> float:
    """Return how long a datagram's fragments are on the wire (s)."""
    return (size + -(-size // FRAGMENT_BYTES) * FRAME_BYTES) * 8 / WIRE_BPS


class _Sender:
    """The sending host of the model, with the times at which the receiver is busy.

    - `now`: time (s) until which the sender is busy
    - `busy`: sum of its busy times (s)
    - `receiver`: time (s) until which the receiver is busy
    - `queue`, `bytes`: waiting messages (time, size, urgency), and their size
    - `due`: time (s) at which they must be sent
    - `sizes`, `latencies`: user data of each sent datagram, and latency of each urgent message
    """

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
    """Compute throughput and latency of a trace by the model.

    Args:
        trace: messages in order.
        costs: times of operations.
        setting: settings of the protocol.
        saturated: each message comes as soon as the previous one is taken. Otherwise it comes at
            its time in the trace.
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
