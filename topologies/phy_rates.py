"""Compute bit rates and timing of 802.11n, ac and ax (HT, VHT and HE) by their formulas.

A `Phy` names a format, a channel width, spatial streams, an MCS and a guard interval. Its rate and
its timing follow from the standard. So the values in a medium's YAML file (802.11 timing) can be
checked against them. Clauses are those of IEEE 802.11-2020, and of IEEE 802.11ax-2021 for HE.
Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from topologies.device import Strict

HT, VHT, HE, NON_HT = "HT", "VHT", "HE", "non-HT"
#: Formats of 802.11n, 802.11ac and 802.11ax. Without HT, a station uses the OFDM of 802.11a and g.
_FORMATS = (HT, VHT, HE, NON_HT)
#: Data subcarriers by format and channel width in MHz (19.3.6, 21.3.6, 27.3.9). In HE, one resource
#: unit takes the whole channel.
_DATA_SUBCARRIERS: Mapping[str, Mapping[int, int]] = {
    HT: {20: 52, 40: 108}, VHT: {20: 52, 40: 108, 80: 234}, HE: {20: 234, 40: 468, 80: 980}}
#: Coded bits of a subcarrier, and coding rate, by MCS of one stream (19.5, 21.5, 27.5).
_MODULATIONS = ((1, Fraction(1, 2)), (2, Fraction(1, 2)), (2, Fraction(3, 4)),
                (4, Fraction(1, 2)), (4, Fraction(3, 4)), (6, Fraction(2, 3)),
                (6, Fraction(3, 4)), (6, Fraction(5, 6)), (8, Fraction(3, 4)),
                (8, Fraction(5, 6)), (10, Fraction(3, 4)), (10, Fraction(5, 6)))
_LAST_MCS = {HT: 7, VHT: 9, HE: 11}
#: Number of MCS indices of one stream in HT, where each further stream counts on.
_HT_STEP = 8
#: Guard intervals in us by format, the shortest first.
_GUARDS_US: Mapping[str, tuple[float, ...]] = {
    HT: (0.4, 0.8), VHT: (0.4, 0.8), HE: (0.8, 1.6, 3.2)}
#: A symbol without its guard interval, in us.
_SYMBOL_US = {HT: 3.2, VHT: 3.2, HE: 12.8}
#: Preamble in us besides the streams' training fields: legacy fields of 20 us, and HT-SIG and
#: HT-STF, or VHT-SIG-A, VHT-STF and VHT-SIG-B, or RL-SIG, HE-SIG-A and HE-STF (19.4.3, 21.4.3,
#: 27.4.3).
_PREAMBLE_US = {HT: 32.0, VHT: 36.0, HE: 36.0}
#: Training field of a stream in HT and VHT, in us.
_TRAINING_US = 4.0
#: Training field in HE without its guard interval, in us, by guard interval: 2x or 4x HE-LTF, the
#: combinations that every receiver must support (27.3.1.1).
_HE_TRAINING_US = {0.8: 6.4, 1.6: 6.4, 3.2: 12.8}
#: Bits before a frame, and tail bits of one encoder of the convolutional code. HE uses LDPC, which
#: has no tail.
_SERVICE_BITS, _TAIL_BITS = 16, 6
#: Rates in bit/s with the short guard interval up to which one encoder suffices (19.5, 21.5).
_ENCODER_BPS = {HT: 300e6, VHT: 600e6}
#: SIFS and the silence that belongs to a frame (aSignalExtension), in us, by band in GHz (19.4.4,
#: 21.4.4, 27.4.4).
_BANDS: Mapping[float, tuple[float, float]] = {
    2.4: (10.0, 6.0), 5.0: (16.0, 0.0), 6.0: (16.0, 0.0)}
_LOWER_GHZ, _UPPER_GHZ = 2.4, 6.0
_SLOT_US = 9.0
#: Unit in us of the duration that L-SIG announces. Symbols with a short guard interval are filled
#: up to it (19.4.3, 21.4.3).
_STEP_US = 4.0
#: Streams of the emulated radios (mac80211_hwsim).
_MOST_STREAMS = 2
_NARROWEST_MHZ = 20
#: First channels in 5 GHz of the blocks of each width in MHz that need no radar detection (USA).
_FREE_CHANNELS: Mapping[int, tuple[int, ...]] = {
    20: (36, 40, 44, 48, 149, 153, 157, 161), 40: (36, 44, 149, 157), 80: (36, 149)}
#: First channels in 6 GHz of the blocks of each width that are free in Europe, 5945 to 6425 MHz.
_UPPER_CHANNELS: Mapping[int, tuple[int, ...]] = {
    20: tuple(range(1, 94, 4)), 40: tuple(range(1, 90, 8)), 80: tuple(range(1, 82, 16))}
#: Operating classes in 6 GHz (IEEE 802.11ax-2021, Table E-4).
_UPPER_CLASSES: Mapping[int, int] = {20: 131, 40: 132, 80: 133}


@dataclass(frozen=True)
class Phy(Strict):
    """A physical layer that access points announce and stations use.

    `format` is HT, VHT or HE, or non-HT for OFDM without any of them. `mcs` is the index of
    modulation and coding. In HT it also gives the number of streams: 8 to 15 mean two streams.
    `channels` are channels in 5 or 6 GHz. They replace the network's channels of the 2.4 GHz band:
    the network's lowest channel becomes the first channel of the list, and so on.
    """

    format: str
    band_ghz: float
    width_mhz: int = _NARROWEST_MHZ
    streams: int = 1
    mcs: int = 0
    guard_us: float = 0.8
    channels: list[int] = field(default_factory=list, hash=False)

    def __post_init__(self) -> None:
        """Check that 802.11 and the emulated radios have this format, band, width and rate."""
        if self.format not in _FORMATS:
            raise ValueError(f"format must be one of {', '.join(_FORMATS)}")
        if self.band_ghz not in _BANDS:
            raise ValueError(f"band_ghz must be {' or '.join(f'{band:g}' for band in _BANDS)}")
        if self.is_in_2_4_ghz:
            self._check_lower_band()
        elif self.is_in_6_ghz:
            self._check_upper_band()
        else:
            free = _FREE_CHANNELS.get(self.width_mhz, ())
            if not self.channels or not set(self.channels) <= set(free):
                raise ValueError(f"channels must be some of {', '.join(map(str, free))}, which "
                                 f"need no radar detection with {self.width_mhz} MHz")
        if self.format != NON_HT:
            self._check_rate()

    def _check_lower_band(self) -> None:
        if self.format == VHT:
            raise ValueError("band_ghz must be 5 with VHT")
        if self.channels:
            raise ValueError("channels are those of the network in 2.4 GHz, leave them out")
        if self.width_mhz != _NARROWEST_MHZ:
            raise ValueError(f"width_mhz must be {_NARROWEST_MHZ} in 2.4 GHz, where wider channels "
                             "overlap with others")

    def _check_upper_band(self) -> None:
        if self.format != HE:
            raise ValueError("format must be HE in 6 GHz, which has no older one")
        free = _UPPER_CHANNELS.get(self.width_mhz, ())
        if not self.channels or not set(self.channels) <= set(free):
            raise ValueError(f"channels must be some of {', '.join(map(str, free))}, where blocks "
                             f"of {self.width_mhz} MHz begin in 6 GHz")

    def _check_rate(self) -> None:
        for name, known in (("width_mhz", list(_DATA_SUBCARRIERS[self.format])),
                            ("guard_us", list(_GUARDS_US[self.format])),
                            ("streams", list(range(1, _MOST_STREAMS + 1)))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(map(str, known))} with "
                                 f"{self.format} and the emulated radios")
        if not 0 <= self.mcs_of_stream <= _LAST_MCS[self.format]:
            first = self.mcs - self.mcs_of_stream
            raise ValueError(f"mcs must be from {first} to {first + _LAST_MCS[self.format]} with "
                             f"{self.format} and {self.streams} streams")
        # Each symbol has whole bits for each encoder (21.5): 20 MHz have no MCS 9.
        if self.format == VHT and self._symbol_bits % self._encoder_count:
            raise ValueError(f"mcs {self.mcs} does not exist in VHT with {self.streams} streams in "
                             f"{self.width_mhz} MHz")

    @property
    def is_in_2_4_ghz(self) -> bool:
        """Return whether the radios are in the 2.4 GHz band."""
        return self.band_ghz == _LOWER_GHZ

    @property
    def is_in_6_ghz(self) -> bool:
        """Return whether the radios are in the 6 GHz band."""
        return self.band_ghz == _UPPER_GHZ

    @property
    def operating_class(self) -> int | None:
        """Return the operating class of a channel in 6 GHz, None in another band."""
        return _UPPER_CLASSES[self.width_mhz] if self.is_in_6_ghz else None

    @property
    def is_non_ht(self) -> bool:
        """Return whether frames have neither HT, VHT nor HE format."""
        return self.format == NON_HT

    @property
    def has_short_guard(self) -> bool:
        """Return whether the guard interval is HT's or VHT's short one."""
        return self.format in (HT, VHT) and self.guard_us == _GUARDS_US[self.format][0]

    @property
    def full_name(self) -> str:
        """Return all that the physical layer has as one text."""
        if self.is_non_ht:
            return f"OFDM without HT in {self.band_ghz:g} GHz"
        streams = f"{self.streams} stream{'s' if self.streams > 1 else ''}"
        return (f"{self.format} MCS {self.mcs}, {streams}, {self.width_mhz} MHz, guard interval "
                f"{self.guard_us:g} us, {self.band_ghz:g} GHz")

    @property
    def mcs_of_stream(self) -> int:
        """Return the MCS of one stream. HT counts on with each stream."""
        return self.mcs - (self.streams - 1) * _HT_STEP if self.format == HT else self.mcs

    @property
    def _symbol_bits(self) -> Fraction:
        """Return the data bits of a symbol, which need not be whole."""
        bits, coding = _MODULATIONS[self.mcs_of_stream]
        return _DATA_SUBCARRIERS[self.format][self.width_mhz] * bits * self.streams * coding

    @property
    def _symbol_us(self) -> float:
        return round(_SYMBOL_US[self.format] + self.guard_us, 1)

    @property
    def rate_bps(self) -> float:
        """Return the data rate in bit/s: whole bits of a symbol (N_DBPS) over its duration."""
        return math.floor(self._symbol_bits) / self._symbol_us * 1e6

    @property
    def _encoder_count(self) -> int:
        """Return the number of convolutional encoders (N_ES), each with its own tail."""
        if self.format == HE:
            return 0
        fastest_bps = float(self._symbol_bits) / (
            _SYMBOL_US[self.format] + _GUARDS_US[self.format][0]) * 1e6
        return math.ceil(fastest_bps / _ENCODER_BPS[self.format])

    @property
    def preamble_us(self) -> float:
        """Return the duration of a frame's preamble and PHY header, in us."""
        training_us = (_HE_TRAINING_US[self.guard_us] + self.guard_us if self.format == HE
                       else _TRAINING_US)
        return round(_PREAMBLE_US[self.format] + self.streams * training_us, 1)

    def medium_fields(self) -> dict[str, float]:
        """Return the fields of a medium that follow from the physical layer, by name.

        The rate is a whole number of bit/s, as in a medium's file.
        """
        sifs_us, extension_us = _BANDS[self.band_ghz]
        of_band = {"slot_us": _SLOT_US, "sifs_us": sifs_us, "extension_us": extension_us}
        if self.is_non_ht:
            return of_band
        return of_band | {
            "rate_bps": round(self.rate_bps), "symbol_us": self._symbol_us,
            "preamble_us": self.preamble_us,
            "service_bits": _SERVICE_BITS + _TAIL_BITS * self._encoder_count,
            "duration_step_us": _STEP_US if self.has_short_guard else 0.0}

    def tuned_channel(self, channel: int, channels: Collection[int]) -> int:
        """Return the channel that a radio is tuned to.

        Args:
            channel: The access point's channel in the network, of the 2.4 GHz band.
            channels: The channels of all access points in the network.

        Raises:
            ValueError: The network has more channels than this width has without radar detection.
        """
        if self.is_in_2_4_ghz:
            return channel
        used = sorted(set(channels))
        if len(used) > len(self.channels):
            raise ValueError(f"the network's access points have {len(used)} channels, and of "
                             f"{self.width_mhz} MHz there are {len(self.channels)} "
                             f"({', '.join(map(str, self.channels))})")
        return self.channels[used.index(channel)]

    def centre_channel(self, first: int) -> int:
        """Return the channel number of the centre of the block that begins with a channel."""
        return first + 2 * (self.width_mhz // _NARROWEST_MHZ - 1)
