"""The hosts' logs of a repetition: when each message was handed over, shipped and delivered."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studies.adp1987 import authenticated

#: Arrivals of a phase, as its file has them.
_URGENT = 2


@dataclass(frozen=True)
class LoggedMessage:
    """A user message; times in ns after the phase's start, None where it did not arrive.

    `due_ns` is when its process had it, `handed_ns` when the host had taken it, `sent_ns` when the
    ADP message with it went to the network.
    """

    due_ns: int
    handed_ns: int
    sent_ns: int
    delivered_ns: int | None
    bytes: int
    urgent: bool
    checksum: int | None


@dataclass(frozen=True)
class LoggedShipment:
    """An ADP message as its sender logged it: its size, how many messages, and what set it off."""

    sent_ns: int
    bytes: int
    messages: int
    cause: str


@dataclass(frozen=True)
class LoggedPhase:
    """One phase: its messages in order, its ADP messages, and the sender's processor."""

    messages: tuple[LoggedMessage, ...]
    shipments: tuple[LoggedShipment, ...]
    busy_ns: int
    lasted_ns: int

    @property
    def user_bytes(self) -> int:
        """What the phase carried."""
        return sum(message.bytes for message in self.messages)


@dataclass(frozen=True)
class HostLogs:
    """Both hosts' logs. `delivered` are checksums, in order, of everything that was delivered.

    `secrets` are the receiver's ephemeral private keys by their public halves.
    """

    phases: Mapping[str, LoggedPhase]
    establishment_ns: int | None
    errors: Sequence[Any]
    notes: Sequence[Any]
    delivered: Sequence[tuple[int, int, int, str, str]]
    arrived: int
    early: int
    late: int
    secrets: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)


def read(out: Path) -> HostLogs:
    """The logs in a repetition's folder. Raises OSError where a host wrote none."""
    sent = json.loads(gzip.decompress((out / "sender.json.gz").read_bytes()))
    received = json.loads(gzip.decompress((out / "receiver.json.gz").read_bytes()))
    delivered = [tuple(entry) for entry in received["delivered"]]
    phases = {}
    for name, phase in sent["phases"].items():
        begins = phase["start_ns"]
        following = [other["start_ns"] for other in sent["phases"].values()
                     if other["start_ns"] > begins]
        ends = min(following, default=float("inf"))
        arrived = [entry for entry in delivered if begins <= entry[0] < ends]
        arrivals = json.loads((out / f"{name}.json").read_text())["messages"]
        phases[name] = _phase(phase, arrivals, arrived)
    arrived, early, late = (sent["off_time"][side] + received["off_time"][side]
                            for side in ("arrived", "early", "late"))
    return HostLogs(phases, sent.get("establishment_ns"), sent["errors"], received["notes"],
                    delivered, arrived, early, late,
                    authenticated.ephemeral(received["keys"]))


def _phase(phase: Mapping[str, Any], arrivals: Sequence[Any],
           arrived: Sequence[Any]) -> LoggedPhase:
    shipments = tuple(LoggedShipment(*entry) for entry in phase["shipped"])
    sent_ns = [shipment.sent_ns for shipment in shipments for _ in range(shipment.messages)]
    # The channel keeps the order; where something is lost, what follows does not count as arrived.
    rows = itertools.zip_longest(zip(arrivals, phase["handed_ns"], sent_ns, strict=False), arrived)
    messages = tuple(
        LoggedMessage(handed[0], handed[1], at_ns,
                      got[0] - phase["start_ns"] if got else None, arrival[1], arrival[_URGENT],
                      got[2] if got else None)
        for (arrival, handed, at_ns), got in (row for row in rows if row[0] is not None))
    return LoggedPhase(messages, shipments, phase["busy_ns"], phase["lasted_ns"])
