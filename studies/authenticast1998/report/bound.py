"""The clairvoyant bound: the largest share of a stream that could be verified and used.

A clairvoyant receiver knows all arrivals, loads and forgeries in advance. It verifies in the
largest groups that the delay bound permits, verifies nothing in vain, and works whenever there is
work. It loses a packet only on the way, or when its buffer and processor are exhausted. The queue
is treated as a fluid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from studies.authenticast1998.factors import Disturbance
from studies.authenticast1998.programs import FRAMES_PER_S, TRACE


@dataclass(frozen=True)
class Means:
    """Capacity of a receiver: seconds per packet at best, room and arrival rate in packets."""

    packet_s: float
    room: float
    arrivals_pps: float


def receiver_capacity(settings: Mapping[str, Any], work: Mapping[str, Any],
                      sent_pps: float) -> Means:
    """Compute a receiver's capacity from a run's settings and the client's device.

    A group may be as large as the number of packets sent within the delay bound. It is held while
    it is collected, in addition to the socket's buffer.
    """
    group = max(1.0, sent_pps * settings["delay_bound_ms"] / 1e3)
    packet_s = (settings["packet_ms"] / 1e3
                + settings["payload_bytes"] / work["sha1"]["bytes_per_s"]
                + work["dsa-512-verify"]["seconds"] / group)
    return Means(packet_s, settings["buffer_packets"] + group, sent_pps)


def verified_at_most(load: Disturbance, settings: Mapping[str, Any], client: Means) -> float:
    """Return the share of sent packets that could be verified and used."""
    lost, waiting, total = 0.0, 0.0, 0.0
    rate_pps = client.arrivals_pps * (1 - load.loss)
    for seconds, share in _load_phases(load, settings):
        served_pps = (1 - share) / client.packet_s
        waiting += (rate_pps - served_pps) * seconds
        lost += max(0.0, waiting - client.room)
        waiting = min(max(waiting, 0.0), client.room)
        total += client.arrivals_pps * seconds
    return (total * (1 - load.loss) - lost) / total


def _load_phases(load: Disturbance, settings: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    """Yield the phases of the stream: duration (s) and stolen share of the processor."""
    length_s = settings["frames"] / FRAMES_PER_S
    begin_s, end_s = (min(settings[name], length_s) for name in ("load_from_s", "load_to_s"))
    if not load.share:
        begin_s = end_s = length_s
    yield begin_s, 0.0
    if end_s > begin_s:
        yield end_s - begin_s, load.share
    if length_s > end_s:
        yield length_s - end_s, 0.0


def signed_pps(settings: Mapping[str, Any], device: Mapping[str, Any]) -> float:
    """Return the packets per second that a server's processors can sign one by one."""
    work = device["work"]
    sign_s: float = settings["precomputed_ms"] / 1e3 if settings["signing"] == "precomputed" \
        else work["dsa-512-sign"]["seconds"]
    packet_s: float = sign_s + settings["payload_bytes"] / work["sha1"]["bytes_per_s"]
    processors: int = device.get("processors", 1)
    return processors / packet_s


def demand_pps(settings: Mapping[str, Any]) -> float:
    """Return the packets per second of the video that ships with the study."""
    sizes = [int(line.partition(",")[2]) for line in TRACE.read_text().split()]
    payload_bytes: int = settings["payload_bytes"]
    packets = sum(-(-size // payload_bytes) for size in sizes)
    return FRAMES_PER_S * packets / len(sizes)


def max_min_shares(capacity: float, demands: Sequence[float],
                   weights: Sequence[float]) -> list[float]:
    """Return weighted max-min fair shares of a capacity.

    No client gets more than its demand. The rest is shared among the others.
    """
    shares = [0.0] * len(demands)
    open_ = [number for number, demand in enumerate(demands) if demand > 0]
    while open_ and capacity > 1e-9:
        level = min(capacity / sum(weights[number] for number in open_), *(
            (demands[number] - shares[number]) / weights[number] for number in open_))
        for number in open_:
            shares[number] += level * weights[number]
        capacity -= level * sum(weights[number] for number in open_)
        open_ = [number for number in open_ if demands[number] - shares[number] > 1e-9]
    return shares
