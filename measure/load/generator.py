"""The load generator: authentications begun on schedule, each timed from when it was due.

Nothing waits for an answer before the next one begins, so a server that stands still is seen by
all who came meanwhile. One process, all requests in flight at once. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import os
import select
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure.load import radius
from measure.load.eap_tls import EapTlsError, EapTlsPeer, context
from measure.load.schedule import ScheduledArrival

#: The source port of the first socket; the others follow. Whoever is begun on one stays there, so
#: that a capture of one port has whole authentications.
FIRST_PORT, SOCKETS = 40_000, 8
#: As hostapd does: again after 3 s, and after twice as long each time.
RETRY_S, GIVE_UP_S = 3.0, 30.0
_IDENTIFIERS = 256
_NO_WORK_S = 1.0
_CUT, _SHORT_S = 0.99, 0.001
_PR_SET_TIMERSLACK = 29


@dataclass(frozen=True)
class LoadTarget:
    """Whom to ask, and as whom."""

    server: str
    address: str
    secret: str
    pki: str
    identity: str
    version: str = "1.2"
    port: int = 1812


@dataclass(slots=True)
class LoadAttempt:
    """One authentication under way, and in the end what became of it. Times are monotonic, in s."""

    number: int
    due_s: float
    begun_s: float
    station: int
    socket: int
    #: None once it has ended: TLS takes tens of kilobytes for each.
    peer: EapTlsPeer | None
    is_resumed: bool = False
    ended_s: float = 0.0
    packets: int = 0
    retransmitted: int = 0
    reason: str = ""
    identifier: int = -1
    authenticator: bytes = b""
    sent: bytes = b""

    def row(self, since_s: float) -> list[Any]:
        """Due, late by, latency, station, socket, packets, retransmissions, resumed, reason."""
        return [round(self.due_s - since_s, 9), round(self.begun_s - self.due_s, 9),
                round(self.ended_s - self.due_s, 9), self.station, self.socket, self.packets,
                self.retransmitted, self.is_resumed, self.reason]


ROW = ("due_s", "late_s", "response_s", "station", "socket", "packets", "retransmitted", "resumed",
       "reason")


@dataclass
class _Port:
    socket: socket.socket
    free: list[int] = field(default_factory=lambda: list(range(_IDENTIFIERS)))
    waiting: dict[int, LoadAttempt] = field(default_factory=dict)


class LoadGenerator:
    """Authenticates stations with one certificate, by RADIUS, straight at the server.

    A context manager; leaving it closes its sockets.
    """

    def __init__(self, target: LoadTarget) -> None:
        self._target = target
        self._secret = target.secret.encode()
        self._tls = context(Path(target.pki), target.version)
        self._sessions: dict[int, ssl.SSLSession] = {}
        self._ports = [self._port(number) for number in range(SOCKETS)]
        self._by_descriptor = {port.socket.fileno(): port for port in self._ports}
        self._timers: list[tuple[float, int, int, LoadAttempt]] = []
        self._ended: list[LoadAttempt] = []
        self._started = self._under_way = 0
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)

    def __enter__(self) -> LoadGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        for port in self._ports:
            port.socket.close()

    def open_loop(self, arrivals: Iterator[ScheduledArrival], rate: float,
                  stop: int) -> tuple[float, list[LoadAttempt]]:
        """Begin on schedule until `stop` is readable, then see those under way to their end.

        `rate` 1 is the schedule's own; 0.5 has everything take twice as long (a negative control).
        Gives the instant it began and all attempts.
        """
        began_s, is_open = time.monotonic(), True
        self._ended = []
        coming = next(arrivals)
        while is_open or self._under_way:
            now = time.monotonic()
            due_s = began_s + coming.due_s / rate
            while is_open and due_s <= now:
                self._begin(coming, due_s, now)
                coming = next(arrivals)
                due_s = began_s + coming.due_s / rate
            until = due_s if is_open else now + _NO_WORK_S
            is_open = not self._serve(until, stop if is_open else None) and is_open
        return began_s, self._ended

    def closed_loop(self, customers: int, count: int) -> tuple[float, list[LoadAttempt]]:
        """So many authentications, `customers` of them at a time, each a full one."""
        began_s = time.monotonic()
        self._ended, begun = [], 0
        while len(self._ended) < count:
            while self._under_way < customers and begun < count:
                now = time.monotonic()
                self._begin(ScheduledArrival(0.0, begun, offers_session=False), now, now)
                begun += 1
            self._serve(time.monotonic() + _NO_WORK_S, None)
        return began_s, self._ended

    def prime(self, stations: int) -> list[LoadAttempt]:
        """Authenticate every station once, one after the other, so that each has a session."""
        _, ended = self.closed_loop(1, stations)
        return ended

    def _port(self, number: int) -> _Port:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        made.bind((self._target.address, FIRST_PORT + number))
        made.connect((self._target.server, self._target.port))
        made.settimeout(0)
        return _Port(made)

    def _begin(self, arrival: ScheduledArrival, due_s: float, now: float) -> None:
        session = self._sessions.get(arrival.station) if arrival.offers_session else None
        if session is not None and self._target.version == "1.3":
            del self._sessions[arrival.station]  # a ticket is for one use (RFC 8446, C.4)
        peer = EapTlsPeer(self._tls, self._target.identity, session)
        attempt = LoadAttempt(self._started, due_s, now, arrival.station, self._started % SOCKETS,
                              peer)
        self._started += 1
        self._under_way += 1
        self._ask(attempt, peer.identity(), b"")

    def _ask(self, attempt: LoadAttempt, eap: bytes, state: bytes) -> None:
        port = self._ports[attempt.socket]
        if not port.free:
            self._end(attempt, "no identifier is free")
            return
        # The one that was free for longest: a late answer is not taken for another's.
        attempt.identifier, attempt.authenticator = port.free.pop(0), os.urandom(16)
        attempt.sent = radius.request(
            attempt.identifier, attempt.authenticator, eap, user=self._target.identity,
            state=state, calling=f"02-00-00-00-{attempt.station >> 8:02x}-"
            f"{attempt.station & 255:02x}", nas=self._target.address, secret=self._secret)
        port.waiting[attempt.identifier] = attempt
        attempt.packets += 1
        self._send(attempt, RETRY_S)

    def _send(self, attempt: LoadAttempt, wait_s: float) -> None:
        with contextlib.suppress(OSError):  # as if it were lost: it is sent again
            self._ports[attempt.socket].socket.send(attempt.sent)
        heapq.heappush(self._timers, (time.monotonic() + wait_s, attempt.number, attempt.packets,
                                      attempt))

    def _serve(self, until: float, stop: int | None) -> bool:
        """Answer what comes until then, or until there is work; whether it is to stop."""
        if self._timers:
            until = min(until, self._timers[0][0])
        watched = [*self._by_descriptor, *([] if stop is None else [stop])]
        # Not epoll: its timeouts are whole milliseconds. The kernel lets a timeout be late by a
        # thousandth of it, so that a long one is cut short and the rest waited for anew.
        left_s = max(0.0, until - time.monotonic())
        ready, _, _ = select.select(watched, (), (), left_s * (_CUT if left_s > _SHORT_S else 1))
        for descriptor in ready:
            if descriptor != stop:
                self._receive(self._by_descriptor[descriptor])
        self._retry()
        return stop in ready

    def _receive(self, port: _Port) -> None:
        while True:
            try:
                data = port.socket.recv(4096)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                continue  # nobody listens yet, or any more
            packet = radius.parse(data)
            attempt = port.waiting.get(packet.identifier) if packet else None
            if packet and attempt and radius.is_answer(data, attempt.authenticator, self._secret):
                del port.waiting[packet.identifier]
                port.free.append(packet.identifier)
                self._answered(attempt, packet)

    def _answered(self, attempt: LoadAttempt, packet: radius.RadiusPacket) -> None:
        if packet.code != radius.CHALLENGE or attempt.peer is None:
            self._end(attempt, "" if packet.code == radius.ACCEPT else "Access-Reject")
            return
        try:
            reply = attempt.peer.answer(packet.eap)
        except EapTlsError as error:
            self._end(attempt, str(error))
            return
        self._ask(attempt, reply, packet.state)

    def _end(self, attempt: LoadAttempt, reason: str) -> None:
        attempt.ended_s, attempt.reason = time.monotonic(), reason
        if attempt.peer is not None and not reason:
            attempt.is_resumed = attempt.peer.is_resumed
            if (session := attempt.peer.session) is not None:
                self._sessions[attempt.station] = session
        attempt.peer, attempt.sent = None, b""
        self._under_way -= 1
        self._ended.append(attempt)

    def _retry(self) -> None:
        """Send again what was not answered in time, and give up on what never was."""
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, _, packets, attempt = heapq.heappop(self._timers)
            port = self._ports[attempt.socket]
            if port.waiting.get(attempt.identifier) is not attempt or attempt.packets != packets:
                continue
            if now - attempt.due_s > GIVE_UP_S:
                del port.waiting[attempt.identifier]
                port.free.append(attempt.identifier)
                self._end(attempt, "no answer")
                continue
            attempt.retransmitted += 1
            self._send(attempt, RETRY_S * 2 ** attempt.retransmitted)
