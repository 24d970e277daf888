"""Settings of the workload, such as authentications, background load and devices."""

from __future__ import annotations

from pydantic import Field

from studies import study


class Asked(study.Asked):
    """The settings of one repetition."""

    authentications: int = Field(
        20, ge=2, le=5000, json_schema_extra={"option": "--authentications"},
        description="Authentications of the supplicant that are measured, one after the other; "
        "the paper's were 1000.")
    stations: int = Field(50, ge=1, le=4096, description="Stations in the background.")
    resumed_share: float = Field(
        1.0, ge=0, le=1, json_schema_extra={"option": "--resumed-share"},
        description="Share of the background that offers a session, where sessions are resumed.")
    steady_s: float = Field(2.0, ge=0, le=60, description="How long there is load before anything "
                            "is measured.")
    saturating: int = Field(300, ge=20, le=5000, description="Authentications by which a cell "
                            "without load measures the server's capacity.")
    customers: int = Field(16, ge=2, le=64, description="How many of these are under way at once.")
    overload_s: float = Field(10.0, ge=2, le=300, description="How long a server is measured that "
                              "gets more than it can take: then there is no end.")
    arrivals: int = Field(0, ge=0, le=100_000, description="How many are to come in the background "
                          "at least, but for chance; 0: as many as come while the supplicant "
                          "authenticates.")
    first_seed: int = Field(1, ge=1, le=1_000_000, description="Seed of the first repetition's "
                            "arrivals; the next has the next.")
    server_device: str = Field("celeron-850", json_schema_extra={"option": "--server-device"},
                               description="Device of the server; 'today' in real time.")
    client_device: str = Field("pentium2-400", json_schema_extra={"option": "--client-device"},
                               description="Device of the supplicant; 'today' in real time.")
