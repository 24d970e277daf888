"""Settings of the workload, such as number of messages, seed and medium."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from studies import mobile, study
from topologies.loader import medium_names


class Asked(study.Asked):
    """The settings of one repetition."""

    messages: int = Field(
        10_000, ge=100, le=10_000, json_schema_extra={"option": "--messages"},
        description="Messages of a trace, 100 to 10000; the paper's had 10000.")
    paced_messages: int = Field(
        2000, ge=50, le=10_000, description="In real time and on the air, messages of the phase in "
        "which the trace goes in its own time.")
    proof_messages: int = Field(
        200, ge=20, le=1000,
        description="Messages of the phase that is captured whole, for evidence.")
    trace_seed: int = Field(1, ge=0, le=1_000_000, json_schema_extra={"option": "--trace-seed"},
                            description="Decides the traces and what messages hold.")
    rsa_bits: Literal[512, 1024] = Field(
        512, description="Size of the RSA keys that are charged; the paper says none.")
    bound_bytes: int = Field(24_576, ge=8192, le=57_344,
                             description="User data that makes a queue full.")
    medium: str = Field("802.11b-short", json_schema_extra={"option": "--medium"},
                        description=f"The air: {', '.join(medium_names())}, a .yml file, or none.")

    def to_stored_settings(self) -> dict[str, Any]:
        """Return the settings for manifest and records, with the medium's name only.

        The path of a user's medium file is meaningful on this machine only, so it is not stored.
        """
        return {**super().to_stored_settings(), "medium": mobile.medium_name(self.medium)}
