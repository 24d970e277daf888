"""Phases over the air as both ends logged them: which messages arrived, and which did not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studies.adp1987 import authenticated
from studies.adp1987.payload import Payload


@dataclass(frozen=True)
class AirPhase:
    """A phase: messages (time, bytes, urgent), when each was due, and when it came or None."""

    arrivals: Sequence[Any]
    due_ns: Sequence[int]
    delivered_ns: Sequence[int | None]

    @property
    def lost(self) -> list[int]:
        """Numbers of the messages that did not arrive."""
        return [number for number, at_ns in enumerate(self.delivered_ns) if at_ns is None]

    @property
    def waits_s(self) -> list[float]:
        """Latencies of urgent messages that arrived."""
        return [(at_ns - due) / 1e9 for (_, _, urgent), due, at_ns in zip(
            self.arrivals, self.due_ns, self.delivered_ns, strict=True)
            if urgent and at_ns is not None]


@dataclass(frozen=True)
class AirPhases:
    """All phases; `wrong` messages arrived that were not handed over in this order.

    `secrets` are the receiving program's ephemeral keys; `latency_s` is when the second phase
    began, by the wall clock.
    """

    by_name: Mapping[str, AirPhase]
    wrong: int
    secrets: Mapping[bytes, bytes] = field(repr=False)
    latency_s: float

    @property
    def count(self) -> int:
        """Messages that were handed over."""
        return sum(len(phase.arrivals) for phase in self.by_name.values())

    @property
    def user_bytes(self) -> int:
        """Their bytes."""
        return sum(size for phase in self.by_name.values() for _, size, _ in phase.arrivals)


def read(out: Path, raw: Mapping[str, Any], payload: Payload) -> AirPhases:
    """What both programs wrote down. Raises OSError, ValueError."""
    source, sink = (json.loads(gzip.decompress((out / f"{role}.json.gz").read_bytes()))
                    for role in ("source", "sink"))
    made, wrong, begins = {}, 0, 0
    for name, logged in source["phases"].items():
        arrivals = json.loads((out / f"{name}.json").read_text())["messages"]
        ends = sink["ends"][name]
        delivered, strange = _placed(sink["delivered"][begins:ends], arrivals, payload)
        made[name] = AirPhase(arrivals, logged["due_ns"], delivered)
        wrong += strange
        begins = ends
    wrong += len(sink["delivered"]) - begins
    return AirPhases(made, wrong, authenticated.ephemeral(sink["keys"]), raw["stamps"]["latency"])


def _placed(delivered: Sequence[Sequence[int]], arrivals: Sequence[Any],
            payload: Payload) -> tuple[list[int | None], int]:
    """When each message of a trace came; and how many came that fit no message from there on.

    Order is kept on the way, so that each is the next of its size and content.
    """
    places: list[int | None] = [None] * len(arrivals)
    number = strange = 0
    for at_ns, size, checksum in delivered:
        following = (place for place in range(number, len(arrivals))
                     if arrivals[place][1] == size and payload.checksum(place, size) == checksum)
        place = next(following, None)
        if place is None:
            strange += 1
        else:
            places[place] = at_ns
            number = place + 1
    return places, strange
