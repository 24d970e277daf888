"""Compute airtimes of 802.11 frames, limits of goodput, and radio propagation.

A `Medium` is read from a YAML file that states a physical layer's timing. It computes the airtime
of a frame, and upper limits of the goodput of TCP and UDP. Its `Signal` is optional: it computes
received power, rate and losses from the distance of two radios. The emulated air
(`topologies.medium`) and the reports use these numbers. Standard library only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from topologies.device import Strict
from topologies.phy_rates import NON_HT, Phy

# --- Radio propagation: received power, the rate that suits it, losses by noise ---
# Power falls with distance as in Mininet-WiFi's `logDistance`, with the exponent of the scripts in
# topologies/examples. Noise affects a frame as in ns-3's DsssErrorRateModel and NistErrorRateModel
# (hard decisions, no fading). Rates do not change while a station does not move.

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
    """The range of a medium's transmissions.

    Without it, all radios hear each other.

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
        """Check that every rate has an error model, and that values are within bounds."""
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise ValueError(f"{name} must be from {least} to {most}")
        unknown = [rate for rate in self.rates_bps if rate not in _BIT_ERRORS]
        if unknown or not self.rates_bps:
            raise ValueError(f"rates_bps: {unknown[0] if unknown else 'none'}; choose from "
                             f"{', '.join(map(str, sorted(_BIT_ERRORS)))}")

    def received_dbm(self, distance_m: float, frequency_hz: float) -> float:
        """Return the received power in dBm at a distance.

        Path loss follows Friis for the first metre, then the exponent.
        """
        first_db = 20 * math.log10(4 * math.pi * frequency_hz / _LIGHT_M_PER_S)
        return (self.transmit_dbm + self.gains_db - first_db
                - 10 * self.exponent * math.log10(max(distance_m, _NEAREST_M)))

    def best_rate_bps(self, received_dbm: float) -> int:
        """Return the rate with the best goodput for frames of usual length.

        The result is the lowest rate if all frames are lost.
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


def _dbpsk_errors(ratio: float) -> float:
    return 0.5 * math.exp(-ratio * _DSSS_SPREAD)


def _dqpsk_errors(ratio: float) -> float:
    """Return the bit error rate of differential QPSK (approximation of Ferrari, Corazza 2004)."""
    per_bit = ratio * _DSSS_SPREAD / 2
    return ((_ROOT_2 + 1) / math.sqrt(8 * math.pi * _ROOT_2) / math.sqrt(per_bit)
            * math.exp(-(2 - _ROOT_2) * per_bit))


def _cck_errors(energy: float) -> Callable[[float], float]:
    """Return a function for the bit error rate of CCK, as of eight biorthogonal codes.

    It differs from ns-3 by 0.1 dB.
    """
    return lambda ratio: 8 / 15 * _codes_confused(math.sqrt(2 * energy * ratio))


def _codes_confused(distance: float) -> float:
    """Return the probability that a receiver confuses CCK codes at a distance.

    It is 1 minus the integral of (2 Phi(x + distance) - 1)^3 phi(x) over x > -distance, computed by
    Simpson's rule.
    """
    steps, low, high = 400, max(-distance, -10.0), 10.0
    width = (high - low) / steps

    def wrong(x: float) -> float:
        right = math.erf((x + distance) / _ROOT_2)
        return (1 - right**3) * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    inner = sum((4 if step % 2 else 2) * wrong(low + step * width) for step in range(1, steps))
    below = 0.5 * math.erfc(-low / _ROOT_2)
    return below + (wrong(low) + inner + wrong(high)) * width / 3


def _ofdm_errors(raw: Callable[[float], float], code: tuple[int, int, Sequence[int]]
          ) -> Callable[[float], float]:
    """Return a function for the bit error rate of OFDM after the convolutional code.

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


def _bpsk_errors(ratio: float) -> float:
    return 0.5 * math.erfc(math.sqrt(ratio))


def _qpsk_errors(ratio: float) -> float:
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
    1_000_000: _dbpsk_errors, 2_000_000: _dqpsk_errors,
    5_500_000: _cck_errors(8), 11_000_000: _cck_errors(4),
    6_000_000: _ofdm_errors(_bpsk_errors, _HALF),
    9_000_000: _ofdm_errors(_bpsk_errors, _THREE_QUARTERS),
    12_000_000: _ofdm_errors(_qpsk_errors, _HALF),
    18_000_000: _ofdm_errors(_qpsk_errors, _THREE_QUARTERS),
    24_000_000: _ofdm_errors(_qam16, _HALF), 36_000_000: _ofdm_errors(_qam16, _THREE_QUARTERS),
    48_000_000: _ofdm_errors(_qam64, _TWO_THIRDS),
    54_000_000: _ofdm_errors(_qam64, _THREE_QUARTERS)}


def distance_m(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the distance of two positions with two or three coordinates, in metres."""
    return math.sqrt(sum((a - b) ** 2 for a, b in itertools.zip_longest(one, other, fillvalue=0.0)))


# --- Timing of a physical layer ---

#: How stations take turns on the medium: contention as in 802.11, or a queue.
DCF, QUEUE = "dcf", "queue"
#: End of the name of a medium that a policy cannot use with HT.
WITHOUT_HT = f"-{NON_HT.lower()}"
_WINDOW_LIMIT = 0xFFFF
#: Values of AIFSN (9.4.2.28).
_AIFSNS = range(2, 16)
#: Size of QoS Control in bytes.
_QOS_BYTES = 2
#: OFDM at 54 Mbit/s (17.3.2): rate in bit/s, a symbol in us, and SERVICE and tail bits.
_OFDM_RATE_BPS, _OFDM_SYMBOL_US, _OFDM_SERVICE_BITS = 54_000_000, 4.0, 22
#: The kernel's unit, one nanosecond.
_MIN_SLOT_US = 0.001
#: Length of a driver's transmit queue in frames; ath5k's holds 50. At 2 ms a frame that is 100 ms,
#: more than any window needs on a path without delay, and the most that users accept.
QUEUE_FRAMES = 50
#: Most frames that the kernel's channel keeps for a station.
_MOST_QUEUE_FRAMES = 4096
#: Frames that a compressed block acknowledgement tells of, and its size in bytes with a bitmap of
#: 64 or of 256 bits (9.3.1.8).
_BITMAP_BYTES = {64: 32, 256: 56}
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
                     "extension_us", "cca_us", "beacon_interval_ms", "duration_step_us",
                     "longest_ppdu_us", "mpdu_spacing_us"), _MAX_US),
    "retries": 255}


@dataclass(frozen=True)
class Medium(Strict):
    """The timing of an 802.11 physical layer, in microseconds and bits per second.

    `ack_preamble_us` is the preamble of an acknowledgement if it differs (802.11n acknowledges in
    the older format). OFDM sends whole symbols of `symbol_us`, with `service_bits` around the frame
    and silence of `extension_us` after it. `mac_bytes` are MAC header and checksum. Each
    transmission is lost with `loss_percent`, and repeated up to `retries` times.

    `air` says how stations take turns. `queue` uses the kernel's general disciplines, which charge
    every frame the mean airtime. `dcf` is the guest's own discipline, where stations contend. There
    windows grow to `cw_max`, broadcast frames are sent at `basic_rate_bps`, and `eifs` follows a
    collision. With `wait_difs` a frame waits for DIFS even if the channel has been idle for longer.
    A transmission is not detected for `cca_us`, and a station that starts meanwhile collides with
    it.

    Up to `aggregate` frames from one station to another are sent together (at most
    `aggregate_bytes`, and `longest_ppdu_us` if that is above 0); a block acknowledgement says which
    of them arrived. Frames of an aggregate begin `mpdu_spacing_us` apart or more. With `s_mpdu`, a
    frame that is sent alone is an aggregate of one (VHT, HE). A station's queue holds
    `queue_frames`. With `duration_step_us`, the symbols of a frame are filled up to a multiple of
    that time. Access points send `beacon_bytes` every `beacon_interval_ms` if that is above 0. With
    `management`, scans, authentications and associations take airtime, too. With `signal`, the
    positions of nodes count. With `phy`, access points offer HT, VHT or HE, and the values must
    be those of this physical layer.
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
    longest_ppdu_us: float = 0.0
    mpdu_spacing_us: float = 0.0
    s_mpdu: bool = False
    queue_frames: int = QUEUE_FRAMES
    duration_step_us: float = 0.0
    beacon_bytes: int = 0
    beacon_interval_ms: float = 102.4
    management: bool = False
    signal: Signal | None = None
    phy: Phy | None = None

    def __post_init__(self) -> None:
        """Check that the medium can deliver frames at all."""
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
        if not 1 <= self.queue_frames <= _MOST_QUEUE_FRAMES:
            raise ValueError(f"queue_frames must be from 1 to {_MOST_QUEUE_FRAMES}")
        longest = min(self.queue_frames, max(_BITMAP_BYTES))
        if not 1 <= self.aggregate <= longest:
            raise ValueError(f"aggregate must be from 1 to {longest}")
        self._check_phy()
        # The loader of files refuses rates of zero.
        if (self.beacon_bytes and self.broadcast_rate_bps
                and self.beacon_interval_ms * 1e3 <= self.beacon_us):
            raise ValueError("beacon_interval_ms must be longer than a beacon")

    def _check_phy(self) -> None:
        """Refuse values that the physical layer (`phy`) does not have, or that EDCA cannot have."""
        if self.phy is None:
            return
        if self.signal is not None:
            raise ValueError("signal and phy exclude each other: rates by distance are those of "
                             "802.11b, a and g")
        for name, value in self.phy.medium_fields().items():
            if not math.isclose(getattr(self, name), value, rel_tol=1e-9):
                raise ValueError(f"{name} must be {value:.12g} with {self.phy.full_name}")
        # Access points announce the parameters of EDCA in these units.
        if self.aifs_number not in _AIFSNS or not math.isclose(
                self.difs_us, self.sifs_us + self.aifs_number * self.slot_us):
            raise ValueError(f"difs_us must be sifs_us and {_AIFSNS[0]} to {_AIFSNS[-1]} slots, "
                             "as in EDCA")
        for name in ("cw_min", "cw_max"):
            if (getattr(self, name) + 1).bit_count() != 1:
                raise ValueError(f"{name} must be a power of two less one, as in EDCA")

    def _refuse_what_is_beyond_numbers(self) -> None:
        for name, most in _AT_MOST.items():
            if (getattr(self, name) or 0) > most:
                raise ValueError(f"{name} must be at most {most}")
        slowest_bps = min(self.rate_bps, self.ack_rate_bps, self.broadcast_rate_bps)
        if self.symbol_us and 0 < slowest_bps * self.symbol_us < 1e6:
            raise ValueError(f"symbol_us: at {slowest_bps} bit/s a symbol has not one bit")

    @property
    def without_contention(self) -> Medium:
        """Return a copy in which stations take turns, without the features of contention."""
        return replace(self, air=QUEUE, aggregate=1, beacon_bytes=0, management=False, signal=None)

    @property
    def without_aggregation(self) -> Medium:
        """Return a copy of the medium in which each frame is sent alone."""
        return self if self.aggregate == 1 else replace(self, aggregate=1)

    @property
    def has_long_aggregates(self) -> bool:
        """Return whether frames go together as by 802.11n, ac and ax (`phy`)."""
        return self.phy is not None and self.aggregate > 1

    @property
    def without_ht(self) -> Medium:
        """Return the medium as WEP and TKIP have it: 54 Mbit/s in OFDM, each frame alone.

        Frames keep the header for QoS and the waiting times of EDCA. The result is this medium
        where no HT is offered anyway.
        """
        if self.phy is None or self.phy.is_non_ht:
            return self
        return replace(
            self, name=f"{self.name}{WITHOUT_HT}", rate_bps=_OFDM_RATE_BPS,
            preamble_us=self.older_preamble_us, ack_preamble_us=None, symbol_us=_OFDM_SYMBOL_US,
            service_bits=_OFDM_SERVICE_BITS, duration_step_us=0.0, aggregate=1, s_mpdu=False,
            mpdu_spacing_us=0.0, longest_ppdu_us=0.0, queue_frames=QUEUE_FRAMES,
            phy=Phy(NON_HT, self.phy.band_ghz, channels=self.phy.channels))

    @property
    def aifs_number(self) -> int:
        """Return the slots of the interframe space after SIFS: 2 for DIFS, or AIFSN of EDCA."""
        return round((self.difs_us - self.sifs_us) / self.slot_us)

    def tuned_channel(self, channel: int, channels: Collection[int]) -> int:
        """Return the channel that a radio is tuned to.

        Args:
            channel: The access point's channel in the network.
            channels: The channels of all access points in the network.

        Raises:
            ValueError: The network has more channels than the physical layer has.
        """
        return channel if self.phy is None else self.phy.tuned_channel(channel, channels)

    @property
    def older_preamble_us(self) -> float:
        """Return the preamble of frames that all stations understand, in us.

        These are acknowledgements and broadcasts.
        """
        return self.preamble_us if self.ack_preamble_us is None else self.ack_preamble_us

    @property
    def group_mac_bytes(self) -> int:
        """Return MAC header and checksum of an access point's group frames, which have no QoS."""
        return self.mac_bytes if self.phy is None else self.mac_bytes - _QOS_BYTES

    @property
    def older_symbol_us(self) -> float:
        """Return the symbol of frames for all stations in us: with `phy` that of 802.11a and g."""
        return self.symbol_us if self.phy is None else _OFDM_SYMBOL_US

    @property
    def older_service_bits(self) -> int:
        """Return SERVICE and tail bits of frames for all stations."""
        return self.service_bits if self.phy is None else _OFDM_SERVICE_BITS

    @property
    def broadcast_rate_bps(self) -> int:
        """Return the rate of broadcast frames."""
        return self.ack_rate_bps if self.basic_rate_bps is None else self.basic_rate_bps

    @property
    def ack_us(self) -> float:
        """Return the airtime of an acknowledgement."""
        return self.older_preamble_us + self._older_bits_us(self.ack_bytes, self.ack_rate_bps)

    @property
    def block_ack_us(self) -> float:
        """Return the airtime of a block acknowledgement."""
        size_bytes = next(size for frames, size in _BITMAP_BYTES.items()
                          if self.aggregate <= frames)
        return self.older_preamble_us + self._older_bits_us(size_bytes, self.ack_rate_bps)

    @property
    def beacon_us(self) -> float:
        """Return the airtime of a beacon. The result is 0 if there are none."""
        return self.older_preamble_us + self._older_bits_us(
            self.beacon_bytes, self.broadcast_rate_bps) if self.beacon_bytes else 0.0

    @property
    def after_collision_us(self) -> float:
        """Return how much longer than DIFS stations wait after a collision (EIFS - DIFS), in us.

        Only DCF (contention) has collisions. It is 0 by default, as in Bianchi's model and in ns-3.
        Preambles of equal strength hide each other, and a station that has not seen a frame's start
        does not wait for its acknowledgement.
        """
        return self.sifs_us + self.ack_us if self.eifs else 0.0

    @property
    def timeout_slots(self) -> int:
        """Return how many more slots a sender waits until it detects a collision (DCF only).

        ACKTimeout is SIFS, a slot and the delay until a preamble is detected (9.2.8).
        """
        timeout_us = self.sifs_us + self.slot_us + self.older_preamble_us
        return max(0, round((timeout_us - self.after_collision_us) / self.slot_us))

    def latency_us(self, msdu_bytes: float) -> float:
        """Return how long a frame takes to be received on an idle channel, in us."""
        return self.preamble_us + self._bits_us(self._single_frame_bytes(msdu_bytes), self.rate_bps)

    def _single_frame_bytes(self, msdu_bytes: float) -> float:
        """Return the size of a frame that is sent alone, with its delimiter if it has one."""
        return self.subframe_bytes(msdu_bytes) if self.s_mpdu else self.mac_bytes + msdu_bytes

    @property
    def backoff_us(self) -> float:
        """Return the mean backoff before a frame, in us: half of `cw_min` slots."""
        return self.cw_min / 2 * self.slot_us

    @property
    def frame_overhead_us(self) -> float:
        """Return the mean airtime of a frame besides its own bits, in us.

        It consists of DIFS, backoff, preamble, SIFS and ACK.
        """
        return self.difs_us + self.backoff_us + self.preamble_us + self.sifs_us + self.ack_us

    @property
    def residual_loss(self) -> float:
        """Return the fraction of frames that are lost in all transmission attempts (0 to 1)."""
        return float((self.loss_percent / 100) ** (self.retries + 1))

    def airtime_us(self, msdu_bytes: float) -> float:
        """Return the mean airtime of one transmission, up to the end of its acknowledgement.

        The MSDU is the payload of the MAC layer: an IP packet, 8 bytes of LLC, and what a cipher
        adds. Losses, collisions and contending stations are not included (IEEE 802.11-2007, 9.2;
        OFDM: 17.4.3, 19.8).
        """
        frame_us = self._bits_us(self._single_frame_bytes(msdu_bytes), self.rate_bps)
        return self.frame_overhead_us + frame_us

    def delivery_us(self, msdu_bytes: float) -> float:
        """Return the mean airtime of a delivered frame, including its lost transmissions, in us.

        If each transmission is lost with probability p, every delivered frame needs 1 / (1 - p) of
        them. This does not depend on the number of repetitions before a frame is given up.
        """
        return self._own_airtime_us(msdu_bytes) / (1 - self.loss_percent / 100)

    def subframe_bytes(self, msdu_bytes: float) -> int:
        """Return the size of a frame in an aggregate: padded, with the delimiter before it."""
        filled = math.ceil((self.mac_bytes + msdu_bytes) / _DELIMITER_BYTES) * _DELIMITER_BYTES
        return filled + _DELIMITER_BYTES

    def frames_together(self, msdu_bytes: float) -> int:
        """Return how many frames of this length fit into one aggregated transmission."""
        own_bytes = self.subframe_bytes(msdu_bytes)
        spaced_bytes = max(own_bytes, self.spacing_bytes(self.rate_bps))
        room_bytes = self.longest_aggregate_bytes(self.rate_bps) - own_bytes
        return max(1, min(self.aggregate, 1 + int(room_bytes // spaced_bytes)))

    def spacing_bytes(self, rate_bps: int) -> int:
        """Return the bytes from one frame of an aggregate to the next, at least (10.12.3)."""
        spacing_bytes = self.mpdu_spacing_us * rate_bps / 8e6
        return math.ceil(spacing_bytes / _DELIMITER_BYTES) * _DELIMITER_BYTES

    def longest_aggregate_bytes(self, rate_bps: int) -> int:
        """Return the largest size of an aggregate: by its limit, and by that of its duration."""
        if not self.longest_ppdu_us or not self.symbol_us:
            return self.aggregate_bytes
        room_us = self.longest_ppdu_us - self.preamble_us
        if self.duration_step_us:
            room_us = room_us // self.duration_step_us * self.duration_step_us
        # Durations of symbols are multiples of 0.1 us, which is no binary fraction.
        symbols = math.floor(room_us / self.symbol_us + 1e-9)
        bits = symbols * round(rate_bps * self.symbol_us / 1e6) - self.service_bits
        return min(self.aggregate_bytes, bits // 8 // _DELIMITER_BYTES * _DELIMITER_BYTES)

    def _own_airtime_us(self, msdu_bytes: float) -> float:
        """Return a frame's part of the airtime of a full aggregate, or its own airtime, in us."""
        together = self.frames_together(msdu_bytes)
        if together < 2:
            return self.airtime_us(msdu_bytes)
        return (self.difs_us + self.backoff_us + self.full_ppdu_us(msdu_bytes) + self.sifs_us
                + self.block_ack_us) / together

    def full_ppdu_us(self, msdu_bytes: float) -> float:
        """Return the time in us of preamble and bits of as many frames as go together."""
        together = self.frames_together(msdu_bytes)
        if together < 2:
            return self.latency_us(msdu_bytes)
        own_bytes = self.subframe_bytes(msdu_bytes)
        spaced_bytes = max(own_bytes, self.spacing_bytes(self.rate_bps))
        return self.preamble_us + self._bits_us((together - 1) * spaced_bytes + own_bytes,
                                                self.rate_bps)

    def ceiling_bps(self, msdu_bytes: int) -> float:
        """Return the highest rate at which one sender can send frames of this length, in bit/s.

        This is the theoretical maximum throughput of Jun, Peddabachagari and Sichitiu (2003). They
        count a MAC header with four addresses, `mac_bytes` of 34.
        """
        return msdu_bytes * 8 / self.delivery_us(msdu_bytes) * 1e6

    def udp_ceiling_bps(self, payload_bytes: int, cipher_bytes: int = 0) -> float:
        """Return the highest goodput of one sender's UDP datagrams, in bit/s.

        Their frames add 8 bytes of UDP, 20 of IP, 8 of LLC, and what a cipher adds.
        """
        msdu_bytes = payload_bytes + 8 + 20 + 8 + cipher_bytes
        return payload_bytes * 8 / self.delivery_us(msdu_bytes) * 1e6

    def tcp_ceiling_bps(self, segment_bytes: int = 1448, *, header_bytes: int = 52,
                        segments_per_ack: int = 2, cipher_bytes: int = 0) -> float:
        """Return the highest goodput of one TCP connection, in bit/s (estimate).

        The window is taken to be sufficient. The defaults are Linux's: segments of 1448 bytes with
        timestamps, headers of 52 bytes of IP and TCP, and an acknowledgement for every second
        segment. Of segments that arrive together in an aggregate, the last one is acknowledged.
        Acknowledgements take airtime, too, each alone.
        """
        added_bytes = header_bytes + 8 + cipher_bytes
        segments = max(segments_per_ack, self.frames_together(segment_bytes + added_bytes))
        turn_us = (segments * self.delivery_us(segment_bytes + added_bytes)
                   + self.without_aggregation.delivery_us(added_bytes))
        return segments * segment_bytes * 8 / turn_us * 1e6

    def _bits_us(self, frame_bytes: float, rate_bps: int) -> float:
        """Return the airtime of a frame's own bits in us, in whole OFDM symbols."""
        return self._symbols_us(frame_bytes * 8 + self.service_bits, rate_bps, self.symbol_us,
                                self.duration_step_us)

    def _older_bits_us(self, frame_bytes: float, rate_bps: int) -> float:
        """Return the airtime in us of the bits of a frame in the format that all stations know."""
        return self._symbols_us(frame_bytes * 8 + self.older_service_bits, rate_bps,
                                self.older_symbol_us, 0.0)

    def _symbols_us(self, bits: float, rate_bps: int, symbol_us: float, step_us: float) -> float:
        if not symbol_us:
            return bits / rate_bps * 1e6 + self.extension_us
        data_us = math.ceil(bits / round(rate_bps * symbol_us / 1e6)) * symbol_us
        if step_us:
            # Durations of symbols are multiples of 0.1 us, which is no binary fraction.
            data_us = math.ceil(data_us / step_us - 1e-9) * step_us
        return data_us + self.extension_us
