"""Define the settings that a user can give for a run of the study releases.

`ReleaseSettings` has the default, limits and help text of each: the radio medium (802.11 timing),
and the number of echo requests after joining.
"""

from __future__ import annotations

from pydantic import Field

from studies.study import Settings


class ReleaseSettings(Settings):
    """Settings of a run that apply to every repetition."""

    medium: str = Field("802.11g", description="Use this radio medium: a name or a .yml file.",
                        json_schema_extra={"option": "--medium"})
    requests: int = Field(20, ge=2, le=10_000, description="Send this many echo requests to the "
                          "peer after the mobile node has joined.")
