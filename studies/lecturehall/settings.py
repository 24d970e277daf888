"""Define the settings that a user can give for a run of the study lecturehall.

`HallSettings` has the default, limits and help text of each: the radio medium (802.11 timing), and
the rate, payload and duration of each station's stream.
"""

from __future__ import annotations

from pydantic import Field

from studies.study import Settings


class HallSettings(Settings):
    """Settings of a run that apply to every repetition."""

    medium: str = Field("802.11g", description="Use this radio medium: a name or a .yml file.",
                        json_schema_extra={"option": "--medium"})
    stream_rate_bps: int = Field(1_000_000, ge=8_000, description="Let each station stream at this "
                                 "rate in bit/s.")
    stream_payload_bytes: int = Field(1200, ge=64, le=1472, description="Put this many bytes into "
                                      "each datagram.")
    stream_s: float = Field(3.0, gt=0, le=600, description="Let all stations stream at once for "
                            "this many seconds.")
