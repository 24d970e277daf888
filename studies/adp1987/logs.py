"""Read the hosts' logs: when each message was taken, shipped and delivered."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studies.adp1987 import authenticated

#: Index of the urgency in an arrival of a phase's file.
_URGENT = 2


@dataclass(frozen=True)
class LoggedMessage:
    """A user message with its times in ns after the phase's start.

    `due_ns` is when its process had the message, `handed_ns` when the host had taken it, `sent_ns`
    when its ADP message was handed to the network. `delivered_ns` is None if the message did not
    arrive.
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
    """A sent ADP message in the sender's log.

    `bytes` is its size, `messages` the number of its user messages, `cause` why it was sent.
    """

    sent_ns: int
    bytes: int
    messages: int
    cause: str


@dataclass(frozen=True)
class LoggedPhase:
    """A phase with its user messages in order and its ADP messages.

    `busy_ns` is the time in which the sender's processor was busy, `lasted_ns` the duration.
    """

    messages: tuple[LoggedMessage, ...]
    shipments: tuple[LoggedShipment, ...]
    busy_ns: int
    lasted_ns: int

    @property
    def user_bytes(self) -> int:
        """Return the bytes of user data in the phase."""
        return sum(message.bytes for message in self.messages)


@dataclass(frozen=True)
class HostLogs:
    """The logs of both hosts.

    `delivered` lists everything that was delivered, in order: time, size, checksum, owner and host.
    `secrets` holds the receiver's ephemeral private keys by their public keys.
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


def read_logs(out: Path) -> HostLogs:
    """Read the logs in a repetition's folder.

    Raises:
        OSError: A host has written no log.
    """
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
        phases[name] = _parse_phase(phase, arrivals, arrived)
    arrived, early, late = (sent["off_time"][side] + received["off_time"][side]
                            for side in ("arrived", "early", "late"))
    return HostLogs(phases, sent.get("establishment_ns"), sent["errors"], received["notes"],
                    delivered, arrived, early, late,
                    authenticated.ephemeral_keys(received["keys"]))


def _parse_phase(phase: Mapping[str, Any], arrivals: Sequence[Any],
                 arrived: Sequence[Any]) -> LoggedPhase:
    shipments = tuple(LoggedShipment(*entry) for entry in phase["shipped"])
    sent_ns = [shipment.sent_ns for shipment in shipments for _ in range(shipment.messages)]
    # The channel keeps the order. If a message is lost, messages without a counterpart count as not
    # arrived.
    rows = itertools.zip_longest(zip(arrivals, phase["handed_ns"], sent_ns, strict=False), arrived)
    messages = tuple(
        LoggedMessage(handed[0], handed[1], at_ns,
                      got[0] - phase["start_ns"] if got else None, arrival[1], arrival[_URGENT],
                      got[2] if got else None)
        for (arrival, handed, at_ns), got in (row for row in rows if row[0] is not None))
    return LoggedPhase(messages, shipments, phase["busy_ns"], phase["lasted_ns"])
