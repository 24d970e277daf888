"""State shared by all parts of a host.

These are its identity, settings, suite and numbers of owners.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from protocols.adp.crypto import Crypto
from protocols.adp.effects import Scope
from protocols.adp.errors import AdpError
from protocols.adp.packets import MAX_BOUND
from protocols.adp.suite import Directory, Identity, Suite

KERNEL_OWNER = 0  # number of the kernel owner, in every session


@dataclass(frozen=True)
class Settings:
    """Settings of a host.

    Sizes are bytes of user data, times are seconds. `timeout_s` and `bound_bytes` are the paper's M
    and queue bound. A message that waits for its sender's signature, or for a channel, counts
    against `hold_bytes`.
    """

    scope: Scope = Scope.TRAILER
    checksum: bool = False
    queue: bool = True
    timeout_s: float = 0.04
    bound_bytes: int = 24_576
    hold_bytes: int = 262_144
    window: int = 1024
    retry_s: float = 1.0
    give_up_s: float = 30.0
    rekey_after_s: float = 120.0

    def __post_init__(self) -> None:
        if not 0 < self.bound_bytes <= MAX_BOUND:
            raise AdpError(f"bound_bytes: from 1 to {MAX_BOUND}, not {self.bound_bytes}")
        if not 0 <= self.timeout_s < math.inf:
            raise AdpError(f"timeout_s: a time from 0 on is needed, not {self.timeout_s:g}")
        if self.window < 1:
            raise AdpError(f"window: at least 1, not {self.window}")
        for name in ("retry_s", "give_up_s", "rekey_after_s"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise AdpError(f"{name}: a time above 0 is needed, not {value:g}")


def earliest_time(times: Sequence[float | None]) -> float | None:
    """Return the earliest time, or None if no time is given.

    A plain loop, because it runs for every message.
    """
    first = None
    for time in times:
        if time is not None and (first is None or time < first):
            first = time
    return first


@dataclass
class Context:
    """Shared state of one host in one kernel session."""

    identity: Identity
    directory: Directory
    settings: Settings
    suite: Suite
    crypto: Crypto
    _numbers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers[self.identity.kernel_owner] = KERNEL_OWNER

    def owner_number(self, owner: str) -> int:
        """Return the number that an owner's messages carry.

        The number is identical on every channel of the session.
        """
        number = self._numbers.setdefault(owner, len(self._numbers))
        if number > 0xFFFF:
            raise AdpError(f"{owner}: more than 65536 owners in one kernel session")
        return number
