"""Run the work of a Kerberos node (client, KDC, server or proxy) over UDP or TCP.

The work is a generator of steps, such as to send a request (`RequestStep`). `Host` runs it: it
sends the requests, returns the replies to the generator, and records times. It also waits for the
time that the work's operations take on the modelled slow processor. `serve_messages` listens on a
port, and answers each message. `VisitTally` and `TransactionStamps` have the counts and times for
the study's evaluation.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from protocols.kerberos import messages
from protocols.kerberos.messages import KrbError, KrbErrorCode
from protocols.kerberos.party import Party, PartyWork, PhaseMark, RequestStep
from protocols.kerberos.processor import Meter, OperationCost, SharedProcessor
from protocols.kerberos.suites import CipherSuite, RandomBytes

# --- Transport of messages over UDP and TCP ---
# Over TCP, a four-byte length precedes each message (RFC 4120, 7.2).

Address = tuple[str, int]
MessageAnswerer = Callable[[bytes], Awaitable[bytes]]
_LENGTH_BYTES, _MAX_MESSAGE = 4, 1 << 20


class _DatagramServer(asyncio.DatagramProtocol):
    """A UDP server that answers each datagram in its own task."""

    def __init__(self, answer: MessageAnswerer) -> None:
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for the answers."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: Address) -> None:
        """Start a task that answers the datagram."""
        task = asyncio.get_running_loop().create_task(self._send_reply(data, addr))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_reply(self, data: bytes, addr: Address) -> None:
        reply = await self._answer(data)
        if self._transport:
            self._transport.sendto(reply, addr)


async def serve_messages(address: Address, answer: MessageAnswerer) -> asyncio.Server:
    """Answer messages on a port over UDP and TCP until the program ends.

    Raises:
        OSError: the system refuses the port.
    """
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: _DatagramServer(answer), local_addr=address)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await _write_message(writer, await answer(await _read_message(reader)))
        except (asyncio.IncompleteReadError, OSError, ValueError):
            pass  # the peer has closed the connection, or does not speak Kerberos
        finally:
            writer.close()

    return await asyncio.start_server(connected, *address)


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    if size > _MAX_MESSAGE:
        raise ValueError(f"a message of {size} bytes")
    return await reader.readexactly(size)


async def _write_message(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
    await writer.drain()


class _DatagramClient(asyncio.DatagramProtocol):
    """A UDP client that queues received datagrams for the task that waits for a reply."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: Address) -> None:
        """Queue the received datagram."""
        self.received.put_nowait(data)


class OpenConnections:
    """Connections for one piece of work, kept open until `close`."""

    def __init__(self, addresses: Mapping[str, Address]) -> None:
        self._addresses = addresses
        self._streams: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        self._datagrams: dict[str, tuple[asyncio.DatagramTransport, _DatagramClient]] = {}

    async def send_request(self, to: str, transport: str, message: bytes) -> bytes:
        """Send a message to a node, and return the reply.

        Raises:
            OSError, asyncio.IncompleteReadError: the node cannot be reached, or ends the
                connection.
        """
        if transport == "udp":
            sender, waiting = await self._udp_socket(to)
            sender.sendto(message)
            return await waiting.received.get()
        reader, writer = await self._tcp_stream(to)
        await _write_message(writer, message)
        return await _read_message(reader)

    async def _udp_socket(self, to: str) -> tuple[asyncio.DatagramTransport, _DatagramClient]:
        if to not in self._datagrams:
            self._datagrams[to] = await asyncio.get_running_loop().create_datagram_endpoint(
                _DatagramClient, remote_addr=self._addresses[to])
        return self._datagrams[to]

    async def _tcp_stream(
            self, to: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if to not in self._streams:
            reader, writer = await asyncio.open_connection(*self._addresses[to])
            connection: socket.socket = writer.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._streams[to] = reader, writer
        return self._streams[to]

    def close(self) -> None:
        """Close all connections."""
        for _, writer in self._streams.values():
            writer.close()
        for sender, _ in self._datagrams.values():
            sender.close()


# --- Host that serves parties ---

class RequestAnswerer(Protocol):
    """An interface of nodes that answer requests: KDC, server and proxy."""

    @property
    def name(self) -> tuple[str, str]:
        """Return realm and principal of the node, for error messages."""

    def answer_request(self, party: Party, message: bytes) -> PartyWork:
        """Answer a message.

        Raises:
            KrbError: the request is refused.
        """


@dataclass
class VisitTally:
    """Count of requests of one kind at this node, with their CPU time (s) and operations."""

    visits: int = 0
    work_s: float = 0.0
    operations: Counter[str] = field(default_factory=Counter)


@dataclass
class TransactionStamps:
    """Times (ns, monotonic) of a login's requests, replies and phases."""

    asks: list[tuple[str, int, int]] = field(default_factory=list)
    marks: list[tuple[str, int]] = field(default_factory=list)


class Host:
    """A node with modelled processor, clock and times of operations.

    It counts requests and operations by kind of request.
    """

    def __init__(self, suite: CipherSuite, costs: Mapping[str, OperationCost],
                 processor: SharedProcessor,
                 addresses: Mapping[str, Address], random_bytes: RandomBytes, *,
                 clock_offset_ns: int = 0) -> None:
        self._suite, self._costs, self._processor = suite, costs, processor
        self._addresses, self._random_bytes = addresses, random_bytes
        self._offset_ns = clock_offset_ns
        self.tallies: dict[str, VisitTally] = {}

    def create_party(self) -> Party:
        """Create the cryptographic operations for one piece of work, with their meter."""
        return Party(self._suite, Meter(self._costs), self._random_bytes, self._now_ns)

    def _now_ns(self) -> int:
        return time.time_ns() + self._offset_ns

    def create_answerer(self, answering: RequestAnswerer) -> Callable[[bytes], Any]:
        """Return a function that answers messages with replies, or with error messages."""
        async def answer(message: bytes) -> bytes:
            party, about = self.create_party(), message_class(message)
            realm, name = answering.name
            try:
                return await self.run_work(answering.answer_request(party, message), party, about,
                                           message)
            except KrbError as refusal:
                await self._settle_work(party, about)
                # A refusal by a remote party is forwarded with its code and text.
                return messages.error_message(refusal, self._now_ns(), realm, name)
        return answer

    async def run_work(self, work: PartyWork, party: Party, about: str,
                       message: bytes | None = None,
                       stamps: TransactionStamps | None = None) -> bytes:
        """Run a piece of work (a generator), and return its answer.

        Args:
            work: the generator to run.
            party: operations and meter of the work.
            about: kind of request, under which the work is counted.
            message: the request that caused the work, if any. Its handling is charged.
            stamps: receives the times of requests and phases, if given.

        Raises:
            KrbError: a request was refused.
        """
        exchange = OpenConnections(self._addresses)
        if message is not None:
            party.meter.charge(_message_operation(message), len(message))
        reply = None
        try:
            while True:
                step = work.send(reply)  # type: ignore[arg-type]
                if isinstance(step, PhaseMark):
                    await self._settle_work(party, about)
                    if stamps:
                        stamps.marks.append((step.name, time.monotonic_ns()))
                    reply = b""
                    continue
                party.meter.charge(f"message-{step.transport}", len(step.message))
                await self._settle_work(party, about)
                asked_ns = time.monotonic_ns()
                reply = await _send_request(exchange, step)
                if stamps:
                    stamps.asks.append((step.to, asked_ns, time.monotonic_ns()))
                party.meter.charge(f"message-{step.transport}", len(reply))
        except StopIteration as end:
            answer: bytes = end.value
            if message is not None:
                party.meter.charge(_message_operation(message), len(answer))
            await self._settle_work(party, about)
            return answer
        finally:
            exchange.close()

    async def _settle_work(self, party: Party, about: str) -> None:
        """Wait for the time that the operations so far take on the modelled processor.

        Operations and time are added to `tallies`.
        """
        owed_s, done = party.meter.take_owed(), party.meter.operations.copy()
        party.meter.operations.clear()
        if not done:
            return
        work_s = self._processor.draw_work(owed_s)
        tally = self.tallies.setdefault(about, VisitTally())
        # Counted at the start: work still under way at the end is then over-counted, not missed.
        tally.visits += 1
        tally.operations += done
        tally.work_s += work_s
        await self._processor.do_work(work_s)


async def _send_request(exchange: OpenConnections, step: RequestStep) -> bytes:
    """Send a request and return the reply.

    Raises:
        KrbError: the node cannot be reached.
    """
    try:
        return await exchange.send_request(step.to, step.transport, step.message)
    except (OSError, asyncio.IncompleteReadError):
        raise KrbError(KrbErrorCode.UNAVAILABLE, f"{step.to} does not answer") from None


def _message_operation(message: bytes) -> str:
    """Return the name of the operation of handling a message, which depends on UDP or TCP.

    Messages with certificates use TCP.
    """
    kind = messages.kind_of(message)
    if kind == "ProxyRequest":
        inner = messages.decode_message(kind, message)["message"]
        return _message_operation(inner)
    is_tcp = kind == "AS-REQ" and "padata" in messages.decode_message(kind, message)
    return "message-tcp" if is_tcp else "message-udp"


def message_class(message: bytes) -> str:
    """Return the kind of a request, by which work is counted.

    The queueing model of the 2002 paper has these kinds as classes of customers. PKINIT,
    cross-realm and PKCROSS requests have kinds of their own.
    """
    kind = messages.kind_of(message)
    try:
        if kind == "ProxyRequest":
            return f"proxied {message_class(messages.decode_message(kind, message)['message'])}"
        if kind in ("AS-REQ", "TGS-REQ"):
            value = messages.decode_message(kind, message)
            if value["req-body"]["kdc-options"][0] == messages.PKCROSS_OPTION:
                return "PKCROSS AS-REQ"
            if kind == "TGS-REQ" and value["req-body"]["sname"]["name-string"][0] == "krbtgt":
                return "cross-realm TGS-REQ"
            return f"PKINIT {kind}" if kind == "AS-REQ" and "padata" in value else kind
    except (KrbError, KeyError, IndexError):
        pass
    return kind or "unknown"
