"""Run the main loop of Authenticast's server and client: sockets, timers and commands.

`Loop` waits for datagrams and timers, and gives commands on standard input to the program.
`UdpPort` is a UDP socket with kernel time stamps and drop counts. `WallClock` is the machine's
clock. `SteppedClock` advances in fixed steps, so that two runs are equal. `write_event` writes
events as JSON lines to standard output. The protocol logic itself has no sockets and no clock.
"""

from __future__ import annotations

import functools
import json
import os
import random
import secrets
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from protocols.fields import Fields, whole_number

# --- Clocks: the machine's own clock, and a stepped clock for repeatable runs ---
# On an emulated machine, the clock stands still while programs compute. It still advances a little
# with each reading and with the kernel's own work. Events of two equal runs are therefore late by
# some microseconds, and not by the same number.
# With a stepped clock, all actions of a step happen at its beginning. A datagram that arrives
# during a step counts as arrived at the next step. While delays are shorter than a step, two runs
# have exactly the same times.

_MAX_WAIT_S = 3600.0


@dataclass(frozen=True)
class ClockSteps:
    """Parameters of a clock that advances in steps of `ns` nanoseconds.

    A step begins at `origin_ns` of the machine's clock, when the stepped clock shows `start_ns`. A
    socket sends at most `burst_bytes` in a step, so that a burst arrives before the next step.
    """

    ns: int
    origin_ns: int
    start_ns: int
    burst_bytes: int


class WallClock:
    """A clock in nanoseconds since 1970 that never jumps, even if the machine's clock is set."""

    burst_bytes: int | None = None

    def __init__(self) -> None:
        self._epoch_ns = time.time_ns() - time.monotonic_ns()

    def now_ns(self) -> int:
        """Return the current time (ns since 1970)."""
        return self._epoch_ns + time.monotonic_ns()

    def arrived_ns(self, stamp_ns: int) -> int:
        """Convert the kernel's time stamp of a datagram to this clock.

        The machine's clock may be set while the program runs, so only the age of the time stamp is
        used.
        """
        return self.now_ns() - max(0, time.time_ns() - stamp_ns)

    def resume_ns(self, *times_ns: int) -> int:
        """Return the start time (ns) of work that had to wait: now.

        A stepped clock ignores the present time, and returns the latest of `times_ns`.

        Args:
            times_ns: All times that the work had to wait for, such as the arrival of a datagram,
                and the end of the processor's earlier work.
        """
        del times_ns
        return self.now_ns()

    def wait_s(self, due_ns: int | None) -> float:
        """Return the seconds until a time, 0 if it is past, and one hour for None."""
        return _MAX_WAIT_S if due_ns is None else max(0.0, (due_ns - self.now_ns()) / 1e9)

    def update_time(self) -> None:
        """Do nothing. A stepped clock is updated here after each wait."""

    def wait_until(self, due_ns: int) -> None:
        """Sleep until a time (ns), or return at once if it is past."""
        if due_ns > self.now_ns():
            time.sleep(self.wait_s(due_ns))
            self.update_time()


class SteppedClock(WallClock):
    """A clock that advances in fixed steps, and only when the program has waited.

    Two runs with such a clock process the same packets at the same times.
    """

    def __init__(self, steps: ClockSteps) -> None:
        super().__init__()
        self._steps = steps
        self.burst_bytes = steps.burst_bytes
        self._now_ns = steps.start_ns
        self.update_time()

    def now_ns(self) -> int:
        """Return the beginning (ns) of the step in which the clock was last updated."""
        return self._now_ns

    def arrived_ns(self, stamp_ns: int) -> int:
        """Return the beginning (ns) of the first step that is not before a datagram's arrival."""
        return self._begin_ns(self._shown_ns(stamp_ns))

    def resume_ns(self, *times_ns: int) -> int:
        """Return the start time (ns) of work that had to wait: the latest of `times_ns`.

        A program with a stepped clock runs only at the beginning of a step. With this start time,
        the duration of its work is nevertheless exact.

        Args:
            times_ns: All times that the work had to wait for, such as the arrival of a datagram,
                and the end of the processor's earlier work.
        """
        return max(times_ns)

    def wait_s(self, due_ns: int | None) -> float:
        """Return the seconds until the first step that does not begin before the given time."""
        if due_ns is None:
            return _MAX_WAIT_S
        return max(0.0, (self._begin_ns(due_ns) - self._shown_ns(time.time_ns())) / 1e9)

    def update_time(self) -> None:
        """Advance the clock to the current step of the machine's clock."""
        passed = (self._shown_ns(time.time_ns()) - self._steps.start_ns) // self._steps.ns
        self._now_ns = max(self._now_ns, self._steps.start_ns + passed * self._steps.ns)

    def _shown_ns(self, machine_ns: int) -> int:
        return self._steps.start_ns + machine_ns - self._steps.origin_ns

    def _begin_ns(self, time_ns: int) -> int:
        """Return the beginning (ns) of the first step that is not before a time."""
        return time_ns + (self._steps.start_ns - time_ns) % self._steps.ns


def take_clock(reader: Fields) -> Callable[[], WallClock]:
    """Return a function that creates the configured clock: the machine's, or one in steps.

    Raises:
        ConfigError: the configuration of the clock is wrong.
    """
    step_ns = reader.take("step_ns", whole_number(0, 1_000_000_000), 0)
    steps = ClockSteps(step_ns, reader.take("origin_ns", whole_number(0, 1 << 62), 0),
                       reader.take("start_ns", whole_number(0, 1 << 62), 0),
                       reader.take("burst_bytes", whole_number(1, 1 << 30), 1 << 30))
    reader.end()
    return functools.partial(SteppedClock, steps) if step_ns else WallClock


# --- Events: one JSON object a line on standard output, with its time ---

def write_event(event: str, at_s: float | None = None, **fields: object) -> None:
    """Write an event as a line of JSON to standard output.

    Args:
        event: name of the event.
        at_s: its time in seconds since 1970 (default: now).
        fields: further values of the event.
    """
    at_s = time.time() if at_s is None else at_s
    try:
        sys.stdout.write(json.dumps({"event": event, "at_s": at_s, **fields}) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe. The stream continues without output.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the program's end


# --- Non-blocking UDP socket with arrival times and drop counts from the kernel ---

Address = tuple[str, int]
_MAX_DATAGRAM = 65535
# Socket options from Linux' <asm/socket.h> that Python's socket module does not name.
_SO_TIMESTAMPNS = 35
_SO_RXQ_OVFL = 40
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=9I")
_TIMESPEC = struct.Struct("@ll")
_DROPS = struct.Struct("@I")
_ANCILLARY_BYTES = 128


@dataclass(frozen=True)
class StampedDatagram:
    """A received datagram with its source address, arrival time and the socket's drop count.

    `dropped` is the number of datagrams that the kernel had dropped before this one.
    """

    datagram: bytes
    source: Address
    arrived_ns: int
    dropped: int


class UdpPort:
    """A UDP socket that never blocks.

    Raises:
        OSError: the system refuses the address, port or buffer size.
    """

    def __init__(self, clock: WallClock, address: str, port: int,
                 buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            if buffer_bytes is not None:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            for option in (_SO_RXQ_OVFL, _SO_TIMESTAMPNS):
                self.socket.setsockopt(socket.SOL_SOCKET, option, 1)
            self.socket.bind((address, port))
        except OSError:
            self.socket.close()
            raise
        self._clock = clock
        self._dropped = 0
        #: A datagram that was read before its arrival time (stepped clock only).
        self._early: StampedDatagram | None = None
        self._out: deque[tuple[bytes, Address]] = deque()
        self._burst = (0, 0)

    def __enter__(self) -> UdpPort:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @property
    def number(self) -> int:
        """Return the port number of the socket."""
        return int(self.socket.getsockname()[1])

    @property
    def is_ahead(self) -> bool:
        """Return whether a datagram is queued that has not arrived yet on the program's clock.

        That happens with a stepped clock: the datagram counts as arrived at the next step.
        """
        return self._early is not None

    def due_ns(self) -> int | None:
        """Return when a queued datagram can be received or sent (ns), or None without one."""
        times = [self._early.arrived_ns] if self._early else []
        times += [self._clock.now_ns() + 1] if self._out else []
        return min(times, default=None)

    def receive(self) -> StampedDatagram | None:
        """Return the next datagram that has arrived, or None."""
        arrival, self._early = self._early or self._read_socket(), None
        if arrival is not None and arrival.arrived_ns > self._clock.now_ns():
            self._early = arrival
            return None
        return arrival

    def read_drop_count(self) -> int:
        """Return how many datagrams the kernel has dropped at this socket (full buffer)."""
        info = self.socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
        return int(_MEMINFO.unpack(info)[8])

    def send(self, payload: bytes, destination: Address) -> None:
        """Send a datagram, after all datagrams that are already queued."""
        self._out.append((payload, destination))
        self.flush()

    def flush(self) -> None:
        """Send queued datagrams, as many as the clock's limit per step permits.

        If the system refuses a datagram, it is lost, and an event `error` reports that.
        """
        while self._out and self._has_room(len(self._out[0][0])):
            payload, to = self._out.popleft()
            try:
                self.socket.sendto(payload, to)
            except OSError as error:
                write_event("error", self._clock.now_ns() / 1e9,
                            reason=f"{to[0]}: {error.strerror}")

    def _has_room(self, size: int) -> bool:
        """Count bytes to send in this step, and return whether they are within the limit.

        The first datagram of a step may have any size.
        """
        limit, now_ns = self._clock.burst_bytes, self._clock.now_ns()
        if limit is None:
            return True
        used = self._burst[1] if self._burst[0] == now_ns else 0
        if used and used + size > limit:
            return False
        self._burst = now_ns, used + size
        return True

    def _read_socket(self) -> StampedDatagram | None:
        try:
            datagram, ancillary, _, source = self.socket.recvmsg(_MAX_DATAGRAM, _ANCILLARY_BYTES)
        except (BlockingIOError, ConnectionRefusedError):
            return None  # refused: the other program has ended, which its silence will show
        arrived_ns = self._clock.now_ns()
        for _, kind, data in ancillary:
            if kind == _SO_RXQ_OVFL:
                self._dropped, = _DROPS.unpack_from(data)
            elif kind == _SO_TIMESTAMPNS:
                seconds, ns = _TIMESPEC.unpack_from(data)
                arrived_ns = self._clock.arrived_ns(seconds * 1_000_000_000 + ns)
        return StampedDatagram(datagram, source, arrived_ns, self._dropped)


# --- Main loop ---

#: Share of its timeout by which select may be late (Linux, fs/select.c), and the shortest timeout
#: for which the loop compensates.
_SLACK, _LONG_S = 0.001, 0.05


def random_bytes(seed: int | None) -> Callable[[int], bytes]:
    """Return a function that returns random bytes, from the system or repeatable from a seed.

    Bytes from a seed can be predicted, so they are not secret.
    """
    return secrets.token_bytes if seed is None else random.Random(seed).randbytes  # noqa: S311


def _is_command_source(descriptor: int) -> bool:
    """Return whether a file descriptor is a pipe, socket or terminal, which can send commands."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


class Loop:
    """A loop that waits for datagrams, commands and timers.

    SIGTERM, SIGINT and the end of standard input end the loop.
    """

    def __init__(self, clock: WallClock, command: Callable[[dict[str, Any]], None]) -> None:
        self._clock = clock
        self._command = command
        self._ports: list[UdpPort] = []
        self._buffer = b""
        self.ended = False
        self._wake, self._wakes = socket.socketpair()
        for end in (self._wake, self._wakes):
            end.settimeout(0)
        signal.set_wakeup_fd(self._wakes.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.end())
        # A file or /dev/null has no commands, and would always be at its end.
        self._has_input = _is_command_source(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        signal.set_wakeup_fd(-1)
        self._wake.close()
        self._wakes.close()

    def add_port(self, port: UdpPort) -> None:
        """Add a socket whose datagrams end a wait."""
        self._ports.append(port)

    def end(self) -> None:
        """End the loop after the current step."""
        self.ended = True

    def write_event(self, event: str, at_ns: int | None = None, **fields: object) -> None:
        """Write an event as a line of JSON to standard output (default time: now)."""
        write_event(event, (self._clock.now_ns() if at_ns is None else at_ns) / 1e9, **fields)

    def wait(self, due_ns: int | None) -> set[UdpPort]:
        """Wait for datagrams until a time, run the user's commands, and send queued datagrams.

        Args:
            due_ns: time (ns) at which the wait ends. None means no limit. A signal, or a queued
                datagram that is due, ends the wait earlier.

        Returns:
            The sockets that can be read.
        """
        times = [due_ns, *(port.due_ns() for port in self._ports)]
        due_ns = min((time_ns for time_ns in times if time_ns is not None), default=None)
        watched = [port for port in self._ports if not port.is_ahead]
        # select waits to the microsecond; epoll and poll wait for whole milliseconds.
        sources: list[socket.socket | int] = [self._wake, *(port.socket for port in watched)]
        sources += [0] if self._has_input else []
        left_s = self._clock.wait_s(due_ns)
        # The kernel may be late by a thousandth of a timeout. So a long wait ends early, and the
        # caller waits again for the rest.
        readable, _, _ = select.select(sources, [], [],
                                       left_s if left_s < _LONG_S else left_s * (1 - 2 * _SLACK))
        self._clock.update_time()
        if self._wake in readable:
            self._wake.recv(64)
        if self._has_input and 0 in readable:
            self._read_commands()
        for port in self._ports:
            port.flush()
        return {port for port in self._ports if port.is_ahead or port.socket in readable}

    def _read_commands(self) -> None:
        data = os.read(0, 65536)
        if not data:
            self.end()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in filter(None, lines):
            try:
                command = json.loads(line)
            except ValueError:
                command = None
            if isinstance(command, dict):
                self._command(command)
            else:
                self.write_event("error", reason="a command is a JSON object on a line of its own")
