"""Define the measured values of eapload2004, as the JSON record of a measurement stores them.

`Measurements` has the authentication times of the station at a RADIUS server, and those of the
other clients that load the server (the background). Further classes have the parts of an
authentication's time, the server's capacity, and results under overload. `studies.eapload2004`
lists the terms.
"""

from __future__ import annotations

from pydantic import Field

from measure.records.record import RecordPart
from studies.study import Metric


class SplitRecord(RecordPart):
    """Parts of the time of the station's authentications (means, s).

    - `client_s`: between request and answer at the station
    - `authenticator_s`: inside the access point, in both directions
    - `wire_s`: between access point and server
    - `server_s`: computing of the server, which is the sum of the fastest answer to each request
    - `waiting_s`: the server's other time between request and answer
    - `air_s`: all time that no other part has

    In older records without `authenticator_s`, that time is part of `air_s`. In older records
    without `waiting_s`, that time is part of `server_s`.
    """

    client_s: float
    air_s: float
    authenticator_s: float | None = None
    wire_s: float
    server_s: float
    waiting_s: float | None = None


class SaturationRecord(RecordPart):
    """Measurements of the server without load, and saturated by several clients (s and 1/s).

    - `alone_s`: authentication time of a single client
    - `customers`: number of clients that saturate the server
    - `capacity_per_s`, `saturated_s`: their rate, and their mean authentication time

    Some values are measured only in real time:

    - `rests_s`: authentication times of a single client after the pauses `paused_s` (means)
    - `steps_s`: times of a single client's steps in order, load generator and server in turn
    - `busy_s`: busy time of the modelled processor per authentication in saturation. The modelled
      processor idles while the machine's own processor works.

    Older records have `rested_s` instead of `rests_s`: the authentication time after a pause as
    long as the load's mean interval.
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
        """Return the inputs of the queueing model (s), each as a list."""
        single = {"alone_s": self.alone_s, "rested_s": self.rested_s,
                  "saturated_demand_s": self.busy_s or 1 / self.capacity_per_s}
        return {"steps_s": self.steps_s, "paused_s": self.paused_s, "rests_s": self.rests_s,
                **{name: [value] for name, value in single.items() if value is not None}}


class ReferenceRecord(RecordPart):
    """The server's time for authentications of the load generator or `eapol_test` (s).

    - `authentications`: number of authentications
    - `requests`: their mean number of requests
    - `parts_s`: the time from request to answer, summed over all requests of an authentication.
      Each entry is the median of a group of consecutive authentications.
    """

    authentications: int
    requests: float
    parts_s: list[float]


class OverloadRecord(RecordPart):
    """Results of authentications at an overloaded server.

    - `growth`: by how much longer (s) a background authentication takes for each second by which it
      begins later
    - `retransmitted`: requests of the background that were sent again
    - `failed`: failed authentications of the background
    - `refused`: failed authentications of the station
    """

    growth: float
    retransmitted: int
    failed: int
    refused: int


class Measurements(RecordPart):
    """Measured values of a repetition: authentications of the station and of the background.

    Station:

    - `service_time_s`, `service_p95_s`: mean and 95th percentile of the authentication times
    - `services_s`: authentication times
    - `split`: parts of the authentication time (means)
    - `round_trips`: mean number of requests to the server
    - `cycle_s`: time from one authentication to the next
    - `waterfall_s`: begin and end of each step of the median authentication, by part
    - `meetings_s`: when the server received its longest request of each authentication. The
      longest request is the one whose answer took most time.
    - `asked_s`: when the server received each request of each authentication, by the number of
      the request. Older records lack it.

    The times in `meetings_s` and `asked_s` begin with the background load.

    Background:

    - `seed`: seed of the arrival times
    - `rate_per_s`, `offered_per_s`: requested and measured load (authentications/s)
    - `background_s`, `background_p95_s`, `background_p99_s`: mean and percentiles of the
      authentication times
    - `lateness_s`, `lateness_p99_s`: by how much later than planned an authentication began
    - `generator_processor_s`: the load generator's CPU time per authentication
    - `resumed`: number of resumed sessions
    - `arrivals_s`, `latencies_s`: when each authentication began, and how long it took

    Both lists have all authentications since the load began. Means and percentiles leave out those
    before the load was steady.

    Server:

    - `utilization_share`: busy fraction of the server's processor
    - `demands_s`: fastest times of each step at server and station, in order
    - `demand_s`: time charged to the modelled processor for a full authentication
    - `saturation`: measured before the load or, without load, at the end
    - `saturation_after`: measured again after the load, in real time
    - `overload`: results of authentications, if the server is overloaded
    - `reference`: the server's times for the load generator and for `eapol_test`, if both ran
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


# --- Metrics and distributions ---

SERVICE = Metric("service_time_s", "EAP-TLS service time", unit="ms", scale=1e3, digits=1,
                 short="service", better="lower", negligible=0.005, stops=True,
                 heading=("service", "time"))
SERVICE_P95 = Metric("service_p95_s", "95th percentile of the EAP-TLS service time", unit="ms",
                     scale=1e3, digits=1, short="p95", better="lower", negligible=0.005,
                     heading=("service,", "p95"))
BACKGROUND = Metric("background_s", "latency in the background", unit="ms", scale=1e3, digits=2,
                    short="bg", better="lower", negligible=0.001, heading=("back-", "ground"))
BACKGROUND_P95 = Metric("background_p95_s", "95th percentile in the background", unit="ms",
                        scale=1e3, digits=1, short="bg95", better="lower", negligible=0.002,
                        heading=("backgr.,", "p95"))
UTILIZATION = Metric("utilization_share", "utilization of the server", unit="%", scale=100.0,
                     digits=1, short="util", negligible=0.01, heading=("server", "busy"))
ROUND_TRIPS = Metric("round_trips", "round trips to the server", digits=0, short="trips",
                     better="lower", negligible=0.5, heading=("round", "trips"))
CAPACITY = Metric("capacity_per_s", "capacity of the server", unit="1/s", digits=1,
                  short="capacity", better="higher", negligible=0.5, heading=("capa-", "city"))
METRICS = (SERVICE, SERVICE_P95, BACKGROUND, BACKGROUND_P95, UTILIZATION, ROUND_TRIPS, CAPACITY)
SERVICES = Metric("services_s", "EAP-TLS service times", unit="ms", scale=1e3, digits=1)
LATENCIES = Metric("latencies_s", "latencies in the background", unit="ms", scale=1e3, digits=2)
DISTRIBUTIONS = (SERVICES, LATENCIES)
