"""Steps of an authentication's time, from four captures.

The access point's own part is between its side of the air (`radio_side`) and the wire behind it. In
virtual time computing is free, so this part is a few readings of the clock. Older repetitions
without the capture at the radio have one part for air and access point.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from statistics import fmean

from measure import pcap
from measure.eap_keys import PORT
from studies.eapload2004.exchanges import SupplicantTime, is_from_supplicant

SUPPLICANT, AIR, AUTHENTICATOR, WIRE, SERVER, WAITING = PARTS = (
    "supplicant", "air", "access point", "wire", "server", "waiting for it")
#: Part of air and access point together, without a capture between them.
UNDIVIDED = "air and access point"
UNDIVIDED_PARTS = (SUPPLICANT, UNDIVIDED, WIRE, SERVER, WAITING)
#: All parts in a record, in the order in which they are drawn.
DRAWN = (SUPPLICANT, AIR, UNDIVIDED, AUTHENTICATOR, WIRE, SERVER, WAITING)
#: Part that follows each sight of a packet on its way: at the supplicant, at the access point's
#: radio, behind it, at the server, and back.
_NEXT = (AIR, AUTHENTICATOR, WIRE, SERVER, WIRE, AUTHENTICATOR, AIR, SUPPLICANT)
_RADIO = "auth-radio"
#: Index in that order of a capture's packets: to the server, and from it.
_PLACES: Mapping[str, tuple[int, int]] = {
    "auth-mn": (0, 7), _RADIO: (1, 6), "auth-ap": (2, 5), "auth-server": (3, 4)}
_EAPOL = ("auth-mn", _RADIO)
#: Shorter times are readings of the clock, each of which takes 5 us of virtual time.
_MIN_WAITING_S = 0.0001

#: Part, begin and end (s since the first frame).
Step = tuple[str, float, float]


def build_waterfalls(out: Path, authentications: Sequence[SupplicantTime]) -> list[list[Step]]:
    """Return the steps of every authentication in order, without a part for waiting."""
    by_capture = {name: [*_read_sights(out, name)] for name in _PLACES if _has_capture(out, name)}
    passed = sorted(chain.from_iterable(by_capture.values()))
    following = _NEXT if by_capture.get(_RADIO) else tuple(
        UNDIVIDED if part in (AIR, AUTHENTICATOR) else part for part in _NEXT)
    instants = [at_s for at_s, _ in passed]
    return [_order_steps(passed[bisect_left(instants, each.begun_s):
                                bisect_right(instants, each.ended_s)], following) for each
            in authentications]


def mean_s(every: Sequence[Sequence[Step]], part_name: str) -> float | None:
    """Return the mean time of a part over all authentications (s).

    The result is None if no authentication has the part.
    """
    if not any(part == part_name for steps in every for part, _, _ in steps):
        return None
    return fmean(sum(ended_s - begun_s for part, begun_s, ended_s in steps if part == part_name)
                 for steps in every)


def with_waiting(steps: Sequence[Step], quickest_s: Sequence[float]) -> Iterator[Step]:
    """Yield the steps, with the server's answers split into computing and waiting.

    An answer waits as much longer as it takes than the quickest of its kind.
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


def quickest_steps(every: Sequence[Sequence[Step]]) -> dict[str, list[float]]:
    """Return the quickest times of each step at server and supplicant (s), in order.

    The lists are empty without an authentication.
    """
    made = {}
    for asked in (SERVER, SUPPLICANT):
        spans = [[ended_s - begun_s for part, begun_s, ended_s in steps if part == asked]
                 for steps in every]
        made[asked] = [min(together) for together in zip(*spans, strict=False)]
    return made


def _has_capture(out: Path, name: str) -> bool:
    """Return whether the capture exists.

    Older results have none of the access point's radio.
    """
    return name != _RADIO or (out / f"{name}.pcap").exists()


def _read_sights(out: Path, name: str) -> Iterator[tuple[float, int]]:
    """Yield the time of each packet in a capture, and its index on the way."""
    there, back = _PLACES[name]
    file = out / f"{name}.pcap"
    if name in _EAPOL:
        for frame in pcap.read_frames(file):
            is_there = is_from_supplicant(frame)
            if is_there is not None:
                yield frame.at_s, there if is_there else back
    else:
        for datagram in pcap.udp_datagrams(file):
            yield datagram.at_s, there if datagram.target_port == PORT else back


def _order_steps(passed: Sequence[tuple[float, int]], following: Sequence[str]) -> list[Step]:
    ordered: list[tuple[float, int]] = []
    for _, together in groupby(passed, itemgetter(0)):
        # In virtual time, sights may have equal times. Then the place before decides their order.
        last = ordered[-1][1] if ordered else -1
        ordered += sorted(together, key=lambda sight, last=last: (  # type: ignore[misc]
            sight[1] - last - 1) % len(_NEXT))
    since_s = ordered[0][0] if ordered else 0.0
    return [(following[place], at_s - since_s, until_s - since_s)
            for (at_s, place), (until_s, _) in pairwise(ordered)]
