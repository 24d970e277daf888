"""Define the settings that a user can give for a run of the study adp1987.

`Settings` has the default, limits and help text of each: number of messages, seed, size of the
queue, radio medium and others. The study measures ADP, the Authenticated Datagram Protocol of 1987.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from studies import policy_factors, study
from topologies.loader import medium_names


class Settings(study.Settings):
    """Settings of a run that apply to every repetition."""

    messages: int = Field(
        10_000, ge=100, le=10_000, json_schema_extra={"option": "--messages"},
        description="Send this many messages in a trace, 100 to 10000. The paper has 10000.")
    paced_messages: int = Field(
        2000, ge=50, le=10_000,
        description="Send this many messages of the phase that sends each message at its time in "
        "the trace (in real time and on the air).")
    proof_messages: int = Field(
        200, ge=20, le=1000,
        description="Send this many messages in the phase with complete captures, as evidence for "
        "the checks.")
    trace_seed: int = Field(1, ge=0, le=1_000_000, json_schema_extra={"option": "--trace-seed"},
                            description="Generate traces and the contents of messages from "
                            "this seed.")
    rsa_bits: Literal[512, 1024] = Field(
        512, description="Charge the computing time of RSA keys of this many bits. The paper does "
        "not give one.")
    bound_bytes: int = Field(24_576, ge=8192, le=57_344,
                             description="Fill a queue with this many bytes of user data.")
    medium: str = Field("802.11b-short", json_schema_extra={"option": "--medium"},
                        description=f"Use this radio medium: {', '.join(medium_names())}, a "
                        ".yml file, or none.")

    def to_stored_settings(self) -> dict[str, Any]:
        """Return the settings as plans and records store them.

        The path of a user's medium file is replaced by the medium's name, because paths differ
        between machines.
        """
        return {**super().to_stored_settings(), "medium": policy_factors.medium_name(self.medium)}
