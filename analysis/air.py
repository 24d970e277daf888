"""Notes on how the medium access model (`air`: DCF or queue) affects measured numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topologies.model import DCF, QUEUE, Medium, from_json

if TYPE_CHECKING:
    from measure.manifest import Manifest


#: Reason for the differences between the two models, measured in docs/medium.md.
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


def describe_throughput_bias(air: str) -> str:
    """Return how this air changes throughput compared with the other air.

    The sentence gives measured sizes and their cause. It is "" without an air.
    """
    return _CARRIED.get(air, "")


def describe_variation(air: str) -> str:
    """Return how random backoffs of this air affect the difference of two throughputs."""
    return _VARIED.get(air, "")


def planned_air(manifest: Manifest | None) -> str:
    """Return the air of the plan's media, or "" for none or several.

    No table mixes two airs.
    """
    airs = {str(medium.get("air") or QUEUE)
            for medium in (manifest.media.values() if manifest else ())}
    return airs.pop() if len(airs) == 1 else ""


def list_biases(air: str, manifest: Manifest | None) -> Iterator[str]:
    """Yield the known errors of numbers measured with this air, with their sizes.

    Only the queue model has such errors.
    """
    if air != QUEUE:
        return
    late_ms = sorted({f"{_idle_delay_us(medium) / 1e3:.2g}" for medium in _planned_media(manifest)})
    size = f" by {' or '.join(late_ms)} ms" if late_ms else ""
    yield (f"The air served its stations by queues: a frame that found the channel idle was late"
           f"{size}, and times are too long by that for each frame on the air in them. Two hops "
           "through one access point carried too little: 5 % at 1470 bytes, 14 % at 256.")


def _idle_delay_us(medium: Medium) -> float:
    """Return the excess delay of a frame on an idle channel under the queue model.

    A real frame on an idle channel does not wait for DIFS, backoff, SIFS and acknowledgement.
    """
    return medium.airtime_us(0) - medium.latency_us(0)


def _planned_media(manifest: Manifest | None) -> Iterator[Medium]:
    """Yield the media of the plan, without those that another version of qop wrote."""
    for document in (manifest.media.values() if manifest else ()):
        try:
            yield from_json(Medium, document)
        except (TypeError, ValueError):  # written by another version of qop
            continue
