"""Observations of a repetition, as its checks use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from studies.eapload2004.air import AirLosses
from studies.eapload2004.body import OverloadRecord, ReferenceRecord
from studies.eapload2004.exchanges import Exchange


@dataclass(frozen=True)
class ObservedLoad:
    """The observations of a repetition.

    `supplicant` are its authentications between access point and server, captured at the access
    point, and `server` the same ones at the server. `sample` are those of the background on the
    generator's first socket. `rows` are the generator's journal by column name. `rate_per_s` is the
    requested load.
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
    #: Fate of authentications at an overloaded server.
    overload: OverloadRecord | None = None
    #: Costs at the server by driver, if there were two.
    reference: dict[str, ReferenceRecord] = field(default_factory=dict)
    #: EAP-AKA: number of the subscriber server's vectors, and faults of the challenges.
    vectors: int = 0
    wrong: Sequence[str] = ()
    imsi: str = ""
    air: AirLosses = field(default_factory=lambda: AirLosses(0, 0))
    #: Share of the background that offers a session, where sessions are resumed.
    resumed_share: float = 1.0
    #: Calibration workload: time and duration of each run (s). It runs in real time, in a guest, at
    #: a share of the capacity.
    yardstick: Sequence[tuple[float, float]] = ()
    #: Processor time of an authentication before and after the load (s), where measured.
    saturated_s: Sequence[float] = ()
    #: Share of an authentication at an idle server that is the machine's own work. A device, if
    #: there is one, does the rest.
    own_share: float = 1.0
