"""Generate load for a RADIUS server: start EAP-TLS authentications on schedule, and time each.

`LoadGenerator` takes a `LoadTarget` (server, secret and client certificate) and a schedule, such as
`poisson_arrivals`. It returns a `LoadAttempt` for each authentication, with due time, end and
result. The response time counts from the moment at which an authentication was due. No
authentication waits for an earlier answer, so a stalled server delays every authentication that
falls due meanwhile. A study starts it by `python3 -m measure.load`. Standard
library only.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import random
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from measure.cpu.clock import AHEAD_S, REAL_AHEAD_S, InstantTimer
from measure.load import eap_client
from measure.load.eap_client import EapTlsError, EapTlsPeer, create_tls_context

# --- Schedule of arrivals: times, stations, and offered TLS sessions ---

@dataclass(frozen=True)
class ScheduledArrival:
    """An authentication in the schedule, due `due_s` seconds after the load begins."""

    due_s: float
    station: int
    offers_session: bool


def poisson_arrivals(rate_per_s: float, seed: int, *, stations: int,
                     offering_share: float = 0.0) -> Iterator[ScheduledArrival]:
    """Yield authentications of a random schedule (Poisson arrivals), without end.

    Equal arguments yield equal arrivals. `offering_share` is the fraction of authentications that
    offer to resume a TLS session.
    """
    rng = random.Random(f"{seed}/{rate_per_s:g}")  # noqa: S311 - repeatable on purpose
    due_s = 0.0
    while True:
        due_s += rng.expovariate(rate_per_s)
        yield ScheduledArrival(due_s, rng.randrange(stations), rng.random() < offering_share)


def even_arrivals(rate_per_s: float, seed: int, *, stations: int,
                  offering_share: float = 0.0) -> Iterator[ScheduledArrival]:
    """Yield authentications at equal intervals instead of random ones, as a deliberate fault.

    The stations are the same as in `poisson_arrivals`.
    """
    arrivals = poisson_arrivals(rate_per_s, seed, stations=stations, offering_share=offering_share)
    for number, arrival in enumerate(arrivals, 1):
        yield replace(arrival, due_s=number / rate_per_s)


# --- Authentications in flight ---

#: The source port of the first socket; the others follow. One authentication keeps one socket, so a
#: capture of one port has whole authentications. The ports lie below Linux's default ephemeral
#: range.
FIRST_PORT, SOCKETS = 20_000, 8
#: Retransmission as in hostapd: after 3 s, then after twice as long each time; give up after 30 s.
RETRY_S, GIVE_UP_S = 3.0, 30.0
_IDENTIFIERS = 256
#: Limit of requests that can wait for answers at the same time.
IN_FLIGHT = SOCKETS * _IDENTIFIERS
_NO_WORK_S = 1.0


class LoadError(Exception):
    """An error: an authentication failed that must succeed. The text is the reason."""


@dataclass(frozen=True)
class LoadTarget:
    """RADIUS server and credentials to use, and whether to run at real-time priority.

    - `server`, `port`, `secret`: IP address, UDP port and RADIUS secret of the server
    - `address`: IP address of the load generator
    - `pki`, `identity`: folder with the clients' certificate and key, and their EAP identity
    - `version`: TLS version
    - `goes_first`: whether the load generator has real-time priority. In real time, a machine may
      have one processor for everything. With this priority, a due authentication starts without
      waiting for the server.
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
    """An authentication of the load generator, from its start to its result.

    Times are monotonic, in s.

    - `number`: its number, from 0
    - `due_s`, `begun_s`, `ended_s`: planned start, start and end
    - `station`, `socket`: numbers of the station, and of the socket that it uses
    - `is_resumed`: whether its TLS session was resumed
    - `packets`, `retransmitted`: number of requests, and of those that were sent again
    - `reason`: why it failed, "" if it did not
    - `identifier`, `authenticator`, `sent`: of the last RADIUS request, which `sent` has in full
    """

    number: int
    due_s: float
    begun_s: float
    station: int
    socket: int
    #: None once the attempt has ended: the TLS state takes tens of kilobytes per attempt.
    peer: EapTlsPeer | None
    is_resumed: bool = False
    ended_s: float = 0.0
    packets: int = 0
    retransmitted: int = 0
    reason: str = ""
    identifier: int = -1
    authenticator: bytes = b""
    sent: bytes = b""

    def to_row(self, since_s: float) -> list[Any]:
        """Return the authentication as a list, in the order of `ROW`.

        The due time is relative to `since_s`; the response time counts from the due time, in s.
        """
        return [round(self.due_s - since_s, 9), round(self.begun_s - self.due_s, 9),
                round(self.ended_s - self.due_s, 9), self.station, self.socket, self.packets,
                self.retransmitted, self.is_resumed, self.reason]


ROW = ("due_s", "late_s", "response_s", "station", "socket", "packets", "retransmitted", "resumed",
       "reason")


@dataclass
class _Port:
    """A UDP socket, with its free RADIUS identifiers and the requests without an answer."""

    socket: socket.socket
    free: deque[int] = field(default_factory=lambda: deque(range(_IDENTIFIERS)))
    waiting: dict[int, LoadAttempt] = field(default_factory=dict)


#: Time of the next transmission; number and packet count of the attempt break ties.
_Timer = tuple[float, int, int, LoadAttempt]


class _Scheduled:
    """A schedule of authentications, scaled by `rate` and delayed by `late_s`."""

    def __init__(self, arrivals: Iterator[ScheduledArrival], began_s: float, rate: float,
                 late_s: float) -> None:
        self.began_s = began_s
        self._arrivals, self._rate, self._late_s = arrivals, rate, late_s
        self._coming = next(arrivals)

    @property
    def begins_s(self) -> float:
        """Return when the next authentication starts (monotonic, s)."""
        return self._due_s + self._late_s

    def take_next(self) -> tuple[float, ScheduledArrival]:
        """Take the next authentication off the schedule, and return its due time and data."""
        due_s, coming = self._due_s, self._coming
        self._coming = next(self._arrivals)
        return due_s, coming

    @property
    def _due_s(self) -> float:
        return self.began_s + self._coming.due_s / self._rate


class LoadGenerator:
    """A RADIUS client that authenticates many stations with one certificate.

    It talks to the server directly, without an access point. A context manager; leaving it closes
    the sockets.
    """

    def __init__(self, target: LoadTarget) -> None:
        self._target = target
        self._secret = target.secret.encode()
        self._tls = self._create_context()
        self._sessions: dict[int, ssl.SSLSession] = {}
        #: False until `prime_sessions`: only then are sessions stored.
        self._keeps_sessions = False
        self._ports = [self._open_port(number) for number in range(SOCKETS)]
        self._by_descriptor = {port.socket.fileno(): port for port in self._ports}
        self._timers: list[_Timer] = []
        self._ended: list[LoadAttempt] = []
        self._started = self._under_way = 0
        self._instants = InstantTimer(REAL_AHEAD_S if target.goes_first else AHEAD_S,
                                      learns=target.goes_first)
        #: Time at which the last event arrived, as read from the clock last (monotonic, s).
        self._now_s = time.monotonic()

    def __enter__(self) -> LoadGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self._instants.close()
        for port in self._ports:
            port.socket.close()

    def open_loop(self, arrivals: Iterator[ScheduledArrival], rate: float, stop: int,
                  late_s: float = 0.0) -> tuple[float, list[LoadAttempt]]:
        """Start authentications on schedule until `stop` is readable, then finish the last ones.

        Args:
            arrivals: The schedule, without an end.
            rate: Factor on the arrival rate. 1 is the schedule's own rate; at 0.5 everything takes
                twice as long (negative control).
            stop: Descriptor that ends the schedule when it is readable.
            late_s: Delay of every start after its due time, in s (negative control).

        Returns:
            The start time of the schedule (monotonic, s) and all attempts.
        """
        scheduled = _Scheduled(arrivals, time.monotonic(), rate, late_s)
        self._ended, is_open = [], True
        while is_open or self._under_way:
            ready = self._wait_readable(scheduled.begins_s if is_open else None, stop if is_open
                                        else None)
            is_open = is_open and stop not in ready
            self._begin_due(scheduled, is_open=is_open)
            for descriptor in ready:
                if descriptor != stop:
                    self._receive_datagram(self._by_descriptor[descriptor])
                    # Answering takes time. A due authentication must not wait until every answer
                    # that arrived at once is handled.
                    self._begin_due(scheduled, is_open=is_open)
            self._retransmit_due()
        return scheduled.began_s, self._ended

    def _begin_due(self, scheduled: _Scheduled, *, is_open: bool) -> None:
        while is_open and scheduled.begins_s <= self._now_s:
            due_s, arrival = scheduled.take_next()
            self._begin_attempt(arrival, due_s)

    def closed_loop(self, customers: int, count: int, pauses_s: Sequence[float] = (), *,
                    reads_anew: bool = False) -> tuple[float, list[LoadAttempt]]:
        """Run `count` full authentications, at most `customers` of them at a time.

        Args:
            customers: The number of authentications in flight.
            count: The number of authentications in all.
            pauses_s: Idle times before each authentication, used in turn, in s (for one customer).
            reads_anew: Read key and certificates for each authentication, as hostap's peer does.

        Returns:
            The start time (monotonic, s) and all attempts.

        Raises:
            LoadError: An authentication failed, so the times do not show what the server needs.
        """
        began_s = time.monotonic()
        self._ended, begun, looked_at = [], 0, 0
        while len(self._ended) < count:
            while self._under_way < customers and begun < count:
                if pauses_s:
                    time.sleep(pauses_s[begun % len(pauses_s)])
                self._now_s = time.monotonic()
                self._begin_attempt(ScheduledArrival(0.0, begun, offers_session=False), self._now_s,
                                    reads_anew=reads_anew)
                begun += 1
            for descriptor in self._wait_readable(None, None):
                self._receive_datagram(self._by_descriptor[descriptor])
            self._retransmit_due()
            if reason := next((each.reason for each in self._ended[looked_at:] if each.reason), ""):
                raise LoadError(f"an authentication without other load failed: {reason}")
            looked_at = len(self._ended)
        return began_s, self._ended

    def prime_sessions(self, stations: int) -> list[LoadAttempt]:
        """Authenticate every station once, so that each has a TLS session to resume later."""
        self._keeps_sessions = True
        _, ended = self.closed_loop(1, stations)
        return ended

    def _create_context(self) -> ssl.SSLContext:
        return create_tls_context(Path(self._target.pki), self._target.version)

    def _open_port(self, number: int) -> _Port:
        port_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        port_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        port_socket.bind((self._target.address, FIRST_PORT + number))
        port_socket.connect((self._target.server, self._target.port))
        port_socket.settimeout(0)
        return _Port(port_socket)

    def _begin_attempt(self, arrival: ScheduledArrival, due_s: float, *,
                       reads_anew: bool = False) -> None:
        session = self._sessions.get(arrival.station) if arrival.offers_session else None
        if session is not None and self._target.version == "1.3":
            del self._sessions[arrival.station]  # a ticket is used once (RFC 8446, C.4)
        peer = EapTlsPeer(self._create_context if reads_anew else lambda: self._tls,
                          self._target.identity, session)
        attempt = LoadAttempt(self._started, due_s, self._now_s, arrival.station,
                              self._started % SOCKETS, peer)
        self._started += 1
        self._under_way += 1
        self._send_request(attempt, peer.identity(), b"")

    def _send_request(self, attempt: LoadAttempt, eap: bytes, state: bytes) -> None:
        port = self._ports[attempt.socket]
        if not port.free:
            self._end_attempt(attempt, "no identifier is free")
            return
        # The identifier that was free for longest: a late answer then matches no other request.
        attempt.identifier, attempt.authenticator = port.free.popleft(), os.urandom(16)
        attempt.sent = eap_client.build_access_request(
            attempt.identifier, attempt.authenticator, eap, user=self._target.identity,
            state=state, calling=f"02-00-00-00-{attempt.station >> 8:02x}-"
            f"{attempt.station & 255:02x}", nas=self._target.address, secret=self._secret)
        port.waiting[attempt.identifier] = attempt
        attempt.packets += 1
        self._transmit(attempt, RETRY_S)

    def _transmit(self, attempt: LoadAttempt, wait_s: float) -> None:
        with contextlib.suppress(OSError):  # like a lost packet: it is retransmitted
            self._ports[attempt.socket].socket.send(attempt.sent)
        heapq.heappush(self._timers, (self._now_s + wait_s, attempt.number, attempt.packets,
                                      attempt))

    def _wait_readable(self, until_s: float | None, stop: int | None) -> list[int]:
        """Wait for an answer until `until_s` or the next retransmission.

        Returns the readable file descriptors.
        """
        while self._timers and not self._is_waiting(self._timers[0]):
            heapq.heappop(self._timers)
        waits_s = [self._timers[0][0]] if self._timers else []
        waits_s.append(self._now_s + _NO_WORK_S if until_s is None else until_s)
        ready, self._now_s = self._instants.wait_until(
            [*self._by_descriptor, *([] if stop is None else [stop])], min(waits_s))
        return ready

    def _is_waiting(self, timer: _Timer) -> bool:
        """Return whether the RADIUS request of a timer has no answer yet."""
        _, _, packets, attempt = timer
        port = self._ports[attempt.socket]
        return port.waiting.get(attempt.identifier) is attempt and attempt.packets == packets

    def _receive_datagram(self, port: _Port) -> None:
        """Read one RADIUS answer from a UDP socket.

        select() reports the socket again if there are more.
        """
        try:
            data = port.socket.recv(4096)
        except (BlockingIOError, ConnectionRefusedError):
            return  # no server listens there, or no longer
        self._now_s = time.monotonic()
        packet = eap_client.parse_radius_packet(data)
        attempt = port.waiting.get(packet.identifier) if packet else None
        if packet and attempt and eap_client.is_radius_answer(data, attempt.authenticator,
                                                              self._secret):
            del port.waiting[packet.identifier]
            port.free.append(packet.identifier)
            self._handle_answer(attempt, packet)

    def _handle_answer(self, attempt: LoadAttempt, packet: eap_client.RadiusPacket) -> None:
        if packet.code != eap_client.ACCESS_CHALLENGE or attempt.peer is None:
            self._end_attempt(attempt, "" if packet.code == eap_client.ACCESS_ACCEPT
                              else "Access-Reject")
            return
        try:
            reply = attempt.peer.answer_request(packet.eap)
        except EapTlsError as error:
            self._end_attempt(attempt, str(error))
            return
        self._send_request(attempt, reply, packet.state)

    def _end_attempt(self, attempt: LoadAttempt, reason: str) -> None:
        attempt.ended_s, attempt.reason = self._now_s, reason
        if attempt.peer is not None and not reason:
            attempt.is_resumed = attempt.peer.is_resumed
            # Reading a session takes a third of the time of a resumption. With TLS 1.2 a resumed
            # session does not change.
            is_new = not attempt.is_resumed or self._target.version != "1.2"
            if self._keeps_sessions and is_new and (session := attempt.peer.session) is not None:
                self._sessions[attempt.station] = session
        attempt.peer, attempt.sent = None, b""
        self._under_way -= 1
        self._ended.append(attempt)

    def _retransmit_due(self) -> None:
        """Retransmit unanswered requests, and give up authentications after 30 s."""
        while self._timers and self._timers[0][0] <= self._now_s:
            timer = heapq.heappop(self._timers)
            if not self._is_waiting(timer):
                continue
            attempt = timer[-1]
            if self._now_s - attempt.due_s > GIVE_UP_S:
                port = self._ports[attempt.socket]
                del port.waiting[attempt.identifier]
                port.free.append(attempt.identifier)
                self._end_attempt(attempt, "no answer")
                continue
            attempt.retransmitted += 1
            self._transmit(attempt, RETRY_S * 2 ** attempt.retransmitted)
