"""Define the settings that a user can give for a run of the study eapload2004.

`Settings` has the default, limits and help text of each, such as number of authentications,
duration of the load and processor models. The study measures EAP-TLS at a loaded RADIUS server.
"""

from __future__ import annotations

from pydantic import Field

from studies import study


class Settings(study.Settings):
    """Settings of a run that apply to every repetition."""

    authentications: int = Field(
        20, ge=2, le=5000, json_schema_extra={"option": "--authentications"},
        description="Measure this many authentications of the supplicant, one after the other. "
        "The paper has 1000.")
    stations: int = Field(50, ge=1, le=4096, description="Create background load with this many "
                          "stations.")
    resumed_share: float = Field(
        1.0, ge=0, le=1, json_schema_extra={"option": "--resumed-share"},
        description="Let this fraction of background authentications offer a session, in "
        "cells with session resumption.")
    steady_s: float = Field(2.0, ge=0, le=60, description="Let the load run for this many seconds "
                            "before the first measurement.")
    saturating: int = Field(300, ge=20, le=5000, description="Measure the server's capacity with "
                            "this many authentications, in cells without background load.")
    customers: int = Field(16, ge=2, le=64, description="Run this many authentications at the same "
                           "time while the server's capacity is measured.")
    overload_s: float = Field(10.0, ge=2, le=300, description="Measure for this many seconds with "
                              "more load than the server's capacity.")
    arrivals: int = Field(0, ge=0, le=100_000, description="Expect this many background "
                          "authentications in a repetition. 0: as many as arrive during the "
                          "supplicant's authentications.")
    first_seed: int = Field(1, ge=1, le=1_000_000, description="Use this seed for the first "
                            "repetition's arrivals. Each next repetition has the next number.")
    server_device: str = Field("celeron-850", json_schema_extra={"option": "--server-device"},
                               description="Take the server's computing times from this "
                               "device. For real time, give 'today'.")
    client_device: str = Field("pentium2-400", json_schema_extra={"option": "--client-device"},
                               description="Take the supplicant's computing times from this "
                               "device. For real time, give 'today'.")
