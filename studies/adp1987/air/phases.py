"""Phases on the air in the logs of both ends, with arrived and lost messages."""

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
    """A phase with its messages and the times at which each was due and delivered.

    A message has time (s), bytes and urgency. `delivered_ns` is None for a message that did not
    arrive.
    """

    arrivals: Sequence[Any]
    due_ns: Sequence[int]
    delivered_ns: Sequence[int | None]

    @property
    def lost_messages(self) -> list[int]:
        """Return the numbers of the messages that did not arrive."""
        return [number for number, at_ns in enumerate(self.delivered_ns) if at_ns is None]

    @property
    def waits_s(self) -> list[float]:
        """Return the latencies of urgent messages that arrived (s)."""
        return [(at_ns - due) / 1e9 for (_, _, urgent), due, at_ns in zip(
            self.arrivals, self.due_ns, self.delivered_ns, strict=True)
            if urgent and at_ns is not None]


@dataclass(frozen=True)
class AirPhases:
    """All phases of a repetition.

    `wrong` counts arrived messages that were not sent in this order. `secrets` holds the receiver's
    ephemeral private keys by their public keys. `latency_s` is the wall-clock time at which the
    second phase began (s).
    """

    by_name: Mapping[str, AirPhase]
    wrong: int
    secrets: Mapping[bytes, bytes] = field(repr=False)
    latency_s: float

    @property
    def message_count(self) -> int:
        """Return the number of messages that were sent."""
        return sum(len(phase.arrivals) for phase in self.by_name.values())

    @property
    def user_bytes(self) -> int:
        """Return the bytes of user data that were sent."""
        return sum(size for phase in self.by_name.values() for _, size, _ in phase.arrivals)


def read_phases(out: Path, raw: Mapping[str, Any], payload: Payload) -> AirPhases:
    """Read the logs of both programs.

    Raises:
        OSError: A program has written no log.
        ValueError: A log is not valid JSON.
    """
    source, sink = (json.loads(gzip.decompress((out / f"{role}.json.gz").read_bytes()))
                    for role in ("source", "sink"))
    made, wrong, begins = {}, 0, 0
    for name, logged in source["phases"].items():
        arrivals = json.loads((out / f"{name}.json").read_text())["messages"]
        ends = sink["ends"][name]
        delivered, strange = _match_deliveries(sink["delivered"][begins:ends], arrivals, payload)
        made[name] = AirPhase(arrivals, logged["due_ns"], delivered)
        wrong += strange
        begins = ends
    wrong += len(sink["delivered"]) - begins
    return AirPhases(made, wrong, authenticated.ephemeral_keys(sink["keys"]),
                     raw["stamps"]["latency"])


def _match_deliveries(delivered: Sequence[Sequence[int]], arrivals: Sequence[Any],
                      payload: Payload) -> tuple[list[int | None], int]:
    """Return when each message of a trace arrived, and how many match no later message.

    The order is kept on the way, so each delivery is the next message of its size and content.
    """
    places: list[int | None] = [None] * len(arrivals)
    number = strange = 0
    for at_ns, size, checksum in delivered:
        following = (place for place in range(number, len(arrivals))
                     if arrivals[place][1] == size and payload.message_checksum(place, size)
                     == checksum)
        place = next(following, None)
        if place is None:
            strange += 1
        else:
            places[place] = at_ns
            number = place + 1
    return places, strange
