"""Outages are measured by traffic: a steady stream both ways between two nodes over a move."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from measure.services.launcher import environment
from measure.services.program import HostProgram
from measure.workload import Session, Site

#: The stream before the move, and after it: neither is part of an outage.
_LEAD_S = _TAIL_S = 0.2
#: Until captures have its last packets: with a busy processor they are the last to get it.
_QUIET_S = 0.1
#: Directions, as seen from the mobile node.
UP, DOWN = "up", "down"


@dataclass(frozen=True)
class Outage:
    """What a move did to a stream in one direction.

    `gap_s` is the longest time between two arrivals from the last one before the move on, and
    `lost_packets` those that never arrived, of all that were sent before the last arrival.
    """

    gap_s: float
    lost_packets: int


@contextmanager
def streaming(site: Site, session: Session, ends: tuple[str, str], interval_ms: int, *,
              added_s: float = 0.0, keeps_address: bool = False) -> Iterator[None]:
    """A datagram each interval, both ways, while this lasts; raw `pulses` is what arrived.

    `ends` are the mobile node and its peer, `added_s` what wires add to a packet's way. One that
    keeps its address sends from no other: until its tunnel has followed, the visited network's
    would go past it. Raises MeasureError.
    """
    mobile, peer = ends
    nodes, files = site.network.nodes, {}
    with ExitStack() as programs:
        running = []
        for node, other in ((mobile, peer), (peer, mobile)):
            files[node] = site.run_folder(node) / "pulse.json"
            argv = [sys.executable, "-m", "measure.pulse", nodes[other].address, str(interval_ms),
                    str(files[node]),
                    *([nodes[mobile].address] if keeps_address and node == mobile else [])]
            running.append(programs.enter_context(HostProgram(
                f"stream on {node}", site.testbed.command(node, argv), site.log("pulse", node),
                environment())))
        for program in running:
            program.tell("begin")
        time.sleep(_LEAD_S + added_s)
        yield
        time.sleep(_TAIL_S + added_s)
        for program in running:
            program.end()
        # What was sent last is captured: a capture that is told to end leaves what it has not read.
        time.sleep(_QUIET_S + added_s)
    said = {node: json.loads(file.read_text()) for node, file in files.items()}
    session.raw["pulses"] = {
        "interval_ms": interval_ms,
        UP: {"sent": said[mobile]["sent"], "arrivals": said[peer]["arrivals"]},
        DOWN: {"sent": said[peer]["sent"], "arrivals": said[mobile]["arrivals"]}}


def find(raw: Mapping[str, Any]) -> dict[str, Outage]:
    """The outage in each direction of a repetition; of one that did not come back, none."""
    pulses, stamps = raw.get("pulses"), raw["stamps"]
    if not pulses or "handoff" not in stamps or "foreign_first_packet" not in stamps:
        return {}
    left_s, back_s = stamps["handoff"], stamps["foreign_first_packet"]
    return {way: seen for way in (UP, DOWN)
            if (seen := outage(pulses[way]["arrivals"], left_s, back_s)) is not None}


def outage(arrivals: Sequence[tuple[int, float]], left_s: float,
           back_s: float) -> Outage | None:
    """Of arrivals (number, time), with a move from `left_s` on that was over at `back_s`.

    None where nothing arrived before the move, or nothing afterwards.
    """
    times = sorted(at_s for _, at_s in arrivals)
    before = [at_s for at_s in times if at_s <= left_s]
    if not before or times[-1] < back_s:
        return None
    since = times[len(before) - 1:]
    gap_s = max(later - earlier for earlier, later in pairwise(since))
    numbers = {number for number, _ in arrivals}
    return Outage(gap_s, max(numbers) + 1 - len(numbers))
