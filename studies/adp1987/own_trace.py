"""Size and duration of a user's own trace in a repetition, also as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from studies import mobile
from studies.adp1987.asked import Asked
from studies.adp1987.design import REAL_TIME
from studies.study import Cell, StudyError

#: Messages of a trace: time at which the process has it (s), bytes, urgency.
Arrivals = Sequence[tuple[float, int, bool]]
_DAY_S = 86_400
#: Longest trace in its own time (s). A guest needs 65 s for 30 days on wires, where nothing else
#: happens. One day on the air, with its beacons, takes five minutes.
_LONGEST_S = {"wires": 30 * _DAY_S, "air": _DAY_S, REAL_TIME: _DAY_S}
#: Processor seconds per second of skipped waiting, measured with pauses of 90 s and 6 h on a
#: processor of 2023.
_SKIPPED_S = {"wires": 2.5e-5, "air": 3.5e-3, REAL_TIME: 5e-4}


def select_messages(cell: Cell, settings: Asked) -> Arrivals:
    """Return the messages of a cell's own trace that a repetition sends.

    The result is empty without an own trace.
    """
    own: Arrivals = cell.value("trace") or ()
    return own[:settings.messages]


def count_messages(cell: Cell, settings: Asked) -> int:
    """Return the largest number of messages in a phase of a cell."""
    return len(select_messages(cell, settings)) or settings.messages


def paced_s(cell: Cell, settings: Asked) -> float:
    """Return the duration of an own trace in its own time, over all phases (s)."""
    messages = select_messages(cell, settings)
    phases = (settings.proof_messages, _paced_count(cell, settings))
    return sum(messages[:phase][-1][0] for phase in phases) if messages else 0.0


def skipped_s(cell: Cell, settings: Asked) -> float:
    """Return the processor time (s) for `paced_s` where waiting is skipped."""
    return paced_s(cell, settings) * _SKIPPED_S[_network_kind(cell)]


def check_duration(cell: Cell, settings: Asked) -> None:
    """Raise StudyError for an own trace that takes longer than a repetition can."""
    messages = select_messages(cell, settings)[:max(settings.proof_messages,
                                                    _paced_count(cell, settings))]
    longest_s = _LONGEST_S[_network_kind(cell)]
    if messages and messages[-1][0] > longest_s:
        number, pause_s = _longest_pause(messages)
        raise StudyError(
            f"--trace {cell.ids['trace']}: lasts {_format_duration(messages[-1][0])} in its own "
            "time, more "
            f"than the {_format_duration(longest_s)} that a repetition may take (message {number} "
            "comes "
            f"{_format_duration(pause_s)} after the one before); take a part of it with editcap -r")


def describe_traces(cells: Sequence[Cell], settings: Asked) -> Iterator[str]:
    """Yield a line of text for each own trace.

    It states messages, sizes, duration, pauses and urgent share.
    """
    for cell in {cell.ids["trace"]: cell for cell in cells}.values():
        messages = select_messages(cell, settings)
        if messages:
            yield f"Trace {cell.ids['trace']}: {_describe_trace(cell, messages)}"


def _describe_trace(cell: Cell, messages: Arrivals) -> str:
    content = cell.levels["trace"].content
    there, ends = content["messages"], content["ends"]
    sizes = [size for _, size, _ in messages]
    _, pause_s = _longest_pause(messages)
    urgent = sum(is_urgent for *_, is_urgent in messages)
    taken_of = f"the first {len(messages)} of {there} messages (--messages takes up to 10000)" \
        if len(messages) < there else f"{there} messages"
    parts = [taken_of, f"{min(sizes)} to {max(sizes)} bytes (mean {fmean(sizes):.0f})"
             if min(sizes) < max(sizes) else f"{sizes[0]} bytes each",
             (f"{_format_duration(messages[-1][0])} long with pauses of up to "
              f"{_format_duration(pause_s)}"),
             f"{urgent / len(messages):.1%} urgent".replace("%", " %") if urgent else
             "none urgent, so without latency"]
    parts += [f"the capture is {ends} and is used up to there"] if ends else []
    return "; ".join(parts)


def _longest_pause(messages: Arrivals) -> tuple[int, float]:
    """Return the number of the message after the longest pause, and that pause (s)."""
    pauses = [after - before for (before, *_), (after, *_) in pairwise(messages)]
    longest_s = max(pauses, default=0.0)
    return (pauses.index(longest_s) + 2 if pauses else 1), longest_s


def _network_kind(cell: Cell) -> str:
    if mobile.is_on_air(cell):
        return "air"
    return REAL_TIME if cell.ids["technology"] == REAL_TIME else "wires"


def _paced_count(cell: Cell, settings: Asked) -> int:
    """Return the number of messages in the phase with the trace's own time."""
    return settings.messages if _network_kind(cell) == "wires" else settings.paced_messages


def _format_duration(seconds: float) -> str:
    """Return a time as text, such as `2.5 ms`, `3 h` or `200 days`."""
    for unit_s, unit in ((_DAY_S, "days"), (3600, "h"), (60, "min"), (0.5, "s")):
        if seconds >= 2 * unit_s:
            return f"{seconds / max(1, unit_s):.3g} {unit}"
    return f"{seconds * 1e3:.3g} ms"
