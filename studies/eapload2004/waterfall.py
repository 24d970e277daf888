"""Where an authentication's time goes, step by step, by what four captures saw of it.

The access point's own part is between its side of the air (`radio_side`) and the wire behind it. In
virtual time, where it computes for nothing, that is some readings of the clock. Repetitions without
that capture, as there were before it, have one part for air and access point.
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
#: Of the air and the access point together, where nobody looked between them.
UNDIVIDED = "air and access point"
UNDIVIDED_PARTS = (SUPPLICANT, UNDIVIDED, WIRE, SERVER, WAITING)
#: All that a record may name, in the order in which they are drawn.
DRAWN = (SUPPLICANT, AIR, UNDIVIDED, AUTHENTICATOR, WIRE, SERVER, WAITING)
#: Who has it next, once a packet was seen, in the order in which it passes: at the supplicant, at
#: the access point's radio, behind it, at the server, and back.
_NEXT = (AIR, AUTHENTICATOR, WIRE, SERVER, WIRE, AUTHENTICATOR, AIR, SUPPLICANT)
_RADIO = "auth-radio"
#: The places of a capture's packets in that order: to the server, and from it.
_PLACES: Mapping[str, tuple[int, int]] = {
    "auth-mn": (0, 7), _RADIO: (1, 6), "auth-ap": (2, 5), "auth-server": (3, 4)}
_EAPOL = ("auth-mn", _RADIO)
#: What is shorter are readings of the clock, of which each takes 5 us of virtual time.
_MIN_WAITING_S = 0.0001

#: Part, when it begins and when it ends, in seconds since the first frame.
Step = tuple[str, float, float]


def waterfalls(out: Path, seen: Sequence[SupplicantTime]) -> list[list[Step]]:
    """The steps of every authentication in order; what waits at the server is no part yet."""
    by_capture = {name: [*_sights(out, name)] for name in _PLACES if _is_there(out, name)}
    passed = sorted(chain.from_iterable(by_capture.values()))
    following = _NEXT if by_capture.get(_RADIO) else tuple(
        UNDIVIDED if part in (AIR, AUTHENTICATOR) else part for part in _NEXT)
    instants = [at_s for at_s, _ in passed]
    return [_steps(passed[bisect_left(instants, each.begun_s):
                          bisect_right(instants, each.ended_s)], following) for each in seen]


def mean_s(every: Sequence[Sequence[Step]], asked: str) -> float | None:
    """What a part takes of an authentication, all of its steps; None where none has it."""
    if not any(part == asked for steps in every for part, _, _ in steps):
        return None
    return fmean(sum(ended_s - begun_s for part, begun_s, ended_s in steps if part == asked)
                 for steps in every)


def with_waiting(steps: Sequence[Step], quickest_s: Sequence[float]) -> Iterator[Step]:
    """The same, with what each of the server's answers took longer than the quickest of them."""
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


def demands(every: Sequence[Sequence[Step]]) -> dict[str, list[float]]:
    """What each step takes the server and the supplicant when nobody else is there.

    Seconds of the first, second and so on, at their quickest; empty without any authentication.
    """
    made = {}
    for asked in (SERVER, SUPPLICANT):
        spans = [[ended_s - begun_s for part, begun_s, ended_s in steps if part == asked]
                 for steps in every]
        made[asked] = [min(together) for together in zip(*spans, strict=False)]
    return made


def _is_there(out: Path, name: str) -> bool:
    """Whether there is such a capture: of the access point's radio, there was none once."""
    return name != _RADIO or (out / f"{name}.pcap").exists()


def _sights(out: Path, name: str) -> Iterator[tuple[float, int]]:
    """When a capture saw a packet, and where that is on its way."""
    there, back = _PLACES[name]
    file = out / f"{name}.pcap"
    if name in _EAPOL:
        for frame in pcap.frames(file):
            is_there = is_from_supplicant(frame)
            if is_there is not None:
                yield frame.at_s, there if is_there else back
    else:
        for datagram in pcap.datagrams(file):
            yield datagram.at_s, there if datagram.target_port == PORT else back


def _steps(passed: Sequence[tuple[float, int]], following: Sequence[str]) -> list[Step]:
    ordered: list[tuple[float, int]] = []
    for _, together in groupby(passed, itemgetter(0)):
        # Computing may take no time: then it is where it was last that says which was first.
        last = ordered[-1][1] if ordered else -1
        ordered += sorted(together, key=lambda sight, last=last: (  # type: ignore[misc]
            sight[1] - last - 1) % len(_NEXT))
    since_s = ordered[0][0] if ordered else 0.0
    return [(following[place], at_s - since_s, until_s - since_s)
            for (at_s, place), (until_s, _) in pairwise(ordered)]
