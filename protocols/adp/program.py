"""Run one ADP host as a program: `python3 -m protocols.adp.program CONFIG.json`.

ADP is the Authenticated Datagram Protocol, for secure messages between hosts. The program reads
commands from standard input, such as to send a message. It writes events as JSON lines to standard
output, such as a delivered message. `DatagramSocket` sends and receives the datagrams by IP or UDP.
`HostEndpoint` connects it to the protocol logic (`protocols.adp.host`), a clock and random bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from protocols.adp.config import HostConfig, load_config
from protocols.adp.crypto import Operation
from protocols.adp.effects import DeliverMessage, Effect, Message, ProgramEvent, SendFrame
from protocols.adp.host import create_host
from protocols.adp.packets import AdpError
from protocols.fields import ConfigError

# --- Datagram service: sockets for IP with a protocol number, or for UDP ---

_BUFFER_BYTES = 1 << 20
_MAX_DATAGRAM_BYTES = 65_535
#: Linux constants. Datagrams are fragmented wherever a link is too small. Path MTU discovery would
#: drop them and report an error, but ADP knows no links.
IP_MTU_DISCOVER, IP_PMTUDISC_DONT = 10, 0


class DatagramSocket:
    """A socket for ADP datagrams, over IP or UDP.

    IP fragments datagrams that exceed the MTU of the link.
    """

    def __init__(self, kind: str, number: int, address: str) -> None:
        """Open the socket.

        Raises:
            OSError: the system refuses it. A raw IP socket needs CAP_NET_RAW.
        """
        self._is_raw = kind == "ip"
        self._port = 0 if self._is_raw else number
        if self._is_raw:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, number)
        else:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
            self._socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
            self._socket.bind((address, self._port))
            self._socket.settimeout(0)
            # One buffer for all datagrams: allocating 64 kB takes longer than processing many a
            # datagram.
            self._buffer = memoryview(bytearray(_MAX_DATAGRAM_BYTES))
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the file descriptor to wait for."""
        return self._socket.fileno()

    def send(self, payload: bytes, address: str) -> None:
        """Send a datagram.

        It is lost if the socket's buffer is full.

        Raises:
            OSError: the system refuses the datagram.
        """
        with contextlib.suppress(BlockingIOError):
            self._socket.sendto(payload, (address, self._port))

    def receive(self) -> tuple[bytes, str] | None:
        """Return a datagram and its sender's address, or None if none has arrived."""
        try:
            size, (address, port) = self._socket.recvfrom_into(self._buffer)
        except (BlockingIOError, ConnectionRefusedError):
            return None
        data = self._buffer[:size]
        if self._is_raw:
            return bytes(data[4 * (data[0] & 0x0F):]), address
        return (bytes(data), address) if port == self._port else (b"", address)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


# --- Host with commands and events ---

_LONGEST_WAIT_S = 3600.0
_COMMANDS = {"send", "open", "status", "stop"}
_SEND_KEYS = {"do", "source", "host", "destination", "port", "text", "data_hex", "urgent",
              "max_delay_s", "private"}


def write_event(event: str, **fields: object) -> None:
    """Write one event with the current time to standard output, as a line of JSON."""
    sys.stdout.write(json.dumps({"event": event, "at_s": time.time(), **fields}) + "\n")
    sys.stdout.flush()


class HostEndpoint:
    """A running host: protocol logic with socket, clock and random bytes.

    `report` gets every action. `meter` is called for every operation, so that a modelled processor
    can take its time before datagrams are sent.
    """

    def __init__(self, config: HostConfig, datagrams: DatagramSocket,
                 meter: Callable[[Operation, int], None],
                 report: Callable[[Effect], None]) -> None:
        self._hosts = {address: host for host, address in config.addresses.items()}
        self._addresses = config.addresses
        self._datagrams = datagrams
        self._report = report
        self._config, self._meter = config, meter
        self.start_session()

    def start_session(self) -> None:
        """Start the host as after a reboot, without earlier state."""
        config = self._config
        self.host = create_host(config.version, host=config.host, keys=config.keys,
                                directory=config.directory, settings=config.settings,
                                random=os.urandom, meter=self._meter)

    def read_datagram(self) -> bool:
        """Process one datagram, and return whether one had arrived."""
        received = self._datagrams.receive()
        if received is None:
            return False
        payload, address = received
        source = self._hosts.get(address, address)
        self.perform_effects(self.host.receive(payload, source, time.monotonic()))
        return True

    def wait_s(self) -> float | None:
        """Return the seconds until the next timer, or None without a timer."""
        deadline_s = self.host.deadline_s()
        return None if deadline_s is None else max(0.0, deadline_s - time.monotonic())

    def tick(self) -> None:
        """Do what is due, such as sending queued messages."""
        deadline_s = self.host.deadline_s()
        if deadline_s is not None and deadline_s <= time.monotonic():
            self.perform_effects(self.host.tick(time.monotonic()))

    def perform_effects(self, effects: list[Effect]) -> None:
        """Send the datagrams among the actions, and report every action in order."""
        for effect in effects:
            if isinstance(effect, SendFrame):
                try:
                    self._datagrams.send(effect.payload, self._addresses[effect.host])
                except OSError as error:
                    # The datagram counts as lost on the way; the protocol repeats what must arrive.
                    self._report(ProgramEvent("error",
                                              {"host": effect.host, "reason": error.strerror}))
            self._report(effect)


class Program:
    """A host that reads commands from standard input, and writes events to standard output."""

    def __init__(self, config: HostConfig, datagrams: DatagramSocket) -> None:
        self._config = config
        self._operations: Counter[Operation] = Counter()
        self.endpoint = HostEndpoint(config, datagrams, self._count_operation, _report_effect)
        self._pending = b""
        self.ended = False

    def start(self) -> None:
        """Establish the channels that the configuration lists under `ahead`."""
        for host, owners in self._config.ahead.items():
            self.endpoint.perform_effects(
                self.endpoint.host.open_channel(host, owners, time.monotonic()))

    def stop(self) -> None:
        """Send all messages that still wait."""
        self.endpoint.perform_effects(self.endpoint.host.stop(time.monotonic()))

    def read_commands(self) -> None:
        """Run commands from standard input, one per line. The end of input stops the program."""
        data = os.read(sys.stdin.fileno(), 65_536)
        if not data:
            self.ended = True
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            try:
                self._run_command(json.loads(line))
            except (AdpError, ValueError, RecursionError) as error:
                write_event("error", reason=f"command: {error}")

    def operation_counts(self) -> dict[str, int]:
        """Return how many operations of each kind the host has done."""
        return {str(operation): count for operation, count in sorted(self._operations.items())}

    def _count_operation(self, operation: Operation, size: int) -> None:
        self._operations[operation] += 1

    def _run_command(self, command: object) -> None:
        if not (isinstance(command, dict) and isinstance(command.get("do"), str)
                and command["do"] in _COMMANDS):
            raise AdpError(f"do: {', '.join(sorted(_COMMANDS))}")
        now_s = time.monotonic()
        match command["do"]:
            case "send":
                self.endpoint.perform_effects(self.endpoint.host.send(_parse_message(command),
                                                                      now_s))
            case "open":
                owners = command.get("owners", [])
                if not (isinstance(owners, list) and all(isinstance(name, str) for name in owners)):
                    raise AdpError("owners: a list of names is needed")
                self.endpoint.perform_effects(
                    self.endpoint.host.open_channel(str(command.get("host")), owners, now_s))
            case "status":
                write_event("status", operations=self.operation_counts())
            case _:
                self.ended = True


def _parse_message(command: dict[str, Any]) -> Message:
    """Return the message of a `send` command.

    Raises:
        AdpError: a key is unknown, missing, or has a wrong type.
    """
    unknown = command.keys() - _SEND_KEYS
    if unknown:
        raise AdpError(f"unknown: {', '.join(sorted(unknown))}")
    kinds: dict[str, type | tuple[type, ...]] = {
        "source": str, "host": str, "destination": str, "port": int, "text": str, "data_hex": str,
        "urgent": bool, "private": bool, "max_delay_s": (int, float)}
    for key, kind in kinds.items():
        value = command.get(key)
        if key in command and (not isinstance(value, kind)
                               or isinstance(value, bool) is not (kind is bool)):
            raise AdpError(f"{key}: not {value!r}")
    for key in ("source", "host", "destination"):
        if key not in command:
            raise AdpError(f"{key} is missing")
    if ("text" in command) is ("data_hex" in command):
        raise AdpError("text or data_hex is needed")
    data = (command["text"].encode() if "text" in command
            else bytes.fromhex(command["data_hex"]))
    return Message(command["source"], command["host"], command["destination"],
                   command.get("port", 0), data, urgent=command.get("urgent", False),
                   max_delay_s=command.get("max_delay_s"), private=command.get("private", False))


def _report_effect(effect: Effect) -> None:
    match effect:
        case SendFrame():
            write_event("shipped", host=effect.host, bytes=len(effect.payload),
                        messages=effect.messages,
                        cause=str(effect.cause))
        case DeliverMessage():
            write_event("delivered", source=effect.source, source_host=effect.source_host,
                        destination=effect.destination, port=effect.port, private=effect.private,
                        data_hex=effect.data.hex())
        case ProgramEvent():
            write_event(effect.event, **effect.fields)


def _run_loop(program: Program, datagrams: DatagramSocket) -> None:
    selector = selectors.DefaultSelector()
    selector.register(datagrams.fileno(), selectors.EVENT_READ, program.endpoint.read_datagram)
    selector.register(sys.stdin.fileno(), selectors.EVENT_READ, program.read_commands)
    wakes, wake = os.pipe()
    os.set_blocking(wake, False)
    # Turn signals into readable data, so that no operation is interrupted.
    signal.set_wakeup_fd(wake)
    selector.register(wakes, selectors.EVENT_READ, lambda: os.read(wakes, 64))

    def end(*_: object) -> None:
        program.ended = True
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    while not program.ended:
        wait_s = program.endpoint.wait_s()
        # Limit the timeout to a value that every system accepts.
        for key, _ in selector.select(None if wait_s is None else min(wait_s, _LONGEST_WAIT_S)):
            key.data()
        program.endpoint.tick()


def main(arguments: list[str]) -> int:
    """Run a host until it is stopped.

    Returns:
        The exit status: 2 if the configuration cannot be used, 1 if the system refuses an
        operation.
    """
    if len(arguments) != 1:
        sys.stderr.write("usage: python3 -m protocols.adp.program CONFIG.json\n")
        return 2
    try:
        config = load_config(Path(arguments[0]))
    except ConfigError as error:
        write_event("failed", reason=str(error))
        return 2
    address = config.addresses[config.host]
    try:
        datagrams = DatagramSocket(config.network.kind, config.network.number, address)
    except OSError as error:
        write_event("failed", reason=f"{config.network.kind} on {address}: {error.strerror}")
        return 1
    try:
        program = Program(config, datagrams)
        write_event("ready", host=config.host, address=address, protocol=config.version)
        program.start()
        _run_loop(program, datagrams)
        program.stop()
    except PermissionError:
        write_event("failed", reason="standard input: a pipe or a terminal is needed, no file")
        return 1
    finally:
        datagrams.close()
    write_event("stopped", operations=program.operation_counts())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
