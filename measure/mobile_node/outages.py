"""Measure how long a handoff interrupts traffic, by UDP packets at a steady pace.

`send_probe_streams` takes the mobile node, its peer and an interval. While the node moves to
another access point, it runs `measure.mobile_node.udp_probe` on both, and stores all arrivals as
raw values. Later, `find_outages` takes these values. It returns an `Outage` for each direction: the
longest time between two arrivals, and the number of lost packets. Studies of moving nodes use both.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from measure.agent.workload import Session, Site
from measure.services.programs import HostProgram, program_environment

#: Time of the stream before and after the handoff, in s; not part of an outage.
_LEAD_S = _TAIL_S = 0.2
#: Time until captures have the last packets, in s: on a busy processor they are served last.
_QUIET_S = 0.1
#: Directions, as seen from the mobile node.
UP, DOWN = "up", "down"


@dataclass(frozen=True)
class Outage:
    """The effect of a handoff on packets in one direction.

    `gap_s` is the longest time between two arrivals, from the last arrival before the handoff on.
    `lost_packets` are the datagrams that never arrived, of those sent before the last arrival.
    """

    gap_s: float
    lost_packets: int


@contextmanager
def send_probe_streams(site: Site, session: Session, ends: tuple[str, str], interval_ms: int, *,
                       added_s: float = 0.0, keeps_address: bool = False) -> Iterator[None]:
    """Send UDP packets at a steady pace in both directions inside the context.

    The arrivals are stored as raw value `pulses`.

    Args:
        site: The running testbed.
        session: Receives the raw value.
        ends: The mobile node and its peer.
        interval_ms: Interval in ms.
        added_s: Delay that wires add to a packet, in s.
        keeps_address: Send only from the home address. Until the tunnel has followed, packets from
            the visited network's address would bypass it.

    Raises:
        MeasureError: A program ended early.
    """
    mobile, peer = ends
    network, files = site.network, {}
    with ExitStack() as programs:
        running = []
        for node, other in ((mobile, peer), (peer, mobile)):
            files[node] = site.run_folder(node) / "pulse.json"
            argv = [sys.executable, "-m", "measure.mobile_node.udp_probe",
                    network.address_of(other), str(interval_ms), str(files[node]),
                    *([network.address_of(mobile)] if keeps_address and node == mobile else [])]
            running.append(programs.enter_context(HostProgram(
                f"stream on {node}", site.testbed.node_command(node, argv),
                site.log_path("pulse", node),
                program_environment())))
        for program in running:
            program.send_command("begin")
        time.sleep(_LEAD_S + added_s)
        yield
        time.sleep(_TAIL_S + added_s)
        for program in running:
            program.finish()
        # Wait for the captures: a capture that is stopped drops unread packets.
        time.sleep(_QUIET_S + added_s)
    results = {node: json.loads(file.read_text()) for node, file in files.items()}
    session.raw["pulses"] = {
        "interval_ms": interval_ms,
        UP: {"sent": results[mobile]["sent"], "arrivals": results[peer]["arrivals"]},
        DOWN: {"sent": results[peer]["sent"], "arrivals": results[mobile]["arrivals"]}}


def find_outages(raw: Mapping[str, Any]) -> dict[str, Outage]:
    """Return the interruption by a repetition's handoff, for each direction of traffic.

    A direction is left out if its packets did not arrive again.
    """
    pulses, stamps = raw.get("pulses"), raw["stamps"]
    if not pulses or "handoff" not in stamps or "foreign_first_packet" not in stamps:
        return {}
    left_s, back_s = stamps["handoff"], stamps["foreign_first_packet"]
    return {way: outage for way in (UP, DOWN)
            if (outage := compute_outage(pulses[way]["arrivals"], left_s, back_s)) is not None}


def compute_outage(arrivals: Sequence[tuple[int, float]], left_s: float,
                   back_s: float) -> Outage | None:
    """Return the interruption by a handoff from a list of arrivals (number, time).

    The result is None if nothing arrived before or after the handoff.

    Args:
        arrivals: Number and time (s) of each arrival.
        left_s: Start of the handoff in s.
        back_s: End of the handoff in s.
    """
    times = sorted(at_s for _, at_s in arrivals)
    before = [at_s for at_s in times if at_s <= left_s]
    if not before or times[-1] < back_s:
        return None
    since = times[len(before) - 1:]
    gap_s = max(later - earlier for earlier, later in pairwise(since))
    numbers = {number for number, _ in arrivals}
    return Outage(gap_s, max(numbers) + 1 - len(numbers))
