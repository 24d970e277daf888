"""Hold the state that all parts of one ADP host share while it runs.

ADP is the Authenticated Datagram Protocol, for secure messages between hosts. `HostContext` has the
host's identity and private keys, the public keys of all users and hosts, the settings, and the
protocol version with its cryptography. `protocols.adp.host` creates it. `HostSettings` are the
settings, such as the encrypted part of a datagram, queueing and timeouts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from protocols.adp.crypto import Crypto
from protocols.adp.effects import EncryptionScope
from protocols.adp.packets import MAX_BOUND, AdpError
from protocols.adp.suite import Identity, KeyDirectory, Suite

KERNEL_OWNER = 0  # number of the kernel owner, in every session


@dataclass(frozen=True)
class HostSettings:
    """Settings of a host.

    Sizes are bytes of user data, times are seconds.

    - `scope`: encrypted part of a datagram
    - `checksum`: whether a checksum protects a datagram of 1987
    - `queue`: whether messages that are not urgent wait for others
    - `timeout_s`: how long a message that is not urgent may wait (M in the 1987 report)
    - `bound_bytes`: size at which a queue is full
    - `hold_bytes`: room for messages that wait for a signature or a channel
    - `window`: number of sequence numbers in the replay window
    - `retry_s`: time until an unanswered datagram is repeated for the first time
    - `give_up_s`: time until an unanswered request is given up
    - `rekey_after_s`: age at which a channel gets a new key
    """

    scope: EncryptionScope = EncryptionScope.TRAILER
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

    It is a plain loop, because it runs for every message.
    """
    first = None
    for time in times:
        if time is not None and (first is None or time < first):
            first = time
    return first


@dataclass
class HostContext:
    """State that all parts of one host share, from its boot to its crash.

    - `identity`: name, session and keys of this host
    - `directory`: public keys of all owners and hosts
    - `settings`: settings of this host
    - `suite`: version of the protocol
    - `crypto`: cryptographic operations, which are charged to the processor
    """

    identity: Identity
    directory: KeyDirectory
    settings: HostSettings
    suite: Suite
    crypto: Crypto
    _numbers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers[self.identity.kernel_owner] = KERNEL_OWNER

    def owner_number(self, owner: str) -> int:
        """Return the number by which datagrams refer to an owner (user or service).

        The number is the same on every channel of this host.
        """
        number = self._numbers.setdefault(owner, len(self._numbers))
        if number > 0xFFFF:
            raise AdpError(f"{owner}: more than 65536 owners in one kernel session")
        return number
