"""Measured values of the study's records: the supplicant's authentications and the background's."""

from __future__ import annotations

from pydantic import Field

from measure.record import RecordPart


class SplitRecord(RecordPart):
    """The parts of the time of a supplicant's authentication (means, s).

    `client_s` is the time between request and answer at the supplicant. `authenticator_s` is the
    time between the access point's radio and the wire behind it, in both directions. `wire_s` is
    the time between access point and server. `air_s` is the rest. `server_s` and `waiting_s` are
    the time between request and answer at the server: the quickest answer of the repetition is
    `server_s`, the rest `waiting_s`. Older records lack `authenticator_s`, which is then in
    `air_s`, or `waiting_s`, which is then in `server_s`.
    """

    client_s: float
    air_s: float
    authenticator_s: float | None = None
    wire_s: float
    server_s: float
    waiting_s: float | None = None


class SaturationRecord(RecordPart):
    """The server in saturation and with one client alone (s and 1/s).

    `alone_s` is the authentication time of one client alone. `customers` clients at a time saturate
    the server: `capacity_per_s` is their rate, `saturated_s` their mean authentication time.

    Some values are measured only in real time. `rests_s` are the authentication times of a client
    alone after the pauses `paused_s` (means). `steps_s` are the parts of a client alone in order,
    generator and server in turn. `busy_s` is the busy time of a device per authentication in
    saturation. It is less than the rate says, because the device rests while the machine's own
    processor works. Older records have `rested_s` instead, after a pause as long as the load's mean
    interval.
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

    def to_samples(self) -> dict[str, list[float]]:
        """Return the values that predict a repetition (s), single ones as lists of one."""
        single = {"alone_s": self.alone_s, "rested_s": self.rested_s,
                  "saturated_demand_s": self.busy_s or 1 / self.capacity_per_s}
        return {"steps_s": self.steps_s, "paused_s": self.paused_s, "rests_s": self.rests_s,
                **{name: [value] for name, value in single.items() if value is not None}}


class ReferenceRecord(RecordPart):
    """The cost of an authentication at the server by a driver, from captured requests.

    `requests` is a mean. `parts_s` are medians over consecutive groups of authentications. Each is
    the time from request to answer at an otherwise idle server, summed over all requests of an
    authentication (s).
    """

    authentications: int
    requests: float
    parts_s: list[float]


class OverloadRecord(RecordPart):
    """The fate of authentications at a server with more load than its capacity.

    `growth` is by how much longer (s) an authentication of the background takes for each second by
    which it begins later. `retransmitted` counts requests and `failed` authentications of the
    background. `refused` counts failed authentications of the supplicant.
    """

    growth: float
    retransmitted: int
    failed: int
    refused: int


class Measured(RecordPart):
    """The measured values of a repetition.

    `services_s` are the supplicant's authentication times. `arrivals_s` (since the load began) and
    `latencies_s` (from the due time) are of the background. Both lists begin with the load, as a
    model does; the means begin when the load is steady.

    `demands_s` are the quickest times of each step at server and supplicant, in order.
    `waterfall_s` is of the median authentication: begin and end of each part, in turn. `meetings_s`
    are the times at which the supplicant sent the request that took the server longest, since the
    load began. `asked_s` has these times for each request, in order; older records lack it.

    `saturation` is measured before the load or, without load, at the end. `saturation_after` is
    measured again after the load, in real time. `rate_per_s` is the requested load. `demand_s` is
    the time charged at the server for a full authentication. `cycle_s` is the time from one
    authentication of the supplicant to the next.
    """

    seed: int
    service_time_s: float
    service_p95_s: float
    services_s: list[float]
    split: SplitRecord
    demands_s: dict[str, list[float]] = Field(default_factory=dict)
    waterfall_s: dict[str, list[float]] = Field(default_factory=dict)
    round_trips: float
    #: Older records have 0 where the utilization is unknown.
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
