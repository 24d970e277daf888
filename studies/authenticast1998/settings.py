"""Define the settings that a user can give for a run of the study authenticast1998.

In this study, a server signs the packets of a video stream, and its clients verify as many as their
CPUs permit. `Settings` has the default, limits and help text of each setting, such as video, sizes
of buffers and device models. Values that the paper does not give are marked as assumed.

A bundle is a group of packets with a common signature. Heuristics, run by the server, choose the
fraction to verify and the size of bundles. They react if more than LIMIT packets were sent but not
yet read (the gap). A load is a disturbance, such as other work on the client's CPU. Section and
figure numbers are those of the paper, Schneck and Schwan (1998).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from studies import policy_factors
from studies.authenticast1998 import video
from studies.study import Settings as StudySettings
from topologies.loader import load_device, medium_names

#: Settings that name a device or a device file.
DEVICES = ("server_device", "client_device")


class Settings(StudySettings):
    """Settings of a run, such as the video, buffers and times of a load."""

    frames: int = Field(400, ge=30, le=20000, description="Stream this many frames, 29.97 per "
                        "second or at the video's own rate. Assumed: the paper's streams have more "
                        "than 2500 packets.",
                        json_schema_extra={"option": "--frames"})
    video: str = Field("", description="Stream the first 3000 pictures of this video as MPEG-1 "
                       "instead of the built-in ones. An extra package encodes it.",
                       json_schema_extra={"option": "--video"})
    payload_bytes: int = Field(1400, ge=200, le=8000, description="Put at most this many bytes "
                               "into a packet. Assumed. The trace then has 116 packets per second.")
    air_payload_bytes: int = Field(1180, ge=200, le=1400, description="Put at most this many bytes "
                                   "into a packet on the radio medium. Tunnel headers and a hash "
                                   "tree's path must fit into the 1500 bytes, too.")
    medium: str = Field("802.11b-short", json_schema_extra={"option": "--medium"},
                        description=f"Use this radio medium: {', '.join(medium_names())}, a "
                        ".yml file, or none.")
    signing: Literal["precomputed", "online"] = Field(
        "precomputed", description="Charge the server for this part of a signature: the remainder "
        "after precomputing the exponentiation (section 4.3.4), or all of it.")
    precomputed_ms: float = Field(4.5, gt=0, le=1000, description="Charge this time in ms for each "
                                  "signature and packet with precomputing. Assumed, and chosen so "
                                  "that Fig. 5 rises.")
    packet_ms: float = Field(1.0, gt=0, le=1000, description="Charge a client this time in ms for "
                             "a packet without any verification. Assumed.")
    buffer_packets: int = Field(100, ge=2, le=10000, description="Give the client a receive buffer "
                                "of this many packets. Assumed: a gap below 100 was stable "
                                "(section 5.2).")
    limit: int = Field(60, ge=1, le=10000, description="Use this LIMIT of the 1998 heuristics, in "
                       "packets. Assumed. It is below the buffer size (section 4.5), because "
                       "signatures of bundles also need space.")
    delay_bound_ms: float = Field(1000.0, gt=0, description="Let the controllers that have a delay "
                                  "bound aim at this one, in ms.")
    load_from_s: float = Field(4.0, ge=0, description="Start of a load, in seconds "
                               "after that of the stream.")
    load_to_s: float = Field(8.0, gt=0, validate_default=True, description="End "
                             "of a load, in seconds after the start of the stream.")
    first_seed: int = Field(1, ge=1, le=1_000_000, description="Use this seed for the first "
                            "repetition. Each next repetition has the next number.")
    server_device: str = Field("ultrasparc-148x2", description="Let the server be this device.")
    client_device: str = Field("ultrasparc-167", description="Let every client be this device.")

    @field_validator("load_to_s")
    @classmethod
    def _load_lasts(cls, to_s: float, info: ValidationInfo) -> float:
        from_s = info.data.get("load_from_s", 0.0)
        if to_s <= from_s:
            raise ValueError(f"a load has to last; give more than the {from_s:g} s of load_from_s")
        return to_s

    def to_stored_settings(self) -> dict[str, Any]:
        """Return the settings as a results folder stores them.

        Paths of local files are replaced by the names of medium, devices and video.
        """
        return {**super().to_stored_settings(), "medium": policy_factors.medium_name(self.medium),
                **{
            setting: load_device(getattr(self, setting)).name for setting in DEVICES},
                "video": video.stored_name(self.video) if self.video else ""}
