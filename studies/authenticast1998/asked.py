"""Settings of a repetition. Each value that the paper does not give is a named assumption."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from studies import mobile
from studies.authenticast1998 import video
from studies.study import Asked as AnyAsked
from topologies.loader import load_device, medium_names

#: Settings that name a device or a device file.
DEVICES = ("server_device", "client_device")


class Asked(AnyAsked):
    """Settings of the workload."""

    frames: int = Field(400, ge=30, le=20000, description="Frames of the stream, at 29.97 a "
                        "second or a video's own rate. Assumed: the paper's streams have more than "
                        "2500 packets.",
                        json_schema_extra={"option": "--frames"})
    video: str = Field("", description="A video of yours, whose pictures are streamed as MPEG-1 in "
                       "place of those that ship (an extra encodes it; its first 3000).",
                       json_schema_extra={"option": "--video"})
    payload_bytes: int = Field(1400, ge=200, le=8000, description="Payload of a packet at most. "
                               "Assumed; 116 packets a second of the trace.")
    air_payload_bytes: int = Field(1180, ge=200, le=1400, description="The same on the air, where "
                                   "a tunnel and a tree's path have to fit into 1500 bytes, too.")
    medium: str = Field("802.11b-short", json_schema_extra={"option": "--medium"},
                        description=f"The air: {', '.join(medium_names())}, a .yml file, or none.")
    signing: Literal["precomputed", "online"] = Field(
        "precomputed", description="What a signature takes the server: what is left of it when "
        "the exponentiation was precomputed (section 4.3.4), or all of it.")
    precomputed_ms: float = Field(4.5, gt=0, le=1000, description="What is left, per signature "
                                  "and packet. Assumed, and chosen so that Fig. 5 rises.")
    packet_ms: float = Field(1.0, gt=0, le=1000, description="What the client takes for a packet "
                             "without any verification. Assumed.")
    buffer_packets: int = Field(100, ge=2, le=10000, description="Room at the client's socket. "
                                "Assumed: a gap below 100 was stable (section 5.2).")
    limit: int = Field(60, ge=1, le=10000, description="LIMIT of the 1998 heuristics, in packets; "
                       "conservative (section 4.5): bundles' signatures take room, too. Assumed.")
    delay_bound_ms: float = Field(1000.0, gt=0, description="Bound for controllers with one.")
    load_from_s: float = Field(4.0, ge=0, description="When a load begins, after the start.")
    load_to_s: float = Field(8.0, gt=0, validate_default=True, description="When it ends.")
    first_seed: int = Field(1, ge=1, le=1_000_000, description="Seed of the first repetition; the "
                            "next has the next.")
    server_device: str = Field("ultrasparc-148x2", description="Device of the server.")
    client_device: str = Field("ultrasparc-167", description="Device of every client.")

    @field_validator("load_to_s")
    @classmethod
    def _load_lasts(cls, to_s: float, info: ValidationInfo) -> float:
        from_s = info.data.get("load_from_s", 0.0)
        if to_s <= from_s:
            raise ValueError(f"a load has to last; give more than the {from_s:g} s of load_from_s")
        return to_s

    def to_stored_settings(self) -> dict[str, Any]:
        """Return the settings as a results folder keeps them.

        Local file paths are replaced by the name of the medium, of each device and of the
        video.
        """
        return {**super().to_stored_settings(), "medium": mobile.medium_name(self.medium), **{
            setting: load_device(getattr(self, setting)).name for setting in DEVICES},
                "video": video.stored_name(self.video) if self.video else ""}
