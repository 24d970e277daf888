"""The load generator: authentications begun on schedule, each timed from when it was due.

Nothing waits for an answer before the next one begins, so a server that stands still is seen by
all who came meanwhile. One process, all requests in flight at once. Standard library only.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure.load import radius
from measure.load.eap_tls import EapTlsError, EapTlsPeer, context
from measure.load.instants import AHEAD_S, REAL_AHEAD_S, InstantTimer
from measure.load.schedule import ScheduledArrival

#: The source port of the first socket; the others follow. Whoever is begun on one stays there, so
#: that a capture of one port has whole authentications. Kernels give none of them away.
FIRST_PORT, SOCKETS = 20_000, 8
#: As hostapd does: again after 3 s, and after twice as long each time.
RETRY_S, GIVE_UP_S = 3.0, 30.0
_IDENTIFIERS = 256
#: So many requests can wait for answers at once.
IN_FLIGHT = SOCKETS * _IDENTIFIERS
_NO_WORK_S = 1.0


class LoadError(Exception):
    """An authentication failed where none is to, and why."""


@dataclass(frozen=True)
class LoadTarget:
    """Whom to ask, and as whom; and whether to go before all else that computes there.

    In real time a machine may have one processor for all: who is due has not to wait for the
    server.
    """

    server: str
    address: str
    secret: str
    pki: str
    identity: str
    version: str = "1.2"
    port: int = 1812
    goes_first: bool = False


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
    free: deque[int] = field(default_factory=lambda: deque(range(_IDENTIFIERS)))
    waiting: dict[int, LoadAttempt] = field(default_factory=dict)


#: When to send again, the attempt's number and its packets by then, which order equal ones.
_Timer = tuple[float, int, int, LoadAttempt]


class _Scheduled:
    """Arrivals by the clock: all `rate` times as quick as the schedule, and begun so much late."""

    def __init__(self, arrivals: Iterator[ScheduledArrival], began_s: float, rate: float,
                 late_s: float) -> None:
        self.began_s = began_s
        self._arrivals, self._rate, self._late_s = arrivals, rate, late_s
        self._coming = next(arrivals)

    @property
    def begins_s(self) -> float:
        """When the next one is to be begun."""
        return self._due_s + self._late_s

    def take(self) -> tuple[float, ScheduledArrival]:
        """When the next one is due, and who; then it is the one after."""
        due_s, coming = self._due_s, self._coming
        self._coming = next(self._arrivals)
        return due_s, coming

    @property
    def _due_s(self) -> float:
        return self.began_s + self._coming.due_s / self._rate


class LoadGenerator:
    """Authenticates stations with one certificate, by RADIUS, straight at the server.

    A context manager; leaving it closes its sockets.
    """

    def __init__(self, target: LoadTarget) -> None:
        self._target = target
        self._secret = target.secret.encode()
        self._tls = self._context()
        self._sessions: dict[int, ssl.SSLSession] = {}
        #: Not before stations are asked to have one.
        self._keeps_sessions = False
        self._ports = [self._port(number) for number in range(SOCKETS)]
        self._by_descriptor = {port.socket.fileno(): port for port in self._ports}
        self._timers: list[_Timer] = []
        self._ended: list[LoadAttempt] = []
        self._started = self._under_way = 0
        self._instants = InstantTimer(REAL_AHEAD_S if target.goes_first else AHEAD_S,
                                      learns=target.goes_first)
        #: When whatever woke it came, as the clock was read last.
        self._now_s = time.monotonic()

    def __enter__(self) -> LoadGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self._instants.close()
        for port in self._ports:
            port.socket.close()

    def open_loop(self, arrivals: Iterator[ScheduledArrival], rate: float, stop: int,
                  late_s: float = 0.0) -> tuple[float, list[LoadAttempt]]:
        """Begin on schedule until `stop` is readable, then see those under way to their end.

        `rate` 1 is the schedule's own; 0.5 has everything take twice as long, and `late_s` begins
        everybody so much after they are due (negative controls). Gives the instant it began and all
        attempts.
        """
        scheduled = _Scheduled(arrivals, time.monotonic(), rate, late_s)
        self._ended, is_open = [], True
        while is_open or self._under_way:
            ready = self._wait(scheduled.begins_s if is_open else None, stop if is_open else None)
            is_open = is_open and stop not in ready
            self._begin_due(scheduled, is_open=is_open)
            for descriptor in ready:
                if descriptor != stop:
                    self._receive(self._by_descriptor[descriptor])
                    # An answer takes its time to be answered: whoever is due has not to wait for
                    # all of those that came at once.
                    self._begin_due(scheduled, is_open=is_open)
            self._retry()
        return scheduled.began_s, self._ended

    def _begin_due(self, scheduled: _Scheduled, *, is_open: bool) -> None:
        while is_open and scheduled.begins_s <= self._now_s:
            due_s, arrival = scheduled.take()
            self._begin(arrival, due_s)

    def closed_loop(self, customers: int, count: int, pauses_s: Sequence[float] = (), *,
                    reads_anew: bool = False) -> tuple[float, list[LoadAttempt]]:
        """So many authentications, `customers` of them at a time, each a full one.

        Before each there is a pause, one after the other of those, in which one customer alone
        leaves the server in peace. Each may read key and certificates anew, as hostap's peer does.
        Raises LoadError if one fails: what a server takes is not told by those.
        """
        began_s = time.monotonic()
        self._ended, begun, looked_at = [], 0, 0
        while len(self._ended) < count:
            while self._under_way < customers and begun < count:
                if pauses_s:
                    time.sleep(pauses_s[begun % len(pauses_s)])
                self._now_s = time.monotonic()
                self._begin(ScheduledArrival(0.0, begun, offers_session=False), self._now_s,
                            reads_anew=reads_anew)
                begun += 1
            for descriptor in self._wait(None, None):
                self._receive(self._by_descriptor[descriptor])
            self._retry()
            if reason := next((each.reason for each in self._ended[looked_at:] if each.reason), ""):
                raise LoadError(f"an authentication without other load failed: {reason}")
            looked_at = len(self._ended)
        return began_s, self._ended

    def prime(self, stations: int) -> list[LoadAttempt]:
        """Authenticate every station once, one after the other, so that each has a session."""
        self._keeps_sessions = True
        _, ended = self.closed_loop(1, stations)
        return ended

    def _context(self) -> ssl.SSLContext:
        return context(Path(self._target.pki), self._target.version)

    def _port(self, number: int) -> _Port:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        made.bind((self._target.address, FIRST_PORT + number))
        made.connect((self._target.server, self._target.port))
        made.settimeout(0)
        return _Port(made)

    def _begin(self, arrival: ScheduledArrival, due_s: float, *, reads_anew: bool = False) -> None:
        session = self._sessions.get(arrival.station) if arrival.offers_session else None
        if session is not None and self._target.version == "1.3":
            del self._sessions[arrival.station]  # a ticket is for one use (RFC 8446, C.4)
        peer = EapTlsPeer(self._context if reads_anew else lambda: self._tls,
                          self._target.identity, session)
        attempt = LoadAttempt(self._started, due_s, self._now_s, arrival.station,
                              self._started % SOCKETS, peer)
        self._started += 1
        self._under_way += 1
        self._ask(attempt, peer.identity(), b"")

    def _ask(self, attempt: LoadAttempt, eap: bytes, state: bytes) -> None:
        port = self._ports[attempt.socket]
        if not port.free:
            self._end(attempt, "no identifier is free")
            return
        # The one that was free for longest: a late answer is not taken for another's.
        attempt.identifier, attempt.authenticator = port.free.popleft(), os.urandom(16)
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
        heapq.heappush(self._timers, (self._now_s + wait_s, attempt.number, attempt.packets,
                                      attempt))

    def _wait(self, until_s: float | None, stop: int | None) -> list[int]:
        """Wait until then, or until something came or is to be sent again; what is readable."""
        while self._timers and not self._is_waiting(self._timers[0]):
            heapq.heappop(self._timers)
        waits_s = [self._timers[0][0]] if self._timers else []
        waits_s.append(self._now_s + _NO_WORK_S if until_s is None else until_s)
        ready, self._now_s = self._instants.wait(
            [*self._by_descriptor, *([] if stop is None else [stop])], min(waits_s))
        return ready

    def _is_waiting(self, timer: _Timer) -> bool:
        """Whether what it is about has no answer yet."""
        _, _, packets, attempt = timer
        port = self._ports[attempt.socket]
        return port.waiting.get(attempt.identifier) is attempt and attempt.packets == packets

    def _receive(self, port: _Port) -> None:
        """Take a datagram; where there are more, the port is found readable again."""
        try:
            data = port.socket.recv(4096)
        except (BlockingIOError, ConnectionRefusedError):
            return  # nobody listens yet, or any more
        self._now_s = time.monotonic()
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
        attempt.ended_s, attempt.reason = self._now_s, reason
        if attempt.peer is not None and not reason:
            attempt.is_resumed = attempt.peer.is_resumed
            # To read a session takes as long as a third of resuming it does, and in TLS 1.2 the one
            # that was resumed stays as it is.
            is_new = not attempt.is_resumed or self._target.version != "1.2"
            if self._keeps_sessions and is_new and (session := attempt.peer.session) is not None:
                self._sessions[attempt.station] = session
        attempt.peer, attempt.sent = None, b""
        self._under_way -= 1
        self._ended.append(attempt)

    def _retry(self) -> None:
        """Send again what was not answered in time, and give up on what never was."""
        while self._timers and self._timers[0][0] <= self._now_s:
            timer = heapq.heappop(self._timers)
            if not self._is_waiting(timer):
                continue
            attempt = timer[-1]
            if self._now_s - attempt.due_s > GIVE_UP_S:
                port = self._ports[attempt.socket]
                del port.waiting[attempt.identifier]
                port.free.append(attempt.identifier)
                self._end(attempt, "no answer")
                continue
            attempt.retransmitted += 1
            self._send(attempt, RETRY_S * 2 ** attempt.retransmitted)
