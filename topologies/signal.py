"""A signal is what distance leaves of a transmission: its power, the rate that suits it, its losses.

Power falls with distance as in Mininet-WiFi's `logDistance`, with the exponent of the scripts in
`topologies/examples`. What noise makes of a frame is as in ns-3: DSSS by its DsssErrorRateModel, OFDM
by the hard-decision bounds of its NistErrorRateModel. Rates do not change while a station stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from topologies.device import Strict

_LIGHT_M_PER_S = 299_792_458.0
_NEAREST_M = 0.1
_DSSS_BANDWIDTH_HZ = 22e6
#: A typical frame, by which a station finds its rate.
_TYPICAL_BYTES = 1536


@dataclass(frozen=True)
class Signal(Strict):
    """How far a medium's transmissions reach; without one, everybody hears everybody.

    Antennas' gains are both ends'. Who gets less than `sense_dbm` hears nothing. `capture_db` is by
    how much a frame has to be stronger than all others to come through; None: nothing collides and
    comes through. `rates_bps` are those that stations may choose from.
    """

    rates_bps: list[int]
    transmit_dbm: float = 14.0
    gains_db: float = 10.0
    exponent: float = 4.0
    noise_dbm: float = -92.0
    sense_dbm: float = -92.0
    capture_db: float | None = 10.0

    def received_dbm(self, distance_m: float, frequency_hz: float) -> float:
        """Power at a receiver: Friis' for the first metre, then by the exponent."""
        first_db = 20 * math.log10(4 * math.pi * frequency_hz / _LIGHT_M_PER_S)
        return (self.transmit_dbm + self.gains_db - first_db
                - 10 * self.exponent * math.log10(max(distance_m, _NEAREST_M)))

    def best_rate_bps(self, received_dbm: float) -> int:
        """The rate that brings over most of a frame of usual length; the lowest if none does."""
        return max(sorted(self.rates_bps), key=lambda rate: rate * (
            1 - self.loss(rate, received_dbm, _TYPICAL_BYTES)))

    def loss(self, rate_bps: int, received_dbm: float, frame_bytes: float) -> float:
        """How probably a frame is lost to noise, 0 to 1."""
        ratio = 10 ** ((received_dbm - self.noise_dbm) / 10)
        bits = frame_bytes * 8
        return 1.0 - (1.0 - _BIT_ERRORS[rate_bps](ratio)) ** bits


def _bpsk(ratio: float) -> float:
    return 0.5 * math.exp(-ratio * _DSSS_BANDWIDTH_HZ / 1e6)


def _dqpsk(ratio: float) -> float:
    per_bit = ratio * _DSSS_BANDWIDTH_HZ / 2e6
    return 0.5 * math.exp(-per_bit) if per_bit < _LITTLE else _dqpsk_sum(per_bit)


_LITTLE = 0.0


def _dqpsk_sum(per_bit: float) -> float:
    root = math.sqrt(2.0)
    return ((root + 1) / math.sqrt(8 * math.pi * root)) / math.sqrt(per_bit) * math.exp(
        -(2 - root) * per_bit)
