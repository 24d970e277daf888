"""Contention on one channel: Bianchi's model, and the guest's own air run outside of it.

The model is Bianchi's (IEEE JSAC 18(3), 2000) with retries that end, and with stations that stop
counting while the channel is busy, as 802.11 has it: a slot that others take is not counted, so who
has just sent is alone in the first slot after its frame (Tinnirello, Bianchi, Xiao, IEEE TVT 59(3),
2010, call it anomalous).
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

#: IP and UDP, and LLC, around a datagram's payload.
HEADER_BYTES = 36
HERE = Path(__file__).parent
#: One cell in ns-3, and what ns-3.44 answered; `load` is a share of what saturated stations get,
#: `ack_rate_bps` what it acknowledged at (11 Mbit/s in 802.11b, whatever is asked for; with an
#: access point 2 Mbit/s). See as_ns3.
NS3_SOURCE, NS3_ANSWERS = HERE / "ns3_cell.cc", HERE / "ns3_cell.json"
_GUEST = Path(__file__).parents[2] / "guest"
SOURCE, CORE = _GUEST / "dcf" / "trial.c", "sources/net/sched/dcf_core.h"
#: A frame that waits for DIFS on an idle channel, when another station begins: it draws a backoff
#: (IEEE 802.11-2016, 10.3.4.2: "remains idle for a period of a DIFS [...]. Otherwise the random
#: backoff procedure"). In ns-3 it does not, and goes right after that station, with all like it.
OVERTAKEN = (("\t\tstation->head = 0;\n\t\tstation->count = dcf_draw(channel, station->cw);\n"
              "\t\treturn;\n"), "\t\tstation->head = 0;\n\t\treturn;\n")
_BISECTIONS = 60
_CELL = ("medium", "payload_bytes", "stations", "load")
_ANSWERS = ("delivered_per_s", "collision_share", "jain_1s", "delay_mean_us", "delay_p99_us")
#: By sender and listener, in the units of the trial's `senses`; what is not there is 0.
Powers = Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class Saturation:
    """All stations together: frames delivered a second, and the share of transmissions in vain."""

    delivered_per_s: float
    collision_share: float


def cell(medium: Medium, payload_bytes: int) -> dict[str, int]:
    """The channel's settings and the length of a frame with such a datagram (ns)."""
    return {**dcf.settings(medium),
            "frame_ns": round(medium.latency_us(payload_bytes + HEADER_BYTES) * 1e3)}


def aggregated(medium: Medium, payload_bytes: int) -> dict[str, float]:
    """The same of a medium whose frames go together, with what each adds to others (bits)."""
    return {**cell(medium, payload_bytes),
            "frame_bits": 8 * medium.subframe_bytes(payload_bytes + HEADER_BYTES),
            "preamble_ns": round((medium.preamble_us + medium.extension_us) * 1e3),
            "rate_bps": medium.rate_bps, "symbol_ns": round(medium.symbol_us * 1e3),
            "symbol_bits": round(medium.rate_bps * medium.symbol_us / 1e6),
            "service_bits": medium.service_bits}


def bianchi(medium: Medium, payload_bytes: int, stations: int) -> Saturation:
    """What stations that always have a frame get in the mean, by the model."""
    own = cell(medium, payload_bytes)
    collides = _fixed_point(own, stations)
    sends, alone_later = _sends(own, collides)
    some = 1 - (1 - sends)**stations
    alone = stations * sends * (1 - sends)**(stations - 1)
    # Who drew no slots after its frame sends the next one at once, and nobody can collide with it.
    again = 1 / (own["cw_min"] + 1)
    frames = (alone + stations * alone_later) / (1 - again)
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
        if 1 - (1 - _sends(own, middle)[0])**(stations - 1) > middle:
            low = middle
        else:
            high = middle
    return low


def _sends(own: Mapping[str, int], collides: float) -> tuple[float, float]:
    """How probably a station sends in a slot, by how probably it collides if it does.

    And how probably, beside that, right after another's frame, where nobody can collide with it:
    that frame has ended its ACKTimeout (IEEE 802.11-2007, 9.2.8), and it has drawn no slots.
    """
    silent = 1 - collides
    # The first slot belongs to the collision; others may begin in the rest.
    timeout = [silent**slot for slot in range(1, own["timeout_slots"])]
    ended = 1 - silent ** len(timeout)
    attempts, alone = 1.0, 0.0
    # Of a window after a success, no slots at all is the case of its own above.
    waits, reached = (own["cw_min"] + 1) / 2 - 1, 1.0
    for attempt in range(1, own["retries"] + 1):
        window = min((own["cw_min"] + 1) << attempt, own["cw_max"] + 1)
        reached *= collides
        waits += reached * ((window - 1) / 2 + ended / window
                            + (sum(timeout) if own["timeout_slots"] else -1))
        alone += reached * ended / window
        reached *= 1 - ended / window
        attempts += reached
    return attempts / (attempts + waits), alone / (attempts + waits)


def ns3_runs(hops: int = 1) -> list[list[dict[str, Any]]]:
    """What the reference said, by cell, of each seed that it was given.

    Of stations that send to one receiver, or of two hops through an access point.
    """
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in json.loads(NS3_ANSWERS.read_text()):
        if row.get("hops", 1) == hops:
            cells.setdefault(tuple(row[name] for name in _CELL), []).append(row)
    return list(cells.values())


def ns3_answers() -> list[dict[str, Any]]:
    """What the reference said of stations that send to one receiver: means of `runs` seeds."""
    return [{**rows[0], "runs": len(rows), **{
        name: sum(row[name] for row in rows) / len(rows) for name in _ANSWERS if name in rows[0]}}
        for rows in ns3_runs()]


def compiled(folder: Path, *, like_ns3: bool = False) -> Path:
    """The guest's air as a program of this machine, compiled into a folder. Needs a C compiler.

    With `like_ns3`, with the one thing that ns-3 does otherwise (`OVERTAKEN`).
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


def trial(program: Path, settings: Mapping[str, float],
          powers: Powers = MappingProxyType({})) -> dict[str, Any]:
    """What the guest's air makes of stations; `settings` as the program's source names them."""
    lines = [f"{name} {value}" for name, value in settings.items()]
    lines += [f"power {sender} {listener} {power}" for (sender, listener), power in powers.items()]
    said = subprocess.run([str(program)], text=True, capture_output=True, check=True,
                          input="\n".join(lines) + "\n")
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


def as_ns3(row: Mapping[str, Any]) -> Medium:
    """The medium that ns-3 was asked for, with what it does otherwise.

    A frame waits for DIFS on an idle channel, too, and its limit of 7 counts what is sent again.
    What goes at 2 Mbit/s has the long preamble always (`ack_preamble_us`).
    """
    medium = load_medium(row["medium"])
    return replace(medium, ack_rate_bps=row["ack_rate_bps"], wait_difs=True, retries=7,
                   ack_preamble_us=row.get("ack_preamble_us", medium.ack_preamble_us))
