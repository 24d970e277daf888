"""Transport of messages over UDP and TCP.

Over TCP, a four-byte length precedes each message (RFC 4120, 7.2).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

Address = tuple[str, int]
Answering = Callable[[bytes], Awaitable[bytes]]
_LENGTH_BYTES, _MAX_MESSAGE = 4, 1 << 20


class _Datagrams(asyncio.DatagramProtocol):
    """A UDP endpoint that answers each datagram in its own task."""

    def __init__(self, answer: Answering) -> None:
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


async def serve(address: Address, answer: Answering) -> asyncio.Server:
    """Answer on a port over UDP and TCP until the program ends. Raises OSError."""
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: _Datagrams(answer), local_addr=address)

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


class _Waiting(asyncio.DatagramProtocol):
    """A UDP endpoint that queues received datagrams for the requester."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: Address) -> None:
        """Queue the datagram."""
        self.received.put_nowait(data)


class OpenConnections:
    """Connections of one piece of work, kept open until `close`."""

    def __init__(self, addresses: Mapping[str, Address]) -> None:
        self._addresses = addresses
        self._streams: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        self._datagrams: dict[str, tuple[asyncio.DatagramTransport, _Waiting]] = {}

    async def send_request(self, to: str, transport: str, message: bytes) -> bytes:
        """Send a message and return the reply.

        Raises OSError and asyncio.IncompleteReadError.
        """
        if transport == "udp":
            sender, waiting = await self._udp_socket(to)
            sender.sendto(message)
            return await waiting.received.get()
        reader, writer = await self._tcp_stream(to)
        await _write_message(writer, message)
        return await _read_message(reader)

    async def _udp_socket(self, to: str) -> tuple[asyncio.DatagramTransport, _Waiting]:
        if to not in self._datagrams:
            self._datagrams[to] = await asyncio.get_running_loop().create_datagram_endpoint(
                _Waiting, remote_addr=self._addresses[to])
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
