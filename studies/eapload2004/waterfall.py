"""Divide the time of an authentication into steps: computing, waiting and the way of packets.

`build_waterfalls` takes the captures of one measurement, and returns the steps of each
authentication, which the report draws as a figure. Each packet passes four captures: at the
station, at the access point's radio, at the access point's wire, and at the server. A step is the
time from one capture to the next:

- supplicant, server: from a received packet to the reply
- air: between station and the access point's radio (see `workload.copy_frames`)
- access point: between its radio and its wire. In virtual time computing takes no time, so this
  step is only the time that a few readings of the clock take (5 us each).
- wire: between access point and server

Repetitions of earlier versions lack the capture at the radio. They have one step for air and access
point.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from statistics import fmean

from measure.capture import pcap
from measure.packets.eap import RADIUS_PORT
from studies.eapload2004.exchanges import SupplicantTime, is_from_supplicant

SUPPLICANT, AIR, AUTHENTICATOR, WIRE, SERVER, WAITING = PARTS = (
    "supplicant", "air", "access point", "wire", "server", "waiting for it")
#: Part of air and access point together, without a capture between them.
UNDIVIDED = "air and access point"
UNDIVIDED_PARTS = (SUPPLICANT, UNDIVIDED, WIRE, SERVER, WAITING)
#: All parts in a record, in the order in which they are drawn.
DRAWN = (SUPPLICANT, AIR, UNDIVIDED, AUTHENTICATOR, WIRE, SERVER, WAITING)
#: Part that follows each capture of a packet on its way: at the supplicant, at the access point's
#: radio, at its wire, at the server, and back.
_NEXT = (AIR, AUTHENTICATOR, WIRE, SERVER, WIRE, AUTHENTICATOR, AIR, SUPPLICANT)
_RADIO = "auth-radio"
#: Index of each capture in that order: for packets to the server, and from it.
_PLACES: Mapping[str, tuple[int, int]] = {
    "auth-mn": (0, 7), _RADIO: (1, 6), "auth-ap": (2, 5), "auth-server": (3, 4)}
_EAPOL = ("auth-mn", _RADIO)
#: Shorter times come from readings of the clock, each of which takes 5 us of virtual time (s).
_MIN_WAITING_S = 0.0001

#: Part, begin and end (s since the first frame).
Step = tuple[str, float, float]


def build_waterfalls(out: Path, authentications: Sequence[SupplicantTime]) -> list[list[Step]]:
    """Return the steps of every authentication in order, without waiting at the server."""
    by_capture = {name: [*_read_sights(out, name)] for name in _PLACES if _has_capture(out, name)}
    sights = sorted(chain.from_iterable(by_capture.values()))
    following = _NEXT if by_capture.get(_RADIO) else tuple(
        UNDIVIDED if part in (AIR, AUTHENTICATOR) else part for part in _NEXT)
    times_s = [at_s for at_s, _ in sights]
    waterfalls = []
    for authentication in authentications:
        first = bisect_left(times_s, authentication.begun_s)
        end = bisect_right(times_s, authentication.ended_s)
        waterfalls.append(_order_steps(sights[first:end], following))
    return waterfalls


def mean_s(waterfalls: Sequence[Sequence[Step]], part_name: str) -> float | None:
    """Return the mean time of a part over all authentications (s), or None if none has it."""
    if not any(part == part_name for steps in waterfalls for part, _, _ in steps):
        return None
    return fmean(sum(ended_s - begun_s for part, begun_s, ended_s in steps if part == part_name)
                 for steps in waterfalls)


def with_waiting(steps: Sequence[Step], quickest_s: Sequence[float]) -> Iterator[Step]:
    """Yield the steps, with the server's answers split into computing and waiting.

    Waiting is the time by which an answer takes longer than the fastest of its kind.
    """
    answers = 0
    for part, begun_s, ended_s in steps:
        if part != SERVER or answers >= len(quickest_s):
            yield part, begun_s, ended_s
            continue
        alone_s = begun_s + quickest_s[answers]
        answers += 1
        if ended_s - alone_s < _MIN_WAITING_S:
            yield part, begun_s, ended_s
        else:
            yield SERVER, begun_s, alone_s
            yield WAITING, alone_s, ended_s


def quickest_steps(waterfalls: Sequence[Sequence[Step]]) -> dict[str, list[float]]:
    """Return the fastest time of each step at server and station (s), in order, by part."""
    quickest = {}
    for name in (SERVER, SUPPLICANT):
        by_authentication = [[ended_s - begun_s for part, begun_s, ended_s in steps if part == name]
                             for steps in waterfalls]
        quickest[name] = [min(times_s) for times_s in zip(*by_authentication, strict=False)]
    return quickest


def _has_capture(out: Path, name: str) -> bool:
    """Return whether the capture exists. Older results have no `auth-radio`."""
    return name != _RADIO or (out / f"{name}.pcap").exists()


def _read_sights(out: Path, name: str) -> Iterator[tuple[float, int]]:
    """Yield the time of each packet in a capture, and its position on the path."""
    to_server, from_server = _PLACES[name]
    file = out / f"{name}.pcap"
    if name in _EAPOL:
        for frame in pcap.read_frames(file):
            is_there = is_from_supplicant(frame)
            if is_there is not None:
                yield frame.at_s, to_server if is_there else from_server
    else:
        for datagram in pcap.udp_datagrams(file):
            yield datagram.at_s, to_server if datagram.target_port == RADIUS_PORT else from_server


def _order_steps(sights: Sequence[tuple[float, int]], following: Sequence[str]) -> list[Step]:
    """Return the steps of an authentication between its captured packets.

    Args:
        sights: time of each captured packet, and the capture's position on the path (`_PLACES`).
        following: for each position, the part of the time that begins there (`_NEXT`), such as air.
    """
    ordered: list[tuple[float, int]] = []
    for _, simultaneous in groupby(sights, itemgetter(0)):
        # In virtual time, packets may have equal times. Then the place before decides their order.
        last = ordered[-1][1] if ordered else -1
        ordered += sorted(simultaneous, key=lambda sight, last=last: (  # type: ignore[misc]
            sight[1] - last - 1) % len(_NEXT))
    since_s = ordered[0][0] if ordered else 0.0
    return [(following[place], at_s - since_s, until_s - since_s)
            for (at_s, place), (until_s, _) in pairwise(ordered)]
