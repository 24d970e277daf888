"""A medium is plain data and arithmetic: how long a frame of a physical layer keeps the air."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from topologies.device import Strict
from topologies.signal import Signal

#: Who lets stations take turns on the air: contention as in 802.11, or a queue.
DCF, QUEUE = "dcf", "queue"
_WINDOW_LIMIT = 0xFFFF
#: One of the kernel's nanoseconds.
_MIN_SLOT_US = 0.001
#: A driver's transmit queue; ath5k's holds 50 frames. At 2 ms a frame that is 100 ms, more than any
#: window needs on a path without delay, and no more than people endure. It is the most that can go
#: together, too.
QUEUE_FRAMES = 50
_BLOCK_ACK_BYTES = 32
#: Before each frame of an aggregate, which is padded to as many.
_DELIMITER_BYTES = 4
#: More than any physical layer has, and no more than the kernel counts in.
_MAX_RATE_BPS, _MAX_BYTES, _MAX_US = 10 ** 12, 2 ** 24, 10 ** 6
_AT_MOST = {
    **dict.fromkeys(("rate_bps", "ack_rate_bps", "basic_rate_bps"), _MAX_RATE_BPS),
    **dict.fromkeys(("mac_bytes", "ack_bytes", "service_bits", "aggregate_bytes", "beacon_bytes"),
                    _MAX_BYTES),
    **dict.fromkeys(("slot_us", "sifs_us", "difs_us", "preamble_us", "ack_preamble_us", "symbol_us",
                     "extension_us", "cca_us", "beacon_interval_ms"), _MAX_US),
    "retries": 255}


@dataclass(frozen=True)
class Medium(Strict):
    """Timing of one physical layer, in microseconds and bits per second.

    `ack_preamble_us` is that of an acknowledgement where it differs (802.11n acknowledges in the
    older format). OFDM sends whole symbols of `symbol_us`, with `service_bits` around the frame and
    silence of `extension_us` after it. `mac_bytes` are MAC header and checksum. Each transmission
    is lost with `loss_percent`, and repeated up to `retries` times.

    `air` says who lets stations take turns: `queue`, the kernel's general disciplines, which charge
    every frame a mean; or `dcf`, the guest's own, where stations contend. Windows grow to `cw_max`
    there, frames to all go at `basic_rate_bps`, and `eifs` follows a collision. With `wait_difs` a
    frame waits for DIFS even where the channel has been idle for longer. A transmission goes
    unnoticed for `cca_us`, and who begins meanwhile collides with it.

    Up to `aggregate` frames of one station to one other go together (`aggregate_bytes` at most);
    a block acknowledgement says which of them came. Access points send `beacon_bytes` every
    `beacon_interval_ms` where that is above 0; with `management`, scans, authentications and
    associations take air, too. With `signal`, nodes are where their positions say.
    """

    name: str
    rate_bps: int
    slot_us: float
    sifs_us: float
    difs_us: float
    cw_min: int
    preamble_us: float
    ack_bytes: int
    ack_rate_bps: int
    ack_preamble_us: float | None = None
    symbol_us: float = 0.0
    service_bits: int = 0
    extension_us: float = 0.0
    mac_bytes: int = 28
    loss_percent: float = 0.0
    retries: int = 0
    air: str = QUEUE
    cw_max: int = 1023
    basic_rate_bps: int | None = None
    eifs: bool = False
    wait_difs: bool = False
    cca_us: float = 4.0
    aggregate: int = 1
    aggregate_bytes: int = 65535
    beacon_bytes: int = 0
    beacon_interval_ms: float = 102.4
    management: bool = False
    signal: Signal | None = None

    def __post_init__(self) -> None:
        """A medium that delivers nothing has no ceiling."""
        if self.loss_percent >= 100:
            raise ValueError("loss_percent must be below 100")
        self._refuse_what_is_beyond_numbers()
        if self.air not in (QUEUE, DCF):
            raise ValueError(f"air must be {DCF} or {QUEUE}")
        if self.air == DCF and self.slot_us < _MIN_SLOT_US:
            raise ValueError(f"slot_us must be {_MIN_SLOT_US} or more")
        if self.air == DCF and not self.cw_min <= self.cw_max <= _WINDOW_LIMIT:
            raise ValueError(f"cw_max must be from cw_min, {self.cw_min}, to {_WINDOW_LIMIT}")
        if self.air != DCF and (self.signal or self.management or self.beacon_bytes
                                or self.aggregate > 1):
            raise ValueError(f"signal, management, beacon_bytes and aggregate need air: {DCF}")
        if not 1 <= self.aggregate <= QUEUE_FRAMES:
            raise ValueError(f"aggregate must be from 1 to {QUEUE_FRAMES}")
        # Who loads files refuses rates of zero.
        if (self.beacon_bytes and self.broadcast_rate_bps
                and self.beacon_interval_ms * 1e3 <= self.beacon_us):
            raise ValueError("beacon_interval_ms must be longer than a beacon")

    def _refuse_what_is_beyond_numbers(self) -> None:
        for name, most in _AT_MOST.items():
            if (getattr(self, name) or 0) > most:
                raise ValueError(f"{name} must be at most {most}")
        slowest_bps = min(self.rate_bps, self.ack_rate_bps, self.broadcast_rate_bps)
        if self.symbol_us and 0 < slowest_bps * self.symbol_us < 1e6:
            raise ValueError(f"symbol_us: at {slowest_bps} bit/s a symbol has not one bit")

    @property
    def in_turns(self) -> Medium:
        """The same with queues in place of contention, and nothing that only contention has."""
        return replace(self, air=QUEUE, aggregate=1, beacon_bytes=0, management=False, signal=None)

    @property
    def older_preamble_us(self) -> float:
        """Preamble of frames that all have to understand: acknowledgements, and those to all."""
        return self.preamble_us if self.ack_preamble_us is None else self.ack_preamble_us

    @property
    def broadcast_rate_bps(self) -> int:
        """At which frames to all are sent."""
        return self.ack_rate_bps if self.basic_rate_bps is None else self.basic_rate_bps

    @property
    def ack_us(self) -> float:
        """Airtime of an acknowledgement."""
        return self.older_preamble_us + self._bits_us(self.ack_bytes, self.ack_rate_bps)

    @property
    def block_ack_us(self) -> float:
        """Airtime of a block acknowledgement."""
        return self.older_preamble_us + self._bits_us(_BLOCK_ACK_BYTES, self.ack_rate_bps)

    @property
    def beacon_us(self) -> float:
        """Airtime of a beacon; 0 where there are none."""
        return self.older_preamble_us + self._bits_us(
            self.beacon_bytes, self.broadcast_rate_bps) if self.beacon_bytes else 0.0

    @property
    def after_collision_us(self) -> float:
        """How much longer than DIFS others wait after a collision (EIFS less DIFS), DCF only.

        Nothing by default, as in Bianchi's model and in ns-3: preambles of equal strength hide each
        other, and who has not seen a frame begin does not wait for its acknowledgement.
        """
        return self.sifs_us + self.ack_us if self.eifs else 0.0

    @property
    def timeout_slots(self) -> int:
        """Slots that a sender waits longer than others, until it knows of a collision, DCF only.

        ACKTimeout is SIFS, a slot and the delay until a preamble has been seen (9.2.8).
        """
        timeout_us = self.sifs_us + self.slot_us + self.older_preamble_us
        return max(0, round((timeout_us - self.after_collision_us) / self.slot_us))

    def latency_us(self, msdu_bytes: float) -> float:
        """When the receiver has a frame that found the channel idle: preamble and bits."""
        return self.preamble_us + self._bits_us(self.mac_bytes + msdu_bytes, self.rate_bps)

    @property
    def backoff_us(self) -> float:
        """Mean backoff before a frame: 0 to `cw_min` slots, each as likely as any other."""
        return self.cw_min / 2 * self.slot_us

    @property
    def frame_overhead_us(self) -> float:
        """Mean airtime of a frame besides its own bits: DIFS, backoff, preamble, SIFS, ACK."""
        return self.difs_us + self.backoff_us + self.preamble_us + self.sifs_us + self.ack_us

    @property
    def residual_loss(self) -> float:
        """Share of frames, 0 to 1, that no attempt gets through."""
        return float((self.loss_percent / 100) ** (self.retries + 1))

    def airtime_us(self, msdu_bytes: float) -> float:
        """Mean time that one transmission keeps the air, up to the end of its acknowledgement.

        The MSDU is what the MAC layer carries: an IP packet and 8 bytes of LLC, and what a cipher
        adds. Without losses, collisions and contenders (IEEE 802.11-2007, 9.2; OFDM: 17.4.3, 19.8).
        """
        frame_us = self._bits_us(self.mac_bytes + msdu_bytes, self.rate_bps)
        return self.frame_overhead_us + frame_us

    def delivery_us(self, msdu_bytes: float) -> float:
        """Mean airtime of a delivered frame: with what was spent in vain before or for others.

        Of transmissions that are lost with probability p each, 1 / (1 - p) go to every delivered
        frame, however often a frame is repeated before it is given up.
        """
        return self._own_airtime_us(msdu_bytes) / (1 - self.loss_percent / 100)

    def subframe_bytes(self, msdu_bytes: float) -> int:
        """What a frame adds to an aggregate: itself, filled up, and the delimiter before it."""
        filled = math.ceil((self.mac_bytes + msdu_bytes) / _DELIMITER_BYTES) * _DELIMITER_BYTES
        return filled + _DELIMITER_BYTES

    def frames_together(self, msdu_bytes: float) -> int:
        """Return how many frames of this length go in one transmission at most."""
        return max(1, min(self.aggregate,
                          int(self.aggregate_bytes // self.subframe_bytes(msdu_bytes))))

    def _own_airtime_us(self, msdu_bytes: float) -> float:
        """A frame's part of the air where as many as can go together do; alone, all of it."""
        padded_bytes = self.subframe_bytes(msdu_bytes)
        together = self.frames_together(msdu_bytes)
        if together < 2:
            return self.airtime_us(msdu_bytes)
        overhead_us = self.frame_overhead_us - self.ack_us + self.block_ack_us
        return (overhead_us + self._bits_us(together * padded_bytes, self.rate_bps)) / together

    def ceiling_bps(self, msdu_bytes: int) -> float:
        """Rate of back-to-back MSDUs of one sender (bit/s).

        The theoretical maximum throughput of Jun, Peddabachagari and Sichitiu (2003). They count a
        MAC header with four addresses, `mac_bytes` of 34.
        """
        return msdu_bytes * 8 / self.delivery_us(msdu_bytes) * 1e6

    def udp_ceiling_bps(self, payload_bytes: int, cipher_bytes: int = 0) -> float:
        """Goodput of back-to-back UDP datagrams of one sender (bit/s).

        Their frames add 8 bytes of UDP, 20 of IP, 8 of LLC, and what a cipher adds.
        """
        msdu_bytes = payload_bytes + 8 + 20 + 8 + cipher_bytes
        return payload_bytes * 8 / self.delivery_us(msdu_bytes) * 1e6

    def tcp_ceiling_bps(self, segment_bytes: int = 1448, *, header_bytes: int = 52,
                        segments_per_ack: int = 2, cipher_bytes: int = 0) -> float:
        """Goodput of one TCP connection whose window always suffices (bit/s); an estimate.

        By default as Linux does it: segments of 1448 bytes with timestamps, headers of 52 bytes of
        IP and TCP, an acknowledgement for every second segment. Acknowledgements pay airtime too.
        """
        added_bytes = header_bytes + 8 + cipher_bytes
        turn_us = (segments_per_ack * self.delivery_us(segment_bytes + added_bytes)
                   + self.delivery_us(added_bytes))
        return segments_per_ack * segment_bytes * 8 / turn_us * 1e6

    def _bits_us(self, frame_bytes: float, rate_bps: int) -> float:
        """Time of a frame's own bits: OFDM sends whole symbols, and may have to be silent then."""
        bits = frame_bytes * 8 + self.service_bits
        if not self.symbol_us:
            return bits / rate_bps * 1e6 + self.extension_us
        symbols = math.ceil(bits / round(rate_bps * self.symbol_us / 1e6))
        return symbols * self.symbol_us + self.extension_us
