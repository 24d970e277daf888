"""Settings of a repetition: streams, medium and devices, movement detection and captures."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from studies import study
from studies.mobile import NO_MEDIUM
from topologies.loader import TopologyError, load_device, medium_names

#: Share of the expected packets that captures of streams keep: one in this many.
STREAM_CAPTURES = {"whole": 1, "sampled": 16}
#: Values from before a setting existed. They are not written, so that older plans continue.
_AS_EVER = {"authentications": 1, "moves": 1, "devices": "", "move_stream_ms": 0}
#: Smallest and largest stream in bytes. A smaller one is too short to time.
_STREAM_BYTES = (50_000, 10_000_000_000)


def _check_size(size: int) -> int:
    least, most = _STREAM_BYTES
    if not least <= size <= most:
        raise ValueError("give between 50k and 10G")
    return size


def parse_devices(text: str) -> dict[str, str]:
    """Return the devices in `NODE=DEVICE,NODE=DEVICE`, by node. Raises ValueError."""
    pairs = [part.partition("=") for part in text.split(",") if part]
    for node, _, device in pairs:
        if not node or not device:
            raise ValueError("give NODE=DEVICE, such as a2=strongarm-206")
    nodes = [node for node, _, _ in pairs]
    if len(set(nodes)) < len(nodes):
        raise ValueError("a node has one device; give each node once")
    return {node: device for node, _, device in pairs}


def _check_devices(text: str) -> str:
    try:
        for device in parse_devices(text).values():
            load_device(device)
    except TopologyError as error:
        raise ValueError(str(error)) from None
    return text


class Asked(study.Asked):
    """Settings of a repetition. Sizes are in bytes."""

    stream_bytes: Annotated[study.Bytes, AfterValidator(_check_size)] = Field(
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
    devices: Annotated[str, AfterValidator(_check_devices)] = Field(
        "", json_schema_extra={"option": "--device"},
        description="Devices that nodes compute on, as NODE=DEVICE,NODE=DEVICE, with "
        "--clock processor; a DEVICE is a name or a .yml file, and the NODE 'all' every other one.")
    move_stream_ms: int = Field(
        0, ge=0, le=100, json_schema_extra={"option": "--move-stream"},
        description="Interval of the datagrams that go both ways while a node moves, in ms, whose "
        "gap and losses are the outage; 0: none go.")
    moves: int = Field(
        1, ge=1, le=100, json_schema_extra={"option": "--moves"},
        description="After how many of its authentications, the last ones, a repetition moves on "
        "where the scenario says so; each move is a sample.")
    stream_captures: Literal["whole", "sampled"] = Field(
        "whole", json_schema_extra={"option": "--stream-captures"},
        description="Whether captures of streams keep all packets, or 1 in 16 of the expected ones "
        "and all unexpected ones.")

    @field_validator("moves")
    @classmethod
    def _moves_fit(cls, moves: int, info: ValidationInfo) -> int:
        authentications = info.data.get("authentications", moves)
        if moves > authentications:
            raise ValueError(f"each comes after one of {authentications} authentications; move "
                             "less often, or authenticate more often")
        if moves > 1 and info.data.get("move_stream_ms"):
            raise ValueError("a stream goes over one move; leave out one of moves and "
                             "move_stream_ms")
        return moves

    def to_stored_settings(self) -> dict[str, Any]:
        """Return the settings as plans keep them.

        A user's medium and devices are named, because file paths are of this machine only.
        """
        from studies.qop2007 import matrix

        medium = matrix.load_medium(self)
        devices = ",".join(f"{node}={load_device(device).name}"
                           for node, device in parse_devices(self.devices).items())
        kept = {**super().to_stored_settings(), "medium": medium.name if medium else NO_MEDIUM,
                "devices": devices}
        return {name: value for name, value in kept.items()
                if name not in _AS_EVER or value != _AS_EVER[name]}
