"""Control interface of hostapd and wpa_supplicant: a command socket and an event socket.

The protocol is that of hostap's `wpa_ctrl.c`: datagrams on a UNIX socket. Events begin with a level
in angle brackets.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import socket
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from measure.deadlines import wait_at_most
from measure.errors import MeasureError

_COUNTER = itertools.count()
#: Event name and text. The text of a `CTRL-REQ-…` follows a colon, which is no part of the name.
_EVENT = re.compile(r"^<\d+>(CTRL-REQ-[A-Z_]+-\d+(?=:)|\S+)[ :]?(.*)$", re.DOTALL)
_REPLY_S = 5.0


@functools.cache
def private_folder() -> tempfile.TemporaryDirectory[str]:
    """Create a folder for the client ends of the sockets, removed when this process ends.

    The random name cannot be taken in advance by another user of the machine.
    """
    return tempfile.TemporaryDirectory(prefix="qop-ctrl-", dir="/tmp")


@dataclass(frozen=True)
class Event:
    """An event, with the wall-clock time in seconds at which it was read."""

    at_s: float
    name: str
    text: str


def parse_event(datagram: bytes, at_s: float) -> Event | None:
    """Parse a datagram as an event, or return None if it is no event."""
    match = _EVENT.match(datagram.decode("utf-8", "replace").rstrip("\n"))
    return Event(at_s, match[1], match[2]) if match else None


class ControlSocket:
    """A connection to one control socket. A context manager; leaving it closes both sockets."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._path = path
        self.history: list[Event] = []
        self._sockets: list[socket.socket] = []
        try:
            self._commands = self._connect()
            self._events = self._connect()
            self._expect_reply(self._events, "ATTACH", "OK\n")
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> ControlSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        for sock in self._sockets:
            local = sock.getsockname()
            sock.close()
            Path(local).unlink(missing_ok=True)

    @property
    def events(self) -> socket.socket:
        """Return the event socket, for callers that wait for many daemons at once."""
        return self._events

    def request(self, command: str) -> str:
        """Send a command and return the reply.

        Raises:
            MeasureError: There is no reply.
        """
        try:
            self._commands.send(command.encode())
            return self._commands.recv(65536).decode("utf-8", "replace")
        except OSError as error:
            raise self._no_reply(command, error) from error

    def read_status(self) -> dict[str, str]:
        """Return the keys and values of the daemon's STATUS reply."""
        lines = self.request("STATUS").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def send_command(self, command: str) -> None:
        """Send a command and check that the reply is OK.

        Raises:
            MeasureError: There is no reply, or another one.
        """
        self._expect_reply(self._commands, command, "OK\n")

    def wait_event(self, names: set[str], deadline_s: float) -> Event | None:
        """Return the next event with one of these names, or None at the deadline.

        Every event that is read meanwhile is kept in `history`. The socket's time limit is set only
        once: setting it for each event would cost time while something is timed.

        Args:
            names: Names of events.
            deadline_s: Deadline on the monotonic clock, in s.
        """
        if (left_s := deadline_s - time.monotonic()) <= 0:
            return None
        wait_at_most(self._events, left_s)
        while time.monotonic() < deadline_s:
            try:
                datagram = self._events.recv(65536)
            except BlockingIOError:
                break
            event = parse_event(datagram, time.time())
            if event is None:
                continue
            self.history.append(event)
            if event.name in names:
                return event
        return None

    def read_pending(self) -> list[Event]:
        """Return the unread events without waiting for more."""
        self._events.settimeout(0)
        datagrams = []
        with contextlib.suppress(BlockingIOError):
            while datagram := self._events.recv(65536):
                datagrams.append(datagram)
        at_s = time.time()
        return [event for datagram in datagrams if (event := parse_event(datagram, at_s))]

    def drop_events(self) -> None:
        """Drop the unread events and the history."""
        self.read_pending()
        self.history = []

    def _connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        local = f"{private_folder().name}/{next(_COUNTER)}"
        sock.bind(local)
        wait_at_most(sock, _REPLY_S)
        try:
            sock.connect(str(self._path))
        except OSError as error:
            sock.close()
            Path(local).unlink(missing_ok=True)
            raise MeasureError("testbed", f"{self.name}: control socket {self._path} "
                               f"cannot be reached ({error})") from error
        self._sockets.append(sock)
        return sock

    def _expect_reply(self, sock: socket.socket, command: str, expected: str) -> None:
        wait_at_most(sock, _REPLY_S)
        try:
            sock.send(command.encode())
            while True:
                reply = sock.recv(65536)
                if not reply.startswith(b"<"):
                    break
        except OSError as error:
            raise self._no_reply(command, error) from error
        if reply.decode("utf-8", "replace") != expected:
            raise MeasureError("testbed", f"{self.name}: {_command_name(command)} was refused: "
                               f"{reply.decode('utf-8', 'replace').strip()}")

    def _no_reply(self, command: str, error: OSError) -> MeasureError:
        why = "timed out" if isinstance(error, BlockingIOError) else error
        return MeasureError("testbed", f"{self.name}: no reply to {_command_name(command)} ({why})")


def disconnect(supplicant: ControlSocket) -> None:
    """Disconnect and flush scan results and cached keys."""
    supplicant.send_command("DISABLE_NETWORK 0")
    supplicant.send_command("BSS_FLUSH 0")
    # Otherwise the next authentication would be a four-way handshake with this one's cached key.
    supplicant.send_command("PMKSA_FLUSH")


def is_port_open(status: Mapping[str, str]) -> bool:
    """Return whether a supplicant's STATUS shows that its port passes data frames.

    Only 802.1X has a controlled port.
    """
    has_port = "802.1X" in status.get("key_mgmt", "802.1X")
    return not has_port or status.get("suppPortStatus") == "Authorized"


def _command_name(command: str) -> str:
    """Return a command without its arguments, which may be secret."""
    return command.split(maxsplit=1)[0]
