"""An air says who let stations take turns, DCF or a queue; and what that makes of the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topologies.model import DCF, QUEUE, Medium, from_json

if TYPE_CHECKING:
    from measure.manifest import Manifest


#: As measured (docs/medium.md).
_WHY = ("two that wait count their slots down together, and do not pay for them one after the "
        "other; TCP's acknowledgements are such, too")
_CARRIED = {
    DCF: ("Stations contended for the air. Where they took turns (air: queue, 802.11b-short), what "
          "crosses one channel twice came to 5 % less of UDP and 6 % of TCP, and what crosses it "
          f"once to as much UDP and 1 to 3 % less TCP: {_WHY}."),
    QUEUE: ("Stations took turns on the air. Where they contend (air: dcf, 802.11b-short), what "
            "crosses one channel twice comes to 5 % more of UDP and 7 % of TCP, and what crosses "
            f"it once to as much UDP and 1 to 3 % more TCP: {_WHY}.")}
_VARIED = {
    DCF: ("Backoffs are drawn, so a stream of 1 MB varies by 0.4 % with 802.11b-short (by 0.1 % "
          "where stations take turns); policies are compared under the same draws."),
    QUEUE: ""}


def carried(air: str) -> str:
    """What the air makes of a throughput, against the other one, and why; "" without an air."""
    return _CARRIED.get(air, "")


def varied(air: str) -> str:
    """What it makes of a difference of two throughputs, besides."""
    return _VARIED.get(air, "")


def planned_air(manifest: Manifest | None) -> str:
    """The air of the plan's media; "" where it has none, or several. No table mixes two."""
    airs = {str(medium.get("air") or QUEUE)
            for medium in (manifest.media.values() if manifest else ())}
    return airs.pop() if len(airs) == 1 else ""


def biases(air: str, manifest: Manifest | None) -> Iterator[str]:
    """What is known to be wrong with numbers of this air, with its size: nothing but for queues."""
    if air != QUEUE:
        return
    late_ms = sorted({f"{_late_us(medium) / 1e3:.2g}" for medium in _media(manifest)})
    size = f" by {' or '.join(late_ms)} ms" if late_ms else ""
    yield (f"The air served its stations by queues: a frame that found the channel idle was late"
           f"{size}, and times are too long by that for each frame on the air in them. Two hops "
           "through one access point carried too little: 5 % at 1470 bytes, 14 % at 256.")


def _late_us(medium: Medium) -> float:
    """What a lone frame waited for and would not have to: DIFS, backoff, SIFS, acknowledgement."""
    return medium.airtime_us(0) - medium.latency_us(0)


def _media(manifest: Manifest | None) -> Iterator[Medium]:
    for document in (manifest.media.values() if manifest else ()):
        try:
            yield from_json(Medium, document)
        except (TypeError, ValueError):  # of another version
            continue
