"""An air says who let stations take turns, 802.11's DCF or a queue: no table mixes two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topologies.model import QUEUE

if TYPE_CHECKING:
    from measure.manifest import Manifest


def planned_air(manifest: Manifest | None) -> str:
    """The air of the plan's media; "" where it has none, or several."""
    airs = {str(medium.get("air") or QUEUE)
            for medium in (manifest.media.values() if manifest else ())}
    return airs.pop() if len(airs) == 1 else ""
