"""Contention on one channel: Bianchi's model, and the guest's medium as a program of the host.

The model is Bianchi's (IEEE JSAC 18(3), 2000) with a retry limit. As in 802.11, stations do not
count down while the channel is busy. A slot in which another station sends is not counted. So the
station that has just sent is alone in the first slot after its frame. Tinnirello, Bianchi and Xiao
(IEEE TVT 59(3), 2010) call this slot anomalous.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from topologies import dcf
from topologies.loader import load_medium
from topologies.timing import Medium

#: Bytes of IP, UDP and LLC headers around a datagram's payload.
HEADER_BYTES = 36
HERE = Path(__file__).parent
#: One cell as an ns-3 program, and the answers of ns-3.44. `load` is a share of the rate of
#: saturated stations. `ack_rate_bps` is the rate of its acknowledgements (11 Mbit/s in 802.11b,
#: whatever is configured; 2 Mbit/s with an access point). See as_ns3.
NS3_SOURCE, NS3_ANSWERS = HERE / "ns3_cell.cc", HERE / "ns3_cell.json"
_GUEST = Path(__file__).parents[2] / "guest"
SOURCE, CORE = _GUEST / "dcf" / "trial.c", "sources/net/sched/dcf_core.h"
#: Patch for a frame that waits for DIFS on an idle channel when another station starts to send: it
#: draws a backoff (IEEE 802.11-2016, 10.3.4.2: "remains idle for a period of a DIFS [...].
#: Otherwise the random backoff procedure"). In ns-3 it draws none and is sent right after that
#: station's frame, together with all frames in the same state.
OVERTAKEN = (("\t\tstation->head = 0;\n\t\tstation->count = dcf_draw(channel, station->cw);\n"
              "\t\treturn;\n"), "\t\tstation->head = 0;\n\t\treturn;\n")
_BISECTIONS = 60
_CELL = ("medium", "payload_bytes", "stations", "load")
_ANSWERS = ("delivered_per_s", "collision_share", "jain_1s", "delay_mean_us", "delay_p99_us")
#: Powers by sender and listener, in the units of the trial's `senses`; a missing entry is 0.
Powers = Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class Saturation:
    """Result of all saturated stations: frames delivered in a second, and share of collisions.

    `collision_share` is the share of transmissions that collide.
    """

    delivered_per_s: float
    collision_share: float


def frame_settings(medium: Medium, payload_bytes: int) -> dict[str, int]:
    """Return the channel's settings, and the airtime in ns of a frame with such a datagram."""
    return {**dcf.dcf_settings(medium),
            "frame_ns": round(medium.latency_us(payload_bytes + HEADER_BYTES) * 1e3)}


def aggregation_settings(medium: Medium, payload_bytes: int) -> dict[str, float]:
    """Return the settings of a medium with aggregation, with the bits that each frame adds."""
    return {**frame_settings(medium, payload_bytes),
            "frame_bits": 8 * medium.subframe_bytes(payload_bytes + HEADER_BYTES),
            "preamble_ns": round((medium.preamble_us + medium.extension_us) * 1e3),
            "rate_bps": medium.rate_bps, "symbol_ns": round(medium.symbol_us * 1e3),
            "symbol_bits": round(medium.rate_bps * medium.symbol_us / 1e6),
            "service_bits": medium.service_bits}


def solve_bianchi(medium: Medium, payload_bytes: int, stations: int) -> Saturation:
    """Return the mean throughput of stations that always have a frame, by Bianchi's model."""
    own = frame_settings(medium, payload_bytes)
    collides = _fixed_point(own, stations)
    sends, alone_later = _sending_probabilities(own, collides)
    some = 1 - (1 - sends)**stations
    alone = stations * sends * (1 - sends)**(stations - 1)
    # A station that drew 0 slots after its frame sends the next one at once, without a collision.
    again = 1 / (own["cw_min"] + 1)
    frames = (alone + stations * alone_later) / (1 - again)
    busy_ns = own["frame_ns"] + own["difs_ns"]
    mean_ns = ((1 - some) * own["slot_ns"] + frames * (busy_ns + own["after_frame_ns"])
               + (some - alone) * (busy_ns + own["after_garbled_ns"]) + some * own["slot_ns"])
    sent = stations * sends + frames - alone
    return Saturation(frames / mean_ns * 1e9, stations * sends * collides / sent)


def _fixed_point(settings: Mapping[str, int], stations: int) -> float:
    """Solve for the collision probability at which all stations' sending rates agree with it."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if 1 - (1 - _sending_probabilities(settings, middle)[0])**(stations - 1) > middle:
            low = middle
        else:
            high = middle
    return low


def _sending_probabilities(settings: Mapping[str, int], collides: float) -> tuple[float, float]:
    """Return a station's probabilities to send in a slot, from its collision probability.

    The first is the probability to send in an ordinary slot. The second is the probability to send
    right after another station's frame, where no collision is possible. That happens if the frame
    has ended the station's ACKTimeout (IEEE 802.11-2007, 9.2.8) and the station has drawn 0 slots.
    """
    silent = 1 - collides
    # The first slot belongs to the collision; other stations may start in the other slots.
    timeout = [silent**slot for slot in range(1, settings["timeout_slots"])]
    ended = 1 - silent ** len(timeout)
    attempts, alone = 1.0, 0.0
    # For a window after a success, a draw of 0 slots is the separate case above.
    waits, reached = (settings["cw_min"] + 1) / 2 - 1, 1.0
    for attempt in range(1, settings["retries"] + 1):
        window = min((settings["cw_min"] + 1) << attempt, settings["cw_max"] + 1)
        reached *= collides
        waits += reached * ((window - 1) / 2 + ended / window
                            + (sum(timeout) if settings["timeout_slots"] else -1))
        alone += reached * ended / window
        reached *= 1 - ended / window
        attempts += reached
    return attempts / (attempts + waits), alone / (attempts + waits)


def ns3_runs(hops: int = 1) -> list[list[dict[str, Any]]]:
    """Return the recorded answers of ns-3, by cell, with one entry for each seed.

    `hops` 1 is for stations that send to one receiver, 2 for two hops through an access point.
    """
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in json.loads(NS3_ANSWERS.read_text()):
        if row.get("hops", 1) == hops:
            cells.setdefault(tuple(row[name] for name in _CELL), []).append(row)
    return list(cells.values())


def ns3_answers() -> list[dict[str, Any]]:
    """Return ns-3's mean answers for stations that send to one receiver.

    `runs` counts the seeds.
    """
    return [{**rows[0], "runs": len(rows), **{
        name: sum(row[name] for row in rows) / len(rows) for name in _ANSWERS if name in rows[0]}}
        for rows in ns3_runs()]


def compile_trial(folder: Path, *, like_ns3: bool = False) -> Path:
    """Compile the guest's medium as a program of this machine. A C compiler is needed.

    With `like_ns3`, the one difference to ns-3 is patched in (`OVERTAKEN`).
    """
    source = SOURCE
    if like_ns3:
        source, core = (folder / "as-ns3" / path for path in ("dcf/trial.c", CORE))
        for path in (source, core):
            path.parent.mkdir(parents=True)
        shutil.copy(SOURCE, source)
        core.write_text(_GUEST.joinpath(CORE).read_text().replace(*OVERTAKEN))
    program = source.parent / "trial" if like_ns3 else folder / "trial"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-o",
                    str(program), str(source), "-lm"], check=True)
    return program


def run_trial(program: Path, settings: Mapping[str, float],
              powers: Powers = MappingProxyType({})) -> dict[str, Any]:
    """Run the guest's medium with stations and return its results.

    Args:
        program: The compiled program.
        settings: Settings by the names in the program's source.
        powers: Received power by sender and listener.
    """
    lines = [f"{name} {value}" for name, value in settings.items()]
    lines += [f"power {sender} {listener} {power}" for (sender, listener), power in powers.items()]
    said = subprocess.run([str(program)], text=True, capture_output=True, check=True,
                          input="\n".join(lines) + "\n")
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


def as_ns3(row: Mapping[str, Any]) -> Medium:
    """Return the medium that ns-3 was given, including ns-3's differences.

    There, a frame waits for DIFS on an idle channel, too, and the limit of 7 counts
    retransmissions. Frames at 2 Mbit/s always have the long preamble (`ack_preamble_us`).
    """
    medium = load_medium(row["medium"])
    return replace(medium, ack_rate_bps=row["ack_rate_bps"], wait_difs=True, retries=7,
                   ack_preamble_us=row.get("ack_preamble_us", medium.ack_preamble_us))
