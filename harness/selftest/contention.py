"""Contention on one channel: Bianchi's model, and the guest's own air run outside of it.

The model is Bianchi's (IEEE JSAC 18(3), 2000) with retries that end, and with stations that stop
counting while the channel is busy, as 802.11 has it: a slot that others take is not counted, so who
has just sent is alone in the first slot after its frame (Tinnirello, Bianchi, Xiao, IEEE TVT 59(3),
2010, call it anomalous).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from topologies import dcf
from topologies.timing import Medium

#: IP and UDP, and LLC, around a datagram's payload.
HEADER_BYTES = 36
SOURCE = Path(__file__).parents[2] / "guest" / "dcf" / "trial.c"
_BISECTIONS = 60


@dataclass(frozen=True)
class Saturation:
    """All stations together: frames delivered a second, and the share of transmissions in vain."""

    delivered_per_s: float
    collision_share: float


def cell(medium: Medium, payload_bytes: int) -> dict[str, int]:
    """The channel's settings and the length of a frame with such a datagram (ns)."""
    return {**dcf.settings(medium),
            "frame_ns": round(medium.latency_us(payload_bytes + HEADER_BYTES) * 1e3)}


def bianchi(medium: Medium, payload_bytes: int, stations: int) -> Saturation:
    """What stations that always have a frame get in the mean, by the model."""
    own = cell(medium, payload_bytes)
    collides = _fixed_point(own, stations)
    sends = _sends(own, collides)
    some = 1 - (1 - sends)**stations
    alone = stations * sends * (1 - sends)**(stations - 1)
    # Who drew no slots after its frame sends the next one at once, and nobody can collide with it.
    again = 1 / (own["cw_min"] + 1)
    frames = alone / (1 - again)
    busy_ns = own["frame_ns"] + own["difs_ns"]
    mean_ns = ((1 - some) * own["slot_ns"] + frames * (busy_ns + own["after_frame_ns"])
               + (some - alone) * (busy_ns + own["after_garbled_ns"]) + some * own["slot_ns"])
    sent = stations * sends + frames - alone
    return Saturation(frames / mean_ns * 1e9, stations * sends * collides / sent)


def _fixed_point(own: Mapping[str, int], stations: int) -> float:
    """How probably a transmission collides, if all others send as often as it says."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if 1 - (1 - _sends(own, middle))**(stations - 1) > middle:
            low = middle
        else:
            high = middle
    return low


def _sends(own: Mapping[str, int], collides: float) -> float:
    """How probably a station sends in a slot, by how probably it collides if it does."""
    attempts = waits = 0.0
    for attempt in range(own["retries"] + 1):
        window = min((own["cw_min"] + 1) << attempt, own["cw_max"] + 1)
        reached = collides**attempt
        attempts += reached
        # Of a window after a success, no slots at all is the case of its own above.
        waits += reached * ((window - 1) / 2 - 1 + own["timeout_slots"] if attempt
                            else window / 2 - 1)
    return attempts / (attempts + waits)


def compiled(folder: Path) -> Path:
    """The guest's air as a program of this machine, compiled into a folder. Needs a C compiler."""
    program = folder / "trial"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-o",
                    str(program), str(SOURCE), "-lm"], check=True)
    return program


def trial(program: Path, settings: Mapping[str, float]) -> dict[str, float]:
    """What the guest's air makes of stations; `settings` as the program's source names them."""
    said = subprocess.run([str(program)], text=True, capture_output=True, check=True,
                          input="".join(f"{name} {value}\n" for name, value in settings.items()))
    answer: dict[str, float] = json.loads(said.stdout)
    return answer
