"""Define how the packets of an Authenticast stream are authenticated and verified.

Authenticast streams signed packets over UDP. A `StreamSetting` is a scheme, an algorithm, a group
size (bundle), the fraction of packets to verify (level), and the fraction to drop (shed). The user
permits a range of levels (`LevelRange`). Server and client exchange both in messages, which
`parse_setting` and `parse_range` parse. An invalid setting raises a SettingError.
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
    """A signature or MAC algorithm, by its number in packets."""

    DSA = 1
    RSA = 2
    ED25519 = 3
    ECDSA = 4
    HMAC = 16


SIGNATURES = frozenset({Algorithm.DSA, Algorithm.RSA, Algorithm.ED25519, Algorithm.ECDSA})


class Scheme(enum.IntEnum):
    """A way to authenticate packets, such as a signature each or a signature per tree."""

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
        """Return whether the scheme signs packets in groups."""
        return self in {Scheme.DELAYED, Scheme.TREE}


@dataclass(frozen=True)
class LevelRange:
    """The smallest (`low`) and largest fraction of verified packets that the user permits."""

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
        """Return the permitted fraction that is nearest to `level`."""
        return min(max(level, self.low), self.high)

    def encode(self) -> bytes:
        """Return the range as four bytes."""
        return _RANGE.pack(_to_steps(self.low), _to_steps(self.high))


@dataclass(frozen=True)
class StreamSetting:
    """A setting of a stream: how its packets are authenticated and verified.

    - `level`: fraction of packets that is verified before the application gets them
    - `shed`: fraction that is dropped without verification, so that the receiver can verify the
      others
    - `bundle`: number of packets in a group with a common signature
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
                f"level: {_format_percent(self.level)}; {self.scheme.name.lower()} verifies every "
                "packet, so only 100 % will do")
        if (self.algorithm in SIGNATURES) != self.scheme.is_signed:
            raise SettingError(f"algorithm: {self.algorithm.name} does not serve "
                               f"{self.scheme.name.lower()}; give "
                               f"{'a signature' if self.scheme.is_signed else 'HMAC'}")

    def check(self, permitted: LevelRange) -> StreamSetting:
        """Return the setting if the user permits its verified fraction.

        The upper end of the range applies to the scheme `percentage` only.

        Raises:
            SettingError: the fraction is outside of the range.
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


def parse_setting(data: bytes) -> StreamSetting:
    """Parse a setting of eight bytes.

    Raises:
        ValueError: a value is impossible.
    """
    scheme, algorithm, bundle, level, shed = _FORM.unpack(data)
    return StreamSetting(Scheme(scheme), Algorithm(algorithm), bundle, level / STEPS, shed / STEPS)


def parse_range(data: bytes) -> LevelRange:
    """Parse a permitted range of four bytes.

    Raises:
        ValueError: a value is impossible.
    """
    low, high = _RANGE.unpack(data)
    return LevelRange(low / STEPS, high / STEPS)


def _to_steps(share: float) -> int:
    return round(share * STEPS)


def _format_percent(share: float) -> str:
    return f"{100 * share:g} %"
