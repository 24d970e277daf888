"""An air says who let stations take turns, DCF or a queue; what a queue gets wrong is said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topologies.model import QUEUE, Medium, from_json

if TYPE_CHECKING:
    from measure.manifest import Manifest


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
