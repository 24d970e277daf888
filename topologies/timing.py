"""Media as plain data, and the airtime of a frame on a physical layer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from topologies.device import Strict
from topologies.signal import Signal

#: How stations take turns on the medium: contention as in 802.11, or a queue.
DCF, QUEUE = "dcf", "queue"
_WINDOW_LIMIT = 0xFFFF
#: The kernel's unit, one nanosecond.
_MIN_SLOT_US = 0.001
#: Length of a driver's transmit queue in frames; ath5k's holds 50. At 2 ms a frame that is 100 ms,
#: more than any window needs on a path without delay, and the most that users accept. It also
#: limits aggregation.
QUEUE_FRAMES = 50
_BLOCK_ACK_BYTES = 32
#: Size in bytes of the delimiter before each frame of an aggregate, and of the unit to which
#: frames are padded.
_DELIMITER_BYTES = 4
#: Bounds above any physical layer, within the range of the kernel's numbers.
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
    """The timing of a physical layer, in microseconds and bits per second.

    `ack_preamble_us` is the preamble of an acknowledgement if it differs (802.11n acknowledges in
    the older format). OFDM sends whole symbols of `symbol_us`, with `service_bits` around the
    frame and silence of `extension_us` after it. `mac_bytes` are MAC header and checksum. Each
    transmission is lost with `loss_percent`, and repeated up to `retries` times.

    `air` says how stations take turns. `queue` uses the kernel's general disciplines, which charge
    every frame the mean airtime. `dcf` is the guest's own discipline, where stations contend.
    There windows grow to `cw_max`, broadcast frames are sent at `basic_rate_bps`, and `eifs`
    follows a collision. With `wait_difs` a frame waits for DIFS even if the channel has been idle
    for longer. A transmission is not detected for `cca_us`, and a station that starts meanwhile
    collides with it.

    Up to `aggregate` frames from one station to another are sent together (at most
    `aggregate_bytes`); a block acknowledgement says which of them arrived. Access points send
    `beacon_bytes` every `beacon_interval_ms` if that is above 0. With `management`, scans,
    authentications and associations take airtime, too. With `signal`, the positions of nodes
    count.
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
        """Check the figures: a medium that delivers nothing would have no ceiling."""
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
        # The loader of files refuses rates of zero.
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
        """Return the medium with queues instead of contention, without contention's features."""
        return replace(self, air=QUEUE, aggregate=1, beacon_bytes=0, management=False, signal=None)

    @property
    def older_preamble_us(self) -> float:
        """Return the preamble of frames for all stations: acknowledgements and broadcasts."""
        return self.preamble_us if self.ack_preamble_us is None else self.ack_preamble_us

    @property
    def broadcast_rate_bps(self) -> int:
        """Return the rate of broadcast frames."""
        return self.ack_rate_bps if self.basic_rate_bps is None else self.basic_rate_bps

    @property
    def ack_us(self) -> float:
        """Return the airtime of an acknowledgement."""
        return self.older_preamble_us + self._bits_us(self.ack_bytes, self.ack_rate_bps)

    @property
    def block_ack_us(self) -> float:
        """Return the airtime of a block acknowledgement."""
        return self.older_preamble_us + self._bits_us(_BLOCK_ACK_BYTES, self.ack_rate_bps)

    @property
    def beacon_us(self) -> float:
        """Return the airtime of a beacon. The result is 0 if there are none."""
        return self.older_preamble_us + self._bits_us(
            self.beacon_bytes, self.broadcast_rate_bps) if self.beacon_bytes else 0.0

    @property
    def after_collision_us(self) -> float:
        """Return the time beyond DIFS that others wait after a collision (EIFS - DIFS), DCF only.

        It is 0 by default, as in Bianchi's model and in ns-3. Preambles of equal strength hide
        each other, and a station that has not seen a frame's start does not wait for its
        acknowledgement.
        """
        return self.sifs_us + self.ack_us if self.eifs else 0.0

    @property
    def timeout_slots(self) -> int:
        """Return the additional slots that a sender waits until it detects a collision, DCF only.

        ACKTimeout is SIFS, a slot and the delay until a preamble is detected (9.2.8).
        """
        timeout_us = self.sifs_us + self.slot_us + self.older_preamble_us
        return max(0, round((timeout_us - self.after_collision_us) / self.slot_us))

    def latency_us(self, msdu_bytes: float) -> float:
        """Return the time until a frame on an idle channel is received: preamble and bits."""
        return self.preamble_us + self._bits_us(self.mac_bytes + msdu_bytes, self.rate_bps)

    @property
    def backoff_us(self) -> float:
        """Return the mean backoff before a frame: 0 to `cw_min` slots, uniformly distributed."""
        return self.cw_min / 2 * self.slot_us

    @property
    def frame_overhead_us(self) -> float:
        """Return the mean airtime of a frame besides its own bits.

        These are DIFS, backoff, preamble, SIFS and ACK.
        """
        return self.difs_us + self.backoff_us + self.preamble_us + self.sifs_us + self.ack_us

    @property
    def residual_loss(self) -> float:
        """Return the share of frames, 0 to 1, that are lost in all attempts."""
        return float((self.loss_percent / 100) ** (self.retries + 1))

    def airtime_us(self, msdu_bytes: float) -> float:
        """Return the mean airtime of one transmission, up to the end of its acknowledgement.

        The MSDU is the payload of the MAC layer: an IP packet, 8 bytes of LLC, and what a cipher
        adds. Losses, collisions and contending stations are not included (IEEE 802.11-2007, 9.2;
        OFDM: 17.4.3, 19.8).
        """
        frame_us = self._bits_us(self.mac_bytes + msdu_bytes, self.rate_bps)
        return self.frame_overhead_us + frame_us

    def delivery_us(self, msdu_bytes: float) -> float:
        """Return the mean airtime of a delivered frame, with the airtime of lost transmissions.

        If each transmission is lost with probability p, every delivered frame needs 1 / (1 - p) of
        them. This does not depend on the number of repetitions before a frame is given up.
        """
        return self._own_airtime_us(msdu_bytes) / (1 - self.loss_percent / 100)

    def subframe_bytes(self, msdu_bytes: float) -> int:
        """Return the size of a frame in an aggregate: padded, with the delimiter before it."""
        filled = math.ceil((self.mac_bytes + msdu_bytes) / _DELIMITER_BYTES) * _DELIMITER_BYTES
        return filled + _DELIMITER_BYTES

    def frames_together(self, msdu_bytes: float) -> int:
        """Return the largest number of frames of this length in one transmission."""
        return max(1, min(self.aggregate,
                          int(self.aggregate_bytes // self.subframe_bytes(msdu_bytes))))

    def _own_airtime_us(self, msdu_bytes: float) -> float:
        """Return a frame's share of a full aggregate's airtime, or a single frame's airtime."""
        padded_bytes = self.subframe_bytes(msdu_bytes)
        together = self.frames_together(msdu_bytes)
        if together < 2:
            return self.airtime_us(msdu_bytes)
        overhead_us = self.frame_overhead_us - self.ack_us + self.block_ack_us
        return (overhead_us + self._bits_us(together * padded_bytes, self.rate_bps)) / together

    def ceiling_bps(self, msdu_bytes: int) -> float:
        """Return the rate of one sender's back-to-back MSDUs in bit/s.

        This is the theoretical maximum throughput of Jun, Peddabachagari and Sichitiu (2003). They
        count a MAC header with four addresses, `mac_bytes` of 34.
        """
        return msdu_bytes * 8 / self.delivery_us(msdu_bytes) * 1e6

    def udp_ceiling_bps(self, payload_bytes: int, cipher_bytes: int = 0) -> float:
        """Return the goodput of one sender's back-to-back UDP datagrams in bit/s.

        Their frames add 8 bytes of UDP, 20 of IP, 8 of LLC, and what a cipher adds.
        """
        msdu_bytes = payload_bytes + 8 + 20 + 8 + cipher_bytes
        return payload_bytes * 8 / self.delivery_us(msdu_bytes) * 1e6

    def tcp_ceiling_bps(self, segment_bytes: int = 1448, *, header_bytes: int = 52,
                        segments_per_ack: int = 2, cipher_bytes: int = 0) -> float:
        """Return the estimated goodput in bit/s of one TCP connection with a sufficient window.

        The defaults are Linux's: segments of 1448 bytes with timestamps, headers of 52 bytes of IP
        and TCP, and an acknowledgement for every second segment. Acknowledgements take airtime,
        too.
        """
        added_bytes = header_bytes + 8 + cipher_bytes
        turn_us = (segments_per_ack * self.delivery_us(segment_bytes + added_bytes)
                   + self.delivery_us(added_bytes))
        return segments_per_ack * segment_bytes * 8 / turn_us * 1e6

    def _bits_us(self, frame_bytes: float, rate_bps: int) -> float:
        """Return the time of a frame's own bits: whole OFDM symbols and the silence after them."""
        bits = frame_bytes * 8 + self.service_bits
        if not self.symbol_us:
            return bits / rate_bps * 1e6 + self.extension_us
        symbols = math.ceil(bits / round(rate_bps * self.symbol_us / 1e6))
        return symbols * self.symbol_us + self.extension_us
