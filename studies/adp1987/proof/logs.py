"""Read the logs that the sending and the receiving ADP program wrote during a measurement.

`read_logs` takes the folder of one measurement (repetition) and returns `HostLogs`. They have the
times (ns) at which each message was due, taken by the sending host, sent in a datagram and
delivered. The study's checks compare them with the packet captures. ADP is the Authenticated
Datagram Protocol of 1987.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studies.adp1987.proof import decryption

#: Index of the urgency in an arrival of a phase's file.
_URGENT = 2


@dataclass(frozen=True)
class LoggedMessage:
    """A message with its times, in ns after the start of the phase.

    - `due_ns`: when its process had the message
    - `handed_ns`: when the host had taken it
    - `sent_ns`: when its datagram was given to the network
    - `delivered_ns`: when it was delivered, None if it did not arrive
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
    """A sent datagram in the sender's log.

    `bytes` is its size, `messages` the number of messages in it, `cause` why it was sent.
    """

    sent_ns: int
    bytes: int
    messages: int
    cause: str


@dataclass(frozen=True)
class LoggedPhase:
    """A phase in the logs: its messages in order, and the datagrams that carried them.

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

    - `phases`: the phases by name
    - `establishment_ns`: time to set up the channel, None if it was not measured
    - `errors`, `notes`: errors and events that the programs reported
    - `delivered`: everything that was delivered, in order: time, size, checksum, sending owner
      (user) and host
    - `arrived`, `early`, `late`: number of datagrams that arrived in all, too early and too late
      for the model of the wire
    - `secrets`: the receiver's ephemeral private keys by their public keys
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
        OSError: a host has written no log.
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
                    decryption.ephemeral_keys(received["keys"]))


def _parse_phase(phase: Mapping[str, Any], arrivals: Sequence[Any],
                 arrived: Sequence[Any]) -> LoggedPhase:
    """Return a phase of the logs.

    Args:
        phase: the sender's log of the phase.
        arrivals: messages of the trace.
        arrived: the receiver's log of delivered messages.
    """
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
