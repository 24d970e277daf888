"""Parties' work is run here: what it owes is waited for, what it asks is sent, all is noted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from protocols.kerberos import messages
from protocols.kerberos.errors import Refusal, RefusalCode
from protocols.kerberos.meter import Cost, Meter
from protocols.kerberos.party import Party
from protocols.kerberos.processor import SharedProcessor
from protocols.kerberos.steps import Ask, Mark, Work
from protocols.kerberos.suites import RandomBytes, Suite
from protocols.kerberos.wire import Address, OpenConnections


class Answering(Protocol):
    """A party that others ask."""

    @property
    def name(self) -> tuple[str, str]:
        """Realm and principal, as errors name them."""

    def answer(self, party: Party, message: bytes) -> Work:
        """The reply to a message. Raises Refusal."""


@dataclass
class VisitTally:
    """Visits of a class to this node: how many, their work (s), and their operations."""

    visits: int = 0
    work_s: float = 0.0
    operations: Counter[str] = field(default_factory=Counter)


@dataclass
class Stamps:
    """When a transaction asked and was answered, and its marks (ns of the machine's clock)."""

    asks: list[tuple[str, int, int]] = field(default_factory=list)
    marks: list[tuple[str, int]] = field(default_factory=list)


class Host:
    """A node with processor, clock and costs; tallies are by the message that asked for work."""

    def __init__(self, suite: Suite, costs: Mapping[str, Cost], processor: SharedProcessor,
                 addresses: Mapping[str, Address], random_bytes: RandomBytes, *,
                 clock_offset_ns: int = 0) -> None:
        self._suite, self._costs, self._processor = suite, costs, processor
        self._addresses, self._random_bytes = addresses, random_bytes
        self._offset_ns = clock_offset_ns
        self.tallies: dict[str, VisitTally] = {}

    def party(self) -> Party:
        """For one piece of work."""
        return Party(self._suite, Meter(self._costs), self._random_bytes, self._now_ns)

    def _now_ns(self) -> int:
        return time.time_ns() + self._offset_ns

    def answering(self, answering: Answering) -> Callable[[bytes], Any]:
        """What answers messages with a party's replies, or with its refusals."""
        async def answer(message: bytes) -> bytes:
            party, about = self.party(), class_of(message)
            realm, name = answering.name
            try:
                return await self.run(answering.answer(party, message), party, about, message)
            except Refusal as refusal:
                await self._settle(party, about)
                # What somebody further on refuses is passed on as it came.
                return messages.error_message(refusal, self._now_ns(), realm, name)
        return answer

    async def run(self, work: Work, party: Party, about: str, message: bytes | None = None,
                  stamps: Stamps | None = None) -> bytes:
        """A piece of work from its first step to its answer. Raises Refusal."""
        exchange = OpenConnections(self._addresses)
        if message is not None:
            party.meter.charge(_message_operation(message), len(message))
        reply = None
        try:
            while True:
                step = work.send(reply)  # type: ignore[arg-type]
                if isinstance(step, Mark):
                    await self._settle(party, about)
                    if stamps:
                        stamps.marks.append((step.name, time.monotonic_ns()))
                    reply = b""
                    continue
                party.meter.charge(f"message-{step.transport}", len(step.message))
                await self._settle(party, about)
                asked_ns = time.monotonic_ns()
                reply = await _asked(exchange, step)
                if stamps:
                    stamps.asks.append((step.to, asked_ns, time.monotonic_ns()))
                party.meter.charge(f"message-{step.transport}", len(reply))
        except StopIteration as end:
            answer: bytes = end.value
            if message is not None:
                party.meter.charge(_message_operation(message), len(answer))
            await self._settle(party, about)
            return answer
        finally:
            exchange.close()

    async def _settle(self, party: Party, about: str) -> None:
        """Wait until everything owed is done, and count it as a visit."""
        owed_s, done = party.meter.take(), party.meter.operations.copy()
        party.meter.operations.clear()
        if not done:
            return
        work_s = self._processor.drawn(owed_s)
        tally = self.tallies.setdefault(about, VisitTally())
        # Counted when it begins: what is still under way at the end is long rather than short.
        tally.visits += 1
        tally.operations += done
        tally.work_s += work_s
        await self._processor.work(work_s)


async def _asked(exchange: OpenConnections, step: Ask) -> bytes:
    """The reply to a question. Raises Refusal where nobody answers."""
    try:
        return await exchange.ask(step.to, step.transport, step.message)
    except (OSError, asyncio.IncompleteReadError):
        raise Refusal(RefusalCode.UNAVAILABLE, f"{step.to} does not answer") from None


def _message_operation(message: bytes) -> str:
    """What handling a message of this transport costs; what has certificates goes by TCP."""
    kind = messages.kind_of(message)
    if kind == "ProxyRequest":
        inner = messages.decode(kind, message)["message"]
        return _message_operation(inner)
    is_tcp = kind == "AS-REQ" and "padata" in messages.decode(kind, message)
    return "message-tcp" if is_tcp else "message-udp"


def class_of(message: bytes) -> str:
    """The class of customers that a request belongs to: its kind, and by PKCROSS which."""
    kind = messages.kind_of(message)
    try:
        if kind == "ProxyRequest":
            return f"proxied {class_of(messages.decode(kind, message)['message'])}"
        if kind in ("AS-REQ", "TGS-REQ"):
            value = messages.decode(kind, message)
            if value["req-body"]["kdc-options"][0] == messages.PKCROSS_OPTION:
                return "PKCROSS AS-REQ"
            if kind == "TGS-REQ" and value["req-body"]["sname"]["name-string"][0] == "krbtgt":
                return "cross-realm TGS-REQ"
            return f"PKINIT {kind}" if kind == "AS-REQ" and "padata" in value else kind
    except (Refusal, KeyError, IndexError):
        pass
    return kind or "unknown"
