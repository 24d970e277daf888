"""Notes on flagged repetitions, which a busy processor or a retransmission disturbed."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.clock import list_names
from analysis.records import Frame
from analysis.results import Results, record_names
from measure.record import FLAGS


def contention_lines(results: Results) -> Iterator[str]:
    """Yield notes on flagged repetitions and on those that were measured again.

    A repeated repetition has the block's number, but was not measured at the time of its block.
    """
    if line := flagged_line(results):
        yield line
    good = results.good
    again = good[good["alone"]]
    if not again.empty:
        names = list_names(record_names(again, results.names))
        yield (f"{len(again)} of {len(good)} good repetitions were measured once more because they "
               "had been flagged: later than the rest of their block, and with nothing beside "
               f"them. Differences take them for parts of it: {names}.")


def flagged_line(results: Results) -> str:
    """Return a sentence on the good repetitions that are flagged, or "" without any."""
    good = results.good
    flagged = good[good["flagged"]]
    if flagged.empty:
        return ""
    single = len(flagged) == 1
    return (f"{len(flagged)} of {len(good)} good repetitions {'is' if single else 'are'} flagged, "
            f"because {'it' if single else 'they'} {_describe_causes(flagged)}, which makes "
            f"times longer: {list_names(record_names(flagged, results.names))}. "
            f"{'It counts' if single else 'They count'} all the same{_describe_remedy(flagged)}.")


def _describe_causes(flagged: Frame) -> str:
    """Return the causes of the flags, joined by "or"."""
    words = {word for said in flagged["flags"] for word in said.split()}
    return " or ".join(text for word, text in FLAGS.items() if word in words) or FLAGS["processor"]


def _describe_remedy(flagged: Frame) -> str:
    """Return the way to replace flagged repetitions by measuring them again alone.

    Repetitions that were already measured alone are not measured again.
    """
    alone, them = int(flagged["alone"].sum()), "it" if len(flagged) == 1 else "them"
    if alone == len(flagged):
        return f", and had nothing beside {them}"
    again = f"{len(flagged) - alone} of them" if alone else them
    had = f"; {alone} of them had nothing beside them" if alone else ""
    return f"{had}; the same './qop run' measures {again} again, alone"
