"""The body of this study's records: the supplicant's authentications, and all in the background."""

from __future__ import annotations

from pydantic import Field

from measure.record import RecordPart


class SplitRecord(RecordPart):
    """Where the time of one of the supplicant's authentications goes, means in seconds.

    `client_s` is between a request and its answer at the supplicant, `authenticator_s` between the
    access point's radio and the wire behind it, either way, `wire_s` between access point and
    server; what is left is the air's. `server_s` is between a request's arrival and its answer at
    the server: so long as the quickest of the repetition took, what is longer is `waiting_s`.
    Records of before have no `authenticator_s`, which is in `air_s` then, or no `waiting_s`, which
    is in `server_s`.
    """

    client_s: float
    air_s: float
    authenticator_s: float | None = None
    wire_s: float
    server_s: float
    waiting_s: float | None = None


class SaturationRecord(RecordPart):
    """The server with as many customers as it can take, and with one alone. Seconds, and 1/s.

    In real time, `paused_s` has how long nobody was there before who came alone, and `rests_s`
    what such a one took, on average; `steps_s` has the parts of one alone, in order: generator and
    server in turn. Records of before have `rested_s` instead, after as long a pause as the load had
    on average. `busy_s` is what each of those who came together kept a device busy, in real time:
    while all of them are with the machine's own processor it rests.
    """

    alone_s: float | None = None
    rested_s: float | None = None
    paused_s: list[float] = Field(default_factory=list)
    rests_s: list[float] = Field(default_factory=list)
    steps_s: list[float] = Field(default_factory=list)
    customers: int
    capacity_per_s: float
    saturated_s: float
    busy_s: float | None = None

    def lists(self) -> dict[str, list[float]]:
        """What a repetition is predicted by, in seconds; single values are lists of one."""
        single = {"alone_s": self.alone_s, "rested_s": self.rested_s,
                  "saturated_demand_s": self.busy_s or 1 / self.capacity_per_s}
        return {"steps_s": self.steps_s, "paused_s": self.paused_s, "rests_s": self.rests_s,
                **{name: [value] for name, value in single.items() if value is not None}}


class ReferenceRecord(RecordPart):
    """What an authentication costs the server by a driver; requests as captured, means.

    `parts_s` are medians of parts in order: from request to answer at the server, which has
    nothing else to do, over all requests of an authentication, in seconds.
    """

    authentications: int
    requests: float
    parts_s: list[float]


class OverloadRecord(RecordPart):
    """What becomes of those who come to a server that gets more than it can take.

    `growth` is by how much longer an authentication of the background takes, a second by which it
    begins later; of the background's so many were `retransmitted` and `failed`, of the supplicant's
    so many were `refused`.
    """

    growth: float
    retransmitted: int
    failed: int
    refused: int


class Measured(RecordPart):
    """What a repetition measured.

    Of the supplicant `services_s`, of the background `arrivals_s` since the load began and
    `latencies_s` from when each was due; both lists begin with the load, as a model does, and the
    means when it is steady.
    `demands_s` is what each step takes server and supplicant at its quickest, in order.
    `waterfall_s` is of one authentication, the median: of each part, when it begins and when it
    ends, again and again.
    `meetings_s` is when the supplicant asked the server for what takes it longest, likewise, and
    `asked_s` when for each of its requests, in order; records of before do not have it.
    `saturation` is of before the load or, where there is none, after it; `saturation_after` again
    after the load, in real time.
    `rate_per_s` is the load that was to be offered; `demand_s` is what a full authentication was
    charged at the server; `cycle_s` is from one of the supplicant's to the next.
    """

    seed: int
    service_time_s: float
    service_p95_s: float
    services_s: list[float]
    split: SplitRecord
    demands_s: dict[str, list[float]] = Field(default_factory=dict)
    waterfall_s: dict[str, list[float]] = Field(default_factory=dict)
    round_trips: float
    #: Of records of before 0 where nobody could know it.
    utilization_share: float | None
    demand_s: float
    cycle_s: float
    rate_per_s: float = 0.0
    offered_per_s: float = 0.0
    background_s: float | None = None
    background_p95_s: float | None = None
    background_p99_s: float | None = None
    lateness_s: float | None = None
    lateness_p99_s: float | None = None
    generator_processor_s: float | None = None
    resumed: int = 0
    arrivals_s: list[float] = Field(default_factory=list)
    latencies_s: list[float] = Field(default_factory=list)
    meetings_s: list[float] = Field(default_factory=list)
    asked_s: list[list[float]] = Field(default_factory=list)
    saturation: SaturationRecord | None = None
    saturation_after: SaturationRecord | None = None
    overload: OverloadRecord | None = None
    reference: dict[str, ReferenceRecord] = Field(default_factory=dict)
