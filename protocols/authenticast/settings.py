"""Settings of a stream, and the range of levels that its user permits.

A setting is a scheme, an algorithm, a bundle, a level and a share to shed.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

# Levels are sent as hundredths of a per cent.
STEPS = 10_000
MAX_BUNDLE = 1024
_FORM = struct.Struct("!BBHHH")
_RANGE = struct.Struct("!HH")


class SettingError(ValueError):
    """An invalid setting. The text says which value is wrong and what to do."""


class Algorithm(enum.IntEnum):
    """The algorithm field of a packet."""

    DSA = 1
    RSA = 2
    ED25519 = 3
    ECDSA = 4
    HMAC = 16


SIGNATURES = frozenset({Algorithm.DSA, Algorithm.RSA, Algorithm.ED25519, Algorithm.ECDSA})


class Scheme(enum.IntEnum):
    """The way packets are authenticated, which determines their authenticator."""

    PERCENTAGE = 1
    DELAYED = 2
    SECRET_KEY = 3
    TREE = 4
    TESLA = 5

    @property
    def is_signed(self) -> bool:
        """Return whether the scheme uses signatures, which convince a third party.

        The other schemes use keys that both ends know.
        """
        return self in {Scheme.PERCENTAGE, Scheme.DELAYED, Scheme.TREE}

    @property
    def has_bundles(self) -> bool:
        """Return whether packets are signed in groups."""
        return self in {Scheme.DELAYED, Scheme.TREE}


@dataclass(frozen=True)
class Range:
    """The range of security levels that the user permits, as shares.

    `low` is the floor.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        for name, value in (("low", self.low), ("high", self.high)):
            if not 0 <= value <= 1:
                raise SettingError(f"range: {name} is {_format_percent(value)}; give 0 to 100 %")
        if self.low > self.high:
            raise SettingError(
                f"range: {_format_percent(self.low)} to {_format_percent(self.high)} is upside "
                               "down; give the lower level first")

    def clamp(self, level: float) -> float:
        """Return the level inside the range that is nearest to `level`."""
        return min(max(level, self.low), self.high)

    def encode(self) -> bytes:
        """Return the range as four bytes."""
        return _RANGE.pack(_to_steps(self.low), _to_steps(self.high))


@dataclass(frozen=True)
class Setting:
    """The setting of a stream.

    `level` is the share of packets that is verified before processing. `shed` is the share that is
    dropped without verification, so that the receiver can sustain the level for the others.
    `bundle` is the number of packets in a bundle or tree.
    """

    scheme: Scheme
    algorithm: Algorithm
    bundle: int = 1
    level: float = 1.0
    shed: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.bundle <= MAX_BUNDLE:
            raise SettingError(f"bundle: {self.bundle} packets; give 1 to {MAX_BUNDLE}")
        for name, value in (("level", self.level), ("shed", self.shed)):
            if not 0 <= value <= 1:
                raise SettingError(f"{name}: {_format_percent(value)}; give 0 to 100 %")
        if self.scheme is not Scheme.PERCENTAGE and self.level != 1:
            raise SettingError(
                f"level: {_format_percent(self.level)}; {self.scheme.name.lower()} verifies"
                               " every packet, so only 100 % will do")
        if (self.algorithm in SIGNATURES) != self.scheme.is_signed:
            raise SettingError(f"algorithm: {self.algorithm.name} does not serve "
                               f"{self.scheme.name.lower()}; give "
                               f"{'a signature' if self.scheme.is_signed else 'HMAC'}")

    def check(self, permitted: Range) -> Setting:
        """Return the setting if its level is in the user's range.

        Raises SettingError. The range's upper end applies to the scheme percentage only.
        """
        if self.level < permitted.low:
            raise SettingError(f"level: {_format_percent(self.level)} is below the floor of "
                               f"{_format_percent(permitted.low)}; raise it, or lower the range")
        if self.scheme is Scheme.PERCENTAGE and self.level > permitted.high:
            raise SettingError(
                f"level: {_format_percent(self.level)} is above the range, which ends at "
                               f"{_format_percent(permitted.high)}")
        return self

    def encode(self) -> bytes:
        """Return the setting as eight bytes."""
        return _FORM.pack(self.scheme, self.algorithm, self.bundle, _to_steps(self.level),
                          _to_steps(self.shed))


SETTING_BYTES = _FORM.size
RANGE_BYTES = _RANGE.size


def parse_setting(data: bytes) -> Setting:
    """Parse a setting of eight bytes. Raises ValueError."""
    scheme, algorithm, bundle, level, shed = _FORM.unpack(data)
    return Setting(Scheme(scheme), Algorithm(algorithm), bundle, level / STEPS, shed / STEPS)


def parse_range(data: bytes) -> Range:
    """Parse a range of four bytes. Raises ValueError."""
    low, high = _RANGE.unpack(data)
    return Range(low / STEPS, high / STEPS)


def _to_steps(share: float) -> int:
    return round(share * STEPS)


def _format_percent(share: float) -> str:
    return f"{100 * share:g} %"
