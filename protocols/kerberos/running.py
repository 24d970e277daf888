"""Run the work of parties: wait for charged time, send requests and record events."""

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
    """A party that answers requests."""

    @property
    def name(self) -> tuple[str, str]:
        """Return realm and principal for error messages."""

    def answer_request(self, party: Party, message: bytes) -> Work:
        """Answer a message. Raises Refusal."""


@dataclass
class VisitTally:
    """Visits of one class to this node: number, work (s) and operations."""

    visits: int = 0
    work_s: float = 0.0
    operations: Counter[str] = field(default_factory=Counter)


@dataclass
class Stamps:
    """Monotonic times (ns) of a transaction's requests, replies and marks."""

    asks: list[tuple[str, int, int]] = field(default_factory=list)
    marks: list[tuple[str, int]] = field(default_factory=list)


class Host:
    """A node with processor, clock and costs.

    It keeps tallies by class of request.
    """

    def __init__(self, suite: Suite, costs: Mapping[str, Cost], processor: SharedProcessor,
                 addresses: Mapping[str, Address], random_bytes: RandomBytes, *,
                 clock_offset_ns: int = 0) -> None:
        self._suite, self._costs, self._processor = suite, costs, processor
        self._addresses, self._random_bytes = addresses, random_bytes
        self._offset_ns = clock_offset_ns
        self.tallies: dict[str, VisitTally] = {}

    def create_party(self) -> Party:
        """Create the party for one piece of work."""
        return Party(self._suite, Meter(self._costs), self._random_bytes, self._now_ns)

    def _now_ns(self) -> int:
        return time.time_ns() + self._offset_ns

    def create_answerer(self, answering: Answering) -> Callable[[bytes], Any]:
        """Return a function that answers messages with a party's replies or refusals."""
        async def answer(message: bytes) -> bytes:
            party, about = self.create_party(), class_of(message)
            realm, name = answering.name
            try:
                return await self.run_work(answering.answer_request(party, message), party, about,
                                           message)
            except Refusal as refusal:
                await self._settle_work(party, about)
                # A refusal by a remote party is forwarded with its code and text.
                return messages.error_message(refusal, self._now_ns(), realm, name)
        return answer

    async def run_work(self, work: Work, party: Party, about: str, message: bytes | None = None,
                       stamps: Stamps | None = None) -> bytes:
        """Run a piece of work and return its answer. Raises Refusal.

        Args:
            work: The generator to run.
            party: Operations and meter of the work.
            about: Class of the visit, under which costs are tallied.
            message: The request that caused the work, if any. Its handling is charged.
            stamps: Receives the times of requests and marks, if given.
        """
        exchange = OpenConnections(self._addresses)
        if message is not None:
            party.meter.charge(_message_operation(message), len(message))
        reply = None
        try:
            while True:
                step = work.send(reply)  # type: ignore[arg-type]
                if isinstance(step, Mark):
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
        """Wait until all charged work is done, and count the work as one visit."""
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


async def _send_request(exchange: OpenConnections, step: Ask) -> bytes:
    """Send a request and return the reply. Raises Refusal if the party is unreachable."""
    try:
        return await exchange.send_request(step.to, step.transport, step.message)
    except (OSError, asyncio.IncompleteReadError):
        raise Refusal(RefusalCode.UNAVAILABLE, f"{step.to} does not answer") from None


def _message_operation(message: bytes) -> str:
    """Return the operation for handling a message: messages with certificates use TCP."""
    kind = messages.kind_of(message)
    if kind == "ProxyRequest":
        inner = messages.decode(kind, message)["message"]
        return _message_operation(inner)
    is_tcp = kind == "AS-REQ" and "padata" in messages.decode(kind, message)
    return "message-tcp" if is_tcp else "message-udp"


def class_of(message: bytes) -> str:
    """Return the class of customers that a request belongs to.

    The class is the kind of message, refined for PKINIT, cross-realm and PKCROSS requests.
    """
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
