"""Radio propagation: received power, the rate that suits it, and losses by noise.

Power falls with distance as in Mininet-WiFi's `logDistance`, with the exponent of the scripts in
`topologies/examples`. The effect of noise on a frame is as in ns-3's DsssErrorRateModel and
NistErrorRateModel (hard decisions, no fading). Rates do not change while a station does not move.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from topologies.device import Strict

_LIGHT_M_PER_S = 299_792_458.0
_NEAREST_M = 0.1
#: Size in bytes of a usual frame, by which a station chooses its rate.
_USUAL_BYTES = 1536
#: Size in bytes of an authentication request, a station's first frame, and the share of losses
#: from which on a station has no chance.
_SHORT_BYTES, _HOPELESS = 34, 0.999
#: Chips of a DSSS bit, in the bandwidth that ns-3 uses for noise.
_DSSS_SPREAD = 22
_ROOT_2 = math.sqrt(2)
#: Bounds in dBm and dB, from vacuum to a broadcasting station; the capture ratio has to fit the
#: kernel's number.
_RANGES = {"transmit_dbm": (-100, 100), "gains_db": (-100, 100), "exponent": (1, 10),
           "noise_dbm": (-200, 100), "sense_dbm": (-200, 100), "capture_db": (0, 60)}


@dataclass(frozen=True)
class Signal(Strict):
    """The range of a medium's transmissions. Without a signal, all radios hear each other.

    `gains_db` covers the antennas of both ends. A receiver that gets less than `sense_dbm` hears
    nothing. `capture_db` is the ratio by which a frame must exceed all overlapping frames to be
    received; with None, no overlapping frame is received. `rates_bps` are the rates that stations
    may choose.
    """

    rates_bps: list[int]
    transmit_dbm: float = 14.0
    gains_db: float = 10.0
    exponent: float = 4.0
    noise_dbm: float = -92.0
    sense_dbm: float = -92.0
    capture_db: float | None = 10.0

    def __post_init__(self) -> None:
        """Check that every rate has an error model, and that figures are within bounds."""
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise ValueError(f"{name} must be from {least} to {most}")
        unknown = [rate for rate in self.rates_bps if rate not in _BIT_ERRORS]
        if unknown or not self.rates_bps:
            raise ValueError(f"rates_bps: {unknown[0] if unknown else 'none'}; choose from "
                             f"{', '.join(map(str, sorted(_BIT_ERRORS)))}")

    def received_dbm(self, distance_m: float, frequency_hz: float) -> float:
        """Return the received power in dBm: Friis for the first metre, then by the exponent."""
        first_db = 20 * math.log10(4 * math.pi * frequency_hz / _LIGHT_M_PER_S)
        return (self.transmit_dbm + self.gains_db - first_db
                - 10 * self.exponent * math.log10(max(distance_m, _NEAREST_M)))

    def best_rate_bps(self, received_dbm: float) -> int:
        """Return the rate with the best goodput for usual frames.

        The result is the lowest if all are lost.
        """
        return max(sorted(self.rates_bps), key=lambda rate_bps: rate_bps * (
            1 - self.frame_loss(rate_bps, received_dbm, _USUAL_BYTES)))

    def reaches(self, received_dbm: float) -> bool:
        """Return whether a short frame at the lowest rate has a chance at a receiver."""
        lost = self.frame_loss(min(self.rates_bps), received_dbm, _SHORT_BYTES)
        return received_dbm >= self.sense_dbm and lost < _HOPELESS

    def frame_loss(self, rate_bps: int, received_dbm: float, frame_bytes: float) -> float:
        """Return the probability that noise destroys a frame, 0 to 1."""
        errors = bit_errors(rate_bps, 10 ** ((received_dbm - self.noise_dbm) / 10))
        return -math.expm1(frame_bytes * 8 * math.log1p(-errors))


@cache
def bit_errors(rate_bps: int, signal_to_noise: float) -> float:
    """Return the bit error rate, 0 to 0.5, at a rate and a power ratio."""
    return min(_BIT_ERRORS[rate_bps](signal_to_noise), 0.5)


def _dbpsk(ratio: float) -> float:
    return 0.5 * math.exp(-ratio * _DSSS_SPREAD)


def _dqpsk(ratio: float) -> float:
    """Return the bit error rate of differential QPSK.

    This is the approximation of Ferrari and Corazza (2004).
    """
    per_bit = ratio * _DSSS_SPREAD / 2
    return ((_ROOT_2 + 1) / math.sqrt(8 * math.pi * _ROOT_2) / math.sqrt(per_bit)
            * math.exp(-(2 - _ROOT_2) * per_bit))


def _cck(energy: float) -> Callable[[float], float]:
    """Return the bit error rate of CCK, as of eight biorthogonal codes (0.1 dB from ns-3)."""
    return lambda ratio: 8 / 15 * _codes_confused(math.sqrt(2 * energy * ratio))


def _codes_confused(distance: float) -> float:
    """Return the probability that codes at a distance are confused.

    It is 1 minus the integral of (2 Phi(x + distance) - 1)^3 phi(x) over x > -distance, computed
    by Simpson's rule.
    """
    steps, low, high = 400, max(-distance, -10.0), 10.0
    width = (high - low) / steps

    def wrong(x: float) -> float:
        right = math.erf((x + distance) / _ROOT_2)
        return (1 - right**3) * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    inner = sum((4 if step % 2 else 2) * wrong(low + step * width) for step in range(1, steps))
    below = 0.5 * math.erfc(-low / _ROOT_2)
    return below + (wrong(low) + inner + wrong(high)) * width / 3


def _ofdm(raw: Callable[[float], float], code: tuple[int, int, Sequence[int]]
          ) -> Callable[[float], float]:
    """Return the bit error rate after the convolutional code.

    This is its union bound, from its weights (Frenger et al., 1999).
    """
    bits, first, weights = code

    def errors(ratio: float) -> float:
        wrong = raw(ratio)
        base = math.sqrt(4 * wrong * (1 - wrong))
        step = 2 if bits == 1 else 1
        return sum(weight * base ** (first + step * place)
                   for place, weight in enumerate(weights)) / (2 * bits)
    return errors


def _bpsk(ratio: float) -> float:
    return 0.5 * math.erfc(math.sqrt(ratio))


def _qpsk(ratio: float) -> float:
    return 0.5 * math.erfc(math.sqrt(ratio / 2))


def _qam16(ratio: float) -> float:
    return 0.375 * math.erfc(math.sqrt(ratio / 10))


def _qam64(ratio: float) -> float:
    return 7 / 24 * math.erfc(math.sqrt(ratio / 42))


_HALF = (1, 10, (36, 211, 1404, 11633, 77433, 502690, 3322763, 21292910, 134365911))
_TWO_THIRDS = (2, 6, (3, 70, 285, 1276, 6160, 27128, 117019, 498860, 2103891, 8784123))
_THREE_QUARTERS = (3, 5, (42, 201, 1492, 10469, 62935, 379644, 2253373, 13073811, 75152755,
                          428005675))
_BIT_ERRORS: Mapping[int, Callable[[float], float]] = {
    1_000_000: _dbpsk, 2_000_000: _dqpsk, 5_500_000: _cck(8), 11_000_000: _cck(4),
    6_000_000: _ofdm(_bpsk, _HALF), 9_000_000: _ofdm(_bpsk, _THREE_QUARTERS),
    12_000_000: _ofdm(_qpsk, _HALF), 18_000_000: _ofdm(_qpsk, _THREE_QUARTERS),
    24_000_000: _ofdm(_qam16, _HALF), 36_000_000: _ofdm(_qam16, _THREE_QUARTERS),
    48_000_000: _ofdm(_qam64, _TWO_THIRDS), 54_000_000: _ofdm(_qam64, _THREE_QUARTERS)}


def distance_m(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the distance of two positions with two or three coordinates, in metres."""
    return math.sqrt(sum((a - b) ** 2 for a, b in itertools.zip_longest(one, other, fillvalue=0.0)))
