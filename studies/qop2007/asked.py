"""Settings of the study's workload: streams, air, how a move is noticed, what captures keep."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from studies import study
from studies.mobile import NO_MEDIUM
from topologies.loader import medium_names

#: What captures of streams keep of the expected packets: 1 in so many.
STREAM_CAPTURES = {"whole": 1, "sampled": 16}
#: Below the first there is nothing to time.
_STREAM_BYTES = (50_000, 10_000_000_000)


def _timeable(size: int) -> int:
    least, most = _STREAM_BYTES
    if not least <= size <= most:
        raise ValueError("give between 50k and 10G")
    return size


class Asked(study.Asked):
    """What a repetition is asked for. Sizes in bytes."""

    stream_bytes: Annotated[study.Bytes, AfterValidator(_timeable)] = Field(
        1_000_000, description="Size of each TCP and UDP stream, such as 500k or 16M.",
        json_schema_extra={"option": "--stream-bytes"})
    authentications: int = Field(
        1, ge=1, le=100, json_schema_extra={"option": "--authentications"},
        description="How often a repetition authenticates at home, each time from nothing, before "
        "it moves or streams; each is a sample.")
    udp_payload_bytes: int = Field(
        1400, ge=64, le=1472, json_schema_extra={"option": "--udp-payload"},
        description="Payload of a UDP datagram in bytes, 64 to 1472; 1400 fits every policy "
        "without fragments.")
    medium: str = Field(
        "802.11b-short", json_schema_extra={"option": "--medium"},
        description=f"{', '.join(medium_names())}, a .yml file, or none.")
    detection: Literal["event", "advertisement"] = Field(
        "event", json_schema_extra={"option": "--detection"},
        description="How a mobile node notices that it has moved: from its supplicant, or by the "
        "next agent advertisement.")
    stream_captures: Literal["whole", "sampled"] = Field(
        "whole", json_schema_extra={"option": "--stream-captures"},
        description="Whether captures of streams keep all packets, or 1 in 16 of the expected ones "
        "and all unexpected ones.")

    def kept(self) -> dict[str, Any]:
        """A medium of the user's by its own name: its file's path is of this machine only.

        That it authenticates once is not said: so plans of before, when there was no choice, go on.
        """
        from studies.qop2007 import matrix

        medium = matrix.medium(self)
        kept = {**super().kept(), "medium": medium.name if medium else NO_MEDIUM}
        if self.authentications == 1:
            del kept["authentications"]
        return kept
