"""Repetitions in which the processor, not the air, may have been the limit: counted and named."""

from __future__ import annotations

from analysis.frame import Frame, Results
from analysis.one_clock import listed


def flagged_line(results: Results) -> str:
    """A sentence on the good repetitions that are flagged; "" where none is."""
    good = results.good
    found = good[good["flagged"]]
    if found.empty:
        return ""
    one = len(found) == 1
    return (f"{len(found)} of {len(good)} good repetitions {'is' if one else 'are'} flagged, "
            f"because {'it' if one else 'they'} waited long for the processor, which makes times "
            f"longer: {listed(found)}. {'It counts' if one else 'They count'} all the same"
            f"{_what_next(found)}.")


def _what_next(found: Frame) -> str:
    """What can be done about them: those that were measured alone are not measured again."""
    alone, them = int(found["alone"].sum()), "it" if len(found) == 1 else "them"
    if alone == len(found):
        return f", and had nothing beside {them}"
    again = f"{len(found) - alone} of them" if alone else them
    had = f"; {alone} of them had nothing beside them" if alone else ""
    return f"{had}; the same './qop run' measures {again} again, alone"
