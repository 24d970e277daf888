"""Let all stations of a cell send all the time and count each one's frames.

One process has sockets in all stations' namespaces. Fifty programs would need more of a small
machine than the emulated air does.
"""

from __future__ import annotations

import contextlib
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from topologies.model import STATION
from topologies.namespaces import network_of

if TYPE_CHECKING:  # Mininet exists on machines only
    from measure.air import Trial

_PORT = 5201
# Queues hold 50 frames. A frame beyond that is dropped, and no sender waits.
_BURST_FRAMES = 25
_SETTLE_S = 1.0
_RESOLVE_S = 0.05


def send_from_all(trial: Trial, channel: int, payload_bytes: int, seconds: float,
                  pause_s: float) -> dict[str, Any]:
    """Send datagrams from every station to its agent.

    Each station sends a burst of half a queue, and repeats it after a pause.

    Args:
        trial: The running network.
        channel: Channel on which frames are counted.
        payload_bytes: Payload of a datagram in bytes.
        seconds: Time of counting in s.
        pause_s: Pause between bursts in s.

    Returns:
        Frames per second by the number of the transmitter's traffic class.
    """
    nodes, testbed = trial.network.nodes, trial.testbed
    stations = trial.network.of_duty(STATION)
    with ExitStack() as stack:
        for agent in {nodes[name].agent for name in stations}:
            # Never read: the kernel drops further datagrams, and sends no ICMP port unreachable.
            sink = stack.enter_context(_open_socket(testbed.node(str(agent)).pid))
            sink.bind(("", _PORT))
        senders = [stack.enter_context(_open_socket(testbed.node(name).pid)) for name in stations]
        for sender, name in zip(senders, stations, strict=True):
            sender.connect((nodes[name].gateway, _PORT))
            # Resolve the agent's address while the air has room.
            sender.send(b"")
            time.sleep(_RESOLVE_S)
        _send_bursts(senders, payload_bytes, _SETTLE_S, pause_s)
        begun, begun_s = trial.count_frames(channel), time.monotonic()
        _send_bursts(senders, payload_bytes, seconds, pause_s)
        ended, ended_s = trial.count_frames(channel), time.monotonic()
    return {number: (count - begun[number]) / (ended_s - begun_s)
            for number, count in ended.items()}


def _send_bursts(senders: list[socket.socket], payload_bytes: int, seconds: float,
                 pause_s: float) -> None:
    datagram, end = bytes(payload_bytes), time.monotonic() + seconds
    while time.monotonic() < end:
        for sender in senders:
            with contextlib.suppress(BlockingIOError):
                for _ in range(_BURST_FRAMES):
                    sender.send(datagram)
        time.sleep(pause_s)


def _open_socket(pid: int) -> socket.socket:
    """Return a datagram socket in a process's network namespace."""
    with network_of(pid):
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
