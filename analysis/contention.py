"""Contention: repetitions that waited long for the processor are counted and named."""

from __future__ import annotations

from analysis.clock import listed
from analysis.records import Frame
from analysis.results import Results, record_names


def flagged_line(results: Results) -> str:
    """A sentence on the good repetitions that are flagged; "" where none is."""
    good = results.good
    flagged = good[good["flagged"]]
    if flagged.empty:
        return ""
    single = len(flagged) == 1
    return (f"{len(flagged)} of {len(good)} good repetitions {'is' if single else 'are'} flagged, "
            f"because {'it' if single else 'they'} waited long for the processor, which makes "
            f"times longer: {listed(record_names(flagged, results.names))}. "
            f"{'It counts' if single else 'They count'} all the same{_what_next(flagged)}.")


def _what_next(flagged: Frame) -> str:
    """What can be done about them: those that were measured alone are not measured again."""
    alone, them = int(flagged["alone"].sum()), "it" if len(flagged) == 1 else "them"
    if alone == len(flagged):
        return f", and had nothing beside {them}"
    again = f"{len(flagged) - alone} of them" if alone else them
    had = f"; {alone} of them had nothing beside them" if alone else ""
    return f"{had}; the same './qop run' measures {again} again, alone"
