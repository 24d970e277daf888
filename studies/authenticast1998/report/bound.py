"""The clairvoyant bound says what share of a stream could have been verified and used at all.

Whoever knows all arrivals, all that will be stolen and every forgery in advance verifies in the
largest groups that the delay bound permits and nothing in vain, works whenever there is work, and
loses a packet only on the way, or when room and processor are exhausted: the queue as a fluid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from studies.authenticast1998.factors import Disturbance
from studies.authenticast1998.programs import FRAMES_PER_S


@dataclass(frozen=True)
class Means:
    """What a receiver has: seconds a packet at best, room in packets, and its packets a second."""

    packet_s: float
    room: float
    arrivals_pps: float


def means(asked: Mapping[str, Any], work: Mapping[str, Any], sent_pps: float) -> Means:
    """Of a run's settings and its client's device.

    A group may be as large as what is sent within the delay bound; it is held while it is
    collected, beside what the socket has room for.
    """
    group = max(1.0, sent_pps * asked["delay_bound_ms"] / 1e3)
    packet_s = (asked["packet_ms"] / 1e3 + asked["payload_bytes"] / work["sha1"]["bytes_per_s"]
                + work["dsa-512-verify"]["seconds"] / group)
    return Means(packet_s, asked["buffer_packets"] + group, sent_pps)


def verified_at_most(load: Disturbance, asked: Mapping[str, Any], client: Means) -> float:
    """The share of sent packets that could be verified and used."""
    lost, waiting, total = 0.0, 0.0, 0.0
    rate_pps = client.arrivals_pps * (1 - load.loss)
    for seconds, share in _phases(load, asked):
        served_pps = (1 - share) / client.packet_s
        waiting += (rate_pps - served_pps) * seconds
        lost += max(0.0, waiting - client.room)
        waiting = min(max(waiting, 0.0), client.room)
        total += client.arrivals_pps * seconds
    return (total * (1 - load.loss) - lost) / total


def _phases(load: Disturbance, asked: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    """The stream's time in phases: how long each is, and what share of the processor is stolen."""
    length_s = asked["frames"] / FRAMES_PER_S
    begin_s, end_s = (min(asked[name], length_s) for name in ("load_from_s", "load_to_s"))
    if not load.share:
        begin_s = end_s = length_s
    yield begin_s, 0.0
    if end_s > begin_s:
        yield end_s - begin_s, load.share
    if length_s > end_s:
        yield length_s - end_s, 0.0
