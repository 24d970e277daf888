"""What a repetition left behind, as the checks of its evidence take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from studies.eapload2004.air import AirLosses
from studies.eapload2004.body import OverloadRecord, ReferenceRecord
from studies.eapload2004.exchanges import Exchange


@dataclass(frozen=True)
class ObservedLoad:
    """What a repetition left behind.

    `supplicant` are its authentications behind the access point, `server` the same at the server;
    `sample` those of the background that began on the generator's first socket. `rows` is the
    generator's journal, by the names of its columns, `rate_per_s` the load that was asked for.
    """

    cell: Mapping[str, str]
    rate_per_s: float
    raw: Mapping[str, Any]
    asked: int
    seen: int
    supplicant: Sequence[Exchange]
    server: Sequence[Exchange]
    sample: Sequence[Exchange]
    rows: Sequence[Mapping[str, Any]]
    ended_s: float
    #: Of a server that is to get more than it can take.
    overload: OverloadRecord | None = None
    #: What either driver cost the server, where there were two.
    reference: dict[str, ReferenceRecord] = field(default_factory=dict)
    #: Of EAP-AKA: what the subscriber server gave out, and what is wrong with the challenges.
    vectors: int = 0
    wrong: Sequence[str] = ()
    imsi: str = ""
    air: AirLosses = field(default_factory=lambda: AirLosses(0, 0))
    #: Of the background, where sessions are resumed.
    resumed_share: float = 1.0
    #: In real time, in a guest and at a share of the capacity: when a fixed piece of work was done,
    #: and for how long.
    yardstick: Sequence[tuple[float, float]] = ()
    #: What an authentication took the processor, before and after the load, where it was measured.
    saturated_s: Sequence[float] = ()
    #: Which share of an authentication that meets nobody is the machine's own work; a device, where
    #: there is one, takes the rest.
    own_share: float = 1.0
