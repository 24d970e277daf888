"""A crowd is all stations of a cell sending all the time: who gets how many frames through.

By sockets of one process in all stations' namespaces: fifty programs would take more of a small
machine than the air does.
"""

from __future__ import annotations

import contextlib
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from topologies.model import STATION
from topologies.namespaces import network_of

if TYPE_CHECKING:  # Mininet is on machines only
    from measure.air import Trial

_PORT = 5201
# Queues hold 50 frames; what does not fit is lost, and nobody waits for it.
_BURST_FRAMES = 25
_SETTLE_S = 1.0
_RESOLVE_S = 0.05


def load(trial: Trial, channel: int, payload_bytes: int, seconds: float,
         pause_s: float) -> dict[str, Any]:
    """Datagrams from every station to its agent; frames a second by the number of its class.

    Each sends half a queue of them, and again after a pause.
    """
    nodes, testbed = trial.network.nodes, trial.testbed
    stations = trial.network.of_duty(STATION)
    with ExitStack() as stack:
        for agent in {nodes[name].agent for name in stations}:
            # Never read: what comes is dropped there, and nobody says that nobody listens.
            sink = stack.enter_context(_socket(testbed.node(str(agent)).pid))
            sink.bind(("", _PORT))
        senders = [stack.enter_context(_socket(testbed.node(name).pid)) for name in stations]
        for sender, name in zip(senders, stations, strict=True):
            sender.connect((nodes[name].gateway, _PORT))
            # Its agent's address has to be resolved while there is room on the air.
            sender.send(b"")
            time.sleep(_RESOLVE_S)
        _send(senders, payload_bytes, _SETTLE_S, pause_s)
        begun, begun_s = trial.queued(channel), time.monotonic()
        _send(senders, payload_bytes, seconds, pause_s)
        ended, ended_s = trial.queued(channel), time.monotonic()
    return {number: (count - begun[number]) / (ended_s - begun_s)
            for number, count in ended.items()}


def _send(senders: list[socket.socket], payload_bytes: int, seconds: float,
          pause_s: float) -> None:
    datagram, end = bytes(payload_bytes), time.monotonic() + seconds
    while time.monotonic() < end:
        for sender in senders:
            with contextlib.suppress(BlockingIOError):
                for _ in range(_BURST_FRAMES):
                    sender.send(datagram)
        time.sleep(pause_s)


def _socket(pid: int) -> socket.socket:
    """A datagram socket in a process's network namespace."""
    with network_of(pid):
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
