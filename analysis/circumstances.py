"""State in a report how the emulated air and the clock limit the validity of measured numbers.

The air is emulated with contention as in 802.11 (DCF), or as a plain queue. The clock says how time
passes in the virtual machine of a test network. With the real clock all waiting takes time. With
the virtual clock waiting is skipped and computing takes no time.

The functions return sentences for reports, and `stamp_table` adds them to a table. No table mixes
two clocks. `select_clock` therefore keeps the records of one clock, and names the records that it
leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analysis.table import Table
from topologies.medium_model import WITHOUT_HT
from topologies.model import DCF, QUEUE, Medium, from_json

if TYPE_CHECKING:
    from analysis.records import Frame
    from measure.records.manifest import Manifest


# --- Medium access models: DCF and queue ---

#: Reason for the differences between the two models, measured in docs/medium.md.
_BACKOFF_CAUSE = (
    "Cause: contending stations count down their backoffs at the same time. The receiver of a TCP "
    "stream contends with its acknowledgements.")
_THROUGHPUT_BIASES = {
    DCF: ("Stations contended for the air. Where they took turns (air: queue, 802.11b-short), "
          "goodput over two hops on one channel was lower by 5 % (UDP) and 6 % (TCP). Over one hop "
          f"it was equal (UDP) or lower by 1 to 3 % (TCP). {_BACKOFF_CAUSE}"),
    QUEUE: ("Stations took turns on the air. Where they contend (air: dcf, 802.11b-short), goodput "
            "over two hops on one channel is higher by 5 % (UDP) and 7 % (TCP). Over one hop it is "
            f"equal (UDP) or higher by 1 to 3 % (TCP). {_BACKOFF_CAUSE}")}
_BACKOFF_VARIATIONS = {
    DCF: ("Backoffs are drawn, so a stream of 1 MB varies by 0.4 % with 802.11b-short (by 0.1 % "
          "where stations take turns); policies are compared under the same draws."),
    QUEUE: ""}


def describe_throughput_bias(air: str) -> str:
    """Return a sentence on how the model of the air (DCF or queue) changes throughput.

    The sentence gives measured sizes and their cause. It is "" without a model.
    """
    return _THROUGHPUT_BIASES.get(air, "")


def describe_backoff_variation(air: str) -> str:
    """Return a sentence on how random backoffs affect the difference of two throughputs."""
    return _BACKOFF_VARIATIONS.get(air, "")


def planned_air(manifest: Manifest | None) -> str:
    """Return the model of the air (DCF or queue) in a plan, or "" for none or several.

    No table mixes two models.
    """
    airs = {str(medium.get("air") or QUEUE)
            for medium in (manifest.media.values() if manifest else ())}
    return airs.pop() if len(airs) == 1 else ""


def list_air_biases(air: str, manifest: Manifest | None) -> Iterator[str]:
    """Yield sentences on the known errors of numbers measured with a model of the air.

    Only the queue model has such errors.
    """
    if air != QUEUE:
        return
    late_ms = sorted({f"{_idle_delay_us(medium) / 1e3:.2g}" for medium in _planned_media(manifest)})
    size = f" by {' or '.join(late_ms)} ms" if late_ms else ""
    yield (f"The air served its stations by queues: a frame that found the channel idle was late"
           f"{size}, and times are too long by that for each frame on the air in them. Two hops "
           "through one access point carried too little: 5 % at 1470 bytes, 14 % at 256.")


def list_media_without_ht(frame: Frame, level: str) -> Iterator[str]:
    """Yield a sentence on policies whose cipher excludes the rates of HT, VHT and HE.

    Args:
        frame: The repetitions, a row each.
        level: Column of the policies.
    """
    for medium in sorted(set(frame["medium"])):
        if medium.endswith(WITHOUT_HT):
            names = ", ".join(sorted(set(frame.loc[frame["medium"] == medium, level])))
            yield (f"{names}: WEP and TKIP exclude HT, VHT and HE (IEEE 802.11-2020, 12.6.3), so "
                   f"that frames go one by one at 54 Mbit/s (medium {medium}).")


def _idle_delay_us(medium: Medium) -> float:
    """Return how much longer a frame takes on an idle channel in the queue model (us).

    A real frame on an idle channel does not wait for DIFS, backoff, SIFS and acknowledgement.
    """
    return medium.airtime_us(0) - medium.latency_us(0)


def _planned_media(manifest: Manifest | None) -> Iterator[Medium]:
    """Yield the media (802.11 timing models) of a plan that this version of qop can read."""
    for document in (manifest.media.values() if manifest else ()):
        try:
            yield from_json(Medium, document)
        except (TypeError, ValueError):  # written by another version of qop
            continue


# --- Clocks: caveats, and the choice of one clock's records ---

REAL, VIRTUAL, PROCESSOR = "real", "virtual", "processor"
#: Sentence that is shown with all numbers of the virtual clock.
VIRTUAL_CAVEAT = (
    "Virtual time: computing takes none of it (cryptography, scheduling) but what programs charge "
    "to a device; times and overheads are of air, wires and protocols.")
_CLOCK_CAVEATS = {
    VIRTUAL: VIRTUAL_CAVEAT,
    PROCESSOR: ("Processor clock: times are airtime and each node's own processor time; idle "
                "waiting is skipped. Cache effects of the host remain.")}
_MAX_NAMES = 10


def clock_caveat(clock: str) -> str:
    """Return the limitations of numbers measured with a clock, "" for none.

    For two clocks ("real, virtual"), the limitations of both are returned.
    """
    return " ".join(_CLOCK_CAVEATS[name] for name in clock.split(", ") if name in _CLOCK_CAVEATS)


def strip_caveats(text: str) -> str:
    """Return a text without the limitations of clocks, for pages that state them once."""
    for caveat in _CLOCK_CAVEATS.values():
        text = text.replace(caveat, "").strip()
    return text


def select_clock(frame: Frame, planned: str, naming: Callable[[Frame], Sequence[str]], *,
                 column: str = "clock") -> tuple[Frame, str]:
    """Return the repetitions of one clock, and a line that names the records left out.

    The clock is that of the plan if any record has it, and else that of most records. If two clocks
    have equally many records, the real clock is chosen.

    Args:
        frame: The repetitions, a row each.
        planned: The plan's clock, or its value of `column`.
        naming: Returns the names of the records of some rows.
        column: The column that separates the records. In other columns than `clock`, an empty value
            fits every choice.

    Returns:
        The chosen rows, and the line; "" where no record is left out.
    """
    counts = frame[column].value_counts().to_dict()
    silent = column != "clock" and counts.pop("", 0)
    if len(counts) < 2:
        return frame, ""
    chosen = planned if planned in counts else max(
        counts, key=lambda value: (counts[value], value == REAL, value))
    is_chosen = frame[column].isin([chosen, ""] if silent else [chosen])
    others = frame[~is_chosen]
    values = ", ".join(sorted({value or "not recorded" for value in others[column]}))
    return frame[is_chosen], (
        f"{len(others)} {'record is' if len(others) == 1 else 'records are'} of another {column} "
        f"({values}) and left out, because no table mixes {column}s; those of the "
        f"{chosen or 'unrecorded'} {column} are shown, and './qop compare' shows both from folders "
        f"of their own. Left out: {list_names(naming(others))}.")


def list_names(names: Sequence[str]) -> str:
    """Return the names of records as one text, with at most ten names."""
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def stamp_table(table: Table, clock: str, notes: Sequence[str] = ()) -> Table:
    """Return a copy of a table that states its clock, the clock's limitations and more notes.

    The limitations are added to the caption.
    """
    caption = " ".join(part for part in (table.caption, clock_caveat(clock)) if part)
    return replace(table, clock=clock, caption=caption, notes=(*table.notes, *notes))
