"""Define the settings that a user can give for a run of the study qop2007.

`Settings` has the default, limits and help text of each: stream sizes, number of authentications
and handoffs, radio medium, device models and others. `parse_devices` parses the option that assigns
models of slow processors to nodes. `studies.qop2007` lists the terms.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from studies import policy_factors, study
from studies.policy_factors import NO_MEDIUM
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
    """Parse `NODE=DEVICE,NODE=DEVICE` to a device (model of a slow processor) for each node.

    Raises:
        ValueError: a part lacks a node or a device, or a node occurs twice.
    """
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


class Settings(study.Settings):
    """Settings of a run that apply to every repetition. Sizes are in bytes."""

    stream_bytes: Annotated[study.Bytes, AfterValidator(_check_size)] = Field(
        1_000_000,
        description="Send this many bytes in each TCP and UDP stream, such as 500k or 16M.",
        json_schema_extra={"option": "--stream-bytes"})
    authentications: int = Field(
        1, ge=1, le=100, json_schema_extra={"option": "--authentications"},
        description="Authenticate in full this often in the home network, before moves and "
        "streams. Each authentication is a sample.")
    udp_payload_bytes: int = Field(
        1400, ge=64, le=1472, json_schema_extra={"option": "--udp-payload"},
        description="Send UDP datagrams with this payload in bytes, 64 to 1472. 1400 needs no "
        "fragments in any policy.")
    medium: str = Field(
        "802.11b-short", json_schema_extra={"option": "--medium"},
        description=f"Use this radio medium: {', '.join(medium_names())}, a .yml file, or none.")
    detection: Literal["event", "advertisement"] = Field(
        "event", json_schema_extra={"option": "--detection"},
        description="Detect a move by the supplicant's event, or by the next agent advertisement.")
    devices: Annotated[str, AfterValidator(_check_devices)] = Field(
        "", json_schema_extra={"option": "--device"},
        description="Use models of devices for the nodes, as NODE=DEVICE,NODE=DEVICE, with --clock "
        "processor. DEVICE is a name or a .yml file. The NODE 'all' means every other node.")
    move_stream_ms: int = Field(
        0, ge=0, le=100, json_schema_extra={"option": "--move-stream"},
        description="Send datagrams in both directions at this interval (ms) during a move. Their "
        "gap and losses measure the outage. 0 sends none.")
    moves: int = Field(
        1, ge=1, le=100, json_schema_extra={"option": "--moves"},
        description="Move this often in each repetition of scenarios with a move, after each of "
        "the last authentications. Each move is a sample.")
    stream_captures: Literal["whole", "sampled"] = Field(
        "whole", json_schema_extra={"option": "--stream-captures"},
        description="Keep all packets of streams in captures, or 1 in 16 of the expected ones "
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
        """Return the settings as the plan of a run stores them.

        Files of the user's medium and devices are replaced by their names, because paths differ
        between machines.
        """
        medium = policy_factors.read_medium(self.medium)
        devices = ",".join(f"{node}={load_device(device).name}"
                           for node, device in parse_devices(self.devices).items())
        stored = {**super().to_stored_settings(), "medium": medium.name if medium else NO_MEDIUM,
                  "devices": devices}
        return {name: value for name, value in stored.items()
                if name not in _AS_EVER or value != _AS_EVER[name]}
