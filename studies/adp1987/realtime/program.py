"""A host's program in real time: it hands a trace's messages over, or takes them at the other end.

`python3 -m studies.adp1987.realtime.program JOB.json`: the source does what standard input says,
the sink counts what arrives and says so, and both write their log when the input ends. The sender
has no more under way than a window: what the other end has not counted yet must fit its buffers
and the wire's queue.
Where messages may be lost on the way (`may_lose`), nobody waits for them long: the sink is told
when a phase is over, and notes how many have arrived.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
import zlib
from pathlib import Path
from typing import Any

from studies.adp1987.payload import Payload
from studies.adp1987.processor import sharp_timers
from studies.adp1987.realtime.carriers import Carrier, make, wait

#: Messages and bytes that may be under way, and what the sink counts before it says so.
WINDOW, REPORT = (128, 65_536), (32, 16_384)
_COUNT_BYTES = 4
_PATIENCE_S = 20.0
_QUIET_S = 0.2
#: By then, what is under way has arrived, or is lost: of a window, and at the end.
_LOST_S, _LATE_S = 0.5, 3.0


class TraceSource:
    """Phases of one trace, each message by its number in the trace."""

    def __init__(self, job: dict[str, Any], carrier: Carrier) -> None:
        self._job, self._carrier = job, carrier
        self._payload = Payload(job["seed"])
        self.log: dict[str, Any] = {"phases": {}}
        self._sent = self._counted = 0
        #: What the network adds to all that is waited for (s).
        self._added_s = float(job.get("added_s", 0.0))

    def establish(self) -> None:
        """Have the carrier ready; if it is not by then, the evidence says so."""
        self._carrier.establish()
        self._rest(_QUIET_S + self._added_s)
        until_s = time.monotonic() + _PATIENCE_S + 10 * self._added_s
        while not self._carrier.is_established() and time.monotonic() < until_s:
            wait(self._carrier, until_s)
            self._take()

    def quiet(self) -> None:
        """Hear what the sink has to say of the phase before."""
        self._rest(_QUIET_S + self._added_s)

    def begin_anew(self) -> None:
        """A negative control's: go on with another kernel session, and so with another channel."""
        self._carrier.begin_anew()  # type: ignore[attr-defined]
        self._rest(_QUIET_S + self._added_s)

    def replay(self, name: str) -> None:
        """A phase: in the trace's own time, or as fast as the other end counts."""
        phase = json.loads(Path(self._job["phases"][name]).read_text())
        messages, base = phase["messages"], self._counted
        start_s = time.monotonic()
        due_ns = self._saturated(messages) if phase["saturated"] else self._paced(
            messages, start_s)
        if not self._job["may_lose"]:
            self._until(base + len(messages))
        self.log["phases"][name] = {"due_ns": due_ns}
        self._rest((_LATE_S if self._job["may_lose"] else _QUIET_S) + self._added_s)

    def _paced(self, messages: list[Any], start_s: float) -> list[int]:
        for number, (at_s, size, urgent) in enumerate(messages):
            self._rest(start_s + at_s - time.monotonic())
            self._send(number, size, time.monotonic(), urgent=urgent)
        return [round((start_s + at_s) * 1e9) for at_s, _, _ in messages]

    def _saturated(self, messages: list[Any]) -> list[int]:
        handed, ends, total, given_up = [], [0], 0, 0
        base, (most, most_bytes) = self._counted, self._job["window"]
        for number, (_, size, urgent) in enumerate(messages):
            while True:
                over = min(number, self._counted - base + given_up)
                if number - over < most and total - ends[over] + size <= most_bytes:
                    break
                if not self._hear():
                    given_up = number - (self._counted - base)
            now_s = time.monotonic()
            handed.append(round(now_s * 1e9))
            self._send(number, size, now_s, urgent=urgent)
            total += size
            ends.append(total)
        return handed

    def _send(self, number: int, size: int, now_s: float, *, urgent: bool) -> None:
        self._carrier.send(self._payload.of(number, size), now_s, urgent=urgent)
        self._sent += 1
        self._carrier.tick(now_s)

    def _until(self, count: int) -> None:
        """Until the other end has counted so many."""
        while self._counted < count:
            self._hear()

    def _hear(self) -> bool:
        """Wait for the other end's count; whether it came before all seems lost.

        Raises TimeoutError where nothing can be.
        """
        may_lose, before = self._job["may_lose"], self._counted
        until_s = time.monotonic() + (_LOST_S if may_lose else _PATIENCE_S) + self._added_s
        while self._counted == before:
            wait(self._carrier, until_s)
            self._take()
            if time.monotonic() >= until_s:
                if may_lose:
                    return False
                raise TimeoutError(f"{self._sent - self._counted} of {self._sent} messages did "
                                   "not arrive")
        return True

    def _rest(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            wait(self._carrier, until_s)
            self._take()

    def _take(self) -> None:
        for data in self._carrier.receive():
            self._counted = max(self._counted, int.from_bytes(data[:_COUNT_BYTES]))


class TraceCounter:
    """What arrives, with its time; `totals` are counts at which a phase is over."""

    def __init__(self, job: dict[str, Any], carrier: Carrier) -> None:
        self._carrier = carrier
        self._totals = set(job["totals"])
        self._counts_from, self._counts_after = job["counts_from"], job["counts_after"]
        self._report_messages, self._report_bytes = job["report"]
        self.log: dict[str, Any] = {"delivered": [], "ends": {}}
        self._reported = self._bytes = 0

    def serve(self) -> None:
        """Take what arrives, and note the ends of phases, until nobody wants anything any more."""
        while True:
            if wait(self._carrier, None, [sys.stdin]):
                name = sys.stdin.readline().strip()
                if not name:
                    return
                self._end(name)
            self._take()

    def _end(self, phase: str) -> None:
        """A phase is over: so much has arrived, on which the other end counts if it is to."""
        self._take()
        count = self.log["ends"][phase] = len(self.log["delivered"])
        if phase == self._counts_after:
            self._counts_from = count
        self._report(count, time.monotonic())
        print(f"done {phase}", flush=True)

    def _take(self) -> None:
        arrived = self._carrier.receive()
        now_s, delivered = time.monotonic(), self.log["delivered"]
        at_ns = round(now_s * 1e9)
        for data in arrived:
            delivered.append((at_ns, len(data), zlib.crc32(data)))
            self._bytes += len(data)
            count = len(delivered)
            if count in self._totals or (count > self._counts_from and (
                    count - self._reported >= self._report_messages
                    or self._bytes >= self._report_bytes)):
                self._report(count, now_s)

    def _report(self, count: int, now_s: float) -> None:
        self._carrier.send(count.to_bytes(_COUNT_BYTES), now_s, urgent=True)
        self._reported, self._bytes = count, 0


def main(path: str) -> int:
    """Run either end to the end of its input."""
    job: dict[str, Any] = json.loads(Path(path).read_text())
    sharp_timers()
    # Who is woken by a message does not push its sender off the processor that they share here.
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    carrier = make(job)
    print("ready", flush=True)
    if job["role"] == "sink":
        counter = TraceCounter(job, carrier)
        counter.serve()
        log = counter.log
        if job.get("is_false"):  # a negative control's: the last message is not told
            log["ends"][max(log["ends"], key=log["ends"].__getitem__)] -= 1
            log["delivered"].pop()
    else:
        source = TraceSource(job, carrier)
        commands = {"establish": source.establish, "quiet": source.quiet,
                    "begin-anew": source.begin_anew}
        for line in sys.stdin:
            name = line.strip()
            if name in commands:
                commands[name]()
            else:
                source.replay(name)
            print(f"done {line.strip()}", flush=True)
        log = source.log
    log |= {"notes": getattr(carrier, "notes", []), "keys": getattr(carrier, "keys", [])}
    Path(job["log"]).write_bytes(gzip.compress(json.dumps(log).encode(), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
