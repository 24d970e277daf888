"""Define the settings that a user can give for a run of the study drivetest."""

from __future__ import annotations

from pydantic import Field

from studies.study import Settings


class DriveSettings(Settings):
    """Settings of a run that apply to every repetition."""

    medium: str = Field("802.11b-positions", description="Use this radio medium with a signal: a "
                        "name or a .yml file.", json_schema_extra={"option": "--medium"})
    probe_interval_ms: int = Field(20, ge=5, le=1000, description="Send a UDP packet in each "
                                   "direction at this interval in ms.")
